package speed.internal.core;

import speed.internal.wire.Header.Sequence;

/** Sequence rules of one link on the receiving side: replay, gaps, generations. Not thread-safe. */
public final class LinkReceiver {
    /** What becomes of an authenticated envelope; the first two are accepted. */
    public enum Verdict {
        NEXT(null),
        GAP("gaps"),
        DUPLICATE("duplicates"),
        OLD_GENERATION("rejected_old_generation");

        /** What it is counted as, null if it is the rule. */
        public final String counted;

        Verdict(String counted) {
            this.counted = counted;
        }

        public boolean isAccepted() {
            return this == NEXT || this == GAP;
        }
    }

    private long last;

    /**
     * The rules of a link.
     *
     * @param last the last sequence accepted before, 0 for none
     */
    public LinkReceiver(long last) {
        this.last = last;
    }

    /** Says what a sequence means after the ones before it, and remembers it if it is accepted. */
    public Verdict judge(long sequence) {
        int sameOrOlder = Long.compareUnsigned(sequence, last);
        boolean sameGeneration = Sequence.generation(sequence) == Sequence.generation(last);
        if (sameOrOlder <= 0) {
            return sameGeneration ? Verdict.DUPLICATE : Verdict.OLD_GENERATION;
        }
        long expected = sameGeneration ? Sequence.counter(last) + 1 : 1;
        last = sequence;
        return Sequence.counter(sequence) == expected ? Verdict.NEXT : Verdict.GAP;
    }
}
