package speed.internal.wire;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.function.UnaryOperator;
import java.util.stream.LongStream;
import speed.errors.ConfigurationException;
import speed.errors.WireException;
import speed.internal.wire.Aead.JdkAead;
import speed.internal.wire.Aead.SodiumAead;

/**
 * The accepted pre-shared keys; the first one seals. Never shows a key. Thread-safe: they are replaced as a
 * whole when they change, and who keeps what was derived from them compares the object of {@link #now}.
 */
public final class Keyring {
    /** The accepted keys at one moment, the sealing one first, and what is made of them alone. Immutable. */
    public static final class Keys {
        private final List<byte[]> keys;
        private final long[] ids;
        private final List<byte[]> registryKeys;

        Keys(List<byte[]> keys) {
            if (keys.isEmpty() || keys.stream().anyMatch(key -> key.length != Limits.KEY_BYTES)) {
                throw new ConfigurationException("a keyring needs at least one key of 32 bytes");
            }
            this.keys = keys.stream().map(byte[]::clone).toList();
            ids = keys.stream().mapToLong(Keyring::keyId).toArray();
            registryKeys = this.keys.stream()
                    .map(key -> Hashes.hkdf(key, ascii("speed/1 registry")))
                    .toList();
        }

        /** The MAC key of entries to write with. */
        public byte[] registryKey() {
            return registryKeys.get(0);
        }

        /** Their ids, in hexadecimal. */
        List<String> ids() {
            return LongStream.of(ids)
                    .mapToObj(id -> HexFormat.of().toHexDigits(id))
                    .toList();
        }

        /** The id of the key that seals. */
        public byte[] id() {
            return ByteBuffer.allocate(Limits.KEY_ID_BYTES).putLong(ids[0]).array();
        }

        long idNumber() {
            return ids[0];
        }

        byte[] first() {
            return keys.get(0);
        }

        private byte[] find(long id) {
            for (int index = 0; index < ids.length; index++) {
                if (ids[index] == id) {
                    return keys.get(index);
                }
            }
            return null;
        }
    }

    private volatile Keys now;
    private volatile Runnable look = () -> {};

    public Keyring(List<byte[]> keys) {
        now = new Keys(keys);
    }

    /** The keys as they are now. */
    public Keys now() {
        return now;
    }

    /** Accepts these keys, and no others any more. */
    public void take(List<byte[]> keys) {
        if (!Arrays.deepEquals(keys.toArray(), now.keys.toArray())) {
            now = new Keys(keys);
        }
    }

    /** The keys of this moment, which stay. */
    public Keyring frozen() {
        return new Keyring(now.keys);
    }

    /** How new keys are looked for, also when one is missing. */
    public void lookWith(Runnable newLook) {
        look = newLook;
    }

    /** Looks for new keys. */
    public void look() {
        look.run();
    }

    /** The public name of a key, as a big-endian number. */
    public static long keyId(byte[] key) {
        return ByteBuffer.wrap(Hashes.sha256(ascii("speed/1 key id"), key)).getLong();
    }

    /**
     * The key of one link in one generation of its sender.
     *
     * @param targetLife the generation of a receiver that is ephemeral: it keeps no record of what it handled, so what was
     *     sealed for one life of its name must not open in the next; 0 for a receiver that is not
     */
    public static byte[] linkKey(byte[] key, NodeId source, NodeId target, int generation, int targetLife) {
        ByteBuffer info = ByteBuffer.allocate(12 + 2 * Limits.NODE_ID_BYTES + (targetLife == 0 ? 8 : 16));
        info.put(ascii("speed/1 link")).put(source.bytes()).put(target.bytes()).putLong(generation);
        if (targetLife != 0) {
            info.putLong(targetLife);
        }
        return Hashes.hkdf(key, info.array());
    }

    /** MAC keys of the cursors and fences of one link, the one to write with first. */
    public List<byte[]> laneKeys(NodeId source, NodeId target) {
        return laneKeys(now, source, target);
    }

    static List<byte[]> laneKeys(Keys keys, NodeId source, NodeId target) {
        ByteBuffer info = ByteBuffer.allocate(12 + 2 * Limits.NODE_ID_BYTES);
        info.put(ascii("speed/1 lane")).put(source.bytes()).put(target.bytes());
        return keys.keys.stream().map(key -> Hashes.hkdf(key, info.array())).toList();
    }

    /** MAC keys of entries, the one to write with first. */
    public List<byte[]> registryKeys() {
        return now.registryKeys;
    }

    /** The key is chosen by its id, never by trial. */
    Aead opening(long keyId, NodeId source, NodeId target, int generation, int targetLife) {
        return aead(linkKey(key(keyId), source, target, generation, targetLife));
    }

    /** The key that seals what is kept, by its id. */
    public byte[] keyId() {
        return now.id();
    }

    /** 16 bytes that tell nothing about a name without the key. UNKNOWN_KEY for one that is not in the ring. */
    public byte[] segmentsId(byte[] keyId, byte[] name) {
        byte[] mac = Hashes.hmac(Hashes.hkdf(key(keyId), ascii("speed/1 segments name")), name);
        return Arrays.copyOf(mac, Limits.NODE_ID_BYTES);
    }

    /** The key of what a node keeps in segments. UNKNOWN_KEY for one that is not in the ring. */
    public byte[] segmentsKey(byte[] keyId, byte[] info) {
        return Hashes.hkdf(key(keyId), joined(ascii("speed/1 segments"), info));
    }

    /** The key of a node's dead letters. UNKNOWN_KEY for one that is not in the ring. */
    public byte[] deadLettersKey(byte[] keyId, NodeId node) {
        return Hashes.hkdf(key(keyId), joined(ascii("speed/1 dead letters"), node.bytes()));
    }

    private static byte[] joined(byte[] label, byte[] info) {
        byte[] whole = Arrays.copyOf(label, label.length + info.length);
        System.arraycopy(info, 0, whole, label.length, info.length);
        return whole;
    }

    private byte[] key(byte[] keyId) {
        if (keyId.length != Limits.KEY_ID_BYTES) {
            throw unknown();
        }
        return key(ByteBuffer.wrap(keyId).getLong());
    }

    /** The accepted key of an id; null where there is none, also after a look. */
    public byte[] find(long keyId) {
        byte[] key = now.find(keyId);
        if (key == null) {
            look();
            key = now.find(keyId);
        }
        return key;
    }

    /** Whether a key of now has this id. */
    boolean has(long keyId) {
        return now.find(keyId) != null;
    }

    /** What is made of each key of this moment; it stays. */
    public Keyring derived(UnaryOperator<byte[]> derive) {
        return new Keyring(now.keys.stream().map(derive).toList());
    }

    private byte[] key(long keyId) {
        byte[] key = find(keyId);
        if (key == null) {
            throw unknown();
        }
        return key;
    }

    private static WireException unknown() {
        return new WireException("UNKNOWN_KEY", "the key id is not in the key file");
    }

    private static byte[] ascii(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }

    @Override
    public String toString() {
        return "Keyring of " + now.keys.size() + " keys";
    }

    /** The fastest one that this machine has. */
    static Aead aead(byte[] linkKey) {
        return Sodium.AVAILABLE ? new SodiumAead(linkKey) : new JdkAead(linkKey);
    }
}
