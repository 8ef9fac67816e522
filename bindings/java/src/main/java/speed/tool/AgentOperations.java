package speed.tool;

import java.time.Duration;
import java.util.AbstractMap.SimpleEntry;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import speed.Message;
import speed.Node;
import speed.NodeInfo;
import speed.errors.SpeedException;
import speed.internal.fs.Posix;
import speed.options.SendOptions;
import speed.tool.Operation.Fields;

/** The operations of an agent: each takes a command's fields and returns a result. */
final class AgentOperations {
    private static final Duration LATE = Duration.ofSeconds(60);

    private final Node node;
    private final BlockingQueue<Message> events = new LinkedBlockingQueue<>();
    private final Queue<String> joined = new ConcurrentLinkedQueue<>();
    private final Queue<String> left = new ConcurrentLinkedQueue<>();
    private final Map<String, Operation> table = new HashMap<>();
    private final Arguments arguments;
    private final AgentProtection protection;
    private final AgentTopics topics;
    /** Calls that go on beside the commands, by the numbers that these gave them. */
    private final Map<Object, CompletableFuture<Object>> started = new HashMap<>();

    private Message inHand;
    private Node prize;

    AgentOperations(Node node, Arguments arguments) {
        this.node = node;
        this.arguments = arguments;
        if (arguments.get("--watch", "true").equals("true")) {
            node.onJoin(other -> joined.add(other.name()));
            node.onLeave(other -> left.add(other.name()));
        }
        protection = new AgentProtection(arguments);
        protection.addTo(table);
        topics = new AgentTopics(node);
        topics.addTo(table);
        AgentStreams.addTo(table, node);
        addAccess();
        addMessages();
        addCalls();
        addNodes();
    }

    Object run(String name, Map<?, ?> command) throws Exception {
        Operation operation = table.get(name);
        if (operation == null) {
            throw new IllegalArgumentException("no operation " + name);
        }
        return operation.run(new Fields(command));
    }

    private void addAccess() {
        table.put("allow", fields -> {
            node.allow(fields.texts("patterns"));
            return null;
        });
        table.put("deny", fields -> {
            node.deny(fields.texts("patterns"));
            return null;
        });
    }

    private void addMessages() {
        table.put("send", this::send);
        table.put("receive", fields -> shown(receive(fields.seconds("timeout", 5))));
        table.put("finish", fields -> {
            finish();
            return null;
        });
        table.put("burst", this::burst);
        table.put("drain", this::drain);
        table.put(
                "publish",
                fields -> node.publish(fields.text("topic"), fields.get("payload"))
                        .count());
        table.put("publish_batch", this::publishBatch);
        table.put("subscribe", fields -> {
            if (Boolean.TRUE.equals(fields.get("shared"))) {
                node.subscribeShared(fields.text("pattern"), events::add);
            } else {
                node.subscribe(fields.text("pattern"), events::add);
            }
            return null;
        });
        table.put(
                "event",
                fields -> shown(events.poll(fields.seconds("timeout", 5).toNanos(), TimeUnit.NANOSECONDS)));
    }

    private Message receive(Duration timeout) throws InterruptedException {
        inHand = node.receive(timeout);
        return inHand;
    }

    /** Finishes what was received last, without asking for more. */
    private void finish() {
        if (inHand != null) {
            inHand.done();
        }
    }

    private Object send(Fields fields) {
        SendOptions options = SendOptions.DEFAULT.withTimeout(fields.seconds("timeout", 5));
        if (fields.get("topic") != null) {
            options = options.withTopic(fields.text("topic"));
        }
        if (fields.get("traceparent") != null) {
            options = options.withTraceparent(fields.text("traceparent"));
        }
        if (Boolean.TRUE.equals(fields.get("ack"))) {
            options = options.withAcknowledgement();
        }
        return node.send(fields.text("target"), fields.get("payload"), options);
    }

    private Object publishBatch(Fields fields) {
        if (fields.get("pairs") == null) {
            return node.publishBatch(fields.text("topic"), (List<?>) fields.get("payloads"))
                    .count();
        }
        List<Map.Entry<String, Object>> pairs = new ArrayList<>();
        for (Object pair : (List<?>) fields.get("pairs")) {
            pairs.add(new SimpleEntry<>((String) ((List<?>) pair).get(0), ((List<?>) pair).get(1)));
        }
        Map<String, Object> counts = new LinkedHashMap<>();
        node.publishBatch(pairs).forEach((topic, published) -> counts.put(topic, published.count()));
        return counts;
    }

    private static Map<String, Object> shown(Message message) {
        if (message == null) {
            return null;
        }
        Map<String, Object> shown = new LinkedHashMap<>();
        shown.put("payload", message.payload());
        shown.put("payloads", payloads(message));
        shown.put("source", message.source());
        shown.put("senderIdentity", message.senderIdentity());
        shown.put("redelivered", message.redelivered());
        shown.put("topic", message.topic());
        shown.put("traceparent", message.traceparent());
        shown.put("messageId", message.messageId());
        return shown;
    }

    /** Its payloads, or the code of why there are none. */
    private static Object payloads(Message message) {
        try {
            return message.payloads();
        } catch (SpeedException refused) {
            return refused.code();
        }
    }

    private Object burst(Fields fields) {
        long began = System.nanoTime();
        byte[] filler = new byte[fields.number("bytes", 0)];
        for (int n = 0; n < fields.number("count", 1); n++) {
            Map<String, Object> payload = new LinkedHashMap<>();
            payload.put("n", n);
            payload.put("filler", filler);
            node.send(fields.text("target"), payload, SendOptions.DEFAULT.withTimeout(LATE));
        }
        return (System.nanoTime() - began) / 1e9;
    }

    private Object drain(Fields fields) throws InterruptedException {
        long deadline = System.nanoTime() + fields.seconds("timeout", 10).toNanos();
        int wanted = fields.number("count", 1);
        List<Long> numbers = new ArrayList<>();
        int redelivered = 0;
        while (numbers.size() < wanted) {
            Message message = receive(Duration.ofNanos(Math.max(0, deadline - System.nanoTime())));
            if (message == null) {
                break;
            }
            redelivered += message.redelivered() ? 1 : 0;
            numbers.add((Long) ((Map<?, ?>) message.payload()).get("n"));
        }
        finish();
        boolean inOrder = numbers.stream().sorted().toList().equals(numbers);
        return Map.of("received", numbers.size(), "in_order", inOrder, "redelivered", redelivered);
    }

    private void addCalls() {
        table.put("call", this::call);
        table.put("try_call", this::call);
        table.put("start", this::start);
        table.put("withdraw", fields -> {
            CompletableFuture<Object> call = started.get(fields.get("call"));
            if (call != null) {
                call.cancel(false);
            }
            return null;
        });
        table.put("outcome", fields -> started.remove(fields.get("call")).join());
        table.put("pipeline", this::pipeline);
        table.put("large", this::large);
        table.put("ping", fields -> node.ping(fields.text("target")).toNanos() / 1e9);
        table.put("services", fields -> node.services(fields.text("target")));
        table.put("info", fields -> node.info(fields.text("target")));
        table.put("stats", fields -> fields.get("target") == null ? node.stats() : node.stats(fields.text("target")));
    }

    private Object call(Fields fields) {
        return node.call(
                fields.text("target"),
                fields.text("service"),
                fields.map("arguments"),
                fields.seconds("timeout", 30),
                fields.text("traceparent"));
    }

    private Object start(Fields fields) {
        started.put(
                fields.get("call"),
                node.submit(
                        fields.text("target"),
                        fields.text("service"),
                        fields.map("arguments"),
                        fields.seconds("timeout", 30)));
        return null;
    }

    private Object pipeline(Fields fields) {
        int count = fields.number("count", 1);
        String target = fields.text("target");
        String service = fields.get("service") == null ? "sequence" : fields.text("service");
        List<CompletableFuture<Object>> calls = new ArrayList<>();
        for (int n = 0; n < count; n++) {
            calls.add(node.submit(target, service, Map.of("n", n), LATE));
        }
        boolean resultsOk = true;
        for (int n = 0; n < count; n++) {
            resultsOk &= Long.valueOf(n).equals(calls.get(n).join());
        }
        Object seen = node.call(target, "sequence_seen", Map.of());
        List<Long> expected = new ArrayList<>();
        for (long n = 0; n < count; n++) {
            expected.add(n);
        }
        return Map.of("in_order", expected.equals(seen), "results_ok", resultsOk);
    }

    private Object large(Fields fields) {
        byte[] data = new byte[fields.number("bytes", 0)];
        for (int index = 0; index < data.length; index++) {
            data[index] = (byte) (index * 31);
        }
        Object echo = node.call(fields.text("target"), "echo", Map.of("data", data), LATE);
        return echo instanceof byte[] bytes && Arrays.equals(bytes, data);
    }

    private void addNodes() {
        table.put("segment", fields -> {
            double parity = fields.get("parity") instanceof Number rate ? rate.doubleValue() : 0;
            node.segment(fields.text("target"), fields.number("size", 0), parity);
            return null;
        });
        table.put(
                "nodes",
                fields -> (fields.get("fabric") == null ? node.nodes() : node.nodes(fields.text("fabric")))
                        .stream().map(NodeInfo::name).toList());
        table.put(
                "wait_for",
                fields -> node.waitFor(fields.text("target"), fields.seconds("timeout", 10))
                        .name());
        table.put("race", this::race);
        table.put("release", fields -> {
            release();
            return null;
        });
        table.put("decode", fields -> Decoding.verdict(fields.text("kind"), (byte[]) fields.get("bytes")));
        table.put("joins", fields -> taken(joined));
        table.put("leaves", fields -> taken(left));
    }

    /** Takes a name with a second node at a time of CLOCK_MONOTONIC, in ns; returns its generation. */
    private Object race(Fields fields) throws InterruptedException {
        long at = ((Number) fields.get("at")).longValue();
        for (long left = at - now(); left > 0; left = at - now()) {
            TimeUnit.NANOSECONDS.sleep(Math.max(0, left - 1_000_000));
        }
        prize = arguments.builder(fields.text("name")).open();
        return prize.generation();
    }

    private static long now() {
        return Posix.monotonicNanos();
    }

    /** Closes all nodes but the agent's own, and its consumer. */
    void closeOthers() {
        topics.leave();
        release();
        protection.close();
    }

    /** Closes what a race won. */
    private void release() {
        if (prize != null) {
            prize.close();
            prize = null;
        }
    }

    private static List<String> taken(Queue<String> names) {
        List<String> taken = new ArrayList<>();
        for (String name = names.poll(); name != null; name = names.poll()) {
            taken.add(name);
        }
        return taken;
    }
}
