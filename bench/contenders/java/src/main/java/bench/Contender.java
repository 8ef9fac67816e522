package bench;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.StringJoiner;
import java.util.function.IntConsumer;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A measured program: {@code Contender NAME server|client WORK [KIND]}, one process each, as contenders/process.py is in
 * Python. A server prints {@code ready} and lives until its input ends; a client answers each command with one line.
 */
public final class Contender {
    private static final Pattern MEMBER = Pattern.compile("\"(\\w+)\": *\"?(\\w+)\"?");

    private Contender() {}

    /** A library under measurement. */
    interface Library {
        AutoCloseable serve(Path work, String kind) throws Exception;

        Client connect(Path work, String kind) throws Exception;
    }

    /** The one line that a command is. */
    private record Command(String what, int bytes, int count, int warm, int threads, boolean batch) {
        static Command of(String line) {
            String what = "";
            int bytes = 0;
            int count = 0;
            int warm = 0;
            int threads = 1;
            boolean batch = false;
            for (Matcher member = MEMBER.matcher(line); member.find(); ) {
                switch (member.group(1)) {
                    case "do" -> what = member.group(2);
                    case "bytes" -> bytes = Integer.parseInt(member.group(2));
                    case "count" -> count = Integer.parseInt(member.group(2));
                    case "warm" -> warm = Integer.parseInt(member.group(2));
                    case "threads" -> threads = Integer.parseInt(member.group(2));
                    case "batch" -> batch = Boolean.parseBoolean(member.group(2));
                    default -> {}
                }
            }
            return new Command(what, bytes, count, warm, threads, batch);
        }
    }

    public static void main(String[] words) throws Exception {
        Library library = words[0].equals("grpc") ? new GrpcEcho() : new SpeedEcho();
        Path work = Path.of(words[2]);
        String kind = words.length > 3 ? words[3] : "";
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        if (words[1].equals("server")) {
            try (AutoCloseable server = library.serve(work, kind)) {
                say("ready");
                while (input.readLine() != null) {
                    // only its end matters
                }
            }
        } else {
            try (Client client = library.connect(work, kind)) {
                say("ready");
                obey(client, input);
            }
        }
        System.exit(0); // netty's threads are none of ours
    }

    private static void obey(Client client, BufferedReader input) throws IOException, InterruptedException {
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            Command command = Command.of(line);
            byte[] data = new byte[command.bytes];
            new Random().nextBytes(data);
            say(
                    switch (command.what) {
                        case "echo" -> echoes(client, data, command);
                        case "pipeline" -> rate(command, count -> client.pipeline(data, count));
                        case "send" ->
                            rate(
                                    command,
                                    command.batch
                                            ? count -> client.sendAll(data, count)
                                            : count -> client.send(data, count));
                        default -> throw new IllegalArgumentException("no measurement " + command.what);
                    });
        }
    }

    private static String echoes(Client client, byte[] data, Command command) {
        for (int n = 0; n < command.warm; n++) {
            client.echo(data);
        }
        StringJoiner samples = new StringJoiner(",", "{\"ns\":[", "]}");
        for (int n = 0; n < command.count; n++) {
            long began = System.nanoTime();
            byte[] answer = client.echo(data);
            samples.add(Long.toString(System.nanoTime() - began));
            if (answer.length != data.length) {
                throw new IllegalStateException("an echo of another size");
            }
        }
        return samples.toString();
    }

    /** How many a second when each thread does its share. */
    private static String rate(Command command, IntConsumer act) throws InterruptedException {
        act.accept(command.warm);
        int share = command.count / command.threads;
        List<Thread> others = new ArrayList<>();
        for (int n = 1; n < command.threads; n++) {
            others.add(new Thread(() -> act.accept(share)));
        }
        long began = System.nanoTime();
        others.forEach(Thread::start);
        act.accept(share);
        for (Thread other : others) {
            other.join();
        }
        return "{\"per_second\":" + share * command.threads * 1e9 / (System.nanoTime() - began) + "}";
    }

    private static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
