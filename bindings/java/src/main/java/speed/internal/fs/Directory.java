package speed.internal.fs;

import com.sun.jna.Native;
import java.io.Closeable;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import speed.errors.RootException;
import speed.internal.fs.Posix.FileStatus;
import speed.internal.wire.Block;
import speed.internal.wire.Names;

/**
 * A directory held open, so that replacing its path changes nothing.
 *
 * <p>What others may have put there is opened with care: no link is followed, nothing blocks, owners are checked.
 * A file that was made by somebody else is refused unless it is regular, has one name, and an expected owner.
 */
final class Directory implements Closeable {
    private static final int SHARED_DIRECTORY = 02770;
    static final int SHARED_FILE = 0660;
    private static final int MODE_BITS = 07777;
    private static final int OWNER_READS = 0400;
    private static final int MOST_TRIES = 1000;
    private static final int LISTING_BYTES = 32 << 10;
    private static final int NAME_AT = 19;
    private static final byte UNKNOWN_TYPE = 0;
    private static final byte DIRECTORY_TYPE = 4;
    private static final SecureRandom RANDOM = new SecureRandom();
    private static final ThreadLocal<Block> LISTING = ThreadLocal.withInitial(() -> {
        Block block = new Block(LISTING_BYTES);
        block.bytes.order(ByteOrder.nativeOrder());
        return block;
    });

    /** One name in a directory, and whether it is known to be a directory itself. */
    record Name(String name, boolean isDirectory) {}

    private int descriptor;

    private Directory(int descriptor) {
        this.descriptor = descriptor;
    }

    /** Opens a directory that is no link. */
    static Directory open(String path) throws PosixException {
        return new Directory(Posix.open(path, Posix.O_DIRECTORY | Posix.O_NOFOLLOW, 0));
    }

    /** Opens a directory in this one that is no link. */
    Directory child(String name) throws PosixException {
        return new Directory(Posix.open(descriptor, name, Posix.O_DIRECTORY | Posix.O_NOFOLLOW, 0));
    }

    /** Makes a directory unless it is there; RootException for a link, or a foreign owner where it is no group's. */
    static void make(String path) {
        try {
            makeIfAbsent(path);
            FileStatus status = Posix.status(Posix.AT_FDCWD, path);
            if (!status.isDirectory()) {
                throw new RootException(path + " is not a directory; remove it");
            }
            if (status.uid() != Posix.uid() && !status.isShared()) {
                throw new RootException(path + " belongs to user " + status.uid() + "; remove it or use another root");
            }
        } catch (PosixException error) {
            throw new RootException("cannot make the directory " + error.getMessage());
        }
    }

    /** Makes it private, or the group's, whatever the umask; whether it was made now. */
    static boolean makeIfAbsent(String path) throws PosixException {
        try {
            Posix.makeDirectory(path);
            if (isGroups(parentOf(path))) {
                try (Directory made = open(path)) {
                    share(made.descriptor, SHARED_DIRECTORY);
                }
            }
            return true;
        } catch (PosixException error) {
            if (!error.is(PosixException.EEXIST)) {
                throw error;
            }
            return false;
        }
    }

    private static String parentOf(String path) {
        int slash = path.lastIndexOf('/');
        return slash < 0 ? "." : path.substring(0, slash + 1);
    }

    /** Whether a directory is one of a group root: then what is made in it is the group's as well. */
    private static boolean isGroups(String path) throws PosixException {
        return Posix.status(Posix.AT_FDCWD, path + "/.").isShared();
    }

    /** Gives the group its rights to what was made, unless another member made it. */
    private static void share(int made, int mode) throws PosixException {
        FileStatus status = Posix.status(made);
        if ((status.mode() & MODE_BITS) != mode && status.uid() == Posix.uid()) {
            Posix.changeMode(made, mode);
        }
    }

    /** Gives the group its rights to a file just opened, where its directory is a group's; whether it is. */
    static boolean shareIn(String path, int file) throws PosixException {
        boolean shared = isGroups(parentOf(path));
        if (shared) {
            share(file, SHARED_FILE);
        }
        return shared;
    }

    /** A descriptor of a file that is made if it is not there: private, or the group's, whatever the umask. */
    static int openOrMake(String path, int flags) throws PosixException {
        try (Directory parent = new Directory(Posix.open(parentOf(path), Posix.O_DIRECTORY, 0))) {
            return parent.openOrMakeHere(path.substring(path.lastIndexOf('/') + 1), flags);
        }
    }

    private int openOrMakeHere(String name, int flags) throws PosixException {
        boolean shared = status().isShared();
        int file = Posix.open(
                descriptor, name, flags | Posix.O_CREAT | Posix.O_NOFOLLOW, shared ? SHARED_FILE : Posix.PRIVATE_FILE);
        try {
            if (shared) {
                share(file, SHARED_FILE);
            }
            return file;
        } catch (PosixException error) {
            Posix.close(file);
            throw error;
        }
    }

    FileStatus status() throws PosixException {
        return Posix.status(descriptor);
    }

    /** What a name here leads to; a link is not followed. */
    FileStatus status(String name) throws PosixException {
        return Posix.status(descriptor, name);
    }

    /** A descriptor for reading a regular file of this directory's owner or this user; EPERM for anything else. */
    int openRegular(String name) throws PosixException {
        return openRegular(name, Posix.O_RDONLY);
    }

    /** The same for reading or for writing. */
    int openRegular(String name, int access) throws PosixException {
        for (int tries = 0; tries < MOST_TRIES; tries++) {
            int file = openAny(name, access);
            try {
                FileStatus status = Posix.status(file);
                checkTrusted(name, status);
                if (status.links() > 0) {
                    return file;
                }
            } catch (PosixException error) {
                Posix.close(file);
                throw error;
            }
            Posix.close(file);
            Thread.yield(); // it is being replaced or removed
        }
        throw new PosixException(PosixException.ENOENT, name + ": replaced all the time");
    }

    private int openAny(String name, int access) throws PosixException {
        try {
            return Posix.open(descriptor, name, access | Posix.O_NOFOLLOW | Posix.O_NONBLOCK, 0);
        } catch (PosixException error) {
            if (!error.is(PosixException.ENOENT)) {
                FileStatus status = status(name);
                checkTrusted(name, status);
                if (!status.has(OWNER_READS)) {
                    throw new PosixException(PosixException.EPERM, name + ": not readable");
                }
            }
            throw error; // a sound file: it was the system that failed
        }
    }

    private void checkTrusted(String name, FileStatus status) throws PosixException {
        FileStatus here = status();
        boolean owned = status.uid() == Posix.uid() || status.uid() == here.uid() || here.isShared();
        if (!status.isRegular() || !owned || status.links() > 1) {
            throw new PosixException(PosixException.EPERM, name + ": not a regular file of an expected owner");
        }
    }

    /** At most {@code limit} bytes of a regular file. */
    byte[] readSmall(String name, int limit) throws PosixException {
        int file = openRegular(name);
        try {
            Block block = new Block(limit);
            return block.copy(0, Posix.read(file, block, limit, 0));
        } finally {
            Posix.close(file);
        }
    }

    /** The same of a file that anybody may have made: who reads it proves what it says. */
    byte[] readAny(String name, int limit) throws PosixException {
        int file = Posix.open(descriptor, name, Posix.O_RDONLY | Posix.O_NOFOLLOW | Posix.O_NONBLOCK, 0);
        try {
            Block block = new Block(limit);
            return block.copy(0, Posix.read(file, block, limit, 0));
        } finally {
            Posix.close(file);
        }
    }

    /** A descriptor of a new file for writing; EEXIST when the name is taken. */
    int create(String name, int furtherFlags) throws PosixException {
        return openOrMakeHere(name, Posix.O_WRONLY | Posix.O_EXCL | furtherFlags);
    }

    /** A descriptor of a file for reading and writing, made unless it is there. */
    int openOwn(String name) throws PosixException {
        return openOrMakeHere(name, Posix.O_RDWR | Posix.O_NONBLOCK);
    }

    /** Puts data in place by a temporary file and a rename; returns its descriptor, open for writing. */
    int replace(String name, byte[] data) throws PosixException {
        return replace(name, data, false);
    }

    /** The same; a durable file is on the disk before it has its name. */
    int replace(String name, byte[] data, boolean durable) throws PosixException {
        String temporary = Names.temporary(name);
        removeQuietly(temporary); // a killed predecessor of the same role may have left it
        int file = create(temporary, 0);
        try {
            Posix.writeAll(file, data);
            if (durable) {
                Posix.sync(file);
            }
            Posix.putInPlace(descriptor, temporary, name);
            return file;
        } catch (PosixException error) {
            Posix.close(file);
            removeQuietly(temporary);
            throw error;
        }
    }

    /** A temporary name that nobody else has, whatever the process, its threads and its namespace. */
    static String uniqueName(String token) {
        return Names.temporary(token + "-" + Posix.pid() + "-" + Long.toHexString(RANDOM.nextLong()));
    }

    void rename(String name, Directory to, String newName) throws PosixException {
        Posix.rename(descriptor, name, to.descriptor, newName);
    }

    /** Removes a file; false when it is not there or cannot be removed. */
    boolean removeQuietly(String name) {
        return remove(name, 0);
    }

    /** Removes a file. */
    void remove(String name) throws PosixException {
        Posix.remove(descriptor, name, 0);
    }

    /** Removes an empty directory; false when that fails. */
    boolean removeDirectory(String name) {
        return remove(name, Posix.AT_REMOVEDIR);
    }

    private boolean remove(String name, int flags) {
        try {
            Posix.remove(descriptor, name, flags);
            return true;
        } catch (PosixException error) {
            return false;
        }
    }

    /** Removes a directory and all that is in it, if it is there; no link is followed. */
    static void removeTree(String path) throws PosixException {
        try (Directory tree = open(path)) {
            tree.removeAll();
        } catch (PosixException error) {
            if (error.is(PosixException.ENOENT)) {
                return;
            }
            throw error;
        }
        Posix.remove(Posix.AT_FDCWD, path, Posix.AT_REMOVEDIR);
    }

    private void removeAll() throws PosixException {
        for (Name one : names(Integer.MAX_VALUE)) {
            if (one.isDirectory) {
                try (Directory child = child(one.name)) {
                    child.removeAll();
                }
            }
            Posix.remove(descriptor, one.name, one.isDirectory ? Posix.AT_REMOVEDIR : 0);
        }
    }

    /** Makes the names in a directory survive a power cut. */
    static void sync(String path) throws PosixException {
        try (Directory directory = open(path)) {
            Posix.sync(directory.descriptor);
        }
    }

    /** The names in here, unsorted, at most {@code limit} of them. */
    List<Name> names(int limit) throws PosixException {
        List<Name> names = new ArrayList<>();
        Libc.lseek(descriptor, 0, 0);
        List<Name> some = nextNames();
        while (names.size() < limit && !some.isEmpty()) {
            names.addAll(some);
            some = nextNames();
        }
        return names.size() > limit ? names.subList(0, limit) : names;
    }

    /** Takes all names, some at a time: there may be a million. */
    void forEachName(Consumer<String> take) throws PosixException {
        Libc.lseek(descriptor, 0, 0);
        for (List<Name> some = nextNames(); !some.isEmpty(); some = nextNames()) {
            some.forEach(name -> take.accept(name.name()));
        }
    }

    /** Those that one call brings; none at the end. */
    private List<Name> nextNames() throws PosixException {
        List<Name> names = new ArrayList<>();
        Block block = LISTING.get();
        while (names.isEmpty()) {
            int length = (int) Libc.getdents64(descriptor, block.address, block.size);
            if (length < 0) {
                throw Posix.failure(Native.getLastError(), "list");
            }
            if (length == 0) {
                break;
            }
            addNames(block, length, names);
        }
        return names;
    }

    /** Reads linux_dirent64 records: inode 8, offset 8, length 2, type 1, name. */
    private void addNames(Block block, int length, List<Name> names) {
        for (int at = 0; at < length; at += block.bytes.getShort(at + 16)) {
            int end = at + NAME_AT;
            while (block.bytes.get(end) != 0) {
                end++;
            }
            String name = new String(block.copy(at + NAME_AT, end - at - NAME_AT), StandardCharsets.ISO_8859_1);
            if (!name.equals(".") && !name.equals("..")) {
                names.add(new Name(name, isDirectory(block.bytes.get(at + 18), name)));
            }
        }
    }

    private boolean isDirectory(byte type, String name) {
        if (type != UNKNOWN_TYPE) {
            return type == DIRECTORY_TYPE;
        }
        try {
            return status(name).isDirectory();
        } catch (PosixException gone) {
            return false;
        }
    }

    @Override
    public void close() {
        Posix.close(descriptor);
        descriptor = -1;
    }
}
