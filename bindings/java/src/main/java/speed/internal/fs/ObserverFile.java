package speed.internal.fs;

import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.List;
import speed.errors.ConfigurationException;
import speed.internal.fs.Posix.FileStatus;
import speed.internal.wire.Block;
import speed.internal.wire.Limits;
import speed.internal.wire.Names;
import speed.internal.wire.Observers;

/** The file in which the owner of a root names who may look at all of its nodes. */
public final class ObserverFile {
    private static final int WRITES_OF_OTHERS = 022;

    private ObserverFile() {}

    /** Names and families, none without a file; ConfigurationException for one that does not count, with what to do. */
    public static List<String> read(String root) {
        String path = Names.observersPath(root);
        try {
            return Observers.parse(text(root, path));
        } catch (ConfigurationException wrong) {
            throw refused(path, wrong.getMessage());
        } catch (PosixException error) {
            if (error.is(PosixException.ENOENT)) {
                return List.of();
            }
            throw refused(
                    path, error.is(PosixException.ELOOP) ? "it is a link" : "it cannot be read: " + error.getMessage());
        }
    }

    private static ConfigurationException refused(String path, String why) {
        return new ConfigurationException(path + " lets nobody look at nodes: " + why + "; mend it, or remove it");
    }

    private static byte[] text(String root, String path) throws PosixException {
        int file = Posix.open(path, Posix.O_RDONLY | Posix.O_NOFOLLOW | Posix.O_NONBLOCK, 0);
        try {
            check(path, Posix.status(file), ownerOf(root));
            Block text = new Block(Limits.MAX_OBSERVERS_BYTES + 1);
            return text.copy(0, Posix.read(file, text, text.size, 0));
        } finally {
            Posix.close(file);
        }
    }

    private static long ownerOf(String root) throws PosixException {
        return Posix.status(Posix.AT_FDCWD, root + "/.").uid();
    }

    private static void check(String path, FileStatus status, long owner) {
        if (!status.isRegular()) {
            throw new ConfigurationException("it is no regular file");
        }
        if (status.links() != 1) {
            throw new ConfigurationException("it has a second name");
        }
        if (status.uid() != 0 && status.uid() != owner) {
            throw new ConfigurationException("it belongs to another user (uid " + status.uid() + ") than the root");
        }
        if (status.has(WRITES_OF_OTHERS)) {
            throw new ConfigurationException("others can write to it: run `chmod go-w " + path + "`");
        }
    }

    /** Lets speedd and the operator's commands look, unless a file says who may; only the owner of the root does. */
    static void ensure(String root) throws PosixException {
        FileStatus status = Posix.status(Posix.AT_FDCWD, root + "/.");
        String path = Names.observersPath(root);
        if (status.uid() != Posix.uid() || Files.exists(Path.of(path), LinkOption.NOFOLLOW_LINKS)) {
            return;
        }
        String beside = Names.registryDirectory(root) + "/" + Directory.uniqueName("observers");
        try {
            SecretFile.write(beside, Observers.first(), status.isShared());
            Posix.rename(Posix.AT_FDCWD, beside, Posix.AT_FDCWD, path);
        } finally {
            Posix.removeQuietly(beside);
        }
    }
}
