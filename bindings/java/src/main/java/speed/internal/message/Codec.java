package speed.internal.message;

import speed.errors.CompressionException;

/** One way to compress payloads. */
interface Codec {
    byte[] compress(byte[] data);

    /** Exactly so many bytes, else CompressionException. */
    byte[] decompress(byte[] data, int size);

    static CompressionException otherSize(int size) {
        return new CompressionException("payload: does not decompress to the " + size + " bytes that it says");
    }
}
