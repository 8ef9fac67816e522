package speed.internal.topics;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.ReentrantLock;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import speed.errors.AccessDeniedException;
import speed.errors.ApplicationException;
import speed.errors.CallTimeoutException;
import speed.errors.ConfigurationException;
import speed.errors.InvalidArgumentsException;
import speed.errors.NodeLeftException;
import speed.errors.SpeedException;
import speed.errors.UnknownNodeException;
import speed.internal.GuardedBy;
import speed.internal.wire.Require;
import speed.topics.Consumer;
import speed.topics.TopicMessage;

/** A consumer, which holds what it fetched ahead and has not handed out. */
final class HostedConsumer implements Consumer {
    private final TopicHost host;
    private final String subscription;
    private final String name;
    private final Map<String, Object> terms;
    private final int prefetch;
    /** Held by who receives. */
    private final ReentrantLock receiving = new ReentrantLock();

    @GuardedBy("receiving")
    private final Deque<TopicMessage> waiting = new ArrayDeque<>();
    /** The number of the last answer with messages that came. */
    @GuardedBy("receiving")
    private long got;
    /** How many of the first that wait the program may have now. */
    @GuardedBy("receiving")
    private int begun;
    /** How many it was to have at the last word of the host. */
    @GuardedBy("receiving")
    private int window = 1;
    /** Until when that counts. */
    @GuardedBy("receiving")
    private long freshUntil;
    /** What an acknowledgement told of the subscription last, which a seek makes another one; -1 since the host was asked. */
    private final AtomicLong acknowledgedEpoch = new AtomicLong(-1);
    /** Open until this is closed. */
    private final CountDownLatch closing = new CountDownLatch(1);

    /** Does not join yet. */
    HostedConsumer(TopicHost host, String subscription, String name, Map<String, Object> terms, int prefetch) {
        this.host = host;
        this.subscription = subscription;
        this.name = name;
        this.terms = terms;
        this.prefetch = prefetch;
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public String subscription() {
        return subscription;
    }

    private Map<String, Object> who() {
        Map<String, Object> who = new LinkedHashMap<>();
        who.put("subscription", subscription);
        who.put("consumer", name);
        return who;
    }

    // --- joining ---

    /** Waits so long for a host that is away; then throws what says so. */
    void joinWithin(Duration timeout) {
        receiving.lock();
        try {
            long ends = TopicHost.after(timeout);
            while (!TopicHost.until(ends).isZero()) {
                if (!isAway(this::join)) { // to join twice changes nothing
                    return;
                }
                if (paused()) {
                    break;
                }
            }
            join();
        } finally {
            receiving.unlock();
        }
    }

    @GuardedBy("receiving")
    private void join() {
        Map<String, Object> arguments = who();
        arguments.putAll(terms);
        host.ask("subscribe", arguments, Require.CALL_TIMEOUT);
        got = 0; // what was not handed out comes again
        begun = 0;
        waiting.clear();
    }

    /** False when the host is away. */
    @GuardedBy("receiving")
    private boolean joinAgain() {
        boolean isAway = true;
        try {
            isAway = isAway(this::join);
        } catch (AccessDeniedException denied) {
            // asking again tells
        }
        if (isClosing()) { // it may have joined after it left
            leave(List.of());
        }
        return !isAway;
    }

    /** Whether the host is away; what was asked may be asked again, then. */
    private static boolean isAway(Runnable ask) {
        try {
            ask.run();
            return false;
        } catch (UnknownNodeException | NodeLeftException | CallTimeoutException away) {
            return true;
        }
    }

    // --- receiving ---

    @Override
    public TopicMessage receive() throws InterruptedException {
        TopicMessage message = null;
        while (message == null && !isClosing()) {
            message = receive(Duration.ofDays(1));
        }
        return message;
    }

    @Override
    public TopicMessage receive(Duration timeout) throws InterruptedException {
        long ends = TopicHost.after(Require.timeout(timeout));
        receiving.lockInterruptibly();
        try {
            while (!isClosing()) {
                TopicMessage next = next();
                if (next == null) {
                    next = polled(ends);
                }
                if (next != null || TopicHost.until(ends).isZero()) {
                    return next;
                }
            }
            return null;
        } finally {
            receiving.unlock();
        }
    }

    /** The first message of an answer; null without one, after a moment at least while there is time. */
    @GuardedBy("receiving")
    private TopicMessage polled(long ends) throws InterruptedException {
        long moment = TopicHost.after(TopicHost.PAUSE);
        Duration left = TopicHost.until(ends);
        Duration wait = left.compareTo(TopicHost.WAIT) < 0 ? left : TopicHost.WAIT;
        boolean isFetching = waiting.isEmpty();
        boolean isThere = TopicHost.interruptibly(() -> isFetching ? fetch(wait) : begin());
        if (waiting.isEmpty()
                && (!isThere || !TopicHost.until(moment).isZero())
                && isFetching
                && !TopicHost.until(ends).isZero()) {
            closing.await(TopicHost.PAUSE.toMillis(), TimeUnit.MILLISECONDS);
        }
        return next();
    }

    /** The next one that the program may have; null if the host is to be asked. */
    @GuardedBy("receiving")
    private TopicMessage next() {
        long epoch = acknowledgedEpoch.get();
        if (begun == 0
                || TopicHost.until(freshUntil).isZero()
                || (epoch != -1 && epoch != waiting.peek().epoch())) {
            return null;
        }
        begun--;
        return waiting.poll();
    }

    /** Asks whether the program may have more of what is at hand: the host counts that; false when it is away. */
    @GuardedBy("receiving")
    private boolean begin() {
        window = begun > 0 ? 1 : Math.min(2 * window, TopicHost.MOST_BEGUN);
        int most = Math.max(window, begun);
        List<TopicMessage> some = waiting.stream().limit(most).toList();
        Map<String, Object> question = who();
        question.put("lane", some.get(0).lane());
        question.put("epoch", some.get(0).epoch());
        question.put("offsets", offsets(some.stream()));
        begun = 0;
        return askOrRejoin(() -> begun(host.ask("begin", question, TopicHost.GRACE), some));
    }

    /** What the host does not know any more is gone. */
    @GuardedBy("receiving")
    private void begun(TopicHost.Answer answer, List<TopicMessage> some) {
        acknowledgedEpoch.set(-1);
        if (!isOfSameTime(some.get(0), answer)) {
            waiting.clear();
            return;
        }
        Set<Long> offsets = new HashSet<>();
        for (long offset : answer.get("begun", long[].class)) {
            offsets.add(offset);
        }
        some.forEach(one -> waiting.poll());
        List<TopicMessage> kept =
                some.stream().filter(one -> offsets.contains(one.offset())).toList();
        for (int at = kept.size(); at > 0; at--) {
            waiting.addFirst(kept.get(at - 1));
        }
        hear(kept.size());
    }

    /** Whether no subscription began anew between a message and an answer. */
    private static boolean isOfSameTime(TopicMessage message, TopicHost.Answer answer) {
        return message.lane().equals(answer.get("lane", String.class))
                && message.epoch() == answer.get("epoch", Long.class);
    }

    @GuardedBy("receiving")
    private void hear(int count) {
        begun = count;
        freshUntil = TopicHost.after(TopicHost.FRESH);
    }

    /** Asks for messages; false when the host is away. */
    @GuardedBy("receiving")
    private boolean fetch(Duration wait) {
        return askOrRejoin(() -> take(host.ask("receive", question(wait), wait.plus(TopicHost.GRACE))));
    }

    /** Asks; joins again where the host does not know this consumer. False when it is away. */
    @GuardedBy("receiving")
    private boolean askOrRejoin(Runnable ask) {
        try {
            return !isAway(ask);
        } catch (ApplicationException error) {
            if (!error.code().equals("NOT_JOINED")) {
                throw error;
            }
            return isClosing() || joinAgain();
        }
    }

    @GuardedBy("receiving")
    private Map<String, Object> question(Duration wait) {
        Map<String, Object> arguments = who();
        arguments.put("most", prefetch);
        arguments.put("got", got);
        arguments.put("wait_ms", wait.toMillis());
        arguments.put("begin", 1);
        return arguments;
    }

    @GuardedBy("receiving")
    private void take(TopicHost.Answer answer) {
        List<TopicMessage> messages = host.messages(answer);
        got = answer.get("batch", Long.class);
        waiting.addAll(messages);
        window = 1;
        acknowledgedEpoch.set(-1);
        hear(Math.min(1, waiting.size()));
    }

    // --- settling ---

    @Override
    public long acknowledge(TopicMessage... messages) {
        List<TopicMessage> all = Stream.of(Require.value("messages", messages))
                .map(one -> Require.value("a message", one))
                .toList();
        if (all.isEmpty()) {
            throw new ConfigurationException("acknowledge messages, at least one");
        }
        all.forEach(this::checkTopic);
        return all.stream()
                .collect(Collectors.groupingBy(
                        one -> List.of(one.lane(), one.epoch()), LinkedHashMap::new, Collectors.toList()))
                .values()
                .stream()
                .mapToLong(some -> acknowledged(some.get(0), "offsets", offsets(some.stream())))
                .sum();
    }

    private void checkTopic(TopicMessage message) {
        if (!message.topic().equals(host.topic())) {
            throw new InvalidArgumentsException("this is a message of another topic, '" + message.topic() + "': '"
                    + host.topic() + "' is consumed here");
        }
    }

    @Override
    public long acknowledgeUntil(TopicMessage message) {
        checkTopic(Require.value("message", message));
        return acknowledged(message, "until", message.offset());
    }

    /** Settles messages that were given between two seeks, of which {@code first} is one. */
    private long acknowledged(TopicMessage first, String which, Object offsets) {
        Map<String, Object> arguments = new LinkedHashMap<>();
        arguments.put("subscription", subscription);
        arguments.put("lane", first.lane());
        arguments.put("epoch", first.epoch());
        arguments.put(which, offsets);
        TopicHost.Answer answer = host.ask("acknowledge", arguments, Require.CALL_TIMEOUT);
        acknowledgedEpoch.set(answer.get("epoch", Long.class));
        return answer.get("acknowledged", Long.class);
    }

    @Override
    public long reject(List<TopicMessage> messages, Duration delay) {
        Map<String, Object> arguments = who();
        arguments.put("offsets", offsets(Require.value("messages", messages).stream()));
        if (delay != null) {
            arguments.put("delay_ms", Require.timeout(delay).toMillis());
        }
        return host.ask("reject", arguments, Require.CALL_TIMEOUT).get("rejected", Long.class);
    }

    private static List<Long> offsets(Stream<TopicMessage> messages) {
        return messages.map(TopicMessage::offset).toList();
    }

    // --- its end ---

    private boolean isClosing() {
        return closing.getCount() == 0;
    }

    /** Waits a moment; true when this is closed, or the thread is interrupted. */
    private boolean paused() {
        try {
            return closing.await(TopicHost.PAUSE.toMillis(), TimeUnit.MILLISECONDS);
        } catch (InterruptedException hurry) {
            Thread.currentThread().interrupt();
            return true;
        }
    }

    @Override
    public void close() {
        boolean isFirst;
        synchronized (closing) {
            isFirst = !isClosing();
            closing.countDown();
        }
        if (!isFirst) {
            return;
        }
        if (!receiving.tryLock()) { // somebody waits for messages, so none is at hand: the host wakes it
            leave(List.of());
            return;
        }
        try {
            leave(offsets(waiting.stream()));
            waiting.clear();
        } finally {
            receiving.unlock();
        }
    }

    private void leave(List<Long> unseen) {
        Map<String, Object> arguments = who();
        arguments.put("unseen", unseen);
        try {
            host.ask("leave", arguments, TopicHost.GRACE);
        } catch (SpeedException away) {
            // as the comment of close says
        }
    }
}
