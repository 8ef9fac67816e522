"""The call that registry_spec/transcript.md shows in bytes: the product writes them, and reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from speed.fs import claim
from speed.fs.inbox import Inbox
from speed.fs.lane_writer import LaneWriter
from speed.fs.registry import Registry
from speed.fs.root import prepare_root
from speed.wire import names, spc
from speed.wire.envelope import FLAG_REPLY, EnvelopeType
from speed.wire.seal import Keyring, LinkSealer, parse_key_file
from tests.vectors import load

WHOLE = load("transcript")
STEPS: dict[str, dict[str, Any]] = {step["name"]: step for step in WHOLE["steps"]}
COMPUTED = WHOLE["computed"]
RING = Keyring((bytes.fromhex(COMPUTED["key"]),))
LINKS = {"request": ("analytics", "billing"), "response": ("billing", "analytics")}
TYPES = {"request": (EnvelopeType.SPC_REQUEST, 0), "response": (EnvelopeType.SPC_RESPONSE, FLAG_REPLY)}


def content(step: dict[str, Any]) -> bytes:
    return bytes.fromhex(step["hex"]).ljust(step["bytes"])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The files of the registry; lanes are written by the tests."""
    prepare_root(str(tmp_path))
    for name, step in STEPS.items():
        if name.startswith(("key", "claim", "entry")):
            (tmp_path / step["path"]).write_bytes(content(step))
    return tmp_path


def test_the_key_file_holds_the_key() -> None:
    assert parse_key_file(content(STEPS["key"])) == (bytes.fromhex(COMPUTED["key"]),)
    assert [key_id.hex() for key_id in RING.now.ids] == [COMPUTED["key id"]]


@pytest.mark.parametrize("name", ["analytics", "billing"])
def test_claim_and_entry_are_read_as_those_of_a_first_life(root: Path, name: str) -> None:
    registry = Registry(str(root), RING)
    entry, claimant = registry.read(name), claim.read(str(root), name, 1, RING.registry_keys)
    assert entry is not None
    assert (entry.generation, registry.newest_generation(name)) == (1, 1)
    assert claimant is not None
    assert (claimant.identity.pid, claimant.above) == (entry.pid, 0)
    assert ("analytics" in entry.allow) == (name == "billing")


@pytest.mark.parametrize("name", LINKS)
def test_sender_and_receiver_write_the_bytes_that_it_shows(root: Path, name: str) -> None:
    source, target = LINKS[name]
    inbox = Inbox(str(root), target, 1, RING)
    inbox.prepare()
    keys = RING.lane_keys(names.node_id(source), names.node_id(target))
    writer = LaneWriter(str(root), source, target, 1, keys)
    sealer = LinkSealer(RING, names.node_id(source), names.node_id(target), 1)
    plain = bytes.fromhex(COMPUTED[f"plaintext of the {name}"])
    writer.append(sealer.seal(*TYPES[name], 1, WHOLE["timestamp"], plain, bytes.fromhex(WHOLE["nonce"])))
    assert (root / STEPS[name]["path"]).read_bytes() == content(STEPS[name])

    reader = inbox.lane(source)
    ((received,), _) = reader.read(64, 1 << 20, 1000.0)
    assert received.payload == plain
    reader.finish(received.token)
    cursor = STEPS[f"cursor of {target}"]
    assert (root / cursor["path"]).read_bytes()[: cursor["bytes"]] == content(cursor)
    for one in (writer, reader, inbox):
        one.close()


def test_the_plaintexts_are_a_call_and_its_answer() -> None:
    head, arguments = spc.decode_request(bytes.fromhex(COMPUTED["plaintext of the request"]))
    answer = spc.decode_response(bytes.fromhex(COMPUTED["plaintext of the response"]))
    assert (head.caller, head.service, arguments) == ("analytics", "double", {"x": 21})
    assert (answer.request_id, answer.result) == (head.request_id, 42)


def test_a_ring_is_the_id_of_who_wrote() -> None:
    for by, to in LINKS.values():
        assert content(STEPS[f"bell of {to}"]) == names.node_id(by)
