"""Bridges of a speedd that reads its file again: what is new begins, what is gone ends, what changed goes on (B-20)."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import speed
from tests.bridges.bridged import BACK, OUT, BridgedSite, bridge, disordered, twice
from tests.bridges.conftest import Bench
from tests.system.topics import until

pytestmark = [pytest.mark.system, pytest.mark.slow]
BenchOf = Callable[[str], Bench]
GOES_ON = pytest.mark.parametrize("backend", ["nats", "redis", "s3", "kafka"], indirect=True)
"""Not PostgreSQL, where nothing tells what comes again, and not SQS, whose queue has one group."""
RESTART = "reload_needs_restart"


class Changing:
    """A speedd whose file the test changes."""

    def __init__(self, path: Path, bench: Bench) -> None:
        self.bench = bench
        self.site = BridgedSite(path, bench.address, bench.topic, name=bench.own)
        file = self.site.site.config
        self._file, self._head = file, file.read_text().partition("\n[[bridge]]")[0]
        self.both = file.read_text().removeprefix(self._head)
        self.outward = bridge(f"{bench.own}-out", "topics", bench.address, OUT, bench.topic)
        self.inward = bridge(f"{bench.own}-in", bench.address, "topics", bench.topic, BACK)

    def start(self, bridges: str) -> None:
        self._file.write_text(self._head + bridges)
        self.site.start()

    def reload(self, bridges: str, more: str = "") -> dict[str, dict[str, Any]]:
        """Change the file; what the log said of it, by event."""
        self._file.write_text(self._head + bridges + more)
        process = self.site.site.started[-1]
        process.send_signal(signal.SIGHUP)
        said: dict[str, dict[str, Any]] = {}
        assert process.stderr is not None
        while not said.keys() & {"reloaded", "reload_refused"}:
            line = json.loads(process.stderr.readline())
            said[line["event"]] = line
        return said

    def changed(self, bridges: str) -> dict[str, list[str]]:
        """Change the file: which bridges were begun, replaced and ended, by the ends of their names."""
        told = self.reload(bridges)["bridges_changed"]
        kinds = ("begun", "replaced", "ended")
        return {kind: [name.removeprefix(f"{self.bench.own}-") for name in told[kind]] for kind in kinds}


ChangingOf = Callable[[Bench], Changing]


@pytest.fixture
def changing(tmp_path: Path) -> Iterator[ChangingOf]:
    made: list[Changing] = []

    def make(bench: Bench) -> Changing:
        made.append(Changing(tmp_path, bench))
        return made[-1]

    yield make
    for one in made:
        one.site.close()


def test_the_first_bridges_begin_without_a_restart(bench_of: BenchOf, changing: ChangingOf) -> None:
    one = changing(bench_of("redis"))
    one.start("")
    one.site.publish(range(1, 51))
    assert one.changed(one.outward + one.inward) == {"begun": ["in", "out"], "replaced": [], "ended": []}
    came = one.site.came(range(1, 51))
    assert twice(came) == disordered(came) == []
    assert one.site.rows()["out"]["carried"] == 50


def test_a_bridge_that_is_gone_ends_and_comes_back_where_it_stood(bench_of: BenchOf, changing: ChangingOf) -> None:
    one = changing(bench_of("redis"))
    one.start(one.outward + one.inward)
    one.site.publish(range(1, 51))
    one.site.came(range(1, 51))
    assert one.changed(one.inward)["ended"] == ["out"]
    assert list(one.site.rows()) == ["in"]
    one.site.publish(range(51, 101))
    assert one.changed("")["ended"] == ["in"]
    assert one.site.rows() == {}
    assert one.changed(one.inward + one.outward)["begun"] == ["in", "out"]
    came = one.site.came(range(1, 101))
    assert twice(came) == disordered(came) == []
    assert one.site.rows()["out"]["carried"] == 50


@GOES_ON
def test_changed_bridges_go_on_under_way_without_loss_or_repetition(bench: Bench, changing: ChangingOf) -> None:
    one = changing(bench)
    one.start(one.outward + one.inward)
    for turn in range(4):
        one.site.publish(range(1 + 200 * turn, 201 + 200 * turn))
        size = f"max_message_bytes = {100_000 + turn}\n"
        assert one.changed(one.outward + size + one.inward + size)["replaced"] == ["in", "out"]
    came = one.site.came(range(1, 801))
    assert disordered(came) == []
    if bench.name in ("nats", "redis"):  # elsewhere one of both ways may repeat
        assert twice(came) == []


def test_a_changed_filter_holds_for_what_comes_next(bench_of: BenchOf, changing: ChangingOf) -> None:
    one = changing(bench_of("redis"))
    one.start(one.outward + one.inward)
    one.site.publish(range(1, 11))
    one.site.came(range(1, 11))
    one.changed(one.outward + 'filter = { "key" = ["k2"] }\n' + one.inward)
    one.site.publish(range(11, 21))
    assert [message.payload for message in one.site.came([12], 10)] == [12]


def test_bridges_that_stay_are_not_disturbed(bench_of: BenchOf, changing: ChangingOf) -> None:
    """Their counters go on: a bridge that begins has none."""
    one = changing(bench_of("nats"))
    one.start(one.outward + one.inward)
    one.site.publish(range(1, 51))
    one.site.came(range(1, 51))
    until(lambda: one.site.rows()["in"]["carried"] == 50)
    told = one.changed(one.inward + "give_up_seconds = 60.0\n" + one.outward)
    assert told == {"begun": [], "replaced": ["in"], "ended": []}
    rows = one.site.rows()
    assert list(rows) == ["in", "out"]
    assert [rows[way]["carried"] for way in ("out", "in")] == [50, 0]
    assert "bridges_changed" not in one.reload(one.inward + "give_up_seconds = 60.0\n" + one.outward)


def test_a_file_with_a_mistake_changes_no_bridge(bench_of: BenchOf, changing: ChangingOf) -> None:
    one = changing(bench_of("redis"))
    one.start(one.outward + one.inward)
    wrong = one.outward.replace('source = "topics"', 'source = "topic"')
    assert "reload_refused" in one.reload(wrong)
    one.site.publish(range(1, 11))
    one.site.came(range(1, 11))
    assert one.site.rows().keys() == {"out", "in"}


def test_bridges_that_cannot_begin_leave_all_others_as_they_were(bench_of: BenchOf, changing: ChangingOf) -> None:
    """The node that publishes events has a name that another process has taken."""
    bench = bench_of("redis")
    one = changing(bench)
    one.start(one.outward + one.inward)
    incoming = bridge("events-in", bench.address, "events", "news").replace('rename = "news"\n', "")
    with speed.Node("speedd.bridges", root=one.site.site.root, key=one.site.site.key):
        assert "speedd.bridges" in one.reload(incoming)["reload_refused"]["reason"]
    one.site.publish(range(1, 11))
    one.site.came(range(1, 11))
    assert one.changed(one.outward + one.inward + incoming)["begun"] == ["events-in"]
    assert one.changed(one.outward + one.inward)["ended"] == ["events-in"]
    assert "speedd.bridges" not in {node.name for node in one.site.node.nodes()}


def test_a_bridge_that_needs_a_journal_waits_for_a_restart(bench_of: BenchOf, changing: ChangingOf) -> None:
    bench = bench_of("redis")
    one = changing(bench)
    one.start(one.outward)
    events = bridge("events-out", "events", bench.address, "news")
    told = one.reload(one.outward + events, '[journal]\ntopics = ["news"]\nallow = ["test"]\n')
    assert sorted(told[RESTART]["settings"]) == ["[[bridge]]", "[journal]"]
    assert list(one.site.rows()) == ["out"]


def test_dead_letters_of_a_new_bridge_are_carried_by_no_other(bench_of: BenchOf, changing: ChangingOf) -> None:
    """The one that is there carries all topics that the pattern covers, but those."""
    bench = bench_of("redis")
    one = changing(bench)
    every = bridge("every", "topics", bench.address, "lost.*", f"{bench.own}.*")
    one.start(every)
    small = 'dead_letter = "lost.letters"\nmax_message_bytes = 1024\n'
    one.changed(every + one.outward + small)
    one.site.node.topic(OUT).publish("x" * 2048)
    until(lambda: one.site.rows()["out"]["dead"] == 1)
    other = one.site.node.topic("lost.other")
    other.create()
    other.publish(2)
    until(lambda: one.site.rows()["every"]["carried"] == 1)
    assert one.site.rows()["every"]["lag"] == 0
    assert one.site.end("lost.letters") == 1
