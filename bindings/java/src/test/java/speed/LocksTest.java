package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.sun.jna.Function;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import speed.errors.NameTakenException;

/**
 * FileChannel.lock is a POSIX lock, flock(1) and other languages take BSD locks, and neither sees the other. So no
 * promise rests on a lock: names rest on O_EXCL alone.
 */
class LocksTest extends TwoNodes {
    private static final int READ_WRITE = 2;
    private static final int EXCLUSIVELY_AT_ONCE = 2 | 4;

    @Test
    void locksOfEitherKindNeitherHoldUpNorAdmitAnybody() throws IOException {
        billing.register("one", request -> 1);
        call("one");
        List<FileChannel> locked = new ArrayList<>();
        try (Stream<Path> files = Files.walk(root.path())) {
            for (Path file :
                    files.filter(Files::isRegularFile).filter(Files::isWritable).toList()) {
                FileChannel channel = FileChannel.open(file, StandardOpenOption.READ, StandardOpenOption.WRITE);
                channel.lock();
                locked.add(channel);
                assertEquals(0, flock(file), "the lock of FileChannel is one that flock sees: " + file);
            }
        }
        assertEquals(1L, call("one"));
        analytics.send("billing", "hello");
        assertThrows(NameTakenException.class, () -> root.node("billing"));
        billing.close();
        billing = root.node("billing", "analytics");
        assertEquals(2, billing.generation());
        for (FileChannel channel : locked) {
            channel.close();
        }
    }

    /** A BSD lock, as Python's filelock takes it; held until this process ends. */
    private static int flock(Path file) {
        int descriptor = Function.getFunction("c", "open").invokeInt(new Object[] {file.toString(), READ_WRITE});
        return Function.getFunction("c", "flock").invokeInt(new Object[] {descriptor, EXCLUSIVELY_AT_ONCE});
    }
}
