package speed.tool;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CompletionException;
import speed.Node;
import speed.errors.CallException;
import speed.errors.SpeedException;
import speed.internal.wire.Limits;

/** A node that does what it is told: one JSON command a line on its input, one JSON answer a line on its output. */
public final class Agent {
    private static final int CANNOT_START = 3;

    private Agent() {}

    /**
     * Runs until the command {@code close} or the end of the input.
     *
     * @param line {@code --name NAME --root ROOT --key KEY [--allow PATTERN]… [--lease S] [--heartbeat S]
     *     [--workers N] [--durability process|disk] [--lane-bytes N] [--ephemeral true|false]
     *     [--identity FILE]}
     */
    public static void main(String[] line) throws IOException {
        Arguments arguments = new Arguments(line);
        try (Node node = open(arguments)) {
            AgentOperations operations = equipped(node, arguments);
            say(Map.of(
                    "event",
                    "ready",
                    "generation",
                    node.generation(),
                    "pid",
                    ProcessHandle.current().pid()));
            obey(node, operations);
        }
    }

    private static Node open(Arguments arguments) {
        Node.Builder builder = arguments
                .builder(arguments.get("--name"))
                .workers(Integer.parseInt(arguments.get("--workers", "4")))
                .maxLaneBytes(Long.parseLong(arguments.get("--lane-bytes", "" + Limits.LANE_WINDOW_BYTES)))
                .lease(
                        seconds(arguments.get("--lease", "" + Limits.LEASE_SECONDS)),
                        seconds(arguments.get("--heartbeat", "" + Limits.HEARTBEAT_SECONDS)));
        if (arguments.get("--durability", "process").equals("disk")) {
            builder.durable();
        }
        if (arguments.get("--ephemeral", "false").equals("true")) {
            builder.ephemeral();
        }
        if (arguments.has("--identity")) {
            builder.identity(Path.of(arguments.get("--identity")));
        }
        try {
            return builder.open();
        } catch (SpeedException error) {
            throw cannotStart(error);
        }
    }

    private static AgentOperations equipped(Node node, Arguments arguments) {
        try {
            new AgentServices().register(node);
            AgentOperations operations = new AgentOperations(node, arguments);
            node.allow(arguments.all("--allow").toArray(new String[0])); // last: what waits is for these services
            return operations;
        } catch (SpeedException error) {
            node.close();
            throw cannotStart(error);
        }
    }

    private static SpeedException cannotStart(SpeedException error) {
        say(failure("event", "failed", error));
        System.exit(CANNOT_START);
        return error;
    }

    private static Duration seconds(String text) {
        return Duration.ofMillis((long) (Double.parseDouble(text) * 1000));
    }

    private static void obey(Node node, AgentOperations operations) throws IOException {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            Map<?, ?> command = (Map<?, ?>) PlainJson.parse(line);
            boolean closes = "close".equals(command.get("op"));
            if (closes) {
                operations.closeOthers();
                node.close();
            }
            say(closes ? answer(command, null) : run(operations, command));
            if (closes) {
                return;
            }
        }
    }

    private static Map<String, Object> run(AgentOperations operations, Map<?, ?> command) {
        try {
            return answer(command, operations.run((String) command.get("op"), command));
        } catch (CompletionException error) {
            return failure(command, error.getCause());
        } catch (Exception error) {
            return failure(command, error);
        }
    }

    private static Map<String, Object> answer(Map<?, ?> command, Object result) {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("id", command.get("id"));
        answer.put("ok", true);
        answer.put("result", result);
        return answer;
    }

    private static Map<String, Object> failure(Map<?, ?> command, Throwable error) {
        Map<String, Object> answer = failure("id", command.get("id"), error);
        answer.put("ok", false);
        return answer;
    }

    private static Map<String, Object> failure(String key, Object value, Throwable error) {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put(key, value);
        answer.put(
                "error",
                error instanceof SpeedException known
                        ? known.code()
                        : error.getClass().getSimpleName());
        answer.put("message", String.valueOf(error.getMessage()));
        answer.put("details", error instanceof CallException call ? call.details() : Map.of());
        if (error instanceof SpeedException known && known.execution() != null) {
            answer.put(
                    "execution",
                    known.execution().name().toLowerCase(Locale.ROOT).replace('_', ' '));
        }
        return answer;
    }

    private static synchronized void say(Map<String, Object> line) {
        System.out.println(PlainJson.write(line));
        System.out.flush();
    }
}
