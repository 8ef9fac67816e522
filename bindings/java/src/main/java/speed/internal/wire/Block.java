package speed.internal.wire;

import com.sun.jna.Native;
import com.sun.jna.Pointer;
import java.nio.ByteBuffer;
import java.util.Objects;

/**
 * A piece of native memory: the buffer that Java reads and the address that kernel and libsodium take.
 *
 * <p>Envelopes live in blocks from the read(2) that brings them to the seal that is verified, so their bytes
 * are copied once only. The memory lives as long as the block: who gives the address to native code keeps the block
 * until that is back. Not thread-safe.
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

    /** IndexOutOfBoundsException unless some bytes lie in here: native code looks at no bounds. */
    void check(int from, int length) {
        Objects.checkFromIndexSize(from, length, size);
    }

    /** A copy of some bytes. */
    public byte[] copy(int from, int length) {
        byte[] copy = new byte[length];
        bytes.get(from, copy);
        return copy;
    }
}
