package speed.message;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/** Bytes that are hashed or signed, each part behind its length: no two lists of parts give the same. */
final class Prefixed {
    private final ByteArrayOutputStream out = new ByteArrayOutputStream();

    Prefixed(String domain) {
        text(domain);
    }

    Prefixed text(String text) {
        return bytes(text.getBytes(StandardCharsets.UTF_8));
    }

    Prefixed bytes(byte[] bytes) {
        return u64(bytes.length).raw(bytes);
    }

    Prefixed u64(long number) {
        return raw(ByteBuffer.allocate(Long.BYTES).putLong(number).array());
    }

    Prefixed u32(int number) {
        return raw(ByteBuffer.allocate(Integer.BYTES).putInt(number).array());
    }

    /** Without its length. */
    Prefixed raw(byte[] bytes) {
        out.writeBytes(bytes);
        return this;
    }

    byte[] toByteArray() {
        return out.toByteArray();
    }
}
