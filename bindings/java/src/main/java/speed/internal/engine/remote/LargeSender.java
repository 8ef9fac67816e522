package speed.internal.engine.remote;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.LongConsumer;
import speed.errors.PayloadTooLargeException;
import speed.internal.core.Counters;
import speed.internal.core.PendingCalls.Call;
import speed.internal.core.PendingCalls.SequenceKey;
import speed.internal.engine.Context;
import speed.internal.engine.call.Calls;
import speed.internal.engine.link.Envelopes.Load;
import speed.internal.engine.link.Links;
import speed.internal.engine.link.OutgoingLink;
import speed.internal.engine.threads.Waiter.FirstAnswer;
import speed.internal.engine.threads.WorkerPool;
import speed.internal.segment.Segment;
import speed.internal.segment.Source;
import speed.internal.segment.Splitter;
import speed.internal.wire.Header.EnvelopeType;
import speed.internal.wire.Limits;
import speed.options.Progress;
import speed.options.SendOptions;

/**
 * Sends payloads in segments because no envelope holds them: streamed in bounded memory, acknowledged once. Thread-safe.
 */
public final class LargeSender {
    private static final Duration LONGEST = Duration.ofSeconds((long) Limits.RECONSTRUCTION_SECONDS);

    private final Context context;
    private final WorkerPool pool;
    private final Links links;
    private final Calls calls;

    public LargeSender(Context context, Links links, Calls calls, WorkerPool pool) {
        this.context = context;
        this.pool = pool;
        this.links = links;
        this.calls = calls;
    }

    /** Sends one payload; each segment waits for room as long as the timeout. */
    public void send(String target, EnvelopeType type, Source source, SendOptions options) {
        checkSize(target, source.size());
        OutgoingLink link =
                links.granted(target, System.nanoTime() + options.timeout().toNanos());
        for (Segment segment : segments(link, source)) {
            Load load = load(type, 0, segment, options);
            pool.blocking(() -> link.send(load));
            report(options.progress(), segment, source);
        }
    }

    /** The same, then waits for the acknowledgement, as long as the timeout from the last segment on. */
    void sendAcknowledged(String target, EnvelopeType type, Source source, SendOptions options) {
        checkSize(target, source.size());
        OutgoingLink link =
                links.granted(target, System.nanoTime() + options.timeout().toNanos());
        List<SequenceKey> tracked = new ArrayList<>();
        try (FirstAnswer answer = calls.oneAnswer()) {
            LongConsumer track = sequence -> {
                tracked.add(new SequenceKey(target, sequence));
                track(tracked.get(tracked.size() - 1), LONGEST, answer);
            };
            for (Segment segment : segments(link, source)) {
                if (answer.isGiven()) {
                    context.stats.count(Counters.PAYLOADS_GIVEN_UP);
                    break;
                }
                Load load = load(type, EnvelopeType.ACK_REQUESTED, segment, options);
                pool.blocking(() -> link.send(load, track));
                report(options.progress(), segment, source);
            }
            if (!answer.isGiven()) {
                tracked.forEach(key -> track(key, options.timeout(), answer));
            }
            answer.await();
        } finally {
            tracked.forEach(calls::forget);
        }
    }

    private void track(SequenceKey key, Duration timeout, FirstAnswer answer) {
        calls.track(new Call(key, System.nanoTime() + timeout.toNanos(), key.target(), answer));
    }

    /** PayloadTooLargeException for what no receiver takes, or not this one. */
    void checkSize(String target, long bytes) {
        boolean mayGo = bytes <= Limits.MAX_PAYLOAD_BYTES || context.takesSegments(target);
        int most = mayGo ? Limits.MAX_SEGMENTED_BYTES : Limits.MAX_PAYLOAD_BYTES;
        if (bytes > most) {
            throw new PayloadTooLargeException(
                    bytes + " bytes for '" + target + "'; the limit is " + most + ": send it in parts");
        }
    }

    private static Iterable<Segment> segments(OutgoingLink link, Source source) {
        Splitter ofLink = link.splitter();
        return (ofLink != null ? ofLink : Splitter.ofPayload(source.size())).split(source);
    }

    private static Load load(EnvelopeType type, int flags, Segment segment, SendOptions options) {
        Segment marked = options.unordered() ? segment.asUnordered() : segment;
        return Load.of(
                type,
                flags | EnvelopeType.SEGMENT,
                marked.write(),
                System.nanoTime() + options.timeout().toNanos());
    }

    private static void report(Progress progress, Segment segment, Source source) {
        if (!segment.isParity()) {
            progress.written(
                    segment.isLastData() ? source.size() : (segment.index() + 1L) * segment.payload().length,
                    source.size());
        }
    }
}
