package speed.internal.core;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Locale;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.function.Executable;
import speed.errors.ConfigurationException;
import speed.errors.InvalidNameException;
import speed.internal.core.LaneDecoder.LinkReceiver;
import speed.internal.core.Lease.Verdict;
import speed.internal.wire.Contract;
import speed.internal.wire.Entry;
import speed.internal.wire.Header.Sequence;

/** Leases, sequences (L-12, L-13) and grants. */
class LeaseTest {
    private static final long HEARTBEAT = 100_000;
    private static final Entry ENTRY = entry("boot", HEARTBEAT, 30_000);

    private static Entry entry(String boot, long heartbeat, long lease) {
        return new Entry(
                "a",
                1,
                new Entry.Process(1, 1, "ns", "host", boot),
                new Entry.Times(0, 0, heartbeat, lease, 5_000),
                new Entry.Published(Entry.ONLINE, List.of(), List.of(), List.of(), List.of(), List.of()),
                "java",
                "1",
                List.of(),
                false);
    }

    /** */
    @Test
    void theVerdictFollowsTheTable() {
        assertEquals(Verdict.LIVE, Lease.judge(ENTRY, "boot", HEARTBEAT + 30_000, false, 99_999));
        assertEquals(Verdict.STALE, Lease.judge(ENTRY, "boot", HEARTBEAT + 30_001, false, 0));
        assertEquals(Verdict.STALE, Lease.judge(ENTRY, "boot", HEARTBEAT, true, 0));
        assertEquals(Verdict.WATCH, Lease.judge(ENTRY, "boot", HEARTBEAT - 1, false, 30_000));
        assertEquals(Verdict.STALE, Lease.judge(ENTRY, "boot", HEARTBEAT - 1, false, 30_001));
        assertEquals(Verdict.WATCH, Lease.judge(ENTRY, "other", HEARTBEAT + 99_999, false, 0));
        assertEquals(Verdict.STALE, Lease.judge(ENTRY, "other", HEARTBEAT, false, 30_001));
    }

    /** */
    @Test
    void anOwnerStopsWhenItsLeaseRanOutAndForGood() {
        Lease lease = new Lease(1000, 0);
        assertFalse(lease.mustStop(1000));
        lease.renew(900);
        assertFalse(lease.mustStop(1900));
        assertTrue(lease.mustStop(1901));
        lease.renew(5000);
        assertTrue(lease.mustStop(5000));
    }

    /** */
    @TestFactory
    Stream<DynamicTest> anObserverSaysWhatTheContractSays() {
        return Contract.vectors("leases").each("judged", one -> {
            Entry entry = entry(one.text("boot"), one.number("heartbeat"), one.number("lease"));
            Verdict verdict = Lease.judge(
                    entry,
                    one.text("observer"),
                    one.number("now"),
                    one.text("process").equals("gone"),
                    one.number("unchanged"));
            assertEquals(Verdict.valueOf(one.text("verdict").toUpperCase(Locale.ROOT)), verdict);
        });
    }

    /** */
    @TestFactory
    Stream<DynamicTest> anOwnerStopsWhenTheContractSays() {
        return Contract.vectors("leases").each("owned", one -> {
            Lease lease = new Lease(one.number("lease"), one.number("renewed"));
            for (Object each : (List<?>) one.get("looks")) {
                List<?> look = (List<?>) each;
                assertEquals(look.get(1), lease.mustStop((Long) look.get(0)));
                if (look.get(2) != null) {
                    lease.renew((Long) look.get(2));
                }
            }
        });
    }

    /** */
    @TestFactory
    Stream<DynamicTest> aNodeStartsWithTheSettingsThatTheContractAllows() {
        return Contract.vectors("leases").each("settings", one -> {
            Executable check = () -> Lease.check(one.number("lease"), one.number("heartbeat"), one.number("late"));
            if ((Boolean) one.get("starts")) {
                assertDoesNotThrow(check);
            } else {
                assertThrows(ConfigurationException.class, check);
            }
        });
    }

    /** */
    @Test
    void aLeaseExceedsThreeHeartbeats() {
        Lease.check(3001, 1000, 0);
        Lease.check(63_001, 1000, 60_000);
        assertThrows(ConfigurationException.class, () -> Lease.check(3000, 1000, 0));
        assertThrows(ConfigurationException.class, () -> Lease.check(63_000, 1000, 60_000));
        assertThrows(ConfigurationException.class, () -> Lease.check(3000, 0, 0));
    }

    /** L-12, L-13, also where generations use the sign bit. */
    @Test
    void sequencesAreJudgedAfterTheOnesBefore() {
        int high = 0xFFFFFE;
        LinkReceiver link = new LinkReceiver(0);
        assertEquals(LinkReceiver.Verdict.NEXT, link.judge(Sequence.of(7, 1)));
        assertEquals(LinkReceiver.Verdict.DUPLICATE, link.judge(Sequence.of(7, 1)));
        assertEquals(LinkReceiver.Verdict.GAP, link.judge(Sequence.of(7, 3)));
        assertEquals(LinkReceiver.Verdict.NEXT, link.judge(Sequence.of(high, 1)));
        assertEquals(LinkReceiver.Verdict.OLD_GENERATION, link.judge(Sequence.of(7, 4)));
        assertEquals(LinkReceiver.Verdict.GAP, link.judge(Sequence.of(high + 1, 2)));
    }

    /** */
    @Test
    void theMostSpecificRuleDecides() {
        AccessPolicy policy = new AccessPolicy("etl.*", "billing");
        assertTrue(policy.allows("etl.1"));
        assertFalse(policy.allows("etl"));
        policy.deny("etl.eu.*", "etl.2");
        assertFalse(policy.allows("etl.eu.1"));
        assertFalse(policy.allows("etl.2"));
        assertTrue(policy.allows("etl.us.1"));
        policy.allow("etl.eu.1");
        assertTrue(policy.allows("etl.eu.1"));
        assertEquals(List.of("billing", "etl.*", "etl.eu.1"), policy.allowed());
        assertThrows(InvalidNameException.class, () -> policy.allow("ok", "*"));
        assertFalse(policy.allows("ok"));
    }
}
