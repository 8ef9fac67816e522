package speed.internal.message;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.zip.CRC32;
import java.util.zip.DataFormatException;
import java.util.zip.GZIPOutputStream;
import java.util.zip.Inflater;
import speed.errors.CompressionException;

/** One member of RFC 1952; the JDK's own reader goes on with a second one. */
final class Gzip implements Codec {
    private static final int MAGIC = 0x8b1f;
    private static final int DEFLATE = 8;
    private static final int HEADER_CRC = 2;
    private static final int EXTRA = 4;
    private static final int NAME = 8;
    private static final int COMMENT = 16;
    private static final int RESERVED = 0xE0;
    private static final int TIME_AND_SYSTEM_BYTES = 6;

    @Override
    public byte[] compress(byte[] data) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        try (GZIPOutputStream gzip = new GZIPOutputStream(out)) {
            gzip.write(data);
        } catch (IOException impossible) {
            throw new UncheckedIOException(impossible);
        }
        return out.toByteArray();
    }

    @Override
    public byte[] decompress(byte[] data, int size) {
        ByteBuffer in = ByteBuffer.wrap(data).order(ByteOrder.LITTLE_ENDIAN);
        try {
            readHeader(in);
            byte[] plain = inflated(in, size);
            CRC32 sum = new CRC32();
            sum.update(plain);
            if (in.getInt() != (int) sum.getValue() || in.getInt() != size) {
                throw notGzip();
            }
            if (in.hasRemaining()) {
                throw Codec.otherSize(size);
            }
            return plain;
        } catch (BufferUnderflowException | DataFormatException broken) {
            throw notGzip();
        }
    }

    private static void readHeader(ByteBuffer in) {
        if ((in.getShort() & 0xFFFF) != MAGIC || in.get() != DEFLATE) {
            throw notGzip();
        }
        int flags = in.get();
        if ((flags & RESERVED) != 0) {
            throw notGzip();
        }
        skip(in, TIME_AND_SYSTEM_BYTES);
        skip(in, (flags & EXTRA) == 0 ? 0 : in.getShort() & 0xFFFF);
        for (int text : new int[] {NAME, COMMENT}) {
            while ((flags & text) != 0 && in.get() != 0) {} // up to its NUL
        }
        if ((flags & HEADER_CRC) != 0 && !hasSum(in)) {
            throw notGzip();
        }
    }

    /** Whether the lower half of the CRC of all before it comes next. */
    private static boolean hasSum(ByteBuffer in) {
        CRC32 sum = new CRC32();
        sum.update(in.array(), 0, in.position());
        return in.getShort() == (short) sum.getValue();
    }

    private static void skip(ByteBuffer in, int bytes) {
        if (bytes > in.remaining()) {
            throw notGzip();
        }
        in.position(in.position() + bytes);
    }

    /** Exactly so many bytes; the buffer then stands behind the compressed ones. */
    private static byte[] inflated(ByteBuffer in, int size) throws DataFormatException {
        Inflater inflater = new Inflater(true);
        try {
            inflater.setInput(in);
            byte[] plain = new byte[size];
            int done = 0;
            for (int got = 1; got > 0; done += got) {
                got = inflater.inflate(plain, done, size - done);
            }
            if (done != size || !inflater.finished() && inflater.inflate(new byte[1]) > 0 || !inflater.finished()) {
                throw Codec.otherSize(size);
            }
            return plain;
        } finally {
            inflater.end();
        }
    }

    private static CompressionException notGzip() {
        return new CompressionException("payload: is not gzip");
    }
}
