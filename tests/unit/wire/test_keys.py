"""Key files and derived keys: W-9 to W-11, W-14."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speed.errors import KeyFileError
from speed.wire.names import node_id
from speed.wire.seal import Keyring, Keys, format_key_file, hkdf, key_id_of, link_key, parse_key_file, rotate
from tests.vectors import case_name, load

VECTORS = load("keys")
keys = st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=16, unique=True).map(tuple)


@pytest.mark.parametrize("case", VECTORS["valid"], ids=case_name)
def test_a_valid_key_file_gives_its_keys_in_order(case: dict[str, Any]) -> None:
    """W-14: the first key seals."""
    assert [key.hex() for key in parse_key_file(case["text"].encode())] == case["keys"]


@pytest.mark.parametrize("case", VECTORS["invalid"], ids=case_name)
def test_an_invalid_key_file_is_refused_without_showing_its_content(case: dict[str, str]) -> None:
    """W-14."""
    with pytest.raises(KeyFileError) as refusal:
        parse_key_file(case["text"].encode())
    for line in case["text"].split("\n")[1:]:
        assert len(line) < 8 or line.strip() not in str(refusal.value)


@pytest.mark.parametrize("case", VECTORS["derived"], ids=case_name)
def test_derived_keys_are_the_published_ones(case: dict[str, Any]) -> None:
    """W-9, W-10, W-11."""
    key, source, target = bytes.fromhex(case["key"]), node_id(case["source"]), node_id(case["target"])
    assert key_id_of(key).hex() == case["key_id"]
    assert link_key(key, source, target, case["generation"], case["target_life"]).hex() == case["link_key"]
    assert Keyring((key,)).lane_key(source, target).hex() == case["lane_key"]
    assert Keyring((key,)).registry_key.hex() == case["registry_key"]


def test_derived_keys_are_right_and_few_are_remembered_however_many_are_asked_for() -> None:
    keys = Keys.of((b"k" * 32,))
    wanted = [(b"info %d" % n, hkdf(b"k" * 32, b"info %d" % n)) for n in range(1100)]
    assert [(info, keys.derived(b"k" * 32, info)) for info, _ in wanted] == wanted
    assert len(keys._derived) <= 1024


def test_hkdf_is_that_of_rfc_5869() -> None:
    """W-10: test case 3 of the RFC, without salt and info, cut to 32 bytes."""
    expected = "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d"
    assert hkdf(bytes([0x0B]) * 22, b"").hex() == expected


@given(keys)
def test_what_is_formatted_is_read_back(some: tuple[bytes, ...]) -> None:
    """W-14."""
    assert parse_key_file(format_key_file(some)) == some


@given(st.binary(max_size=200) | st.binary(max_size=100).map(lambda tail: b"SPEED-KEY-V1\n\n" + tail))
def test_any_bytes_are_keys_or_a_named_mistake(text: bytes) -> None:
    """W-14."""
    try:
        found = parse_key_file(text)
    except KeyFileError:
        return
    assert found
    assert all(len(key) == 32 for key in found)


def test_rotation_seals_with_the_new_key_and_still_accepts_the_former() -> None:
    """W-14."""
    first, second, third = (bytes([number]) * 32 for number in range(3))
    assert rotate((first,), second) == (second, first)
    assert rotate((second, first), third) == (third, second)
    assert rotate((second, first), third, keep=2) == (third, second, first)
    assert rotate((second, first), third, keep=0) == (third,)


def test_the_mac_keys_of_a_lane_are_as_many_as_the_keys_of_the_ring() -> None:
    ring = Keyring((b"\x01" * 32, b"\x02" * 32))
    keys = ring.lane_keys(b"s" * 16, b"t" * 16)
    assert len(keys) == 2
    assert list(keys) == [keys[0], keys[1]]


def test_a_ring_that_is_derived_follows_the_keys_of_the_first() -> None:
    first, second = bytes(32), bytes([1]) * 32
    ring = Keyring((first,))
    resting = ring.derived(lambda key: sha256(key).digest())
    assert resting.now.keys == (sha256(first).digest(),)
    ring.take((second, first))
    assert resting.now.keys == (sha256(second).digest(), sha256(first).digest())
    ring.take((second,))
    assert resting.now.keys == (sha256(second).digest(),)


def test_a_derived_ring_that_lacks_a_key_looks_for_new_ones() -> None:
    ring = Keyring((bytes(32),))
    resting = ring.derived(lambda key: sha256(key).digest())
    new = bytes([2]) * 32
    ring.look = lambda: ring.take((new,))
    assert resting.find(key_id_of(sha256(new).digest())) == sha256(new).digest()
