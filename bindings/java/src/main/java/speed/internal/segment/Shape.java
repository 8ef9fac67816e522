package speed.internal.segment;

/**
 * How a payload is cut.
 *
 * @param payloadBytes size of the payload
 * @param segmentSize most bytes of it in one segment
 * @param dataCount data segments
 * @param parityCount parity segments
 */
public record Shape(long payloadBytes, int segmentSize, int dataCount, int parityCount) {}
