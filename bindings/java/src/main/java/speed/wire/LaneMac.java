package speed.wire;

import java.security.MessageDigest;
import java.util.Arrays;
import java.util.List;

/** The MAC at the end of cursors and fences: the first 16 bytes of HMAC-SHA256 (L-14). Thread-safe. */
public final class LaneMac {
    public static final int BYTES = 16;

    private final List<Hmac> macs;

    /**
     * A MAC.
     *
     * @param laneKeys the accepted lane keys, the one to write with first
     */
    public LaneMac(List<byte[]> laneKeys) {
        macs = laneKeys.stream().map(Hmac::new).toList();
    }

    /** Fills the last 16 bytes with the MAC of those before. */
    byte[] sign(byte[] data) {
        System.arraycopy(macs.get(0).of(data, data.length - BYTES), 0, data, data.length - BYTES, BYTES);
        return data;
    }

    /** Whether the last 16 of the first {@code length} bytes are the MAC of those before, by any accepted key. */
    boolean verifies(byte[] data, int length) {
        byte[] found = Arrays.copyOfRange(data, length - BYTES, length);
        return macs.stream().anyMatch(mac ->
                MessageDigest.isEqual(found, Arrays.copyOf(mac.of(data, length - BYTES), BYTES)));
    }
}
