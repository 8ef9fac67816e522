package speed;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import speed.internal.segment.Source;

/**
 * A received payload that is too large to be held: it lies in the node's sealed store and is read from there, until its
 * message is done. Thread-safe; a stream is for one thread.
 */
public final class LargePayload {
    private static final int COPY_BYTES = 1 << 20;

    private final Source source;

    LargePayload(Source source) {
        this.source = source;
    }

    /**
     * How large it is.
     *
     * @return bytes
     */
    public long size() {
        return source.size();
    }

    /**
     * Reads it from its beginning.
     *
     * @return a stream that need not be closed; it throws {@link speed.errors.SegmentStoreException} once the message
     *     is done
     */
    public InputStream open() {
        return new Stream();
    }

    /**
     * Reads all of it into memory.
     *
     * @return its bytes
     * @throws speed.errors.SegmentStoreException when the message is done, or the store failed
     */
    public byte[] readAll() {
        byte[] all = new byte[Math.toIntExact(source.size())];
        source.read(0, all, 0, all.length);
        return all;
    }

    /**
     * Copies all of it into a file, which is made or replaced.
     *
     * @param file where to
     * @throws IOException when the file cannot be written
     * @throws speed.errors.SegmentStoreException when the message is done, or the store failed
     */
    public void saveTo(Path file) throws IOException {
        try (OutputStream out = Files.newOutputStream(file)) {
            byte[] part = new byte[(int) Math.min(COPY_BYTES, size())];
            InputStream in = open();
            for (int count = in.read(part); count > 0; count = in.read(part)) {
                out.write(part, 0, count);
            }
        }
    }

    @Override
    public String toString() {
        return "LargePayload of " + size() + " bytes";
    }

    private final class Stream extends InputStream {
        private long at;

        @Override
        public int read() {
            byte[] one = new byte[1];
            return read(one, 0, 1) < 0 ? -1 : one[0] & 0xFF;
        }

        @Override
        public int read(byte[] into, int from, int count) {
            int step = (int) Math.min(count, source.size() - at);
            if (step <= 0) {
                return count == 0 ? 0 : -1;
            }
            source.read(at, into, from, step);
            at += step;
            return step;
        }

        @Override
        public long skip(long count) {
            long step = Math.max(0, Math.min(count, source.size() - at));
            at += step;
            return step;
        }

        @Override
        public int available() {
            return (int) Math.min(Integer.MAX_VALUE, source.size() - at);
        }
    }
}
