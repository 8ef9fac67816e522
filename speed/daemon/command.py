"""The command line of speedd: ``run`` and ``check``."""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path

import click

from speed import __version__
from speed.daemon.config import Config, Mistake
from speed.errors import SpeedError, exit_status
from speed.wire.text import harmless_lines

EPILOG = """\b
Exit status:
  0  stopped as asked; `check`: no mistake
  1  failed while running (for example: the lease was lost)
  2  wrong usage of this command
  3  the configuration is wrong, or the node's name is taken
"""

config_option = click.option(
    "-c",
    "--config",
    "file",
    type=click.Path(path_type=Path),
    default=Path("speedd.toml"),
    show_default=True,
    help="The configuration file (TOML).",
)


def writable(_context: click.Context, _option: click.Parameter, fd: int | None) -> int | None:
    """``fd`` if it is open for writing; looked at before anything else is opened."""
    try:
        if fd is not None and fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise click.BadParameter(f"{fd} is open for reading only: pass the end of the pipe that is written to")
    except (OSError, ValueError, OverflowError):
        raise click.BadParameter(f"{fd} is not open: pass a descriptor to this process") from None
    return fd


@click.group(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="speedd")
def speedd() -> None:
    """Host SPEED services, supervise service processes, keep the registry clean."""


@speedd.command()
@config_option
@click.option(
    "--ready-fd",
    type=int,
    callback=writable,
    help="Write READY and a newline to this descriptor when all processes are up.",
)
def run(file: Path, ready_fd: int | None) -> None:
    """Run until SIGTERM. SIGHUP reloads grants and bridges and opens the log file again."""
    from speed.daemon.app import run as run_daemon
    from speed.daemon.surroundings_check import sound_config

    raise SystemExit(run_daemon(sound_config(file), ready_fd))


@speedd.command()
@config_option
def check(file: Path) -> None:
    """Explain every mistake in the configuration, with its line."""
    from speed.daemon.surroundings_check import sound_config

    click.echo(_summary(sound_config(file)))


def _summary(config: Config) -> str:
    return (
        f"{config.path}: no mistakes. Node {config.node.name!r}, "
        f"services: {len(config.services)}, processes: {len(config.processes)}{_journal_summary(config)}."
    )


def _journal_summary(config: Config) -> str:
    journal = config.journal
    if journal is None:
        return ""
    return f", journal of {len(journal.topics)} topics, {len(journal.inboxes)} inboxes{', calls' * journal.calls}"


def main() -> None:
    """Run the command and turn errors into one line and an exit status."""
    try:
        speedd.main(standalone_mode=True)
    except SpeedError as error:
        print(harmless_lines(f"speedd: {error.code}: {error}"), file=sys.stderr)
        raise SystemExit(exit_status(error)) from None
    except OSError as error:
        print(harmless_lines(f"speedd: {error}"), file=sys.stderr)
        raise SystemExit(1) from None


__all__ = ["Mistake", "main"]
