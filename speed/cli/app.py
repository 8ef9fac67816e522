"""The group of all commands, imported one at a time, and the turning of errors into exit statuses."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

import click

from speed import __version__
from speed.cli.options import echo, echo_json, place_options, print_value, show_what_can_be_shown
from speed.errors import AccessDeniedError, CallError, SpeedError, exit_status

COMMANDS: dict[str, tuple[str, str]] = {
    "init": ("speed.cli.keys", "Prepare a root: the directory, its registry and a key."),
    "key": ("speed.cli.keys", "Make, identify and rotate keys."),
    "message-key": ("speed.cli.messages", "Make and rotate the keys that sign and encrypt messages."),
    "nodes": ("speed.cli.directory", "List live nodes."),
    "services": ("speed.cli.directory", "List the services of a node that you may call."),
    "stats": ("speed.cli.directory", "Show the counters of a node."),
    "hosts": ("speed.cli.directory", "List other hosts, and whether they can be reached."),
    "ping": ("speed.cli.directory", "Measure the round trip to a node."),
    "call": ("speed.cli.topic", "Call a service and print its result."),
    "send": ("speed.cli.topic", "Send one message."),
    "listen": ("speed.cli.topic", "Print messages sent to this node."),
    "publish": ("speed.cli.topic", "Publish one event."),
    "subscribe": ("speed.cli.topic", "Print events of a topic."),
    "journal": ("speed.cli.journal", "Look into the journal that speedd keeps."),
    "topic": ("speed.cli.topic", "Make, use and look after topics that keep their messages."),
    "bridge": ("speed.cli.directory", "See the bridges of speedd to Kafka and other backends."),
    "dead": ("speed.cli.dead", "List, show, retry and drop messages that a node could not handle."),
    "schema": ("speed.cli.messages", "Compare schemas of payloads, and see who uses old ones."),
    "envelope": ("speed.cli.messages", "Look into messages that lie in files, and migrate those of backends."),
    "doctor": ("speed.cli.doctor", "Examine a root and this machine."),
    "backup": ("speed.cli.backup", "Copy a root while its nodes run."),
    "purge": ("speed.cli.gc", "Remove all that is left of one node that is not alive."),
    "gc": ("speed.cli.gc", "Remove what dead nodes left behind."),
    "bench": ("speed.cli.bench", "Measure between two processes of its own."),
    "completion": ("speed.cli.app", "Print shell completion for bash, zsh or fish."),
}
"""Command -> (module that holds a click command of that name, one line about it)."""

EPILOG = """\b
Exit status:
  0  done
  1  failed (the message says why); `doctor`: something is broken
  2  wrong usage: options, arguments, a payload that cannot be sent
  3  wrong configuration: key, root, names; a name that is taken
  4  no such node, or it left
  5  access denied
  6  no answer in time
  7  the other side answered with an error
  8  storage: disk full, inbox full, write refused; `doctor`: nodes cannot write or read
  130  interrupted

\b
Environment: SPEED_ROOT is the root, SPEED_KEY the key file, unless --root or --key is given,
before a command or after it.

\b
JSON: bytes are Base64, times ISO 8601; NaN, Infinity and -Infinity are texts;
a map with two keys of one text, as 1 and "1", is a list of pairs.
"""


class LazyGroup(click.Group):
    """Imports a command's module when it is used; its help line is known without."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(COMMANDS[cmd_name][0])
        command: click.Command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(cls=LazyGroup, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="speed")
@place_options
def speed(**_: Any) -> None:
    """Look at SPEED nodes, call their services, send messages, keep a root in order."""


def main() -> None:
    """Run the command line of this process and exit."""
    as_json = "--json" in sys.argv[1:]
    show_what_can_be_shown()
    try:
        status = speed.main(prog_name="speed", standalone_mode=False)
    except click.exceptions.Abort:
        _exit(130)
    except click.ClickException as error:
        _report("USAGE", error.format_message(), {}, as_json)
        _exit(error.exit_code)
    except SpeedError as error:
        _report(error.code, _explained(error), getattr(error, "details", {}), as_json)
        _exit(exit_status(error))
    except KeyboardInterrupt:
        _exit(130)
    except BrokenPipeError:
        # The reader of our output is gone (| head): nothing more to say, and nothing to flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _exit(1)
    except OSError as error:
        _report("STORAGE", f"{error.filename or 'system'}: {error.strerror or error}; see `speed doctor`", {}, as_json)
        _exit(8)
    _exit(status if isinstance(status, int) else 0)


def _explained(error: SpeedError) -> str:
    """The message; for the most common trouble with commands, what to do about it."""
    text = str(error)
    if isinstance(error, AccessDeniedError):
        return f"{text} (the receiver must allow this command's name, e.g. node.allow('cli.*'); or use --as NAME)"
    if isinstance(error, CallError) and error.details.get("phase"):
        return f"{text} (phase: {error.details['phase']})"
    return text


def _report(code: str, message: str, details: Any, as_json: bool) -> None:
    """One line on stderr: for people, or a JSON object."""
    if as_json:
        echo_json({"error": {"code": code, "message": message, "details": details}}, error=True)
    else:
        echo(f"speed: {code}: {' '.join(message.split())}", error=True)


def _exit(status: int) -> None:
    raise SystemExit(status)


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print shell completion, e.g. `eval "$(speed completion bash)"`."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"there is no completion for {shell}")
    print_value(kind(speed, {}, "speed", "_SPEED_COMPLETE").source(), False)
