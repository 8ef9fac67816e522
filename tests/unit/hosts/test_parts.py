"""Grants, sealing, and what one host knows of another."""

from __future__ import annotations

import secrets

import pytest

from speed.errors import AccessDeniedError, WireError
from speed.hosts import HostGrants, HostGrantSettings, HostsSettings
from speed.hosts.link import AWAY_SECONDS, LIFE_BYTES, Acquaintance, PairSeal
from speed.wire.envelope import EnvelopeType, counter_of, parse_header
from speed.wire.limits import AAD_BYTES
from speed.wire.seal import Keyring, hkdf
from speed.wire.value import pack, unpack_map

KEY, OTHER = bytes(range(32)), bytes(range(1, 33))
A, B = bytes(range(16)), bytes(range(16, 32))


# --- grants ---


def test_a_grant_is_for_callers_nodes_and_services() -> None:
    """H-8."""
    grants = HostGrants(
        [
            HostGrantSettings(("analytics@hosta", "etl.*@hosta"), ("billing@hostb",)),
            HostGrantSettings(("web@hosta",), ("*@hostb",), ("read",)),
            HostGrantSettings(("back@hostb",), ("analytics@hosta",)),
        ]
    )
    grants.check(("analytics", "hosta"), ("billing", "hostb"), "charge")
    grants.check(("etl.1", "hosta"), ("billing", "hostb"), None)
    grants.check(("web", "hosta"), ("anything", "hostb"), "read")
    for caller, target, service in [
        (("analytics", "hostb"), ("billing", "hostb"), "charge"),
        (("analytics", "hosta"), ("payroll", "hostb"), "charge"),
        (("analytics", "hosta"), ("billing", "hostc"), "charge"),
        (("web", "hosta"), ("billing", "hostb"), "write"),
        (("web", "hosta"), ("billing", "hostb"), None),
        (("stranger", "hosta"), ("billing", "hostb"), "charge"),
    ]:
        with pytest.raises(AccessDeniedError, match="on both hosts"):
            grants.check(caller, target, service)
    assert grants.callers_of("hosta") == ("analytics", "etl.*", "web")
    assert grants.callers_of("hostb") == ("back",)


def test_an_address_is_in_no_text_of_the_settings() -> None:
    assert "s3cret" not in repr(HostsSettings("hosta", "nats://me:s3cret@host"))


# --- sealing ---


def pair(key: bytes = KEY) -> tuple[PairSeal, PairSeal]:
    return PairSeal(Keyring((key,)), "hosta", "hostb"), PairSeal(Keyring((key,)), "hostb", "hosta")


def test_what_is_sealed_for_two_lives_opens_under_them_alone() -> None:
    """H-4."""
    a, b = pair()
    envelope = a.seal(EnvelopeType.SPC_REQUEST, 7, b"question", A, B)
    header = parse_header(envelope)
    assert counter_of(header.sequence) == 7
    assert header.nonce == (7).to_bytes(12, "big")
    assert b.open(header, envelope, B, A) == b"question"
    for seal, own, other in [(b, A, B), (b, B, B), (b, bytes(16), A), (a, A, B), (pair(OTHER)[1], B, A)]:
        with pytest.raises(WireError, match=r"BAD_TAG|UNKNOWN_KEY"):
            seal.open(header, envelope, own, other)
    with pytest.raises(WireError, match="BAD_TAG"):
        b.open_hello(header, envelope)


def test_the_key_is_made_of_the_key_of_the_pair_the_hosts_and_the_lives() -> None:
    """H-4."""
    from speed.wire.seal import Aead

    a, _ = pair()
    envelope = a.seal(EnvelopeType.SPC_REQUEST, 1, b"question", A, B)
    header = parse_header(envelope)
    key = hkdf(KEY, b"speed/1 hosts" + header.source + header.target + A + B)
    assert Aead(key).decrypt(header.nonce, envelope[AAD_BYTES:], envelope[:AAD_BYTES]) == b"question"


def test_any_bit_that_is_changed_is_noticed() -> None:
    """H-4."""
    a, b = pair()
    envelope = a.seal_hello(b"greeting", reply=True)
    assert b.open_hello(parse_header(envelope), envelope) == b"greeting"
    for place in range(len(envelope)):
        changed = bytearray(envelope)
        changed[place] ^= 0x40
        with pytest.raises(WireError):
            b.open_hello(parse_header(bytes(changed)), bytes(changed))


def test_a_new_key_is_looked_for_and_a_retired_one_is_not_accepted() -> None:
    """H-4."""
    ring = Keyring((KEY,))
    a, b = PairSeal(Keyring((OTHER,)), "hosta", "hostb"), PairSeal(ring, "hostb", "hosta")
    envelope = a.seal_hello(b"x", reply=False)
    with pytest.raises(WireError, match="UNKNOWN_KEY"):
        b.open_hello(parse_header(envelope), envelope)
    ring.look = lambda: ring.take((OTHER, KEY))
    assert b.open_hello(parse_header(envelope), envelope) == b"x"
    ring.take((KEY,))
    ring.look = lambda: None
    with pytest.raises(WireError, match="UNKNOWN_KEY"):
        b.open_hello(parse_header(envelope), envelope)


def test_keys_of_lives_long_past_are_not_kept() -> None:
    a, b = pair()
    for _ in range(100):
        life = secrets.token_bytes(LIFE_BYTES)
        envelope = a.seal(EnvelopeType.SPC_REQUEST, 1, b"x", life, B)
        assert b.open(parse_header(envelope), envelope, B, life) == b"x"
    assert len(a._kept) <= 8 and len(b._kept) <= 8


# --- acquaintances ---


def met(now: float = 100.0) -> tuple[Acquaintance, Acquaintance]:
    """Two that have greeted each other both ways."""
    a, b = Acquaintance(A), Acquaintance(B)
    for one, other in ((a, b), (b, a), (a, b)):
        one.answered(other.answer(one.greeting(now), now), now)
    return a, b


def test_two_hosts_know_each_other_after_three_greetings() -> None:
    """H-5."""
    a, b = Acquaintance(A), Acquaintance(B)
    a.answered(b.answer(a.greeting(1.0), 1.0), 1.0)
    assert a.other_life == B and not a.is_known and not a.is_up(1.0)
    b.answered(a.answer(b.greeting(1.0), 1.0), 1.0)
    assert b.other_life == A and b.is_up(1.0)
    a.answered(b.answer(a.greeting(2.0), 2.0), 2.5)
    assert a.is_up(2.5) and a.round_trip == 0.5
    assert a.is_up(2.4 + AWAY_SECONDS) and not a.is_up(2.5 + AWAY_SECONDS)


def test_an_answer_proves_a_life_only_to_who_asked_just_now() -> None:
    """H-5."""
    a, b = met()
    old = b.answer(a.greeting(100.0), 100.0)
    assert not a.answered(old, 100.0)
    for answer in (old, b.answer(Acquaintance(A).greeting(100.0), 100.0)):
        with pytest.raises(WireError, match="no greeting"):
            a.answered(answer, 100.0)
    greetings = [a.greeting(100.0) for _ in range(9)]
    with pytest.raises(WireError, match="no greeting"):
        a.answered(b.answer(greetings[0], 100.0), 100.0)
    a.answered(b.answer(greetings[1], 100.0), 100.0)


def test_a_new_life_is_noticed_once() -> None:
    """H-5."""
    a, _ = met()
    again = Acquaintance(bytes(16))
    assert a.answered(again.answer(a.greeting(100.0), 100.0), 100.0)
    assert not a.answered(again.answer(a.greeting(100.0), 100.0), 100.0)
    assert not a.is_up(100.0)  # it does not know us yet


def test_a_greeting_of_the_proven_life_counts_once() -> None:
    """H-5."""
    a, b = met()
    first, second = b.greeting(100.0), b.greeting(100.0)
    assert not a.is_strange(second)
    for replayed in (first, second):
        with pytest.raises(WireError, match="BAD_SEQUENCE"):
            a.is_strange(replayed)
    assert a.is_strange(Acquaintance(bytes(16)).greeting(1.0))
    with pytest.raises(WireError, match="BAD_SEQUENCE"):
        a.is_strange(pack({"nonce": A, "life": B, "number": "9"}))


def test_a_life_that_is_proven_again_goes_on_where_it_was() -> None:
    """H-5: as of a process that was paused, and answers again."""
    a, b = met()
    a.take_counter(7)
    others = [Acquaintance(n.to_bytes(LIFE_BYTES, "big")) for n in range(70)]
    for other in [*others[:5], b]:
        a.answered(other.answer(a.greeting(100.0), 100.0), 100.0)
    for counter in (1, 7):
        with pytest.raises(WireError, match="BAD_SEQUENCE"):
            a.take_counter(counter)
    a.take_counter(8)
    for other in others:
        a.answered(other.answer(a.greeting(100.0), 100.0), 100.0)
    assert len(a._newest) == 64


def test_a_deadline_is_told_by_the_clock_of_the_other_and_never_late() -> None:
    """H-6."""
    a, b = Acquaintance(A), Acquaintance(B)
    greeting = a.greeting(1000.0)
    a.answered(b.answer(greeting, 5.2), 1000.4)  # by its clock it is 5.2 when ours is between 1000.0 and 1000.4
    assert unpack_map(b.answer(greeting, 5.2), "answer")["clock"] == 5200
    assert 5_800 <= a.deadline_there(1001.0) <= 6_200


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        pack([1]),
        pack({"nonce": A}),
        pack({"nonce": A, "life": b"short"}),
        pack({"nonce": "x", "life": B}),
    ],
)
def test_what_is_no_greeting_is_refused(data: bytes) -> None:
    """H-4."""
    for take in (Acquaintance(A).is_strange, lambda one: Acquaintance(A).answered(one, 1.0)):
        with pytest.raises(WireError, match="BAD_PAYLOAD"):
            take(data)


def test_an_answer_without_a_clock_is_refused() -> None:
    """H-6."""
    a = Acquaintance(A)
    nonce = unpack_map(a.greeting(1.0), "greeting")["nonce"]
    with pytest.raises(WireError, match="clock"):
        a.answered(pack({"nonce": nonce, "life": B, "knows": A}), 1.0)
