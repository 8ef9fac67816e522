package speed.internal.topics;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import speed.internal.wire.Require;
import speed.topics.Reader;
import speed.topics.Start;
import speed.topics.TopicMessage;

/** A reader, which remembers where to read on. */
final class HostedReader implements Reader {
    private final TopicHost host;
    private final int prefetch;
    private final Deque<TopicMessage> waiting = new ArrayDeque<>();
    /** Where to read on: an offset, or a start at first. */
    private Object next;

    /** Reads first now, so that the latest is what is the latest now. */
    HostedReader(TopicHost host, Start start, int prefetch, boolean compacted) {
        this.host = host;
        this.prefetch = prefetch;
        next = start.value();
        long end =
                compacted ? host.ask("describe", Map.of(), Require.CALL_TIMEOUT).get("end", Long.class) : 0;
        fetch(Duration.ZERO);
        if (compacted) {
            compact(end);
        }
    }

    /** Leaves of what is before {@code end}, at least, the last message of each key, and those without one. */
    private void compact(long end) {
        Map<String, TopicMessage> last = new LinkedHashMap<>();
        List<TopicMessage> kept = new ArrayList<>();
        while (!waiting.isEmpty()) {
            for (TopicMessage message : waiting) {
                if (message.key() == null) {
                    kept.add(message);
                } else {
                    last.put(message.key(), message);
                }
            }
            waiting.clear();
            if ((long) next < end) {
                fetch(Duration.ZERO);
            }
        }
        last.values().stream().filter(message -> !message.isTombstone()).forEach(kept::add);
        kept.sort(Comparator.comparingLong(TopicMessage::offset));
        waiting.addAll(kept);
    }

    @Override
    public TopicMessage receive(Duration timeout) throws InterruptedException {
        long ends = TopicHost.after(Require.timeout(timeout));
        while (waiting.isEmpty()) {
            Duration left = TopicHost.until(ends);
            Duration wait = left.compareTo(TopicHost.WAIT) < 0 ? left : TopicHost.WAIT;
            if (!TopicHost.interruptibly(() -> fetch(wait))
                    && TopicHost.until(ends).isZero()) {
                return null;
            }
        }
        return waiting.poll();
    }

    /** Whether there were messages. */
    private boolean fetch(Duration wait) {
        Map<String, Object> arguments = new LinkedHashMap<>();
        arguments.put("start", next);
        arguments.put("most", prefetch);
        arguments.put("wait_ms", wait.toMillis());
        TopicHost.Answer answer = host.ask("read", arguments, wait.plus(TopicHost.GRACE));
        List<TopicMessage> messages = host.messages(answer);
        next = answer.get("next", Long.class);
        return waiting.addAll(messages);
    }
}
