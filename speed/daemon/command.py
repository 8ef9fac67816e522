"""The command line of speedd: to run it, check its configuration, and see and steer the one that runs."""

from __future__ import annotations

import fcntl
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import click

from speed import __version__
from speed.daemon.config import MOST_INSTANCES, Config, Mistake
from speed.daemon.guardian import LOOK_SECONDS
from speed.errors import ConfigurationError, SpeedError, exit_status
from speed.fs.keyfile import default_root
from speed.observe.speedd import ASK_SECONDS, ask
from speed.wire.text import harmless_lines

EPILOG = """\b
Exit status:
  0  stopped as asked; `check`: no mistake
  1  failed while running (for example: the lease was lost)
  2  wrong usage of this command
  3  the configuration is wrong, or the node's name is taken
"""

ROOT_LINE = re.compile(r"""^\s*root\s*=\s*(?P<quote>["'])(?P<root>[^"'\\]+)(?P=quote)""", re.MULTILINE)

CHECK_SECONDS = 3.0
"""How long a check waits for the speedd that runs: it is right without its answer."""

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
    """Run until SIGTERM. SIGHUP reads the file again, as `speedd reload` does, and opens the log again."""
    from speed.daemon.app import run as run_daemon
    from speed.daemon.surroundings_check import sound_config

    raise SystemExit(run_daemon(sound_config(file), ready_fd))


@speedd.command()
@config_option
def check(file: Path) -> None:
    """Explain every mistake in the configuration, with its line, and what may be a slip."""
    from speed.daemon.surroundings_check import slips, sound_config

    config = sound_config(file)
    click.echo(_summary(config))
    for slip in slips(config):
        click.echo(harmless_lines(f"{config.path}: {slip}"))
    if waiting := _waiting(config):
        click.echo(harmless_lines(f"The speedd that runs takes these over only by a restart: {', '.join(waiting)}."))


@speedd.command()
@config_option
@click.option("--json", "as_json", is_flag=True, help="One object.")
def status(file: Path, as_json: bool) -> None:
    """Show what is wrong first, then the processes of the speedd that runs.

    Exit status 1 if something is wrong.
    """
    found = _answer_of(file, {"do": "status"})
    if as_json:
        click.echo(json.dumps(found))
    else:
        _show(found)
    raise SystemExit(1 if found["troubles"] else 0)


def _show(found: dict[str, Any]) -> None:
    for trouble in found["troubles"]:
        click.echo(harmless_lines(f"! {trouble['what']}\n    {trouble['cure']}"))
    for notice in found.get("notices", ()):
        click.echo(harmless_lines(f"- {notice['what']}\n    {notice['cure']}"))
    how = "ending" if found["stopping"] else "ready" if found["ready"] else "not ready"
    click.echo(harmless_lines(f"{found['node']}: {how}, pid {found['pid']}, root {found['root']}, {found['config']}"))
    for process in found["processes"]:
        pid = f"pid {process['pid']}" if process["pid"] else "no process"
        ended = f", ended last with {process['last_end']}" if process["last_end"] else ""
        starts = f"{process['starts']} start{'s' * (process['starts'] != 1)}"
        click.echo(harmless_lines(f"  {process['name']}: {process['state']}, {pid}, {starts}{ended}"))


@speedd.command()
@config_option
def console(file: Path) -> None:
    """Print an address of the console, for one browser and ten minutes."""
    click.echo(_answer_of(file, {"do": "console"})["address"])


@speedd.command()
@config_option
def reload(file: Path) -> None:
    """Have the configuration read again; says why where it is refused, and what runs then stays as it was."""
    _answer_of(file, {"do": "reload"})


@speedd.command()
@config_option
@click.option("--timeout", "timeout_seconds", type=float, default=60.0, show_default=True, help="Seconds to wait for.")
def stop(file: Path, timeout_seconds: float) -> None:
    """Ask speedd to end, and wait until it has."""
    _answer_of(file, {"do": "stop"}, timeout_seconds)


@speedd.command()
@config_option
@click.option("--timeout", "timeout_seconds", type=float, default=60.0, show_default=True, help="Seconds to wait for.")
@click.argument("name")
def restart(file: Path, name: str, timeout_seconds: float) -> None:
    """End the process NAME, start it again, and wait until it serves."""
    starts = _answer_of(file, {"do": "restart", "name": name})["starts"]
    ends = time.monotonic() + timeout_seconds
    while time.monotonic() < ends:
        [process] = [one for one in _answer_of(file, {"do": "status"})["processes"] if one["name"] == name]
        if process["state"] == "running" and process["starts"] != starts:
            return
        time.sleep(LOOK_SECONDS)
    raise SpeedError(f"process {name!r} does not serve after {timeout_seconds:g} s; it is {process['state']}")


@speedd.command()
@config_option
@click.option("--timeout", "timeout_seconds", type=float, default=60.0, show_default=True, help="Seconds to wait for.")
@click.argument("name")
@click.argument("count", type=click.IntRange(0, MOST_INSTANCES))
def scale(file: Path, name: str, count: int, timeout_seconds: float) -> None:
    """Have COUNT of the process NAME run, and wait until they serve.

    Those beyond are asked to end. It lasts until the next reload. NAME has a count in the configuration.
    """
    wanted = set(_answer_of(file, {"do": "scale", "name": name, "count": count})["processes"])
    ends = time.monotonic() + timeout_seconds
    while time.monotonic() < ends:
        states = {one["name"]: one["state"] for one in _answer_of(file, {"do": "status"})["processes"]}
        missing = sorted(one for one in wanted if states.get(one) != "running")
        if not missing:
            return
        time.sleep(LOOK_SECONDS)
    raise SpeedError(f"after {timeout_seconds:g} s these do not serve: {', '.join(missing)}")


def _answer_of(file: Path, request: dict[str, Any], timeout_seconds: float = ASK_SECONDS) -> dict[str, Any]:
    """What the speedd of a configuration answers."""
    found = ask(_root_of(file), request, timeout_seconds)
    if "error" in found:
        raise ConfigurationError(found["error"])
    return found


def _root_of(file: Path) -> str:
    """The root that a configuration names."""
    from speed.daemon.surroundings_check import load_config, text_of

    try:
        root = load_config(file).node.root
    except ConfigurationError:  # what runs is asked all the same, if the file still says where
        written = ROOT_LINE.search(text_of(file))
        if written is None:
            raise
        root = file.absolute().parent / Path(written["root"]).expanduser()
    return os.path.abspath(root or default_root())


def _waiting(config: Config) -> list[str]:
    """What a running speedd would not take over of its own file; nothing where none runs or may be asked."""
    try:
        found = ask(os.path.abspath(config.node.root or default_root()), {"do": "compare"}, CHECK_SECONDS)
    except (SpeedError, OSError):
        return []
    is_own = found.get("config") == str(config.path)
    return [str(one) for one in found.get("waiting", ())] if is_own else []


def _summary(config: Config) -> str:
    return (
        f"{config.path}: no mistakes. Node {config.node.name!r}, "
        f"services: {len(config.services)}, "
        f"processes: {sum(len(one.instances()) for one in config.processes)}{_journal_summary(config)}."
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
