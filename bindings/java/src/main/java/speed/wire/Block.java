package speed.wire;

import com.sun.jna.Native;
import com.sun.jna.Pointer;
import java.nio.ByteBuffer;

/**
 * A piece of native memory: the buffer that Java reads and the address that kernel and libsodium take.
 *
 * <p>Envelopes live in blocks from the read(2) that brings them to the seal that is verified, so their bytes
 * are copied once only. Not thread-safe.
 */
public final class Block {
    public final ByteBuffer bytes;
    public final long address;
    public final int size;

    public Block(int size) {
        this.size = size;
        bytes = ByteBuffer.allocateDirect(size);
        address = Pointer.nativeValue(Native.getDirectBufferPointer(bytes));
    }

    /** A block that holds these bytes. */
    public static Block of(byte[] content) {
        Block block = new Block(content.length);
        block.bytes.put(0, content);
        return block;
    }

    /** A copy of some bytes. */
    public byte[] copy(int from, int length) {
        byte[] copy = new byte[length];
        bytes.get(from, copy);
        return copy;
    }
}
