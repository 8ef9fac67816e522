package speed.internal.fs;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import speed.errors.RootException;
import speed.errors.StorageException;
import speed.internal.core.Trust;
import speed.internal.fs.Posix.FileStatus;
import speed.internal.fs.TrustedPath.UntrustedException;
import speed.internal.wire.Names;

/** A root is made private, and trusted only whole: with all that lies above it, and its registry. */
final class Root {
    private static final int RIGHTS_OF_OTHERS = 077;
    private static final int OTHERS_WRITE = 002;
    private static final List<String> LISTS = List.of("system.posix_acl_access", "system.posix_acl_default");
    private static final String OTHERWISE = "choose another root";

    private Root() {}

    /** Makes root and registry directories where they are missing; RootException says what is wrong and what to do. */
    static void prepare(String root) {
        try {
            makeWithParents(root);
            check(root);
            for (String path : List.of(Names.registryDirectory(root), Names.claimsDirectory(root))) {
                Directory.makeIfAbsent(path);
                if (!Posix.isWritable(path)) {
                    throw new RootException(path + " is not writable for this user: " + OTHERWISE);
                }
            }
        } catch (PosixException error) {
            throw new RootException("cannot make " + error.getMessage() + "; " + OTHERWISE);
        }
    }

    /**
     * RootException unless only root and this user can change what is there, or a group that shares it. One that is not
     * there yet can be made.
     */
    static void check(String root) {
        try {
            checkWhole(root);
        } catch (UntrustedException error) {
            throw new RootException(error.advice(OTHERWISE));
        } catch (PosixException error) {
            if (!error.is(PosixException.ENOENT)) {
                throw new RootException("cannot use " + error.getMessage() + "; " + OTHERWISE);
            }
        }
    }

    /** StorageException if the registry of a root that was prepared is gone; it says how many envelopes went in before. */
    static void checkRegistry(String root, int envelopesWritten) {
        try {
            Posix.status(Posix.AT_FDCWD, Names.registryDirectory(root));
        } catch (PosixException unseen) {
            if (!unseen.saysFailed()) {
                throw new StorageException(
                        "the registry of " + root + " is gone: the root was removed or unmounted under its "
                                + "nodes; put it back, or run `speed root init --root " + root
                                + "`, and start them anew",
                        envelopesWritten);
            }
        }
    }

    /** Whether a directory is this user's, and nobody else has a right to it. */
    static boolean isPrivate(String path) {
        try {
            FileStatus status = Posix.status(Posix.AT_FDCWD, path + "/.");
            return status.isDirectory() && status.uid() == Posix.uid() && !status.has(RIGHTS_OF_OTHERS);
        } catch (PosixException error) {
            return false;
        }
    }

    /** The root itself, and what lies above it: private, wherever that is. */
    private static void makeWithParents(String path) throws PosixException {
        int slash = path.lastIndexOf('/');
        if (slash > 0 && !Files.isDirectory(Path.of(path.substring(0, slash)))) {
            makeWithParents(path.substring(0, slash));
        }
        try {
            Posix.makeDirectory(path);
        } catch (PosixException error) {
            if (!error.is(PosixException.EEXIST)) {
                throw error;
            }
        }
    }

    private static void checkWhole(String root) throws UntrustedException, PosixException {
        Trust trust = checked(TrustedPath.followed(root), false);
        for (String path : List.of(Names.registryDirectory(root), Names.claimsDirectory(root))) {
            try {
                checked(path, trust == Trust.GROUP);
            } catch (PosixException error) {
                if (!error.is(PosixException.ENOENT)) { // it is made where it is missing
                    throw error;
                }
            }
        }
    }

    private static Trust checked(String path, boolean inside) throws UntrustedException, PosixException {
        FileStatus status = Posix.status(Posix.AT_FDCWD, path);
        if (!status.isDirectory()) {
            throw new UntrustedException(path + " is no directory");
        }
        Trust trust = Trust.ofRoot(status.step(lists(path)), Posix.who(), inside);
        if (!trust.isGiven()) {
            throw refusal(trust, path, status);
        }
        return trust;
    }

    private static UntrustedException refusal(Trust trust, String path, FileStatus status) {
        return switch (trust) {
            case WRITABLE ->
                new UntrustedException(
                        (status.has(OTHERS_WRITE) ? "everybody" : "the group " + status.gid()) + " can write to "
                                + path,
                        "run `chmod 700 " + path + "`, or `speed root init --group`");
            case LISTED ->
                new UntrustedException("an access list lets others write to " + path, "run `setfacl -bk " + path + "`");
            case STRANGER ->
                new UntrustedException(
                        path + " is the root of a group (gid " + status.gid() + ") of which this user is no member",
                        "become one and log in again");
            default -> new UntrustedException(path + " belongs to another user (uid " + status.uid() + ")");
        };
    }

    /** The access lists of a directory that is no link: its own, and the one that what is made in it gets. */
    private static List<byte[]> lists(String path) throws PosixException {
        List<byte[]> found = new ArrayList<>();
        for (String name : LISTS) {
            byte[] list = Posix.attribute(path, name);
            if (list != null) {
                found.add(list);
            }
        }
        return found;
    }
}
