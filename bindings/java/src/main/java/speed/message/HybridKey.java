package speed.message;

import java.security.GeneralSecurityException;
import java.util.Arrays;

/** X25519 and ML-KEM-1024 side by side: who breaks one of them has nothing. */
record HybridKey(X25519Key x25519, MlKemKey mlKem) implements LoadedKey.Kem {
    static HybridKey ofSecret(byte[] secret) throws GeneralSecurityException {
        return new HybridKey(X25519Key.ofSecret(first(secret)), MlKemKey.ofSecret(Algorithm.ML_KEM_1024, rest(secret)));
    }

    static HybridKey ofPublic(byte[] shown) throws GeneralSecurityException {
        return new HybridKey(X25519Key.ofPublic(first(shown)), MlKemKey.ofPublic(Algorithm.ML_KEM_1024, rest(shown)));
    }

    private static byte[] first(byte[] bytes) {
        return Arrays.copyOf(bytes, X25519Key.BYTES);
    }

    private static byte[] rest(byte[] bytes) {
        return Arrays.copyOfRange(bytes, X25519Key.BYTES, bytes.length);
    }

    static byte[] joined(byte[] one, byte[] other) {
        byte[] joined = Arrays.copyOf(one, one.length + other.length);
        System.arraycopy(other, 0, joined, one.length, other.length);
        return joined;
    }

    @Override
    public byte[] publicBytes() {
        return joined(x25519.publicBytes(), mlKem.publicBytes());
    }

    @Override
    public Encapsulated encapsulate() throws GeneralSecurityException {
        Encapsulated classical = x25519.encapsulate();
        Encapsulated quantum = mlKem.encapsulate();
        return new Encapsulated(joined(classical.key(), quantum.key()), joined(quantum.secret(), classical.secret()));
    }

    @Override
    public byte[] decapsulate(byte[] encapsulated) throws GeneralSecurityException {
        byte[] classical = x25519.decapsulate(first(encapsulated));
        return joined(mlKem.decapsulate(rest(encapsulated)), classical);
    }
}
