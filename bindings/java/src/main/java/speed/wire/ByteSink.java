package speed.wire;

import java.util.Arrays;

/** Bytes to be written, big-endian, in one array that grows. Not thread-safe. */
final class ByteSink {
    private static final int MOST = Integer.MAX_VALUE - 8;

    private byte[] bytes;
    private int length;

    ByteSink(int capacity) {
        bytes = new byte[capacity];
    }

    int length() {
        return length;
    }

    /** All that was written; the sink is not used after that. */
    byte[] take() {
        return length == bytes.length ? bytes : Arrays.copyOf(bytes, length);
    }

    void put(int one) {
        room(1);
        bytes[length++] = (byte) one;
    }

    void putShort(int number) {
        room(2);
        bytes[length++] = (byte) (number >> 8);
        bytes[length++] = (byte) number;
    }

    void putInt(int number) {
        putShort(number >> 16);
        putShort(number);
    }

    void putLong(long number) {
        putInt((int) (number >> 32));
        putInt((int) number);
    }

    void put(byte[] data) {
        room(data.length);
        System.arraycopy(data, 0, bytes, length, data.length);
        length += data.length;
    }

    /** Text whose characters are all below 128. */
    void putAscii(String text) {
        int characters = text.length();
        room(characters);
        for (int index = 0; index < characters; index++) {
            bytes[length + index] = (byte) text.charAt(index);
        }
        length += characters;
    }

    /** Opens a gap of so many bytes at a place, to be filled by {@link #set}. */
    void insert(int at, int gap) {
        room(gap);
        System.arraycopy(bytes, at, bytes, at + gap, length - at);
        length += gap;
    }

    void set(int at, int one) {
        bytes[at] = (byte) one;
    }

    private void room(int more) {
        if (more > bytes.length - length) {
            long wanted = Math.max((long) length + more, 2L * bytes.length);
            bytes = Arrays.copyOf(bytes, (int) Math.min(MOST, wanted));
        }
    }
}
