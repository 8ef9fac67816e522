package speed.internal.fs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import speed.errors.RootException;

/** a root is used only if nobody else can change it or what lies above it. */
class RootTest {
    private static final int SOMEBODY = 54321;

    @TempDir
    Path place;

    private Path root;

    @BeforeEach
    void openPlace() throws PosixException {
        Posix.changeMode(place.toString(), 01777);
        root = place.resolve("root");
    }

    private static void refused(Path root, String why) {
        RootException error = assertThrows(RootException.class, () -> Root.prepare(root.toString()));
        assertTrue(error.getMessage().contains(why), error.getMessage());
    }

    @Test
    void aRootThatAnotherUserMadeFirstIsRefused() throws IOException {
        assumeTrue(Posix.uid() == 0, "only root can make the files of somebody else");
        Files.createDirectory(root);
        for (int mode : List.of(0700, 0770, 02770)) {
            Files.setAttribute(root, "unix:uid", SOMEBODY);
            Posix.changeMode(root.toString(), mode);
            refused(root, root + " belongs to another user (uid 54321)");
        }
        assertTrue(Files.notExists(root.resolve("speed_registry")));
    }

    @Test
    void aRootBelowADirectoryThatOthersCanChangeIsRefused() throws IOException {
        Files.createDirectory(root);
        for (int mode : List.of(0777, 0775)) {
            Posix.changeMode(root.toString(), mode);
            refused(root.resolve("deep/root"), "run `chmod go-w " + root + "`");
        }
        Posix.changeMode(root.toString(), 01777);
        Root.prepare(root.resolve("deep/root").toString());
    }

    /** nobody asked for the root of a group. */
    @Test
    void aRootInADirectoryOfAGroupIsPrivateAllTheSame() throws IOException {
        Posix.changeMode(place.toString(), 03777);
        Path deep = root.resolve("deep");
        Root.prepare(deep.toString());
        for (Path made : List.of(root, deep, deep.resolve("speed_registry"))) {
            assertTrue(Root.isPrivate(made.toString()), made.toString());
        }
    }

    @Test
    void aRegistryThatOthersCanChangeIsRefused() throws IOException {
        Root.prepare(root.toString());
        Path registry = root.resolve("speed_registry");
        for (int mode : List.of(0770, 01777)) {
            Posix.changeMode(registry.toString(), mode);
            refused(root, "can write to " + registry);
        }
    }

    @Test
    void aRootIsMadePrivateAndHasNoAccessList() throws IOException {
        Root.prepare(root.toString());
        assertTrue(Root.isPrivate(root.toString()));
        assertEquals(null, Posix.attribute(root.toString(), "system.posix_acl_access"));
    }

    /** W-14 */
    @Test
    void aSessionDirectoryToWhichOthersHaveARightIsPassedOver() throws IOException {
        for (int mode : List.of(0770, 0755)) {
            Posix.changeMode(place.toString(), mode);
            assertTrue(
                    KeyFiles.defaultRoot(Map.of("XDG_RUNTIME_DIR", place + "")).endsWith("/speed-" + Posix.uid()));
        }
    }
}
