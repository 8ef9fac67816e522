package speed.examples;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import speed.Node;

/**
 * A Java program that calls the flights services, whatever language they are written in: {@code geo} (C++),
 * {@code rules} (Java, {@link Rules}) and {@code model} (Python). Its node is called {@code etl.java}; root and key
 * come from {@code $SPEED_ROOT} and {@code $SPEED_KEY}.
 */
public final class Client {
    private static final double[][] AIRPORTS = {{40.6413, -73.7781}, {33.9416, -118.4085}, {51.47, -0.4543}};

    private static final Duration START = Duration.ofSeconds(30);

    private Client() {}

    /**
     * Asks each service a question and prints the answers.
     *
     * @param arguments none
     */
    public static void main(String[] arguments) {
        try (Node node = Node.builder("etl.java").open()) {
            for (String service : List.of("geo", "rules", "model")) {
                node.waitFor(service, START);
            }
            double miles = distance(node, AIRPORTS[0], AIRPORTS[1]);
            System.out.printf("JFK to LAX: %.1f miles%n", miles);
            Map<?, ?> due = (Map<?, ?>) node.call(
                    "rules", "compensation", Map.of("delay_minutes", 240, "distance_miles", miles, "cancelled", false));
            System.out.printf("four hours late: %s, %d euros%n", due.get("category"), due.get("amount"));
            distances(node);
            model(node);
        }
    }

    private static double distance(Node node, double[] from, double[] to) {
        return (Double)
                node.call("geo", "distance", Map.of("lat1", from[0], "lon1", from[1], "lat2", to[0], "lon2", to[1]));
    }

    /** Many calls under way at a time. */
    private static void distances(Node node) {
        List<CompletableFuture<Object>> answers = new ArrayList<>();
        for (double[] from : AIRPORTS) {
            for (double[] to : AIRPORTS) {
                answers.add(node.submit(
                        "geo", "distance", Map.of("lat1", from[0], "lon1", from[1], "lat2", to[0], "lon2", to[1])));
            }
        }
        double total =
                answers.stream().mapToDouble(answer -> (Double) answer.join()).sum();
        System.out.printf("all pairs: %.1f miles%n", total);
    }

    /** Fits y = 2x + 1 and predicts; the model is a plain map that travels back and forth. */
    private static void model(Node node) {
        Map<?, ?> fitted = (Map<?, ?>) node.call(
                "model",
                "fit",
                Map.of(
                        "columns",
                        Map.of("x", List.of(1, 2, 3, 4)),
                        "target",
                        List.of(3, 5, 7, 9),
                        "categories",
                        List.of()));
        byte[] predicted = (byte[]) node.call(
                "model", "predict", Map.of("model", fitted.get("model"), "columns", Map.of("x", List.of(10))));
        double value = ByteBuffer.wrap(predicted).order(ByteOrder.LITTLE_ENDIAN).getDouble();
        System.out.printf("model: rmse %.6f, f(10) = %.3f%n", (Double) fitted.get("rmse"), value);
    }
}
