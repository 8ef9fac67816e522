"""Bridges of speedd: messages carried between a root and backends, or between backends (B-11 to B-19)."""
