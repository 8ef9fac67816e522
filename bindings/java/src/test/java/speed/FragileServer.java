package speed;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import speed.options.OnError;
import speed.options.ServiceOptions;
import speed.tool.BenchRoot;

/** A node in a process of its own whose services and handler end the process in the middle, as kill -9 would. */
public final class FragileServer {
    private FragileServer() {}

    /**
     * Runs until its input ends, or something ends it.
     *
     * @param line root, file of what was done, onError, maxDeliveries
     */
    public static void main(String[] line) throws IOException {
        Path done = Path.of(line[1]);
        Node node = Node.builder("billing")
                .root(Path.of(line[0]))
                .key(Path.of(line[0], "speed.key"))
                .allow("analytics")
                .workers(1)
                .onError(OnError.valueOf(line[2]))
                .maxDeliveries(Integer.parseInt(line[3]))
                .open();
        node.register("charge", request -> {
            note(done, "charge " + request.requestId());
            Runtime.getRuntime().halt(1);
            return null;
        });
        node.register("total", request -> note(done, "total"));
        node.register(
                "again",
                request -> {
                    note(done, "again " + request.redelivered());
                    if (!request.redelivered()) {
                        Runtime.getRuntime().halt(1);
                    }
                    return null;
                },
                ServiceOptions.DEFAULT.withIdempotence());
        node.onMessage(message -> {
            note(done, message.payload() + " " + message.deliveries() + " " + message.redelivered());
            if ("poison".equals(message.payload())) {
                Runtime.getRuntime().halt(1);
            }
        });
        System.out.println("ready");
        while (System.in.read() >= 0) {
            // only its end matters
        }
        node.close();
    }

    private static Object note(Path done, String what) {
        try {
            Files.writeString(done, what + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            return what;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** Starts one. */
    static Process start(BenchRoot root, Path done, OnError policy, int maxDeliveries) throws IOException {
        return root.start(
                FragileServer.class.getName(),
                java.util.List.of(
                        root.path().toString(), done.toString(), policy.name(), Integer.toString(maxDeliveries)));
    }
}
