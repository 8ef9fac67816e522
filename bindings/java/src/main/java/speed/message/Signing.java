package speed.message;

import java.security.GeneralSecurityException;
import speed.errors.KeyRefusedException;
import speed.internal.wire.SignedParts;
import speed.message.LoadedKey.Signer;

/** Signs the exact bytes of a message. */
final class Signing {
    private Signing() {}

    /** KeyRefusedException for a key without its secret, or for encryption. */
    static MessageKey check(MessageKey key) {
        if (!key.algorithm().isSignature() || !key.hasSecret()) {
            throw new KeyRefusedException(
                    "key '" + key.id() + "' cannot sign: use a secret ed25519 or hmac-sha256 key");
        }
        return key;
    }

    /** The message with a signature; its security context already names key and algorithm. */
    static byte[] sign(byte[] message, MessageKey key) {
        try {
            byte[] signature = ((Signer) check(key).loaded()).sign(new SignedParts(message).signingInput());
            return SignedParts.withSignature(message, signature);
        } catch (GeneralSecurityException impossible) {
            throw new IllegalStateException("the JDK cannot sign", impossible);
        }
    }
}
