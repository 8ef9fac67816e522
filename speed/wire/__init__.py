"""Bytes to values and back, without I/O, clock, randomness or threads (rules W-n, S-n)."""
