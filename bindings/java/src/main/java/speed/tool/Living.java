package speed.tool;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import java.util.stream.Stream;
import speed.Message;
import speed.Node;
import speed.Published;
import speed.Request;
import speed.errors.SpeedException;
import speed.options.SendOptions;

/**
 * A process with several nodes and threads that do what comes to their minds: the Java counterpart of
 * {@code tests/torture/living.py}, which says how it is told what to do and what it writes down.
 */
public final class Living {
    private static final String FAMILY = "life.*";
    private static final Set<String> NEVER =
            Set.of("ACCESS_DENIED", "UNKNOWN_NODE", "SERVICE_NOT_FOUND", "INVALID_ARGUMENTS", "INBOX_FULL", "LEAVING");
    private static final Duration CALL = Duration.ofSeconds(3);
    private static final Duration DRAIN = Duration.ofSeconds(2);
    private static final int SEGMENT_BYTES = 65_536;
    private static final int LARGE_BYTES = 300_000;

    private final Map<?, ?> setting;
    private final List<String> names;
    private final List<String> others;
    private final Path journal;
    private final Map<String, Node> nodes = new ConcurrentHashMap<>();
    private final Map<String, ReentrantLock> turns = new ConcurrentHashMap<>();

    private Living(Map<?, ?> setting) {
        this.setting = setting;
        this.names = texts("names");
        this.others = texts("others");
        this.journal = Path.of((String) setting.get("journal"));
        names.forEach(name -> turns.put(name, new ReentrantLock()));
    }

    /**
     * Lives as the first line of its input says.
     *
     * @param line nothing
     */
    public static void main(String[] line) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Living living = new Living((Map<?, ?>) PlainJson.parse(input.readLine()));
        living.startAll();
        living.warmUp();
        living.closeAll();
        List<String> before = descriptors();
        living.startAll();
        System.out.println("ready");
        input.readLine();
        living.live();
        living.startAll();
        System.out.println("quiet");
        input.readLine();
        living.closeAll();
        List<String> after = descriptors();
        System.err.println("open before: " + before + " open now: " + after);
        System.out.println("descriptors " + before.size() + " " + after.size());
    }

    private List<String> texts(String key) {
        return ((List<?>) setting.get(key)).stream().map(String.class::cast).toList();
    }

    private double number(String key) {
        return ((Number) setting.get(key)).doubleValue();
    }

    private void tell(Object... words) {
        StringBuilder line = new StringBuilder();
        for (Object word : words) {
            line.append(line.isEmpty() ? "" : " ").append(word);
        }
        byte[] bytes = (line.toString().replace('\n', ' ') + "\n").getBytes(StandardCharsets.UTF_8);
        try {
            Files.write(journal, bytes, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }

    /** What no program should ever see. */
    private void foreign(String where, Throwable error) {
        error.printStackTrace();
        tell("foreign", where, error);
    }

    /** What is open, but for the listing itself. */
    private static List<String> descriptors() throws IOException {
        List<String> open = new ArrayList<>();
        try (Stream<Path> found = Files.list(Path.of("/proc/self/fd"))) {
            for (Path each : (Iterable<Path>) found::iterator) {
                if (Files.exists(each, LinkOption.NOFOLLOW_LINKS)) {
                    open.add(Files.readSymbolicLink(each).toString());
                }
            }
        }
        open.removeIf(each -> each.startsWith("/proc/"));
        Collections.sort(open);
        return open;
    }

    // --- the nodes: each may be closed and started again at any moment, whoever uses it ---

    private void start(String name) {
        Path root = Path.of((String) setting.get("root"));
        Node node = Node.builder(name)
                .root(root)
                .key(root.resolve("speed.key"))
                .workers(2)
                .allow(FAMILY)
                .lease(Duration.ofSeconds(30), Duration.ofMillis(500))
                .open();
        node.onMessage(message -> took(name, message));
        node.subscribe(FAMILY, message -> took(name, message));
        node.register("note", this::note);
        node.register("relay", request -> relay(node, request));
        nodes.put(name, node);
    }

    private void startAll() {
        for (String name : names) {
            if (!nodes.containsKey(name) || nodes.get(name).isClosed()) {
                start(name);
            }
        }
    }

    /** Uses once what is loaded when it is first used. */
    private void warmUp() throws InterruptedException {
        String name = names.get(0);
        nodes.get(name).call(name, "note", Map.of("id", "warm"), Duration.ofSeconds(30));
        nodes.get(name).segment(name, SEGMENT_BYTES, 0);
        Map<String, Object> payload = Map.of("id", "warm", "filler", new byte[LARGE_BYTES]);
        nodes.get(name).send(name, payload, SendOptions.DEFAULT.withAcknowledgement());
    }

    private void closeAll() {
        names.forEach(name -> close(name, DRAIN));
        nodes.clear();
    }

    private void close(String name, Duration drain) {
        Node node = nodes.get(name);
        try {
            StringBuilder counters = new StringBuilder();
            ((Map<?, ?>) node.stats().get("counters"))
                    .forEach((key, count) ->
                            counters.append(' ').append(key).append('=').append(count));
            tell("counted " + name + counters);
        } catch (SpeedException error) {
            tell("refused", "stats", error.code());
        }
        node.close(drain);
    }

    private void took(String name, Message message) {
        tell("took", ((Map<?, ?>) message.payload()).get("id"), name, message.redelivered() ? "again" : "first");
    }

    private Object note(Request request) {
        tell("ran", request.get("id", String.class));
        return request.get("id", String.class);
    }

    /** A call within a call; empty when it failed. */
    private Object relay(Node node, Request request) {
        String target = request.get("target", String.class);
        try {
            return node.call(target, "note", Map.of("id", request.get("id", String.class)), CALL.dividedBy(2));
        } catch (SpeedException error) {
            return "";
        } catch (RuntimeException | Error error) {
            foreign("relay", error);
            throw error;
        }
    }

    // --- the threads ---

    private void live() throws InterruptedException {
        long until = System.nanoTime() + (long) (number("seconds") * 1e9);
        List<Thread> people = new ArrayList<>();
        for (int number = 0; number < number("threads"); number++) {
            Person person = new Person(number);
            people.add(new Thread(() -> person.live(until)));
        }
        people.forEach(Thread::start);
        for (Thread person : people) {
            person.join();
        }
    }

    /** One thing to do, and how long it may take. */
    private record Act(String name, Duration bound, Step step) {}

    /** What an act does. */
    private interface Step {
        void take() throws Exception;
    }

    /** Does one thing after the other. */
    private final class Person {
        private final Random random;
        private final String prefix;
        private final List<Act> acts = new ArrayList<>();
        private int count;

        Person(int number) {
            random = new Random((long) (number("seed") * 1000 + number));
            prefix = setting.get("prefix") + "." + number + ".";
            add(6, "call", CALL, this::call);
            add(6, "send", CALL, this::send);
            add(6, "publish", CALL, this::publish);
            add(2, "relay", CALL, this::relay);
            add(2, "withdraw", CALL, this::withdraw);
            add(1, "send_large", CALL.multipliedBy(2), this::sendLarge);
            add(1, "look", CALL.multipliedBy(2), this::look);
            add(1, "grant", Duration.ofSeconds(1), this::grant);
            add(1, "turn_over", DRAIN.multipliedBy(2), this::turnOver);
        }

        private void add(int times, String name, Duration bound, Step step) {
            for (int time = 0; time < times; time++) {
                acts.add(new Act(name, bound, step));
            }
        }

        void live(long until) {
            while (System.nanoTime() < until) {
                Act act = acts.get(random.nextInt(acts.size()));
                long began = System.nanoTime();
                attempt(act);
                double took = (System.nanoTime() - began) / 1e9;
                if (took > act.bound().toMillis() / 1e3 + number("grace")) {
                    tell("late", act.name(), took);
                }
            }
        }

        private void attempt(Act act) {
            try {
                act.step().take();
            } catch (SpeedException error) {
                tell("refused", act.name(), error.code());
            } catch (Exception | Error error) {
                foreign(act.name(), error);
            }
        }

        /** Perhaps one that another thread closes meanwhile; one that is closed is seldom worth a try. */
        private Node node() {
            Node found = nodes.get(names.get(random.nextInt(names.size())));
            return found.isClosed() ? nodes.get(names.get(random.nextInt(names.size()))) : found;
        }

        private String other() {
            return others.get(random.nextInt(others.size()));
        }

        private String next() {
            return prefix + count++;
        }

        /** How a call ended: its answer, or an error and whether the call may have begun. */
        private void ended(String id, Callable<Object> result) throws Exception {
            try {
                tell(result.call().equals(id) ? "answered" : "failed", id, "RELAY maybe");
            } catch (SpeedException error) {
                tell("failed", id, error.code(), NEVER.contains(error.code()) ? "never" : "maybe");
            }
        }

        private void call() throws Exception {
            String id = next();
            ended(id, () -> node().call(other(), "note", Map.of("id", id), CALL));
        }

        private void relay() throws Exception {
            String id = next();
            ended(id, () -> node().call(other(), "relay", Map.of("target", other(), "id", id), CALL));
        }

        private void withdraw() throws Exception {
            String id = next();
            CompletableFuture<Object> future = node().submit(other(), "note", Map.of("id", id), CALL);
            ended(id, () -> {
                try {
                    return future.get(CALL.multipliedBy(2).toMillis(), TimeUnit.MILLISECONDS);
                } catch (ExecutionException error) {
                    throw error.getCause() instanceof SpeedException known ? known : error;
                }
            });
        }

        private void send() {
            String id = next();
            String target = other();
            SendOptions options = SendOptions.DEFAULT.withTimeout(CALL);
            Map<String, Object> payload = Map.of("id", id, "filler", "x".repeat(random.nextInt(2000)));
            node().send(target, payload, random.nextBoolean() ? options.withAcknowledgement() : options);
            tell("sent", id, target);
        }

        private void sendLarge() {
            String id = next();
            String target = other();
            Node node = node();
            node.segment(target, random.nextBoolean() ? SEGMENT_BYTES : 0, 0);
            try {
                node.send(
                        target,
                        Map.of("id", id, "filler", new byte[LARGE_BYTES]),
                        SendOptions.DEFAULT.withTimeout(CALL));
                tell("sent", id, target);
            } finally {
                node.segment(target, 0, 0);
            }
        }

        private void publish() {
            String id = next();
            Published published = node().publish("life.event", Map.of("id", id), SendOptions.DEFAULT.withTimeout(CALL));
            tell(Stream.concat(Stream.of("published", id), published.delivered().stream())
                    .toArray());
        }

        private void look() {
            switch (random.nextInt(4)) {
                case 0 -> node().ping(other());
                case 1 -> node().services(other());
                case 2 -> node().info(other());
                default -> node().stats(other());
            }
            node().nodes();
        }

        /** Of what nobody here is called. */
        private void grant() {
            String family = "guest." + random.nextInt(9) + ".*";
            if (random.nextBoolean()) {
                node().allow(family);
            } else {
                node().deny(family);
            }
        }

        /** Close and start again, unless another thread does so. */
        private void turnOver() {
            String name = names.get(random.nextInt(names.size()));
            if (!turns.get(name).tryLock()) {
                return;
            }
            try {
                close(name, random.nextBoolean() ? Duration.ofMillis(100) : DRAIN);
                start(name);
            } finally {
                turns.get(name).unlock();
            }
        }
    }
}
