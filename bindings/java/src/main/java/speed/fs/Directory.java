package speed.fs;

import com.sun.jna.Native;
import java.io.Closeable;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import speed.errors.RootException;
import speed.wire.Block;
import speed.wire.Names;

/**
 * A directory held open, so that replacing its path changes nothing (L-10).
 *
 * <p>What others may have put there is opened with care: no link is followed, nothing blocks, owners are checked.
 * A file that was made by somebody else is refused unless it is regular, has one name, and an expected owner.
 */
final class Directory implements Closeable {
    static final int PRIVATE_DIRECTORY = 0700;
    static final int PRIVATE_FILE = 0600;
    private static final int OWNER_READS = 0400;
    private static final int MOST_TRIES = 1000;
    private static final int LISTING_BYTES = 32 << 10;
    private static final int NAME_AT = 19;
    private static final byte UNKNOWN_TYPE = 0;
    private static final byte DIRECTORY_TYPE = 4;
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

    /** Makes a private directory unless it is there; RootException for a link or a foreign owner. */
    static void make(String path) {
        try {
            makeIfAbsent(path);
            FileStatus status = Posix.status(Posix.AT_FDCWD, path);
            if (!status.isDirectory()) {
                throw new RootException(path + " is not a directory; remove it");
            }
            if (status.uid() != Posix.uid()) {
                throw new RootException(path + " belongs to user " + status.uid() + "; remove it or use another root");
            }
        } catch (PosixException error) {
            throw new RootException("cannot make the directory " + error.getMessage());
        }
    }

    /** Whether it was made now. */
    static boolean makeIfAbsent(String path) throws PosixException {
        try {
            Posix.makeDirectory(path);
            return true;
        } catch (PosixException error) {
            if (!error.is(PosixException.EEXIST)) {
                throw error;
            }
            return false;
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
        boolean owned = status.uid() == Posix.uid() || status.uid() == status().uid();
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

    /** A descriptor of a new private file for writing; EEXIST when the name is taken. */
    int create(String name, int furtherFlags) throws PosixException {
        int flags = Posix.O_WRONLY | Posix.O_CREAT | Posix.O_EXCL | Posix.O_NOFOLLOW | furtherFlags;
        return Posix.open(descriptor, name, flags, PRIVATE_FILE);
    }

    /** A descriptor of a private file for reading and writing, made unless it is there. */
    int openOwn(String name) throws PosixException {
        int flags = Posix.O_RDWR | Posix.O_CREAT | Posix.O_NOFOLLOW | Posix.O_NONBLOCK;
        return Posix.open(descriptor, name, flags, PRIVATE_FILE);
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
