package speed.internal.fs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import speed.errors.RegistrationException;
import speed.errors.StorageException;
import speed.internal.core.AccessPolicy;
import speed.internal.wire.Floor;
import speed.internal.wire.Keyring;

/** the floor of generations is authentic, only rises, and starts nobody where it was altered. */
@Timeout(300)
class FloorFileTest {
    private static final byte[] OTHER_KEY = new byte[32];

    static {
        Arrays.fill(OTHER_KEY, (byte) 0x55);
    }

    @TempDir
    Path root;

    private final Keyring ring = new Keyring(List.of(new byte[32]));
    private Registry registry;

    @BeforeEach
    void prepare() {
        registry = new Registry(root.toString(), ring);
        registry.prepare();
    }

    private void raise(String name, int generation) {
        try {
            FloorFile.raise(root.toString(), name, generation, ring);
        } catch (PosixException error) {
            throw new AssertionError(error);
        }
    }

    private int floorOf(String name) throws PosixException {
        return FloorFile.of(root.toString(), name, ring);
    }

    private Registration register() {
        return new Registrant(registry, "billing", 30_000, 5_000, 0, List.of(), new AccessPolicy(), false, false, "")
                .register(won -> {});
    }

    private Path file() {
        return root.resolve("speed_registry/.claims/floor");
    }

    @Test
    void withoutAFileEveryFloorIsZero() throws PosixException {
        assertEquals(0, floorOf("billing"));
    }

    @Test
    void aFloorNeverFalls() throws PosixException {
        raise("billing", 7);
        raise("billing", 3);
        assertEquals(7, floorOf("billing"));
    }

    @Test
    void thoseWhoRaiseItAtOnceLoseNothing() throws PosixException {
        CompletableFuture.allOf(IntStream.range(1, 20)
                        .mapToObj(n -> CompletableFuture.runAsync(() -> raise("node" + n, n)))
                        .toArray(CompletableFuture<?>[]::new))
                .join();
        for (int n = 1; n < 20; n++) {
            assertTrue(floorOf("node" + n) >= n);
        }
    }

    @Test
    void whoEndsItsWaitForALockThatAnotherHoldsRaisesNothing() throws PosixException {
        try (Directory claims =
                Directory.open(root.resolve("speed_registry/.claims").toString())) {
            int lock = claims.openOwn(".floor.lock");
            assertTrue(Posix.tryLock(lock));
            Thread.currentThread().interrupt();
            StorageException held = assertThrows(StorageException.class, () -> raise("billing", 7));
            assertTrue(Thread.interrupted());
            assertTrue(held.getMessage().contains("is held by another process"), held.getMessage());
            assertEquals(0, floorOf("billing"));
            Posix.close(lock);
        }
        raise("billing", 7);
        assertEquals(7, floorOf("billing"));
    }

    @Test
    void aNameThatWasNeverClaimedBeginsAboveTheFloor() {
        raise("billing", 7);
        assertEquals(8, register().entry().generation());
    }

    @Test
    void aNameWhoseClaimLiesBelowTheFloorGoesOnAboveIt() {
        register().remove();
        raise("billing", 7);
        assertEquals(8, register().entry().generation());
    }

    /** What else was forgotten in the same place of the file says nothing about this name. */
    @Test
    void ofANameThatHasAClaimNothingIsForgottenByTheFloorOfAnother() throws PosixException {
        register().remove();
        raise("billing", 7);
        assertEquals(0, FloorFile.forgottenUpTo(root.toString(), "billing", ring));
        register().remove();
        assertEquals(0, FloorFile.forgottenUpTo(root.toString(), "billing", ring));
    }

    @Test
    void aClaimThatIsJustBeingWrittenHidesNothingOfWhatTheOneBeforeTells() throws IOException {
        register().remove();
        raise("billing", 7);
        Files.createFile(root.resolve("speed_registry/.claims/billing.000008"));
        assertEquals(0, FloorFile.forgottenUpTo(root.toString(), "billing", ring));
    }

    @Test
    void nothingIsForgottenWhereNobodyRegistered() throws PosixException {
        assertEquals(0, FloorFile.forgottenUpTo(root.resolve("nowhere").toString(), "billing", ring));
    }

    @Test
    void anAlteredFloorStartsNobody() throws IOException {
        Files.write(file(), Floor.NONE.raised("billing", 9).encode(OTHER_KEY));
        RegistrationException refused = assertThrows(RegistrationException.class, this::register);
        assertTrue(refused.getMessage().contains("restore that file from a backup"), refused.getMessage());
    }

    @Test
    void aFloorOfAnOlderKeyIsSealedAnewOnce() throws IOException {
        raise("billing", 7);
        Keyring rotated = new Keyring(List.of(OTHER_KEY, new byte[32]));
        FloorFile.sealAnew(root.toString(), rotated);
        assertEquals(7, FloorFile.of(root.toString(), "billing", new Keyring(List.of(OTHER_KEY))));
        Object before = Files.getAttribute(file(), "unix:ino");
        FloorFile.sealAnew(root.toString(), rotated);
        assertEquals(before, Files.getAttribute(file(), "unix:ino"));
    }
}
