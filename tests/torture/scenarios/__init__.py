"""One module a scenario; each holds a ``SCENARIO``."""
