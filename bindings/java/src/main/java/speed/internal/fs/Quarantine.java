package speed.internal.fs;

import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import speed.internal.fs.Posix.FileStatus;
import speed.internal.wire.Json;
import speed.internal.wire.Limits;
import speed.internal.wire.Names;

/**
 * Where refused files and damaged bytes go: bounded in number and bytes, each with a reason. Used by the
 * thread that holds the protocol role.
 */
public final class Quarantine {
    private static final int WALK_LIMIT = 4096;
    private static final int LISTED = 4 * 65536;

    private final Directory directory;
    private int files;
    private long bytes;
    private long next = 1;

    public Quarantine(String root, String name) throws PosixException {
        directory = Directory.open(Names.quarantineDirectory(root, name));
        try {
            directory.names(LISTED).forEach(file -> survey(file.name()));
        } catch (PosixException | RuntimeException failure) {
            directory.close();
            throw failure;
        }
    }

    /** Counts what earlier runs left, and finds the next free number. */
    private void survey(String name) {
        int dot = name.indexOf('.');
        String number = dot < 0 ? name : name.substring(0, dot);
        if (number.matches("[0-9]{1,18}")) {
            next = Math.max(next, Long.parseLong(number) + 1);
        }
        if (!name.endsWith(".reason")) {
            files++;
            bytes = sum(bytes, treeBytes(directory, name));
        }
    }

    /** Moves an entry of another directory here, unopened; deletes it when the bounds are reached. */
    void take(Directory from, String name, String reason) {
        long size = treeBytes(from, name);
        String number = number();
        try {
            if (fits(size)) {
                from.rename(name, directory, number);
                note(number, size, name, reason, null);
                return;
            }
        } catch (PosixException cannotMove) {
            // deleted below
        }
        removeTree(from, name, WALK_LIMIT);
    }

    /** Keeps damaged bytes that begin at an offset of a lane file. */
    void put(byte[] data, String origin, String reason, long offset) {
        if (!fits(data.length)) {
            return;
        }
        String number = number();
        if (write(number, data)) {
            note(number, data.length, origin, reason, offset);
        }
    }

    private boolean fits(long size) {
        return files < Limits.MAX_QUARANTINE_FILES && size <= Limits.MAX_QUARANTINE_BYTES - bytes;
    }

    /** Sizes that files claim may add up to more than any number. */
    private static long sum(long one, long other) {
        return one + Math.min(other, Long.MAX_VALUE - one);
    }

    private String number() {
        return String.format("%08d", next++);
    }

    /** Writes the reason file; without space for it the quarantined thing stays all the same. */
    private void note(String number, long size, String name, String reason, Long offset) {
        files++;
        bytes += size;
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("name", name);
        fields.put("reason", reason);
        fields.put("bytes", size);
        fields.put("timestamp", System.currentTimeMillis());
        if (offset != null) {
            fields.put("offset", offset);
        }
        write(number + ".reason", (Json.write(fields) + "\n").getBytes(StandardCharsets.US_ASCII));
    }

    private boolean write(String name, byte[] data) {
        int file = -1;
        try {
            file = directory.create(name, 0);
            Posix.writeAll(file, data);
            return true;
        } catch (PosixException full) {
            if (file >= 0) {
                directory.removeQuietly(name);
            }
            return false;
        } finally {
            Posix.close(file);
        }
    }

    /** Apparent bytes of a file, or of a directory's direct entries (bounded). */
    private static long treeBytes(Directory from, String name) {
        try {
            FileStatus status = from.status(name);
            if (!status.isDirectory()) {
                return status.size();
            }
            try (Directory inner = from.child(name)) {
                long total = 0;
                for (Directory.Name file : inner.names(WALK_LIMIT)) {
                    total = sum(total, inner.status(file.name()).size());
                }
                return total;
            }
        } catch (PosixException gone) {
            return 0;
        }
    }

    /** Deletes a file or directory tree without following links; what is left goes at the next scan. */
    private static void removeTree(Directory from, String name, int budget) {
        if (from.removeQuietly(name) || budget < 1) {
            return;
        }
        try (Directory inner = from.child(name)) {
            List<Directory.Name> files = inner.names(budget);
            files.forEach(file -> removeTree(inner, file.name(), budget / 16));
        } catch (PosixException gone) {
            return;
        }
        from.removeDirectory(name);
    }

    public void close() {
        directory.close();
    }
}
