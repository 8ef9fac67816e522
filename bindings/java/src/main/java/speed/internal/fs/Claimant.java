package speed.internal.fs;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import speed.internal.wire.Entry;
import speed.internal.wire.Json;

/**
 * Who made a claim, as far as its file tells.
 *
 * @param maker the process
 * @param lease in ms
 * @param made CLOCK_MONOTONIC ms of its boot when it was made, ABSENT where its file has none
 * @param above what earlier lives up to this generation left is forgotten, ABSENT where its file has none
 * @param ephemeral whether the name will not come back
 * @param sweeps whether no node starts here: somebody removes what is left of the name
 */
public record Claimant(Entry.Process maker, long lease, long made, int above, boolean ephemeral, boolean sweeps) {
    static final int ABSENT = -1;

    /** A node that starts. */
    static Claimant starting(long lease, boolean ephemeral) {
        return new Claimant(ThisProcess.identity(), lease, ABSENT, ABSENT, ephemeral, false);
    }

    /** Somebody who removes what is left of a name. */
    static Claimant sweeping(long lease) {
        return new Claimant(ThisProcess.identity(), lease, ABSENT, ABSENT, false, true);
    }

    /** The same who claims now, after a former claimant (null for none), where so much was forgotten. */
    Claimant after(Claimant former, int forgotten) {
        boolean wasEphemeral = former != null && former.ephemeral;
        return new Claimant(maker, lease, Posix.monotonicMs(), forgotten, sweeps ? wasEphemeral : ephemeral, sweeps);
    }

    /** Whether a claim of this boot has stood a whole lease. */
    boolean isExpired(long now) {
        return made >= 0 && now - made > lease;
    }

    boolean isDead() {
        return ThisProcess.isGone(maker);
    }

    /** Whether one of this boot that sweeps goes on: it is seen to live, or cannot be seen and has a lease. */
    boolean holds(long now) {
        return !isDead() && (ThisProcess.isSeen(maker) || !isExpired(now));
    }

    @Override
    public String toString() {
        return "process " + maker.pid() + " on " + maker.host();
    }

    // --- the file ---

    /** The two lines of a claim's file. */
    byte[] encode(byte[] registryKey) {
        byte[] line = Json.write(fields()).getBytes(StandardCharsets.US_ASCII);
        ByteArrayOutputStream file = new ByteArrayOutputStream();
        file.writeBytes(line);
        file.write('\n');
        file.writeBytes(Entry.mac(registryKey, line));
        file.write('\n');
        return file.toByteArray();
    }

    private Map<String, Object> fields() {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("pid", maker.pid());
        fields.put("pid_start", maker.start());
        fields.put("pid_namespace", maker.namespace());
        fields.put("host", maker.host());
        fields.put("boot_id", maker.bootId());
        fields.put("lease", lease);
        putUnless(made == ABSENT, fields, "made_monotonic_ms", made);
        putUnless(above == ABSENT, fields, "above", above);
        putUnless(!ephemeral, fields, "ephemeral", true);
        putUnless(!sweeps, fields, "sweeps", true);
        return fields;
    }

    private static void putUnless(boolean isLeftOut, Map<String, Object> fields, String name, Object value) {
        if (!isLeftOut) {
            fields.put(name, value);
        }
    }

    /**
     * What a claim's file says; null if it does not say who made it. Without the MAC of an accepted key it tells of its
     * maker only.
     */
    static Claimant decode(byte[] data, List<byte[]> registryKeys) {
        int end = indexOfNewline(data, 0);
        byte[] line = Arrays.copyOf(data, end);
        int rest = Math.min(end + 1, data.length);
        byte[] mac = Arrays.copyOfRange(data, rest, indexOfNewline(data, rest));
        boolean isAuthentic = registryKeys.stream().anyMatch(key -> MessageDigest.isEqual(mac, Entry.mac(key, line)));
        try {
            return of((Map<?, ?>) Json.parse(new String(line, StandardCharsets.UTF_8)), isAuthentic);
        } catch (IllegalArgumentException | ClassCastException | NullPointerException | ArithmeticException unclear) {
            return null;
        }
    }

    private static int indexOfNewline(byte[] data, int from) {
        int index = from;
        while (index < data.length && data[index] != '\n') {
            index++;
        }
        return index;
    }

    private static Claimant of(Map<?, ?> fields, boolean isAuthentic) {
        Entry.Process maker = new Entry.Process(
                (Long) fields.get("pid"),
                (Long) fields.get("pid_start"),
                (String) fields.get("pid_namespace"),
                (String) fields.get("host"),
                (String) fields.get("boot_id"));
        Object made = fields.get("made_monotonic_ms");
        Object above = isAuthentic ? fields.get("above") : null;
        return new Claimant(
                maker,
                (Long) fields.get("lease"),
                made == null ? ABSENT : (Long) made,
                above == null ? ABSENT : Math.toIntExact((Long) above),
                isAuthentic && Boolean.TRUE.equals(fields.get("ephemeral")),
                Boolean.TRUE.equals(fields.get("sweeps")));
    }
}
