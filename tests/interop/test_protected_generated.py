"""What another language signs and encrypts with keys that it made, Python verifies and opens (M-16 to M-26)."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from typing import Any

import pytest

from speed.message.algorithms import ALGORITHMS
from speed.message.keys import key_of_record
from speed.message.protect import OpenedView, TrustedKeys, open_view, verify
from speed.message.view import MessageView
from tests.interop.languages import CHOSEN, LANGUAGES, ROOT

PRODUCERS = [name for name in CHOSEN if name == "java"]
PAYLOAD = b"hello" * 20
BESIDE = {"second of two", "everything", "direct RSA", "gzip", "zstd", "lz4", "snappy"}


@cache
def made_by(language: str) -> dict[str, dict[str, Any]]:
    """Messages by name: bytes, and the keys that their reader needs."""
    LANGUAGES[language].check_built()
    command = [*LANGUAGES[language].vectors, "generated"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    return {case["name"]: case for case in map(json.loads, done.stdout.splitlines())}


def read(case: dict[str, Any]) -> tuple[str | None, OpenedView]:
    """Id of the key that signed, and the opened message."""
    keys = {record["id"]: key_of_record(record) for record in case["keys"]}
    view = MessageView(bytes.fromhex(case["hex"])).validate()
    signer = verify(view, TrustedKeys(keys), "verify")
    return None if signer is None else signer.id, open_view(view, keys.get)


@pytest.mark.parametrize("language", PRODUCERS)
def test_every_algorithm_and_encoding_of_another_language_is_read(language: str) -> None:
    """M-16 to M-23."""
    cases = made_by(language)
    assert cases.keys() == ALGORITHMS.keys() | BESIDE
    for name, case in cases.items():
        signed_by, opened = read(case)
        assert bytes(opened.payload_bytes) == PAYLOAD, name
        row = ALGORITHMS.get(name)
        if row is not None:
            assert (signed_by, opened.opened_by) == ((f"{name}-1", None) if row.is_signature else (None, f"{name}-1"))


@pytest.mark.parametrize("language", PRODUCERS)
def test_all_that_another_language_says_of_a_message_is_read(language: str) -> None:
    """M-12, M-20, M-28, M-29."""
    signed_by, opened = read(made_by(language)["everything"])
    said = opened.security
    assert (signed_by, opened.opened_by) == ("ed25519-1", "reader-1")
    assert (said.publisher_id, said.publisher_team, said.contains_pii) == ("billing", "payments", True)
    assert (said.data_classification, said.encryption.aad) == ("restricted", bytes(range(3)))
    assert (opened.schema.schema_name, opened.schema.schema_version) == ("order", "2")
    assert opened.uncompressed_bytes == len(PAYLOAD)
