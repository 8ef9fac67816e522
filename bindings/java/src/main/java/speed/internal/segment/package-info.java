/**
 * Payloads in segments, with parity: what a program can use without a node as well ({@code registry_spec/segments.md}).
 *
 * <p>Pure: bytes and times come in, bytes and verdicts go out. {@link speed.internal.segment.Splitter} needs nothing but a
 * segment size; {@link speed.internal.segment.Assembler} puts together what it made.
 */
package speed.internal.segment;
