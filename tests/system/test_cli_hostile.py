"""Names, texts and files of others, shown by every command of `speed`: nothing of them acts on the terminal (W-19)."""

from __future__ import annotations

import ast
import os
import threading
import time
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import speed
from speed.wire import names
from tests.system.commands import PATIENCE, Command

pytestmark = pytest.mark.system

HOSTILE = "\x1b[31mred\x9b2J\u202eturned\u2028\x85\r\n\tspeed: forged\x7f\U000e0041"
ACTING = {"Cc", "Cf", "Cs", "Zl", "Zp"}
CLI = Path(speed.__file__).parent / "cli"


def acting(text: str) -> set[str]:
    """What acts in a text, but for the ends of its lines."""
    return {one for one in text if unicodedata.category(one) in ACTING} - {"\n"}


def file_names(root: Path) -> None:
    """Files that anybody who may write in the root leaves there."""
    quarantine = Path(names.quarantine_dir(str(root), "gone"))
    quarantine.mkdir(parents=True)
    for directory in (root, root / "speed_registry", root / "speed_registry" / ".claims", quarantine):
        for name in (HOSTILE, f".tmp-{HOSTILE}", "[bold]markup"):
            (directory / name).write_bytes(b"")
        Path(os.fsdecode(bytes(directory) + b"/\x9b2J\xff")).write_bytes(b"")


@pytest.fixture
def evil(run: Command) -> Iterator[speed.Node]:
    file_names(run.root)
    options = {"allow": ["cli.*", "asker"], "max_deliveries": 1}
    with speed.Node("evil", root=run.root, key=run.root / "speed.key", **options) as node:

        @node.service("text")
        def text() -> str:
            return HOSTILE

        @node.service("map")
        def mapping() -> dict[str, list[str]]:
            return {HOSTILE: [HOSTILE]}

        @node.service("fail")
        def fail() -> None:
            raise ValueError(HOSTILE)

        @node.service("detailed")
        def detailed() -> None:
            raise speed.InvalidArgumentsError(HOSTILE, {HOSTILE: HOSTILE})

        @node.on_message
        def refuse(_: speed.Message) -> None:
            raise ValueError(HOSTILE)

        yield node


COMMANDS = [
    ("nodes",),
    ("services", "evil"),
    ("stats", "evil"),
    ("ping", "evil", "-n", "1"),
    ("call", "evil", "text"),
    ("call", "evil", "map"),
    ("call", "evil", "fail"),
    ("call", "evil", "detailed"),
    ("call", "evil", HOSTILE),
    ("call", HOSTILE, "text"),
    ("send", "evil", "hello", "--ack"),
    ("send", HOSTILE, HOSTILE),
    ("publish", HOSTILE, "1"),
    ("listen", "--allow", HOSTILE),
    ("subscribe", HOSTILE, "--allow", "evil"),
    (
        "root",
        "doctor",
    ),
    ("root", "gc", "--dry-run", "--quarantine-hours", "0"),
    ("dead", "list"),
    ("dead", "show", "evil", "1"),
    ("dead", "retry", "evil", "9"),
    ("journal", "list", "--directory", f"/tmp/{HOSTILE}"),
    ("key", "id", f"/tmp/{HOSTILE}"),
    ("message", "keys", "show", f"/tmp/{HOSTILE}"),
    ("message", "schema", "check", HOSTILE, HOSTILE),
    (HOSTILE,),
    ("nodes", f"--{HOSTILE}"),
    ("nodes", "--root", f"/tmp/{HOSTILE}"),
    ("nodes", "--key", f"/tmp/{HOSTILE}"),
]


def test_no_command_lets_text_of_others_act(run: Command, evil: speed.Node) -> None:
    run("send", "evil", "hello", "--ack")  # becomes a dead letter
    acted = {}
    for words in COMMANDS:
        for as_json in ((), ("--json",)):
            shown = run(*words, *as_json)
            if found := acting(shown.out + shown.err):
                acted[words + as_json] = found
    assert acted == {}


def test_the_files_and_texts_are_shown_all_the_same(run: Command, evil: speed.Node) -> None:
    assert "\\x1b[31mred\\x9b2J\\u202eturned" in run("root", "doctor").out
    assert "\\x1b[31mred" in run("root", "gc", "--dry-run", "--quarantine-hours", "0").out
    assert "[bold]markup" in run("root", "doctor").out
    assert "\\x1b[31mred" in run("call", "evil", "fail").err
    assert run("call", "evil", "map", "--json").value == {HOSTILE: [HOSTILE]}
    assert run("call", "evil", "text", "--json").value == HOSTILE


@pytest.mark.parametrize("as_json", [(), ("--json",)])
@pytest.mark.parametrize("command", ["listen", "subscribe"])
def test_messages_and_events_do_not_act(run: Command, command: str, as_json: tuple[str, ...]) -> None:
    topic = () if command == "listen" else ("news",)
    listening = run.begin(command, *topic, "--as", "ear", "--allow", "mouth", "-n", "2", *as_json)
    try:
        assert listening.stderr is not None
        listening.stderr.readline()
        with speed.Node("mouth", root=run.root, key=run.root / "speed.key") as mouth:
            mouth.wait_for("ear", timeout=PATIENCE)
            for payload in (HOSTILE, {HOSTILE: HOSTILE}):
                deliver(mouth, command, payload)
        out, err = listening.communicate(timeout=PATIENCE)
    finally:
        listening.kill()
        listening.communicate()
    assert acting(out + err) == set()
    assert "u202eturned" in out
    assert not any(line.startswith("speed: forged") for line in out.splitlines())


def deliver(mouth: speed.Node, command: str, payload: object) -> None:
    if command == "listen":
        mouth.send("ear", payload, ack=True)
        return
    until = time.monotonic() + PATIENCE
    while not mouth.publish("news", payload):
        assert time.monotonic() < until
        threading.Event().wait(0.05)


def test_what_a_terminal_has_no_letters_for_is_shown_by_its_number(run: Command, evil: speed.Node) -> None:
    evil.register("snow", lambda: {"☃": ["é", "☃"]})
    run.environment |= {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    assert run("call", "evil", "snow", "--json").value == {"☃": ["é", "☃"]}
    assert run("call", "evil", "snow").value == {"☃": ["é", "☃"]}
    evil.register("letter", lambda: "☃")
    assert run("call", "evil", "letter").out == "\\u2603\n"
    assert run("stats", "evil").status == 0


def odd_stats(change: dict[str, object]) -> dict[str, object]:
    row = {"numRequests": 1, "numErrors": 0, "lastError": "", "processingSeconds": 1.0, "averageSeconds": 1.0}
    stats = {"name": "liar", "uptimeSeconds": 1.0, "pendingCalls": 0, "lanes": 1, "counters": {}}
    return {**stats, "services": {"tax": {**row, **change}}}


@pytest.mark.parametrize("engine", ["python", "native"])
@pytest.mark.parametrize(
    "change",
    [{"averageSeconds": float("nan")}, {"averageSeconds": 1e300}, {"numRequests": -1}, {"lastError": None}],
    ids=str,
)
def test_counters_that_are_none_are_one_line_that_names_their_node(
    run: Command, change: dict[str, object], engine: str
) -> None:
    run.environment["SPEED_ENGINE"] = engine
    with speed.Node("liar", root=run.root, key=run.root / "speed.key", allow=["cli.*"], engine="python") as liar:
        running: Any = liar._engine
        running._parts.introspection._operations["STATS"] = lambda asker: odd_stats(change)
        shown = run("stats", "liar")
    assert (shown.status, len(shown.err.splitlines())) == (1, 1), shown.err
    assert "the answer of liar to STATS has no services of the right kind" in shown.err


ANSWERS = [{}, [], None, "x", {"next": 1, "lane": "l", "messages": [7]}, {"next": 1, "lane": 1, "messages": [{}]}]


@pytest.mark.parametrize("answer", ANSWERS, ids=str)
def test_a_host_of_topics_that_answers_otherwise_is_one_line_that_names_it(run: Command, answer: object) -> None:
    with speed.Node("liar", root=run.root, key=run.root / "speed.key", allow=["cli.*"]) as liar:
        liar.register("topics.read", lambda **_: answer)
        shown = run("topic", "peek", "news", "--host", "liar")
    assert (shown.status, len(shown.err.splitlines())) == (1, 1), shown.err
    assert "BAD_PAYLOAD: liar answered with what is no such answer" in shown.err


def test_only_one_module_of_the_command_line_prints() -> None:
    """``bench`` speaks to its own parent, and no terminal, besides."""
    printing = set()
    for path in CLI.glob("*.py"):
        for one in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(one, ast.Call) and ast.unparse(one.func) in ("print", "click.echo", "click.secho"):
                printing.add(path.stem)
    assert printing == {"options", "bench"}
