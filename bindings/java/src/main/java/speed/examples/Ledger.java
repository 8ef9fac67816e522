package speed.examples;

import java.math.BigDecimal;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import speed.Node;
import speed.Passage;
import speed.Root;
import speed.Stream;
import speed.StreamService;
import speed.Value;
import speed.errors.ApplicationException;
import speed.errors.ServiceException;
import speed.options.CallOptions;
import speed.options.Retry;
import speed.options.StreamOptions;

/**
 * Nodes {@code billing} and {@code analytics}: many items in both directions, progress, an error with fields, a family,
 * retries and interceptors. Both are in one process here; usually they are not, and may be of any language.
 *
 * <p>{@code speed-java speed.examples.Ledger}; root and key come from {@code $SPEED_ROOT} and {@code $SPEED_KEY}.
 */
public final class Ledger {
    /**
     * One row.
     *
     * @param month of the row
     * @param number within it
     */
    public record Row(String month, long number) {}

    /** There is not enough money. */
    public static final class InsufficientFunds extends ServiceException {
        static final String CODE = "INSUFFICIENT_FUNDS";
        private static final long serialVersionUID = 1L;

        /** What is there. */
        public final BigDecimal balance;

        InsufficientFunds(BigDecimal balance) {
            super(CODE, "there is not enough money", Map.of("balance", balance));
            this.balance = balance;
        }

        InsufficientFunds(ApplicationException received) {
            super(received);
            balance = Value.as(received.details().get("balance"), BigDecimal.class);
        }
    }

    private Ledger() {}

    /**
     * Offers the services, and calls them.
     *
     * @param arguments none
     */
    public static void main(String[] arguments) {
        Root.init();
        try (Node billing = Node.builder("billing").allow("analytics").open();
                Node one = Node.builder("pricing.1").allow("analytics").open();
                Node two = Node.builder("pricing.2").allow("analytics").open();
                Node analytics = Node.builder("analytics").open()) {
            offer(billing);
            one.register("quote", request -> "pricing.1");
            two.register("quote", request -> "pricing.2");
            use(analytics);
        }
    }

    /**
     * Offers the services.
     *
     * @param billing the node that has them
     */
    public static void offer(Node billing) {
        billing.interceptServices(request -> {
            System.out.println(request.caller() + " calls " + request.service());
            return Passage.on(request);
        });
        billing.register("rows", StreamService.giving((request, rows) -> {
            String month = request.get("month", String.class);
            for (long number = 0; number < 3; number++) {
                rows.write(new Row(month, number));
            }
            return 3;
        }));
        billing.register("total", StreamService.taking(Long.class, (request, amounts) -> {
            long total = 0;
            while (amounts.hasNext()) {
                total += amounts.next();
            }
            return total;
        }));
        billing.register("work", request -> {
            long steps = request.get("steps", Long.class);
            for (long step = 1; step <= steps; step++) {
                request.progress(step, (double) steps, "counting");
            }
            return "done";
        });
        billing.register("pay", request -> {
            throw new InsufficientFunds(new BigDecimal("12.50"));
        });
    }

    /**
     * Calls the services.
     *
     * @param analytics a node that may
     */
    public static void use(Node analytics) {
        analytics.interceptCalls(call -> {
            long began = System.nanoTime();
            return Passage.on(call).whenDone((result, error) -> {
                long took = (System.nanoTime() - began) / 1_000;
                System.out.println(call.service() + (error == null ? " took " : " failed after ") + took + " us");
            });
        });
        read(analytics);
        pay(analytics);
        family(analytics);
    }

    private static void read(Node analytics) {
        try (Stream<Row> rows = analytics.stream("billing", "rows", Map.of("month", "2026-11"), Row.class)) {
            for (Row row : rows) {
                System.out.println(row);
            }
            System.out.println(rows.result() + " rows");
        }

        StreamOptions sending = StreamOptions.DEFAULT.withItems(List.of(1, 2, 3));
        System.out.println(
                analytics.stream("billing", "total", Map.of(), sending).result());

        CallOptions listening = CallOptions.DEFAULT.withProgress(
                told -> System.out.println(told.done() + " of " + told.total() + ", " + told.note()));
        analytics.call("billing", "work", Map.of("steps", 5), listening);
    }

    private static void pay(Node analytics) {
        ServiceException.declare(InsufficientFunds.CODE, InsufficientFunds::new); // once, before the first call
        try {
            analytics.call("billing", "pay", Map.of("amount", 20));
        } catch (InsufficientFunds refused) {
            System.out.println("only " + refused.balance + " is there");
        }
    }

    private static void family(Node analytics) {
        System.out.println(analytics.call("pricing.*", "quote", Map.of()));

        CallOptions keyed = CallOptions.DEFAULT.withKey("alice");
        System.out.println(analytics.call("pricing.*", "quote", Map.of(), keyed));

        CallOptions patient = CallOptions.DEFAULT.withRetry(Retry.DEFAULT.withIdempotence());
        System.out.println(analytics.call("pricing.*", "quote", Map.of(), patient));

        Retry hedged = Retry.DEFAULT.withIdempotence().withHedge(Duration.ofMillis(50));
        System.out.println(analytics.call("pricing.*", "quote", Map.of(), CallOptions.DEFAULT.withRetry(hedged)));
    }
}
