package speed.runtime;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import speed.core.PendingCalls.Call;
import speed.core.PendingCalls.Outcome;
import speed.core.PendingCalls.RequestKey;
import speed.errors.InvalidArgumentsException;
import speed.errors.SpeedException;
import speed.wire.Limits;

/**
 * Calls whose server was replaced: its successor is asked which of them it has. What a server that died had begun is
 * answered by nobody, and one that is back at once is never found gone. Thread-safe.
 */
final class Successors {
    private static final Duration TIMEOUT = Duration.ofSeconds(1);

    private final Context context;
    private final Calls calls;

    Successors(Context context, Calls calls) {
        this.context = context;
        this.calls = calls;
    }

    /** Asks the present life of a node for the calls that were written to an earlier one; waits for nothing. */
    void ask(String target, int generation) {
        List<Call> older =
                context.pending.to(target).stream().filter(call -> call.isOlderThan(generation)).toList();
        for (int first = 0; first < older.size(); first += Limits.MAX_WITHDRAWN_IDS) {
            int end = Math.min(older.size(), first + Limits.MAX_WITHDRAWN_IDS);
            askFor(target, generation, older.subList(first, end));
        }
    }

    private void askFor(String target, int generation, List<Call> asked) {
        List<String> ids = asked.stream().map(Successors::id).toList();
        try {
            calls.askAtOnce(target, Map.of("op", "REQUESTS", "requestIds", ids), TIMEOUT,
                    outcome -> told(target, generation, asked, outcome));
        } catch (SpeedException unasked) {
            context.stats.count("questions_unasked"); // asked again with the next look
        }
    }

    private void told(String target, int generation, List<Call> asked, Outcome outcome) {
        boolean isUnknownQuestion = outcome.error() instanceof InvalidArgumentsException;
        List<?> named = outcome.result() instanceof Map<?, ?> result && result.get("requestIds") instanceof List<?> ids
                ? ids : null;
        if (named == null && !isUnknownQuestion) {
            return;
        }
        List<Call> gone = new ArrayList<>();
        for (Call call : asked) {
            if (isUnknownQuestion || named.contains(id(call))) {
                call.isHadBy(generation);
            } else if (call.isGone(generation)) {
                gone.add(call);
            }
        }
        calls.nodeLeft(target, gone);
    }

    private static String id(Call call) {
        return ((RequestKey) call.key()).requestId();
    }
}
