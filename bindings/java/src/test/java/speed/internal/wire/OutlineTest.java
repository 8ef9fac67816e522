package speed.internal.wire;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HexFormat;
import org.junit.jupiter.api.Test;

/** What is told of bytes that are no message: sizes, presence and the id, and nothing else (M-35). */
class OutlineTest {
    private static final String ABSENT = "no security, no observability, no schema, no extensions, no payload";

    private static String outline(String hex) {
        return Outline.of(HexFormat.of().parseHex(hex));
    }

    @Test
    void partsAreReportedByTheirSizesAndTheMessageByItsId() {
        assertEquals("7 bytes: metadata 5, " + ABSENT + "; message_id 'abc'", outline("0a050a03616263"));
    }

    @Test
    void whatIsRepeatedIsAddedUpAndWhatIsUnknownIsCounted() {
        assertEquals("7 bytes: metadata 1, " + ABSENT + ", 1 unknown; no message_id", outline("0a000a01073801"));
    }

    @Test
    void theEndOfReadingIsReported() {
        assertEquals(
                "3 bytes: metadata 0, " + ABSENT + ", nothing to be read from byte 2; no message_id",
                outline("0a0007"));
    }

    @Test
    void anIdIsShownAsALogMayHaveIt() {
        assertTrue(outline("0a050a031bff0a").endsWith("message_id '\\x1b\ufffd\\n'"), outline("0a050a031bff0a"));
    }

    @Test
    void ofManyRecordsOnlyTheFirstAreLookedAt() {
        assertTrue(outline("3801".repeat(100)).contains(", 64 unknown, more from byte 128;"));
    }
}
