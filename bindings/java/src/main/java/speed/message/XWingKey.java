package speed.message;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.Arrays;

/** X-Wing: ML-KEM-768 and X25519 under one combiner, which is SHA3-256 (draft-connolly-cfrg-xwing-kem). */
record XWingKey(MlKemKey mlKem, X25519Key x25519) implements LoadedKey.Kem {
    private static final int SEED_BYTES = 64;
    private static final byte[] LABEL = "\\.//^\\".getBytes(StandardCharsets.US_ASCII);

    static XWingKey ofSecret(byte[] seed) throws GeneralSecurityException {
        byte[] both = MlKemKey.shake(seed, SEED_BYTES + X25519Key.BYTES);
        byte[] classical = Arrays.copyOfRange(both, SEED_BYTES, both.length);
        return new XWingKey(MlKemKey.ofSecret(Algorithm.ML_KEM_768, Arrays.copyOf(both, SEED_BYTES)),
                X25519Key.ofSecret(classical));
    }

    static XWingKey ofPublic(byte[] shown) throws GeneralSecurityException {
        return new XWingKey(MlKemKey.ofPublic(Algorithm.ML_KEM_768, front(shown)), X25519Key.ofPublic(end(shown)));
    }

    private static byte[] front(byte[] bytes) {
        return Arrays.copyOf(bytes, bytes.length - X25519Key.BYTES);
    }

    private static byte[] end(byte[] bytes) {
        return Arrays.copyOfRange(bytes, bytes.length - X25519Key.BYTES, bytes.length);
    }

    @Override
    public byte[] publicBytes() {
        return HybridKey.joined(mlKem.publicBytes(), x25519.publicBytes());
    }

    @Override
    public Encapsulated encapsulate() throws GeneralSecurityException {
        Encapsulated quantum = mlKem.encapsulate();
        Encapsulated classical = x25519.encapsulate();
        return new Encapsulated(HybridKey.joined(quantum.key(), classical.key()),
                combined(quantum.secret(), classical.secret(), classical.key()));
    }

    @Override
    public byte[] decapsulate(byte[] encapsulated) throws GeneralSecurityException {
        byte[] ephemeral = end(encapsulated);
        return combined(mlKem.decapsulate(front(encapsulated)), x25519.decapsulate(ephemeral), ephemeral);
    }

    private byte[] combined(byte[] quantum, byte[] classical, byte[] ephemeral) throws GeneralSecurityException {
        MessageDigest digest = MessageDigest.getInstance("SHA3-256");
        for (byte[] part : new byte[][] {quantum, classical, ephemeral, x25519.publicBytes(), LABEL}) {
            digest.update(part);
        }
        return digest.digest();
    }
}
