package speed.internal.wire;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
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

    /** */
    @TestFactory
    Stream<DynamicTest> theMostSpecificPatternSaysWhoMayWrite() {
        return vectors.each("senders", one -> {
            Entry entry = sample().publishing(sample().published()
                    .granting(texts(one, "allow"), texts(one, "deny"), List.of(), List.of()));
            assertEquals(one.get("granted"), entry.grants(one.text("sender"), ""));
        });
    }

    private static byte[] file(Contract one) {
        byte[] content = one.has("content") ? one.bytes("content") : new byte[0];
        byte[] file = Arrays.copyOf(content, Math.max(content.length, (int) one.number("bytes")));
        Arrays.fill(file, content.length, file.length, (byte) ' ');
        return file;
    }

    private static Entry entry(Contract stated) {
        Entry.Process process = new Entry.Process(
                stated.number("pid"),
                stated.number("pid_start"),
                stated.text("pid_namespace"),
                stated.text("host"),
                stated.text("boot_id"));
        return new Entry(
                stated.text("name"),
                (int) stated.number("generation"),
                process,
                new Entry.Times(
                        stated.number("startup_timestamp"),
                        stated.number("last_heartbeat"),
                        stated.number("heartbeat_monotonic_ms"),
                        stated.number("lease"),
                        stated.number("heartbeat_interval")),
                new Entry.Published(
                        stated.text("status"),
                        texts(stated, "fabrics"),
                        texts(stated, "allow"),
                        texts(stated, "deny"),
                        texts(stated, "subscriptions"),
                        stated.has("shared") ? texts(stated, "shared") : List.of(),
                        stated.has("identities") ? texts(stated, "identities") : List.of(),
                        stated.has("observers") ? texts(stated, "observers") : List.of()),
                stated.text("language"),
                stated.text("version"),
                stated.has("features") ? texts(stated, "features") : List.of(),
                stated.has("ephemeral") && (Boolean) stated.get("ephemeral"));
    }

    private static List<String> texts(Contract stated, String name) {
        return ((List<?>) stated.get(name)).stream().map(String.class::cast).toList();
    }

    /** what readers would refuse is not published. */
    @Test
    void anEntryBeyondTheLimitIsRefusedByItsWriter() {
        Entry entry = new Entry(
                "a",
                1,
                new Entry.Process(1, 1, "ns", "host", "boot"),
                new Entry.Times(0, 0, 0, 30_000, 5_000),
                new Entry.Published(
                        Entry.ONLINE,
                        List.of(),
                        Collections.nCopies(5_000, "etl." + "x".repeat(100)),
                        List.of(),
                        List.of(),
                        List.of()),
                "java",
                "1",
                List.of(),
                false);
        assertThrows(ConfigurationException.class, () -> entry.encode(keys.get(0), 0));
        assertThrows(WireException.class, () -> Entry.decode(new byte[Limits.MAX_ENTRY_BYTES + 1], keys));
    }

    /** The entry's first line with one member replaced, and the MAC of what that gives. */
    private byte[] with(String member, String value) {
        String line = new String(sample().encode(keys.get(0), 0), StandardCharsets.US_ASCII).split("\n")[0];
        String changed =
                line.replaceFirst("\"" + member + "\":(\\[[^]]*\\]|\"[^\"]*\"|[0-9]+)", "\"" + member + "\":" + value);
        assertNotEquals(line, changed);
        byte[] mac = Hashes.hmac(keys.get(0), changed.getBytes(StandardCharsets.US_ASCII));
        return (changed + "\n" + Base64.getEncoder().encodeToString(mac) + "\n").getBytes(StandardCharsets.US_ASCII);
    }

    private static Entry sample() {
        return new Entry(
                "billing",
                7,
                new Entry.Process(1, 1, "ns", "host", "boot"),
                new Entry.Times(1, 2, 3, 30_000, 5_000),
                new Entry.Published(
                        Entry.ONLINE,
                        List.of("local"),
                        List.of("etl.*"),
                        List.of("etl.7"),
                        List.of("orders.*"),
                        List.of("orders.*")),
                "java",
                "1",
                List.of(),
                false);
    }

    /** the key makes an entry authentic, not sound. */
    @TestFactory
    Stream<DynamicTest> anAuthenticEntryOfWrongMembersIsRefused() {
        return Stream.of(
                        List.of("pid", "-1"),
                        List.of("pid", "\"1\""),
                        List.of("host", "7"),
                        List.of("lease", "0"),
                        List.of("generation", "0"),
                        List.of("generation", "4294967296"),
                        List.of("allow", "\"etl\""),
                        List.of("allow", "[\"etl\",7]"),
                        List.of("status", "\"asleep\""),
                        List.of("name", "\"a/b\""),
                        List.of("nodeId", "\"00\""))
                .map(one -> DynamicTest.dynamicTest(one.get(0) + " is " + one.get(1), () -> {
                    byte[] file = with(one.get(0), one.get(1));
                    WireException refused = assertThrows(WireException.class, () -> Entry.decode(file, keys));
                    assertEquals("BAD_ENTRY", refused.reason());
                }));
    }

    /** a power of two within the limits. */
    @Test
    void aFileOfAnEntryHasOneOfAFewSizes() {
        assertTrue(Entry.isCapacity(Limits.MIN_ENTRY_BYTES));
        assertTrue(Entry.isCapacity(Limits.MAX_ENTRY_BYTES));
        assertFalse(Entry.isCapacity(Limits.MIN_ENTRY_BYTES / 2));
        assertFalse(Entry.isCapacity(Limits.MIN_ENTRY_BYTES + 1));
        assertFalse(Entry.isCapacity(2L * Limits.MAX_ENTRY_BYTES));
    }

    /** A file too large is refused as such, even if it begins like an entry. */
    @Test
    void anEntryFileBeyondTheLimitIsRefused() {
        byte[] file = Arrays.copyOf(sample().encode(keys.get(0), 0), 2 * Limits.MAX_ENTRY_BYTES);
        assertThrows(WireException.class, () -> Entry.decode(file, keys));
    }
}
