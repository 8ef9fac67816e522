"""speedd: a daemon that hosts services, supervises service processes and keeps the registry clean."""

from __future__ import annotations


def main() -> None:
    """The command ``speedd``."""
    from speed.daemon.command import main as run_command

    run_command()
