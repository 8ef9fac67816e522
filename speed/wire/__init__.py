"""Bytes to values and back: names, envelopes, sealing, payloads. No I/O, no clock, no threads."""
