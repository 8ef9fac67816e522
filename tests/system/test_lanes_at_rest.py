"""Which lanes a node reads, and which hold files open, turn by turn; its own thread stands still (L-26)."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import speed
from speed.engine.python.lanes import InboundLanes
from speed.engine.python.reader import Protocol
from speed.fs.lane_reader import LaneReader
from speed.fs.lane_writer import LaneWriter
from speed.wire import names
from speed.wire.envelope import EnvelopeType
from speed.wire.limits import LANES_AT_REST_A_SCAN, SEGMENT_BYTES
from speed.wire.seal import LinkSealer

Make = Callable[..., speed.Node]
MANY = 2 * LANES_AT_REST_A_SCAN
FEW = 4
"""Lanes that may hold files open."""


class Billing:
    """A node whose turns the test takes. Its senders are in no registry; what comes without a grant is counted."""

    def __init__(self, node: speed.Node) -> None:
        self.node = node
        self.parts: Any = node._engine._parts  # type: ignore[attr-defined]
        self.protocol: Protocol = self.parts.protocol
        self.protocol.stop(20)
        self.lanes: InboundLanes = self.protocol._lanes
        self._counters: dict[str, int] = {}
        self._writers: dict[str, LaneWriter] = {}

    def append(self, source: str) -> None:
        """What a sender writes before it rings."""
        keyring, ids = self.parts.context.keyring, (names.node_id(source), names.node_id("billing"))
        if source not in self._writers:
            self._writers[source] = LaneWriter(
                self.node.root,
                source,
                "billing",
                1,
                keyring.lane_keys(*ids),
                window_bytes=1 << 20,
                file_bytes=SEGMENT_BYTES,
                mode="append",
                durable=False,
            )
        counter = self._counters[source] = self._counters.get(source, 0) + 1
        sealer = LinkSealer(keyring, *ids, 1)
        self._writers[source].append([sealer.seal(EnvelopeType.MESSAGE, 0, counter, 1, b"x", os.urandom(12))])

    def read(self, *rung: str, everything: bool = False) -> int:
        """Read as in a turn in which these rang; returns how many messages came of it."""
        before = self.came()
        self.protocol._read(None if everything else {names.node_id(one) for one in rung}, time.monotonic())
        return self.came() - before

    def scan(self, *rung: str) -> int:
        self.protocol._next_scan = 0.0
        return self.read(*rung)

    def came(self) -> int:
        return int(self.node.stats()["counters"].get("unauthorised", 0))

    def awake(self) -> set[str]:
        """Senders whose lanes hold files open."""
        links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
        files = [Path(os.readlink(link)) for link in links if os.path.lexists(link)]
        return {file.parent.name for file in files if file.name.startswith("cursor.")}

    def settle(self, source: str) -> None:
        """Let the clock that stamps files pass the last change."""
        os.utime(names.lane_dir(self.node.root, "billing", source), ns=(0, 77))

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()


@pytest.fixture
def billing(node: Make) -> Iterator[Billing]:
    made = Billing(node("billing", engine="python", max_open_files=1))
    made.scan()
    yield made
    made.close()


def one_each(billing: Billing, number: int, family: str = "s") -> list[str]:
    senders = [f"{family}.{one}" for one in range(number)]
    for sender in senders:
        billing.append(sender)
    return senders


def one_at_rest(billing: Billing) -> str:
    """One sender more than may be awake, all read to the end: the one whose lane rests."""
    senders = one_each(billing, FEW + 1, "few")
    assert billing.scan() == FEW + 1
    (resting,) = set(senders) - billing.awake()
    return resting


def test_who_rings_when_a_scan_is_due_is_read_in_that_turn(billing: Billing) -> None:
    one_each(billing, MANY)
    assert billing.read(everything=True) == MANY
    last = billing.lanes._names[billing.lanes._turns[-1]]
    assert last not in billing.awake()
    billing.append(last)
    assert billing.scan(last) == 1


def test_when_the_bell_was_too_full_all_lanes_are_read(billing: Billing) -> None:
    """Those too that had their turn just before."""
    one_each(billing, MANY)
    assert billing.scan() == LANES_AT_REST_A_SCAN
    one_each(billing, MANY)
    assert billing.read(everything=True) == 2 * MANY - LANES_AT_REST_A_SCAN


def test_a_lane_that_rang_and_has_nothing_holds_no_file_open(billing: Billing) -> None:
    resting = one_at_rest(billing)
    before = len(os.listdir("/proc/self/fd"))
    assert billing.read(resting) == 0
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_a_sender_wrote_just_before_its_end_is_read(billing: Billing) -> None:
    """A scan that finds the sender gone may have read its lane before that wrote its last."""
    resting = one_at_rest(billing)
    billing.settle(resting)
    assert billing.scan() == 0
    billing.append(resting)  # in the segment that it had: nothing shows in the directory
    assert billing.scan() == 1


def test_the_lane_of_a_sender_that_is_gone_is_let_go_once_its_directory_can_tell(
    billing: Billing, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("speed.fs.inbox.is_settled", lambda _: False)  # however slow the machine is
        resting = one_at_rest(billing)
        billing.scan()
        assert billing.lanes.opened(resting) is not None
    billing.settle(resting)
    billing.scan()
    assert billing.lanes.opened(resting) is None
    billing.append(resting)
    assert billing.read(resting) == 1


def test_a_lane_is_kept_while_nobody_can_tell_whether_its_sender_comes_back(
    billing: Billing, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: str) -> Any:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr("speed.fs.inbox.is_settled", lambda _: False)
        resting = one_at_rest(billing)
        billing.scan()
    billing.settle(resting)
    with monkeypatch.context() as patch:
        patch.setattr("speed.fs.claim.newest_of_all", fails)
        billing.scan()
    assert billing.lanes.opened(resting) is not None
    billing.settle(resting)
    billing.read(everything=True)
    assert billing.lanes.opened(resting) is None


def test_the_lanes_of_senders_that_are_gone_do_not_rest(billing: Billing) -> None:
    """However many there are, few are in memory while they wait for their turn."""
    senders = one_each(billing, MANY)
    assert billing.read(everything=True) == MANY
    assert sum(billing.lanes.opened(one) is not None for one in senders) == FEW


def test_lanes_that_cannot_be_read_take_no_turns_from_others(billing: Billing, monkeypatch: pytest.MonkeyPatch) -> None:
    read = LaneReader.read

    def fail(self: LaneReader, *arguments: Any, **options: Any) -> Any:
        if self._source.startswith("bad."):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read(self, *arguments, **options)

    monkeypatch.setattr(LaneReader, "read", fail)
    resting = one_at_rest(billing)
    one_each(billing, MANY, "bad")
    billing.read(everything=True)
    billing.append(resting)
    assert sum(billing.scan() for _ in range(5)) == 1


def test_a_lane_that_fails_keeps_no_other_from_being_read(billing: Billing) -> None:
    senders = one_each(billing, 3)
    billing.scan()
    one_each(billing, 3)
    failing = billing.lanes.opened(senders[0])
    assert failing is not None
    failing.reader.read = None  # type: ignore[method-assign, assignment]
    assert billing.scan() == 2
    assert billing.node.stats()["counters"]["lanes_failed"] == 1
    assert billing.scan() == 2  # it is opened again; what was not committed comes once more


def test_nobody_is_told_that_a_node_left_before_the_inbox_was_listed(billing: Billing) -> None:
    inbox = Path(names.inbox_dir(billing.node.root, "billing"))
    billing.protocol.node_left("s.1")
    away = inbox.rename(inbox.with_name("away"))
    with contextlib.suppress(FileNotFoundError):
        billing.scan()
    billing.protocol._fail_departed()
    assert "s.1" in billing.protocol._departed
    away.rename(inbox)
    billing.scan()
    billing.protocol._fail_departed()
    assert "s.1" not in billing.protocol._departed


def test_a_link_that_is_used_all_the_time_does_not_rest(node: Make) -> None:
    billing = node("billing", engine="python", max_open_files=1)
    first, *others = [node(f"s.{number}", engine="python", allow=["billing"]).name for number in range(2 * FEW)]
    links = billing._engine._parts.links  # type: ignore[attr-defined]
    billing.send(first, 1)
    for other in others:
        billing.send(other, 1)
        assert not links._links[first].rests
        links._fresh.clear()  # as if the last use lay a millisecond back
        billing.send(first, 1)
