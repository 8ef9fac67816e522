package speed.examples;

import java.util.List;
import java.util.Map;
import speed.Node;
import speed.NodeBuilder;
import speed.Request;

/**
 * Node {@code rules}: what a passenger is owed, after the amounts and limits of Regulation (EC) 261/2004. The Java
 * version of {@code examples/flights/services/rules.py}: same node, service, arguments and results.
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

    /** The service: category and amount in euros for one flight; the delay of a cancelled flight is ignored. */
    static Object compensation(Request request) {
        request.allowOnly("delay_minutes", "distance_miles", "cancelled");
        double delay = request.get("delay_minutes", Double.class);
        double distance = request.get("distance_miles", Double.class);
        boolean cancelled = request.get("cancelled", Boolean.class);
        if (!(distance > 0)) {
            throw new IllegalArgumentException("distance_miles must be positive, not " + distance);
        }
        if (Double.isNaN(delay)) {
            throw new IllegalArgumentException(
                    "delay_minutes is not a number; a flight without arrival has no delay");
        }
        Rule rule = RULES.stream().filter(row -> row.fits(delay, distance, cancelled)).findFirst().orElseThrow();
        return Map.of("category", rule.category, "amount", rule.amount);
    }

    /**
     * Runs the node.
     *
     * @param names nodes or families that may call it, beside those in {@code $SPEED_ALLOW}
     */
    public static void main(String[] names) throws InterruptedException {
        NodeBuilder settings = Node.builder(environment("SPEED_NODE", "rules"))
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
