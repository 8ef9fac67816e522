package speed.internal.wire;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import speed.errors.WireException;

/** the floor file. */
class FloorTest {
    private static final int NUMBERS = 256;

    private final Contract vectors = Contract.vectors("floors");
    private final List<byte[]> keys = new Keyring(vectors.keys("accepted_keys")).registryKeys();

    @TestFactory
    Stream<DynamicTest> aFloorIsReadAndWrittenAsStated() {
        return vectors.each("floors_valid", one -> {
            Floor floor = Floor.decode(one.bytes("hex"), keys);
            Map<Object, Object> raised = new HashMap<>();
            for (int bucket = 0; bucket < NUMBERS; bucket++) {
                if (floor.inBucket(bucket) != 0) {
                    raised.put(String.valueOf(bucket), (long) floor.inBucket(bucket));
                }
            }
            assertEquals(one.object("floors").values(), raised);
            byte[] key = keys.get(one.text("name").equals("older key") ? 1 : 0);
            assertArrayEquals(one.bytes("hex"), floor.encode(key));
        });
    }

    @TestFactory
    Stream<DynamicTest> whatIsNoFloorIsRefused() {
        return vectors.each(
                "floors_invalid",
                one -> assertEquals(
                        "BAD_FLOOR",
                        assertThrows(WireException.class, () -> Floor.decode(one.bytes("hex"), keys))
                                .reason()));
    }

    @Test
    void aNameHasTheNumberOfTheFirstByteOfItsId() {
        for (Contract one : vectors.cases("buckets")) {
            Floor floor = Floor.NONE.raised(one.text("name"), 7);
            assertEquals(7, floor.inBucket((int) one.number("first_byte")));
            assertEquals(7, floor.of(one.text("name")));
        }
    }
}
