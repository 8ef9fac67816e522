package speed.internal.segment;

import speed.errors.ConfigurationException;
import speed.errors.PayloadTooLargeException;
import speed.internal.segment.Segment.Shape;
import speed.internal.wire.Limits;

/** Cuts payloads into segments. Keeps nothing between them; thread-safe. */
public final class Splitter {
    /** Segments of a payload at most, where nobody said how large they are to be. */
    private static final int USUAL_SEGMENTS = 240;

    private final int segmentSize;
    private final double parityRate;

    /**
     * A splitter with the default parity, one parity segment for eight data segments.
     *
     * @param segmentSize most bytes of the payload in one segment; the greatest multiple of 64 in it is used
     * @throws ConfigurationException for a size below 64
     */
    public Splitter(int segmentSize) {
        this(segmentSize, Limits.PARITY_RATE);
    }

    /**
     * A splitter.
     *
     * @param segmentSize most bytes of the payload in one segment; with parity the greatest multiple of 64 in it is used
     * @param parityRate parity segments for each data segment, 0 for none, 1 at most
     * @throws ConfigurationException when the size or the rate cannot be used
     */
    public Splitter(int segmentSize, double parityRate) {
        if (!(parityRate >= 0 && parityRate <= 1)) {
            throw new ConfigurationException("parityRate " + parityRate + " cannot be used: choose one from 0 to 1");
        }
        int least = parityRate > 0 ? Segment.SHARD_UNIT : 1;
        if (segmentSize < least) {
            throw new ConfigurationException("segmentSize " + segmentSize + " cannot be used: choose at least "
                    + Segment.SHARD_UNIT + " with parity, 1 without");
        }
        this.segmentSize = segmentSize / least * least;
        this.parityRate = parityRate;
    }

    /**
     * Cuts a payload that no envelope holds, for a link that has no segment size.
     *
     * @param payloadBytes its size
     * @return a splitter without parity: a link loses nothing
     */
    public static Splitter ofPayload(long payloadBytes) {
        long least = (payloadBytes + USUAL_SEGMENTS - 1) / USUAL_SEGMENTS;
        long whole = (least + Segment.SHARD_UNIT - 1) / Segment.SHARD_UNIT * Segment.SHARD_UNIT;
        return new Splitter((int) Math.max(Limits.DATA_SEGMENT_BYTES, whole), 0);
    }

    /**
     * Cuts all that goes out on a link.
     *
     * @param segmentSize most bytes of a payload in one segment
     * @param parityRate parity segments for each data segment, 0 for none
     * @return a splitter whose segments fit into envelopes
     * @throws ConfigurationException for a size that no envelope holds, or a rate that cannot be used
     */
    public static Splitter ofLink(int segmentSize, double parityRate) {
        int most = Limits.MAX_PAYLOAD_BYTES - Segment.MAX_HEAD_BYTES;
        if (segmentSize > most) {
            throw new ConfigurationException(
                    "segmentSize " + segmentSize + " cannot be used: an envelope holds at most " + most);
        }
        return new Splitter(segmentSize, parityRate);
    }

    /**
     * The largest payload that can be cut with this parity.
     *
     * @return bytes
     */
    public long mostBytes() {
        int count = Limits.MAX_SEGMENTS;
        while (count + parityCount(count) > Limits.MAX_SEGMENTS) {
            count--;
        }
        return (long) count * segmentSize;
    }

    /**
     * How a payload of some size is cut.
     *
     * @param payloadBytes its size
     * @return counts of its segments
     * @throws PayloadTooLargeException when its data and the parity asked for need too many
     */
    public Shape shape(long payloadBytes) {
        if (payloadBytes > mostBytes()) {
            throw new PayloadTooLargeException(payloadBytes + " bytes exceed the " + mostBytes() + " that fit into "
                    + Limits.MAX_SEGMENTS + " segments of " + segmentSize + " bytes with a parity rate of " + parityRate
                    + ": send less, or use larger ones");
        }
        int count = (int) Math.max(1, (payloadBytes + segmentSize - 1) / segmentSize);
        return new Shape(payloadBytes, segmentSize, count, parityCount(count));
    }

    private int parityCount(int dataCount) {
        return Math.min((int) Math.ceil(dataCount * parityRate), dataCount);
    }

    /**
     * The segments of a payload.
     *
     * @param payload all of it
     * @return data first; each is made when it is asked for
     * @throws PayloadTooLargeException when it needs too many
     */
    public Iterable<Segment> split(byte[] payload) {
        return split(Source.of(payload));
    }

    /**
     * The segments of a payload, in bounded memory.
     *
     * @param payload is read twice, with parity three times, and once more for each 16 MiB of parity
     * @return data first; each is made when it is asked for
     * @throws PayloadTooLargeException when it needs too many
     */
    public Iterable<Segment> split(Source payload) {
        return cut(payload, shape(payload.size()));
    }

    /**
     * The segments of a payload that is cut as somebody else decided.
     *
     * @param payload as large as the shape says
     * @param shape with at most 255 segments
     * @return data first; each is made when it is asked for
     */
    public static Iterable<Segment> cut(Source payload, Shape shape) {
        return () -> new Cut(payload, shape, Keccak.of(payload));
    }

    /**
     * The same of a payload whose hash is known.
     *
     * @param payload as large as the shape says
     * @param shape with at most 255 segments
     * @param hash of the payload
     * @return data first; each is made when it is asked for
     */
    public static Iterable<Segment> cut(Source payload, Shape shape, byte[] hash) {
        return () -> new Cut(payload, shape, hash);
    }
}
