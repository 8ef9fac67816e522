package speed.wire;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import speed.errors.ConfigurationException;
import speed.errors.WireException;

/** The accepted pre-shared keys; the first one seals (W-9 to W-12). Immutable; never shows a key. */
public final class Keyring {
    private final List<byte[]> keys;
    private final long[] keyIds;
    private final List<byte[]> registryKeys;

    public Keyring(List<byte[]> keys) {
        if (keys.isEmpty() || keys.stream().anyMatch(key -> key.length != Limits.KEY_BYTES)) {
            throw new ConfigurationException("a keyring needs at least one key of 32 bytes");
        }
        this.keys = keys.stream().map(byte[]::clone).toList();
        keyIds = keys.stream().mapToLong(Keyring::keyId).toArray();
        registryKeys = this.keys.stream().map(key -> Hashes.hkdf(key, ascii("speed/1 registry"))).toList();
    }

    /** The public name of a key (W-9), as a big-endian number. */
    public static long keyId(byte[] key) {
        return ByteBuffer.wrap(Hashes.sha256(ascii("speed/1 key id"), key)).getLong();
    }

    /** The key of one link in one generation of its sender (W-10). */
    public static byte[] linkKey(byte[] key, NodeId source, NodeId target, int generation) {
        ByteBuffer info = ByteBuffer.allocate(12 + 2 * Limits.NODE_ID_BYTES + 8);
        info.put(ascii("speed/1 link")).put(source.bytes()).put(target.bytes()).putLong(generation);
        return Hashes.hkdf(key, info.array());
    }

    /** MAC keys of the cursors and fences of one link, the one to write with first (W-11). */
    public List<byte[]> laneKeys(NodeId source, NodeId target) {
        ByteBuffer info = ByteBuffer.allocate(12 + 2 * Limits.NODE_ID_BYTES);
        info.put(ascii("speed/1 lane")).put(source.bytes()).put(target.bytes());
        return keys.stream().map(key -> Hashes.hkdf(key, info.array())).toList();
    }

    /** MAC keys of entries, the one to write with first (W-11). */
    public List<byte[]> registryKeys() {
        return registryKeys;
    }

    long sealingKeyId() {
        return keyIds[0];
    }

    Aead sealing(NodeId source, NodeId target, int generation) {
        return Aead.of(linkKey(keys.get(0), source, target, generation));
    }

    /** The key is chosen by its id, never by trial (W-12). */
    Aead opening(long keyId, NodeId source, NodeId target, int generation) {
        for (int index = 0; index < keyIds.length; index++) {
            if (keyIds[index] == keyId) {
                return Aead.of(linkKey(keys.get(index), source, target, generation));
            }
        }
        throw new WireException("UNKNOWN_KEY", "the key id is not in the key file");
    }

    /** The key that seals what is kept, by its id. */
    public byte[] keyId() {
        return ByteBuffer.allocate(Limits.KEY_ID_BYTES).putLong(keyIds[0]).array();
    }

    /** 16 bytes that tell nothing about a name without the key (G-14). UNKNOWN_KEY for one that is not in the ring. */
    public byte[] segmentsId(byte[] keyId, byte[] name) {
        byte[] mac = Hashes.hmac(Hashes.hkdf(key(keyId), ascii("speed/1 segments name")), name);
        return Arrays.copyOf(mac, Limits.NODE_ID_BYTES);
    }

    /** The key of what a node keeps in segments (G-14). UNKNOWN_KEY for one that is not in the ring. */
    public byte[] segmentsKey(byte[] keyId, byte[] info) {
        return Hashes.hkdf(key(keyId), joined(ascii("speed/1 segments"), info));
    }

    /** The key of a node's dead letters (S-18). UNKNOWN_KEY for one that is not in the ring. */
    public byte[] deadLettersKey(byte[] keyId, NodeId node) {
        return Hashes.hkdf(key(keyId), joined(ascii("speed/1 dead letters"), node.bytes()));
    }

    private static byte[] joined(byte[] label, byte[] info) {
        byte[] whole = Arrays.copyOf(label, label.length + info.length);
        System.arraycopy(info, 0, whole, label.length, info.length);
        return whole;
    }

    private byte[] key(byte[] keyId) {
        for (int index = 0; index < keyIds.length; index++) {
            if (keyId.length == Limits.KEY_ID_BYTES && keyIds[index] == ByteBuffer.wrap(keyId).getLong()) {
                return keys.get(index);
            }
        }
        throw new WireException("UNKNOWN_KEY", "the key id is not in the key file");
    }

    private static byte[] ascii(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }

    @Override
    public String toString() {
        return "Keyring of " + keys.size() + " keys";
    }
}
