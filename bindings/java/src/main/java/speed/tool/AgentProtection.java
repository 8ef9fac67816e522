package speed.tool;

import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import speed.AuditFile;
import speed.Message;
import speed.Node;
import speed.errors.SchemaException;
import speed.message.AuditLog;
import speed.message.MessageKey;
import speed.message.MessageSecurity;
import speed.message.PayloadSchema;
import speed.message.Protection;
import speed.message.SchemaReference;
import speed.message.Schemas;
import speed.message.SignaturePolicy;
import speed.options.SendOptions;
import speed.tool.Operation.Fields;

/** A second node of an agent, which signs and encrypts. */
final class AgentProtection {
    private final Arguments arguments;
    private final BlockingQueue<Message> handled = new LinkedBlockingQueue<>();
    private Node node;
    private AuditLog log;

    AgentProtection(Arguments arguments) {
        this.arguments = arguments;
    }

    void addTo(Map<String, Operation> table) {
        table.put("protect", this::protect);
        table.put("protected_send", fields -> node.send(fields.text("target"), fields.get("payload"), options(fields)));
        table.put(
                "protected_receive",
                fields -> shown(handled.poll(fields.seconds("timeout", 5).toNanos(), TimeUnit.NANOSECONDS)));
        table.put("unprotect", fields -> {
            close();
            return null;
        });
    }

    private Object protect(Fields fields) {
        close();
        MessageSecurity security = security(fields);
        if (fields.get("audit") != null) {
            log = AuditFile.open(Path.of(fields.text("audit")));
            security = security.withAudit(log);
        }
        if (fields.get("schemas") != null) {
            security = security.withSchemas(schemas((Map<?, ?>) fields.get("schemas")));
        }
        node = arguments
                .builder(fields.text("name"))
                .allow(fields.texts("allow"))
                .security(security)
                .open();
        node.onMessage(handled::add);
        return node.generation();
    }

    /** Schemas by {@code NAME/VERSION}; each says how it judges every payload. */
    private static Schemas schemas(Map<?, ?> known) {
        return (name, version) -> Optional.ofNullable((Map<?, ?>) known.get(name + "/" + version))
                .map(definition -> new PayloadSchema(
                        (String) definition.get("hash"),
                        Boolean.TRUE.equals(definition.get("personal")),
                        (type, payload) -> judged(definition)));
    }

    private static List<String> judged(Map<?, ?> definition) {
        if (definition.get("misfit") instanceof String why) {
            throw new SchemaException(why);
        }
        return ((List<?>) definition.get("deprecated"))
                .stream().map(String.class::cast).toList();
    }

    private static SendOptions options(Fields fields) {
        SendOptions options = SendOptions.DEFAULT.withAcknowledgement().withTimeout(fields.seconds("timeout", 5));
        if (fields.get("classification") != null) {
            options = options.withProtection(Protection.NONE.classified(fields.text("classification")));
        }
        if (fields.get("schema") instanceof List<?> named) {
            options = options.withSchema(
                    new SchemaReference((String) named.get(0), (String) named.get(1), "json-schema", "", "", ""));
        }
        return options;
    }

    private static MessageSecurity security(Fields fields) {
        Map<String, MessageKey> keys = ((List<?>) fields.get("keys"))
                .stream()
                        .map(one -> MessageKey.of((Map<?, ?>) one))
                        .collect(Collectors.toMap(MessageKey::id, one -> one));
        Protection usual = Protection.NONE
                .encryptTo(named(keys, fields.texts("encrypt_to")))
                .compressed(fields.text("compression"));
        if (fields.get("sign_with") != null) {
            usual = usual.signWith(keys.get(fields.text("sign_with")));
        }
        return MessageSecurity.NONE
                .withKeys(keys.values().toArray(new MessageKey[0]))
                .withDefaults(usual)
                .withPolicy(
                        SignaturePolicy.valueOf(fields.text("policy").toUpperCase(Locale.ROOT)),
                        named(keys, fields.texts("trusted")));
    }

    private static MessageKey[] named(Map<String, MessageKey> keys, String[] ids) {
        return List.of(ids).stream().map(keys::get).toArray(MessageKey[]::new);
    }

    private static Map<String, Object> shown(Message message) {
        if (message == null) {
            return null;
        }
        Map<String, Object> shown = new LinkedHashMap<>();
        shown.put("payload", message.payload());
        shown.put("source", message.source());
        shown.put("signedBy", message.signedBy());
        shown.put("openedBy", message.openedBy());
        shown.put("personal", message.containsPii());
        return shown;
    }

    void close() {
        if (node != null) {
            node.close();
            node = null;
        }
        if (log != null) {
            log.close();
            log = null;
        }
    }
}
