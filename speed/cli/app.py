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

Commands = dict[str, tuple[str, str]]
"""Command -> (module:object, which is a click command, and one line about it)."""

SECTIONS: dict[str, Commands] = {
    "What goes on": {
        "status": ("speed.cli.figures:status_command", "Show what is wrong here, and what to do."),
        "top": ("speed.cli.live:top_command", "Show what services did in the last seconds."),
        "stats": ("speed.cli.live:stats_command", "Show the counters of a node, or of all."),
        "flows": ("speed.cli.live:flows_command", "Show who writes to whom, and how much."),
        "refused": ("speed.cli.figures:refused_command", "Show who is refused where, and what to do."),
        "watch": ("speed.cli.live:watch_command", "Print what happens: nodes, refusals, dead letters."),
        "trace": ("speed.cli.journal:trace_command", "Print what the journal has of one trace."),
        "metrics": ("speed.cli.figures:metrics_command", "Print OpenMetrics of all nodes, for Prometheus."),
    },
    "Nodes and calls": {
        "nodes": ("speed.cli.directory:nodes_command", "List live nodes."),
        "services": ("speed.cli.directory:services_command", "List the services of a node that you may call."),
        "describe": ("speed.cli.directory:describe_command", "Show what services take and give."),
        "stub": ("speed.cli.directory:stub_command", "Write a client with types for a node's services."),
        "ping": ("speed.cli.figures:ping_command", "Measure the round trip to a node."),
        "call": ("speed.cli.calls:call_command", "Call a service and print its result."),
        "hosts": ("speed.cli.directory:hosts_command", "List other hosts, and whether they can be reached."),
    },
    "Messages and events": {
        "send": ("speed.cli.calls:send_command", "Send one message."),
        "listen": ("speed.cli.calls:listen_command", "Print messages sent to this node."),
        "publish": ("speed.cli.calls:publish_command", "Publish one event."),
        "subscribe": ("speed.cli.calls:subscribe_command", "Print events of a topic."),
        "topic": ("speed.cli.topic:topic_command", "Use and look after topics that keep their messages."),
        "dead": ("speed.cli.directory:dead_command", "List, retry and drop messages that could not be handled."),
        "journal": ("speed.cli.journal:journal_command", "Look into the journal that speedd keeps."),
        "bridge": ("speed.cli.directory:bridge_command", "See the bridges of speedd to Kafka and other backends."),
        "message": ("speed.cli.app:message_command", "Keys, schemas and files of messages."),
    },
    "Upkeep": {
        "root": ("speed.cli.app:root_command", "Make, examine, clean and copy a root."),
        "key": ("speed.cli.keys:key_command", "Make, identify and rotate the key of a root."),
        "support-bundle": ("speed.cli.support:support_command", "Write what somebody who helps has to know."),
        "bench": ("speed.cli.bench:bench_command", "Measure between two processes of its own."),
        "completion": ("speed.cli.app:completion_command", "Print shell completion for bash, zsh or fish."),
    },
}
ROOT: Commands = {
    "init": ("speed.cli.keys:init_command", "Prepare a root: the directory, its registry and a key."),
    "doctor": ("speed.cli.root:doctor_command", "Examine a root and this machine."),
    "backup": ("speed.cli.backup:backup_command", "Copy a root while its nodes run."),
    "gc": ("speed.cli.root:gc_command", "Remove what dead nodes left behind."),
    "purge": ("speed.cli.root:purge_command", "Remove all that is left of one node that is not alive."),
}
MESSAGE: Commands = {
    "keys": ("speed.cli.messages:message_keys_command", "Make and rotate keys that sign and encrypt messages."),
    "schema": ("speed.cli.messages:schema_command", "Compare schemas of payloads, and see who uses old ones."),
    "envelope": ("speed.cli.messages:envelope_command", "Look into messages in files, migrate those of backends."),
}
SPARK: Commands = {
    "jar": ("speed.cli.app:jar_command", "Print the path of the jar for the class path of Spark's executors."),
}
UNLISTED = {"spark": "speed.cli.app:spark_command"}
"""At the top, which is short: commands that a page of the documentation leads to."""
FORMER = {
    **{name: f"root {name}" for name in ROOT},
    "message-key": "message keys",
    "schema": "message schema",
    "envelope": "message envelope",
}
"""Names that commands had before they stood in groups: they work until the next release, and no help lists them."""

DENIED = "DENIED"
"""What hosts of topics answer to who may not do that with a topic."""

EPILOG = """\b
Exit status:
  0  done
  1  failed (the message says why); `root doctor`: something is broken
  2  wrong usage: options, arguments, a payload that cannot be sent
  3  wrong configuration: key, root, names; a name that is taken
  4  no such node, or it left
  5  access denied
  6  no answer in time
  7  the other side answered with an error
  8  storage: disk full, inbox full, write refused;
     `root doctor`: nodes cannot write or read
  130  interrupted

\b
Environment: SPEED_ROOT is the root, SPEED_KEY the key file, unless --root or
--key is given, before a command or after it.

\b
JSON: bytes are Base64, times ISO 8601; NaN, Infinity and -Infinity are
texts; a map with two keys of one text, as 1 and "1", is a list of pairs.
"""


class LazyGroup(click.Group):
    """Imports a command's module when it is used; its help line is known without."""

    def __init__(
        self,
        *args: Any,
        sections: dict[str, Commands],
        unlisted: dict[str, str] | None = None,
        former: dict[str, str] | None = None,
        **kwargs: Any,
    ):
        super().__init__(*args, **kwargs)
        self._sections, self._unlisted, self._former = sections, unlisted or {}, former or {}
        self._places = {name: place for commands in sections.values() for name, (place, _) in commands.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self._former:
            group, _, name = self._former[cmd_name].partition(" ")
            below = self.get_command(ctx, group)
            return below.get_command(ctx, name) if isinstance(below, click.Group) else None
        place = self._places.get(cmd_name) or self._unlisted.get(cmd_name)
        if place is None:
            return None
        module, _, attribute = place.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self._places))  # of all sections, so that their lines begin in one column
        for title, commands in self._sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), line) for name, (_, line) in commands.items()])


@click.group(
    cls=LazyGroup,
    sections=SECTIONS,
    unlisted=UNLISTED,
    former=FORMER,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="speed")
@place_options
def speed(**_: Any) -> None:
    """Look at SPEED nodes, call their services, send messages, keep a root in order."""


@click.group("root", cls=LazyGroup, sections={"Commands": ROOT})
def root_command() -> None:
    """Make, examine, clean and copy a root, the directory in which nodes meet."""


@click.group("message", cls=LazyGroup, sections={"Commands": MESSAGE})
def message_command() -> None:
    """Keys that protect messages, schemas of their payloads, and messages that lie in files and backends."""


@click.group("spark", cls=LazyGroup, sections={"Commands": SPARK})
def spark_command() -> None:
    """What Spark's clusters need of this package."""


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
        _exit(5 if error.code == DENIED else exit_status(error))
    except KeyboardInterrupt:
        _exit(130)
    except BrokenPipeError:
        # The reader of our output is gone (| head): nothing more to say, and nothing to flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _exit(1)
    except OSError as error:
        _report(
            "STORAGE", f"{error.filename or 'system'}: {error.strerror or error}; see `speed root doctor`", {}, as_json
        )
        _exit(8)
    _exit(status if isinstance(status, int) else 0)


def _explained(error: SpeedError) -> str:
    """The message; for the most common trouble with commands, what to do about it."""
    text = str(error)
    if isinstance(error, AccessDeniedError):
        return f"{text} (the receiver must allow this command's name, e.g. node.allow('cli.*'); or use --as NAME)"
    if error.code == DENIED:
        return f"{text} (its [topics] or [[topic]] must grant this command's name: publish, consume or manage)"
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


@click.command("jar")
def jar_command() -> None:
    """Print the path of the jar by which Spark's executors call services themselves: for `spark.jars`."""
    paths = import_module("speed.spark.paths")  # one application knows another by its name alone, as commands are known
    print_value(str(paths.here()), False)
