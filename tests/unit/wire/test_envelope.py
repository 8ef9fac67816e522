"""Envelopes, sealing and opening: W-4 to W-13."""

from __future__ import annotations

import os
from typing import Any
from unittest.mock import Mock

import pytest
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from hypothesis import given
from hypothesis import strategies as st

from speed.errors import ConfigurationError, WireError
from speed.wire.envelope import ENVELOPE_OVERHEAD, Header, counter_of, generation_of, make_sequence, parse_header
from speed.wire.names import node_id
from speed.wire.seal import Aead, Keyring, LinkOpener, LinkSealer, NonceSource, link_key
from tests.vectors import case_name, load

VECTORS = load("envelopes")
SOURCE, TARGET = node_id(VECTORS["source"]), node_id(VECTORS["target"])
KEYS = tuple(bytes.fromhex(key) for key in VECTORS["accepted_keys"])
NONCE = bytes(12)

FLAGS = {1: 3, 2: 2, 3: 6, 4: 3, 5: 4, 6: 4, 7: 4, 8: 4}
kinds = st.sampled_from(sorted(FLAGS)).flatmap(
    lambda type_: st.tuples(st.just(type_), st.integers(0, 7).map(lambda flags: flags & FLAGS[type_]))
)
sequences = st.tuples(st.integers(1, 2**24 - 1), st.integers(1, 2**40 - 1))


def opened(envelope: bytes) -> tuple[Header, bytes]:
    """Read one envelope as a receiver of the lane does: header, ids, length, tag."""
    header = parse_header(envelope)
    if header.source != SOURCE:
        raise WireError("WRONG_SOURCE", "not the lane's sender")
    if header.target != TARGET:
        raise WireError("WRONG_TARGET", "not this inbox")
    if len(envelope) != header.payload_bytes + ENVELOPE_OVERHEAD:
        raise WireError("TRUNCATED", "more bytes to come")
    return header, LinkOpener(Keyring(KEYS), SOURCE, TARGET).open(header, envelope)


@pytest.mark.parametrize("case", VECTORS["valid"], ids=case_name)
def test_a_published_envelope_opens_and_seals_to_the_same_bytes(case: dict[str, Any]) -> None:
    """W-4, W-7, W-10: whatever library does the work."""
    envelope, sequence = bytes.fromhex(case["envelope"]), int(case["sequence"], 16)
    header, payload = opened(envelope)
    assert payload == bytes.fromhex(case["payload"])
    assert (header.type, header.flags, header.sequence) == (case["type"], case["flags"], sequence)
    assert (header.timestamp_ms, header.nonce) == (case["timestamp_ms"], bytes.fromhex(case["nonce"]))
    ring = Keyring((bytes.fromhex(case["key"]),))
    sealer = LinkSealer(ring, SOURCE, TARGET, generation_of(sequence))
    again = sealer.seal(header.type, header.flags, counter_of(sequence), header.timestamp_ms, payload, header.nonce)
    assert again == envelope


@pytest.mark.parametrize("case", VECTORS["invalid"], ids=case_name)
def test_a_broken_envelope_is_refused_for_its_reason(case: dict[str, Any]) -> None:
    """W-5, W-6, W-12."""
    envelope = bytes.fromhex(case["envelope"])
    with pytest.raises(WireError) as refusal:
        opened(envelope)
    assert refusal.value.reason == case["error"]


@given(kinds, sequences, st.binary(max_size=300), st.integers(0, 2**64 - 1), st.binary(min_size=12, max_size=12))
def test_what_is_sealed_opens_again(
    kind: tuple[int, int], sequence: tuple[int, int], payload: bytes, timestamp: int, nonce: bytes
) -> None:
    """W-7."""
    generation, counter = sequence
    envelope = LinkSealer(Keyring(KEYS), SOURCE, TARGET, generation).seal(*kind, counter, timestamp, payload, nonce)
    header, found = opened(envelope)
    assert found == payload
    assert (header.type, header.flags, header.timestamp_ms) == (*kind, timestamp)
    assert header.sequence == make_sequence(generation, counter)


@given(st.binary(max_size=64), st.data())
def test_no_envelope_opens_after_any_byte_changed(payload: bytes, data: st.DataObject) -> None:
    """W-7: the tag covers both headers and the ciphertext."""
    envelope = bytearray(LinkSealer(Keyring(KEYS), SOURCE, TARGET, 3).seal(1, 1, 9, 5, payload, NONCE))
    position = data.draw(st.integers(0, len(envelope) - 1))
    envelope[position] ^= data.draw(st.integers(1, 255))
    with pytest.raises(WireError):
        opened(bytes(envelope))


def test_every_single_flipped_bit_is_noticed() -> None:
    """W-7: exhaustively, on one envelope."""
    envelope = LinkSealer(Keyring(KEYS), SOURCE, TARGET, 3).seal(1, 0, 9, 5, b"hello", NONCE)
    for bit in range(len(envelope) * 8):
        altered = bytearray(envelope)
        altered[bit // 8] ^= 1 << bit % 8
        with pytest.raises(WireError):
            opened(bytes(altered))


@given(st.binary(max_size=200))
def test_garbage_gives_a_named_error_and_nothing_else(garbage: bytes) -> None:
    """W-5."""
    with pytest.raises(WireError):
        opened(garbage)
    with pytest.raises(WireError):
        parse_header(garbage)


def test_an_envelope_is_read_at_any_offset_of_a_buffer() -> None:
    """W-4."""
    envelope = LinkSealer(Keyring(KEYS), SOURCE, TARGET, 3).seal(1, 0, 9, 5, b"hello", NONCE)
    assert parse_header(memoryview(b"xyz" + envelope), 3) == parse_header(envelope)


def test_a_sequence_holds_generation_and_counter() -> None:
    """W-8."""
    sequence = make_sequence(7, 9)
    assert (generation_of(sequence), counter_of(sequence)) == (7, 9)
    assert make_sequence(8, 1) > make_sequence(7, 2**40 - 1)


@pytest.mark.parametrize("counter", [0, -1, 2**40])
def test_a_counter_never_spills_into_the_generation(counter: int) -> None:
    """W-8."""
    with pytest.raises(ValueError, match="counter"):
        LinkSealer(Keyring(KEYS), SOURCE, TARGET, 3).seal(1, 0, counter, 5, b"", NONCE)


def test_forged_generations_do_not_grow_the_openers_memory() -> None:
    """W-12: keys are derived for what a stranger writes; only a few are kept."""
    opener = LinkOpener(Keyring(KEYS), SOURCE, TARGET)
    for generation in range(1, 40):
        forged = bytearray(LinkSealer(Keyring(KEYS), SOURCE, TARGET, generation).seal(1, 0, 1, 5, b"", NONCE))
        forged[-1] ^= 1
        with pytest.raises(WireError, match="BAD_TAG"):
            opener.open(parse_header(forged), bytes(forged))
    good = LinkSealer(Keyring(KEYS), SOURCE, TARGET, 5).seal(1, 0, 1, 5, b"ok", NONCE)
    assert opener.open(parse_header(good), good) == b"ok"


def test_nonces_are_slices_of_the_drawn_bytes_and_never_repeat() -> None:
    """W-13: each drawn byte is used once."""
    drawn = bytearray()

    def draw(count: int) -> bytes:
        block = bytes((len(drawn) + index) * 7919 >> 3 & 0xFF for index in range(count))
        drawn.extend(block)
        return block

    source = NonceSource(draw)
    taken = b"".join(source.draw() for _ in range(1000))
    assert bytes(drawn).startswith(taken)


def test_a_keyring_shows_ids_but_no_key() -> None:
    """W-9: a key never reaches a log, nor another process by pickling."""
    import pickle

    ring = Keyring(KEYS)
    assert KEYS[0].hex() not in repr(ring)
    assert ring.key_id.hex() in repr(ring)
    with pytest.raises(TypeError):
        pickle.dumps(ring)


@pytest.mark.parametrize("keys", [(), (b"short",)], ids=["none", "short"])
def test_a_keyring_needs_whole_keys(keys: tuple[bytes, ...]) -> None:
    """W-14."""
    with pytest.raises(ConfigurationError):
        Keyring(keys)


@pytest.mark.parametrize("size", [0, 1, 65_536, 5_000_000])
def test_what_libsodium_seals_is_what_another_library_seals(size: int) -> None:
    """W-7."""
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    envelope = LinkSealer(Keyring(KEYS), SOURCE, TARGET, 1).seal(2, 0, 1, 1, bytes(size), NONCE)
    aead = ChaCha20Poly1305(link_key(KEYS[0], SOURCE, TARGET, 1))
    assert envelope[88:] == aead.encrypt(NONCE, bytes(size), envelope[:88])
    assert LinkOpener(Keyring(KEYS), SOURCE, TARGET).open(parse_header(envelope), envelope) == bytes(size)


def test_nonces_are_drawn_many_at_once_and_each_is_given_once() -> None:
    """W-13."""
    source = NonceSource(os.urandom)
    drawn = [source.draw() for _ in range(600)]
    assert len(set(drawn)) == 600
    assert {len(nonce) for nonce in drawn} == {12}


@pytest.mark.parametrize("opens", [False, True], ids=["sealed", "opened"])
def test_a_large_envelope_takes_its_size_once_more_and_no_further_copy(opens: bool) -> None:
    """W-7: memory beside what the caller holds already."""
    import tracemalloc

    payload = bytes(8 << 20)
    sealer, opener = LinkSealer(Keyring(KEYS), SOURCE, TARGET, 1), LinkOpener(Keyring(KEYS), SOURCE, TARGET)
    envelope = sealer.seal(1, 0, 1, 5, payload, NONCE)
    header = parse_header(envelope)
    tracemalloc.start()
    try:
        result = opener.open(header, memoryview(envelope)) if opens else sealer.seal(1, 0, 2, 5, payload, NONCE)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(result) <= peak < len(result) + (1 << 20)


def test_opening_leaves_the_sealed_bytes_as_they_are() -> None:
    """L-20: those of a damaged envelope go to quarantine."""
    damaged = bytearray(LinkSealer(Keyring(KEYS), SOURCE, TARGET, 1).seal(1, 0, 1, 5, bytes(1000), NONCE))
    damaged[500] ^= 1
    before = bytes(damaged)
    with pytest.raises(WireError, match="BAD_TAG"):
        LinkOpener(Keyring(KEYS), SOURCE, TARGET).open(parse_header(damaged), memoryview(damaged))
    assert damaged == before


@pytest.fixture(params=["openssl", "libsodium"])
def aead(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Aead:
    """Of OpenSSL, and of libsodium where OpenSSL may not do it."""
    if request.param == "libsodium":
        refuse = Mock(side_effect=UnsupportedAlgorithm("FIPS"))
        monkeypatch.setattr("cryptography.hazmat.primitives.ciphers.aead.ChaCha20Poly1305", refuse)
    return Keyring(KEYS).sealing_aead(SOURCE, TARGET, 1)


def test_openssl_and_libsodium_seal_alike(aead: Aead) -> None:
    """W-12: with front and associated data, by view, and into memory that is given."""
    sealed = aead.encrypt(NONCE, memoryview(b"hello"), memoryview(b"aad"), b"front")
    assert sealed[:5] == b"front"
    assert sealed[5:] == ChaCha20Poly1305(link_key(KEYS[0], SOURCE, TARGET, 1)).encrypt(NONCE, b"hello", b"aad")
    assert aead.decrypt(NONCE, memoryview(sealed)[5:], memoryview(b"aad")) == b"hello"
    into = bytearray(5)
    aead.decrypt_into(NONCE, sealed[5:], b"aad", memoryview(into))
    assert into == b"hello"


@pytest.mark.parametrize(("nonce", "sealed"), [(bytes(11), bytes(16)), (bytes(13), bytes(16)), (NONCE, bytes(15))])
def test_what_is_too_short_to_be_sealed_is_refused(aead: Aead, nonce: bytes, sealed: bytes) -> None:
    """W-12: no byte beyond what is there is read."""
    with pytest.raises(ValueError, match=r"."):
        aead.decrypt(nonce, sealed, b"")
    with pytest.raises(ValueError, match=r"."):
        aead.decrypt_into(nonce, sealed, b"", memoryview(bytearray(3)))


def test_nothing_is_sealed_under_a_nonce_of_another_length(aead: Aead) -> None:
    """W-13."""
    with pytest.raises(Exception, match=r"(?i)nonce"):
        aead.encrypt(bytes(11), b"", b"")


def test_what_is_sealed_for_one_life_of_an_ephemeral_receiver_opens_in_no_other() -> None:
    """W-10."""
    ring = Keyring(KEYS)
    sealer = LinkSealer(ring, SOURCE, TARGET, 1)
    envelopes = {}
    for life in (0, 1, 2):
        sealer.seal_for(life)
        envelopes[life] = sealer.seal(1, 0, 1, 5, b"x", NONCE)
    for life, envelope in envelopes.items():
        for other in envelopes:
            opener = LinkOpener(ring, SOURCE, TARGET, other)
            if other == life:
                assert opener.open(parse_header(envelope), envelope) == b"x"
            else:
                with pytest.raises(WireError, match="BAD_TAG"):
                    opener.open(parse_header(envelope), envelope)
