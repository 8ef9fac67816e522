package speed.internal.fs;

import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import speed.errors.StorageException;
import speed.internal.wire.Block;
import speed.internal.wire.DeadLetter;
import speed.internal.wire.Keyring;
import speed.internal.wire.LetterFile;
import speed.internal.wire.Limits;
import speed.internal.wire.Names;
import speed.internal.wire.NodeId;

/**
 * The dead letters of one node on disk: what it could not handle, kept sealed until somebody decides. A node and
 * an operator may use it side by side. Not thread-safe; StorageException where the filesystem fails.
 */
public final class DeadLetters {
    public static final String LETTER = "letter";
    public static final String RETRY = "retry";
    public static final String TRYING = "trying";

    private static final int MOST_LISTED = 65_536;
    private static final SecureRandom RANDOM = new SecureRandom();

    private final String path;
    private final NodeId node;
    private final Keyring keyring;
    private final boolean durable;

    /** One file and its size in bytes. */
    private record Kept(Names.Letter letter, long bytes) {}

    public DeadLetters(String root, String name, Keyring keyring, boolean durable) {
        path = Names.deadLettersDirectory(root, name);
        node = NodeId.of(name);
        this.keyring = keyring;
        this.durable = durable;
    }

    /** Numbers of the letters in one state, rising; none where nothing ever was. */
    public List<Integer> numbers(String state) {
        try (Directory directory = openIfAny()) {
            return kept(directory).stream()
                    .map(Kept::letter)
                    .filter(letter -> letter.state().equals(state))
                    .map(Names.Letter::number)
                    .sorted()
                    .toList();
        } catch (PosixException error) {
            throw failed(error);
        }
    }

    private Directory openIfAny() throws PosixException {
        try {
            return Directory.open(path);
        } catch (PosixException error) {
            if (error.is(PosixException.ENOENT)) {
                return null;
            }
            throw error;
        }
    }

    private static List<Kept> kept(Directory directory) throws PosixException {
        List<Kept> kept = new ArrayList<>();
        for (Directory.Name file : directory == null ? List.<Directory.Name>of() : directory.names(MOST_LISTED)) {
            Names.Letter letter = Names.parseLetter(file.name());
            if (letter != null) {
                kept.add(new Kept(letter, size(directory, file.name())));
            }
        }
        return kept;
    }

    /** 0 for one that was removed meanwhile. */
    private static long size(Directory directory, String name) throws PosixException {
        try {
            return directory.status(name).size();
        } catch (PosixException error) {
            if (error.is(PosixException.ENOENT)) {
                return 0;
            }
            throw error;
        }
    }

    /** Keeps a letter; false where there is no room. */
    public boolean add(DeadLetter letter, LetterFile.Payload payload) {
        try {
            Directory.make(path);
            try (Directory directory = Directory.open(path)) {
                List<Kept> kept = kept(directory);
                long bytes = kept.stream().mapToLong(Kept::bytes).sum() + letter.payloadBytes();
                if (kept.size() >= Limits.MAX_DEAD_LETTERS || bytes > Limits.MAX_DEAD_BYTES) {
                    return false;
                }
                int number = kept.stream()
                                .map(Kept::letter)
                                .map(Names.Letter::number)
                                .max(Comparator.naturalOrder())
                                .orElse(0)
                        + 1;
                write(directory, Names.letterName(number, LETTER), letter, payload);
                return true;
            }
        } catch (PosixException error) {
            throw failed(error);
        }
    }

    private void write(Directory directory, String name, DeadLetter letter, LetterFile.Payload payload)
            throws PosixException {
        String temporary = Names.temporary(name);
        directory.removeQuietly(temporary);
        int file = directory.create(temporary, 0);
        try {
            LetterFile.write(letter, payload, keyring, node, RANDOM::nextBytes, piece -> Posix.writeAll(file, piece));
            if (durable) {
                Posix.sync(file);
            }
            directory.rename(temporary, directory, name);
        } catch (java.io.IOException failure) {
            directory.removeQuietly(temporary);
            throw (PosixException) failure;
        } finally {
            Posix.close(file);
        }
        if (durable) {
            Directory.sync(path);
        }
    }

    /** All of a letter; WireException if it is damaged or of another key. */
    public LetterFile.Opened read(int number, String state) {
        try (Directory directory = Directory.open(path)) {
            int file = directory.openRegular(Names.letterName(number, state));
            try {
                long[] at = new long[1];
                return LetterFile.read(
                        into -> {
                            Block block = new Block(Math.max(1, into.length));
                            int count = Posix.read(file, block, into.length, at[0]);
                            at[0] += count;
                            block.bytes.get(0, into, 0, count);
                            return count;
                        },
                        keyring,
                        node);
            } finally {
                Posix.close(file);
            }
        } catch (java.io.IOException error) {
            throw failed((PosixException) error);
        }
    }

    /** Gives a letter another state; false if it is not there in the former one. */
    public boolean move(int number, String before, String after) {
        try (Directory directory = Directory.open(path)) {
            directory.rename(Names.letterName(number, before), directory, Names.letterName(number, after));
            return true;
        } catch (PosixException error) {
            if (error.is(PosixException.ENOENT)) {
                return false;
            }
            throw failed(error);
        }
    }

    /** Removes a letter for ever; false if it is not there. */
    public boolean remove(int number, String state) {
        try (Directory directory = Directory.open(path)) {
            return directory.removeQuietly(Names.letterName(number, state));
        } catch (PosixException error) {
            throw failed(error);
        }
    }

    private StorageException failed(PosixException error) {
        return new StorageException(
                "the dead letters in " + path + " cannot be used: " + error.getMessage() + ": see `speed root doctor`",
                0);
    }
}
