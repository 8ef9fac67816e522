"""Decisions without I/O: leases, access, sequences, services, pending calls. Time is passed in."""
