package speed.internal.engine;

import java.io.UncheckedIOException;
import speed.errors.MessageException;
import speed.errors.StorageException;
import speed.errors.WireException;
import speed.internal.core.Log;
import speed.internal.message.MessageGuard;
import speed.internal.message.OpenedMessage;
import speed.internal.wire.MessageDraft;
import speed.internal.wire.MessageView;
import speed.message.MessageSecurity;
import speed.message.Protection;
import speed.message.SchemaReference;
import speed.options.SendOptions;

/**
 * The way of messages that are signed, encrypted or described: written before, and opened behind, the lanes. A
 * node without a {@link MessageSecurity} opens none, and refuses what every node refuses. Thread-safe.
 */
public final class MessageProtection {
    private static final Log LOG = new Log("speed.messages");

    private final MessageGuard<Protection, SchemaReference> guard;
    private final boolean opens;
    private final LogLimiter lines;

    public MessageProtection(String name, MessageSecurity security, LogLimiter lines) {
        this.lines = lines;
        guard = MessageGuard.of(security == null ? MessageSecurity.NONE : security, name);
        opens = security != null;
    }

    /** The bytes of one message. */
    public byte[] encode(MessageDraft draft, Object payload, SendOptions options) {
        return guard.write(draft, payload, options.protection(), options.schema());
    }

    /** Whether more is to be done to a message than to frame it: then it is written in memory. */
    public boolean protects(SendOptions options) {
        return guard.protects(options.protection(), options.schema());
    }

    /**
     * A message as a handler may have it; WireException with the code of the refusal for others, with KEY_UNAVAILABLE
     * for those that cannot be judged, or told to the audit, now.
     */
    public OpenedMessage open(MessageView view, String source) {
        try {
            return opens ? guard.open(view, System.currentTimeMillis(), source) : guard.unopened(view);
        } catch (MessageException refused) {
            lines.warn(LOG, "a message of {} was refused: {}: {}", source, refused.code(), refused.getMessage());
            throw new WireException(refused.code(), refused.getMessage());
        } catch (WireException refused) {
            lines.warn(LOG, "a message of {} was refused: {}", source, refused.getMessage());
            throw refused;
        } catch (StorageException | UncheckedIOException away) {
            lines.warn(LOG, "a message of {} waits: {}", source, away.getMessage());
            throw new WireException("KEY_UNAVAILABLE", away.getMessage());
        }
    }
}
