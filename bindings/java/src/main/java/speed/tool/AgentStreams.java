package speed.tool;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import speed.ItemWriter;
import speed.Node;
import speed.Request;
import speed.Stream;
import speed.StreamService;
import speed.options.CallOptions;
import speed.options.StreamOptions;
import speed.tool.Operation.Fields;

/** The services of every agent that give or take streams, and the operations that call them. */
final class AgentStreams {
    private AgentStreams() {}

    static void register(Node node) {
        node.register("numbers", StreamService.giving(AgentStreams::numbers));
        node.register("total", StreamService.taking(Long.class, AgentStreams::total));
        node.register("double", StreamService.exchanging(Long.class, AgentStreams::twice));
        node.register("endless", StreamService.giving(AgentStreams::endless));
        node.register("steps", AgentStreams::steps);
    }

    private static Object numbers(Request request, ItemWriter writer) {
        long count = request.get("count", Long.class);
        for (long number = 0; number < count; number++) {
            writer.write(number);
        }
        return "over";
    }

    private static Object total(Request request, Iterator<Long> items) {
        long total = 0;
        while (items.hasNext()) {
            total += items.next();
        }
        return total;
    }

    private static Object twice(Request request, Iterator<Long> items, ItemWriter writer) {
        while (items.hasNext()) {
            writer.write(2 * items.next());
        }
        return null;
    }

    /** Whoever reads it goes early; the file tells that it was let go. */
    private static Object endless(Request request, ItemWriter writer) throws IOException {
        Path file = Path.of(request.get("file", String.class));
        try {
            for (long number = 0; ; number++) {
                writer.write(number);
            }
        } finally {
            Files.writeString(file, "1\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        }
    }

    private static Object steps(Request request) {
        long count = request.get("count", Long.class);
        for (long step = 1; step <= count; step++) {
            request.progress(step, (double) count, "counting");
        }
        return count;
    }

    static void addTo(Map<String, Operation> table, Node node) {
        table.put("stream", fields -> stream(node, fields));
        table.put("progress", fields -> progress(node, fields));
    }

    /** All items of a stream and its result, or its first ones. */
    private static Object stream(Node node, Fields fields) {
        StreamOptions options = StreamOptions.DEFAULT.withWindow(
                fields.number("window_items", (int) StreamOptions.DEFAULT.windowItems()),
                StreamOptions.DEFAULT.windowBytes());
        if (fields.get("items") != null) {
            options = options.withItems((List<?>) fields.get("items"));
        }
        int most = fields.number("read", Integer.MAX_VALUE);
        Map<String, Object> arguments = fields.map("arguments");
        List<Object> items = new ArrayList<>();
        Map<String, Object> seen = new LinkedHashMap<>(Map.of("items", items));
        try (Stream<Object> stream = node.stream(fields.text("target"), fields.text("service"), arguments, options)) {
            while (items.size() < most && stream.hasNext()) {
                items.add(stream.next());
            }
            if (items.size() < most) {
                seen.put("result", stream.result());
            }
        }
        return seen;
    }

    private static Object progress(Node node, Fields fields) {
        List<Object> heard = new ArrayList<>();
        CallOptions options = CallOptions.DEFAULT.withProgress(
                told -> heard.add(Arrays.asList(told.done(), told.total(), told.note())));
        Object result = node.call(fields.text("target"), "steps", Map.of("count", fields.number("count", 1)), options);
        return Map.of("result", result, "heard", heard);
    }
}
