package speed.options;

import speed.errors.ConfigurationException;
import speed.internal.wire.StreamPart;

/**
 * How far a call is, as its service says. Immutable.
 *
 * @param done how much is done, from 0
 * @param total how much there is, of the same unit; null where the service does not know
 * @param note a few words, maybe none
 */
public record StreamProgress(double done, Double total, String note) {
    /**
     * Checks the numbers.
     *
     * @param done how much is done, from 0
     * @param total how much there is, of the same unit; null where the service does not know
     * @param note a few words, maybe none
     * @throws ConfigurationException for what is no number from 0
     */
    public StreamProgress {
        if (!StreamPart.isAmount(done) || total != null && !StreamPart.isAmount(total)) {
            throw new ConfigurationException("progress of " + done + " of " + total + ": use numbers from 0");
        }
        note = note == null ? "" : note;
    }
}
