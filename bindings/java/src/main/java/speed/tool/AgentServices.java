package speed.tool;

import java.io.IOException;
import java.math.BigInteger;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.stream.LongStream;
import speed.Node;
import speed.Request;
import speed.Response;
import speed.Service;
import speed.errors.InvalidArgumentsException;
import speed.options.ServiceDescription;
import speed.options.ServiceOptions;

/** The services that every agent offers, the same in all languages. */
final class AgentServices {
    private static final ServiceDescription DUE = ServiceDescription.of("Days on which something is due.")
            .withParameter("day", LocalDate.class)
            .withParameter("days", Long.class)
            .withOptionalParameter("times", Long.class)
            .withResult(LocalDate[].class);

    private final List<Object> sequence = new ArrayList<>();

    void register(Node node) {
        node.register("echo", request -> argument(request, "data"));
        node.register("add", AgentServices::add);
        node.register("due", AgentServices::due, ServiceOptions.DEFAULT.withDescription(DUE));
        node.register("sleep", AgentServices::sleep);
        node.register("fail", request -> {
            throw new IllegalStateException(request.get("message", String.class));
        });
        node.register(
                "error",
                request -> Response.error(request.get("code", String.class), "asked to fail", Map.of("why", "asked")));
        node.register("note", AgentServices::note);
        node.register("sequence", this::append);
        node.register("sequence_seen", request -> seen());
        node.register("who", request -> List.of(request.caller(), request.callerIdentity()));
        node.register("traceparent", Request::traceparent);
        node.register("forbidden", request -> "not for you", List.of("nobody-1"));
        node.register("size", request -> (long) request.get("data", byte[].class).length);
        node.register("relay", request -> relay(node, request));
        node.register("rows", Service.byRow(AgentServices::row));
        AgentStreams.register(node);
    }

    private static Object due(Request request) {
        LocalDate day = request.get("day", LocalDate.class);
        long days = request.get("days", Long.class);
        long times = request.getOr("times", Long.class, 1L);
        return LongStream.rangeClosed(1, times)
                .mapToObj(number -> day.plusDays(days * number))
                .toList();
    }

    private static Object argument(Request request, String name) {
        request.allowOnly(name);
        if (!request.arguments().containsKey(name)) {
            throw new InvalidArgumentsException(request.service() + ": argument '" + name + "' is missing");
        }
        return request.arguments().get(name);
    }

    private static Object relay(Node node, Request request) {
        Map<String, Object> arguments = new LinkedHashMap<>();
        Map<?, ?> given = request.get("arguments", Map.class);
        given.forEach((name, value) -> arguments.put((String) name, value));
        return node.call(request.get("node_name", String.class), request.get("service", String.class), arguments);
    }

    /** One row: a number, or one of the mistakes that a row can make. */
    private static Object row(Request request) {
        return switch (request.get("give", String.class)) {
            case "refuse" -> throw new InvalidArgumentsException("refused", Map.of("why", "asked"));
            case "fail" -> throw new IllegalStateException("asked to fail");
            case "code" -> Response.error("OUT_OF_STOCK", "asked to fail", Map.of("why", "asked"));
            case "one" -> 1L;
            case "half" -> 2.5;
            case "huge" -> BigInteger.ONE.shiftLeft(63);
            case "text" -> "t";
            default -> null;
        };
    }

    private static Object add(Request request) {
        request.allowOnly("a", "b");
        if (request.arguments().get("a") instanceof Long && request.arguments().get("b") instanceof Long) {
            return Math.addExact(request.get("a", Long.class), request.get("b", Long.class));
        }
        return request.get("a", Double.class) + request.get("b", Double.class);
    }

    private static Object sleep(Request request) throws InterruptedException {
        Thread.sleep((long) (request.get("seconds", Double.class) * 1000));
        return request.arguments().get("seconds");
    }

    /** What ran stays in a file, whoever is killed afterwards. */
    private static Object note(Request request) throws IOException, InterruptedException {
        request.allowOnly("n", "file", "seconds", "quits", "filler");
        Files.writeString(
                Path.of(request.get("file", String.class)),
                request.get("n", Long.class) + "\n",
                StandardOpenOption.CREATE,
                StandardOpenOption.APPEND);
        double seconds = request.arguments().containsKey("seconds") ? request.get("seconds", Double.class) : 0;
        boolean cancelled = seconds > 0 && request.cancellation().await(Duration.ofNanos((long) (seconds * 1e9)));
        if (cancelled && Boolean.TRUE.equals(request.arguments().get("quits"))) {
            throw new CancellationException();
        }
        return cancelled;
    }

    private Object append(Request request) {
        Object number = argument(request, "n");
        synchronized (sequence) {
            sequence.add(number);
        }
        return number;
    }

    private List<Object> seen() {
        synchronized (sequence) {
            List<Object> seen = new ArrayList<>(sequence);
            sequence.clear();
            return seen;
        }
    }
}
