package speed.internal.fs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;
import speed.errors.NameTakenException;
import speed.internal.fs.Claiming.WonClaim;
import speed.internal.wire.Contract;
import speed.internal.wire.Entry;
import speed.internal.wire.Keyring;
import speed.internal.wire.Names;

/** who may take a name, with real claims and entries of processes that live or are gone. */
class ClaimVectorsTest {
    private static final String NAME = "billing";
    private static final long LEASE = 30_000;

    private final Contract vectors = Contract.vectors("claims");
    private final Keyring accepted = new Keyring(vectors.keys("accepted_keys"));
    private final Keyring ring = new Keyring(List.of(vectors.bytes("key")));
    private int cases;

    @TempDir
    Path home;

    @TestFactory
    Stream<DynamicTest> aClaimSaysWhatTheContractSays() {
        return vectors.each("files", one -> {
            Claimant read = Claimant.decode(one.bytes("hex"), accepted.registryKeys());
            if (one.get("claim") == null) {
                assertNull(read);
            } else {
                assertEquals(claimant(one.object("claim")), read);
            }
        });
    }

    private static Claimant claimant(Contract stated) {
        Entry.Process maker = new Entry.Process(
                stated.number("pid"),
                stated.number("pid_start"),
                stated.text("pid_namespace"),
                stated.text("host"),
                stated.text("boot_id"));
        return new Claimant(
                maker,
                stated.number("lease"),
                orAbsent(stated, "made_monotonic_ms"),
                (int) orAbsent(stated, "above"),
                (Boolean) stated.get("ephemeral"),
                (Boolean) stated.get("sweeps"));
    }

    private static long orAbsent(Contract stated, String field) {
        return stated.get(field) == null ? Claimant.ABSENT : stated.number(field);
    }

    @TestFactory
    Stream<DynamicTest> aNameIsFreeHeldOrWaitedFor() {
        return vectors.each("states", one -> {
            try {
                check(one);
            } catch (IOException failure) {
                throw new AssertionError(failure);
            }
        });
    }

    private void check(Contract stated) throws IOException {
        Path root = Files.createDirectory(home.resolve(Integer.toString(++cases)));
        Registry registry = new Registry(root.toString(), ring);
        registry.prepare();
        lay(root, stated);
        if (stated.text("verdict").equals("free")) {
            WonClaim won = start(registry, false);
            assertEquals(stated.number("generation"), won.generation());
            assertEquals(stated.number("above"), won.claimant().above());
            return;
        }
        assertThrows(NameTakenException.class, () -> start(registry, false));
        if (stated.text("verdict").equals("held")) {
            assertThrows(NameTakenException.class, () -> start(registry, true));
        } else if (stated.get("wait_ms") != null) {
            long began = Posix.monotonicMs();
            assertEquals(stated.number("generation"), start(registry, true).generation());
            assertTrue(Posix.monotonicMs() - began >= stated.number("wait_ms"));
        }
    }

    private static WonClaim start(Registry registry, boolean waits) throws PosixException {
        return new Claiming(registry, NAME, 0, waits).win(Claimant.starting(LEASE, false));
    }

    private void lay(Path root, Contract stated) throws IOException {
        for (Contract made : stated.cases("claims")) {
            layClaim(root, made);
        }
        if (stated.get("entry") != null) {
            layEntry(root, stated.object("entry"));
        }
        if (stated.has("floor")) {
            FloorFile.raise(root.toString(), NAME, (int) stated.number("floor"), ring);
        }
        if (stated.has("lane")) {
            layLane(root.resolve("analytics/inbox").resolve(NAME), stated.object("lane"));
        }
        if (stated.has("left")) {
            for (Object file : (List<?>) stated.get("left")) {
                layEmpty(root.resolve((String) file));
            }
        }
    }

    private static void layEmpty(Path file) throws IOException {
        Files.createDirectories(file.getParent());
        Files.createFile(file);
    }

    private static void layLane(Path lane, Contract stated) throws IOException {
        Files.createDirectories(lane);
        if (stated.get("cursor") != null) {
            Files.write(lane.resolve(Names.cursorName(1)), stated.bytes("cursor"));
        }
    }

    private void layClaim(Path root, Contract made) throws IOException {
        Path path = root.resolve("speed_registry/.claims/%s.%06d".formatted(NAME, made.number("generation")));
        Files.write(
                path,
                made.get("maker") == null
                        ? new byte[0]
                        : claim(made).encode(ring.registryKeys().get(0)));
        if (Boolean.TRUE.equals(made.get("read_only"))) {
            Files.setPosixFilePermissions(path, PosixFilePermissions.fromString("r--------"));
        }
    }

    private static Claimant claim(Contract made) {
        long when = made.get("age_ms") == null ? Claimant.ABSENT : Posix.monotonicMs() - made.number("age_ms");
        return new Claimant(
                maker(made.text("maker")),
                made.number("lease_ms"),
                when,
                (int) orAbsent(made, "above"),
                (Boolean) made.get("ephemeral"),
                (Boolean) made.get("sweeps"));
    }

    private static Entry.Process maker(String kind) {
        Entry.Process me = ThisProcess.identity();
        return switch (kind) {
            case "gone" -> new Entry.Process(me.pid(), 1, me.namespace(), me.host(), me.bootId());
            case "unseen" -> new Entry.Process(me.pid(), me.start(), "pid:[1]", me.host(), me.bootId());
            case "elsewhere" -> new Entry.Process(me.pid(), me.start(), me.namespace(), me.host(), "another boot");
            default -> me;
        };
    }

    private void layEntry(Path root, Contract made) throws IOException {
        long beat = Posix.monotonicMs() - made.number("age_ms");
        long lease = made.number("lease_ms");
        Entry entry = new Entry(
                NAME,
                (int) made.number("generation"),
                maker(made.text("maker")),
                new Entry.Times(1, 1, beat, lease, Math.max(1, lease / 6)),
                new Entry.Published(made.text("status"), List.of(), List.of(), List.of(), List.of(), List.of()),
                "java",
                "1",
                List.of(),
                false);
        Keyring key = made.text("key").equals("ours") ? ring : new Keyring(List.of(new byte[32]));
        Files.write(
                root.resolve("speed_registry").resolve(NAME + ".node"),
                entry.encode(key.registryKeys().get(0), 0));
    }
}
