package speed.internal.core;

import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import speed.internal.wire.Cursor;
import speed.internal.wire.Limits;

/** What a server's cursor says of a call whose server is gone, or was replaced. */
public enum Verdict {
    /** It never ran, and never will. */
    NOT_BEGUN,
    /** It may have run, and its service may run twice. */
    REPEATABLE,
    MAY_HAVE_RUN;

    /**
     * The verdict of a cursor.
     *
     * @param cursor of the generation that the request was for, or the first one of a later generation
     * @param sequences of all envelopes of the request
     * @param needed how many of them make the request whole: fewer than all where some are parity
     * @return whether it began
     */
    public static Verdict of(Cursor cursor, List<Long> sequences, int needed) {
        Map<Long, Boolean> listed = cursor.unfinished().stream()
                .collect(Collectors.toMap(Cursor.Unfinished::sequence, Cursor.Unfinished::begun));
        if (sequences.stream().anyMatch(one -> Boolean.FALSE.equals(listed.get(one)))) {
            return NOT_BEGUN;
        }
        List<Long> unlisted =
                sequences.stream().filter(one -> !listed.containsKey(one)).toList();
        long unread = unlisted.stream()
                .filter(one -> Long.compareUnsigned(one, cursor.lastSequence()) > 0)
                .count();
        if (unread > 0) {
            boolean isFull = cursor.unfinished().size() >= Limits.MAX_UNFINISHED;
            return isFull || sequences.size() - unread >= needed ? MAY_HAVE_RUN : NOT_BEGUN;
        }
        return unlisted.size() < sequences.size() ? REPEATABLE : MAY_HAVE_RUN;
    }
}
