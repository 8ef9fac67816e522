package speed.internal.wire;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import speed.errors.ConfigurationException;
import speed.errors.InvalidNameException;
import speed.errors.WireException;

/**
 * What a node publishes about itself: one JSON line, its MAC, padding to a fixed capacity.
 *
 * <p>Nodes of earlier releases write no {@code features}: then there are none. The name of an {@code ephemeral} node
 * will not come back. Its {@code identity} is its card, empty without one.
 */
public record Entry(
        String name,
        int generation,
        Process process,
        Times times,
        Published published,
        String language,
        String version,
        List<String> features,
        boolean ephemeral,
        String identity) {
    public static final String STARTING = "starting";
    public static final String ONLINE = "online";
    public static final String LEAVING = "leaving";
    /** Feature of a node that takes every payload in segments. */
    public static final String SEGMENTS = "segments";
    /** Feature of a node that knows what withdrawing a request is. */
    public static final String WITHDRAW = "withdraw";
    /** Feature of a node that takes large payloads in slots. */
    public static final String SLOTS = "slots";
    /** Feature of a node that knows streams, and tells how far a call is. */
    public static final String STREAMS = "streams";

    private static final Set<String> STATUSES = Set.of(STARTING, ONLINE, LEAVING);
    private static final int MAX_GENERATION = (1 << Limits.GENERATION_BITS) - 1;

    /** Who a process is, for good: pid alone is reused and means nothing in another namespace. */
    public record Process(long pid, long start, String namespace, String host, String bootId) {}

    /** Of its heartbeats, in ms; {@code heartbeatMonotonicMs} compares on one boot only. */
    public record Times(
            long startupTimestamp, long lastHeartbeat, long heartbeatMonotonicMs, long lease, long heartbeatInterval) {}

    /**
     * What its program may change while it lives. What is more specific decides between {@code allow} and {@code deny}. An
     * event of a {@code shared} subscription goes to one node of its family. Of {@code identities} each is a grant of one;
     * {@code observers} may look without a grant.
     */
    public record Published(
            String status,
            List<String> fabrics,
            List<String> allow,
            List<String> deny,
            List<String> subscriptions,
            List<String> shared,
            List<String> identities,
            List<String> observers) {
        /** Without grants of identities, and without observers. */
        public Published(
                String status,
                List<String> fabrics,
                List<String> allow,
                List<String> deny,
                List<String> subscriptions,
                List<String> shared) {
            this(status, fabrics, allow, deny, subscriptions, shared, List.of(), List.of());
        }

        /** Returns the same with another status. */
        public Published with(String newStatus) {
            return new Published(newStatus, fabrics, allow, deny, subscriptions, shared, identities, observers);
        }

        /** Returns the same with other grants, what is excepted from them, and others who may look. */
        public Published granting(
                List<String> newAllow, List<String> newDeny, List<String> newIdentities, List<String> newObservers) {
            return new Published(
                    status, fabrics, newAllow, newDeny, subscriptions, shared, newIdentities, newObservers);
        }

        /** Returns the same with other subscriptions. */
        public Published subscribing(List<String> patterns, List<String> sharedPatterns) {
            return new Published(status, fabrics, allow, deny, patterns, sharedPatterns, identities, observers);
        }
    }

    /** Of a node without an identity. */
    public Entry(
            String name,
            int generation,
            Process process,
            Times times,
            Published published,
            String language,
            String version,
            List<String> features,
            boolean ephemeral) {
        this(name, generation, process, times, published, language, version, features, ephemeral, "");
    }

    /** Returns this entry with another heartbeat. */
    public Entry renewed(long unixMs, long monotonicMs) {
        return with(
                new Times(times.startupTimestamp, unixMs, monotonicMs, times.lease, times.heartbeatInterval),
                published);
    }

    /** Returns this entry with other things to say. */
    public Entry publishing(Published now) {
        return with(times, now);
    }

    /** Returns this entry with another card. */
    public Entry showing(String card) {
        return new Entry(name, generation, process, times, published, language, version, features, ephemeral, card);
    }

    /** Returns this entry as one that everybody finds stale. */
    public Entry expired() {
        return with(new Times(times.startupTimestamp, times.lastHeartbeat, 0, 1, 1), published.with(LEAVING));
    }

    private Entry with(Times newTimes, Published newPublished) {
        return new Entry(
                name, generation, process, newTimes, newPublished, language, version, features, ephemeral, identity);
    }

    public long lease() {
        return times.lease;
    }

    public long heartbeatMonotonicMs() {
        return times.heartbeatMonotonicMs;
    }

    public String status() {
        return published.status;
    }

    public List<String> subscriptions() {
        return published.subscriptions;
    }

    /**
     * Whether the most specific pattern it publishes that covers a sender is a grant; those of the name that are of
     * identities decide before all others.
     *
     * @param fingerprint of the sender's identity; empty without one
     */
    public boolean grants(String sender, String fingerprint) {
        return grantsIdentitiesOf(sender)
                ? published.identities.contains(sender + "@" + fingerprint)
                : grants(published.allow, published.deny, sender);
    }

    private boolean grantsIdentitiesOf(String sender) {
        return published.identities.stream().anyMatch(one -> Names.nameIn(one).equals(sender));
    }

    /** Whether a sender may look, a ping or a question for figures, by what it publishes, whatever it grants. */
    public boolean isObservedBy(String sender) {
        return published.observers.stream().anyMatch(one -> Names.matches(one, sender))
                && published.deny.stream().noneMatch(one -> Names.matches(one, sender))
                && !grantsIdentitiesOf(sender);
    }

    /** The same of patterns that an entry published. */
    public static boolean grants(List<String> allow, List<String> deny, String sender) {
        return specificity(allow, sender) > specificity(deny, sender);
    }

    /** How closely one of them names a sender: 0 not at all, then by the length of the family, most as a whole. */
    private static int specificity(List<String> patterns, String sender) {
        int most = 0;
        for (String pattern : patterns) {
            if (Names.matches(pattern, sender)) {
                most = Math.max(most, pattern.length() + (pattern.equals(sender) ? 1 : 0));
            }
        }
        return most;
    }

    /** Whether it does not serve yet: what it refuses, or does not grant, is not final. */
    public boolean isStarting() {
        return published.status.equals(STARTING);
    }

    public boolean isLeaving() {
        return published.status.equals(LEAVING);
    }

    /** Whether it says that it can do something. */
    public boolean has(String feature) {
        return features.contains(feature);
    }

    // --- writing ---

    /** Whether a file of an entry may be that large. */
    public static boolean isCapacity(long size) {
        return size >= Limits.MIN_ENTRY_BYTES && size <= Limits.MAX_ENTRY_BYTES && Long.bitCount(size) == 1;
    }

    /** The bytes of the file, padded to the capacity or to the next power of two that fits. */
    public byte[] encode(byte[] registryKey, int capacity) {
        return encode(registryKey, capacity, fields());
    }

    /** The same by these keys, which it names. */
    public byte[] encode(Keyring.Keys keys, int capacity) {
        Map<String, Object> fields = fields();
        fields.put("keyIds", keys.ids());
        return encode(keys.registryKey(), capacity, fields);
    }

    private byte[] encode(byte[] registryKey, int capacity, Map<String, Object> fields) {
        byte[] line = Json.write(fields).getBytes(StandardCharsets.US_ASCII);
        byte[] mac = mac(registryKey, line);
        int length = line.length + mac.length + 2;
        int needed = Math.max(capacity, Limits.MIN_ENTRY_BYTES);
        while (needed < length) {
            needed *= 2;
        }
        if (needed > Limits.MAX_ENTRY_BYTES) {
            throw new ConfigurationException("the entry of '" + name + "' needs " + length + " bytes, the limit is "
                    + Limits.MAX_ENTRY_BYTES + ": grant families such as 'etl.*' instead of single names");
        }
        byte[] data = new byte[needed];
        Arrays.fill(data, (byte) ' ');
        System.arraycopy(line, 0, data, 0, line.length);
        data[line.length] = '\n';
        System.arraycopy(mac, 0, data, line.length + 1, mac.length);
        data[length - 1] = '\n';
        return data;
    }

    private Map<String, Object> fields() {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("name", name);
        fields.put("nodeId", NodeId.of(name).hex());
        fields.put("generation", generation);
        fields.put("status", published.status);
        fields.put("pid", process.pid);
        fields.put("pidStart", process.start);
        fields.put("pidNamespace", process.namespace);
        fields.put("host", process.host);
        fields.put("bootId", process.bootId);
        fields.put("startupTimestamp", times.startupTimestamp);
        fields.put("lastHeartbeat", times.lastHeartbeat);
        fields.put("heartbeatMonotonicMs", times.heartbeatMonotonicMs);
        fields.put("lease", times.lease);
        fields.put("heartbeatInterval", times.heartbeatInterval);
        fields.put("fabrics", published.fabrics);
        fields.put("allow", published.allow);
        if (!published.deny.isEmpty()) {
            fields.put("deny", published.deny);
        }
        fields.put("subscriptions", published.subscriptions);
        fields.put("language", language);
        fields.put("version", version);
        fields.put("features", features);
        if (ephemeral) {
            fields.put("ephemeral", true);
        }
        if (!published.shared.isEmpty()) {
            fields.put("shared", published.shared);
        }
        if (!identity.isEmpty()) {
            fields.put("identity", identity);
        }
        if (!published.identities.isEmpty()) {
            fields.put("identities", published.identities);
        }
        if (!published.observers.isEmpty()) {
            fields.put("observers", published.observers);
        }
        return fields;
    }

    /** Line 2 of an entry, and of a claim. */
    public static byte[] mac(byte[] registryKey, byte[] line) {
        return Base64.getEncoder().encode(Hashes.hmac(registryKey, line));
    }

    // --- reading ---

    /** The entry in the data; BAD_ENTRY if no accepted key made it or a field is wrong. */
    public static Entry decode(byte[] data, List<byte[]> registryKeys) {
        int first = indexOfNewline(data, 0);
        int second = indexOfNewline(data, first + 1);
        if (first < 0 || second < 0 || data.length > Limits.MAX_ENTRY_BYTES) {
            throw bad("no two lines, or too large");
        }
        byte[] line = Arrays.copyOf(data, first);
        byte[] mac = Arrays.copyOfRange(data, first + 1, second);
        if (registryKeys.stream().noneMatch(key -> MessageDigest.isEqual(mac, mac(key, line)))) {
            throw bad("the MAC does not fit: torn, foreign, or of another key");
        }
        try {
            String text = StandardCharsets.UTF_8
                    .newDecoder()
                    .decode(ByteBuffer.wrap(line))
                    .toString();
            return of(Json.parse(text, Limits.MAX_VALUE_DEPTH));
        } catch (CharacterCodingException broken) {
            throw bad("line 1 is not UTF-8");
        } catch (IllegalArgumentException | InvalidNameException broken) {
            throw bad(broken.getMessage());
        }
    }

    private static int indexOfNewline(byte[] data, int from) {
        for (int index = from; index < data.length; index++) {
            if (data[index] == '\n') {
                return index;
            }
        }
        return -1;
    }

    private static Entry of(Object value) {
        if (!(value instanceof Map<?, ?> map)) {
            throw bad("line 1 is no object");
        }
        Fields fields = new Fields(map);
        Entry entry = new Entry(
                Names.checkNode(fields.text("name")),
                fields.generation(),
                new Process(
                        fields.integer("pid"),
                        fields.integer("pidStart"),
                        fields.text("pidNamespace"),
                        fields.text("host"),
                        fields.text("bootId")),
                new Times(
                        fields.integer("startupTimestamp"),
                        fields.integer("lastHeartbeat"),
                        fields.integer("heartbeatMonotonicMs"),
                        fields.positive("lease"),
                        fields.positive("heartbeatInterval")),
                new Published(
                        fields.text("status"),
                        fields.texts("fabrics"),
                        fields.texts("allow"),
                        fields.has("deny") ? fields.texts("deny") : List.of(),
                        fields.texts("subscriptions"),
                        fields.has("shared") ? fields.texts("shared") : List.of(),
                        fields.has("identities") ? fields.texts("identities") : List.of(),
                        fields.has("observers") ? fields.texts("observers") : List.of()),
                fields.text("language"),
                fields.text("version"),
                fields.has("features") ? fields.texts("features") : List.of(),
                fields.has("ephemeral") && fields.flag("ephemeral"),
                fields.has("identity") ? fields.text("identity") : "");
        entry.published.allow.forEach(Names::checkGrant);
        entry.published.deny.forEach(Names::checkGrant);
        entry.published.observers.forEach(Names::checkGrant);
        entry.published.subscriptions.forEach(Names::checkTopicPattern);
        entry.published.shared.forEach(Names::checkTopicPattern);
        if (!STATUSES.contains(entry.status()) || !NodeId.of(entry.name).hex().equals(fields.text("nodeId"))) {
            throw bad("status is unknown, or nodeId is not that of the name");
        }
        return entry;
    }

    /** The members of line 1, read with their types. */
    private record Fields(Map<?, ?> values) {
        String text(String key) {
            if (values.get(key) instanceof String text) {
                return text;
            }
            throw bad(key + " is no text");
        }

        long integer(String key) {
            if (values.get(key) instanceof Long number && number >= 0) {
                return number;
            }
            throw bad(key + " is no integer from 0 to 2^63-1");
        }

        long positive(String key) {
            long number = integer(key);
            if (number == 0) {
                throw bad(key + " is 0");
            }
            return number;
        }

        int generation() {
            long number = positive("generation");
            if (number > MAX_GENERATION) {
                throw bad("generation is out of range");
            }
            return (int) number;
        }

        boolean has(String key) {
            return values.containsKey(key);
        }

        boolean flag(String key) {
            if (values.get(key) instanceof Boolean flag) {
                return flag;
            }
            throw bad(key + " is neither true nor false");
        }

        List<String> texts(String key) {
            if (values.get(key) instanceof List<?> items && items.stream().allMatch(String.class::isInstance)) {
                return items.stream().map(String.class::cast).toList();
            }
            throw bad(key + " is no list of text");
        }
    }

    private static WireException bad(String message) {
        return new WireException("BAD_ENTRY", message);
    }
}
