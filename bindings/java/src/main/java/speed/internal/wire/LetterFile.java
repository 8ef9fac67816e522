package speed.internal.wire;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.function.Consumer;
import speed.errors.WireException;

/**
 * The file of a dead letter: a header, then sealed chunks, the first of which says what is known of the message.
 *
 * <pre>
 *  0 "SPDL"  4 version  5 zero  8 key id  16 random   24 chunks × (length 4, nonce 12, ciphertext, tag 16)
 * </pre>
 */
public final class LetterFile {
    /** Of the payload in one chunk. */
    public static final int CHUNK_BYTES = 1 << 20;

    private static final int HEADER_BYTES = 24;
    private static final int LENGTH_BYTES = 4;
    private static final int MAGIC = 0x5350444c;
    private static final int MOST_SEALED_BYTES = CHUNK_BYTES + PieceAead.OVERHEAD;

    /** Takes the bytes of a file, piece by piece. */
    public interface Output {
        void write(byte[] piece) throws java.io.IOException;
    }

    /** Fills all that is asked for of a file, or less at its end; returns how many bytes. */
    public interface Input {
        int read(byte[] into) throws java.io.IOException;
    }

    /** Gives a part of the payload, as much as fits. */
    public interface Payload {
        void read(long from, byte[] into);
    }

    /** What a file holds. */
    public record Opened(DeadLetter letter, byte[] payload) {}

    private final byte[] header;
    private final PieceAead aead;

    private LetterFile(byte[] header, byte[] key, Consumer<byte[]> random) {
        this.header = header;
        aead = new PieceAead(key, random);
    }

    // --- writing ---

    /** Writes a whole file. */
    public static void write(
            DeadLetter letter, Payload payload, Keyring keyring, NodeId node, Consumer<byte[]> random, Output output)
            throws java.io.IOException {
        byte[] drawn = new byte[8];
        random.accept(drawn);
        byte[] keyId = keyring.keyId();
        byte[] header = ByteBuffer.allocate(HEADER_BYTES)
                .putInt(MAGIC)
                .put((byte) 1)
                .put(new byte[3])
                .put(keyId)
                .put(drawn)
                .array();
        LetterFile file = new LetterFile(header, keyring.deadLettersKey(keyId, node), random);
        output.write(header);
        long bytes = letter.payloadBytes();
        output.write(file.sealed(0, bytes == 0, letter.encode()));
        int number = 1;
        for (long at = 0; at < bytes; at += CHUNK_BYTES) {
            byte[] chunk = new byte[(int) Math.min(CHUNK_BYTES, bytes - at)];
            payload.read(at, chunk);
            output.write(file.sealed(number++, at + chunk.length == bytes, chunk));
        }
    }

    private byte[] sealed(int number, boolean isLast, byte[] chunk) {
        Block block = new Block(LENGTH_BYTES + PieceAead.OVERHEAD + chunk.length);
        int bytes = aead.seal(block, LENGTH_BYTES, chunk, 0, chunk.length, place(number, isLast));
        block.bytes.putInt(0, bytes);
        return block.copy(0, LENGTH_BYTES + bytes);
    }

    private byte[] place(int number, boolean isLast) {
        return ByteBuffer.allocate(HEADER_BYTES + 5)
                .put(header)
                .putInt(number)
                .put((byte) (isLast ? 1 : 0))
                .array();
    }

    // --- reading ---

    /** All of a file; BAD_PAYLOAD for what is no letter or was altered or cut, UNKNOWN_KEY for another key's. */
    public static Opened read(Input input, Keyring keyring, NodeId node) throws java.io.IOException {
        byte[] header = exactly(input, HEADER_BYTES);
        ByteBuffer fields = ByteBuffer.wrap(header);
        if (header.length < HEADER_BYTES || fields.getInt(0) != MAGIC || fields.getInt(4) != 1 << 24) {
            throw new WireException("BAD_PAYLOAD", "no dead letter of version 1");
        }
        byte[] key = keyring.deadLettersKey(Arrays.copyOfRange(header, 8, 8 + Limits.KEY_ID_BYTES), node);
        LetterFile file = new LetterFile(header, key, nothing -> {});
        byte[] sealed = next(input);
        if (sealed == null) {
            throw new WireException("BAD_PAYLOAD", "a dead letter without a word");
        }
        byte[] following = next(input);
        DeadLetter letter = DeadLetter.decode(file.opened(0, following == null, sealed));
        return new Opened(letter, file.payload(input, following, letter.payloadBytes()));
    }

    private byte[] payload(Input input, byte[] first, long bytes) throws java.io.IOException {
        byte[] payload = new byte[0];
        int at = 0;
        byte[] sealed = first;
        for (int number = 1; sealed != null; number++) {
            byte[] following = next(input);
            byte[] piece = opened(number, following == null, sealed);
            if (piece.length > bytes - at) {
                throw odd();
            }
            payload = number == 1 ? new byte[(int) bytes] : payload;
            System.arraycopy(piece, 0, payload, at, piece.length);
            at += piece.length;
            sealed = following;
        }
        if (at != bytes) {
            throw odd();
        }
        return payload;
    }

    private static WireException odd() {
        return new WireException("BAD_PAYLOAD", "a dead letter whose payload has another size than it says");
    }

    /** The next sealed chunk; null behind the last. */
    private static byte[] next(Input input) throws java.io.IOException {
        byte[] length = exactly(input, LENGTH_BYTES);
        if (length.length == 0) {
            return null;
        }
        int bytes = length.length < LENGTH_BYTES ? 0 : ByteBuffer.wrap(length).getInt();
        byte[] sealed = bytes >= PieceAead.OVERHEAD && bytes <= MOST_SEALED_BYTES ? exactly(input, bytes) : length;
        if (sealed == length || sealed.length < bytes) {
            throw new WireException("BAD_PAYLOAD", "a dead letter that is cut, or no chunk where one should be");
        }
        return sealed;
    }

    private byte[] opened(int number, boolean isLast, byte[] sealed) {
        Block block = Block.of(sealed);
        try {
            int from = aead.open(block, 0, sealed.length, place(number, isLast));
            return block.copy(from, sealed.length - PieceAead.OVERHEAD);
        } catch (WireException forged) {
            throw new WireException("BAD_PAYLOAD", "a chunk of a dead letter was altered, moved or cut off");
        }
    }

    private static byte[] exactly(Input input, int bytes) throws java.io.IOException {
        byte[] read = new byte[bytes];
        int count = input.read(read);
        return count == bytes ? read : Arrays.copyOf(read, Math.max(0, count));
    }
}
