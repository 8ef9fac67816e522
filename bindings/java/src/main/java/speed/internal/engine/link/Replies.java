package speed.internal.engine.link;

import java.util.List;
import speed.errors.SpeedException;
import speed.internal.core.Counters;
import speed.internal.engine.Context;
import speed.internal.engine.lane.Arrival;
import speed.internal.engine.link.Envelopes.Load;
import speed.internal.fs.Received;
import speed.internal.wire.Control;
import speed.internal.wire.Header.EnvelopeType;
import speed.internal.wire.Header.Sequence;

/**
 * What is sent back at once by who reads lanes or handles messages: acknowledgements, errors, replies. It never
 * waits: a sender that left or does not read loses it, counted. Thread-safe.
 */
public final class Replies implements Arrival.Replies {
    private final Context context;
    private final Links links;

    public Replies(Context context, Links links) {
        this.context = context;
        this.links = links;
    }

    @Override
    public void acknowledge(String source, Received received, boolean waiting) {
        send(
                source,
                received.header().generation(),
                EnvelopeType.ACK,
                Control.encodeAck(received.header().sequence(), waiting));
    }

    @Override
    public void refuse(String source, long sequence, String code, String text) {
        send(source, Sequence.generation(sequence), EnvelopeType.ERROR, Control.encodeError(code, text, sequence));
    }

    public void send(String source, int generation, EnvelopeType type, byte[] payload) {
        try {
            links.open(source, generation).send(Load.urgent(type, EnvelopeType.REPLY, List.of(payload)));
        } catch (SpeedException undelivered) {
            context.stats.count(Counters.REPLIES_UNDELIVERED);
        }
    }
}
