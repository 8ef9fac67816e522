package speed.internal.core;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import speed.errors.WireException;
import speed.internal.wire.Block;
import speed.internal.wire.Header;
import speed.internal.wire.Header.EnvelopeType;
import speed.internal.wire.Header.Sequence;
import speed.internal.wire.Limits;
import speed.internal.wire.NodeId;

/**
 * Bytes of a lane to authenticated envelopes, sans-IO; finds the next one after damage.
 *
 * <p>It keeps no bytes from one window to the next, so every split of a lane decodes equally. Not thread-safe.
 */
public final class LaneDecoder {
    private static final int MAX_CANDIDATES = 16;
    private static final int MAX_SEARCHES = 4;
    private static final int ENDLESS = Integer.MAX_VALUE;
    /** All but the last byte of a header's ids and what stands before: they may begin an envelope. */
    private static final int HEADER_START_BYTES = 63;

    /**
     * Authenticates an envelope at an offset of a block and returns its payload, or throws WireException and changes
     * nothing. It may leave the payload in place of what was authenticated.
     */
    @FunctionalInterface
    public interface Opener {
        byte[] open(Header header, Block data, int at);
    }

    /** What a stretch of a lane turned out to be; offsets count from the start of the file. */
    public sealed interface Item permits Opened, Damage {}

    /** An authenticated envelope. */
    public record Opened(Header header, byte[] payload, long start, long end) implements Item {}

    /** Bytes that are no valid envelope; the reason is a wire code, TRUNCATED for a torn tail. */
    public record Damage(String reason, long start, long end) implements Item {}

    /**
     * Result of one scan.
     *
     * @param consumed bytes that are settled
     * @param needed total that the next envelope claims to need from there on, 0 if unknown
     * @param more whether a limit ended the scan
     */
    public record Scan(List<Item> items, int consumed, int needed, boolean more) {
        public boolean hasDamage() {
            return items.stream().anyMatch(Damage.class::isInstance);
        }
    }

    /**
     * A stretch of a file to be decoded.
     *
     * @param length bytes of the block that count
     * @param base where they lie in the file
     * @param generation that of the file's name
     * @param isFinal whether no byte will follow
     * @param suspicious whether an incomplete envelope is checked for a lying length
     */
    public record Window(Block data, int length, long base, int generation, boolean isFinal, boolean suspicious) {}

    /** Either an envelope, or the bytes that it needs in all, or the reason why it is none. */
    private record Found(Opened envelope, int needed, String reason) {}

    private final NodeId source;
    private final NodeId target;
    private final Opener opener;
    /** What a search found in the present window: a large envelope is opened in its place, and so only once. */
    private Opened found;

    public LaneDecoder(NodeId source, NodeId target, Opener opener) {
        this.source = source;
        this.target = target;
        this.opener = opener;
    }

    /**
     * Decodes a window; at most {@code limit} items are returned, and nothing behind an envelope whose payload lies in a
     * slot.
     */
    public Scan scan(Window window, int limit) {
        try {
            return scanned(window, limit);
        } finally {
            found = null;
        }
    }

    private Scan scanned(Window window, int limit) {
        List<Item> items = new ArrayList<>();
        int at = 0;
        int searches = 0;
        while (at < window.length) {
            if (items.size() >= limit || searches >= MAX_SEARCHES) {
                return new Scan(items, at, 0, true);
            }
            Found found = one(window, at);
            if (found.envelope != null) {
                items.add(found.envelope);
                at = (int) (found.envelope.end - window.base);
                if (found.envelope.header().has(EnvelopeType.SLOTTED)) { // its payload comes before all that follows
                    return new Scan(items, at, 0, true);
                }
                continue;
            }
            boolean incomplete = found.reason == null;
            if (incomplete && !window.isFinal && !window.suspicious) {
                return new Scan(items, at, found.needed, false);
            }
            searches++;
            int end = resynchronise(window, at);
            if (incomplete && !window.isFinal && !isEnvelope(window, end)) {
                return new Scan(items, at, found.needed, false);
            }
            addDamage(items, incomplete ? "TRUNCATED" : found.reason, window.base + at, window.base + end);
            at = end;
        }
        return new Scan(items, at, 0, false);
    }

    private Found one(Window window, int at) {
        int left = window.length - at;
        if (found != null && found.start == window.base + at) {
            return new Found(found, 0, null);
        }
        if (left < Limits.AAD_BYTES) {
            return new Found(null, Header.OVERHEAD, null);
        }
        try {
            Header header = Header.parse(window.data.bytes, at, left);
            checkPlace(header, window.generation);
            int total = header.envelopeBytes();
            if (left < total) {
                return new Found(null, total, null);
            }
            byte[] payload = opener.open(header, window.data, at);
            long start = window.base + at;
            found = new Opened(header, payload, start, start + total);
            return new Found(found, 0, null);
        } catch (WireException refused) {
            return new Found(null, 0, refused.reason());
        }
    }

    private void checkPlace(Header header, int generation) {
        if (!header.source().equals(source)) {
            throw new WireException("WRONG_SOURCE", "not the lane's sender");
        }
        if (!header.target().equals(target)) {
            throw new WireException("WRONG_TARGET", "not this node");
        }
        if (header.generation() != generation) {
            throw new WireException("BAD_SEQUENCE", "another generation than the segment's");
        }
    }

    private boolean isEnvelope(Window window, int at) {
        return at < window.length && one(window, at).envelope != null;
    }

    /**
     * Where the damage that begins at {@code at} ends: the next place that may hold an envelope.
     *
     * <p>A complete candidate must authenticate. An incomplete one ends the damage as well: it is judged when its
     * bytes are there. Without any, all bytes that cannot begin a header are damage.
     */
    private int resynchronise(Window window, int at) {
        int place = at + 1;
        for (int tried = 0; tried < MAX_CANDIDATES; tried++) {
            int ids = findIds(window.data.bytes, place + Header.IDS_AT, window.length);
            if (ids == ENDLESS) {
                return window.isFinal ? window.length : Math.max(at, window.length - HEADER_START_BYTES);
            }
            place = ids - Header.IDS_AT;
            if (one(window, place).reason == null) {
                return place;
            }
            place++;
        }
        return place;
    }

    private int findIds(ByteBuffer data, int from, int length) {
        for (int at = from; at <= length - 2 * Limits.NODE_ID_BYTES; at++) {
            if (data.getLong(at) == source.high()
                    && NodeId.at(data, at).equals(source)
                    && NodeId.at(data, at + Limits.NODE_ID_BYTES).equals(target)) {
                return at;
            }
        }
        return ENDLESS;
    }

    /** Joins neighbouring damage, so that one accident counts once however the bytes arrived. */
    private static void addDamage(List<Item> items, String reason, long start, long end) {
        int last = items.size() - 1;
        if (last >= 0 && items.get(last) instanceof Damage before && before.end == start) {
            items.set(last, new Damage(before.reason, before.start, end));
        } else {
            items.add(new Damage(reason, start, end));
        }
    }

    /** Sequence rules of one link on the receiving side: replay, gaps, generations. Not thread-safe. */
    public static final class LinkReceiver {
        /** What becomes of an authenticated envelope; the first two are accepted. */
        public enum Verdict {
            NEXT(null),
            GAP(Counters.GAPS),
            DUPLICATE(Counters.DUPLICATES),
            OLD_GENERATION(Counters.REJECTED_OLD_GENERATION);

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
}
