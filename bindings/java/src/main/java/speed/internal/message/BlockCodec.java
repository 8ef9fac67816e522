package speed.internal.message;

import io.airlift.compress.Compressor;
import io.airlift.compress.Decompressor;
import io.airlift.compress.MalformedInputException;
import io.airlift.compress.lz4.Lz4Compressor;
import io.airlift.compress.lz4.Lz4Decompressor;
import io.airlift.compress.snappy.SnappyCompressor;
import io.airlift.compress.snappy.SnappyDecompressor;
import io.airlift.compress.zstd.ZstdCompressor;
import io.airlift.compress.zstd.ZstdDecompressor;
import java.util.Arrays;
import speed.errors.CompressionException;

/** One block of lz4 or snappy, or one frame of zstd: only this class names aircompressor. */
final class BlockCodec implements Codec {
    private final String name;
    private final Compressor compressor;
    private final Decompressor decompressor;

    BlockCodec(String name) {
        this.name = name;
        switch (name) {
            case "zstd" -> {
                compressor = new ZstdCompressor();
                decompressor = new ZstdDecompressor();
            }
            case "lz4" -> {
                compressor = new Lz4Compressor();
                decompressor = new Lz4Decompressor();
            }
            default -> {
                compressor = new SnappyCompressor();
                decompressor = new SnappyDecompressor();
            }
        }
    }

    @Override
    public byte[] compress(byte[] data) {
        byte[] room = new byte[compressor.maxCompressedLength(data.length)];
        return Arrays.copyOf(room, compressor.compress(data, 0, data.length, room, 0, room.length));
    }

    /** Into a fresh array: what a block refers to before its beginning is zeros, and never of another message. */
    @Override
    public byte[] decompress(byte[] data, int size) {
        if (name.equals("zstd") && !ZstdFrame.isOne(data, size)) {
            throw new CompressionException("payload: is not one frame of zstd of the bytes that it says");
        }
        byte[] plain = new byte[size];
        try {
            if (decompressor.decompress(data, 0, data.length, plain, 0, size) == size) {
                return plain;
            }
        } catch (MalformedInputException | IndexOutOfBoundsException | IllegalArgumentException broken) {
            throw new CompressionException("payload: is not " + name + " of " + size + " bytes");
        }
        throw Codec.otherSize(size);
    }
}
