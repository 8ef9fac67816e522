package speed.errors;

/** What was received in segments cannot be kept or read: the store is locked, full or damaged. */
public final class SegmentStoreException extends DeliveryException {
    private static final long serialVersionUID = 1L;

    /** Whether what the store holds is of no use any more. */
    private final boolean damaged;

    /**
     * An error with the code SEGMENT_STORE.
     *
     * @param message what happened
     * @param damaged whether what the store holds is of no use any more
     */
    public SegmentStoreException(String message, boolean damaged) {
        super("SEGMENT_STORE", message);
        this.damaged = damaged;
    }

    /**
     * Whether what the store holds is of no use any more: another version, another key, or not what was written.
     *
     * @return false when it may work the next time
     */
    public boolean isDamaged() {
        return damaged;
    }
}
