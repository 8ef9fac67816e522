package speed.errors;

/** The filesystem refused the write: full, quota, I/O error, permission. */
public final class StorageException extends DeliveryException {
    private static final long serialVersionUID = 1L;

    /** How many of a batch were accepted. */
    private final int envelopesWritten;

    /**
     * An error with the code STORAGE.
     *
     * @param message what happened and what to do
     * @param envelopesWritten how many envelopes of a batch were accepted before
     */
    public StorageException(String message, int envelopesWritten) {
        super("STORAGE", message);
        this.envelopesWritten = envelopesWritten;
    }

    /**
     * How many envelopes of a batch were accepted before the failure; 0 for a single one.
     *
     * @return a count
     */
    public int envelopesWritten() {
        return envelopesWritten;
    }
}
