package speed.message;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import speed.errors.SpeedException;
import speed.errors.WireException;
import speed.internal.wire.MessageDraft;
import speed.internal.wire.MessageView;
import speed.internal.wire.Schema;
import speed.internal.wire.Security;
import speed.internal.wire.Security.Encrypted;
import speed.internal.wire.Security.Encrypted.Recipient;

/** What is done to one message, told as it ends: each step that succeeds, and the refusal. */
final class AuditTrail {
    private static final int MAX_TEXT = 128;
    private static final int MAX_ALGORITHM = 64;

    /** Null where nothing is told. */
    private final AuditLog log;

    private final String refuses;
    private final String messageId;
    private final Map<String, Object> nodes = new LinkedHashMap<>();
    private final Map<String, Object> about = new LinkedHashMap<>();
    private String operation;
    private String algorithm = "";
    private String keyId = "";

    private AuditTrail(AuditLog log, String refuses, String messageId, String source, String reader) {
        this.log = log;
        this.refuses = refuses;
        this.messageId = messageId;
        operation = refuses;
        put(nodes, "source", source);
        put(nodes, "reader", reader);
    }

    /** Of a message that is not written yet. */
    static AuditTrail ofSent(AuditLog log, MessageDraft draft, String classification) {
        AuditTrail trail = new AuditTrail(log, "send", draft.messageId(), draft.publisherId(), null);
        put(trail.about, "topic", draft.topic());
        put(trail.about, "namespace", draft.namespace());
        put(trail.about, "classification", classification);
        return trail;
    }

    /** Of a message that a node sent to this one. */
    static AuditTrail ofReceived(AuditLog log, MessageView view, String source, String reader) {
        AuditTrail trail = new AuditTrail(log, "receive", view.messageId(), source, reader);
        if (log != null) {
            trail.tellAbout(view);
        }
        return trail;
    }

    private void tellAbout(MessageView view) {
        Security security = view.security();
        Schema schema = view.schema();
        put(about, "topic", view.topic());
        put(about, "namespace", view.namespace());
        put(about, "publisher", security.publisherId());
        put(about, "classification", security.classification());
        put(about, "schema", schema.name().isEmpty() ? null : schema.name() + "/" + schema.version());
        put(about, "trace", view.traceparent());
        if (security.containsPii()) {
            about.put("contains_pii", true);
        }
    }

    // --- steps that use a key, as far as that is known ---

    void beginsSending(Protection protection) {
        List<MessageKey> keys = Stream.concat(protection.recipients().stream(), Stream.ofNullable(protection.signer()))
                .toList();
        begins(
                "send",
                keys.stream().map(key -> key.algorithm().label()).distinct().collect(Collectors.joining(",")),
                ids(keys));
    }

    void beginsVerifying(Security security) {
        begins("verify", security.signatureAlgorithm(), security.signatureKeyId());
    }

    /** Null where it is only decompressed. */
    void beginsOpening(Encrypted how) {
        if (how == null) {
            begins("decrypt", "", "");
            return;
        }
        String ids = how.recipients().stream().map(Recipient::keyId).collect(Collectors.joining(","));
        begins("decrypt", how.algorithm(), ids.isEmpty() ? how.keyId() : ids);
    }

    private void begins(String step, String itsAlgorithm, String itsKeyId) {
        operation = step;
        algorithm = itsAlgorithm;
        keyId = itsKeyId;
    }

    /** No key is used from here on. */
    void ends() {
        begins(refuses, "", "");
    }

    // --- what is told ---

    void sent(Protection protection) {
        List<MessageKey> readers = protection.recipients();
        if (!readers.isEmpty()) {
            write("encrypt", "ok", readers.get(0).algorithm().label(), ids(readers));
        }
        if (protection.signer() != null) {
            write(
                    "sign",
                    "ok",
                    protection.signer().algorithm().label(),
                    protection.signer().id());
        }
    }

    /** The step that began succeeded, with this key. */
    void done(MessageKey key) {
        write(operation, "ok", algorithm, key.id());
        ends();
    }

    /** The program is handed it. */
    void accessed(boolean containsPii) {
        if (containsPii) {
            about.put("contains_pii", true);
        }
        write("access", "ok", "", "");
    }

    /** Of an error, its code is told. */
    void refused(SpeedException error) {
        write(operation, error instanceof WireException wire ? wire.reason() : error.code(), algorithm, keyId);
    }

    private void write(String what, String outcome, String itsAlgorithm, String itsKeyId) {
        if (log == null) {
            return;
        }
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("operation", what);
        line.put("outcome", outcome);
        line.put("algorithm", cut(itsAlgorithm, MAX_ALGORITHM));
        line.put("key_id", cut(itsKeyId, MAX_TEXT));
        line.put("message_id", cut(messageId, MAX_TEXT));
        line.putAll(nodes);
        line.putAll(about);
        log.write(line);
    }

    private static String ids(List<MessageKey> keys) {
        return keys.stream().map(MessageKey::id).collect(Collectors.joining(","));
    }

    private static void put(Map<String, Object> fields, String name, String text) {
        if (text != null && !text.isEmpty()) {
            fields.put(name, cut(text, MAX_TEXT));
        }
    }

    /** So many characters, none of them halved. */
    private static String cut(String text, int most) {
        return text.codePointCount(0, text.length()) <= most
                ? text
                : text.substring(0, text.offsetByCodePoints(0, most));
    }
}
