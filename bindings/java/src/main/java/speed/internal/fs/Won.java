package speed.internal.fs;

/**
 * A claim of this process.
 *
 * @param former the highest generation that was used before, 0 where there was none
 */
public record Won(Claimant claimant, int generation, int former) {}
