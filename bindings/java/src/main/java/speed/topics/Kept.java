package speed.topics;

/**
 * Where a message that was published is kept.
 *
 * @param offset of a repetition that of the message that is kept; -1 if the host does not remember it
 * @param duplicate whether it was there before: then nothing was kept again
 */
public record Kept(long offset, boolean duplicate) {}
