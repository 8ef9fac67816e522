package speed.runtime;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import speed.core.Token;
import speed.errors.InboxFullException;
import speed.errors.SpeedException;
import speed.wire.EnvelopeType;

/**
 * Answers of services on their way out: those of one run leave in one write, one ring, one commit (decision 0007).
 *
 * <p>Whoever runs services adds to it and flushes when nothing more is queued; the relief flushes for a runner that
 * is held up in a service, and never waits for room: nobody might read meanwhile. An envelope is committed after its
 * answer was appended (L-15). Thread-safe: each answer goes to exactly one of those who flush.
 */
final class Answers {
    private static final Logger LOG = LoggerFactory.getLogger("speed.spc");
    private static final int MOST = 64;
    /** How long an answer waits for room in the caller's full inbox before it is dropped and counted. */
    private static final long WAIT_NANOS = 5_000_000_000L;

    /** What is to be done for one handled envelope: send the payload (if any), then commit the token. */
    private record Answer(Lane lane, int generation, byte[] payload, Token token) {}

    private record Way(Lane lane, int generation) {}

    private final Context context;
    private final Links links;
    private final Queue<Answer> waiting = new ConcurrentLinkedQueue<>();
    private final AtomicInteger count = new AtomicInteger();

    Answers(Context context, Links links) {
        this.context = context;
        this.links = links;
    }

    /** Queues an answer for the next flush; without a payload only the commit is left to do. */
    void add(Lane lane, int generation, byte[] payload, Token token) {
        add(new Answer(lane, generation, payload, token));
    }

    private void add(Answer answer) {
        count.incrementAndGet();
        waiting.add(answer);
    }

    int size() {
        return count.get();
    }

    /** Sends and commits what waits; links with room first, so that no full inbox holds up the others. */
    void flush() {
        for (Map<Way, List<Answer>> ways = take(); !ways.isEmpty(); ways = take()) {
            ways.entrySet().removeIf(way -> sent(way.getKey(), way.getValue(), false));
            ways.forEach((way, answers) -> sent(way, answers, true));
        }
    }

    /** Sends and commits what there is room for; false if answers are left, which wait as before. */
    boolean flushAtOnce() {
        Map<Way, List<Answer>> full = new LinkedHashMap<>();
        for (Map<Way, List<Answer>> ways = take(); !ways.isEmpty(); ways = take()) {
            ways.forEach((way, answers) -> {
                if (full.containsKey(way) || !sent(way, answers, false)) {
                    full.computeIfAbsent(way, any -> new ArrayList<>()).addAll(answers);
                }
            });
        }
        full.values().forEach(answers -> answers.forEach(this::add));
        return full.isEmpty();
    }

    private Map<Way, List<Answer>> take() {
        Map<Way, List<Answer>> ways = new LinkedHashMap<>();
        for (int taken = 0; taken < MOST; taken++) {
            Answer answer = waiting.poll();
            if (answer == null) {
                break;
            }
            count.decrementAndGet();
            ways.computeIfAbsent(new Way(answer.lane, answer.generation), way -> new ArrayList<>()).add(answer);
        }
        return ways;
    }

    /** Sends and commits the answers of one link; false if there is no room and it was not to wait. */
    private boolean sent(Way way, List<Answer> answers, boolean wait) {
        List<byte[]> payloads = answers.stream().map(Answer::payload).filter(java.util.Objects::nonNull).toList();
        try {
            if (!payloads.isEmpty()) {
                long deadline = System.nanoTime() + WAIT_NANOS;
                links.open(way.lane.source(), way.generation).send(wait
                        ? new OutgoingLink.Load(EnvelopeType.SPC_RESPONSE, EnvelopeType.REPLY, payloads, deadline)
                        : OutgoingLink.Load.urgent(EnvelopeType.SPC_RESPONSE, EnvelopeType.REPLY, payloads));
            }
        } catch (SpeedException error) {
            if (error instanceof InboxFullException && !wait) {
                return false;
            }
            context.stats.count("answers_undelivered", payloads.size());
            LOG.warn("answers to {} not delivered: {}", way.lane.source(), error.getMessage());
        }
        way.lane.finish(answers.stream().map(Answer::token).toList());
        return true;
    }
}
