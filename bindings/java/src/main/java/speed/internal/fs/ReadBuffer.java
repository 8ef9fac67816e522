package speed.internal.fs;

import speed.internal.wire.Block;
import speed.internal.wire.Header;
import speed.internal.wire.Header.EnvelopeType;

/**
 * Memory that all lanes of a node are read into: private, before anything about the bytes is believed, and
 * used again, since fresh memory page-faults. Used by the one thread that holds the protocol role.
 */
public final class ReadBuffer {
    public static final int CHUNK_BYTES = 64 << 10;
    private static final int KEPT_BYTES = 4 << 20;

    private Block data = new Block(CHUNK_BYTES);
    private Block opened = new Block(CHUNK_BYTES);

    /** Whether a payload is so large that no second block is filled with it; one that damage may be found in is not. */
    static boolean isGiant(Header header) {
        return header.payloadBytes() > KEPT_BYTES && !header.has(EnvelopeType.SLOTTED);
    }

    Block data() {
        return data;
    }

    /** Room for an opened payload, valid until the next call. */
    Block opened(int payloadBytes) {
        if (payloadBytes > opened.size) {
            opened = new Block(payloadBytes);
        }
        return opened;
    }

    /** Reads so many bytes of a file at an offset, fewer at its end; returns how many. */
    int fill(int descriptor, long offset, int wanted) throws PosixException {
        if (wanted > data.size) {
            data = new Block(wanted);
        }
        return Posix.read(descriptor, data, wanted, offset);
    }

    /** Gives the memory of a rare giant back. */
    void trim() {
        if (data.size > KEPT_BYTES) {
            data = new Block(CHUNK_BYTES);
        }
        if (opened.size > KEPT_BYTES) {
            opened = new Block(CHUNK_BYTES);
        }
    }
}
