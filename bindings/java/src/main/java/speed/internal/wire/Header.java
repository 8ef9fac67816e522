package speed.internal.wire;

import java.nio.ByteBuffer;
import speed.errors.WireException;

/**
 * Both headers of one envelope, checked. All integers are big-endian.
 *
 * <pre>
 *  0 version  1 type  2 flags  4 header length = 64  8 sequence  16 timestamp ms  24 payload bytes
 * 32 source id  48 target id  |  64 key id  72 reserved  76 nonce  |  88 ciphertext … tag(16)
 * </pre>
 */
public record Header(
        EnvelopeType type,
        int flags,
        long sequence,
        long timestampMs,
        int payloadBytes,
        NodeId source,
        NodeId target,
        long keyId) {
    public static final int OVERHEAD = Limits.AAD_BYTES + Limits.TAG_BYTES;
    public static final int IDS_AT = 32;
    static final int NONCE_AT = 76;

    public boolean has(int flag) {
        return (flags & flag) != 0;
    }

    public int generation() {
        return Sequence.generation(sequence);
    }

    /** The same as if its payload, which lies in a slot, lay in it. */
    public Header with(int otherBytes) {
        return new Header(
                type, flags & ~EnvelopeType.SLOTTED, sequence, timestampMs, otherBytes, source, target, keyId);
    }

    /** Bytes of the whole envelope. */
    public int envelopeBytes() {
        return OVERHEAD + payloadBytes;
    }

    /** Writes the 88 bytes before the ciphertext, without the nonce; they are the associated data. */
    void put(ByteBuffer into, int at) {
        into.put(at, (byte) Limits.PROTOCOL_VERSION)
                .put(at + 1, (byte) type.number())
                .putShort(at + 2, (short) flags)
                .putInt(at + 4, Limits.HEADER_BYTES)
                .putLong(at + 8, sequence)
                .putLong(at + 16, timestampMs)
                .putLong(at + 24, payloadBytes);
        source.put(into, at + IDS_AT);
        target.put(into, at + IDS_AT + Limits.NODE_ID_BYTES);
        into.putLong(at + 64, keyId).putInt(at + 72, 0);
    }

    /**
     * Reads and checks the headers at an offset, in the order in which wire.md lists the checks. Nothing is authentic before the tag
     * was verified; only the bounds are.
     *
     * @param available bytes that may be looked at from {@code at} on
     */
    public static Header parse(ByteBuffer data, int at, int available) {
        require(available >= Limits.AAD_BYTES, "TRUNCATED", "fewer than 88 bytes of header");
        require(data.get(at) == Limits.PROTOCOL_VERSION, "BAD_VERSION", "another version than 1");
        EnvelopeType type = EnvelopeType.of(data.get(at + 1) & 0xFF);
        require(type != null, "BAD_TYPE", "no such type");
        int flags = data.getShort(at + 2) & 0xFFFF;
        require(type.mayCarry(flags), "BAD_FLAGS", "flags do not belong to the type");
        require(data.getInt(at + 4) == Limits.HEADER_BYTES, "BAD_HEADER_LENGTH", "header length is not 64");
        require(data.getInt(at + 72) == 0, "BAD_RESERVED", "reserved bytes are not zero");
        long sequence = data.getLong(at + 8);
        boolean counts = Sequence.generation(sequence) != 0 && Sequence.counter(sequence) != 0;
        require(counts, "BAD_SEQUENCE", "generation and counter start at 1");
        long size = data.getLong(at + 24);
        require(size >= 0 && size <= Limits.MAX_PAYLOAD_BYTES, "TOO_LARGE", "payload over the limit");
        return new Header(
                type,
                flags,
                sequence,
                data.getLong(at + 16),
                (int) size,
                NodeId.at(data, at + IDS_AT),
                NodeId.at(data, at + IDS_AT + Limits.NODE_ID_BYTES),
                data.getLong(at + 64));
    }

    private static void require(boolean holds, String reason, String message) {
        if (!holds) {
            throw new WireException(reason, message);
        }
    }

    /** Sequence numbers: generation in the upper 24 bits, counter in the lower 40. Compare as unsigned. */
    public static final class Sequence {
        public static final long MAX_COUNTER = (1L << Limits.COUNTER_BITS) - 1;

        private Sequence() {}

        public static long of(int generation, long counter) {
            return (long) generation << Limits.COUNTER_BITS | counter;
        }

        public static int generation(long sequence) {
            return (int) (sequence >>> Limits.COUNTER_BITS);
        }

        public static long counter(long sequence) {
            return sequence & MAX_COUNTER;
        }
    }

    /** What a payload is, and which flags it may carry. */
    public enum EnvelopeType {
        MESSAGE(11),
        SPC_REQUEST(10),
        SPC_RESPONSE(14),
        EVENT(11),
        DISCOVERY(4),
        HEARTBEAT(4),
        ERROR(4),
        ACK(4),
        STREAM(4);

        public static final int ACK_REQUESTED = 1;
        public static final int SEGMENT = 2;
        /** Passes without a grant, so no MESSAGE, EVENT or SPC_REQUEST may carry it. */
        public static final int REPLY = 4;
        /** The payload lies in a slot; the envelope holds its head. */
        public static final int SLOTTED = 8;

        private static final EnvelopeType[] ALL = values();

        private final int allowedFlags;

        EnvelopeType(int allowedFlags) {
            this.allowedFlags = allowedFlags;
        }

        /** The type with a number of the wire, null if there is none. */
        public static EnvelopeType of(int number) {
            return number >= 1 && number <= ALL.length ? ALL[number - 1] : null;
        }

        /** The number on the wire. */
        public int number() {
            return ordinal() + 1;
        }

        public boolean mayCarry(int flags) {
            return (flags & ~allowedFlags) == 0;
        }

        /** Types that are finished after they were handled; all others are done when they are read. */
        public boolean isWork() {
            return this == MESSAGE || this == SPC_REQUEST || this == EVENT;
        }
    }
}
