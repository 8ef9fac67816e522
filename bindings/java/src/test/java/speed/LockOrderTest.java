package speed;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.management.LockInfo;
import java.lang.management.ManagementFactory;
import java.lang.management.MonitorInfo;
import java.lang.management.ThreadInfo;
import java.lang.management.ThreadMXBean;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import speed.options.SendOptions;

/**
 * Locks are taken in the order that the package-info of speed.internal.engine states. The virtual machine says which
 * monitors each thread holds, and which one it waits for, while nodes do everything at once.
 */
class LockOrderTest extends TwoNodes {
    /** Under this name stands the one lock that is no monitor: {@code OutgoingLink.lock}. */
    private static final String LINK = "speed.internal.engine.link.OutgoingLink";

    private static final List<String> ORDER = Stream.of(
                    "node.Runtime",
                    "engine.deliver.Delivery",
                    "node.Dispatch",
                    "engine.deliver.DeadLetterBox",
                    "engine.deliver.HeldPayloads",
                    "engine.link.OutgoingLink",
                    "engine.lane.InboundLane",
                    "fs.Registration",
                    "engine.threads.WorkerPool")
            .map(name -> "speed.internal." + name)
            .toList();
    /** What a thread owns that holds a {@code ReentrantLock}, or waits for it. */
    private static final String OWNED = "java.util.concurrent.locks.ReentrantLock$NonfairSync";
    /** Where a link takes its lock. */
    private static final Set<String> LOCKING =
            Set.of("sendNotice", "transmitAwake", "sync", "flush", "run", "meets", "rest", "stayAtRest", "end", "shut");
    /** Nothing is taken under these. */
    private static final Set<String> LAST = Set.of(
            "speed.internal.engine.lane.AcceptedRequest",
            "speed.internal.engine.link.GroupFlush",
            "speed.internal.engine.deliver.Batches",
            "speed.internal.fs.Bell$Ringer",
            "speed.internal.engine.LogLimiter",
            "speed.Cancellation",
            "speed.internal.core.LeastRecentlyUsed");

    private static final int LOOKS = 300;

    private final ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    private final AtomicBoolean ended = new AtomicBoolean();
    private final Set<String> wrong = new TreeSet<>();
    private final Set<String> seen = new TreeSet<>();

    @Test
    void everyThreadTakesItsLocksInTheStatedOrder() throws Exception {
        billing.register("echo", request -> request.arguments().get("data"));
        billing.onMessage(message -> {
            if (Long.valueOf(7).equals(message.payload())) {
                throw new IllegalStateException("a dead letter");
            }
        });
        billing.subscribe("orders.*", event -> {});
        analytics.segment("billing", 4096, 0);
        List<Thread> load = List.of(inThread(this::calls), inThread(this::messages), inThread(this::grants));
        for (int look = 0; look < LOOKS; look++) {
            for (ThreadInfo thread : threads.dumpAllThreads(true, true)) {
                check(thread);
            }
        }
        ended.set(true);
        for (Thread thread : load) {
            thread.join();
        }
        assertTrue(wrong.isEmpty(), wrong.toString());
        assertTrue(seen.contains(LINK) && seen.size() > 1, "too few locks were seen in anybody's hands: " + seen);
    }

    private static Thread inThread(Runnable work) {
        Thread thread = new Thread(work, "load");
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    private void calls() {
        while (!ended.get()) {
            List<CompletableFuture<Object>> calls = new ArrayList<>();
            for (int call = 0; call < 50; call++) {
                calls.add(analytics.submit("billing", "echo", Map.of("data", new byte[100 * call]), SOON));
            }
            calls.get(49).cancel(true);
            calls.forEach(call -> call.exceptionally(withdrawn -> null)
                    .orTimeout(60, TimeUnit.SECONDS)
                    .join());
        }
    }

    private void messages() {
        for (long n = 0; !ended.get(); n++) {
            analytics.send("billing", n % 500, SendOptions.DEFAULT.withTimeout(SOON));
            analytics.publish("orders.new", new byte[5_000]);
        }
    }

    private void grants() {
        while (!ended.get()) {
            billing.allow("etl.*");
            billing.deny("etl.*");
            billing.stats();
        }
    }

    /** A lock, and the frame that took it or waits for it: 0 for the innermost. */
    private record Taken(String lock, int depth) {}

    /** The locks of one thread, the outermost first, and the one that it waits for. */
    private void check(ThreadInfo thread) {
        List<Taken> taken = new ArrayList<>();
        for (MonitorInfo monitor : thread.getLockedMonitors()) {
            taken.add(new Taken(monitor.getClassName(), monitor.getLockedStackDepth()));
        }
        LockInfo awaited = thread.getLockInfo();
        if (thread.getThreadState() == Thread.State.BLOCKED) {
            taken.add(new Taken(awaited.getClassName(), 0));
        }
        boolean hasLink = Stream.concat(Stream.of(thread.getLockedSynchronizers()), Stream.ofNullable(awaited))
                .anyMatch(lock -> lock.getClassName().equals(OWNED));
        if (hasLink) {
            taken.addAll(link(thread.getStackTrace()));
        }
        List<String> held = taken.stream()
                .filter(one -> isKnown(one.lock))
                .sorted(Comparator.comparingInt(Taken::depth).reversed())
                .map(Taken::lock)
                .toList();
        seen.addAll(held);
        for (int place = 1; place < held.size(); place++) {
            if (rank(held.get(place - 1)) > rank(held.get(place))) {
                wrong.add(held.toString());
            }
        }
    }

    /** The machine does not say which lock an owned one is, nor where it was taken: the stack does. */
    private static List<Taken> link(StackTraceElement[] stack) {
        for (int depth = stack.length - 1; depth >= 0; depth--) {
            if (stack[depth].getClassName().equals(LINK) && LOCKING.contains(stack[depth].getMethodName())) {
                return List.of(new Taken(LINK, depth));
            }
        }
        return List.of();
    }

    private static boolean isKnown(String lock) {
        return rank(lock) >= 0;
    }

    private static int rank(String lock) {
        return LAST.contains(lock) ? ORDER.size() : ORDER.indexOf(lock);
    }
}
