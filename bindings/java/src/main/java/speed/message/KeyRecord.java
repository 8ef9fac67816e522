package speed.message;

import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import speed.errors.KeyRefusedException;
import speed.internal.message.Compression.Shown;
import speed.internal.wire.Json;

/** A key as it is written down; KeyRefusedException names the field that is malformed, and never its value. */
record KeyRecord(Map<?, ?> fields) {
    private static final Set<String> FIELDS = Set.of(
            "id",
            "algorithm",
            "secret",
            "public",
            "namespaces",
            "topics",
            "publishers",
            "not_before_ms",
            "not_after_ms");
    private static final Pattern ID = Pattern.compile("[A-Za-z0-9_][A-Za-z0-9._-]*");
    private static final int MAX_KEYS = 64;

    /** The records of a set: one object, or a list of them. */
    static List<KeyRecord> parse(String json) {
        Object parsed;
        try {
            parsed = Json.parse(json);
        } catch (IllegalArgumentException broken) {
            throw new KeyRefusedException("a key set is not JSON: " + broken.getMessage());
        }
        List<?> records = parsed instanceof List<?> list ? list : List.of(parsed == null ? "" : parsed);
        if (records.isEmpty() || records.size() > MAX_KEYS) {
            throw new KeyRefusedException("a key set has 1 to " + MAX_KEYS + " keys, this one " + records.size());
        }
        List<KeyRecord> found = new ArrayList<>();
        for (Object one : records) {
            if (!(one instanceof Map<?, ?> fields)) {
                throw new KeyRefusedException("a key is one JSON object");
            }
            found.add(new KeyRecord(fields));
        }
        return found;
    }

    /** Returns the id, once nothing else about the names of its fields is wrong. */
    String id() {
        String id = checkId(fields.get("id") instanceof String text ? text : "");
        fields.keySet().stream()
                .filter(name -> !FIELDS.contains(name))
                .findFirst()
                .ifPresent(name -> {
                    throw refused("has an unknown field '" + Shown.text(String.valueOf(name)) + "'");
                });
        return id;
    }

    Algorithm algorithm() {
        return Algorithm.of(String.valueOf(fields.get("algorithm")));
    }

    KeyBounds bounds() {
        return new KeyBounds(
                texts("namespaces", KeyBounds.NONE.namespaces()),
                texts("topics", KeyBounds.NONE.topics()),
                texts("publishers", KeyBounds.NONE.publishers()),
                time("not_before_ms", KeyBounds.NONE.notBeforeMs()),
                time("not_after_ms", KeyBounds.NONE.notAfterMs()));
    }

    /** Returns an id that may become part of a file name. */
    static String checkId(String id) {
        boolean isId = id != null
                && id.length() <= Algorithm.MAX_KEY_ID_BYTES
                && ID.matcher(id).matches();
        if (!isId || id.contains("..")) {
            throw new KeyRefusedException("'" + Shown.text(String.valueOf(id)) + "' is no key id: use 1 to "
                    + Algorithm.MAX_KEY_ID_BYTES + " of [A-Za-z0-9._-]");
        }
        return id;
    }

    /** What {@link #parse} reads. */
    static KeyRecord of(String id, Algorithm algorithm, byte[] secret, byte[] publicBytes, KeyBounds bounds) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("id", id);
        fields.put("algorithm", algorithm.label());
        fields.put(
                secret != null ? "secret" : "public",
                Base64.getEncoder().encodeToString(secret != null ? secret : publicBytes));
        putUnless(fields, "namespaces", bounds.namespaces(), KeyBounds.NONE.namespaces());
        putUnless(fields, "topics", bounds.topics(), KeyBounds.NONE.topics());
        putUnless(fields, "publishers", bounds.publishers(), KeyBounds.NONE.publishers());
        putUnless(fields, "not_before_ms", bounds.notBeforeMs(), KeyBounds.NONE.notBeforeMs());
        putUnless(fields, "not_after_ms", bounds.notAfterMs(), KeyBounds.NONE.notAfterMs());
        return new KeyRecord(fields);
    }

    String toJson() {
        return Json.write(fields);
    }

    private static void putUnless(Map<String, Object> fields, String name, Object value, Object usual) {
        if (!value.equals(usual)) {
            fields.put(name, value);
        }
    }

    /** Of {@code secret} or {@code public}; null where the record has none. */
    byte[] bytes(String name) {
        if (!fields.containsKey(name)) {
            return null;
        }
        try {
            if (fields.get(name) instanceof String text && text.length() % 4 == 0) {
                return Base64.getDecoder().decode(text);
            }
        } catch (IllegalArgumentException broken) {
            // said below
        }
        throw refused(name + " is not Base64");
    }

    private List<String> texts(String name, List<String> otherwise) {
        if (!fields.containsKey(name)) {
            return otherwise;
        }
        if (fields.get(name) instanceof List<?> items && items.stream().allMatch(String.class::isInstance)) {
            return items.stream().map(String.class::cast).toList();
        }
        throw refused(name + " is not a list of texts");
    }

    private long time(String name, long otherwise) {
        Object value = fields.containsKey(name) ? fields.get(name) : otherwise;
        if (value instanceof Long number) {
            return number;
        }
        throw refused(name + " is not a number of milliseconds");
    }

    private KeyRefusedException refused(String why) {
        return new KeyRefusedException("key '" + fields.get("id") + "': " + why);
    }

    @Override
    public String toString() {
        return "KeyRecord " + fields.get("id");
    }
}
