package speed.internal.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;

/** L-26: whoever was used longest ago rests for another. */
class LeastRecentlyUsedTest {
    private final LeastRecentlyUsed<String> awake = new LeastRecentlyUsed<>(2);

    @Test
    void whoWasUsedLongestAgoRestsForAnother() {
        assertEquals(List.of(), awake.use("one"));
        assertEquals(List.of(), awake.use("two"));
        assertEquals(List.of(), awake.use("one"));
        assertEquals(List.of("two"), awake.use("three"));
        assertTrue(awake.contains("one"));
        assertFalse(awake.contains("two"));
    }

    @Test
    void whoIsUsedAgainAfterARestIsAwake() {
        awake.use("one");
        awake.rest("one");
        assertEquals(List.of(), awake.use("one"));
        assertTrue(awake.contains("one"));
    }

    @Test
    void whoRestsMakesRoom() {
        awake.use("one");
        awake.use("two");
        awake.rest("one");
        assertEquals(List.of(), awake.use("three"));
    }
}
