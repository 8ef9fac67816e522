package speed.internal.engine.deliver;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.fail;

import java.io.IOException;
import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import speed.errors.WireException;
import speed.internal.node.RunningNode;
import speed.internal.segment.Segment;
import speed.internal.segment.Segment.PayloadKey;
import speed.internal.segment.Splitter;
import speed.internal.wire.Header.EnvelopeType;
import speed.tool.BenchRoot;

/** G-13, G-15, G-19: how payloads that came in segments end. */
@Timeout(300)
class HeldPayloadsTest {
    private static final long MOST_NANOS = 60_000_000_000L;

    private final List<String> reported = new ArrayList<>();
    private BenchRoot root;
    private RunningNode billing;
    private HeldPayloads held;

    @BeforeEach
    void open() throws IOException {
        root = new BenchRoot(null);
        billing = new RunningNode(root, "billing", "analytics");
        held = new HeldPayloads(billing.runtime.context(), (sender, sequence, code, text) -> reported.add(code));
    }

    @AfterEach
    void close() throws IOException {
        held.close();
        billing.close();
        root.close();
    }

    /** Takes a payload of two segments, and gives it up; returns what it was known by. */
    private WeakReference<PayloadKey> endedWith(String code) {
        HeldPayloads.Taken taken = null;
        PayloadKey key = null;
        for (Segment segment : new Splitter(64, 0).split(new byte[128])) {
            key = key != null ? key : new PayloadKey("analytics", EnvelopeType.MESSAGE.number(), segment.hash());
            taken = held.take(key, segment, 1);
        }
        assertEquals(HeldPayloads.Taken.READY_AND_SMALL, taken);
        held.shards(key);
        held.fail(key, new WireException(code, "the payload is not as it should be"));
        return new WeakReference<>(key);
    }

    @Test
    void ofAPayloadThatWasRefusedNothingIsRemembered() {
        WeakReference<PayloadKey> refused = endedWith("BAD_MESSAGE");
        assertEquals(List.of(), reported);
        for (long began = System.nanoTime(); refused.get() != null; System.gc()) {
            if (System.nanoTime() - began > MOST_NANOS) {
                fail("its key is still held");
            }
        }
        assertNull(refused.get());
    }

    @Test
    void ofAPayloadThatDoesNotHaveItsHashItsSenderIsNotified() {
        endedWith("SEGMENT_HASH");
        assertEquals(List.of("SEGMENTS_LOST"), reported);
    }
}
