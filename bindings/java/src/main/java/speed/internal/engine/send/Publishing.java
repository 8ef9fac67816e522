package speed.internal.engine.send;

import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Iterator;
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
    private final Turns turns = new Turns();

    public Publishing(Context context, Links links, LargeSender large, WorkerPool pool) {
        this.context = context;
        this.links = links;
        this.large = large;
        this.pool = pool;
    }

    /** Sends an event to every node that subscribes to it and allows this one. */
    Published publish(String topic, byte[] event, SendOptions options) {
        Round round = new Round(event, options);
        List<Recipient> waiting = recipients(topic, round);
        waiting.removeIf(one -> round.settled(one, options.dropIfFull()));
        if (!waiting.isEmpty()) {
            pool.blocking(() -> round.await(waiting));
        }
        return new Published(round.delivered.stream().sorted().toList(), Collections.unmodifiableMap(round.failed));
    }

    /** One node, or of a family those of which one gets the event; who is found unable is taken out. */
    private record Recipient(String family, List<String> able) {}

    /** Those who want it and allow this node; of the others the round hears. */
    private List<Recipient> recipients(String topic, Round round) {
        List<Recipient> found = new ArrayList<>();
        Map<String, List<String>> families = new TreeMap<>();
        Map<String, String> denied = new TreeMap<>();
        for (Entry entry : context.registry.liveEntries()) {
            List<String> covering = covering(entry, topic);
            if (covering.isEmpty()) {
                continue;
            }
            String family = entry.published().shared().containsAll(covering) ? Names.familyOf(entry.name()) : "";
            if (!context.isGrantedBy(entry)) {
                if (!entry.isStarting()) { // that one has not said yet whom it allows
                    denied.put(entry.name(), family);
                }
            } else if (family.isEmpty()) {
                found.add(new Recipient("", new ArrayList<>(List.of(entry.name()))));
            } else {
                families.computeIfAbsent(family, name -> new ArrayList<>()).add(entry.name());
            }
        }
        denied.forEach((name, family) -> {
            if (!families.containsKey(family)) {
                round.failed(name, "ACCESS_DENIED", "it does not allow '" + context.name() + "'");
            }
        });
        families.forEach((family, able) -> found.add(new Recipient(family, turns.ordered(family, able))));
        return found;
    }

    private List<String> covering(Entry entry, String topic) {
        if (entry.name().equals(context.name()) || entry.isLeaving()) {
            return List.of();
        }
        return entry.subscriptions().stream()
                .filter(pattern -> Names.matches(pattern, topic))
                .toList();
    }

    /** Who of each family got the last event that its nodes share. Thread-safe. */
    private static final class Turns {
        private static final int MAX_FAMILIES = 1024;

        private final Map<String, String> last = new HashMap<>();

        /** Those behind the last one by name, then the others. */
        synchronized List<String> ordered(String family, List<String> able) {
            String before = last.getOrDefault(family, "");
            List<String> ordered = new ArrayList<>(able);
            ordered.sort(Comparator.comparing((String name) -> name.compareTo(before) <= 0)
                    .thenComparing(Comparator.naturalOrder()));
            return ordered;
        }

        synchronized void took(String family, String name) {
            if (last.size() >= MAX_FAMILIES && !last.containsKey(family)) {
                last.clear(); // they begin anew
            }
            last.put(family, name);
        }
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

        /** Without waiting for room; whether one got it, none can, or it is the last try. */
        boolean settled(Recipient one, boolean isLast) {
            Map<String, SpeedException> errors = new TreeMap<>();
            for (Iterator<String> able = one.able.iterator(); able.hasNext(); ) {
                String target = able.next();
                try {
                    send(target);
                    delivered.add(target);
                    if (!one.family.isEmpty()) {
                        turns.took(one.family, target);
                    }
                    return true;
                } catch (InboxFullException full) {
                    errors.put(target, full);
                } catch (SpeedException error) {
                    errors.put(target, error);
                    able.remove();
                }
            }
            boolean isOver = isLast || one.able.isEmpty();
            if (isOver) {
                errors.forEach((target, error) -> failed(target, error.code(), error.getMessage()));
            }
            return isOver;
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
        Void await(List<Recipient> recipients) {
            List<Recipient> waiting = new ArrayList<>(recipients);
            long pause = FIRST_PAUSE_NANOS;
            while (!waiting.isEmpty()) {
                long left = deadline - System.nanoTime();
                boolean isLast = left <= 0 || context.awaitStop(Math.min(pause, left));
                waiting.removeIf(one -> settled(one, isLast));
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
