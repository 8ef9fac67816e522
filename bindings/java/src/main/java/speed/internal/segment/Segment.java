package speed.internal.segment;

import static speed.internal.wire.Fields.SegmentMessageProto.DATA_SEGMENT_COUNT;
import static speed.internal.wire.Fields.SegmentMessageProto.DATA_SEGMENT_INDEX;
import static speed.internal.wire.Fields.SegmentMessageProto.ENTIRE_MESSAGE_HASH;
import static speed.internal.wire.Fields.SegmentMessageProto.IS_PARITY;
import static speed.internal.wire.Fields.SegmentMessageProto.PARITY_SEGMENT_COUNT;
import static speed.internal.wire.Fields.SegmentMessageProto.PARITY_SEGMENT_INDEX;
import static speed.internal.wire.Fields.SegmentMessageProto.PAYLOAD;
import static speed.internal.wire.Fields.SegmentMessageProto.UNORDERED;
import static speed.internal.wire.RecordWalk.LENGTH_DELIMITED;
import static speed.internal.wire.RecordWalk.VARINT;

import java.nio.ByteBuffer;
import java.util.Arrays;
import speed.errors.WireException;
import speed.internal.wire.Limits;
import speed.internal.wire.RecordWalk;

/**
 * One segment: {@code SegmentMessageProto} and what makes one valid.
 *
 * @param hash of the whole payload
 * @param dataCount how many data segments the payload has, the k of the rules
 * @param parityCount how many parity segments it has, the m of the rules
 * @param index among its kind
 * @param isParity whether it is parity
 * @param payload data, or one parity shard
 * @param unordered whether what its sender wrote behind the payload need not wait for it
 */
public record Segment(
        byte[] hash, int dataCount, int parityCount, int index, boolean isParity, byte[] payload, boolean unordered) {
    /** Shards that have parity are whole units of so many bytes. */
    public static final int SHARD_UNIT = 64;
    /** All fields but the payload's bytes. */
    public static final int MAX_HEAD_BYTES = 62;

    private static final long LOW_32 = (1L << 32) - 1;

    /**
     * A segment of a payload that keeps its sender's order.
     *
     * @param hash of the whole payload
     * @param dataCount how many data segments the payload has
     * @param parityCount how many parity segments it has
     * @param index among its kind
     * @param isParity whether it is parity
     * @param payload data, or one parity shard
     */
    public Segment(byte[] hash, int dataCount, int parityCount, int index, boolean isParity, byte[] payload) {
        this(hash, dataCount, parityCount, index, isParity, payload, false);
    }

    /**
     * The same segment of a payload that nothing behind it need wait for.
     *
     * @return with that mark
     */
    public Segment asUnordered() {
        return new Segment(hash, dataCount, parityCount, index, isParity, payload, true);
    }

    /**
     * Its place among all segments of the payload, parity behind the data.
     *
     * @return from 0
     */
    public int slot() {
        return isParity ? dataCount + index : index;
    }

    /**
     * Whether it may be shorter than the others.
     *
     * @return true for the last data segment
     */
    public boolean isLastData() {
        return !isParity && index == dataCount - 1;
    }

    /**
     * Its bytes.
     *
     * @return one serialized message
     */
    public byte[] write() {
        ByteBuffer out = ByteBuffer.allocate(MAX_HEAD_BYTES + payload.length);
        putBytes(out, ENTIRE_MESSAGE_HASH, hash);
        putNumber(out, DATA_SEGMENT_INDEX, isParity ? 0 : index);
        putNumber(out, DATA_SEGMENT_COUNT, dataCount);
        putBytes(out, PAYLOAD, payload);
        putNumber(out, PARITY_SEGMENT_INDEX, isParity ? index : 0);
        putNumber(out, PARITY_SEGMENT_COUNT, parityCount);
        putNumber(out, IS_PARITY, isParity ? 1 : 0);
        putNumber(out, UNORDERED, unordered ? 1 : 0);
        return Arrays.copyOf(out.array(), out.position());
    }

    private static void putNumber(ByteBuffer out, int field, int value) {
        if (value != 0) {
            out.put((byte) (field << 3 | VARINT));
            putVarint(out, value);
        }
    }

    private static void putBytes(ByteBuffer out, int field, byte[] value) {
        if (value.length > 0) {
            out.put((byte) (field << 3 | LENGTH_DELIMITED));
            putVarint(out, value.length);
            out.put(value);
        }
    }

    private static void putVarint(ByteBuffer out, int value) {
        int rest = value;
        while (rest > 0x7F) {
            out.put((byte) (rest | 0x80));
            rest >>>= 7;
        }
        out.put((byte) rest);
    }

    /**
     * The segment that the bytes hold.
     *
     * @param data one serialized message
     * @return a valid segment with its own copy of the payload
     * @throws WireException BAD_SEGMENT, naming the first field that is wrong
     */
    public static Segment read(byte[] data) {
        Fields fields = new Fields();
        RecordWalk walk = new RecordWalk(data, 0, data.length);
        try {
            while (walk.advance()) {
                fields.take(walk);
            }
        } catch (WireException broken) {
            throw refused("records", "are not those of a message");
        }
        return fields.checked(data);
    }

    /** The known fields of one message; of repeated ones the last counts. */
    private static final class Fields {
        private final long[] numbers = new long[UNORDERED + 1];
        private final int[] begins = new int[UNORDERED + 1];
        private final int[] ends = new int[UNORDERED + 1];

        void take(RecordWalk walk) {
            if (walk.field > UNORDERED) {
                return;
            }
            boolean isBytes = walk.field == ENTIRE_MESSAGE_HASH || walk.field == PAYLOAD;
            if (isBytes && walk.type == LENGTH_DELIMITED) {
                begins[walk.field] = walk.value;
                ends[walk.field] = walk.next();
            } else if (!isBytes && walk.type == VARINT) {
                numbers[walk.field] = walk.number;
            }
        }

        Segment checked(byte[] data) {
            boolean isParity = numbers[IS_PARITY] != 0;
            long dataCount = low(DATA_SEGMENT_COUNT);
            long parityCount = low(PARITY_SEGMENT_COUNT);
            require(
                    size(ENTIRE_MESSAGE_HASH) == Keccak.HASH_BYTES,
                    "entire_message_hash",
                    size(ENTIRE_MESSAGE_HASH) + " bytes");
            require(dataCount != 0, "data_segment_count", "0");
            require(
                    dataCount + parityCount <= Limits.MAX_SEGMENTS && !(isParity && parityCount == 0),
                    "parity_segment_count",
                    dataCount + " + " + parityCount + " segments");
            require(
                    low(DATA_SEGMENT_INDEX) < (isParity ? 1 : dataCount),
                    "data_segment_index",
                    "" + low(DATA_SEGMENT_INDEX));
            require(
                    low(PARITY_SEGMENT_INDEX) < (isParity ? parityCount : 1),
                    "parity_segment_index",
                    "" + low(PARITY_SEGMENT_INDEX));
            boolean mayBeEmpty = dataCount == 1 && !isParity;
            boolean isWhole = !isParity || size(PAYLOAD) % SHARD_UNIT == 0;
            require((size(PAYLOAD) > 0 || mayBeEmpty) && isWhole, "payload", size(PAYLOAD) + " bytes");
            int index = (int) low(isParity ? PARITY_SEGMENT_INDEX : DATA_SEGMENT_INDEX);
            return new Segment(
                    bytes(data, ENTIRE_MESSAGE_HASH),
                    (int) dataCount,
                    (int) parityCount,
                    index,
                    isParity,
                    bytes(data, PAYLOAD),
                    numbers[UNORDERED] != 0);
        }

        private long low(int field) {
            return numbers[field] & LOW_32;
        }

        private int size(int field) {
            return ends[field] - begins[field];
        }

        private byte[] bytes(byte[] data, int field) {
            return Arrays.copyOfRange(data, begins[field], ends[field]);
        }
    }

    private static void require(boolean holds, String field, String what) {
        if (!holds) {
            throw refused(field, what + " not allowed");
        }
    }

    private static WireException refused(String field, String why) {
        return new WireException("BAD_SEGMENT", field + ": " + why);
    }

    /**
     * How a payload is cut.
     *
     * @param payloadBytes size of the payload
     * @param segmentSize most bytes of it in one segment
     * @param dataCount data segments
     * @param parityCount parity segments
     */
    public record Shape(long payloadBytes, int segmentSize, int dataCount, int parityCount) {}

    /**
     * Whose payload it is.
     *
     * @param sender authenticated name of the sender
     * @param kind type of its envelopes
     * @param hash of the payload
     */
    public record PayloadKey(String sender, int kind, byte[] hash) {
        @Override
        public boolean equals(Object other) {
            return other instanceof PayloadKey key
                    && sender.equals(key.sender)
                    && kind == key.kind
                    && Arrays.equals(hash, key.hash);
        }

        @Override
        public int hashCode() {
            return 31 * (31 * sender.hashCode() + kind) + Arrays.hashCode(hash);
        }

        @Override
        public String toString() {
            return "a payload of " + sender;
        }
    }
}
