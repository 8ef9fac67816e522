package speed;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.time.Duration;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Timeout;
import speed.errors.CallTimeoutException;
import speed.tool.BenchRoot;

/** Two nodes of one root that allow each other, with real files. */
@Timeout(300)
abstract class TwoNodes {
    static final Duration SOON = Duration.ofSeconds(60);

    BenchRoot root;
    Node billing;
    Node analytics;

    @BeforeEach
    void open() throws IOException {
        root = new BenchRoot(null);
        billing = root.node("billing", "analytics");
        analytics = root.node("analytics", "billing");
    }

    @AfterEach
    void close() throws IOException {
        Thread.interrupted(); // what a test that failed left behind is not for the next
        analytics.close();
        billing.close();
        root.close();
    }

    /** A call whose deadline passed while its service ran: on a busy machine a short one may pass before that begins. */
    CallTimeoutException lateWhileRunning(String service) {
        for (Duration timeout = Duration.ofMillis(100); ; timeout = timeout.multipliedBy(4)) {
            assertTrue(timeout.compareTo(SOON) < 0, "it never began");
            Duration brief = timeout;
            CallTimeoutException late =
                    assertThrows(CallTimeoutException.class, () -> analytics.call("billing", service, Map.of(), brief));
            if ("running".equals(late.details().get("phase"))) {
                return late;
            }
        }
    }

    Object call(String service) {
        return analytics.call("billing", service, Map.of());
    }
}
