package speed.internal.wire;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.UUID;
import speed.errors.WireException;

/** Ids of messages. */
public final class MessageIds {
    private static final int NUMBER_BITS = 48;

    private MessageIds() {}

    /** A UUIDv7 of a time in Unix ms and 10 random bytes. */
    public static String fresh(long unixMs, byte[] random) {
        ByteBuffer tail = ByteBuffer.wrap(random);
        long high = unixMs << 16 | 0x7000 | tail.getShort() & 0x0FFF;
        return text(high, tail.getLong());
    }

    /** The UUIDv8 of one message of a work of these names, the same when it is done again; numbers from 0 to 2^48 - 1. */
    public static String repeated(List<String> names, long number) {
        if (number >>> NUMBER_BITS != 0) {
            throw new WireException("BAD_MESSAGE", "message_id: a work makes at most 2^48 messages");
        }
        ByteArrayOutputStream text = new ByteArrayOutputStream();
        for (String name : names) {
            byte[] bytes = name.getBytes(StandardCharsets.UTF_8);
            putVarint(bytes.length, text);
            text.writeBytes(bytes);
        }
        ByteBuffer digest = ByteBuffer.wrap(Hashes.sha256(text.toByteArray()));
        long high = digest.getLong() & ~0xF000L | 0x8000L;
        return text(high, (long) digest.getShort() << NUMBER_BITS | number);
    }

    private static void putVarint(int value, ByteArrayOutputStream out) {
        int rest = value;
        for (; rest > 0x7F; rest >>>= 7) {
            out.write(rest & 0x7F | 0x80);
        }
        out.write(rest);
    }

    /** With the variant written over the two highest bits of the lower half. */
    private static String text(long high, long low) {
        return new UUID(high, low & ~(0x3L << 62) | 0x2L << 62).toString();
    }
}
