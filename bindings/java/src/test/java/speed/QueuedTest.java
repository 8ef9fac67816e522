package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.jdi.Bootstrap;
import com.sun.jdi.ThreadReference;
import com.sun.jdi.VirtualMachine;
import com.sun.jdi.connect.Connector;
import com.sun.jdi.connect.LaunchingConnector;
import com.sun.jdi.event.Event;
import com.sun.jdi.event.EventSet;
import com.sun.jdi.event.MethodEntryEvent;
import com.sun.jdi.request.EventRequest;
import com.sun.jdi.request.MethodEntryRequest;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import speed.errors.CallTimeoutException;
import speed.tool.Agent;
import speed.tool.BenchRoot;

/** S-4, S-8: a request that is answered with phase queued never runs. A debugger holds the worker just before it starts. */
@Timeout(300)
class QueuedTest {
    private static final long SOON_MS = 90_000;

    private BenchRoot root;
    private Node analytics;
    private VirtualMachine server;

    @BeforeEach
    void open() throws Exception {
        root = new BenchRoot(null);
        analytics = root.node("analytics", "billing");
        LaunchingConnector launcher = Bootstrap.virtualMachineManager().defaultConnector();
        Map<String, Connector.Argument> arguments = launcher.defaultArguments();
        arguments.get("options").setValue("-XX:+UseSerialGC -cp " + System.getProperty("java.class.path"));
        arguments
                .get("main")
                .setValue(String.join(
                        " ",
                        Agent.class.getName(),
                        "--name",
                        "billing",
                        "--workers",
                        "1",
                        "--root",
                        root.path().toString(),
                        "--key",
                        root.path().resolve("speed.key").toString(),
                        "--allow",
                        "analytics"));
        server = launcher.launch(arguments);
    }

    @AfterEach
    void close() throws IOException {
        server.process().destroyForcibly();
        analytics.close();
        root.close();
    }

    @Test
    void aRequestWhoseDeadlinePassesWhileAWorkerIsAboutToStartItGetsATrueReply() throws Exception {
        MethodEntryRequest begins = server.eventRequestManager().createMethodEntryRequest();
        begins.addClassFilter("speed.internal.engine.lane.AcceptedRequest");
        begins.setSuspendPolicy(EventRequest.SUSPEND_EVENT_THREAD);
        begins.enable();
        server.resume();
        analytics.waitFor("billing", Duration.ofMillis(SOON_MS));
        Held held = held();
        long before = timedOut();
        CompletableFuture<Object> call = held.call;
        CompletionException late = assertThrows(CompletionException.class, call::join);
        assertEquals(CallTimeoutException.class, late.getCause().getClass());
        awaitQueued(before);
        held.worker.resume();
        assertEquals(List.of(), analytics.call("billing", "sequence_seen", Map.of(), Duration.ofMillis(SOON_MS)));
    }

    private record Held(CompletableFuture<Object> call, ThreadReference worker) {}

    /** A request that a worker is about to start. On a busy machine the deadline of one may pass before that. */
    private Held held() throws InterruptedException {
        for (long seconds = 5; seconds * 1000 < SOON_MS; seconds *= 2) {
            CompletableFuture<Object> call =
                    analytics.submit("billing", "sequence", Map.of("n", 1), Duration.ofSeconds(seconds));
            ThreadReference worker = startWithin(seconds * 1000);
            if (worker != null) {
                return new Held(call, worker);
            }
        }
        throw new AssertionError("no request was started");
    }

    private long timedOut() {
        Map<?, ?> counters = (Map<?, ?>) analytics.stats("billing").get("counters");
        return counters.get("requests_timed_out_queued") instanceof Long counted ? counted : 0;
    }

    /** Returns when the server has said that one more request is queued, perhaps too late for its caller. */
    private void awaitQueued(long before) {
        long until = System.nanoTime() + SOON_MS * 1_000_000;
        while (timedOut() == before) {
            assertTrue(System.nanoTime() < until, "it was not answered as queued");
        }
    }

    /** The only worker when it is about to say that a request begins, where it stays; null if that is not so in time. */
    private ThreadReference startWithin(long milliseconds) throws InterruptedException {
        long until = System.nanoTime() + milliseconds * 1_000_000;
        for (long left = milliseconds; left > 0; left = (until - System.nanoTime()) / 1_000_000) {
            EventSet events = server.eventQueue().remove(left);
            if (events == null) {
                return null;
            }
            for (Event event : events) {
                if (event instanceof MethodEntryEvent held
                        && held.method().name().equals("begin")) {
                    held.request().disable(); // other threads are not to be held
                    return held.thread();
                }
            }
            events.resume();
        }
        return null;
    }
}
