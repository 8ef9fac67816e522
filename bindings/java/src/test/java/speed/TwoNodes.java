package speed;

import java.io.IOException;
import java.time.Duration;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Timeout;
import speed.tool.BenchRoot;

/** Two nodes of one root that allow each other, with real files. */
@Timeout(60)
abstract class TwoNodes {
    static final Duration SOON = Duration.ofSeconds(20);

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
        analytics.close();
        billing.close();
        root.close();
    }

    Object call(String service) {
        return analytics.call("billing", service, Map.of());
    }
}
