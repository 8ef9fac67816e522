package speed.internal.fs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import speed.Node;
import speed.errors.RootException;
import speed.internal.fs.Bell.Ringer;
import speed.internal.fs.Bell.Waker;
import speed.internal.wire.Names;
import speed.internal.wire.NodeId;
import speed.tool.BenchRoot;

/** L-8, L-9: a bell and those that ring it, with a real FIFO. */
@Timeout(300)
class BellTest {
    private static final NodeId OWNER = NodeId.of("billing");
    private static final NodeId SENDER = NodeId.of("analytics");
    private static final int MORE_THAN_A_PIPE_HOLDS = 5000;
    private static final int F_SETPIPE_SZ = 1031;
    private static final int SMALL_PIPE_BYTES = 8192;

    @TempDir
    Path home;

    private String path;
    private Bell bell;

    @BeforeEach
    void hang() {
        path = home.resolve("bell").toString();
        bell = Bell.open(path, OWNER);
    }

    @AfterEach
    void takeDown() {
        bell.close();
    }

    private Ringer ringer() {
        return new Ringer(path, SENDER);
    }

    /** Opened for reading only, it would see end-of-file from here on, and its owner would never sleep again. */
    @Test
    void aBellIsSilentAfterItsLastRingerWent() throws PosixException {
        Ringer ringer = ringer();
        assertTrue(ringer.ring());
        ringer.close();
        assertEquals(Set.of(SENDER), bell.drain());
        assertEquals(Set.of(), bell.drain());
        Waker waker = new Waker(bell);
        long began = System.nanoTime();
        waker.await(50, died -> {});
        assertTrue(System.nanoTime() - began >= 49_000_000, "it woke without a ring");
        waker.close();
    }

    @Test
    void aBellWakesItsOwnerForEveryRinger() throws PosixException {
        Waker waker = new Waker(bell);
        new Ringer(path, SENDER).ring();
        bell.wake();
        waker.await(20_000, died -> {});
        assertEquals(Set.of(SENDER, OWNER), bell.drain());
        waker.close();
    }

    @Test
    void aFullBellHoldsUpNobodyAndAsksForALookAtEverything() throws PosixException {
        Ringer ringer = ringer();
        for (int count = 0; count < MORE_THAN_A_PIPE_HOLDS; count++) {
            assertTrue(ringer.ring());
            bell.wake();
        }
        assertNull(bell.drain());
        assertTrue(ringer.ring());
        assertEquals(Set.of(SENDER), bell.drain());
        ringer.close();
    }

    /** Beyond {@code pipe-user-pages-soft} a new pipe holds less than usual. */
    @Test
    void aFullBellOfASmallPipeAsksForALookAtEverythingToo() throws PosixException {
        String small = home.resolve("small").toString();
        Posix.makeFifo(small);
        int first = Posix.open(small, Posix.O_RDWR | Posix.O_NONBLOCK, 0);
        assertEquals(SMALL_PIPE_BYTES, Libc.fcntl(first, F_SETPIPE_SZ, SMALL_PIPE_BYTES));
        Bell narrow = Bell.open(small, OWNER);
        Posix.close(first);
        Ringer ringer = new Ringer(small, SENDER);
        for (int bytes = 16; bytes < SMALL_PIPE_BYTES; bytes += 16) {
            ringer.ring();
        }
        assertEquals(Set.of(SENDER), narrow.drain());
        for (int bytes = 0; bytes < SMALL_PIPE_BYTES; bytes += 16) {
            ringer.ring();
        }
        assertNull(narrow.drain());
        ringer.close();
        narrow.close();
    }

    @Test
    void aBellWithoutAnOwnerSaysSoAndRingsAgainForHisSuccessor() throws PosixException {
        Ringer ringer = ringer();
        assertTrue(ringer.ring());
        bell.close();
        assertFalse(ringer.ring());
        bell = Bell.open(path, OWNER);
        assertTrue(ringer.ring());
        assertEquals(Set.of(SENDER), bell.drain());
        ringer.close();
    }

    @Test
    void theWakerTellsOfARingerWhoseBellLostItsOwner() throws PosixException {
        String other = home.resolve("other").toString();
        Bell theirs = Bell.open(other, SENDER);
        Ringer ringer = new Ringer(other, OWNER);
        Waker waker = new Waker(bell);
        waker.watch(ringer, "analytics");
        theirs.close();
        String[] dead = new String[1];
        waker.await(20_000, died -> dead[0] = died);
        assertEquals("analytics", dead[0]);
        ringer.close();
        waker.close();
    }

    @Test
    void whatIsNoFifoIsNeitherABellNorWrittenTo() throws IOException {
        Path file = Files.writeString(home.resolve("file"), "precious");
        Path link = Files.createSymbolicLink(home.resolve("link"), Path.of(path));
        assertThrows(RootException.class, () -> Bell.open(file.toString(), OWNER));
        assertThrows(RootException.class, () -> Bell.open(link.toString(), OWNER));
        assertFalse(new Ringer(file.toString(), SENDER).ring());
        assertFalse(new Ringer(link.toString(), SENDER).ring());
        assertFalse(new Ringer(home.resolve("missing").toString(), SENDER).ring());
        assertEquals("precious", Files.readString(file));
    }

    /** who sees the entry may ring. */
    @Test
    void aNodeThatLeavesHoldsItsBellUntilItsEntryIsRemoved() throws Exception {
        try (BenchRoot root = new BenchRoot(null)) {
            Node node = Node.builder("billing")
                    .root(root.path())
                    .key(root.path().resolve("speed.key"))
                    .open();
            Path entry = root.path().resolve("speed_registry/billing.node");
            Ringer ringer = new Ringer(Names.bellPath(root.path().toString(), "billing"), SENDER);
            List<Boolean> heard = new ArrayList<>();
            FailingCall.during(
                    "renameat",
                    0,
                    () -> {
                        if (Files.exists(entry)) {
                            heard.add(ringer.ring());
                        }
                        return false;
                    },
                    node::close);
            ringer.close();
            assertFalse(Files.exists(entry));
            assertEquals(Set.of(true), Set.copyOf(heard));
        }
    }
}
