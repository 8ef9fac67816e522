package speed.internal.wire;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** JSON as R-2 and M-10 read it: strictly. */
class JsonTest {
    @Test
    void everyKindOfValueIsRead() {
        Map<Object, Object> expected = new LinkedHashMap<>();
        expected.put("text", "\"\\/\b\f\n\r\t\u00e9\ud83d\ude00");
        expected.put("numbers", List.of(0L, -1L, 1.5, 1e3, 1e3, 1e-3));
        expected.put("words", Arrays.asList(true, false, null));
        expected.put("empty", List.of(Map.of(), List.of()));
        assertEquals(expected, Json.parse("""
            {"text": "\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00", "numbers": [0, -1, 1.5, 1e3, 1E+3, 1e-3],
             "words": [true, false, null], "empty": [{}, []]}\
            """));
    }

    @Test
    void whatIsNoJsonIsRefused() {
        for (String broken : List.of(
                "",
                " ",
                "tru",
                "nul",
                "falsy",
                "01",
                "-",
                "1.",
                "1e",
                ".5",
                "+1",
                "1e400",
                "[1,]",
                "[1",
                "[1 2]",
                "{\"a\"}",
                "{\"a\":1,}",
                "{a:1}",
                "{\"a\":1",
                "{\"a\":1,\"a\":2",
                "\"",
                "\"\\x\"",
                "\"\\u12\"",
                "\"\\u12g4\"",
                "\"\t\"",
                "\"\\ud800\"",
                "\"\\ud800x\"",
                "\"\\udc00\\ud800\"",
                "1 2",
                "NaN",
                "9".repeat(400),
                "9".repeat(5000),
                "\ufeff1",
                "-1e999",
                "Infinity",
                "{\"\\udc00\":1}")) {
            assertThrows(IllegalArgumentException.class, () -> Json.parse(broken), broken::toString);
        }
    }

    @Test
    void containersInsideEachOtherAreBounded() {
        for (String each : List.of("[", "{\"a\":")) {
            String end = each.equals("[") ? "]" : "}";
            int most = Limits.MAX_JSON_DEPTH;
            Json.parse(each.repeat(most) + "1" + end.repeat(most));
            assertThrows(
                    IllegalArgumentException.class,
                    () -> Json.parse(each.repeat(most + 1) + "1" + end.repeat(most + 1)));
        }
    }

    @Test
    void whatIsWrittenIsAsciiAndReadBack() {
        Map<String, Object> value = new LinkedHashMap<>();
        value.put("quoted \"\\", "\n\u007f\u00e9");
        value.put("items", Arrays.asList(1L, null, true));
        value.put("empty", List.of(Map.of(), List.of()));
        String text = Json.write(value);
        assertEquals(
                text.length(),
                text.chars().filter(one -> one >= ' ' && one <= '~').count());
        assertEquals(value, Json.parse(text));
    }
}
