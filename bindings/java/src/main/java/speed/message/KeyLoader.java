package speed.message;

import java.security.GeneralSecurityException;
import java.security.InvalidKeyException;
import speed.errors.KeyRefusedException;
import speed.errors.NotAvailableException;
import speed.internal.wire.Curve;
import speed.internal.wire.Sodium.SodiumArrays;
import speed.message.ExchangeKeys.HybridKey;
import speed.message.ExchangeKeys.MlKemKey;
import speed.message.ExchangeKeys.SharedKey;
import speed.message.ExchangeKeys.X25519Key;
import speed.message.ExchangeKeys.XWingKey;
import speed.message.LoadedKey.RandomBytes;
import speed.message.SigningKeys.Ed25519Key;
import speed.message.SigningKeys.HmacKey;
import speed.message.SigningKeys.SodiumEd25519Key;

/** Makes keys of a library from the bytes of a record. */
final class KeyLoader {
    private KeyLoader() {}

    /** One of the two parts may be null. KeyRefusedException for bytes that are no such key. */
    static LoadedKey load(String id, Algorithm algorithm, byte[] secret, byte[] publicBytes) {
        try {
            return secret != null ? ofSecret(algorithm, secret) : ofPublic(algorithm, publicBytes);
        } catch (GeneralSecurityException | IllegalArgumentException broken) {
            throw new KeyRefusedException("key '" + id + "' holds no " + algorithm.label() + " key: make it anew");
        } catch (LinkageError absent) {
            throw new NotAvailableException(algorithm.label()
                    + " needs BouncyCastle 1.81 or newer: put org.bouncycastle:bcprov-jdk18on on the class path");
        }
    }

    private static LoadedKey ofSecret(Algorithm algorithm, byte[] secret) throws GeneralSecurityException {
        return switch (algorithm) {
            case ED25519 -> SodiumArrays.AVAILABLE ? SodiumEd25519Key.ofSecret(secret) : Ed25519Key.ofSecret(secret);
            case HMAC_SHA256 -> new HmacKey(secret);
            case AES_256_GCM, CHACHA20_POLY1305 -> new SharedKey(secret);
            case RSA_OAEP_3072, RSA_OAEP_4096 -> RsaKey.ofSecret(algorithm, secret);
            case X25519 -> X25519Key.ofSecret(secret);
            case ML_KEM_768, ML_KEM_1024 -> MlKemKey.ofSecret(algorithm, secret);
            case X25519_ML_KEM_1024 -> HybridKey.ofSecret(secret);
            case X_WING -> XWingKey.ofSecret(secret);
        };
    }

    private static LoadedKey ofPublic(Algorithm algorithm, byte[] shown) throws GeneralSecurityException {
        return switch (algorithm) {
            case ED25519 -> ofEd25519(shown);
            case RSA_OAEP_3072, RSA_OAEP_4096 -> RsaKey.ofPublic(algorithm, shown);
            case X25519 -> X25519Key.ofPublic(shown);
            case ML_KEM_768, ML_KEM_1024 -> MlKemKey.ofPublic(algorithm, shown);
            case X25519_ML_KEM_1024 -> HybridKey.ofPublic(shown);
            case X_WING -> XWingKey.ofPublic(shown);
            default -> throw new InvalidKeyException("a shared key has no public part");
        };
    }

    private static LoadedKey ofEd25519(byte[] shown) throws GeneralSecurityException {
        if (Curve.isOfSmallOrder(shown)) {
            throw new InvalidKeyException("what this key signs holds for anybody's message");
        }
        return SodiumArrays.AVAILABLE ? SodiumEd25519Key.ofPublic(shown) : Ed25519Key.ofPublic(shown);
    }

    static byte[] newSecret(Algorithm algorithm) {
        try {
            return algorithm.isRsa() ? RsaKey.newSecret(algorithm) : RandomBytes.of(algorithm.secretBytes);
        } catch (GeneralSecurityException impossible) {
            throw new IllegalStateException("the JDK cannot make RSA keys", impossible);
        }
    }
}
