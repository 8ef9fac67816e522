package speed.runtime;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import speed.BatchHandler;
import speed.Message;
import speed.core.ByPriority;
import speed.core.SenderHeads;
import speed.core.SenderOrder;
import speed.errors.ConfigurationException;
import speed.errors.SpeedException;
import speed.errors.WireException;
import speed.wire.Names;

/**
 * Received messages and events on their way to handlers and {@code receive} (S-5). Those of one sender are handled one
 * after the other, different senders side by side, the more urgent first when workers are few (M-33). Without a message
 * handler, messages wait for {@code receive}: acknowledged, and committed only when done. Thread-safe.
 */
public final class Delivery {
    private static final Logger LOG = LoggerFactory.getLogger("speed.messages");
    private static final int MAX_ERROR_CHARACTERS = 2000;

    private record Subscription(String pattern, Consumer<Message> handler) {}

    private final Context context;
    private final WorkerPool pool;
    private final Protected messages;
    private final SenderOrder<Arrival> order = new SenderOrder<>();
    private final ByPriority<Arrival> runnable = new ByPriority<>();
    private final List<Subscription> subscriptions = new CopyOnWriteArrayList<>();
    private final SenderHeads<Message> received = new SenderHeads<>();
    private volatile Consumer<Message> handler;
    private Batches batches;
    private Message inHand;

    Delivery(Context context, WorkerPool pool, Protected messages) {
        this.context = context;
        this.messages = messages;
        this.pool = pool;
    }

    // --- what the program asks for ---

    /** Handles messages by a handler; those that already wait are handled first. */
    public void onMessage(Consumer<Message> newHandler) {
        pool.serve();
        synchronized (this) {
            if (handler != null) {
                throw new ConfigurationException("this node already has a message handler");
            }
            checkNoBatches();
            handler = newHandler;
            while (!received.isEmpty()) {
                enqueue(Arrival.waited(received.pop()));
            }
        }
    }

    /** Adds a subscription; returns all patterns, for the published entry. */
    public synchronized List<String> subscribe(String pattern, Consumer<Message> eventHandler) {
        pool.serve();
        checkNoBatches();
        subscriptions.add(new Subscription(Names.checkTopicPattern(pattern), eventHandler));
        return subscriptions.stream().map(Subscription::pattern).distinct().toList();
    }

    /** Hands over all messages, and events of these patterns, in batches; returns the patterns. */
    public List<String> onBatch(BatchHandler newHandler, List<String> patterns) {
        pool.serve();
        patterns.forEach(Names::checkTopicPattern);
        synchronized (this) {
            if (handler != null || !subscriptions.isEmpty() || batches != null) {
                throw new ConfigurationException("this node already has a handler: one for batches is the only one");
            }
            batches = new Batches(context, pool, messages, newHandler, patterns);
            while (!received.isEmpty()) {
                batches.add(Arrival.waited(received.pop()));
            }
        }
        return patterns;
    }

    private void checkNoBatches() {
        if (batches != null) {
            throw new ConfigurationException("this node already has a handler for batches, which is the only one");
        }
    }

    /** The next message, or null after the timeout; finishes the message returned before. */
    public Message receive(Duration timeout) throws InterruptedException {
        pool.serve();
        long deadline = System.nanoTime() + timeout.toNanos();
        while (true) {
            finishInHand();
            Message next = next(deadline);
            try {
                return next == null ? null : messages.open(next);
            } catch (WireException refused) {
                context.stats.count("messages_malformed");
            }
        }
    }

    private Message next(long deadline) throws InterruptedException {
        synchronized (this) {
            while (received.isEmpty()) {
                context.checkOpen();
                long left = deadline - System.nanoTime();
                if (left <= 0) {
                    return null;
                }
                TimeUnit.NANOSECONDS.timedWait(this, left);
            }
            inHand = received.pop();
            return inHand;
        }
    }

    /** What {@code receive} returned last counts as handled. */
    public void finishInHand() {
        Message finished;
        synchronized (this) {
            finished = inHand;
            inHand = null;
        }
        if (finished != null) {
            finished.done();
        }
    }

    /** The node leaves: a batch that was not taken is not tried again. */
    synchronized void leave() {
        if (batches != null) {
            batches.leave();
        }
    }

    synchronized void wakeReceivers() {
        notifyAll();
    }

    // --- what the protocol thread brings ---

    void arrive(Arrival arrival) {
        synchronized (this) {
            if (batches != null) {
                batches.add(arrival);
                return;
            }
            if (!arrival.isEvent() && handler == null) {
                received.push(arrival.message().source(), arrival.message().view().priority(), arrival.message());
                notifyAll();
            } else {
                enqueue(arrival);
                return;
            }
        }
        arrival.acknowledge().run();
    }

    private void enqueue(Arrival arrival) {
        if (order.push(arrival.message().source(), arrival)) {
            submit(arrival);
        }
    }

    private void submit(Arrival arrival) {
        synchronized (runnable) {
            runnable.push(arrival.message().view().priority(), arrival);
        }
        pool.submit(this::run);
    }

    /** Handles the most urgent message, then queues its sender's next behind other work: no sender starves others. */
    private void run() {
        Arrival arrival = mostUrgent();
        try {
            pool.enter();
            Trace.under(arrival.message().traceparent(), () -> handle(arrival));
        } finally {
            Arrival following = order.done(arrival.message().source());
            if (following != null) {
                submit(following);
            }
        }
    }

    private Arrival mostUrgent() {
        synchronized (runnable) {
            return runnable.pop();
        }
    }

    private void handle(Arrival arrival) {
        Message message = arrival.message();
        try {
            callHandlers(arrival);
            arrival.acknowledge().run();
        } catch (WireException malformed) {
            context.stats.count("messages_malformed");
            arrival.refuse().accept("INVALID_ARGUMENTS", malformed.getMessage());
        } catch (Throwable failure) { // whatever a handler throws, its sender is told and the worker goes on
            context.stats.count("handler_failures");
            LOG.error("handler failed for a message of {}", message.source(), failure);
            arrival.refuse().accept("EXECUTION_FAILED", text(failure));
        } finally {
            message.done();
        }
    }

    private static String text(Throwable failure) {
        String text = failure instanceof SpeedException ? String.valueOf(failure.getMessage())
                : failure.getClass().getSimpleName() + ": " + failure.getMessage();
        return text.substring(0, Math.min(text.length(), MAX_ERROR_CHARACTERS));
    }

    private void callHandlers(Arrival arrival) {
        Message message = messages.open(arrival.message());
        if (!arrival.isEvent()) {
            handler.accept(message);
            return;
        }
        List<Subscription> matching = subscriptions.stream()
                .filter(subscription -> Names.matches(subscription.pattern, message.topic())).toList();
        if (matching.isEmpty()) {
            context.stats.count("events_unsubscribed");
        }
        matching.forEach(subscription -> subscription.handler.accept(message));
    }
}
