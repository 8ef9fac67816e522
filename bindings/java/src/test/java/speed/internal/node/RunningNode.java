package speed.internal.node;

import java.time.Duration;
import java.util.List;
import speed.errors.NodeClosedException;
import speed.internal.wire.Limits;
import speed.options.OnError;
import speed.options.Options;
import speed.options.SegmentLimits;
import speed.tool.BenchRoot;

/** A node whose parts can be looked at, with real files. */
public final class RunningNode implements AutoCloseable {
    public final Runtime runtime;

    public RunningNode(BenchRoot root, String name, String... allowed) {
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
