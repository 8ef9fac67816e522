package speed.internal.engine.deliver;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Collectors;
import speed.BatchHandler;
import speed.Message;
import speed.errors.SegmentStoreException;
import speed.errors.WireException;
import speed.internal.GuardedBy;
import speed.internal.core.Counters;
import speed.internal.core.LaneProgress.Token;
import speed.internal.core.Log;
import speed.internal.engine.Context;
import speed.internal.engine.LogLimiter;
import speed.internal.engine.MessageProtection;
import speed.internal.engine.lane.Arrival;
import speed.internal.engine.lane.Arrival.Lane;
import speed.internal.engine.threads.WorkerPool;
import speed.internal.wire.Fault;
import speed.internal.wire.Names;
import speed.internal.wire.Values;

/**
 * Messages and events handed over many at a time: what waits is one batch, a lone message does not wait.
 *
 * <p>A batch is acknowledged and committed after its handler returned: one commit a lane. One whose handler threw is
 * handed over again; the last time each of its messages is alone, so that one which cannot be handled takes no other one
 * with it. What fails then is given up as any message is. When the node leaves, what was not taken waits in its lanes for
 * the next start. Thread-safe; one batch at a time is handled.
 */
final class Batches {
    private static final Log LOG = new Log("speed.messages");
    private static final int BATCH_MESSAGES = 1024;
    private static final long BATCH_BYTES = 4 << 20;
    /** What counts the handler: no topic is called so. */
    private static final String BATCHES = "(batches)";

    private final Context context;
    private final WorkerPool pool;
    private final MessageProtection messages;
    private final LogLimiter lines;
    private final Failures failures;
    private final BatchHandler handler;
    private final List<String> patterns;

    @GuardedBy("this")
    private final Queue<Arrival> waiting = new ArrayDeque<>();

    @GuardedBy("this")
    private boolean running;

    /** One of a batch, as the handler may have it. */
    private record Opened(Arrival arrival, Message message) {}

    Batches(
            Context context,
            WorkerPool pool,
            MessageProtection messages,
            LogLimiter lines,
            Failures failures,
            BatchHandler handler,
            List<String> patterns) {
        this.context = context;
        this.failures = failures;
        this.lines = lines;
        this.messages = messages;
        this.pool = pool;
        this.handler = handler;
        this.patterns = patterns;
    }

    boolean takes(String topic) {
        return patterns.stream().anyMatch(pattern -> Names.matches(pattern, topic));
    }

    /** Has a message handled with those that wait. */
    void add(Arrival arrival) {
        synchronized (this) {
            waiting.add(arrival);
            if (running) {
                return;
            }
            running = true;
        }
        pool.submit(this::run);
    }

    /** Handles one batch, then queues the next behind other work. */
    private void run() {
        try {
            List<Opened> batch = opened(take());
            if (!batch.isEmpty()) {
                handle(batch);
            }
        } finally {
            goOn();
        }
    }

    private void goOn() {
        synchronized (this) {
            running = !waiting.isEmpty() && !context.state.isOver();
            if (!running) {
                return;
            }
        }
        pool.submit(this::run);
    }

    private synchronized List<Arrival> take() {
        List<Arrival> batch = new ArrayList<>();
        long size = 0;
        while (!waiting.isEmpty() && batch.size() < BATCH_MESSAGES && size < BATCH_BYTES) {
            Arrival arrival = waiting.remove();
            batch.add(arrival);
            size += arrival.received.header().envelopeBytes();
        }
        return batch;
    }

    /** Those that are not refused, as the handler may have them. */
    private List<Opened> opened(List<Arrival> batch) {
        List<Opened> opened = new ArrayList<>();
        for (Arrival arrival : batch) {
            Message message = opened(arrival);
            if (message != null && arrival.isEvent && !takes(message.topic())) {
                context.stats.count(Counters.EVENTS_UNSUBSCRIBED);
                arrival.finish();
            } else if (message != null) {
                opened.add(new Opened(arrival, message));
            }
        }
        return opened;
    }

    private Message opened(Arrival arrival) {
        arrival.begin();
        while (true) {
            try {
                if (!HandoverChecks.allows(context, lines, arrival)) {
                    arrival.finish();
                    return null;
                }
                return arrival.message(messages.open(arrival.content().view(), arrival.source()));
            } catch (SegmentStoreException broken) {
                arrival.finish(); // its sender was told
                return null;
            } catch (WireException refused) {
                if (!Failures.isForTheMoment(refused)) {
                    context.stats.count(Counters.MESSAGES_MALFORMED);
                    arrival.refuse("INVALID_ARGUMENTS", refused.getMessage());
                    arrival.finish();
                    return null;
                }
                context.stats.count(Counters.MESSAGES_WAITING_FOR_TRUST);
                if (context.state.isOver() || context.awaitStop(Failures.pause(arrival.failed()))) {
                    return null;
                }
            }
        }
    }

    /** Until it is taken, or each of its messages was alone at last. */
    private void handle(List<Opened> whole) {
        int most = context.options.maxDeliveries();
        Map<Boolean, List<Opened>> split =
                whole.stream().collect(Collectors.partitioningBy(one -> isTooOften(one.arrival)));
        split.get(true).forEach(one -> putAside(one.arrival, "its handling ended its process too often"));
        List<Opened> batch = split.get(false);
        int begun =
                batch.stream().mapToInt(one -> one.arrival.deliveries()).max().orElse(most);
        for (int attempt = begun; attempt < most; attempt++) {
            if (failure(batch) == null) {
                return;
            }
            pause(attempt);
            batch.forEach(one -> one.arrival.begin());
        }
        for (Opened one : batch) {
            String why = failure(List.of(one));
            if (why != null) {
                putAside(one.arrival, why);
            }
        }
    }

    private boolean isTooOften(Arrival arrival) {
        return arrival.received.redelivered()
                && !arrival.isDeadLetter()
                && arrival.deliveries() > context.options.maxDeliveries();
    }

    /** Why the handler did not take a batch; null if it did, or the node leaves. It waits for what is away. */
    private String failure(List<Opened> batch) {
        List<Message> messages = batch.stream().map(Opened::message).toList();
        for (int attempt = 1; !context.state.isOver(); attempt++) {
            Map<Integer, String> refused;
            try {
                refused = context.stats.handled(
                        BATCHES, batch.get(0).arrival.queuedNanos(), () -> handler.handle(messages));
            } catch (Throwable failure) { // whatever a handler throws, nothing of the batch is lost
                String why = failed(batch, failure);
                if (failure instanceof WireException away && Failures.isForTheMoment(away)) {
                    pause(attempt);
                    continue;
                }
                return why;
            }
            finish(batch, refused == null ? Map.of() : refused);
            return null;
        }
        return null;
    }

    /** Counts it and says why. */
    private String failed(List<Opened> batch, Throwable failure) {
        context.stats.count(Counters.BATCHES_FAILED);
        batch.forEach(one -> one.arrival.failed());
        String why = Fault.textOf(failure);
        lines.warn(LOG, "a batch of {} messages failed: {}", batch.size(), why);
        Thread.interrupted(); // an interrupt that the handler left behind would end a pause
        return Values.shortened(why);
    }

    private void pause(int attempt) {
        context.awaitStop(Failures.pause(attempt));
    }

    /** Gives a message up, as soon as there is room for that. */
    private void putAside(Arrival arrival, String why) {
        AtomicBoolean hasNoRoom = new AtomicBoolean(true);
        for (int attempt = 1; hasNoRoom.get() && !context.state.isOver(); attempt++) {
            hasNoRoom.set(false);
            failures.giveUp(arrival, why, () -> hasNoRoom.set(true));
            if (hasNoRoom.get()) {
                pause(attempt);
            }
        }
    }

    private void finish(List<Opened> batch, Map<Integer, String> refused) {
        Map<Lane, List<Token>> lanes = new HashMap<>();
        for (int place = 0; place < batch.size(); place++) {
            Arrival arrival = batch.get(place).arrival;
            answer(arrival, refused.get(place));
            lanes.computeIfAbsent(arrival.lane, lane -> new ArrayList<>()).add(arrival.received.token());
        }
        lanes.forEach(Lane::finish);
    }

    private void answer(Arrival arrival, String refusal) {
        if (refusal == null) {
            arrival.acknowledge(false);
            return;
        }
        context.stats.count(Counters.MESSAGES_REFUSED);
        arrival.refuse("EXECUTION_FAILED", Values.shortened(refusal));
    }
}
