package speed.internal.engine.call;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import speed.errors.SpeedException;
import speed.internal.core.Counters;
import speed.internal.engine.Context;
import speed.internal.engine.link.Envelopes.Load;
import speed.internal.engine.link.Links;
import speed.internal.wire.Control;
import speed.internal.wire.Entry;
import speed.internal.wire.Header.EnvelopeType;
import speed.internal.wire.Limits;

/** Calls that this node's program no longer wants: their servers are told, many at a time. Thread-safe. */
final class Withdrawals {
    private final Context context;
    private final Links links;
    private final Map<String, Queue<String>> waiting = new ConcurrentHashMap<>();

    Withdrawals(Context context, Links links) {
        this.context = context;
        this.links = links;
    }

    /** Notes a request that is to be withdrawn; {@link #send} tells its server. */
    void add(String target, String requestId) {
        waiting.computeIfAbsent(target, any -> new ConcurrentLinkedQueue<>()).add(requestId);
    }

    /** Tells a server of what was noted for it; never waits for room. A call that is not told of goes on as it was. */
    void send(String target) {
        Queue<String> ids = waiting.getOrDefault(target, new ConcurrentLinkedQueue<>());
        for (List<String> some = some(ids); !some.isEmpty(); some = some(ids)) {
            try {
                tell(target, some);
            } catch (SpeedException untold) {
                context.stats.count(Counters.WITHDRAWALS_UNDELIVERED, some.size());
            }
        }
    }

    private static List<String> some(Queue<String> ids) {
        List<String> some = new ArrayList<>();
        while (some.size() < Limits.MAX_WITHDRAWN_IDS) {
            String id = ids.poll();
            if (id == null) {
                break;
            }
            some.add(id);
        }
        return some;
    }

    private void tell(String target, List<String> ids) {
        Entry entry = context.registry.live(target);
        if (entry != null && entry.has(Entry.WITHDRAW) && context.isGrantedBy(entry)) {
            byte[] notice = Control.encode(Map.of("op", "WITHDRAW", "requestIds", ids));
            links.open(target, entry.generation()).send(Load.urgent(EnvelopeType.DISCOVERY, 0, List.of(notice)));
            context.stats.count(Counters.CALLS_WITHDRAWN, ids.size());
        }
    }
}
