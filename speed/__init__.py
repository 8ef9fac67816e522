"""SPEED: secure filesystem IPC between unrelated processes. The public names are those of ``__all__``."""
