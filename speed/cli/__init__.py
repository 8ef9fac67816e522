"""The command ``speed``: look at nodes, call services, send messages, keep a root in order."""

from __future__ import annotations


def main() -> None:
    """The command ``speed``."""
    from speed.cli.app import main as run_command

    run_command()
