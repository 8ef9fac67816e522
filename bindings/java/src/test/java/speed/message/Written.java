package speed.message;

import java.util.Map;
import speed.internal.message.OpenedMessage;
import speed.internal.wire.MessageDraft;
import speed.internal.wire.MessageView;

/** Messages as a writer makes them, for the tests of this package. */
final class Written {
    static final long AT_MS = 1_700_000_000_000L;
    static final Map<String, Object> VALUE = Map.of("amount", 1000L, "card", "4111-1111");

    private Written() {}

    static MessageDraft draft() {
        return new MessageDraft("id-1", "orders.created", "default", AT_MS, "billing", MessageDraft.Options.NONE);
    }

    static MessageView message(Object payload, Protection protection) {
        return message(MessageSecurity.NONE, payload, protection);
    }

    static MessageView message(MessageSecurity security, Object payload, Protection protection) {
        return MessageView.of(new Guard(security, "").write(draft(), payload, protection, SchemaReference.NONE));
    }

    static OpenedMessage opened(MessageView view, MessageKey... keys) {
        return new Guard(MessageSecurity.NONE.withKeys(keys), "").open(view, AT_MS, "");
    }

    static MessageKey signer(Algorithm algorithm) {
        return MessageKey.generate("signer-1", algorithm).withBounds(KeyBounds.NONE.withPublishers("billing"));
    }
}
