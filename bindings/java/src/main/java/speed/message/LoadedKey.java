package speed.message;

import java.security.GeneralSecurityException;
import java.security.SecureRandom;

/** A key as a library has it: made once, from the bytes of its record. Thread-safe. */
interface LoadedKey {
    /** The bytes of its public part; empty for a shared key. */
    byte[] publicBytes();

    /** Makes and checks signatures. */
    interface Signer extends LoadedKey {
        byte[] sign(byte[] covered) throws GeneralSecurityException;

        /** Whether a signature verifies; lengths that cannot be do not. */
        boolean holds(byte[] signature, byte[] covered);
    }

    /** How one recipient gets a secret: what the table of algorithms in messages.md calls encapsulation. */
    interface Kem extends LoadedKey {
        /** What travels, and the secret that it gives. */
        record Encapsulated(byte[] key, byte[] secret) {}

        Encapsulated encapsulate() throws GeneralSecurityException;

        /** The secret again, for who holds the private part. */
        byte[] decapsulate(byte[] encapsulated) throws GeneralSecurityException;
    }

    /** Bytes that nobody can guess. */
    static final class RandomBytes {
        static final SecureRandom SOURCE = new SecureRandom();

        private RandomBytes() {}

        static byte[] of(int size) {
            byte[] made = new byte[size];
            SOURCE.nextBytes(made);
            return made;
        }
    }
}
