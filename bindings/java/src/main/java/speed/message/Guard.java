package speed.message;

import java.io.UncheckedIOException;
import java.security.GeneralSecurityException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import speed.errors.KeyExhaustedException;
import speed.errors.KeyRefusedException;
import speed.errors.MessageException;
import speed.errors.NotAvailableException;
import speed.errors.SchemaException;
import speed.errors.WireException;
import speed.internal.message.Compression;
import speed.internal.message.Compression.Shown;
import speed.internal.message.MessageGuard;
import speed.internal.message.OpenedMessage;
import speed.internal.wire.Content;
import speed.internal.wire.Limits;
import speed.internal.wire.MessageDraft;
import speed.internal.wire.MessageView;
import speed.internal.wire.Schema;
import speed.internal.wire.Security;
import speed.internal.wire.SignedParts;
import speed.message.LoadedKey.Signer;
import speed.message.MessageSecurity.Sensitivity;

/** Applies a {@link MessageSecurity} to what a node sends and receives. Thread-safe. */
final class Guard implements MessageGuard<Protection, SchemaReference> {
    static {
        Factory<MessageSecurity, Protection, SchemaReference> factory = Guard::new;
        FACTORY.install(factory);
    }

    private final MessageSecurity security;
    private final String name;
    private final KnownSchemas schemas;
    private final TrustedKeys trusted;
    private final Map<String, MessageKey> keys = new HashMap<>();
    private final KeyUses uses = new KeyUses(Algorithm.MAX_KEY_USES);

    /** The name is the node's, for an audit; empty for none. */
    Guard(MessageSecurity security, String name) {
        this.security = security;
        this.name = name;
        schemas = new KnownSchemas(security.schemas());
        trusted = new TrustedKeys(security.trusted());
        security.trusted().forEach(key -> keys.put(key.id(), key));
        security.keys().forEach(key -> keys.put(key.id(), key));
    }

    // --- sending ---

    @Override
    public byte[] write(MessageDraft draft, Object payload, Protection requested, SchemaReference schema) {
        if (!protects(requested, schema)) {
            return draft.encode(payload);
        }
        Protection protection = requested.or(security.defaults());
        Content content = Content.of(payload);
        AuditTrail trail = AuditTrail.ofSent(security.audit(), draft, protection.level());
        try {
            PayloadSchema known = schemas.of(schema);
            Schema described = known == null
                    ? schema.described()
                    : schema.described(known.hash(), known.deprecatedIn(content.typeName(), content.data()));
            Protection full = known != null && known.marksPersonalData() ? protection.withPii() : protection;
            byte[] message = written(draft, content, full, described, trail);
            trail.sent(full);
            return message;
        } catch (MessageException refused) {
            trail.refused(refused);
            throw refused;
        }
    }

    private byte[] written(
            MessageDraft draft, Content plain, Protection protection, Schema described, AuditTrail trail) {
        keysOf(protection).forEach(uses::count);
        trail.beginsSending(protection);
        check(protection, draft);
        Content content = compressed(plain, protection.compression());
        Security securityContext = securityContext(draft, protection);
        if (protection.isEncrypting()) {
            PayloadContext context = PayloadContext.of(draft, content, described, protection);
            Encryption.Made made = protection.direct()
                    ? Encryption.encryptDirectly(content.data(), protection.recipients(), context)
                    : Encryption.encrypt(content.data(), protection.recipients(), context);
            content = content.withData(made.ciphertext());
            securityContext = securityContext.withEncryption(made.how());
        }
        byte[] message = fitting(draft.encode(content, securityContext, described));
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
        Sensitivity.checkEncrypted(
                Sensitivity.checkLevel(protection.level(), "classification"), protection.isEncrypting());
        if (protection.signer() != null) {
            Signing.check(protection.signer());
        }
        keysOf(protection).forEach(key -> {
            key.algorithm().allowedBy(security.fipsMode());
            key.checkUse(draft.namespace(), draft.topic(), draft.publishedAtMs());
        });
    }

    private static List<MessageKey> keysOf(Protection protection) {
        return Stream.concat(protection.recipients().stream(), Stream.ofNullable(protection.signer()))
                .toList();
    }

    /** A payload of nothing is left alone. */
    private static Content compressed(Content content, String encoding) {
        if (encoding.equals(Compression.NONE) || content.data().length == 0) {
            return content;
        }
        return content.compressed(encoding, Compression.compress(encoding, content.data()));
    }

    private Security securityContext(MessageDraft draft, Protection protection) {
        MessageKey signer = protection.signer();
        return new Security(
                draft.publisherId(),
                security.publisherTeam(),
                signer == null ? "" : signer.algorithm().label(),
                signer == null ? "" : signer.id(),
                protection.containsPii(),
                protection.level(),
                null);
    }

    // --- receiving ---

    @Override
    public OpenedMessage open(MessageView received, long nowMs, String source) {
        AuditTrail trail = AuditTrail.ofReceived(security.audit(), received, source, name);
        try {
            return opened(whole(received), nowMs, trail);
        } catch (MessageException | WireException refused) {
            trail.refused(refused);
            throw refused;
        }
    }

    private OpenedMessage opened(MessageView view, long nowMs, AuditTrail trail) {
        MessageKey signer = verified(view, trail);
        PayloadSchema schema = admitted(view, nowMs);
        OpenedMessage opened = opened(view, signer, trail);
        if (schema != null) {
            opened = held(opened, schema);
        }
        if (opened.containsPii() || Sensitivity.isRestricted(view.security().classification())) {
            trail.accessed(opened.containsPii());
        }
        return opened;
    }

    private MessageKey verified(MessageView view, AuditTrail trail) {
        trail.beginsVerifying(view.security());
        checkSignatureAlgorithm(view.security(), security.fipsMode());
        MessageKey signer = trusted.check(view, security.policy(), security.fipsMode());
        if (signer == null) {
            trail.ends();
        } else {
            trail.done(signer);
        }
        return signer;
    }

    /** Its schema, if that is here, once time, sensitivity and hash are as they must be. */
    private PayloadSchema admitted(MessageView view, long nowMs) {
        checkTime(view, nowMs);
        String classification = view.security().classification();
        Sensitivity.checkEncrypted(classification, view.isEncrypted());
        Sensitivity.checkClearance(classification, security.clearance());
        return schemas.of(view.schema());
    }

    /** What the schema says of personal data counts, whatever the publisher says. */
    private static OpenedMessage held(OpenedMessage opened, PayloadSchema schema) {
        checkHoldable(opened.view());
        schema.deprecatedIn(opened.view().contentType(), opened.payloadBytes());
        return schema.marksPersonalData() ? opened.withPii() : opened;
    }

    /** Who looks at no signature refuses what it says of itself as well. */
    private static void checkSignatureAlgorithm(Security context, FipsMode mode) {
        if (!context.signatureAlgorithm().isEmpty()) {
            Algorithm.of(context.signatureAlgorithm()).allowedBy(mode);
        }
    }

    @Override
    public OpenedMessage unopened(MessageView view) {
        Security context = view.security();
        checkSignatureAlgorithm(context, FipsMode.OFF);
        Sensitivity.checkEncrypted(context.classification(), view.isEncrypted());
        if (view.isEncrypted()) {
            Algorithm.of(context.encryption().algorithm());
        }
        return new OpenedMessage(view, null, null, null, context.containsPii());
    }

    private OpenedMessage opened(MessageView view, MessageKey signer, AuditTrail trail) {
        boolean isPersonal = view.security().containsPii();
        if (!view.isEncrypted() && !Compression.isRead(view.contentEncoding())) {
            return new OpenedMessage(view, null, idOf(signer), null, isPersonal);
        }
        trail.beginsOpening(view.security().encryption());
        Decryption.Opened opened = view.isEncrypted()
                ? Decryption.open(view, keys::get, security.fipsMode())
                : new Decryption.Opened(view.payloadBytes(), null);
        byte[] plain = decompressed(view, opened.payload());
        if (opened.key() == null) {
            trail.ends();
        } else {
            trail.done(opened.key());
        }
        return new OpenedMessage(view, plain, idOf(signer), idOf(opened.key()), isPersonal);
    }

    private static String idOf(MessageKey key) {
        return key == null ? null : key.id();
    }

    /** What is in an encoding that is not read here stays as it is. */
    private static byte[] decompressed(MessageView view, byte[] plain) {
        String encoding = view.contentEncoding();
        return Compression.isRead(encoding) ? Compression.decompress(encoding, plain, view.uncompressedBytes()) : plain;
    }

    /** What lies in the store is brought into memory if it claims to be protected: all of it counts. */
    private MessageView whole(MessageView view) {
        boolean claims =
                view.isSigned() || view.isEncrypted() || !view.contentEncoding().equals(Compression.NONE);
        if (view.isHeld() || !claims && security.policy() != SignaturePolicy.REQUIRE) {
            return view;
        }
        checkHoldable(view);
        return MessageView.of(view.bytes());
    }

    private static void checkHoldable(MessageView view) {
        if (view.size() > Limits.MAX_PAYLOAD_BYTES) {
            throw tooLarge();
        }
    }

    private void checkTime(MessageView view, long nowMs) {
        if (security.policy() != SignaturePolicy.OFF && view.publishedAtMs() > nowMs + security.futureToleranceMs()) {
            throw new WireException("BAD_MESSAGE", "published_at_ms: is ahead of this node's clock");
        }
    }

    private static NotAvailableException tooLarge() {
        return new NotAvailableException(
                "what no envelope holds is neither signed, encrypted nor described: send it in parts");
    }

    @Override
    public boolean protects(Protection requested, SchemaReference schema) {
        return requested != Protection.NONE
                || security.defaults() != Protection.NONE
                || schema != SchemaReference.NONE
                || security.publisherTeam() != null;
    }

    @Override
    public String toString() {
        return "Guard " + security.policy();
    }

    /** How often each key was used to write in this process. Thread-safe. */
    static final class KeyUses {
        private final Map<String, AtomicLong> uses = new ConcurrentHashMap<>();
        private final long most;

        KeyUses(long most) {
            this.most = most;
        }

        void count(MessageKey key) {
            if (uses.computeIfAbsent(key.id(), any -> new AtomicLong()).incrementAndGet() > most) {
                throw new KeyExhaustedException("key '" + key.id() + "' was used " + most + " times: rotate it");
            }
        }
    }

    /** Signs the exact bytes of a message. */
    static final class Signing {
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

    /**
     * The schemas of a node's program, asked so that neither they nor what messages name harm the node.
     *
     * @param schemas null where there are none
     */
    record KnownSchemas(Schemas schemas) {
        /** A name may become part of a path. */
        private static final Pattern NAME = Pattern.compile("[A-Za-z0-9_][A-Za-z0-9._-]{0,127}");

        /** The schema that a received message names, if it is here; SchemaException if the message has another hash. */
        PayloadSchema of(Schema declared) {
            PayloadSchema known = find(declared.name(), declared.version());
            if (known != null && !declared.hash().equals(known.hash())) {
                throw new SchemaException("schema_hash: is not that of '" + Shown.text(declared.name())
                        + "' of version '" + Shown.text(declared.version()) + "' here");
            }
            return known;
        }

        /**
         * The schema that is to be written; null without schemas here, or without name and version. SchemaException for one
         * that is not here, or of which nobody can tell now.
         */
        PayloadSchema of(SchemaReference reference) {
            try {
                PayloadSchema known = find(reference.name(), reference.version());
                if (known == null
                        && schemas != null
                        && !reference.name().isEmpty()
                        && !reference.version().isEmpty()) {
                    throw new SchemaException("there is no schema '" + reference.name() + "' of version '"
                            + reference.version() + "' here");
                }
                return known;
            } catch (UncheckedIOException away) {
                throw new SchemaException("the schemas cannot be reached: " + away.getMessage());
            }
        }

        /** Null where there is none; what is unreachable now passes through. */
        private PayloadSchema find(String name, String version) {
            if (schemas == null || name.isEmpty() || version.isEmpty()) {
                return null;
            }
            if (!isName(name) || !isName(version)) {
                throw new SchemaException("'" + Shown.text(name) + "' of version '" + Shown.text(version)
                        + "' cannot be a schema: use [A-Za-z0-9._-]");
            }
            try {
                return schemas.find(name, version).orElse(null);
            } catch (SchemaException | UncheckedIOException known) {
                throw known;
            } catch (RuntimeException | StackOverflowError failed) {
                throw new SchemaException("schema '" + name + "' of version '" + version + "' could not be looked up: "
                        + failed.getClass().getSimpleName());
            }
        }

        private static boolean isName(String text) {
            return NAME.matcher(text).matches() && !text.contains("..");
        }
    }
}
