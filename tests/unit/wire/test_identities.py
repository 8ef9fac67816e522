"""Identities of nodes against their vectors: files, cards, openings, statements, verdicts (I-1 to I-7)."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speed.errors import KeyFileError, WireError
from speed.wire import identities as form
from speed.wire.identities import BoundLink, Card, Evidence, KnownIdentity, NodeIdentity, Statement
from speed.wire.names import is_fingerprint, node_id
from speed.wire.seal import key_id_of
from tests.vectors import case_name, load

VECTORS = load("identity")
SENDER = form.parse_identity_file(VECTORS["sender"].encode())
RECEIVER = form.parse_identity_file(VECTORS["receiver"].encode())
OWNER = form.parse_identity_file(VECTORS["owner"].encode())
KEY = bytes.fromhex(VECTORS["shared_key"])
LINK = BoundLink(node_id("analytics"), node_id("billing"), 7)


@pytest.mark.parametrize("case", VECTORS["valid"], ids=case_name)
def test_a_file_holds_the_stated_identity(case: dict[str, Any]) -> None:
    identity = form.parse_identity_file(case["text"].encode())
    assert identity.signing.hex() == case["signing"]
    assert identity.exchange.hex() == case["exchange"]
    assert [form.public_of(secret).hex() for secret in identity.exchanges] == case["renewed"]
    assert identity.fingerprint == case["fingerprint"]
    assert list(identity.owners) == case["owners"]
    assert form.format_identity_file(identity) == case["text"].encode()


@pytest.mark.parametrize("case", VECTORS["invalid"], ids=case_name)
def test_a_broken_file_is_refused_without_showing_it(case: dict[str, Any]) -> None:
    with pytest.raises(KeyFileError) as refused:
        form.parse_identity_file(case["text"].encode())
    assert "YGFi" not in str(refused.value)


@pytest.mark.parametrize("case", VECTORS["cards"], ids=case_name)
def test_a_card_is_of_the_node_that_its_keys_signed_it_for(case: dict[str, Any]) -> None:
    data, node = bytes.fromhex(case["card"]), node_id(case["node"])
    if "error" in case:
        with pytest.raises(WireError, match=case["error"]):
            form.read_card(data, node)
    else:
        assert form.read_card(data, node).fingerprint == case["fingerprint"]
        assert form.make_card(RECEIVER, node) == data


@pytest.mark.parametrize("case", VECTORS["links"], ids=case_name)
def test_both_ends_of_a_link_have_the_stated_key(case: dict[str, Any]) -> None:
    link = BoundLink(node_id(case["source"]), node_id(case["target"]), case["generation"], case["target_life"])
    card = Card(RECEIVER.signing, RECEIVER.exchange, bytes.fromhex(case["renewed"]))
    opening, sent = form.open_link(SENDER, card, KEY, link, bytes.fromhex(VECTORS["ephemeral"]))
    assert opening.hex() == case["opening"]
    received = form.accept_link(RECEIVER, KEY, link, opening)
    assert sent == received == (bytes.fromhex(case["key"]), case["fingerprint"])
    assert received.key_id.hex() == case["key_id"]


@pytest.mark.parametrize("case", VECTORS["refused_links"], ids=case_name)
def test_an_opening_that_is_not_of_this_link_is_refused(case: dict[str, Any]) -> None:
    with pytest.raises(WireError, match=case["error"]):
        form.accept_link(RECEIVER, KEY, LINK, bytes.fromhex(case["opening"]))


@pytest.mark.parametrize("case", VECTORS["statements"], ids=case_name)
def test_a_statement_counts_if_a_known_owner_signed_it(case: dict[str, Any]) -> None:
    data, node = bytes.fromhex(case["statement"]), node_id(case["node"])
    if "error" in case:
        with pytest.raises(WireError, match=case["error"]):
            form.read_statement(data, node, (OWNER.fingerprint,))
        return
    read = form.read_statement(data, node, (OWNER.fingerprint,))
    assert read == Statement(case["kind"], node, case["fingerprint"], case["issued"], case["until"])
    assert form.make_statement(OWNER, read) == data


@pytest.mark.parametrize("case", VECTORS["judged"], ids=case_name)
def test_a_name_is_judged_by_grants_statements_and_what_is_remembered(case: dict[str, Any]) -> None:
    known = KnownIdentity(**case["known"]) if "known" in case else None
    stated = Statement(node=LINK.source, **case["statement"]) if "statement" in case else None
    evidence = Evidence(tuple(case["grants"]), known, stated, case["has_owners"], case["now"])
    assert form.judge(case["fingerprint"], evidence) == case["verdict"]


def test_a_link_is_opened_with_a_key_of_its_own_each_time() -> None:
    card = form.read_card(form.make_card(RECEIVER, LINK.target), LINK.target)
    keys = {form.open_link(SENDER, card, KEY, LINK)[1].key for _ in range(8)}
    assert len(keys) == 8


def test_who_has_the_shared_key_alone_gets_another_key() -> None:
    """Neither as a receiver, which has no secret of the pair, nor as a sender that signs as itself."""
    card = form.read_card(form.make_card(RECEIVER, LINK.target), LINK.target)
    opening, opened = form.open_link(SENDER, card, KEY, LINK)
    stranger = NodeIdentity.new()
    with pytest.raises(WireError, match="BAD_IDENTITY"):
        form.accept_link(stranger, KEY, LINK, opening)
    own, _ = form.open_link(stranger, card, KEY, LINK)
    assert form.accept_link(RECEIVER, KEY, LINK, own).fingerprint == stranger.fingerprint != opened.fingerprint


def test_the_two_identities_without_the_shared_key_get_another_key() -> None:
    card = form.read_card(form.make_card(RECEIVER, LINK.target), LINK.target)
    ephemeral = bytes(range(32))
    one = form.open_link(SENDER, card, KEY, LINK, ephemeral)[1]
    other = form.open_link(SENDER, card, bytes(32), LINK, ephemeral)[1]
    assert one.key != other.key


def test_a_renewed_identity_opens_what_came_before_until_the_old_key_is_dropped() -> None:
    card = form.read_card(form.make_card(RECEIVER, LINK.target), LINK.target)
    opening, opened = form.open_link(SENDER, card, KEY, LINK)
    renewed = RECEIVER.renewed(keep=1)
    assert renewed.fingerprint == RECEIVER.fingerprint
    assert form.accept_link(renewed, KEY, LINK, opening) == opened
    with pytest.raises(WireError, match="given up"):
        form.accept_link(RECEIVER.renewed(keep=0), KEY, LINK, opening)


def test_the_key_id_of_a_bound_link_is_that_of_its_key() -> None:
    card = form.read_card(form.make_card(RECEIVER, LINK.target), LINK.target)
    opened = form.open_link(SENDER, card, KEY, LINK)[1]
    assert opened.key_id == key_id_of(opened.key)


def test_an_identity_shows_and_pickles_no_secret() -> None:
    assert repr(SENDER) == f"<Identity {SENDER.fingerprint}>"
    with pytest.raises(TypeError, match="never pickled"):
        pickle.dumps(SENDER)


def test_a_fingerprint_is_never_the_name_of_a_host() -> None:
    assert is_fingerprint(SENDER.fingerprint)
    for text in ("", "hostb", "A" * 40, SENDER.fingerprint[:-1], SENDER.fingerprint + "0", SENDER.fingerprint + "\n"):
        assert not is_fingerprint(text)


@given(st.binary(max_size=400))
def test_whatever_bytes_come_they_are_refused_by_name(data: bytes) -> None:
    for read in (
        lambda: form.read_card(data, LINK.source),
        lambda: form.accept_link(RECEIVER, KEY, LINK, data),
        lambda: form.read_statement(data, LINK.source, (OWNER.fingerprint,)),
        lambda: form.parse_identity_file(data),
    ):
        with pytest.raises((WireError, KeyFileError)):
            read()


@given(st.integers(0, form.OPENING_BYTES - 1), st.integers(1, 255))
def test_no_byte_of_an_opening_may_be_another(at: int, change: int) -> None:
    card = form.read_card(form.make_card(RECEIVER, LINK.target), LINK.target)
    opening = bytearray(form.open_link(SENDER, card, KEY, LINK, bytes(range(32)))[0])
    opening[at] ^= change
    with pytest.raises(WireError, match="BAD_IDENTITY"):
        form.accept_link(RECEIVER, KEY, LINK, bytes(opening))
