"""What one language writes from the inputs of the vectors, the others read (registry_spec/README.md, Vectors)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from speed.wire.entry import decode_entry
from tests.interop.decoding import RING
from tests.interop.harness import Agent
from tests.interop.languages import CHOSEN, LANGUAGES, ROOT, pairs
from tests.interop.producer import entry_of
from tests.vectors import load

Between = Callable[..., tuple[Agent, Agent]]

KINDS = {"envelope", "entry", "cursor", "fence", "value", "request", "response", "control", "message"}
NOT_WRITTEN = ("older key", "unknown key", "longest head", "tail", "unknown flags", "bytes that are not zero")
"""Cases that no writer of this version writes so: of the second accepted key, or with what only a reader accepts."""


@cache
def made_by(language: str) -> list[dict[str, str]]:
    """What the producer of a language writes: kind, name and bytes of each case."""
    LANGUAGES[language].check_built()
    command = LANGUAGES[language].vectors
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def published(kind: str, name: str) -> str:
    """The bytes of a case as the vectors have them."""
    case = _cases()[kind, name]
    return str(case.get("envelope") or case.get("hex"))


@cache
def _cases() -> dict[tuple[str, str], dict[str, Any]]:
    cursors = load("cursors")
    lists = {
        "envelope": load("envelopes")["valid"],
        "cursor": cursors["cursors_valid"],
        "fence": cursors["fences_valid"],
        "value": load("values")["valid"],
    }
    named = {(kind, case["name"]): case for kind, cases in lists.items() for case in cases}
    return named | {(case["kind"], case["name"]): case for case in load("payloads")["valid"]}


@pytest.mark.parametrize("source", CHOSEN)
def test_the_published_bytes_are_written_again(source: str) -> None:
    """W-4, W-7, L-14, L-18, W-15, S-1, S-2, S-11: not one byte differs."""
    made = made_by(source)
    assert {case["kind"] for case in made} == KINDS
    exact = ("envelope", "cursor", "fence", "value", "request", "response", "control")
    for case in made:
        kind, name = case["kind"], case["name"]
        if kind in exact and name not in NOT_WRITTEN:
            assert case["hex"] == published(kind, name), (kind, name)


@pytest.mark.parametrize("source", CHOSEN)
def test_an_entry_means_what_its_vector_says(source: str) -> None:
    """R-2, R-3: JSON may be spelled differently; the fields may not differ."""
    expected = {case["name"]: entry_of(case["entry"]) for case in load("entries")["valid"]}
    made = {case["name"]: case["hex"] for case in made_by(source) if case["kind"] == "entry"}
    assert made.keys() == expected.keys()
    for name, text in made.items():
        assert decode_entry(bytes.fromhex(text), RING.registry_keys) == expected[name]


@pairs("reads")
def test_what_another_language_writes(between: Between, source: str, target: str) -> None:
    """R-2, S-1, M-1: ``source`` accepts every case that ``target`` makes."""
    reader, _ = between(source, source)
    for case in made_by(target):
        verdict = reader.ask("decode", kind=case["kind"], bytes=bytes.fromhex(case["hex"]))
        assert verdict == "OK", (case["kind"], case["name"])
