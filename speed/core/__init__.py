"""Decisions without I/O: time, randomness and facts about the world are passed in."""
