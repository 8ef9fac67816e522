"""Bridges of speedd, measured beside the bare client of each backend."""
