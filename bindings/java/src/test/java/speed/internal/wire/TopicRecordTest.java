package speed.internal.wire;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import speed.errors.WireException;

/** Messages of durable topics are read as published (D-4). */
class TopicRecordTest {
    private final Contract vectors = Contract.vectors("topics");

    @TestFactory
    Stream<DynamicTest> validRecordsAreRead() {
        return vectors.each("records_valid", one -> {
            TopicRecord record = TopicRecord.read(one.bytes("hex"));
            assertEquals(one.number("type"), record.type());
            assertEquals(one.number("attempts"), record.attempts());
            assertEquals(one.number("key_hash"), record.keyHash());
            assertEquals(one.number("due_ms"), record.dueMs());
            assertEquals(one.number("sequence"), record.sequence());
            assertEquals(one.object("about").values(), record.about());
            assertArrayEquals(one.bytes("payload"), record.packed());
        });
    }

    @TestFactory
    Stream<DynamicTest> invalidRecordsAreRefused() {
        return vectors.each(
                "records_invalid",
                one -> assertEquals(
                        "BAD_JOURNAL",
                        assertThrows(WireException.class, () -> TopicRecord.read(one.bytes("hex")))
                                .reason()));
    }
}
