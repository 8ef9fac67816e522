package speed.internal.message;

import speed.errors.CompressionException;
import speed.errors.NotAvailableException;
import speed.internal.wire.Limits;

/**
 * Payloads compressed and decompressed, with a bound that holds before anything is allocated. gzip is the JDK's;
 * zstd, lz4 and snappy are those of aircompressor, which is optional.
 */
public final class Compression {
    public static final String NONE = "none";

    private Compression() {}

    public static byte[] compress(String encoding, byte[] data) {
        if (data.length > Limits.MAX_PAYLOAD_BYTES) {
            throw new CompressionException("payload: " + data.length + " bytes are above the bound of "
                    + Limits.MAX_PAYLOAD_BYTES + ": send it in parts");
        }
        return codec(encoding).compress(data);
    }

    public static byte[] decompress(String encoding, byte[] data, long size) {
        if (size < 1 || size > Limits.MAX_PAYLOAD_BYTES) {
            throw new CompressionException(
                    "uncompressed_bytes: is " + size + ", allowed are 1 to " + Limits.MAX_PAYLOAD_BYTES);
        }
        return codec(encoding).decompress(data, (int) size);
    }

    /** Whether payloads of this encoding are decompressed here; others are handed out as they are. */
    public static boolean isRead(String encoding) {
        return switch (encoding) {
            case "gzip", "zstd", "lz4", "snappy" -> true;
            default -> false;
        };
    }

    private static Codec codec(String encoding) {
        if (!isRead(encoding)) {
            throw new CompressionException("content_encoding: '" + Shown.text(encoding)
                    + "' cannot be read here; there are gzip, zstd, lz4, snappy");
        }
        try {
            return encoding.equals("gzip") ? new Gzip() : new BlockCodec(encoding);
        } catch (LinkageError absent) {
            throw new NotAvailableException(encoding + " needs io.airlift:aircompressor on the class path");
        }
    }

    /** Texts of a peer as an error shows them: so many characters, none that a terminal obeys. */
    public static final class Shown {
        private static final int MAX_CHARACTERS = 64;

        private Shown() {}

        public static String text(String text) {
            return text.substring(0, Math.min(text.length(), MAX_CHARACTERS)).replaceAll("\\p{Cntrl}", "?");
        }
    }
}
