package speed.message;

import java.security.SecureRandom;

/** Bytes that nobody can guess. */
final class RandomBytes {
    static final SecureRandom SOURCE = new SecureRandom();

    private RandomBytes() {}

    static byte[] of(int size) {
        byte[] made = new byte[size];
        SOURCE.nextBytes(made);
        return made;
    }
}
