package speed.internal.wire;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.security.GeneralSecurityException;
import javax.crypto.AEADBadTagException;
import javax.crypto.Cipher;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;
import speed.errors.WireException;

/**
 * The pieces of one payload in a slot: where each lies, and how it is sealed, ChaCha20-Poly1305 under a key that is used for
 * this payload only. libsodium and libcrypto where they can be loaded, else the JDK. Not thread-safe.
 */
public final class SlotPieces {
    /** Of every piece but the last, its tag included. */
    public static final int SEALED_BYTES = Limits.SLOT_PIECE_BYTES + Limits.TAG_BYTES;

    private static final int KEY_AT = Limits.NONCE_BYTES;

    private final int payloadBytes;
    private final SecretKeySpec key;
    /** Nonce and key; null where there is no libsodium. */
    private final Block secrets;

    public SlotPieces(byte[] key, int payloadBytes) {
        this(key, payloadBytes, Sodium.AVAILABLE);
    }

    SlotPieces(byte[] key, int payloadBytes, boolean isNative) {
        this.payloadBytes = payloadBytes;
        this.key = isNative ? null : new SecretKeySpec(key, "ChaCha20");
        secrets = isNative ? new Block(Limits.NONCE_BYTES + Limits.KEY_BYTES) : null;
        if (isNative) {
            secrets.bytes.put(KEY_AT, key);
        }
    }

    /** How many there are. */
    public int count() {
        return (payloadBytes + Limits.SLOT_PIECE_BYTES - 1) / Limits.SLOT_PIECE_BYTES;
    }

    /** How long the slot is at least. */
    public long slotBytes() {
        return payloadBytes + (long) count() * Limits.TAG_BYTES;
    }

    /** Where a sealed piece begins in the slot. */
    public long offset(int index) {
        return (long) index * SEALED_BYTES;
    }

    /** Bytes of a sealed piece. */
    public int sealedBytes(int index) {
        return dataBytes(index) + Limits.TAG_BYTES;
    }

    private int dataBytes(int index) {
        return Math.min(Limits.SLOT_PIECE_BYTES, payloadBytes - dataAt(index));
    }

    private static int dataAt(int index) {
        return index * Limits.SLOT_PIECE_BYTES;
    }

    /** Writes a sealed piece of the payload to the beginning of a block; returns its bytes. */
    public int seal(int index, byte[] payload, Block into) {
        int size = dataBytes(index);
        into.check(0, size + Limits.TAG_BYTES);
        if (secrets == null) {
            into.bytes.put(0, transformed(Cipher.ENCRYPT_MODE, index, ByteBuffer.wrap(payload, dataAt(index), size)));
            return size + Limits.TAG_BYTES;
        }
        into.bytes.put(0, payload, dataAt(index), size);
        putNonce(index);
        Libcrypto.seal(into.address, into.address, size, 0, 0, secrets.address, secrets.address + KEY_AT);
        Reference.reachabilityFence(this);
        return size + Limits.TAG_BYTES;
    }

    /**
     * Opens what stands at the beginning of a block into its place in the payload, by way of a block that it fits into;
     * false if it is not this piece. What was sealed stays as it is.
     */
    public boolean open(int index, Block sealed, Block scratch, byte[] payload) {
        int size = dataBytes(index);
        sealed.check(0, size + Limits.TAG_BYTES);
        if (secrets == null) {
            byte[] opened =
                    transformed(Cipher.DECRYPT_MODE, index, ByteBuffer.wrap(sealed.copy(0, size + Limits.TAG_BYTES)));
            if (opened != null) {
                System.arraycopy(opened, 0, payload, dataAt(index), size);
            }
            return opened != null;
        }
        scratch.check(0, size);
        putNonce(index);
        boolean verified =
                Libcrypto.open(scratch.address, sealed.address, size, 0, 0, secrets.address, secrets.address + KEY_AT);
        Reference.reachabilityFence(this);
        if (verified) {
            scratch.bytes.get(0, payload, dataAt(index), size);
        }
        return verified;
    }

    private void putNonce(int index) {
        secrets.bytes.putLong(Integer.BYTES, index);
    }

    /** By the JDK; null for what is not authentic. */
    private byte[] transformed(int mode, int index, ByteBuffer data) {
        ByteBuffer nonce = ByteBuffer.allocate(Limits.NONCE_BYTES).putLong(Integer.BYTES, index);
        try {
            Cipher cipher = Cipher.getInstance("ChaCha20-Poly1305");
            cipher.init(mode, key, new IvParameterSpec(nonce.array()));
            return cipher.doFinal(data.array(), data.position(), data.remaining());
        } catch (AEADBadTagException forged) {
            return null;
        } catch (GeneralSecurityException error) {
            throw new IllegalStateException("the JDK cannot seal", error);
        }
    }

    /**
     * Which slot a payload lies in, how long it is, and what opens it.
     *
     * <pre>
     * 0 number  4 zero  8 payload bytes  16 slot key(32)
     * </pre>
     */
    public record SlotHead(int number, int payloadBytes, byte[] key) {
        private static final int KEY_AT = 16;

        public byte[] encode() {
            ByteBuffer head = ByteBuffer.allocate(Limits.SLOT_HEAD_BYTES);
            return head.putInt(number).putInt(0).putLong(payloadBytes).put(key).array();
        }

        /** The head in the data; BAD_SLOT if it names no slot, or no payload that could lie there. */
        public static SlotHead decode(byte[] data) {
            require(data.length == Limits.SLOT_HEAD_BYTES, "another length than that of a slot head");
            ByteBuffer head = ByteBuffer.wrap(data);
            int number = head.getInt(0);
            long size = head.getLong(8);
            require(number >= 1 && number <= Limits.MAX_SLOTS, "there is no such slot");
            require(head.getInt(4) == 0, "reserved bytes are not zero");
            require(size >= 1 && size <= Limits.MAX_PAYLOAD_BYTES, "no payload has this size");
            byte[] key = new byte[Limits.KEY_BYTES];
            head.get(KEY_AT, key);
            return new SlotHead(number, (int) size, key);
        }

        private static void require(boolean holds, String message) {
            if (!holds) {
                throw new WireException("BAD_SLOT", message);
            }
        }

        /** Without the key. */
        @Override
        public String toString() {
            return "slot " + number + " with " + payloadBytes + " bytes";
        }
    }
}
