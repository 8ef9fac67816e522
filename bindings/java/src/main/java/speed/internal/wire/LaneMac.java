package speed.internal.wire;

import java.security.MessageDigest;
import java.util.Arrays;
import java.util.List;
import speed.internal.wire.Hashes.Hmac;

/** The MAC at the end of cursors and fences: the first 16 bytes of HMAC-SHA256. Thread-safe. */
public final class LaneMac {
    public static final int BYTES = 16;

    private record Derived(Keyring.Keys keys, List<Hmac> macs) {}

    private final Keyring keyring;
    private final NodeId source;
    private final NodeId target;
    private volatile Derived derived;

    public LaneMac(Keyring keyring, NodeId source, NodeId target) {
        this.keyring = keyring;
        this.source = source;
        this.target = target;
    }

    /** The keys that it is made with now. */
    public Keyring.Keys keys() {
        return keyring.now();
    }

    /** By each accepted key, the one to write with first. */
    private List<Hmac> macs() {
        Keyring.Keys now = keyring.now();
        Derived found = derived;
        if (found == null || found.keys != now) {
            found = new Derived(
                    now,
                    Keyring.laneKeys(now, source, target).stream()
                            .map(Hmac::new)
                            .toList());
            derived = found;
        }
        return found.macs;
    }

    /** Fills the last 16 bytes with the MAC of those before. */
    byte[] sign(byte[] data) {
        System.arraycopy(macs().get(0).of(data, data.length - BYTES), 0, data, data.length - BYTES, BYTES);
        return data;
    }

    /** Whether the last 16 of the first {@code length} bytes are the MAC of those before, by any accepted key. */
    boolean verifies(byte[] data, int length) {
        byte[] found = Arrays.copyOfRange(data, length - BYTES, length);
        return macs().stream()
                .anyMatch(mac -> MessageDigest.isEqual(found, Arrays.copyOf(mac.of(data, length - BYTES), BYTES)));
    }
}
