"""Who may take a name (R-4, R-5): the vectors, with real claims and entries of processes that live or are gone."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from speed.errors import NameTakenError
from speed.fs import claim
from speed.fs.claim import raise_floor
from speed.fs.identity import Identity, identity
from speed.fs.registration import Won, win
from speed.fs.registry import Registry
from speed.wire import names
from speed.wire.entry import Entry, encode_entry
from speed.wire.seal import Keyring
from tests.fs.entries import now_ms, template
from tests.vectors import case_name, load

VECTORS = load("claims")
KEYS = Keyring(tuple(bytes.fromhex(key) for key in VECTORS["accepted_keys"]))
NAME = "billing"
MAKERS = {
    "here": {},
    "gone": {"pid_start": 1},
    "unseen": {"pid_namespace": "pid:[1]"},
    "elsewhere": {"boot_id": "00000000-0000-4000-8000-000000000000"},
}


@pytest.mark.parametrize("case", VECTORS["files"], ids=case_name)
def test_a_claim_says_what_the_contract_says(case: dict[str, Any]) -> None:
    read = claim.decode_claim(bytes.fromhex(case["hex"]), KEYS.registry_keys)
    assert (read and said(read)) == case["claim"]


def said(read: claim.Claimant) -> dict[str, Any]:
    return {
        **dataclasses.asdict(read.identity),
        "lease": read.lease_ms,
        "made_monotonic_ms": read.made_ms,
        "above": read.above,
        "ephemeral": read.ephemeral,
        "sweeps": read.sweeps,
    }


@pytest.mark.parametrize("case", VECTORS["states"], ids=case_name)
def test_a_name_is_free_held_or_waited_for(registry: Registry, case: dict[str, Any]) -> None:
    lay(registry, case)
    if case["verdict"] == "free":
        won = start(registry, waits=False)
        assert (won.generation, won.claimant.above) == (case["generation"], case["above"])
        return
    with pytest.raises(NameTakenError):
        start(registry, waits=False)
    if case["verdict"] == "held":
        with pytest.raises(NameTakenError):
            start(registry, waits=True)
    elif case["wait_ms"] is not None:
        began = now_ms()
        assert start(registry, waits=True).generation == case["generation"]
        assert now_ms() - began >= case["wait_ms"]


def start(registry: Registry, *, waits: bool) -> Won:
    return win(registry, NAME, claim.Claimant(identity(), 30_000), waits=waits)


def lay(registry: Registry, case: dict[str, Any]) -> None:
    """Make the claims and the entry of a case."""
    for made in case["claims"]:
        lay_claim(registry, made)
    if case["entry"] is not None:
        lay_entry(registry, case["entry"])
    if "floor" in case:
        raise_floor(registry.root, NAME, case["floor"], registry.keyring)
    if "lane" in case:
        lay_lane(registry, case["lane"]["cursor"])
    for file in case.get("left", ()):
        path = Path(registry.root, file)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)


def lay_lane(registry: Registry, cursor: str | None) -> None:
    lane = Path(names.lane_dir(registry.root, "analytics", NAME))
    lane.mkdir(parents=True, mode=0o700)
    if cursor is not None:
        (lane / names.cursor_name(1)).touch(mode=0o600)
        (lane / names.cursor_name(1)).write_bytes(bytes.fromhex(cursor))


def lay_claim(registry: Registry, made: dict[str, Any]) -> None:
    path = Path(names.claim_path(registry.root, NAME, made["generation"]))
    path.touch(mode=0o600)
    if made["maker"] is not None:
        age = made["age_ms"]
        claimant = claim.Claimant(
            maker(made["maker"]),
            made["lease_ms"],
            None if age is None else now_ms() - age,
            made["above"],
            made["ephemeral"],
            made["sweeps"],
        )
        path.write_bytes(claim.encode_claim(claimant, registry.keyring.registry_key))
    if made.get("read_only"):
        path.chmod(0o400)


def maker(kind: str) -> Identity:
    return dataclasses.replace(identity(), **MAKERS[kind])


def lay_entry(registry: Registry, made: dict[str, Any]) -> None:
    key = registry.keyring.registry_key if made["key"] == "ours" else Keyring((bytes(32),)).registry_key
    path = Path(names.entry_path(registry.root, NAME))
    path.write_bytes(encode_entry(entry_of(registry, made), key))
    path.chmod(0o600)


def entry_of(registry: Registry, made: dict[str, Any]) -> Entry:
    return template(
        registry,
        generation=made["generation"],
        **MAKERS[made["maker"]],
        status=made["status"],
        lease=made["lease_ms"],
        heartbeat_interval=max(1, made["lease_ms"] // 6),
        heartbeat_monotonic_ms=now_ms() - made["age_ms"],
    )
