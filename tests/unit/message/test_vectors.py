"""The vectors of signed and encrypted messages (M-16 to M-25)."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from speed.message import algorithms, errors
from speed.message.errors import KeyRefusedError, MessageError
from speed.message.keys import MessageKey, key_of_record
from speed.message.protect import TrustedKeys, open_view, signing_input, verify
from speed.message.view import MessageView
from speed.message.writing import signed_parts
from tests.vectors import DIRECTORY, case_name, load

SIGNATURES, ENCRYPTION = load("signatures"), load("encryption")
TRUSTED = TrustedKeys({record["id"]: key_of_record(record) for record in SIGNATURES["trusted"]})
RECORDS = {record["id"]: record for record in ENCRYPTION["keys"]}
TABLE = json.loads((DIRECTORY.parent / "algorithms.json").read_text())


@cache
def held(key_id: str) -> MessageKey | None:
    """A key of the vectors; to load one of RSA takes a tenth of a second."""
    return key_of_record(RECORDS[key_id]) if key_id in RECORDS else None


@pytest.mark.parametrize("case", SIGNATURES["valid"], ids=case_name)
def test_a_signature_that_holds_is_accepted(case: dict[str, Any]) -> None:
    """M-16, M-17."""
    view = MessageView(bytes.fromhex(case["hex"])).validate()
    signed = verify(view, TRUSTED, "require")
    assert signed is not None
    assert signed.id == case["signed_by"]
    assert signing_input(view.data, signed_parts(view.data)).hex() == case["input_hex"]


@pytest.mark.parametrize("case", SIGNATURES["invalid"], ids=case_name)
def test_a_signature_that_does_not_hold_is_refused_by_name(case: dict[str, Any]) -> None:
    """M-16 to M-18."""
    with pytest.raises(MessageError) as refused:
        verify(MessageView(bytes.fromhex(case["hex"])).validate(), TRUSTED, "require")
    assert refused.value.code == case["error"]


@pytest.mark.parametrize("record", SIGNATURES["refused_keys"], ids=lambda record: record["public"])
def test_a_public_key_that_proves_nothing_is_refused(record: dict[str, Any]) -> None:
    """M-26."""
    with pytest.raises(KeyRefusedError):
        key_of_record(record)


@pytest.mark.parametrize("case", ENCRYPTION["valid"], ids=case_name)
def test_an_encrypted_payload_opens(case: dict[str, Any]) -> None:
    """M-19 to M-23."""
    opened = open_view(MessageView(bytes.fromhex(case["hex"])).validate(), held)
    assert bytes(opened.payload_bytes).hex() == case["payload_hex"]
    assert opened.opened_by == case["opened_by"]


@pytest.mark.parametrize("case", ENCRYPTION["invalid"], ids=case_name)
def test_an_encrypted_payload_that_was_altered_is_refused_by_name(case: dict[str, Any]) -> None:
    """M-19 to M-24."""
    with pytest.raises(MessageError) as refused:
        open_view(MessageView(bytes.fromhex(case["hex"])).validate(), held)
    assert refused.value.code == case["error"]


def test_the_algorithms_are_those_of_the_contract() -> None:
    """M-19, M-24."""
    for name, row in {**TABLE["encryption"], **TABLE["signature"]}.items():
        here = algorithms.ALGORITHMS[name]
        assert (here.type, here.cipher) == (row.get("type", 0), row.get("cipher", ""))
        assert here.output == row.get("encapsulated", row.get("signature"))
        assert (here.secret, here.public, here.strict) == (row["secret"], row["public"], row["strict"])
    assert len(algorithms.ALGORITHMS) == len(TABLE["encryption"]) + len(TABLE["signature"])
    assert TABLE["aliases"] == algorithms.ALIASES
    assert set(TABLE["refused"]) == algorithms.REFUSED
    for name, number in TABLE["limits"].items():
        assert getattr(algorithms, name.upper()) == number


def test_the_codes_of_messages_are_those_of_the_contract() -> None:
    """M-18: one class a code."""
    classes = [item for item in vars(errors).values() if isinstance(item, type) and issubclass(item, MessageError)]
    codes = json.loads((DIRECTORY.parent / "codes.json").read_text())["message"]
    assert {item.code for item in classes} == set(codes)
