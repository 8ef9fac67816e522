package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.file.Files;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import speed.errors.AccessDeniedException;
import speed.errors.ConfigurationException;

/** Who may do what, and when a change of it counts. */
class AccessTest extends TwoNodes {
    @Test
    void withoutAGrantNothingTouchesTheDisk() throws IOException {
        try (Node stranger = root.node("stranger")) {
            assertThrows(AccessDeniedException.class, () -> stranger.send("billing", "hello"));
            assertFalse(Files.exists(root.path().resolve("billing/inbox/stranger")));
        }
    }

    @Test
    void aDenialTakesEffectAtOnce() {
        billing.register("one", request -> 1);
        call("one");
        billing.deny("analytics");
        assertThrows(AccessDeniedException.class, () -> call("one"));
    }

    /** the grants in force are those that are published. */
    @Test
    void grantsThatDoNotFitTheEntryAreNotInForceAndHinderNoOthers() {
        String[] tooMany = IntStream.range(0, 1_000)
                .mapToObj("a.name.as.long.as.some.are.%050d"::formatted)
                .toArray(String[]::new);
        assertThrows(ConfigurationException.class, () -> billing.allow(tooMany));
        assertEquals(List.of("analytics"), billing.allowed());
        billing.allow("guest");
        NodeInfo seen = analytics.nodes().stream()
                .filter(node -> node.name().equals("billing"))
                .findFirst()
                .get();
        assertEquals(List.of("analytics", "guest"), seen.allow());
    }

    /** */
    @Test
    void aDeniedSenderOfAGrantedFamilyWritesNothing() throws IOException {
        try (Node server = root.node("server", "etl.*");
                Node denied = root.node("etl.1");
                Node other = root.node("etl.2")) {
            server.deny("etl.1");
            assertThrows(AccessDeniedException.class, () -> denied.send("server", 1));
            other.send("server", 2);
            NodeInfo seen = other.nodes().stream()
                    .filter(node -> node.name().equals("server"))
                    .findFirst()
                    .get();
            assertEquals(List.of("etl.1"), seen.deny());
        }
    }

    @Test
    void aNodeAnswersWhoItDoesNotAllowToWrite() throws IOException {
        try (Node server = root.node("server", "caller");
                Node caller = root.node("caller")) {
            server.register("one", request -> 1);
            assertEquals(1L, caller.call("server", "one", Map.of()));
            assertThrows(AccessDeniedException.class, () -> server.send("caller", "unasked"));
        }
    }
}
