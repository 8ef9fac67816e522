package speed.internal.engine.deliver;

import speed.errors.NamespaceException;
import speed.internal.core.Counters;
import speed.internal.core.Log;
import speed.internal.engine.Context;
import speed.internal.engine.LogLimiter;
import speed.internal.engine.lane.Arrival;
import speed.internal.wire.Printable;

/** What is looked at before a message is handed to the program, wherever it waited. */
final class HandoverChecks {
    private static final Log LOG = new Log("speed.messages");
    private static final String ALL = "*";

    private HandoverChecks() {}

    /**
     * Whether the program may have the message; else it is counted and its sender is told, and whoever calls this
     * finishes it. Of a dead letter that is not asked: it was handed over before, and somebody asked for another try.
     */
    static boolean allows(Context context, LogLimiter lines, Arrival arrival) {
        return arrival.isDeadLetter() || !isExpired(context, lines, arrival) && !isOfOthers(context, lines, arrival);
    }

    private static boolean isExpired(Context context, LogLimiter lines, Arrival arrival) {
        if (!arrival.content().view().isExpired(System.currentTimeMillis())) {
            return false;
        }
        context.stats.count(Counters.MESSAGES_EXPIRED);
        lines.warnEachMinute(LOG, "a message of {} expired before it was handled", arrival.source());
        arrival.refuse("EXECUTION_FAILED", "the message expired before it was handled");
        return true;
    }

    private static boolean isOfOthers(Context context, LogLimiter lines, Arrival arrival) {
        String namespace = arrival.content().view().namespace();
        var accepted = context.options.acceptNamespaces();
        if (namespace.equals(context.options.namespace()) || accepted.contains(namespace) || accepted.contains(ALL)) {
            return false;
        }
        String why = "namespace: '" + Printable.text(namespace) + "' is not taken by '" + context.options.name() + "'";
        context.stats.count(Counters.MESSAGES_REFUSED);
        lines.warnEachMinute(LOG, "a message of {} is refused: {}", arrival.source(), why);
        arrival.refuse("INVALID_ARGUMENTS", new NamespaceException(why).code() + ": " + why);
        return true;
    }
}
