"""`speed root doctor --node`: what it says of a sound node, and of nodes made wrong by hand, one mistake each."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

import speed
from speed.cli.node_checks import examine_node
from speed.cli.options import Settings
from speed.fs import claim
from speed.fs.identity import identity
from speed.fs.keyfile import load_key_file
from speed.fs.lane_files import LaneFiles
from speed.observe import Finding
from speed.wire import names
from speed.wire.cursor import Cursor, SlotHead, encode_cursor
from speed.wire.entry import Entry, encode_entry, entry_mac
from speed.wire.envelope import FLAG_REPLY, FLAG_SLOTTED, EnvelopeType
from speed.wire.limits import MIN_ENTRY_BYTES
from speed.wire.seal import Keyring, LinkSealer
from tests.system.commands import Command

pytestmark = pytest.mark.system

NODE, READER = "billing", "reader"


class Outsider:
    """Files of a node that no library wrote."""

    def __init__(self, run: Command) -> None:
        self.root = run.root
        self.ring = Keyring((load_key_file(str(run.root / "speed.key")).now.keys[0],))
        for name in (NODE, READER):
            Path(names.inbox_dir(str(self.root), name)).mkdir(parents=True, mode=0o700)
            Path(names.quarantine_dir(str(self.root), name)).mkdir(mode=0o700)
        os.mkfifo(names.bell_path(str(self.root), NODE), 0o600)
        self.claim()

    def claim(self, generation: int = 1) -> None:
        claimant = claim.Claimant(identity(), 30_000, time.monotonic_ns() // 1_000_000, 0)
        claim.take(str(self.root), NODE, generation, claimant, self.ring.registry_key)

    def entry(self, **changes: Any) -> Entry:
        """A sound one, of this process, but for the changes. It leaves: so nobody waits for its answers."""
        now_ms, me = time.monotonic_ns() // 1_000_000, identity()
        sound = Entry(
            NODE,
            1,
            me.pid,
            me.pid_start,
            me.pid_namespace,
            me.host,
            me.boot_id,
            int(time.time() * 1000),
            int(time.time() * 1000),
            now_ms,
            30_000,
            5_000,
            status="leaving",
            language="javascript",
        )
        return dataclasses.replace(sound, **changes)

    def publish(self, data: bytes | None = None, **changes: Any) -> None:
        whole = encode_entry(self.entry(**changes), self.ring.registry_key) if data is None else data
        Path(names.entry_path(str(self.root), NODE)).write_bytes(whole)

    def write(self, data: bytes, filename: str = "000001-00000001.lane") -> None:
        """A file of the lane that the node writes into the reader's inbox."""
        lane = Path(names.lane_dir(str(self.root), READER, NODE))
        lane.mkdir(mode=0o700, exist_ok=True)
        (lane / filename).write_bytes(data)

    def sealed(
        self, type_: int = EnvelopeType.MESSAGE, flags: int = 0, key: Keyring | None = None, plaintext: bytes = b"x"
    ) -> bytes:
        sealer = LinkSealer(key or self.ring, names.node_id(NODE), names.node_id(READER), 1)
        return sealer.seal(type_, flags, 1, 1_700_000_000_000, plaintext, os.urandom(12))

    def findings(self) -> list[Finding]:
        return examine_node(Settings(str(self.root), None, False), NODE)

    def wrong(self, check: str) -> str:
        """What is broken about one thing, and nothing else is."""
        broken = [one for one in self.findings() if one.state == "broken"]
        assert {one.check for one in broken if one.check not in ("ping", "call", "send")} == {check}
        return " ".join(f"{one.found} {one.todo}" for one in broken if one.check == check)


@pytest.fixture
def outsider(run: Command) -> Outsider:
    return Outsider(run)


# --- a sound one ---


def test_a_node_of_this_library_is_sound_and_answers(run: Command) -> None:
    with speed.Node(NODE, root=run.root, key=run.root / "speed.key", allow=["cli.*"]) as node:
        node.on_message(lambda message: None)
        seen = run("root", "doctor", "--node", NODE, "--json")
    assert (seen.status, seen.value["healthy"]) == (0, True), seen.out
    checks = {one["check"] for one in seen.value["findings"] if one["state"] == "ok"}
    assert {"entry", "claim", "process", "heartbeat", "ping", "call", "send"} <= checks


def test_what_a_node_wrote_to_one_whose_name_does_not_come_back_is_sound(run: Command) -> None:
    place = {"root": run.root, "key": run.root / "speed.key"}
    with (
        speed.Node("worker", ephemeral=True, allow=[NODE], **place),
        speed.Node(NODE, allow=["cli.*"], **place) as node,
    ):
        node.ping("worker")
        seen = run("root", "doctor", "--node", NODE, "--json")
    assert "BAD_TAG" not in seen.out
    assert any(one["check"] == "lanes" and one["state"] == "ok" for one in seen.value["findings"])


def test_a_node_that_does_not_allow_this_command_is_told_how(run: Command) -> None:
    with speed.Node(NODE, root=run.root, key=run.root / "speed.key"):
        seen = run("root", "doctor", "--node", NODE, "--json")
    (call,) = [one for one in seen.value["findings"] if one["check"] == "call"]
    assert (call["state"], "allow cli." in call["todo"]) == ("warning", True)


# --- its entry ---


def test_a_node_without_an_entry_is_missed(outsider: Outsider) -> None:
    assert "start the node" in outsider.wrong("entry")


@pytest.mark.parametrize("size", [MIN_ENTRY_BYTES - 1, MIN_ENTRY_BYTES + 1, 3000])
def test_an_entry_of_a_wrong_size_is_named_with_its_size(outsider: Outsider, size: int) -> None:
    data = encode_entry(outsider.entry(), outsider.ring.registry_key).rstrip(b" ")
    outsider.publish(data.ljust(size))
    assert f"it has {size} bytes" in outsider.wrong("entry")


def test_a_mac_of_another_key_is_told_from_a_field_of_a_wrong_type(outsider: Outsider) -> None:
    outsider.publish(encode_entry(outsider.entry(), Keyring((bytes(32),)).registry_key))
    assert "MAC does not fit" in outsider.wrong("entry")
    line = encode_entry(outsider.entry(), outsider.ring.registry_key).split(b"\n")[0]
    line = line.replace(b'"lease":30000', b'"lease":"30000"')
    data = line + b"\n" + entry_mac(outsider.ring.registry_key, line) + b"\n"
    outsider.publish(data.ljust(MIN_ENTRY_BYTES))
    assert "TypeError in a field: lease" in outsider.wrong("entry")


def test_a_generation_that_was_not_claimed_is_named(outsider: Outsider) -> None:
    outsider.publish(generation=2)
    assert "the newest claim is 1, the entry says generation 2" in outsider.wrong("claim")


def test_a_claim_that_does_not_tell_its_maker_is_named(outsider: Outsider) -> None:
    outsider.publish()
    Path(names.claim_path(str(outsider.root), NODE, 1)).write_bytes(b"{}\n")
    assert "does not say who made it" in outsider.wrong("claim")


def test_a_wrong_start_of_the_process_is_named_with_the_right_one(outsider: Outsider) -> None:
    outsider.publish(pid_start=1)
    assert f"started at {identity().pid_start}, the entry says 1" in outsider.wrong("process")


@pytest.mark.parametrize(("unit", "factor"), [("seconds", 1e-3), ("microseconds", 1e3), ("nanoseconds", 1e6)])
def test_a_heartbeat_in_another_unit_is_named_with_its_unit(outsider: Outsider, unit: str, factor: float) -> None:
    outsider.publish(heartbeat_monotonic_ms=int(time.monotonic() * 1000 * factor))
    assert f"heartbeatMonotonicMs is in {unit}" in outsider.wrong("heartbeat")
    outsider.publish(last_heartbeat=int(time.time() * 1000 * factor))
    assert f"lastHeartbeat is in {unit}" in outsider.wrong("heartbeat")


def test_a_heartbeat_of_another_clock_lies_ahead(outsider: Outsider) -> None:
    outsider.publish(heartbeat_monotonic_ms=time.monotonic_ns() // 1_000_000 + 60_000)
    assert "ms ahead" in outsider.wrong("heartbeat")


def test_a_heartbeat_that_stopped_is_named_with_its_age(outsider: Outsider) -> None:
    outsider.publish(heartbeat_monotonic_ms=time.monotonic_ns() // 1_000_000 - 31_000)
    assert "the lease is 30000 ms" in outsider.wrong("heartbeat")


def test_a_lease_of_three_heartbeats_is_too_short(outsider: Outsider) -> None:
    outsider.publish(lease=15_000)
    assert "exceed three heartbeats" in outsider.wrong("lease")


def test_a_bell_that_is_no_fifo_is_named(outsider: Outsider) -> None:
    outsider.publish()
    bell = Path(names.bell_path(str(outsider.root), NODE))
    bell.unlink()
    bell.write_bytes(b"")
    assert "is no FIFO" in outsider.wrong("bell")


# --- its lanes ---


def test_sound_envelopes_are_counted(outsider: Outsider) -> None:
    outsider.publish()
    outsider.write(outsider.sealed())
    assert "sound envelopes of it: 1" in {one.found for one in outsider.findings()}


def altered(envelope: bytes, offset: int, to: int) -> bytes:
    return envelope[:offset] + bytes([to]) + envelope[offset + 1 :]


def test_an_envelope_that_does_not_open_is_a_bad_tag_with_its_cure(outsider: Outsider) -> None:
    outsider.publish()
    outsider.write(altered(outsider.sealed(), 90, 0))
    assert "BAD_TAG in what it wrote, once check the link key" in outsider.wrong("lanes")


def test_a_flag_of_another_type_is_a_bad_flag(outsider: Outsider) -> None:
    outsider.publish()
    outsider.write(outsider.sealed(EnvelopeType.MESSAGE, FLAG_REPLY))
    assert "BAD_FLAGS" in outsider.wrong("lanes")


def test_an_unknown_key_is_named(outsider: Outsider) -> None:
    outsider.publish()
    outsider.write(outsider.sealed(key=Keyring((bytes(32),))))
    assert "UNKNOWN_KEY" in outsider.wrong("lanes")


def test_a_file_of_another_spelling_is_named(outsider: Outsider) -> None:
    outsider.publish()
    outsider.write(outsider.sealed(), "1-1.lane")
    assert "NO_LANE_FILE" in outsider.wrong("lanes")


def test_a_slot_is_no_foreign_file_and_an_envelope_that_names_one_is_sound(outsider: Outsider) -> None:
    outsider.publish()
    head = SlotHead(1, 1, bytes(32)).encode()
    outsider.write(outsider.sealed(flags=FLAG_SLOTTED, plaintext=head) + outsider.sealed())
    outsider.write(b"", names.slot_name(1, 1))
    assert "sound envelopes of it: 2" in {one.found for one in outsider.findings()}


def test_an_envelope_that_names_no_slot_is_told_what_it_lacks(outsider: Outsider) -> None:
    outsider.publish()
    outsider.write(outsider.sealed(flags=FLAG_SLOTTED) + outsider.sealed())
    assert "BAD_SLOT in what it wrote, once" in outsider.wrong("lanes")


def test_half_an_envelope_at_the_end_is_a_write_under_way(outsider: Outsider) -> None:
    outsider.publish()
    outsider.write(outsider.sealed() + outsider.sealed()[:50])
    assert "sound envelopes of it: 1" in {one.found for one in outsider.findings()}


@pytest.mark.parametrize(
    ("key", "offset", "says"),
    [(bytes(32), 0, "is not authentic"), (None, 1 << 20, "behind the end of its segment")],
    ids=["another key", "too far"],
)
def test_a_wrong_cursor_is_named(outsider: Outsider, key: bytes | None, offset: int, says: str) -> None:
    outsider.publish()
    lane = Path(names.lane_dir(str(outsider.root), NODE, READER))
    lane.mkdir(mode=0o700)
    (lane / "000001-00000001.lane").write_bytes(b"x" * 105)
    mac = key or outsider.ring.lane_key(names.node_id(READER), names.node_id(NODE))
    (lane / "cursor.000001").write_bytes(encode_cursor(Cursor(1, 1, 1, offset, 0), mac))
    assert says in outsider.wrong("cursor")


def test_a_segment_that_is_removed_meanwhile_makes_no_cursor_wrong(
    outsider: Outsider, monkeypatch: pytest.MonkeyPatch
) -> None:
    outsider.publish()
    lane = Path(names.lane_dir(str(outsider.root), NODE, READER))
    lane.mkdir(mode=0o700)
    (lane / "000001-00000001.lane").write_bytes(b"x" * 105)
    mac = outsider.ring.lane_key(names.node_id(READER), names.node_id(NODE))
    (lane / "cursor.000001").write_bytes(encode_cursor(Cursor(1, 1, 1, 105, 0), mac))
    read = LaneFiles.read_cursor

    def read_and_remove(files: LaneFiles, generation: int) -> Cursor | None:
        (lane / "000001-00000001.lane").unlink(missing_ok=True)
        return read(files, generation)

    monkeypatch.setattr(LaneFiles, "read_cursor", read_and_remove)
    assert {one.state for one in outsider.findings() if one.check == "cursor"} == {"ok"}


# --- quarantine ---


def test_what_others_put_aside_of_it_is_named_with_its_reason(outsider: Outsider) -> None:
    outsider.publish()
    reason = Path(names.quarantine_dir(str(outsider.root), READER), "00000001.reason")
    reason.write_text(json.dumps({"name": f"{NODE} 000001-00000001.lane", "reason": "BAD_FLAGS"}))
    assert "reader put aside what it wrote, once: BAD_FLAGS" in outsider.wrong("quarantine")


def test_notes_of_others_in_a_quarantine_do_not_end_the_examination(outsider: Outsider) -> None:
    outsider.publish()
    for number, text in enumerate(("[", "[]", '{"name": 1}')):
        Path(names.quarantine_dir(str(outsider.root), READER), f"{number:08d}.reason").write_text(text)
    assert not [one for one in outsider.findings() if one.check == "quarantine"]
