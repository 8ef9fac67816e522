package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.file.Files;
import java.util.Map;
import org.junit.jupiter.api.Test;
import speed.errors.AccessDeniedException;

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

    @Test
    void aNodeAnswersWhoItDoesNotAllowToWrite() throws IOException {
        try (Node server = root.node("server", "caller"); Node caller = root.node("caller")) {
            server.register("one", request -> 1);
            assertEquals(1L, caller.call("server", "one", Map.of()));
            assertThrows(AccessDeniedException.class, () -> server.send("caller", "unasked"));
        }
    }
}
