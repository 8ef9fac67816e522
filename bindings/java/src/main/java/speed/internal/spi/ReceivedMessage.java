package speed.internal.spi;

import java.util.function.Function;
import speed.internal.access.InternalFactory;
import speed.internal.message.OpenedMessage;
import speed.internal.segment.Source;

/**
 * What a {@code speed.Message} is made of.
 *
 * @param opened what it says, after the checks of its node
 * @param stored its payload, null if that is held in memory
 * @param source authenticated name of the sender
 * @param identity fingerprint that the sender proved; empty without one
 * @param sequence of its envelope
 * @param redelivered whether a former process of this name may have handled it
 * @param deliveries how often it has been begun
 * @param finish commits it
 */
public record ReceivedMessage(
        OpenedMessage opened,
        Source stored,
        String source,
        String identity,
        long sequence,
        boolean redelivered,
        int deliveries,
        Runnable finish) {
    public static final InternalFactory<Function<ReceivedMessage, ?>> MESSAGES = new InternalFactory<>("speed.Message");
}
