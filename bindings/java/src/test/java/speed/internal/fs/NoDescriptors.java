package speed.internal.fs;

import com.sun.jna.Function;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import speed.internal.wire.Block;

/** A process without a descriptor to spare: whatever is opened meanwhile, by the JDK as well, fails with EMFILE. */
final class NoDescriptors {
    private static final int RLIMIT_NOFILE = 7;

    private NoDescriptors() {}

    /** Does something meanwhile; the classes that it needs must be loaded. */
    static void during(FailingCall.Action action) throws Exception {
        Block usual = new Block(16);
        limit("getrlimit", usual);
        Block none = Block.of(usual.copy(0, 16));
        ByteBuffer limits = none.bytes.order(ByteOrder.nativeOrder());
        limits.putLong(0, highest() + 1);
        List<Integer> spare = new ArrayList<>();
        limit("setrlimit", none);
        try {
            takeAll(spare);
            action.run();
        } finally {
            spare.forEach(Posix::close);
            limit("setrlimit", usual);
        }
    }

    private static void limit(String function, Block limits) {
        Function.getFunction("c", function).invokeInt(new Object[] {RLIMIT_NOFILE, limits.address});
    }

    private static long highest() throws Exception {
        try (Stream<Path> open = Files.list(Path.of("/proc/self/fd"))) {
            return open.mapToLong(one -> Long.parseLong(one.getFileName().toString()))
                    .max()
                    .orElse(0);
        }
    }

    private static void takeAll(List<Integer> spare) throws PosixException {
        while (true) {
            try {
                spare.add(Posix.open("/dev/null", Posix.O_RDONLY, 0));
            } catch (PosixException full) {
                if (full.is(PosixException.EMFILE)) {
                    return;
                }
                throw full;
            }
        }
    }
}
