package speed.internal.wire;

/** What a payload is, and which flags it may carry. */
public enum EnvelopeType {
    MESSAGE(11),
    SPC_REQUEST(10),
    SPC_RESPONSE(14),
    EVENT(11),
    DISCOVERY(4),
    HEARTBEAT(4),
    ERROR(4),
    ACK(4);

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
