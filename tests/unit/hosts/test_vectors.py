"""Names and envelopes of `registry_spec/vectors/hosts.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from speed.errors import InvalidNameError, WireError
from speed.hosts.link import PairSeal
from speed.wire import names
from speed.wire.envelope import EnvelopeType, counter_of, parse_header
from speed.wire.seal import Keyring

FILE = Path(__file__).resolve().parents[3] / "registry_spec" / "vectors" / "hosts.json"
VECTORS: dict[str, Any] = json.loads(FILE.read_text())
RING = Keyring((bytes.fromhex(VECTORS["pair_key"]),))


def named(case: dict[str, Any]) -> str:
    return str(case["bug"])


@pytest.mark.parametrize("case", VECTORS["names"], ids=named)
def test_names_of_hosts(case: dict[str, Any]) -> None:
    """H-1."""
    if case["valid"]:
        assert names.check_host_name(case["name"]) == case["name"]
    else:
        with pytest.raises(InvalidNameError):
            names.check_host_name(case["name"])


@pytest.mark.parametrize("case", VECTORS["patterns"], ids=named)
def test_patterns(case: dict[str, Any]) -> None:
    """H-1."""
    if case["valid"]:
        assert names.check_remote_pattern(case["pattern"]) == case["pattern"]
    else:
        with pytest.raises(InvalidNameError):
            names.check_remote_pattern(case["pattern"])


@pytest.mark.parametrize("case", VECTORS["covers"], ids=named)
def test_what_a_pattern_covers(case: dict[str, Any]) -> None:
    """H-1."""
    assert names.covers([case["pattern"]], case["node"], case["host"]) is case["covers"]


@pytest.mark.parametrize("case", VECTORS["grants"], ids=named)
def test_grants_as_a_root_knows_them(case: dict[str, Any]) -> None:
    """H-9."""
    assert names.local_grant(case["grant"]) == case["local"]


@pytest.mark.parametrize("case", VECTORS["envelopes"], ids=lambda case: case["name"])
def test_envelopes_between_hosts(case: dict[str, Any]) -> None:
    """H-4."""
    envelope = bytes.fromhex(case["envelope"])
    header = parse_header(envelope)
    reader = PairSeal(RING, case["target"], case["source"])
    assert (header.source, header.target) == (names.host_id(case["source"]), names.host_id(case["target"]))

    def opened() -> bytes:
        if "source_life" not in case:
            return reader.open_hello(header, envelope)
        lives = bytes.fromhex(case["target_life"]), bytes.fromhex(case["source_life"])
        return reader.open(header, envelope, *lives)

    if "error" in case:
        with pytest.raises(WireError, match=case["error"]):
            opened()
        return
    payload = bytes.fromhex(case["payload"])
    assert opened() == payload
    writer = PairSeal(RING, case["source"], case["target"], lambda: header.timestamp_ms)
    if "source_life" in case:
        lives = bytes.fromhex(case["source_life"]), bytes.fromhex(case["target_life"])
        type_ = EnvelopeType(header.type)
        assert writer.seal(type_, counter_of(header.sequence), payload, *lives) == envelope
    else:
        assert writer.seal_hello(payload, reply=bool(header.flags), nonce=header.nonce) == envelope
