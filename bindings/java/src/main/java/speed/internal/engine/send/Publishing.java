package speed.internal.engine.send;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import speed.Published;
import speed.errors.InboxFullException;
import speed.errors.PayloadTooLargeException;
import speed.errors.SpeedException;
import speed.internal.core.Counters;
import speed.internal.core.Log;
import speed.internal.engine.Context;
import speed.internal.engine.LogLimiter;
import speed.internal.engine.link.Envelopes.Load;
import speed.internal.engine.link.Links;
import speed.internal.engine.remote.LargeSender;
import speed.internal.engine.threads.WorkerPool;
import speed.internal.segment.Source;
import speed.internal.wire.Entry;
import speed.internal.wire.Header.EnvelopeType;
import speed.internal.wire.Limits;
import speed.internal.wire.Names;
import speed.options.SendOptions;

/**
 * Events on their way to those who subscribe to them: first to all who have room, then to the others, within one bound
 * for all. Thread-safe.
 */
public final class Publishing {
    private static final Log LOG = new Log("speed.messages");
    private static final long FIRST_PAUSE_NANOS = 1_000_000;
    private static final long LONGEST_PAUSE_NANOS = 50_000_000;

    private final Context context;
    private final Links links;
    private final LargeSender large;
    private final WorkerPool pool;
    private final LogLimiter lines = new LogLimiter();

    public Publishing(Context context, Links links, LargeSender large, WorkerPool pool) {
        this.context = context;
        this.links = links;
        this.large = large;
        this.pool = pool;
    }

    /** Sends an event to every node that subscribes to it and allows this one. */
    Published publish(String topic, byte[] event, SendOptions options) {
        Round round = new Round(event, options);
        List<String> waiting = new ArrayList<>();
        for (Entry entry : context.registry.liveEntries()) {
            if (entry.name().equals(context.name()) || entry.isLeaving() || !wants(entry, topic)) {
                continue;
            }
            if (!entry.grants(context.name())) {
                round.failed(entry.name(), "ACCESS_DENIED", "it does not allow '" + context.name() + "'");
            } else if (!round.tried(entry.name(), options.dropIfFull())) {
                waiting.add(entry.name());
            }
        }
        if (!waiting.isEmpty()) {
            pool.blocking(() -> round.await(waiting));
        }
        return new Published(round.delivered.stream().sorted().toList(), Collections.unmodifiableMap(round.failed));
    }

    private static boolean wants(Entry entry, String topic) {
        return entry.subscriptions().stream().anyMatch(pattern -> Names.matches(pattern, topic));
    }

    /** One event and who got it. */
    private final class Round {
        private final List<String> delivered = new ArrayList<>();
        private final Map<String, String> failed = new TreeMap<>();
        private final byte[] event;
        private final SendOptions options;
        private final long deadline;

        Round(byte[] event, SendOptions options) {
            this.event = event;
            this.options = options;
            deadline = System.nanoTime() + options.timeout().toNanos();
        }

        /** Without waiting for room; false if there is none and it is not the last try. */
        boolean tried(String target, boolean isLast) {
            try {
                send(target);
                delivered.add(target);
            } catch (InboxFullException full) {
                if (!isLast) {
                    return false;
                }
                failed(target, full.code(), full.getMessage());
            } catch (SpeedException error) {
                failed(target, error.code(), error.getMessage());
            }
            return true;
        }

        private void send(String target) {
            if (event.length <= Limits.MAX_PAYLOAD_BYTES) {
                links.granted(target).send(Load.urgent(EnvelopeType.EVENT, 0, List.of(event)));
            } else if (context.takesSegments(target)) {
                large.send(target, EnvelopeType.EVENT, Source.of(event), options);
            } else {
                throw new PayloadTooLargeException("'" + target + "' takes no payloads in segments: send less");
            }
        }

        /** Tries those again that had no room, all of them by turns, until the deadline. */
        Void await(List<String> targets) {
            List<String> waiting = new ArrayList<>(targets);
            long pause = FIRST_PAUSE_NANOS;
            while (!waiting.isEmpty()) {
                long left = deadline - System.nanoTime();
                boolean isLast = left <= 0 || context.awaitStop(Math.min(pause, left));
                waiting.removeIf(target -> tried(target, isLast));
                pause = Math.min(2 * pause, LONGEST_PAUSE_NANOS);
            }
            return null;
        }

        void failed(String target, String code, String why) {
            failed.put(target, code);
            context.stats.count(Counters.EVENTS_UNDELIVERED);
            lines.warn(LOG, "an event did not reach '{}': {}: {}", target, code, why);
        }
    }
}
