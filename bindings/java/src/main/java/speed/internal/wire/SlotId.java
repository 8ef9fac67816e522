package speed.internal.wire;

/** One slot of a lane: of which generation of its sender, and which of its numbers from 1. */
public record SlotId(int generation, int number) {}
