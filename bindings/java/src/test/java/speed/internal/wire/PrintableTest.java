package speed.internal.wire;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** Text of others as a log may have it (W-19). */
class PrintableTest {
    private static final Contract VECTORS = Contract.vectors("harmless");

    @TestFactory
    Stream<DynamicTest> whatActsIsShownByItsNumber() {
        return VECTORS.each("texts", one -> assertEquals(one.text("shown"), Printable.text(one.text("text"))));
    }

    @TestFactory
    Stream<DynamicTest> aTextIsCutBetweenItsCharacters() {
        return VECTORS.each(
                "cut",
                one -> assertEquals(
                        one.text("shown"), Printable.text(one.text("text"), (int) one.number("max_chars"))));
    }

    @Test
    void halvesOfPairsAreShownByTheirNumbers() {
        assertEquals("a\\udc9bb\\ud83d", Printable.text("a\udc9bb\ud83d"));
    }

    @Test
    void noTextActsOnceItIsHarmless() {
        Random random = new Random(19);
        for (int round = 0; round < 2000; round++) {
            StringBuilder text = new StringBuilder();
            random.ints(20, 0, random.nextBoolean() ? 0x300 : 0x110000).forEach(text::appendCodePoint);
            String shown = Printable.text(text.toString());
            assertEquals(0, shown.codePoints().filter(PrintableTest::acts).count(), shown);
            assertEquals(shown, Printable.text(shown));
        }
    }

    private static boolean acts(int code) {
        return switch (Character.getType(code)) {
            case Character.CONTROL,
                    Character.FORMAT,
                    Character.SURROGATE,
                    Character.LINE_SEPARATOR,
                    Character.PARAGRAPH_SEPARATOR -> true;
            default -> false;
        };
    }
}
