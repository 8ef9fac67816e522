package speed.examples;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.IntPredicate;
import java.util.function.IntToDoubleFunction;
import speed.Node;
import speed.Request;
import speed.columns.Column;
import speed.columns.Kind;
import speed.errors.ExecutionFailedException;
import speed.errors.InvalidArgumentsException;

/**
 * Node {@code rules}: what a passenger is owed, after the amounts and limits of Regulation (EC) 261/2004. The Java
 * version of {@code examples/flights/services/rules.py}: same node, service, arguments and results, of one flight or of
 * columns of flights.
 *
 * <p>Started by speedd as a command ({@code command = ["bindings/java/bin/speed-java", "speed.examples.Rules"]}), it
 * learns name, grants, root and key from its environment. It runs until it is told to stop.
 */
public final class Rules {
    private static final double MILES_PER_KM = 0.621371192237334;
    private static final double SHORT_HAUL = 1500 * MILES_PER_KM;
    private static final double MEDIUM_HAUL = 3500 * MILES_PER_KM;
    private static final double ANY = Double.POSITIVE_INFINITY;

    /** One row: applies to flights up to so many miles (inclusive) that are at least so many minutes late. */
    private record Rule(boolean cancelled, double miles, double minutes, String category, int amount) {
        boolean fits(double delay, double distance, boolean isCancelled) {
            return cancelled == isCancelled && distance <= miles && (isCancelled || delay >= minutes);
        }
    }

    /** Read from the top; the first row that fits decides. Amounts in euros, delays in minutes at the destination. */
    private static final List<Rule> RULES = List.of(
            new Rule(true, SHORT_HAUL, -ANY, "cancelled, short haul", 250),
            new Rule(true, MEDIUM_HAUL, -ANY, "cancelled, medium haul", 400),
            new Rule(true, ANY, -ANY, "cancelled, long haul", 600),
            new Rule(false, SHORT_HAUL, 180, "delayed, short haul", 250),
            new Rule(false, MEDIUM_HAUL, 180, "delayed, medium haul", 400),
            new Rule(false, ANY, 240, "delayed, long haul", 600),
            new Rule(false, ANY, 180, "delayed, long haul, halved", 300),
            new Rule(false, ANY, 15, "late, nothing due", 0),
            new Rule(false, ANY, -ANY, "on time", 0));

    private Rules() {}

    /** The service, for one flight or for columns of flights. */
    static Object compensation(Request request) {
        request.allowOnly("delay_minutes", "distance_miles", "cancelled");
        Map<String, Column> batch = request.columns();
        if (!batch.isEmpty()) {
            return compensations(request, batch.values().iterator().next().rows());
        }
        Rule rule = rule(
                request.get("delay_minutes", Double.class),
                request.get("distance_miles", Double.class),
                request.get("cancelled", Boolean.class));
        return Map.of("category", rule.category, "amount", rule.amount);
    }

    /** Both columns of a batch; a flight of which anything is null gets nulls. The first bad row is named. */
    private static Map<String, Column> compensations(Request request, int rows) {
        IntToDoubleFunction delays = numbers(request, "delay_minutes");
        IntToDoubleFunction distances = numbers(request, "distance_miles");
        IntPredicate cancellations = flags(request, "cancelled");
        List<Column> columns = List.copyOf(request.columns().values());
        List<String> categories = new ArrayList<>(rows);
        List<Long> amounts = new ArrayList<>(rows);
        for (int row = 0; row < rows; row++) {
            Rule rule = null;
            if (isPresent(columns, row)) {
                rule = named(row, delays.applyAsDouble(row), distances.applyAsDouble(row), cancellations.test(row));
            }
            categories.add(rule == null ? null : rule.category);
            amounts.add(rule == null ? null : (long) rule.amount);
        }
        return Map.of("category", Column.of(Kind.UTF8, categories), "amount", Column.of(Kind.INT64, amounts));
    }

    private static boolean isPresent(List<Column> columns, int row) {
        for (Column column : columns) {
            if (column.isNull(row)) {
                return false;
            }
        }
        return true;
    }

    /** The rows of an argument, read where they lie; a single number holds for all rows. */
    private static IntToDoubleFunction numbers(Request request, String name) {
        if (!(request.arguments().get(name) instanceof Column column)) {
            double all = request.get(name, Double.class);
            return row -> all;
        }
        if (column.kind() == Kind.INT64) {
            return column.longs()::get;
        }
        return column.doubles()::get;
    }

    private static IntPredicate flags(Request request, String name) {
        if (!(request.arguments().get(name) instanceof Column column)) {
            boolean all = request.get(name, Boolean.class);
            return row -> all;
        }
        if (column.kind() != Kind.BOOL) {
            throw new InvalidArgumentsException("argument '" + name + "' must be BOOL, not " + column.kind());
        }
        return row -> (Boolean) column.get(row);
    }

    private static Rule named(int row, double delay, double distance, boolean cancelled) {
        try {
            return rule(delay, distance, cancelled);
        } catch (IllegalArgumentException error) {
            throw new ExecutionFailedException("row " + row + ": " + error.getMessage(), Map.of("row", (long) row));
        }
    }

    /** The rule for one flight; the delay of a cancelled flight is ignored. */
    private static Rule rule(double delay, double distance, boolean cancelled) {
        if (!(distance > 0)) {
            throw new IllegalArgumentException("distance_miles must be positive, not " + distance);
        }
        if (Double.isNaN(delay)) {
            throw new IllegalArgumentException("delay_minutes is not a number; a flight without arrival has no delay");
        }
        for (Rule rule : RULES) {
            if (rule.fits(delay, distance, cancelled)) {
                return rule;
            }
        }
        throw new AssertionError("the last row fits every flight");
    }

    /**
     * Runs the node.
     *
     * @param names nodes or families that may call it, beside those in {@code $SPEED_ALLOW}
     */
    public static void main(String[] names) throws InterruptedException {
        Node.Builder settings = Node.builder(environment("SPEED_NODE", "rules"))
                .fabrics(list("SPEED_FABRICS"))
                .workers(Integer.parseInt(environment("SPEED_WORKERS", "4")));
        try (Node node = settings.open()) {
            Runtime.getRuntime().addShutdownHook(new Thread(node::close));
            node.register("compensation", Rules::compensation);
            node.allow(list("SPEED_ALLOW")); // after the service, so that whoever may call also finds it
            node.allow(names);
            System.out.println("ready: " + node);
            Thread.currentThread().join();
        }
    }

    private static String environment(String name, String otherwise) {
        String value = System.getenv(name);
        return value == null || value.isEmpty() ? otherwise : value;
    }

    private static String[] list(String name) {
        String value = environment(name, "");
        return value.isEmpty() ? new String[0] : value.split(",");
    }
}
