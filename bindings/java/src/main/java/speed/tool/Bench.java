package speed.tool;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import speed.Node;
import speed.internal.wire.Json;
import speed.options.SendOptions;

/**
 * What SPEED does here, between two processes: this one and a server that it starts.
 *
 * <pre>
 * rtt       echo, one call after the other: time of each
 * load      echo, by some threads that each make one call after the other: time of each
 * pipeline  echo, many calls under way: calls per second
 * oneway    messages that are only sent, until all are handled
 * </pre>
 */
public final class Bench {
    private static final String SERVER = "bench.server";
    private static final String CLIENT = "bench.client";
    private static final int WINDOW = 256;
    private static final int WARM_UP = 20_000;
    private static final Duration START = Duration.ofSeconds(30);

    private Bench() {}

    /**
     * Measures and prints.
     *
     * @param line {@code rtt|load|pipeline|oneway [--bytes N] [--count N] [--callers N] [--root DIRECTORY] [--json]}
     */
    public static void main(String[] line) throws Exception {
        Arguments arguments = new Arguments(line, "--json");
        if (arguments.words().size() != 1) {
            System.err.println("usage: Bench rtt|load|pipeline|oneway [--bytes N] [--count N] [--callers N]"
                    + " [--root DIRECTORY] [--json]");
            System.exit(2);
        }
        String what = arguments.words().get(0);
        if (what.equals("serve")) {
            serve(Path.of(arguments.get("--root")));
            return;
        }
        Map<String, Object> figures = measure(
                what,
                Integer.parseInt(arguments.get("--bytes", "200")),
                Integer.parseInt(arguments.get("--count", "20000")),
                Integer.parseInt(arguments.get("--callers", "8")),
                arguments.get("--root", null));
        System.out.println(arguments.has("--json") ? Json.write(figures) : shown(figures));
    }

    private static Map<String, Object> measure(String what, int bytes, int count, int callers, String parent)
            throws Exception {
        try (BenchRoot root = new BenchRoot(parent)) {
            Process server = root.start(
                    Bench.class.getName(),
                    List.of("serve", "--root", root.path().toString()));
            try (Node client = root.node(CLIENT, SERVER)) {
                client.waitFor(SERVER, START);
                Map<String, Object> figures = new LinkedHashMap<>();
                figures.put("bench", what);
                figures.put("count", count);
                figures.put("payloadBytes", bytes);
                byte[] payload = new byte[bytes];
                switch (what) {
                    case "rtt" -> roundTrips(client, payload, 1, count, figures);
                    case "load" -> roundTrips(client, payload, callers, count, figures);
                    case "pipeline" -> pipeline(client, payload, count, figures);
                    case "oneway" -> oneWay(client, payload, count, figures);
                    default -> throw new IllegalArgumentException("no measurement " + what);
                }
                return figures;
            } finally {
                server.getOutputStream().close(); // the end of its input tells the server to stop
                if (!server.waitFor(START.toSeconds(), TimeUnit.SECONDS)) {
                    server.destroyForcibly();
                }
            }
        }
    }

    private static void roundTrips(Node client, byte[] payload, int callers, int count, Map<String, Object> figures)
            throws InterruptedException {
        Map<String, Object> arguments = Map.of("data", payload);
        long[] nanos = new long[count / callers * callers];
        timed(client, arguments, new long[warmUp(payload) / callers * callers], callers);
        long began = System.nanoTime();
        timed(client, arguments, nanos, callers);
        long took = System.nanoTime() - began;
        Arrays.sort(nanos);
        figures.put("callers", callers);
        figures.put("p50Micros", nanos[nanos.length / 2] / 1e3);
        figures.put("p99Micros", nanos[(int) (nanos.length * 99L / 100)] / 1e3);
        figures.put("minMicros", nanos[0] / 1e3);
        figures.put("callsPerSecond", nanos.length * 1e9 / took);
    }

    /** Each caller fills its part with the times of its calls. */
    private static void timed(Node client, Map<String, Object> arguments, long[] nanos, int callers)
            throws InterruptedException {
        Thread[] threads = new Thread[callers];
        for (int caller = 0; caller < callers; caller++) {
            int from = nanos.length / callers * caller;
            int to = from + nanos.length / callers;
            threads[caller] = new Thread(() -> {
                for (int round = from; round < to; round++) {
                    long began = System.nanoTime();
                    client.call(SERVER, "echo", arguments);
                    nanos[round] = System.nanoTime() - began;
                }
            });
            threads[caller].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private static int warmUp(byte[] payload) {
        return Math.max(50, Math.min(WARM_UP, (256 << 20) / (payload.length + 1)));
    }

    private static void pipeline(Node client, byte[] payload, int count, Map<String, Object> figures) {
        pipelined(client, payload, warmUp(payload));
        long began = System.nanoTime();
        pipelined(client, payload, count);
        figures.put("callsPerSecond", count * 1e9 / (System.nanoTime() - began));
    }

    private static void pipelined(Node client, byte[] payload, int count) {
        Queue<CompletableFuture<Object>> inFlight = new ArrayDeque<>();
        for (int call = 0; call < count; call++) {
            if (inFlight.size() == WINDOW) {
                inFlight.remove().join();
            }
            inFlight.add(client.submit(SERVER, "echo", Map.of("data", payload)));
        }
        inFlight.forEach(CompletableFuture::join);
    }

    private static void oneWay(Node client, byte[] payload, int count, Map<String, Object> figures) {
        sendAll(client, payload, warmUp(payload));
        long before = (Long) client.call(SERVER, "handled", Map.of());
        long began = System.nanoTime();
        sendAll(client, payload, count);
        figures.put("messagesPerSecond", count * 1e9 / (System.nanoTime() - began));
        figures.put("handled", (Long) client.call(SERVER, "handled", Map.of()) - before);
    }

    /** Lanes are FIFO: when the last one is handled, all are. */
    private static void sendAll(Node client, byte[] payload, int count) {
        for (int message = 1; message < count; message++) {
            client.send(SERVER, payload);
        }
        client.send(SERVER, payload, SendOptions.DEFAULT.withAcknowledgement().withTimeout(START));
    }

    /** The other process: until its input ends. */
    private static void serve(Path root) throws IOException {
        AtomicLong handled = new AtomicLong();
        try (Node node = BenchRoot.node(root, SERVER, CLIENT)) {
            node.register("echo", request -> request.arguments().get("data"));
            node.register("handled", request -> handled.get());
            node.onMessage(message -> handled.incrementAndGet());
            while (System.in.read() >= 0) {
                // only its end matters
            }
        }
    }

    private static String shown(Map<String, Object> figures) {
        StringBuilder shown = new StringBuilder();
        figures.forEach((name, value) -> shown.append(
                value instanceof Double number
                        ? String.format("%-18s %,.1f%n", name, number)
                        : String.format("%-18s %s%n", name, value)));
        return shown.toString().stripTrailing();
    }
}
