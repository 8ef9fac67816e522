package speed.wire;

import java.time.Instant;

/** Writes the forms of MessagePack that W-15 names, each the shortest. Not thread-safe. */
final class MessagePack {
    private static final int TIMESTAMP = -1;
    private static final int FIX = -1;

    private final ByteSink out;

    MessagePack(ByteSink out) {
        this.out = out;
    }

    void nil() {
        out.put(0xC0);
    }

    void flag(boolean flag) {
        out.put(flag ? 0xC3 : 0xC2);
    }

    void real(double number) {
        out.put(0xCB);
        out.putLong(Double.doubleToLongBits(number));
    }

    void integer(long number) {
        if (number >= 0) {
            natural(number);
        } else if (number >= -32) {
            out.put((int) number);
        } else if (number >= Byte.MIN_VALUE) {
            out.put(0xD0);
            out.put((int) number);
        } else if (number >= Short.MIN_VALUE) {
            out.put(0xD1);
            out.putShort((int) number);
        } else if (number >= Integer.MIN_VALUE) {
            out.put(0xD2);
            out.putInt((int) number);
        } else {
            out.put(0xD3);
            out.putLong(number);
        }
    }

    private void natural(long number) {
        if (number < 1 << 7) {
            out.put((int) number);
        } else if (number < 1L << 32) {
            header((int) number, FIX, 0, 0xCC);
        } else {
            unsigned64(number);
        }
    }

    /** A number of 64 bits without a sign. */
    void unsigned64(long bits) {
        out.put(0xCF);
        out.putLong(bits);
    }

    void text(byte[] utf8) {
        header(utf8.length, 0xA0, 32, 0xD9);
        out.put(utf8);
    }

    void ascii(String text) {
        header(text.length(), 0xA0, 32, 0xD9);
        out.putAscii(text);
    }

    void bytes(byte[] data) {
        header(data.length, FIX, 0, 0xC4);
        out.put(data);
    }

    void array(int count) {
        container(count, 0x90, 0xDC);
    }

    void map(int count) {
        container(count, 0x80, 0xDE);
    }

    private void container(int count, int fix, int wide) {
        if (count < 16) {
            out.put(fix | count);
        } else if (count < 1 << 16) {
            out.put(wide);
            out.putShort(count);
        } else {
            out.put(wide + 1);
            out.putInt(count);
        }
    }

    /** A number below 2^32: within the first byte, or behind it in one, two or four bytes. */
    private void header(int number, int fix, int fixEnd, int first) {
        if (number >= 0 && number < fixEnd) {
            out.put(fix | number);
        } else if (number >= 0 && number < 1 << 8) {
            out.put(first);
            out.put(number);
        } else if (number >= 0 && number < 1 << 16) {
            out.put(first + 1);
            out.putShort(number);
        } else {
            out.put(first + 2);
            out.putInt(number);
        }
    }

    /** Timestamp 32, 64 or 96, whichever holds the instant first. */
    void instant(Instant instant) {
        long seconds = instant.getEpochSecond();
        long nanos = instant.getNano();
        if (seconds >> 34 != 0) {
            out.put(0xC7);
            out.put(12);
            out.put(TIMESTAMP);
            out.putInt((int) nanos);
            out.putLong(seconds);
        } else if (nanos == 0 && seconds >> 32 == 0) {
            out.put(0xD6);
            out.put(TIMESTAMP);
            out.putInt((int) seconds);
        } else {
            out.put(0xD7);
            out.put(TIMESTAMP);
            out.putLong(nanos << 34 | seconds);
        }
    }
}
