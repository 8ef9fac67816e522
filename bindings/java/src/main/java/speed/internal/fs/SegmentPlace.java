package speed.internal.fs;

/**
 * Where a segment's bytes lie in the file of its payload.
 *
 * @param slot of the payload
 * @param size of the segment in bytes
 * @param offset of its first sealed block
 * @param atMs when it came, in Unix ms
 */
record SegmentPlace(int slot, int size, long offset, long atMs) {}
