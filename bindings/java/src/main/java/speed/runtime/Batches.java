package speed.runtime;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import speed.BatchHandler;
import speed.Message;
import speed.core.Token;
import speed.errors.WireException;
import speed.wire.Names;

/**
 * Messages and events handed over many at a time: what waits is one batch, a lone message does not wait (L-15).
 *
 * <p>A batch is acknowledged and committed after its handler returned: one commit a lane. One whose handler threw is
 * handed over again, until the handler takes it or the node leaves; then it waits in its lanes for the next start.
 * Thread-safe; one batch at a time is handled.
 */
final class Batches {
    private static final Logger LOG = LoggerFactory.getLogger("speed.messages");
    private static final int BATCH_MESSAGES = 1024;
    private static final long BATCH_BYTES = 4 << 20;
    /** Pause before a batch is handed over again. */
    private static final long AGAIN_NANOS = 250_000_000;
    private static final int MAX_ERROR_CHARACTERS = 2000;

    private final Context context;
    private final WorkerPool pool;
    private final Protected messages;
    private final BatchHandler handler;
    private final List<String> patterns;
    private final Queue<Arrival> waiting = new ArrayDeque<>();
    private boolean running;
    private volatile boolean leaving;

    Batches(Context context, WorkerPool pool, Protected messages, BatchHandler handler, List<String> patterns) {
        this.context = context;
        this.messages = messages;
        this.pool = pool;
        this.handler = handler;
        this.patterns = patterns;
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

    /** The node leaves: a batch that was not taken is not tried again. */
    void leave() {
        leaving = true;
    }

    /** Handles one batch, then queues the next behind other work. */
    private void run() {
        pool.enter();
        try {
            List<Arrival> batch = opened(take());
            if (!batch.isEmpty()) {
                handle(batch);
            }
        } finally {
            goOn();
        }
    }

    private void goOn() {
        synchronized (this) {
            running = !waiting.isEmpty() && !leaving;
            if (!running) {
                return;
            }
        }
        pool.submit(this::run);
    }

    private List<Arrival> take() {
        List<Arrival> batch = new ArrayList<>();
        List<Arrival> unwanted = new ArrayList<>();
        synchronized (this) {
            long size = 0;
            while (!waiting.isEmpty() && batch.size() < BATCH_MESSAGES && size < BATCH_BYTES) {
                Arrival arrival = waiting.remove();
                (isWanted(arrival) ? batch : unwanted).add(arrival);
                size += arrival.token() == null ? 0 : arrival.token().bytes();
            }
        }
        for (Arrival arrival : unwanted) {
            context.stats.count("events_unsubscribed");
            arrival.message().done();
        }
        return batch;
    }

    /** Those that are not refused, as the handler may have them (M-18). */
    private List<Arrival> opened(List<Arrival> batch) {
        List<Arrival> opened = new ArrayList<>();
        for (Arrival arrival : batch) {
            try {
                opened.add(arrival.with(messages.open(arrival.message())));
            } catch (WireException refused) {
                context.stats.count("messages_malformed");
                arrival.refuse().accept("INVALID_ARGUMENTS", refused.getMessage());
                arrival.message().done();
            }
        }
        return opened;
    }

    private boolean isWanted(Arrival arrival) {
        String topic = arrival.message().topic();
        return !arrival.isEvent() || patterns.stream().anyMatch(pattern -> Names.matches(pattern, topic));
    }

    private void handle(List<Arrival> batch) {
        List<Message> messages = batch.stream().map(Arrival::message).toList();
        String said = "";
        while (!leaving && !context.isStopping()) {
            Map<Integer, String> refused;
            try {
                refused = handler.handle(messages);
            } catch (Throwable failure) { // whatever a handler throws, nothing of the batch is lost
                said = failed(batch.size(), String.valueOf(failure), said);
                continue;
            }
            finish(batch, refused == null ? Map.of() : refused);
            return;
        }
    }

    /** Says why, once, and pauses. */
    private String failed(int messages, String why, String said) {
        context.stats.count("batches_failed");
        if (!said.equals(why)) {
            LOG.warn("a batch of {} messages was not taken, it is tried again: {}", messages, why);
        }
        Thread.interrupted(); // an interrupt that the handler left behind would end the pause
        context.awaitStop(AGAIN_NANOS);
        return why;
    }

    private void finish(List<Arrival> batch, Map<Integer, String> refused) {
        Map<Lane, List<Token>> lanes = new HashMap<>();
        for (int place = 0; place < batch.size(); place++) {
            Arrival arrival = batch.get(place);
            answer(arrival, refused.get(place));
            if (arrival.lane() == null) {
                arrival.message().done();
            } else {
                lanes.computeIfAbsent(arrival.lane(), lane -> new ArrayList<>()).add(arrival.token());
            }
        }
        lanes.forEach(Lane::finish);
    }

    private void answer(Arrival arrival, String refusal) {
        if (refusal == null) {
            arrival.acknowledge().run();
            return;
        }
        context.stats.count("messages_refused");
        String text = refusal.substring(0, Math.min(refusal.length(), MAX_ERROR_CHARACTERS));
        arrival.refuse().accept("EXECUTION_FAILED", text);
    }
}
