package speed.message;

import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import speed.errors.BadSignatureException;
import speed.errors.KeyRefusedException;
import speed.errors.UnsignedException;
import speed.errors.UntrustedException;
import speed.internal.message.Compression.Shown;
import speed.internal.wire.MessageView;
import speed.internal.wire.Security;
import speed.internal.wire.SignedParts;
import speed.message.LoadedKey.Signer;

/** The keys whose signatures a receiver believes; each says its publishers. Immutable. */
final class TrustedKeys {
    private final Map<String, MessageKey> byId = new HashMap<>();

    TrustedKeys(Collection<MessageKey> keys) {
        keys.forEach(key -> byId.put(key.id(), key));
    }

    /** Holds a message to a policy; the key that signed it, or null if none was looked at. */
    MessageKey check(MessageView view, SignaturePolicy policy, FipsMode mode) {
        if (policy == SignaturePolicy.OFF) {
            return null;
        }
        MessageKey key = view.isSigned() ? verified(view, mode) : null;
        if (key == null && policy == SignaturePolicy.REQUIRE) {
            throw new UnsignedException(
                    "message '" + Shown.text(view.messageId()) + "' is not signed, and this node requires it");
        }
        return key;
    }

    /** Who is not trusted costs no copy of the payload. */
    private MessageKey verified(MessageView view, FipsMode mode) {
        SignedParts parts = view.signedParts();
        if (parts.signatures().size() != 1) {
            throw new BadSignatureException("signature: stands there more than once");
        }
        MessageKey key = trusted(view);
        key.algorithm().allowedBy(mode);
        if (!((Signer) key.loaded()).holds(parts.signatures().get(0), parts.signingInput())) {
            throw new BadSignatureException("the signature of '" + Shown.text(view.messageId())
                    + "' does not hold under key '" + key.id() + "'");
        }
        return key;
    }

    private MessageKey trusted(MessageView view) {
        Security context = view.security();
        MessageKey key = byId.get(context.signatureKeyId());
        if (key == null || !key.algorithm().isSignature()) {
            throw new UntrustedException(
                    "signature_key_id: '" + Shown.text(context.signatureKeyId()) + "' is not trusted here");
        }
        if (!key.bounds().coversPublisher(context.publisherId())) {
            throw new UntrustedException("publisher_id: key '" + key.id() + "' does not speak for '"
                    + Shown.text(context.publisherId()) + "'");
        }
        if (!context.signatureAlgorithm().equals(key.algorithm().label())) {
            throw new UntrustedException("signature_algorithm: is '" + Shown.text(context.signatureAlgorithm())
                    + "', and key '" + key.id() + "' is of " + key.algorithm().label());
        }
        try {
            key.checkUse(view.namespace(), view.topic(), view.publishedAtMs());
        } catch (KeyRefusedException outside) {
            throw new UntrustedException(outside.getMessage());
        }
        return key;
    }
}
