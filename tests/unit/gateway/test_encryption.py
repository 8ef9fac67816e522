"""Keys and contexts of messages that clients encrypt."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest

from speed.gateway import encryption
from speed.gateway.encryption import Context, Key, kept, new_context, read_keys, written
from speed.gateway.refusal import RefusedError

KEYS = {"anna": Key("eA==", {"v": "1"}), "bert": Key("eQ==", {})}


def given(keys: Any) -> str:
    return b64encode(json.dumps(keys).encode()).decode()


def test_keys_are_read_in_their_order_and_metadata_may_be_missing() -> None:
    said = {"anna": {"keyValue": "eA==", "metadata": {"v": "1"}}, "bert": {"keyValue": "eQ=="}}
    found = read_keys(given(said))
    assert found == KEYS
    assert read_keys(given(said).replace("+", " ")) == KEYS
    assert read_keys("") is None


@pytest.mark.parametrize(
    "text",
    [
        "one,two",
        given({}),
        given([]),
        given({"a": {"keyValue": ""}}),
        given({"a": {"keyValue": "?"}}),
        given({"a": {"keyValue": "eA=="}, "b": {}}),
        given({"": {"keyValue": "eA=="}}),
        given({"a": {"keyValue": "eA==", "metadata": {"v": 1}}}),
        given({str(one): {"keyValue": "eA=="} for one in range(17)}),
        b64encode(b"[" * 9999).decode(),
    ],
)
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(RefusedError) as error:
        read_keys(text)
    assert error.value.status == 400


def test_a_context_is_kept_as_it_was_given() -> None:
    context = new_context(KEYS, "cGFyYW0=", "LZ4", 7)
    assert context == Context(KEYS, "cGFyYW0=", "LZ4", 7, None)
    assert kept(written(context)) == context
    assert new_context(KEYS, "cGFyYW0", None, None) == Context(KEYS, "cGFyYW0", "NONE", 0, None)


@pytest.mark.parametrize(
    ("param", "compression", "size"),
    [
        (None, None, None),
        ("", None, None),
        ("?", None, None),
        ("eA==", "LZ4", None),
        ("eA==", None, 1),
        ("eA==", "RAR", 1),
        ("eA==", "LZ4", -1),
        ("eA==", "LZ4", 1 << 31),
    ],
)
def test_a_context_that_nobody_could_use_is_refused(
    param: str | None, compression: str | None, size: int | None
) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        new_context(KEYS, param, compression, size)


@pytest.mark.parametrize("text", [None, 5, "", "{}", "[]", '{"keys":{},"param":5}', "[" * 9999])
def test_what_others_wrote_is_no_context(text: Any) -> None:
    assert kept(text) is None


def test_names_of_compressions_are_those_of_pulsar() -> None:
    assert encryption.COMPRESSIONS == ("NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY")
