package speed.message;

import java.util.HashMap;
import java.util.Map;
import speed.errors.NotAvailableException;
import speed.errors.WireException;
import speed.wire.Content;
import speed.wire.Limits;
import speed.wire.MessageDraft;
import speed.wire.MessageView;
import speed.wire.Schema;
import speed.wire.Security;

/** Applies a {@link MessageSecurity} to what a node sends and receives; only a node makes one. Thread-safe. */
@SuppressWarnings("exports") // some methods are for the node alone
public final class Guard {
    private final MessageSecurity security;
    private final TrustedKeys trusted;
    private final Map<String, MessageKey> keys = new HashMap<>();
    private final KeyUses uses = new KeyUses(Algorithm.MAX_KEY_USES);

    /**
     * For one node.
     *
     * @param security its settings
     */
    public Guard(MessageSecurity security) {
        this.security = security;
        trusted = new TrustedKeys(security.trusted());
        security.trusted().forEach(key -> keys.put(key.id(), key));
        security.keys().forEach(key -> keys.put(key.id(), key));
    }

    // --- sending ---

    /**
     * The bytes of one message, compressed, encrypted, then signed.
     *
     * @param draft its metadata
     * @param payload its value
     * @param asked what is to be done to it; the node's defaults hold where it says nothing
     * @param schema of its payload
     * @return the message
     * @throws speed.errors.MessageException for keys, algorithms and classification that cannot be
     */
    public byte[] write(MessageDraft draft, Object payload, Protection asked, SchemaReference schema) {
        if (!protects(asked, schema)) {
            return draft.encode(payload);
        }
        Protection protection = asked.or(security.defaults());
        check(protection, draft);
        Schema described = schema.described();
        Content content = compressed(Content.of(payload), protection.compression());
        Security said = said(draft, protection);
        if (protection.isEncrypting()) {
            PayloadContext context = PayloadContext.of(draft, content, described, protection);
            Encryption.Made made = protection.direct()
                    ? Encryption.encryptDirectly(content.data(), protection.recipients(), context)
                    : Encryption.encrypt(content.data(), protection.recipients(), context);
            content = content.withData(made.ciphertext());
            said = said.withEncryption(made.how());
        }
        byte[] message = fitting(draft.encode(content, said, described));
        return protection.signer() == null ? message : fitting(Signing.sign(message, protection.signer()));
    }

    /** What would go in segments of its own accord is refused, also if only its signature makes it so long. */
    private static byte[] fitting(byte[] message) {
        if (message.length > Limits.MAX_PAYLOAD_BYTES) {
            throw tooLarge();
        }
        return message;
    }

    private void check(Protection protection, MessageDraft draft) {
        Sensitivity.checkEncrypted(Sensitivity.checkLevel(protection.level(), "classification"),
                protection.isEncrypting());
        protection.recipients().forEach(key -> use(key, draft));
        if (protection.signer() != null) {
            use(Signing.check(protection.signer()), draft);
        }
    }

    private void use(MessageKey key, MessageDraft draft) {
        key.algorithm().allowedBy(security.fipsMode());
        key.checkUse(draft.namespace(), draft.topic(), draft.publishedAtMs());
        uses.count(key);
    }

    /** A payload of nothing is left alone. */
    private static Content compressed(Content content, String encoding) {
        if (encoding.equals(Compression.NONE) || content.data().length == 0) {
            return content;
        }
        return content.compressed(encoding, Compression.compress(encoding, content.data()));
    }

    private Security said(MessageDraft draft, Protection protection) {
        MessageKey signer = protection.signer();
        return new Security(draft.publisherId(), security.publisherTeam(),
                signer == null ? "" : signer.algorithm().label(), signer == null ? "" : signer.id(),
                protection.containsPii(), protection.level(), null);
    }

    // --- receiving ---

    /**
     * A received message, checked in such an order that nothing is decrypted for who is not trusted.
     *
     * @param received as it came
     * @param nowMs Unix ms of this node's clock
     * @return the message as a handler may have it
     * @throws speed.errors.MessageException when it is refused
     * @throws WireException when its time is ahead of this clock
     */
    public OpenedMessage open(MessageView received, long nowMs) {
        MessageView view = whole(received);
        checkSignatureAlgorithm(view.security(), security.fipsMode());
        MessageKey signer = trusted.check(view, security.policy(), security.fipsMode());
        checkTime(view, nowMs);
        String classification = view.security().classification();
        Sensitivity.checkEncrypted(classification, view.isEncrypted());
        Sensitivity.checkClearance(classification, security.clearance());
        return opened(view, signer);
    }

    /** Who looks at no signature refuses what it says of itself as well. */
    private static void checkSignatureAlgorithm(Security said, FipsMode mode) {
        if (!said.signatureAlgorithm().isEmpty()) {
            Algorithm.of(said.signatureAlgorithm()).allowedBy(mode);
        }
    }

    /**
     * What also a node asks that verifies and decrypts nothing.
     *
     * @param view as it came
     * @throws speed.errors.MessageException when it is refused
     */
    public static void checkUnopened(MessageView view) {
        Security said = view.security();
        checkSignatureAlgorithm(said, FipsMode.OFF);
        Sensitivity.checkEncrypted(said.classification(), view.isEncrypted());
        if (view.isEncrypted()) {
            Algorithm.of(said.encryption().algorithm());
        }
    }

    private OpenedMessage opened(MessageView view, MessageKey signer) {
        boolean isCompressed = Compression.isRead(view.contentEncoding());
        if (!view.isEncrypted() && !isCompressed) {
            return new OpenedMessage(view, null, signer, null);
        }
        byte[] plain;
        MessageKey opener = null;
        if (view.isEncrypted()) {
            Decryption.Opened opened = Decryption.open(view, keys::get, security.fipsMode());
            plain = opened.payload();
            opener = opened.key();
        } else {
            plain = view.payloadBytes();
        }
        if (isCompressed) {
            plain = Compression.decompress(view.contentEncoding(), plain, view.uncompressedBytes());
        }
        return new OpenedMessage(view, plain, signer, opener);
    }

    /** What lies in the store is brought into memory if it claims to be protected: all of it counts. */
    private MessageView whole(MessageView view) {
        boolean claims = view.isSigned() || view.isEncrypted() || !view.contentEncoding().equals(Compression.NONE);
        if (view.isHeld() || !claims && security.policy() != SignaturePolicy.REQUIRE) {
            return view;
        }
        if (view.size() > Limits.MAX_PAYLOAD_BYTES) {
            throw tooLarge();
        }
        return MessageView.of(view.bytes());
    }

    private void checkTime(MessageView view, long nowMs) {
        if (security.policy() != SignaturePolicy.OFF
                && view.publishedAtMs() > nowMs + security.futureToleranceMs()) {
            throw new WireException("BAD_MESSAGE", "published_at_ms: is ahead of this node's clock");
        }
    }

    private static NotAvailableException tooLarge() {
        return new NotAvailableException("what no envelope holds is neither signed, encrypted nor described: send it in parts");
    }

    /**
     * Whether more is done to a message than to frame it.
     *
     * @param asked of its protection
     * @param schema of its payload
     * @return whether it must be written in memory
     */
    public boolean protects(Protection asked, SchemaReference schema) {
        return asked != Protection.NONE || security.defaults() != Protection.NONE || schema != SchemaReference.NONE
                || security.publisherTeam() != null;
    }

    @Override
    public String toString() {
        return "Guard " + security.policy();
    }
}
