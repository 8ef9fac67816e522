package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.jdi.Bootstrap;
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
        CompletableFuture<Object> call =
                analytics.submit("billing", "sequence", Map.of("n", 1), Duration.ofSeconds(10));
        MethodEntryEvent held = holdStart();
        CompletionException late = assertThrows(CompletionException.class, call::join);
        assertEquals(CallTimeoutException.class, late.getCause().getClass());
        awaitQueued();
        held.thread().resume();
        assertEquals(List.of(), analytics.call("billing", "sequence_seen", Map.of(), Duration.ofMillis(SOON_MS)));
    }

    /** Returns when the server has said that the request is queued, perhaps too late for its caller. */
    private void awaitQueued() {
        long until = System.nanoTime() + SOON_MS * 1_000_000;
        while (!((Map<?, ?>) analytics.stats("billing").get("counters")).containsKey("requests_timed_out_queued")) {
            assertTrue(System.nanoTime() < until, "it was not answered as queued");
        }
    }

    /** Returns when the only worker is about to say that the request begins; it stays there. */
    private MethodEntryEvent holdStart() throws InterruptedException {
        while (true) {
            EventSet events = server.eventQueue().remove(SOON_MS);
            assertNotNull(events, "no request was started");
            for (Event event : events) {
                if (event instanceof MethodEntryEvent held
                        && held.method().name().equals("begin")) {
                    held.request().disable(); // other threads are not to be held
                    return held;
                }
            }
            events.resume();
        }
    }
}
