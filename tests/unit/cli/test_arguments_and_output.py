"""How `speed` reads arguments and prints values; which status an error becomes."""

from __future__ import annotations

import datetime
import io
import json
import sys
from collections.abc import Iterator

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

import speed
from speed.cli.app import FORMER, SECTIONS
from speed.cli.app import speed as speed_command
from speed.cli.bench import spread
from speed.cli.keys import rotated
from speed.cli.options import (
    answer_of,
    as_json,
    columns_that_fit,
    parse_arguments,
    print_value,
    show_what_can_be_shown,
    span,
)
from speed.errors import KeyFileError, SpeedError, WireError, exit_status
from speed.observe import bytes_text, seconds_text


def test_values_that_are_json_are_taken_as_json_and_others_as_text() -> None:
    words = ["n=5", "f=1.5", "b=true", "nil=null", 'list=[1, "x"]', 'text="5"', "plain=hello world", "nan=NaN", "e="]
    assert parse_arguments(words) == {
        "n": 5,
        "f": 1.5,
        "b": True,
        "nil": None,
        "list": [1, "x"],
        "text": "5",
        "plain": "hello world",
        "nan": "NaN",
        "e": "",
    }


def test_a_value_may_hold_an_equals_sign() -> None:
    assert parse_arguments(["query=a=b"]) == {"query": "a=b"}


@pytest.mark.parametrize("words", [["novalue"], ["=5"], ["a=1", "a=2"]])
def test_arguments_that_are_none_are_wrong_usage(words: list[str]) -> None:
    with pytest.raises(click.UsageError):
        parse_arguments(words)


def test_values_without_json_form_are_printed_as_text() -> None:
    time = datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone.utc)
    printed = json.loads(as_json({"data": b"\x00\xff", 5: (time,)}))
    assert printed == {"data": "AP8=", "5": ["2026-01-02T00:00:00+00:00"]}


def test_what_is_printed_is_always_json() -> None:
    odd = {"a": float("nan"), "b": [float("inf"), float("-inf")], "c": {1: "x", "1": "y"}, "d": {2: "z"}}
    printed = json.loads(as_json(odd), parse_constant=pytest.fail)
    assert printed == {"a": "NaN", "b": ["Infinity", "-Infinity"], "c": [[1, "x"], ["1", "y"]], "d": {"2": "z"}}


@pytest.mark.parametrize(
    ("encoding", "as_value", "as_line"), [("latin-1", '["\\u00e9\\u2603"]', "é\\u2603"), ("utf-8", '["é☃"]', "é☃")]
)
def test_what_the_output_has_no_letters_for_is_escaped(
    monkeypatch: pytest.MonkeyPatch, encoding: str, as_value: str, as_line: str
) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding))
    show_what_can_be_shown()
    print_value(["é☃"], True)
    print_value("é☃", False)
    sys.stdout.flush()
    assert raw.getvalue().decode(encoding) == f"{as_value}\n{as_line}\n"


def test_an_answer_of_another_form_names_its_node() -> None:
    def read(described: dict[str, int]) -> int:
        return described["end"]

    with pytest.raises(WireError, match="BAD_PAYLOAD: evil answered with what is no such answer"), answer_of("evil"):
        read({})


def test_a_narrow_terminal_gets_fewer_columns_and_whole_names() -> None:
    columns, row = ("name", "pid", "allows", "host"), ("etl.nightly-aggregation.executor-12", "1455", "x" * 90, "vm")
    assert [columns_that_fit(columns, [row], width) for width in (200, 80, 60, 20)] == [4, 4, 2, 2]


def test_spans_and_sizes_are_readable() -> None:
    assert [seconds_text(s) for s in (47e-6, 0.0032, 3.24, 125, 7500)] == [
        "47 µs",
        "3.2 ms",
        "3.2 s",
        "2 min",
        "2 h 05 min",
    ]
    assert [bytes_text(size) for size in (12, 1536, 1 << 30)] == ["12 B", "1.5 KiB", "1.0 GiB"]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (SpeedError("x"), 1),
        (speed.LeaseLostError("x"), 1),
        (speed.UnserialisableError("x"), 2),
        (speed.KeyFileError("x"), 3),
        (speed.NameTakenError("x"), 3),
        (speed.NodeLeftError("x"), 4),
        (speed.AccessDeniedError("x"), 5),
        (speed.CallTimeoutError("x"), 6),
        (speed.NotAcknowledgedError("x"), 6),
        (speed.ExecutionFailedError("x"), 7),
        (speed.InboxFullError("x"), 8),
    ],
)
def test_each_kind_of_error_has_its_exit_status(error: SpeedError, status: int) -> None:
    assert exit_status(error) == status


def _each(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    """The listed commands below ``group``, with what is typed for them."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from _each(command, f"{path} {name}")


def test_every_listed_command_exists_and_has_help() -> None:
    for path, command in _each(speed_command, "speed"):
        assert path.endswith(f" {command.name}")
        assert command.help, path


def test_the_top_has_few_commands_in_short_groups_and_is_readable_on_80_columns() -> None:
    """What is typed when something is wrong stands at the top, in a group of its own."""
    told = CliRunner().invoke(speed_command, ["--help"], terminal_width=80, prog_name="speed").output
    assert [title for title in SECTIONS if f"\n{title}:\n" not in told] == []
    assert sum(map(len, SECTIONS.values())) <= 29
    assert max(map(len, SECTIONS.values())) <= 9
    lines = told.splitlines()[1:]  # without "Usage: … [ARGS]..."
    assert [line for line in lines if len(line) > 80 or line.endswith("...")] == []


@pytest.mark.parametrize(("name", "path"), FORMER.items())
def test_a_former_name_is_the_command_of_its_group_and_no_help_lists_it(name: str, path: str) -> None:
    commands = dict(_each(speed_command, "speed"))
    assert speed_command.get_command(click.Context(speed_command), name) is commands[f"speed {path}"]
    assert f"speed {name}" not in commands


def test_completion_offers_groups_and_no_former_name() -> None:
    complete = ShellComplete(speed_command, {}, "speed", "_SPEED_COMPLETE")
    offered = {one.value for one in complete.get_completions([], "")}
    assert offered == {name for commands in SECTIONS.values() for name in commands}
    assert "doctor" in {one.value for one in complete.get_completions(["root"], "")}


def test_a_rotation_in_steps_never_leaves_a_node_without_the_sealing_key() -> None:
    """Nodes restarted after each step accept what the nodes of the step before seal with."""
    start = (b"old",)
    added = rotated(start, "add", b"new")
    promoted = rotated(added, "promote", b"unused")
    retired = rotated(promoted, "retire", b"unused")
    assert (added[0], promoted[0], retired) == (b"old", b"new", (b"new",))
    for before, after in ((start, added), (added, promoted), (promoted, retired)):
        assert before[0] in after
        assert after[0] in before or before is added
    with pytest.raises(KeyFileError):
        rotated(start, "promote", b"unused")


def test_a_spread_of_times_has_its_percentiles() -> None:
    figures = spread([float(n) for n in range(100)])
    assert (figures["p50Seconds"], figures["p99Seconds"], figures["maxSeconds"]) == (50.0, 99.0, 99.0)


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e9", "soon"])
def test_an_option_of_seconds_takes_numbers_of_seconds(text: str) -> None:
    assert (span("seconds")("1.5"), span("seconds")("-1"), span("days", 0)("0")) == (1.5, -1.0, 0.0)
    with pytest.raises(click.BadParameter, match="is no number of seconds below 1000000000"):
        span("seconds")(text)
    with pytest.raises(click.BadParameter, match="is no number of days from 0 and below"):
        span("days", 0)("-1")
