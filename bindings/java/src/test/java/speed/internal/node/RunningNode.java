package speed.internal.node;

import java.time.Duration;
import speed.errors.NodeClosedException;
import speed.options.NodeOptions;
import speed.tool.BenchRoot;

/** A node whose parts can be looked at, with real files. */
public final class RunningNode implements AutoCloseable {
    public final Runtime runtime;

    public RunningNode(BenchRoot root, String name, String... allowed) {
        runtime = Runtime.start(new Settings(name)
                .root(root.path())
                .allow(allowed)
                .options()
                .completed(
                        root.path().toString(),
                        root.path().resolve("speed.key").toString(),
                        NodeEngine.defaultOpenFiles()));
    }

    private static final class Settings extends NodeOptions.Builder<Settings> {
        Settings(String name) {
            super(name);
        }

        @Override
        protected Settings self() {
            return this;
        }

        @Override
        protected NodeOptions options() {
            return super.options();
        }
    }

    @Override
    public void close() {
        runtime.stop(() -> new NodeClosedException("the test is over"), Duration.ofSeconds(10));
    }
}
