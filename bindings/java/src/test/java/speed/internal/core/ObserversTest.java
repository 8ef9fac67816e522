package speed.internal.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import speed.errors.ConfigurationException;
import speed.internal.wire.Contract;
import speed.internal.wire.Entry;
import speed.internal.wire.Observers;

/** Who may look at a node without a grant, by the contract's vectors. */
class ObserversTest {
    private static final Contract VECTORS = Contract.vectors("observers");

    @TestFactory
    Stream<DynamicTest> theOwnerOfARootNamesObserversInAText() {
        return VECTORS.each("texts", one -> {
            byte[] text = one.bytes("hex");
            if (one.get("names") == null) {
                assertThrows(ConfigurationException.class, () -> Observers.parse(text));
            } else {
                assertEquals(one.get("names"), Observers.parse(text));
            }
        });
    }

    @TestFactory
    Stream<DynamicTest> anEntrySaysWhoMayLook() {
        return VECTORS.each("askers", one -> {
            Entry entry = publishing(
                    texts(one, "allow"), texts(one, "deny"), texts(one, "identities"), texts(one, "observers"));
            boolean writes = entry.grants(one.text("asker"), "");
            assertEquals(one.get("writes"), writes);
            assertEquals(one.get("looks"), writes || entry.isObservedBy(one.text("asker")));
        });
    }

    @TestFactory
    Stream<DynamicTest> aNodeDecidesAsItsEntrySays() {
        return VECTORS.each("published", one -> {
            String[] allow = texts(one, "allow").toArray(String[]::new);
            boolean isGrantedLast = (Boolean) one.get("granted_last");
            AccessPolicy policy = isGrantedLast ? new AccessPolicy() : new AccessPolicy(allow);
            policy.deny(texts(one, "deny").toArray(String[]::new));
            if (isGrantedLast) {
                policy.allow(allow);
            }
            policy.observe(texts(one, "observers"));
            assertEquals(one.get("published_deny"), policy.denied());
            assertEquals(one.get("observes"), policy.observes(one.text("asker")));
            assertEquals(one.get("allows"), policy.allows(one.text("asker")));
        });
    }

    @Test
    void aNameMayLookLikeAFingerprint() {
        String name = "ab".repeat(20);
        AccessPolicy policy = new AccessPolicy(name);
        assertEquals(List.of(name), policy.allowed());
        assertTrue(policy.allows(name));
    }

    @Test
    void observersStayWhenGrantsChange() {
        AccessPolicy policy = new AccessPolicy();
        policy.observe(List.of("cli.*"));
        policy.allow("web");
        policy.deny("etl.*");
        assertEquals(List.of("cli.*"), policy.observers());
        assertTrue(policy.observes("cli.1"));
        assertTrue(policy.publishes("cli.1"));
        assertFalse(policy.allows("cli.1"));
    }

    private static Entry publishing(
            List<String> allow, List<String> deny, List<String> identities, List<String> observers) {
        Entry.Published published =
                new Entry.Published(Entry.ONLINE, List.of(), allow, deny, List.of(), List.of(), identities, observers);
        return new Entry(
                "pricing",
                1,
                new Entry.Process(1, 1, "", "host", ""),
                new Entry.Times(0, 0, 0, 1, 1),
                published,
                "java",
                "1",
                List.of(),
                false);
    }

    private static List<String> texts(Contract one, String name) {
        return ((List<?>) one.get(name)).stream().map(String.class::cast).toList();
    }
}
