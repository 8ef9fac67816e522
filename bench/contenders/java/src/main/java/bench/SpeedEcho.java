package bench;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import speed.Node;
import speed.Service;
import speed.options.SendOptions;

/** SPEED's blocking call, its futures and its messages: encrypted, authorised, through files. */
final class SpeedEcho implements Contender.Library {
    private static final String SERVER = "server";
    private static final Duration WAIT = Duration.ofSeconds(60);
    /** Longer than any case keeps a server stopped, and than a shared machine stands still. */
    private static final Duration LEASE = Duration.ofSeconds(300);

    private static final Duration HEARTBEAT = Duration.ofSeconds(5);

    @Override
    public AutoCloseable serve(Path work, String kind) {
        Node node = node(work, SERVER).allow("client", "crowd.*").open();
        node.register("echo", request -> request.arguments().get("data"));
        node.register("tax", Service.byRow(row -> row.get("amount", Double.class) * 0.18));
        if (!kind.contains("unread")) { // else messages stay where they are
            node.onMessage(message -> {});
        }
        return node;
    }

    @Override
    public Client connect(Path work, String kind) {
        Node.Builder builder = node(work, "client").allow("crowd.*");
        Node node = (kind.contains("disk") ? builder.durable() : builder).open();
        node.waitFor(SERVER, WAIT);
        return new Calls(node);
    }

    private static Node.Builder node(Path work, String name) {
        return Node.builder(name)
                .root(work.resolve("root"))
                .key(work.resolve("speed.key"))
                .lease(LEASE, HEARTBEAT);
    }

    private record Calls(Node node) implements Client {
        @Override
        public byte[] echo(byte[] data) {
            return (byte[]) node.call(SERVER, "echo", Map.of("data", data));
        }

        @Override
        public void pipeline(byte[] data, int count) {
            List<CompletableFuture<Object>> underWay = new ArrayList<>(count);
            for (int n = 0; n < count; n++) {
                underWay.add(node.submit(SERVER, "echo", Map.of("data", data)));
            }
            underWay.forEach(CompletableFuture::join);
        }

        /** Messages of one sender are handled in order: when the last one is, all are. */
        @Override
        public void send(byte[] data, int count) {
            SendOptions options = SendOptions.DEFAULT.withTimeout(WAIT);
            for (int n = 1; n < count; n++) {
                node.send(SERVER, data, options);
            }
            node.send(SERVER, data, options.withAcknowledgement());
        }

        @Override
        public void sendAll(byte[] data, int count) {
            SendOptions options = SendOptions.DEFAULT.withTimeout(WAIT);
            node.sendAll(SERVER, Collections.nCopies(Math.max(0, count - 1), data), options);
            node.send(SERVER, data, options.withAcknowledgement());
        }

        @Override
        public void close() {
            node.close();
        }
    }
}
