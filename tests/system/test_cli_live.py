"""``speed top``, ``stats --all``, ``refused`` and ``watch``: what goes on, seen on a terminal and through a pipe."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import speed
from speed.observe.figures import Answers
from speed.observe.traffic import flows, refusals
from tests.system.commands import PATIENCE, Command

pytestmark = pytest.mark.system

LONG = "pricing-service-of-the-north-sea.1"
MakeNode = Callable[..., speed.Node]


@pytest.fixture
def make(run: Command) -> Iterator[MakeNode]:
    made: list[speed.Node] = []

    def node(name: str, **options: object) -> speed.Node:
        made.append(speed.Node(name, root=run.root, key=run.root / "speed.key", **options))  # type: ignore[arg-type]
        return made[-1]

    yield node
    for one in reversed(made):
        one.close(drain_seconds=0)


@contextmanager
def calling(call: Callable[[], object]) -> Iterator[None]:
    """``call`` again and again, on a thread of its own."""
    stopping = threading.Event()

    def go_on() -> None:
        while not stopping.is_set():
            call()

    caller = threading.Thread(target=go_on, name="caller")
    caller.start()
    try:
        yield
    finally:
        stopping.set()
        caller.join()


def on_a_terminal(run: Command, *words: str) -> str:
    """What a command shows on a terminal of 80 columns."""
    script = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)"
    environment = {**run.environment, "COLUMNS": "80", "LINES": "24", "TERM": "dumb"}
    done = subprocess.run(
        [sys.executable, "-c", script, *run.command(*words)],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    return done.stdout.replace("\r\n", "\n")


def test_top_is_readable_on_80_columns_and_cuts_no_name(run: Command, make: MakeNode) -> None:
    node = make(LONG, allow=["cli.*", LONG])
    node.register("quote_of_the_day", lambda: time.sleep(0.002))
    with calling(lambda: node.call(LONG, "quote_of_the_day")):
        shown = on_a_terminal(run, "top", "--once", "--interval", "0.5")
    lines = [line for line in shown.splitlines() if not line.startswith("Not shown")]
    assert max(map(len, lines)) <= 80
    assert LONG in shown
    assert "quote_of_the_day" in shown
    assert "…" not in shown
    assert {"calls/s", "errors", "p50", "p99", "busy"} <= set(shown.split())


def test_names_are_folded_where_a_terminal_has_no_room_for_them(run: Command, make: MakeNode) -> None:
    make("n" * 100, allow=["cli.*"])
    shown = on_a_terminal(run, "nodes")
    assert "".join(shown.split()).count("n") >= 100
    assert "…" not in shown


def test_top_shows_only_what_has_one_of_the_words_in_its_name(run: Command, make: MakeNode) -> None:
    node = make("pricing", allow=["cli.*", "pricing"])
    for service in ("quote", "rate", "round"):
        node.register(service, lambda: None)
        node.call("pricing", service)
    rows = run("top", "quo", "rou", "--all", "--once", "--interval", "0.2", "--json").value
    assert {row["service"] for row in rows} == {"quote", "round"}
    assert {row["workers"] for row in rows} == {4}


def test_top_shows_what_handles_messages_beside_services(run: Command, make: MakeNode) -> None:
    shop, billing = make("shop", allow=["cli.*", "billing"]), make("billing")
    shop.on_message(lambda message: None)
    with calling(lambda: billing.send("shop", 1, ack=True)):
        rows = run("top", "shop", "--once", "--interval", "0.5", "--json").value
    assert [row["service"] for row in rows] == (["(messages)"] if "handlers" in shop.stats() else [])
    assert all(row["callsPerSecond"] > 0 and row["runP99Seconds"] is not None for row in rows)


def test_top_through_a_pipe_is_a_line_for_each_interval_at_once(run: Command, make: MakeNode) -> None:
    node = make("pricing", allow=["cli.*", "pricing"])
    node.register("quote", lambda: None)
    node.call("pricing", "quote")
    top = run.begin("top", "--all", "--interval", "0.2", "--json")
    try:
        assert top.stdout is not None
        for _ in range(2):
            assert json.loads(top.stdout.readline())[0]["service"] == "quote"
    finally:
        top.kill()
        top.communicate()


def test_stats_of_all_nodes_are_a_line_each_and_one_that_hangs_is_silent(run: Command, make: MakeNode) -> None:
    make("billing", allow=["cli.*"])
    make("shop").deny("cli.*")
    with stopped_node(run):
        shown = run("stats", "--all").out
        value = run("stats", "--all", "--json").value
    rows = {line.split()[0]: line.split()[1] for line in shown.splitlines() if line.strip()[:1].isalpha()}
    assert rows["hung"] == "silent"
    assert "shop" not in rows, "it denies this command"
    assert value["hung"] is None
    assert value["billing"]["workers"] == 4


@contextmanager
def stopped_node(run: Command) -> Iterator[None]:
    """A node named hung, whose process is stopped."""
    program = "import speed; n = speed.Node('hung', allow=['cli.*'], lease_seconds=60); print(1, flush=True); input()"
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env=run.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        process.stdout.readline()
        os.kill(process.pid, signal.SIGSTOP)
        yield
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("words", [(), ("billing", "--all")])
def test_stats_wants_one_node_or_all(run: Command, words: tuple[str, ...]) -> None:
    assert run("stats", *words).status == 2


def test_stats_go_on_until_they_are_interrupted(run: Command, make: MakeNode) -> None:
    make("billing", allow=["cli.*"])
    watching = run.begin("stats", "--all", "--watch", "--interval", "0.2", "--json")
    try:
        assert watching.stdout is not None
        assert [list(json.loads(watching.stdout.readline())) for _ in range(2)] == [["billing"]] * 2
    finally:
        watching.kill()
        watching.communicate()


def test_who_is_refused_is_shown_with_what_to_do(run: Command, make: MakeNode) -> None:
    shop = make("shop", allow=["cli.*"])
    make("billing", allow=["cli.*"])
    with pytest.raises(speed.AccessDeniedError):
        shop.call("billing", "tax")
    done = run("refused")
    assert done.status == 1
    assert "- shop to billing: 1 not sent\n    allow shop in billing, or end who sends\n" in done.out
    (one,) = run("refused", "--json").value
    assert (one["sender"], one["receiver"], one["refused"], one["unsent"]) == ("shop", "billing", 0, 1)
    assert run("refused", "--recent", "--interval", "0.2").status == 0, "nobody tries any more"


def test_who_is_denied_is_shown_the_denial(run: Command, make: MakeNode) -> None:
    shop = make("shop.1", allow=["cli.*"])
    billing = make("billing", allow=["cli.*", "shop.*"])
    billing.deny("shop.1")
    with pytest.raises(speed.AccessDeniedError):
        shop.call("billing", "tax")
    (one,) = run("refused", "--json").value
    assert one["cure"] == "billing denies it: take the denial away there, or end who sends"


def test_both_ends_of_a_refusal_are_one_and_a_node_that_was_away_is_not_counted_from_its_start() -> None:
    answers: Answers = {"shop": {"refusedBy": {"billing": 3}}, "billing": {"refusedSenders": {"shop": 2, "*": 5}}}
    found = [(one.sender, one.receiver, one.refused, one.unsent) for one in refusals(answers, ())]
    assert found == [("*", "billing", 5, 0), ("shop", "billing", 2, 3)]
    before: Answers = {"shop": {"refusedBy": {"billing": 1}}, "billing": None}
    assert [(one.refused, one.unsent) for one in refusals(answers, (), before)] == [(0, 2)]


def test_flows_are_what_either_end_counts_between_two_looks() -> None:
    first = {"received": 10, "receivedBytes": 100, "sent": 10, "sentBytes": 50}
    later = {"received": 30, "receivedBytes": 500, "sent": 30, "sentBytes": 150}
    before: Answers = {"billing": {"peers": {"shop": first}}, "away": None}
    now: Answers = {
        "billing": {"peers": {"shop": later, "*": {"received": 4, "receivedBytes": 8}}, "refusedSenders": {"etl": 3}},
        "shop": {"peers": {"billing": {"sent": 1, "sentBytes": 1}}},  # it was started anew
        "away": None,
    }
    found = {(one.sender, one.receiver): one[2:] for one in flows(before, now, 2.0)}
    assert found == {
        ("shop", "billing"): (10.0, 200.0, 0),
        ("billing", "shop"): (10.0, 50.0, 0),
        ("*", "billing"): (2.0, 4.0, 0),
        ("etl", "billing"): (0.0, 0.0, 3),
    }


def test_flows_show_who_writes_to_whom_without_this_command(run: Command, make: MakeNode) -> None:
    billing, shop = make("billing", allow=["cli.*", "shop"]), make("shop", allow=["cli.*"])
    billing.register("tax", lambda: time.sleep(0.002))
    with calling(lambda: shop.call("billing", "tax")):
        rows = run("flows", "--once", "--interval", "0.5", "--json").value
        none = run("flows", "pricing", "--once", "--interval", "0.2", "--json").value
    assert none == []
    both = {("shop", "billing"), ("billing", "shop")}
    assert {(row["sender"], row["receiver"]) for row in rows} == (both if "peers" in shop.stats() else set())
    assert all(row["messagesPerSecond"] > 0 and row["bytesPerSecond"] > 0 for row in rows)


def test_watch_tells_who_comes_goes_dies_and_is_refused(run: Command, make: MakeNode) -> None:
    shop = make("shop", allow=["cli.*"])
    watching = run.begin("watch", "--interval", "0.2", "--json")
    assert watching.stderr is not None
    assert watching.stdout is not None
    assert "1 node is there" in watching.stderr.readline()
    try:
        billing = make("billing", starting=True, allow=["cli.*"])
        assert next_event(watching) == ("starting", "billing")
        billing.ready()
        assert next_event(watching) == ("ready", "billing")
        with pytest.raises(speed.AccessDeniedError):
            shop.call("billing", "tax")
        assert next_event(watching) == ("refused", "shop")
        billing.close(drain_seconds=0)
        assert next_event(watching) == ("left", "billing")
        kill_a_node(run)
        assert [next_event(watching), next_event(watching)] == [("joined", "mortal"), ("died", "mortal")]
    finally:
        watching.kill()
        watching.communicate()


def next_event(watching: subprocess.Popen[str]) -> tuple[str, str]:
    """The next one, but for what a look may see or not: nodes on their way out, and slow answers."""
    assert watching.stdout is not None
    while True:
        line = json.loads(watching.stdout.readline())
        if line["event"] not in ("leaving", "silent", "answers"):
            return line["event"], line["node"]


def kill_a_node(run: Command) -> None:
    program = "import os, speed, time; speed.Node('mortal'); time.sleep(1.5); os._exit(1)"
    subprocess.run([sys.executable, "-c", program], env=run.environment, check=False, timeout=PATIENCE)


def test_watch_tells_of_a_message_that_could_not_be_handled(run: Command, make: MakeNode) -> None:
    shop = make("shop", allow=["cli.*", "billing"])
    billing = make("billing", allow=["cli.*"])

    @shop.on_message
    def fail(message: speed.Message) -> None:
        raise ValueError("no such order")

    watching = run.begin("watch", "--interval", "0.2")
    assert watching.stderr is not None
    assert watching.stdout is not None
    watching.stderr.readline()
    try:
        billing.send("shop", 7)
        told = "dead      shop  a message could not be handled: `speed dead show shop 1`\n"
        assert told in (line.split(maxsplit=1)[1] for line in watching.stdout)
    finally:
        watching.kill()
        watching.communicate()
