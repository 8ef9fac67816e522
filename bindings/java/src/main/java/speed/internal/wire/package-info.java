/** Bytes to values and back: names, envelopes, keys, payloads. No I/O, no clock, no threads. */
package speed.internal.wire;
