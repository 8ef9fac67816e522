package speed.runtime;

import java.time.Duration;
import java.util.List;
import speed.OnError;
import speed.Options;
import speed.errors.NodeClosedException;
import speed.segment.SegmentLimits;
import speed.tool.BenchRoot;
import speed.wire.Limits;

/** A node whose parts can be looked at, with real files. */
final class RunningNode implements AutoCloseable {
    final Runtime runtime;

    RunningNode(BenchRoot root, String name, String... allowed) {
        runtime = Runtime.start(new Options(name, root.path().toString(), root.path().resolve("speed.key").toString(),
                List.of(), List.of(allowed), Duration.ofSeconds(30), Duration.ofSeconds(5), 4, false, false,
                Limits.LANE_WINDOW_BYTES, NodeEngine.defaultOpenFiles(), "default", List.of(), SegmentLimits.DEFAULT,
                OnError.DEAD_LETTER, 5, false, false, null));
    }

    @Override
    public void close() {
        runtime.stop(() -> new NodeClosedException("the test is over"), Duration.ofSeconds(10));
    }
}
