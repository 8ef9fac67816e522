"""Bound links as files of a lane: read, tampered with, put where they do not belong (I-4, I-5)."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from speed.fs.inbox import Inbox
from speed.fs.lane_reader import LaneReader
from speed.wire.envelope import EnvelopeType
from speed.wire.identities import OPENING_BYTES, Bond, NodeIdentity, make_card, read_card
from speed.wire.seal import LinkSealer
from tests.fs.lanes import KEYRING, SOURCE, SOURCE_ID, TARGET, TARGET_ID, Lane, sealed

SENDER, RECEIVER = NodeIdentity.new(), NodeIdentity.new()


class BoundLane:
    """The lane analytics -> billing, whose nodes have identities."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self._opened = contextlib.ExitStack()

    def write(self, *payloads: bytes, generation: int = 1, sender: NodeIdentity = SENDER) -> str:
        """Messages that are bound in a generation; the name of what opens them."""
        bond = Bond(sender, read_card(make_card(RECEIVER, TARGET_ID), TARGET_ID))
        sealer = LinkSealer(KEYRING, SOURCE_ID, TARGET_ID, generation)
        sealer.seal_for(0, bond)
        writer = self.lane.writer(generation)
        writer.opening = sealer.opening
        for counter, payload in enumerate(payloads, start=1):
            writer.append(sealer.seal(EnvelopeType.MESSAGE, 0, counter, 1_700_000_000_000, payload, os.urandom(12)))
        writer.close()
        assert sealer.opening is not None
        return sealer.opening[0]

    def reader(self, generation: int = 1, identity: NodeIdentity | None = RECEIVER) -> LaneReader:
        own = None if identity is None else lambda: identity
        inbox = Inbox(self.lane.root, TARGET, generation, KEYRING, identity=own)
        self._opened.callback(inbox.close)
        inbox.prepare()
        reader = inbox.lane(SOURCE)
        self._opened.callback(reader.abandon)
        return reader

    def read(self, reader: LaneReader, *, finish: bool = True) -> list[bytes]:
        return [one.payload for one in self.lane.read_all(reader, finish=finish, scan=True)]

    def openings(self) -> list[str]:
        return sorted(path.name for path in self.lane.path.glob("*.opening"))

    def close(self) -> None:
        self._opened.close()


@pytest.fixture
def bound(lane: Lane) -> Iterator[BoundLane]:
    made = BoundLane(lane)
    yield made
    made.close()


def test_the_receiver_reads_what_was_bound_and_knows_whose_it_is(bound: BoundLane) -> None:
    bound.write(b"one", b"two")
    reader = bound.reader()
    found = bound.lane.read_all(reader)
    assert [one.payload for one in found] == [b"one", b"two"]
    assert reader.openings is not None
    assert {reader.openings.fingerprint(one.header.key_id) for one in found} == {SENDER.fingerprint}


@pytest.mark.parametrize("identity", [None, NodeIdentity.new()], ids=["none", "another"])
def test_nobody_else_reads_it(bound: BoundLane, identity: NodeIdentity | None) -> None:
    bound.write(b"one")
    assert bound.read(bound.reader(identity=identity)) == []


def test_what_is_not_bound_is_of_no_identity(bound: BoundLane) -> None:
    bound.write(b"one")
    bound.lane.raw_segment(sealed(2, b"two"), segment=2)
    reader = bound.reader()
    found = bound.lane.read_all(reader)
    assert reader.openings is not None
    assert [reader.openings.fingerprint(one.header.key_id) for one in found] == [SENDER.fingerprint, ""]


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def link(path: Path) -> None:
    path.rename(path.parent / "elsewhere")
    path.symlink_to("elsewhere")


TAMPERED: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: path.unlink(), "unknown_key"),
    "empty": (lambda path: path.write_bytes(b""), "bad_identity"),
    "a bit": (
        lambda path: path.write_bytes(path.read_bytes()[:-1] + bytes([path.read_bytes()[-1] ^ 1])),
        "bad_identity",
    ),
    "longer": (lambda path: path.write_bytes(path.read_bytes() + b"\0"), "bad_identity"),
    "huge and sparse": (lambda path: os.truncate(path, 1 << 40), "bad_identity"),
    "a FIFO": (fifo, "unknown_key"),
    "a link": (link, "unknown_key"),
    "two names": (lambda path: os.link(path, path.parent / "copy"), "unknown_key"),
    "noise": (lambda path: path.write_bytes(os.urandom(OPENING_BYTES)), "bad_identity"),
}


@pytest.mark.parametrize("how", TAMPERED, ids=list(TAMPERED))
def test_an_opening_that_was_tampered_with_opens_nothing_and_harms_nobody(bound: BoundLane, how: str) -> None:
    tamper, reason = TAMPERED[how]
    tamper(bound.lane.path / bound.write(b"one", b"two"))
    bound.lane.raw_segment(sealed(3, b"three"), segment=2)
    reader = bound.reader()
    assert bound.read(reader) == [b"three"]
    assert reader.counts[f"damaged_{reason}"] >= 1


def test_an_opening_of_another_generation_or_name_opens_nothing(bound: BoundLane) -> None:
    other = bound.write(b"two", generation=2)
    own = bound.write(b"one")
    (bound.lane.path / own).write_bytes((bound.lane.path / other).read_bytes())
    assert bound.read(bound.reader()) == [b"two"]


def test_a_successor_with_the_identity_reads_what_was_not_finished(bound: BoundLane) -> None:
    bound.write(b"one", b"two")
    assert bound.read(bound.reader(1), finish=False) == [b"one", b"two"]
    assert bound.read(bound.reader(2, RECEIVER.renewed(keep=1))) == [b"one", b"two"]


def test_what_was_sealed_for_a_key_that_was_dropped_opens_no_more(bound: BoundLane) -> None:
    bound.write(b"one")
    assert bound.read(bound.reader(1, RECEIVER.renewed(keep=0))) == []


def test_an_opening_stays_until_nothing_of_its_generation_is_left(bound: BoundLane) -> None:
    first = bound.write(b"one")
    second = bound.write(b"two", generation=2)
    reader = bound.reader()
    received = bound.lane.read_all(reader, finish=False)
    assert bound.openings() == sorted([first, second])
    reader.finish(received[1].token)
    reader.commit()
    assert bound.openings() == sorted([first, second])  # the first is listed as unfinished
    reader.finish(received[0].token)
    reader.commit()
    assert bound.openings() == [second]


def test_envelopes_that_name_keys_nobody_has_cost_no_memory(bound: BoundLane) -> None:
    bound.write(b"one")
    forged = b"".join(_of_key(sealed(counter, b"x"), os.urandom(8)) for counter in range(2, 600))
    bound.lane.raw_segment(forged, segment=2)
    bound.lane.raw_segment(sealed(600, b"last"), segment=3)
    reader = bound.reader()
    assert bound.read(reader) == [b"one", b"last"]
    assert reader.openings is not None
    assert len(reader.openings._fingerprints) == 1


def test_whose_a_link_in_use_is_stays_known_however_many_are_opened(bound: BoundLane) -> None:
    names = [bound.write(b"one", generation=generation) for generation in range(1, 81)]
    key_ids = [bytes.fromhex(name.partition("-")[2].removesuffix(".opening")) for name in names]
    openings = bound.reader().openings
    assert openings is not None
    for generation, key_id in enumerate(key_ids, start=1):
        openings.key(key_id, generation)
        assert openings.fingerprint(key_ids[0]) == SENDER.fingerprint
    assert len(openings._fingerprints) == 64
    assert openings.fingerprint(key_ids[1]) == ""


def _of_key(envelope: bytes, key_id: bytes) -> bytes:
    return envelope[:64] + key_id + envelope[72:]


def test_a_lane_that_is_removed_under_its_sender_gets_its_opening_again(bound: BoundLane) -> None:
    """L-2: a sender begins anew in the directory that stands there now."""
    bond = Bond(SENDER, read_card(make_card(RECEIVER, TARGET_ID), TARGET_ID))
    sealer = LinkSealer(KEYRING, SOURCE_ID, TARGET_ID, 1)
    sealer.seal_for(0, bond)
    writer = bound.lane.writer()
    writer.opening = sealer.opening
    writer.append(sealer.seal(EnvelopeType.MESSAGE, 0, 1, 1_700_000_000_000, b"lost", os.urandom(12)))
    writer.close()
    shutil.rmtree(bound.lane.path)
    writer.append(sealer.seal(EnvelopeType.MESSAGE, 0, 2, 1_700_000_000_000, b"found", os.urandom(12)))
    assert bound.read(bound.reader()) == [b"found"]
