package speed.tool;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import speed.Message;
import speed.Node;
import speed.SendOptions;
import speed.message.MessageKey;
import speed.message.MessageSecurity;
import speed.message.Protection;
import speed.message.SignaturePolicy;
import speed.tool.Operation.Fields;

/** A second node of an agent, which signs and encrypts. */
final class AgentProtection {
    private final Arguments arguments;
    private final BlockingQueue<Message> handled = new LinkedBlockingQueue<>();
    private Node node;

    AgentProtection(Arguments arguments) {
        this.arguments = arguments;
    }

    void addTo(Map<String, Operation> table) {
        table.put("protect", this::protect);
        table.put("protected_send", fields -> node.send(fields.text("target"), fields.get("payload"),
                SendOptions.DEFAULT.withAcknowledgement().withTimeout(fields.seconds("timeout", 5))));
        table.put("protected_receive", fields ->
                shown(handled.poll(fields.seconds("timeout", 5).toNanos(), TimeUnit.NANOSECONDS)));
        table.put("unprotect", fields -> {
            close();
            return null;
        });
    }

    private Object protect(Fields fields) {
        close();
        node = arguments.builder(fields.text("name")).allow(fields.texts("allow")).security(security(fields)).open();
        node.onMessage(handled::add);
        return node.generation();
    }

    private static MessageSecurity security(Fields fields) {
        Map<String, MessageKey> keys = ((List<?>) fields.get("keys")).stream()
                .map(one -> MessageKey.of((Map<?, ?>) one)).collect(Collectors.toMap(MessageKey::id, one -> one));
        Protection usual = Protection.NONE.encryptTo(named(keys, fields.texts("encrypt_to")))
                .compressed(fields.text("compression"));
        if (fields.get("sign_with") != null) {
            usual = usual.signWith(keys.get(fields.text("sign_with")));
        }
        return MessageSecurity.NONE.withKeys(keys.values().toArray(new MessageKey[0])).withDefaults(usual)
                .withPolicy(SignaturePolicy.valueOf(fields.text("policy").toUpperCase(Locale.ROOT)),
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
        return shown;
    }

    void close() {
        if (node != null) {
            node.close();
            node = null;
        }
    }
}
