"""Registry entry files: R-2, R-3."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speed.core.access import granted
from speed.errors import ConfigurationError, WireError
from speed.wire.entry import Entry, decode_entry, encode_entry, key_ids_in
from speed.wire.limits import MAX_ENTRY_BYTES
from speed.wire.seal import Keyring
from tests.vectors import case_name, load

VECTORS = load("entries")
RING = Keyring(tuple(bytes.fromhex(key) for key in VECTORS["accepted_keys"]))
LISTS = ("fabrics", "allow", "deny", "subscriptions", "features", "shared", "observers")


def entry_of(fields: dict[str, Any]) -> Entry:
    values = {key: tuple(value) if key in LISTS else value for key, value in fields.items() if key != "node_id"}
    return Entry(**values)


BASE = entry_of(VECTORS["valid"][0]["entry"])


def padded(case: dict[str, Any]) -> bytes:
    return bytes.fromhex(case["content"]).ljust(case["bytes"], b" ")


@pytest.mark.parametrize("case", VECTORS["valid"], ids=case_name)
def test_a_published_entry_is_read(case: dict[str, Any]) -> None:
    """R-2, R-3."""
    entry = decode_entry(padded(case), RING.registry_keys)
    assert entry == entry_of(case["entry"])
    assert entry.id.hex() == case["entry"]["node_id"]


@pytest.mark.parametrize("case", VECTORS["invalid"], ids=case_name)
def test_a_broken_entry_is_refused(case: dict[str, Any]) -> None:
    """R-2, R-3."""
    with pytest.raises(WireError) as refusal:
        decode_entry(padded(case), RING.registry_keys)
    assert refusal.value.reason == "BAD_ENTRY"


@pytest.mark.parametrize("case", VECTORS["senders"], ids=case_name)
def test_the_most_specific_pattern_says_who_may_write(case: dict[str, Any]) -> None:
    """A-3, A-4."""
    entry = replace(BASE, allow=tuple(case["allow"]), deny=tuple(case["deny"]))
    assert granted(entry, case["sender"]) is case["granted"]


@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
    st.lists(st.text(max_size=10), max_size=5).map(tuple),
    st.integers(0, 2**63 - 1),
)
def test_any_text_and_number_is_read_back(host: str, fabrics: tuple[str, ...], pid_start: int) -> None:
    """R-2: also quotes, line breaks and characters beyond ASCII."""
    entry = replace(BASE, host=host, fabrics=fabrics, pid_start=pid_start)
    data = encode_entry(entry, RING.registry_key)
    assert decode_entry(data, RING.registry_keys) == entry
    assert len(data) == 2048


@given(st.data())
def test_no_changed_byte_of_the_two_lines_passes(data: st.DataObject) -> None:
    """R-3: a torn heartbeat is never half believed."""
    file = bytearray(encode_entry(BASE, RING.registry_key))
    position = data.draw(st.integers(0, len(file.rstrip(b" ")) - 2))
    file[position] ^= data.draw(st.integers(1, 255))
    with pytest.raises(WireError):
        decode_entry(bytes(file), RING.registry_keys)


def test_a_heartbeat_keeps_the_size_of_the_file() -> None:
    """R-7: one pwrite replaces the whole entry."""
    first = encode_entry(BASE, RING.registry_key)
    later = encode_entry(replace(BASE, last_heartbeat=2**60), RING.registry_key, len(first))
    assert len(later) == len(first)


def test_an_entry_that_outgrows_its_capacity_gets_the_next_power_of_two() -> None:
    """R-2, R-14."""
    entry = replace(BASE, allow=tuple(f"node{number}" for number in range(300)))
    assert len(encode_entry(entry, RING.registry_key, 2048)) == 4096


def test_an_entry_beyond_the_limit_is_refused_before_it_is_written() -> None:
    """R-2."""
    entry = replace(BASE, allow=tuple(f"node{number}" for number in range(10_000)))
    with pytest.raises(ConfigurationError, match=str(MAX_ENTRY_BYTES)):
        encode_entry(entry, RING.registry_key)


def test_the_keys_that_an_entry_names_are_read_without_its_mac() -> None:
    """A tool tells by them which nodes have a key."""
    ids = (b"\x01" * 8, b"\x02" * 8)
    data = encode_entry(BASE, b"\x07" * 32, key_ids=ids)
    assert key_ids_in(data) == ids
    assert key_ids_in(encode_entry(BASE, b"\x07" * 32)) == ()


@pytest.mark.parametrize(
    "line", [b"", b"[]", b'{"keyIds": 3}', b'{"keyIds": ["zz"]}', b'{"keyIds": ["01"]}', b"[" * 99]
)
def test_what_names_no_keys_names_none(line: bytes) -> None:
    assert key_ids_in(line + b"\n") == ()
