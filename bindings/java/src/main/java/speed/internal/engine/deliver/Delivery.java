package speed.internal.engine.deliver;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Consumer;
import java.util.stream.Stream;
import speed.BatchHandler;
import speed.Message;
import speed.errors.ConfigurationException;
import speed.errors.SegmentStoreException;
import speed.errors.SpeedException;
import speed.errors.WireException;
import speed.internal.core.Counters;
import speed.internal.core.Log;
import speed.internal.core.Work;
import speed.internal.engine.Context;
import speed.internal.engine.Context.Trace;
import speed.internal.engine.LogLimiter;
import speed.internal.engine.MessageProtection;
import speed.internal.engine.lane.Arrival;
import speed.internal.engine.threads.WorkerPool;
import speed.internal.engine.threads.WorkerPool.Job;
import speed.internal.wire.Fault;
import speed.internal.wire.Names;
import speed.internal.wire.Values;

/**
 * Received messages and events on their way to handlers and {@code receive}. Who is handled next is
 * the {@link WorkerPool}'s affair. What nothing in the program takes yet waits, uncommitted, until something does.
 * Thread-safe.
 */
public final class Delivery implements Arrival.Handler {
    private static final Log LOG = new Log("speed.messages");

    /** What counts the handler of messages: no topic is called so. */
    private static final String MESSAGES = "(messages)";

    private record Subscription(String pattern, Consumer<Message> handler, boolean isShared) {}

    /** What a node subscribes to, and what of it is shared, for its entry. */
    public record Patterns(List<String> all, List<String> shared) {}

    private final Context context;
    private final WorkerPool pool;
    private final MessageProtection messages;
    private final Failures failures;
    private final LogLimiter lines;
    private final List<Subscription> subscriptions = new CopyOnWriteArrayList<>();
    /** What each thread of the program fetched last. */
    private final Map<Thread, Arrival> inHand = new ConcurrentHashMap<>();

    private volatile Consumer<Message> handler;
    private volatile Batches batches;

    public Delivery(Context context, WorkerPool pool, MessageProtection messages, Failures failures, LogLimiter lines) {
        this.context = context;
        this.messages = messages;
        this.pool = pool;
        this.failures = failures;
        this.lines = lines;
    }

    // --- what the program asks for ---

    /** Handles messages by a handler; those that already wait are handled first. */
    public synchronized void onMessage(Consumer<Message> newHandler) {
        if (newHandler == null) {
            throw new ConfigurationException("the message handler is null: give what it does");
        }
        if (handler != null) {
            throw new ConfigurationException("this node already has a message handler");
        }
        checkNoBatches();
        handler = newHandler;
        pool.claim(this::takes);
    }

    /** Adds a subscription; returns all patterns. */
    public synchronized Patterns subscribe(String pattern, Consumer<Message> eventHandler, boolean isShared) {
        if (eventHandler == null) {
            throw new ConfigurationException("the handler of '" + pattern + "' is null: give what it does");
        }
        checkNoBatches();
        if (subscriptions.stream().anyMatch(one -> one.pattern.equals(pattern) && one.isShared != isShared)) {
            throw new ConfigurationException(
                    "'" + pattern + "' is subscribed to both shared and not: choose one of them");
        }
        subscriptions.add(new Subscription(Names.checkTopicPattern(pattern), eventHandler, isShared));
        pool.claim(this::takes);
        return new Patterns(
                patterns(subscriptions.stream()),
                patterns(subscriptions.stream().filter(Subscription::isShared)));
    }

    private static List<String> patterns(Stream<Subscription> subscriptions) {
        return subscriptions.map(Subscription::pattern).distinct().toList();
    }

    /** Hands over all messages, and events of these patterns, in batches; returns the patterns. */
    public synchronized List<String> onBatch(BatchHandler newHandler, List<String> patterns) {
        patterns.forEach(Names::checkTopicPattern);
        if (handler != null || !subscriptions.isEmpty() || batches != null) {
            throw new ConfigurationException("this node already has a handler: one for batches is the only one");
        }
        batches = new Batches(context, pool, messages, lines, failures, newHandler, patterns);
        pool.claim(this::takes);
        return patterns;
    }

    private void checkNoBatches() {
        if (batches != null) {
            throw new ConfigurationException("this node already has a handler for batches, which is the only one");
        }
    }

    /** Whether something in the program takes it; of an event that was not put together yet, whether something may. */
    private boolean takes(Job job) {
        Arrival arrival = (Arrival) job;
        Batches many = batches;
        if (!arrival.isEvent) {
            return handler != null || many != null;
        }
        String topic = arrival.topic();
        if (many != null) {
            return topic == null || many.takes(topic);
        }
        return topic == null
                ? !subscriptions.isEmpty()
                : subscriptions.stream().anyMatch(one -> Names.matches(one.pattern, topic));
    }

    // --- what the thread that reads lanes brings ---

    /**
     * Queues one.
     *
     * @param order what it is handled in the order of: its sender, usually
     */
    public void arrive(Arrival arrival, Object order) {
        context.stats.count(Counters.MESSAGES_RECEIVED);
        WorkerPool.Place place =
                pool.message(arrival.source(), arrival, arrival.priority(), order, arrival.isEvent, this::takes);
        if (place == WorkerPool.Place.UNCLAIMED && !arrival.isEvent) {
            arrival.acknowledge(true);
        }
    }

    /** Nothing took an event in time. */
    public void unclaimed(Arrival event) {
        context.stats.count(Counters.EVENTS_UNSUBSCRIBED);
        lines.warn(LOG, "an event of {} went by: nothing here subscribes to it", event.source());
        event.acknowledge(false);
        event.finish();
    }

    // --- handlers ---

    /** Handles one; what fails is tried again, kept or dropped. */
    @Override
    public void handle(Arrival arrival, Work<Job> work) {
        Batches many = batches;
        if (many != null) {
            many.add(arrival);
            return;
        }
        Message message = begun(arrival, work);
        if (message == null) {
            return;
        }
        try {
            Trace.under(message.traceparent(), () -> call(arrival, message));
        } catch (Throwable failure) { // whatever a handler throws, its sender is told and the worker goes on
            context.stats.count(Counters.HANDLER_FAILURES);
            LOG.error("handler failed for a message of {}", message.source(), failure);
            failures.handlerFailed(arrival, work, text(failure));
            return;
        }
        arrival.acknowledge(false);
        message.done();
    }

    /** The message as the program may have it; null if it must not, now or ever. */
    private Message begun(Arrival arrival, Work<Job> work) {
        return begun(arrival, () -> failures.again(arrival, work));
    }

    private Message begun(Arrival arrival, Runnable later) {
        if (!isToBeHanded(arrival)) {
            return null;
        }
        int most = context.options.maxDeliveries();
        if (arrival.begin() > most && arrival.received.redelivered()) {
            failures.giveUp(arrival, "it was begun " + most + " times, and its process ended each time", later);
            return null;
        }
        try {
            return arrival.message(messages.open(arrival.content().view(), arrival.source()));
        } catch (WireException refused) {
            if (Failures.isForTheMoment(refused)) {
                context.stats.count(Counters.MESSAGES_WAITING_FOR_TRUST);
                arrival.unbegin();
                later.run();
                return null;
            }
            context.stats.count(Counters.MESSAGES_MALFORMED);
            arrival.refuse("INVALID_ARGUMENTS", refused.getMessage());
            arrival.finish();
            return null;
        }
    }

    /** Puts it together, if it came in segments; where that fails, or the program may not have it, its sender was told. */
    private boolean isToBeHanded(Arrival arrival) {
        try {
            if (HandoverChecks.allows(context, lines, arrival)) {
                return true;
            }
        } catch (WireException | SegmentStoreException broken) {
            lines.warn(LOG, "a payload in segments of {} was rejected: {}", arrival.source(), broken.getMessage());
        }
        arrival.finish();
        return false;
    }

    private static String text(Throwable failure) {
        if (failure instanceof SpeedException known) {
            return Values.shortened(known.getMessage());
        }
        return Values.shortened(Fault.textOf(failure));
    }

    private void call(Arrival arrival, Message message) {
        long queued = arrival.queuedNanos();
        if (!arrival.isEvent) {
            call(MESSAGES, queued, handler, message);
            return;
        }
        List<Subscription> matching = subscriptions.stream()
                .filter(subscription -> Names.matches(subscription.pattern, message.topic()))
                .toList();
        if (matching.isEmpty()) {
            context.stats.count(Counters.EVENTS_UNSUBSCRIBED);
        }
        matching.forEach(subscription -> call(subscription.pattern, queued, subscription.handler, message));
    }

    private void call(String name, long queued, Consumer<Message> one, Message message) {
        context.stats.handled(name, queued, () -> {
            one.accept(message);
            return null;
        });
    }

    // --- receive ---

    /** The next message, or null after the timeout; finishes the message that this thread fetched before. */
    public Message receive(Duration timeout) throws InterruptedException {
        long deadline = System.nanoTime() + timeout.toNanos();
        finish(inHand.remove(Thread.currentThread()));
        while (true) {
            Work<Job> work = pool.receive(deadline);
            if (work == null) {
                context.checkOpen();
                return null;
            }
            Arrival arrival = (Arrival) work.item;
            Message message = fetched(arrival, work, deadline);
            boolean waits = message == null && !arrival.isFinished();
            if (message != null || waits && System.nanoTime() - deadline >= 0) {
                return message;
            }
        }
    }

    private Message fetched(Arrival arrival, Work<Job> work, long deadline) {
        arrival.onFinish(() -> pool.finished(work));
        Message message = begun(arrival, () -> putBack(arrival, work, deadline));
        if (message != null) {
            inHand.put(Thread.currentThread(), arrival);
        }
        return message;
    }

    /** It is fetched again, after a pause: others of its sender wait for it. */
    private void putBack(Arrival arrival, Work<Job> work, long deadline) {
        pool.putBack(work);
        context.awaitStop(Math.min(Failures.pause(arrival.failed()), Math.max(1, deadline - System.nanoTime())));
    }

    private static void finish(Arrival arrival) {
        if (arrival != null) {
            arrival.finish();
        }
    }

    /** What threads of the program fetched last counts as handled. */
    public void finishInHand() {
        inHand.keySet().forEach(thread -> finish(inHand.remove(thread)));
    }
}
