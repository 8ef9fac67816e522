package speed.internal.message;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import speed.errors.CompressionException;

/** M-23: raw blocks, whose copies begin at bytes that are there. */
class BlockCodecTest {
    private static byte[] decompressed(String name, String hex, int size) {
        return new BlockCodec(name).decompress(HexFormat.of().parseHex(hex), size);
    }

    /** Elements of a copy have their offset in 11, 16 or 32 bits. */
    @Test
    void aCopyOfSnappyBeginsWithinWhatIsThere() {
        for (String sound : List.of("0500410101", "0500410e0100", "0500410f01000000")) {
            assertArrayEquals("AAAAA".getBytes(), decompressed("snappy", sound, 5), sound);
        }
        for (String broken : List.of(
                "0500410100",
                "0500410e0000",
                "0500410f00000000",
                "0500410102",
                "0500410e0200",
                "0500410e00ff",
                "0500410fffffffff")) {
            assertThrows(CompressionException.class, () -> decompressed("snappy", broken, 5), broken);
        }
    }

    /** A short copy near the end goes another way through the decoder than a long one before it. */
    @Test
    void aCopyOfLz4BeginsWithinWhatIsThere() {
        String last = "c0" + "42".repeat(12);
        Map<String, Integer> sizes = Map.of("1041%s", 17, "1f41%s28", 72, "1a41%s", 27, "1f41%sffff00", 542);
        sizes.forEach((block, size) -> {
            decompressed("lz4", String.format(block, "0100") + last, size);
            for (String offset : List.of("0000", "0200", "ffff")) {
                assertThrows(
                        CompressionException.class,
                        () -> decompressed("lz4", String.format(block, offset) + last, size),
                        block + offset);
            }
        });
    }
}
