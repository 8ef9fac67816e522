package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.junit.jupiter.api.Test;
import speed.columns.Column;
import speed.errors.ExecutionFailedException;
import speed.errors.InvalidArgumentsException;
import speed.options.SendOptions;

/** S-3: the trace of a failure goes to the log of its node, with who asked, and without what was asked. */
class FailureLogTest extends TwoNodes {
    private static final String SECRET = "4711-0815";

    /** What a call that fails leaves in the log. */
    private String logged(Class<? extends Exception> failure, Map<String, Object> arguments) {
        PrintStream before = System.err;
        ByteArrayOutputStream caught = new ByteArrayOutputStream();
        System.setErr(new PrintStream(caught, true, StandardCharsets.UTF_8));
        try {
            assertThrows(failure, () -> analytics.call("billing", "fail", arguments));
        } finally {
            System.setErr(before);
        }
        return caught.toString(StandardCharsets.UTF_8);
    }

    @Test
    void aServiceThatFailsIsLoggedWithCallerAndRequest() {
        String[] id = new String[1];
        billing.register("fail", request -> {
            id[0] = request.requestId();
            throw new IllegalStateException("no luck");
        });
        String log = logged(ExecutionFailedException.class, Map.of("card", SECRET));
        assertTrue(
                log.contains("ERROR speed.spc - service 'fail' failed for 'analytics', request '" + id[0] + "'"), log);
        assertTrue(log.contains("at speed.FailureLogTest"), log);
        assertFalse(log.contains(SECRET), log);
    }

    @Test
    void aRowThatFailsIsLoggedWithItsTrace() {
        billing.register("fail", Service.byRow(row -> {
            throw new AssertionError("no luck");
        }));
        String log = logged(ExecutionFailedException.class, Map.of("card", Column.of(1L)));
        assertTrue(log.contains("row 0: AssertionError: no luck"), log);
        assertTrue(log.contains("Caused by: java.lang.AssertionError: no luck"), log);
    }

    /** Fails with each line. */
    private static final class FullDisk extends PrintStream {
        FullDisk() {
            super(OutputStream.nullOutputStream());
        }

        @Override
        public void println(String line) {
            throw new AssertionError("no room");
        }
    }

    /** S-24. */
    @Test
    void aLogThatFailsCostsNoAnswer() {
        billing.register("fail", request -> {
            throw new IllegalStateException("no luck");
        });
        PrintStream before = System.err;
        System.setErr(new FullDisk());
        try {
            for (int call = 0; call < 3; call++) {
                assertThrows(ExecutionFailedException.class, () -> analytics.call("billing", "fail", Map.of()));
            }
        } finally {
            System.setErr(before);
        }
    }

    @Test
    void whatItsCallerDidWrongIsNoTroubleOfTheNode() {
        billing.register("fail", request -> request.get("missing", String.class));
        assertEquals("", logged(InvalidArgumentsException.class, Map.of("card", SECRET)));
    }

    @Test
    void aFailureThatFailsToSayWhyIsAnsweredAndLogged() {
        billing.register("fail", request -> {
            throw new Speechless();
        });
        String log = logged(ExecutionFailedException.class, Map.of());
        assertTrue(log.contains("speed.Speechless"), log);
    }

    @Test
    void aHandlerWhoseFailureHasNoReadableTextIsReportedToItsSender() {
        billing.onMessage(message -> {
            throw new Speechless();
        });
        ExecutionFailedException failed = assertThrows(
                ExecutionFailedException.class,
                () -> analytics.send(
                        "billing", 1, SendOptions.DEFAULT.withAcknowledgement().withTimeout(SOON)));
        assertEquals("billing: Speechless", failed.getMessage());
    }
}
