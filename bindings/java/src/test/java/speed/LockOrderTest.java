package speed;

import static org.junit.jupiter.api.Assertions.assertTrue;

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

/**
 * Locks are taken in the order that the package-info of speed.runtime states. The virtual machine says which monitors each
 * thread holds, and which one it waits for, while nodes do everything at once.
 */
class LockOrderTest extends TwoNodes {
    private static final List<String> ORDER = Stream.of("Runtime", "Delivery", "Dispatch", "DeadLetterBox", "HeldPayloads",
            "InboundLane", "WorkerPool").map(name -> "speed.runtime." + name).toList();
    /** Nothing is taken under these. */
    private static final Set<String> LAST = Set.of("speed.runtime.Running", "speed.runtime.Batches", "speed.fs.Ringer",
            "speed.runtime.SomeLines", "speed.Cancellation");
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
        billing.subscribe("orders.*", event -> { });
        analytics.segment("billing", 4096, 0);
        List<Thread> load = List.of(inThread(this::calls), inThread(this::messages), inThread(this::grants));
        for (int look = 0; look < LOOKS; look++) {
            for (ThreadInfo thread : threads.dumpAllThreads(true, false)) {
                check(thread);
            }
        }
        ended.set(true);
        for (Thread thread : load) {
            thread.join();
        }
        assertTrue(wrong.isEmpty(), wrong.toString());
        assertTrue(!seen.isEmpty(), "no lock was seen in anybody's hands");
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
            calls.forEach(call -> call.exceptionally(withdrawn -> null).orTimeout(20, TimeUnit.SECONDS).join());
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

    /** The locks of one thread, the outermost first, and the one that it waits for. */
    private void check(ThreadInfo thread) {
        List<String> held = new ArrayList<>(Stream.of(thread.getLockedMonitors())
                .sorted(Comparator.comparingInt(MonitorInfo::getLockedStackDepth).reversed())
                .map(MonitorInfo::getClassName).filter(LockOrderTest::isKnown).toList());
        if (thread.getThreadState() == Thread.State.BLOCKED && isKnown(thread.getLockInfo().getClassName())) {
            held.add(thread.getLockInfo().getClassName());
        }
        seen.addAll(held);
        for (int place = 1; place < held.size(); place++) {
            if (rank(held.get(place - 1)) > rank(held.get(place))) {
                wrong.add(held.toString());
            }
        }
    }

    private static boolean isKnown(String lock) {
        return rank(lock) >= 0;
    }

    private static int rank(String lock) {
        return LAST.contains(lock) ? ORDER.size() : ORDER.indexOf(lock);
    }
}
