package speed.message;

import java.util.Base64;
import java.util.List;
import java.util.Map;
import speed.errors.KeyRefusedException;

/**
 * One key of messages, with its bounds. Immutable; its text form shows id and algorithm only.
 *
 * <pre>{@code
 * MessageKey signing = MessageKey.parse(Files.readString(path));  // what `speed keys` writes
 * MessageKey reader = MessageKey.generate("reader-1", Algorithm.X25519);
 * String given = reader.publicPart().toJson();                    // for who encrypts to it
 * }</pre>
 */
public final class MessageKey {
    private final String id;
    private final Algorithm algorithm;
    private final byte[] secret;
    private final byte[] publicBytes;
    private final KeyBounds bounds;
    private final LoadedKey loaded;

    /** Null for what is not known: the secret, or the public part. */
    MessageKey(String id, Algorithm algorithm, byte[] secret, byte[] publicBytes, KeyBounds bounds) {
        this.id = KeyRecord.checkId(id);
        this.algorithm = algorithm;
        this.secret = secret;
        this.bounds = bounds;
        if (secret == null && (publicBytes == null || algorithm.isShared())) {
            throw new KeyRefusedException("key '" + id + "' has no bytes: give its secret, or its public part");
        }
        checkSize("secret", secret, algorithm.secretBytes);
        checkSize("public", publicBytes, algorithm.publicBytes);
        loaded = KeyLoader.load(id, algorithm, secret, publicBytes);
        this.publicBytes = publicBytes != null ? publicBytes : loaded.publicBytes();
    }

    private MessageKey(KeyRecord record) {
        this(record.id(), record.algorithm(), record, record.bounds());
    }

    private MessageKey(String id, Algorithm algorithm, KeyRecord record, KeyBounds bounds) {
        this(id, algorithm, record.bytes("secret"), record.bytes("public"), bounds);
    }

    private MessageKey(MessageKey other, byte[] secret, KeyBounds bounds, LoadedKey loaded) {
        id = other.id;
        algorithm = other.algorithm;
        publicBytes = other.publicBytes;
        this.secret = secret;
        this.bounds = bounds;
        this.loaded = loaded;
    }

    /**
     * The key of one record, as {@code speed keys} writes it.
     *
     * @param json an object with {@code id}, {@code algorithm}, {@code secret} or {@code public}, and bounds
     * @return the key
     * @throws KeyRefusedException for anything else
     * @throws speed.errors.AlgorithmException for an algorithm that is weak, unknown, or not available here
     */
    public static MessageKey parse(String json) {
        List<MessageKey> found = parseAll(json);
        if (found.size() != 1) {
            throw new KeyRefusedException("a set of " + found.size() + " keys is not one key");
        }
        return found.get(0);
    }

    /**
     * The keys of a set.
     *
     * @param json one record, or a list of them
     * @return the keys, at least one, each with an id of its own
     * @throws KeyRefusedException for anything else
     * @throws speed.errors.AlgorithmException for an algorithm that is weak, unknown, or not available here
     */
    public static List<MessageKey> parseAll(String json) {
        List<MessageKey> keys =
                KeyRecord.parse(json).stream().map(MessageKey::new).toList();
        if (keys.stream().map(MessageKey::id).distinct().count() != keys.size()) {
            throw new KeyRefusedException("a key id stands twice in a key set");
        }
        return keys;
    }

    /**
     * The key of a record that was read already, such as by another library for JSON.
     *
     * @param fields those of such a record
     * @return the key
     * @throws KeyRefusedException for a malformed one
     */
    public static MessageKey of(Map<?, ?> fields) {
        return new MessageKey(new KeyRecord(fields));
    }

    /**
     * A new key.
     *
     * @param id 1 to 128 of {@code [A-Za-z0-9._-]}
     * @param algorithm what it is for
     * @return a key with its secret
     */
    public static MessageKey generate(String id, Algorithm algorithm) {
        return new MessageKey(id, algorithm, KeyLoader.newSecret(algorithm), null, KeyBounds.NONE);
    }

    /**
     * The same key with other bounds.
     *
     * @param others what it may be used for
     * @return such a key
     */
    public MessageKey withBounds(KeyBounds others) {
        return new MessageKey(this, secret, others, loaded);
    }

    /**
     * The same key without its secret, to be given away.
     *
     * @return such a key
     * @throws KeyRefusedException for a shared key
     */
    public MessageKey publicPart() {
        if (algorithm.isShared()) {
            throw new KeyRefusedException("key '" + id + "' is shared: it has no public part");
        }
        return new MessageKey(this, null, bounds, KeyLoader.load(id, algorithm, null, publicBytes));
    }

    /**
     * The record, as {@link #parse} reads it. It holds the secret, if this does.
     *
     * @return one JSON object
     */
    public String toJson() {
        return KeyRecord.of(id, algorithm, secret, publicBytes, bounds).toJson();
    }

    /**
     * The name by which messages refer to it.
     *
     * @return a key id
     */
    public String id() {
        return id;
    }

    /**
     * What it is for.
     *
     * @return the algorithm
     */
    public Algorithm algorithm() {
        return algorithm;
    }

    /**
     * What it may be used for.
     *
     * @return the bounds
     */
    public KeyBounds bounds() {
        return bounds;
    }

    /**
     * Whether it can sign, or open what is encrypted to it.
     *
     * @return whether its secret is here
     */
    public boolean hasSecret() {
        return secret != null;
    }

    /** In Base64; null where it has none. */
    String encodedSecret() {
        return secret == null ? null : Base64.getEncoder().encodeToString(secret);
    }

    String encodedPublic() {
        return Base64.getEncoder().encodeToString(publicBytes);
    }

    byte[] publicBytes() {
        return publicBytes;
    }

    LoadedKey loaded() {
        return loaded;
    }

    void checkUse(String namespace, String topic, long atMs) {
        bounds.check(id, namespace, topic, atMs);
    }

    private void checkSize(String part, byte[] bytes, int size) {
        if (bytes != null && size >= 0 && bytes.length != size) {
            throw new KeyRefusedException(
                    "key '" + id + "': its " + part + " part has " + bytes.length + " bytes and needs " + size);
        }
    }

    @Override
    public String toString() {
        return "MessageKey " + id + " " + algorithm.label() + (secret == null ? " (public)" : "");
    }
}
