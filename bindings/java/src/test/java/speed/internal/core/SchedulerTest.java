package speed.internal.core;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import speed.internal.wire.Contract;

/** T-1 to T-13: the published steps, and what is kept of deadlines. */
class SchedulerTest {
    private static final double NANOS = 1e9;

    /** One scheduler, and the work that the steps name. */
    private static final class Replay {
        private final Scheduler<String> scheduler;
        private final Map<String, Work<String>> works = new HashMap<>();

        Replay(int workers) {
            scheduler = new Scheduler<>(workers);
        }

        Object take(Contract step) {
            return switch (step.text("do")) {
                case "request" -> request(step);
                case "message" -> message(step);
                case "task" -> {
                    works.put(step.text("id"), scheduler.task(step.text("id")));
                    yield null;
                }
                case "take" -> name(scheduler.take(nanos(step, "now")));
                case "claim" -> (long) scheduler.claim(((List<?>) step.get("takes"))::contains);
                case "receive" -> name(scheduler.receive());
                case "withdraw" -> withdraw(step);
                case "forget" -> forget(step);
                case "expire" -> expire(step);
                case "next_time" -> scheduler.nextTime() == Scheduler.NEVER ? null : scheduler.nextTime();
                case "close" -> names(scheduler.close());
                case "settled" -> scheduler.isSettled();
                default -> change(step);
            };
        }

        private Object change(Contract step) {
            Work<String> work = works.get(step.text("id"));
            switch (step.text("do")) {
                case "done" -> scheduler.done(work);
                case "again" -> scheduler.again(work, nanos(step, "at"));
                case "resumed" -> scheduler.resumed(work);
                case "put_back" -> scheduler.putBack(work);
                case "leave" -> scheduler.leave();
                case "blocked" -> {
                    return scheduler.blocked(work);
                }
                default -> throw new IllegalArgumentException(step.text("do"));
            }
            return null;
        }

        private String request(Contract step) {
            Scheduler.Admitted<String> admitted =
                    scheduler.request(step.text("sender"), step.text("id"), step.text("id"), nanos(step, "deadline"));
            if (admitted.admission() == Scheduler.Admission.WAITING) {
                works.put(step.text("id"), admitted.work());
            }
            return word(admitted.admission());
        }

        private String message(Contract step) {
            Object order = step.get("order") == null ? step.text("sender") : step.get("order");
            Work<String> work = scheduler.message(
                    step.text("sender"),
                    step.text("id"),
                    nanos(step, "now"),
                    (int) step.number("priority"),
                    order,
                    (Boolean) step.get("event"),
                    (Boolean) step.get("claimed"));
            if (work == null) {
                return "leaving";
            }
            works.put(step.text("id"), work);
            return word(work.state());
        }

        private String withdraw(Contract step) {
            Work<String> work = scheduler.withdraw(step.text("sender"), step.text("id"));
            return work == null ? null : work.state() == Work.State.ENDED ? "waiting" : "running";
        }

        private Map<String, List<String>> forget(Contract step) {
            List<Work<String>> works = scheduler.forget(step.text("sender"), any -> true);
            return Map.of(
                    "waiting",
                    names(works.stream()
                            .filter(work -> work.state() == Work.State.ENDED)
                            .toList()),
                    "running",
                    names(works.stream()
                            .filter(work -> work.state() != Work.State.ENDED)
                            .toList()));
        }

        private Map<String, List<String>> expire(Contract step) {
            Scheduler.Overdue<String> found = scheduler.expire(nanos(step, "now"));
            return Map.of(
                    "waiting",
                    names(found.waiting()),
                    "running",
                    names(found.running()),
                    "unclaimed",
                    names(found.unclaimed()));
        }
    }

    private static long nanos(Contract step, String name) {
        return (long) (((Number) step.get(name)).doubleValue() * NANOS);
    }

    private static String word(Enum<?> constant) {
        return constant.name().toLowerCase(Locale.ROOT).replace('_', ' ');
    }

    private static String name(Work<String> work) {
        return work == null ? null : work.item;
    }

    private static List<String> names(List<Work<String>> works) {
        return works.stream().map(work -> work.item).toList();
    }

    /** What a step says that it gives, in the units of this scheduler. */
    private static Object expected(Contract step) {
        boolean isTime = step.text("do").equals("next_time") && step.get("gives") != null;
        return isTime ? (Object) nanos(step, "gives") : step.get("gives");
    }

    @TestFactory
    Stream<DynamicTest> thePublishedStepsGiveWhatTheySay() {
        return Contract.vectors("scheduling").each("cases", one -> {
            Replay replay = new Replay((int) one.number("workers"));
            int number = 0;
            for (Object item : (List<?>) one.get("steps")) {
                Contract step = new Contract((Map<?, ?>) item);
                assertEquals(expected(step), replay.take(step), "step " + number++ + ": " + step.values());
            }
        });
    }

    /** T-9: what it keeps is bounded by what waits and runs, not by what ever came. */
    @Test
    void deadlinesOfWhatEndedAreNotKept() {
        Scheduler<byte[]> scheduler = new Scheduler<>(1);
        for (int number = 0; number < 200_000; number++) { // 3 GB, if they were
            scheduler.request("a", number, new byte[16_384], Long.MAX_VALUE - 1);
            scheduler.done(scheduler.take(0));
        }
        assertEquals(Scheduler.NEVER, scheduler.nextTime());
    }
}
