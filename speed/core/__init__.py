<<<<<<< HEAD
"""Decisions without I/O: leases, access, sequences, services, pending calls. Time is passed in."""
=======
"""Decisions without I/O: time, randomness and facts about the world are passed in."""
>>>>>>> registry
