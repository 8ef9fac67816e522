package speed.wire;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import speed.errors.ConfigurationException;
import speed.errors.WireException;

/** entry files. */
class EntriesTest {
    private final Contract vectors = Contract.vectors("entries");
    private final List<byte[]> keys = new Keyring(vectors.keys("accepted_keys")).registryKeys();

    @TestFactory
    Stream<DynamicTest> anEntryHasTheStatedFields() {
        return vectors.each("valid", one -> assertEquals(entry(one.object("entry")), Entry.decode(file(one), keys)));
    }

    @TestFactory
    Stream<DynamicTest> anEntryIsReadBackAsWritten() {
        return vectors.each("valid", one -> {
            Entry entry = entry(one.object("entry"));
            byte[] written = entry.encode(keys.get(0), 0);
            assertEquals(entry, Entry.decode(written, keys));
            assertEquals(1, Integer.bitCount(written.length));
        });
    }

    @TestFactory
    Stream<DynamicTest> aBrokenEntryIsRefused() {
        return vectors.each("invalid", one -> {
            WireException refused = assertThrows(WireException.class, () -> Entry.decode(file(one), keys));
            assertEquals("BAD_ENTRY", refused.reason());
        });
    }

    private static byte[] file(Contract one) {
        byte[] content = one.has("content") ? one.bytes("content") : new byte[0];
        byte[] file = Arrays.copyOf(content, Math.max(content.length, (int) one.number("bytes")));
        Arrays.fill(file, content.length, file.length, (byte) ' ');
        return file;
    }

    private static Entry entry(Contract stated) {
        Entry.Process process = new Entry.Process(stated.number("pid"), stated.number("pid_start"),
                stated.text("pid_namespace"), stated.text("host"), stated.text("boot_id"));
        return new Entry(stated.text("name"), (int) stated.number("generation"), process,
                stated.number("startup_timestamp"), stated.number("last_heartbeat"),
                stated.number("heartbeat_monotonic_ms"), stated.number("lease"), stated.number("heartbeat_interval"),
                stated.text("status"), texts(stated, "fabrics"), texts(stated, "allow"),
                texts(stated, "subscriptions"), stated.text("language"), stated.text("version"));
    }

    private static List<String> texts(Contract stated, String name) {
        return ((List<?>) stated.get(name)).stream().map(String.class::cast).toList();
    }

    /** what readers would refuse is not published. */
    @Test
    void anEntryBeyondTheLimitIsRefusedByItsWriter() {
        Entry entry = new Entry("a", 1, new Entry.Process(1, 1, "ns", "host", "boot"), 0, 0, 0, 30_000, 5_000,
                Entry.ONLINE, List.of(), Collections.nCopies(5_000, "etl." + "x".repeat(100)), List.of(), "java", "1");
        assertThrows(ConfigurationException.class, () -> entry.encode(keys.get(0), 0));
        assertThrows(WireException.class, () -> Entry.decode(new byte[Limits.MAX_ENTRY_BYTES + 1], keys));
    }
}
