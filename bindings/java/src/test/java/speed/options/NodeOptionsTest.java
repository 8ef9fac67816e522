package speed.options;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.time.Duration;
import java.util.Map;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import speed.errors.ConfigurationException;

/** The options of a node begin as the contract says, and take what it says. */
class NodeOptionsTest {
    private static final class Asked extends NodeOptions.Builder<Asked> {
        Asked() {
            super("a");
        }

        @Override
        protected Asked self() {
            return this;
        }
    }

    @Test
    void whatIsNotAskedForIsTheDefault() {
        NodeOptions options = new Asked().options();
        assertEquals(Duration.ofSeconds(30), options.lease());
        assertEquals(Duration.ofSeconds(5), options.heartbeat());
        assertEquals(4, options.workers());
        assertEquals("default", options.namespace());
        assertEquals(OnError.DEAD_LETTER, options.onError());
        assertEquals(64 << 20, options.maxLaneBytes());
    }

    @Test
    void whatIsOutOfBoundsIsRefused() {
        Map<String, Consumer<Asked>> refused = Map.of(
                "workers is 257; use 1 to 256", asked -> asked.workers(257),
                "maxDeliveries is 0; use 1 to 1000000", asked -> asked.maxDeliveries(0),
                "maxLaneBytes is 0; use 1 or more", asked -> asked.maxLaneBytes(0),
                "maxOpenFiles is 0; use 1 or more", asked -> asked.maxOpenFiles(0),
                "namespace has 0 bytes; use text of 1 to 128 bytes", asked -> asked.namespace(""),
                "namespace has 130 bytes; use text of 1 to 128 bytes", asked -> asked.namespace("ü".repeat(65)));
        refused.forEach((told, asking) -> assertEquals(
                told,
                assertThrows(ConfigurationException.class, () -> asking.accept(new Asked()))
                        .getMessage()));
    }
}
