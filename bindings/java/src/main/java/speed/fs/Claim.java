package speed.fs;

import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SortedSet;
import java.util.TreeSet;
import speed.wire.Block;
import speed.wire.Entry;
import speed.wire.Json;
import speed.wire.Names;

/**
 * Claims: files created with O_EXCL, so that exactly one process wins a generation of a name.
 *
 * @param maker who made it
 * @param lease in ms
 * @param made CLOCK_MONOTONIC ms of its boot when it was made, -1 in a claim that does not tell
 */
record Claim(Entry.Process maker, long lease, long made) {
    private static final int MAX_BYTES = 4096;
    /** What is left of its mode: in the root of a group its members still read it. */
    private static final int READ_ONLY = 0440;
    private static final int OWNER_WRITES = 0200;

    /** Whether a claim of this boot has stood a whole lease. */
    boolean isExpired(long now) {
        return made >= 0 && now - made > lease;
    }

    /** The highest claimed generation of a name, 0 without one. */
    static int newest(String root, String name) throws PosixException {
        SortedSet<Integer> generations = new TreeSet<>(List.of(0));
        try (Directory claims = Directory.open(Names.claimsDirectory(root))) {
            claims.forEachName(file -> generations.add(Names.parseClaim(file, name)));
        }
        return generations.last();
    }

    /** Creates the claim; false if somebody else has it. */
    boolean take(String root, String name, int generation) throws PosixException {
        int file;
        try {
            file = Directory.openOrMake(Names.claimPath(root, name, generation), Posix.O_WRONLY | Posix.O_EXCL);
        } catch (PosixException error) {
            if (error.is(PosixException.EEXIST)) {
                return false;
            }
            throw error;
        }
        try {
            Posix.writeAll(file, encode());
            Posix.sync(file); // after a power cut no generation may be used again
            Directory.sync(Names.claimsDirectory(root));
            Directory.sync(Names.registryDirectory(root));
            Directory.sync(root);
        } catch (PosixException failed) {
            release(root, name, generation); // no entry will follow it
            throw failed;
        } finally {
            Posix.close(file);
        }
        return true;
    }

    private byte[] encode() {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("pid", maker.pid());
        fields.put("pid_start", maker.start());
        fields.put("pid_namespace", maker.namespace());
        fields.put("host", maker.host());
        fields.put("boot_id", maker.bootId());
        fields.put("lease", lease);
        fields.put("made_monotonic_ms", made);
        return (Json.write(fields) + "\n").getBytes(StandardCharsets.US_ASCII);
    }

    /** Who made a claim; null while it is empty or if it is unreadable. */
    static Claim read(String root, String name, int generation) {
        int file = -1;
        try {
            file = Posix.open(Names.claimPath(root, name, generation),
                    Posix.O_RDONLY | Posix.O_NOFOLLOW | Posix.O_NONBLOCK, 0);
            Block text = new Block(MAX_BYTES);
            int length = Posix.read(file, text, MAX_BYTES, 0);
            return parse(new String(text.copy(0, length), StandardCharsets.UTF_8));
        } catch (PosixException | IllegalArgumentException | ClassCastException | NullPointerException unclear) {
            return null;
        } finally {
            Posix.close(file);
        }
    }

    private static Claim parse(String text) {
        Map<?, ?> fields = (Map<?, ?>) Json.parse(text);
        Entry.Process maker = new Entry.Process((Long) fields.get("pid"), (Long) fields.get("pid_start"),
                (String) fields.get("pid_namespace"), (String) fields.get("host"), (String) fields.get("boot_id"));
        Object made = fields.get("made_monotonic_ms");
        return new Claim(maker, (Long) fields.get("lease"), made == null ? -1 : (Long) made);
    }

    /** Says that no entry follows this claim any more: an absent entry means a free name. */
    static void release(String root, String name, int generation) {
        try {
            String path = Names.claimPath(root, name, generation);
            Posix.changeMode(path, Posix.status(Posix.AT_FDCWD, path).mode() & READ_ONLY);
        } catch (PosixException replaced) {
            // a newer claim took its place
        }
    }

    /** Whether the owner left in order. */
    static boolean isReleased(String root, String name, int generation) throws PosixException {
        try {
            return !Posix.status(Posix.AT_FDCWD, Names.claimPath(root, name, generation)).has(OWNER_WRITES);
        } catch (PosixException error) {
            if (error.is(PosixException.ENOENT)) {
                return true;
            }
            throw error;
        }
    }

    /** Removes lower claims; the newest one stays for ever, and so do those that cannot be removed. */
    static void removeOlder(String root, String name, int generation) {
        try (Directory claims = Directory.open(Names.claimsDirectory(root))) {
            claims.forEachName(file -> {
                int found = Names.parseClaim(file, name);
                if (found > 0 && found < generation) {
                    claims.removeQuietly(file);
                }
            });
        } catch (PosixException unlisted) {
            // they say nothing any more
        }
    }
}
