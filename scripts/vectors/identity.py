"""Identities: their files, cards, openings of links, statements, and who is accepted (I-1 to I-8)."""

from __future__ import annotations

from typing import Any

from scripts.vectors.fixed import FOREIGN, KEY, OTHER, SOURCE, TARGET, flipped, patched
from speed.errors import KeyFileError, WireError
from speed.wire import identities as form
from speed.wire.identities import BoundLink, Evidence, KnownIdentity, NodeIdentity, Statement
from speed.wire.names import node_id

NOW = 1_800_000_000
SENDER = NodeIdentity(bytes(range(0x60, 0x80)), (bytes(range(0x80, 0xA0)),))
RECEIVER = NodeIdentity(bytes(range(0xA0, 0xC0)), (bytes(range(0xC0, 0xE0)), bytes(range(0xE0, 0x100))))
OWNER = NodeIdentity(bytes([0x11]) * 32, (bytes([0x12]) * 32,))
STRANGER = NodeIdentity(bytes([0x21]) * 32, (bytes([0x22]) * 32,))
EPHEMERAL = bytes(range(0x30, 0x50))


def identity() -> dict[str, Any]:
    """The vectors of identities."""
    return {
        "about": "I-1 to I-7. `sender` and `receiver` are texts of identity files; `ephemeral` is the secret that the "
        "sender drew. In `links` the receiver's card is of `renewed`, one of its public exchange keys. Times are Unix "
        "seconds. `error` is the wire code of a refusal.",
        "sender": form.format_identity_file(SENDER).decode(),
        "receiver": form.format_identity_file(RECEIVER).decode(),
        "owner": form.format_identity_file(OWNER).decode(),
        "shared_key": KEY.hex(),
        "ephemeral": EPHEMERAL.hex(),
        "valid": [_file(*one) for one in _FILES],
        "invalid": [{"name": name, "bug": bug, "text": text} for name, bug, text in _broken_files()],
        "cards": _cards(),
        "links": [_link(*one) for one in _LINKS],
        "refused_links": _refused_links(),
        "statements": _statements(),
        "judged": [_judged(*one) for one in _judgements()],
    }


_FILES = [
    ("one exchange key", "labels of the two key pairs swapped", SENDER),
    ("an older exchange key", "the last key taken for the one of now", RECEIVER),
    (
        "owners",
        "owners not read",
        NodeIdentity(SENDER.seed, SENDER.exchanges, (OWNER.fingerprint, STRANGER.fingerprint)),
    ),
]


def _file(name: str, bug: str, one: NodeIdentity) -> dict[str, Any]:
    return {
        "name": name,
        "bug": bug,
        "text": form.format_identity_file(one).decode(),
        "signing": one.signing.hex(),
        "exchange": one.exchange.hex(),
        "renewed": [form.public_of(secret).hex() for secret in one.exchanges],
        "fingerprint": one.fingerprint,
        "owners": list(one.owners),
    }


def _broken_files() -> list[tuple[str, str, str]]:
    text = form.format_identity_file(SENDER).decode()
    first, _, seed, exchange, _ = text.split("\n")
    found = [
        ("empty", "an identity of zeros", ""),
        ("a key file", "another kind of file taken", text.replace(first, "SPEED-KEY-V1")),
        ("no seed", "an identity of zeros", f"{first}\n\n{exchange}\n"),
        ("no exchange key", "an identity that nobody can seal for", f"{first}\n\n{seed}\n"),
        ("two seeds", "the last of two taken", f"{first}\n\n{seed}\n{seed}\n{exchange}\n"),
        ("an exchange key twice", "repeats unchecked", text + exchange + "\n"),
        ("five exchange keys", "no bound", text + "".join(f"exchange {'AAA' + str(n)}{'A' * 39}=\n" for n in range(4))),
        ("a short seed", "length unchecked", text.replace(seed, "seed AAECAw==")),
        ("unused bits", "two spellings of one key", text.replace(seed, seed[:-2] + "9=")),
        ("an unknown word", "a typing mistake passed over", text + "owners\n"),
        ("an owner in capitals", "two spellings of one fingerprint", text + f"owner {'AB' * 20}\n"),
        ("a short owner", "a fingerprint cut", text + f"owner {'ab' * 19}\n"),
    ]
    for name, _, broken in found:
        _must_fail(name, lambda broken=broken: form.parse_identity_file(broken.encode()))
    return found


def _must_fail(name: str, read: Any) -> None:
    try:
        read()
    except (KeyFileError, WireError):
        return
    raise AssertionError(f"{name} is accepted")


def _cards() -> list[dict[str, Any]]:
    card = form.make_card(RECEIVER, node_id(TARGET))
    stranger = form.make_card(STRANGER, node_id(TARGET))
    rows = [
        {
            "name": "of this node",
            "bug": "other bytes signed",
            "node": TARGET,
            "card": card.hex(),
            "fingerprint": RECEIVER.fingerprint,
        }
    ]
    refused = [
        ("of another node", "a card copied into another entry", card, OTHER),
        (
            "the exchange key of another",
            "keys that are not signed together",
            card[:32] + stranger[32:64] + card[64:],
            "",
        ),
        ("an exchange key put in", "the key of now not signed", card[:64] + stranger[64:96] + card[96:], ""),
        ("a bit of the signature", "signature unchecked", flipped(card, 100), ""),
        ("cut", "length unchecked", card[:-1], ""),
        ("longer", "length unchecked", card + b"\0", ""),
        ("empty", "no card taken for one", b"", ""),
    ]
    for name, bug, data, node in refused:
        at = node or TARGET
        _must_fail(name, lambda data=data, at=at: form.read_card(data, node_id(at)))
        rows.append({"name": name, "bug": bug, "node": at, "card": data.hex(), "error": "BAD_IDENTITY"})
    return rows


_LINKS = [
    ("first", "a part of the schedule left out, or in another order", SOURCE, TARGET, 7, 0, 0),
    ("another generation", "one key for all generations", SOURCE, TARGET, 8, 0, 0),
    ("an ephemeral receiver", "the life left out", SOURCE, TARGET, 7, 3, 0),
    ("to an older exchange key", "only the exchange key of now tried", SOURCE, TARGET, 7, 0, 1),
    ("another name", "names left out", OTHER, TARGET, 7, 0, 0),
]


def _card(which: int) -> form.Card:
    return form.Card(RECEIVER.signing, RECEIVER.exchange, form.public_of(RECEIVER.exchanges[which]))


def _opened(link: BoundLink, which: int = 0, sender: NodeIdentity = SENDER) -> tuple[bytes, form.OpenedLink]:
    return form.open_link(sender, _card(which), KEY, link, EPHEMERAL)


def _link(name: str, bug: str, source: str, target: str, generation: int, life: int, which: int) -> dict[str, Any]:
    link = BoundLink(node_id(source), node_id(target), generation, life)
    opening, opened = _opened(link, which)
    assert form.accept_link(RECEIVER, KEY, link, opening) == opened
    return {
        "name": name,
        "bug": bug,
        "source": source,
        "target": target,
        "generation": generation,
        "target_life": life,
        "renewed": form.public_of(RECEIVER.exchanges[which]).hex(),
        "opening": opening.hex(),
        "key": opened.key.hex(),
        "key_id": opened.key_id.hex(),
        "fingerprint": opened.fingerprint,
    }


def _refused_links() -> list[dict[str, Any]]:
    """Openings that the receiver refuses on the link analytics → billing, generation 7."""
    link = BoundLink(node_id(SOURCE), node_id(TARGET), 7)
    good, _ = _opened(link)
    given_up = form.open_link(SENDER, _card(0)._replace(renewed=STRANGER.exchange), KEY, link, EPHEMERAL)[0]
    elsewhere = form.open_link(
        SENDER, form.Card(STRANGER.signing, STRANGER.exchange, STRANGER.exchange), KEY, link, EPHEMERAL
    )[0]
    found = [
        (
            "of another generation",
            "an opening put beside files of another life",
            _opened(link._replace(generation=8))[0],
        ),
        ("of another sender", "an opening moved between lanes", _opened(link._replace(source=node_id(OTHER)))[0]),
        ("to another receiver", "an opening moved between inboxes", _opened(link._replace(target=node_id(OTHER)))[0]),
        ("for a life", "the life unchecked", _opened(link._replace(target_life=3))[0]),
        (
            "under another shared key",
            "a retired key opens",
            form.open_link(SENDER, _card(0), FOREIGN, link, EPHEMERAL)[0],
        ),
        ("for another identity", "the static key not compared", elsewhere),
        ("for a key that was given up", "any exchange key tried", given_up),
        (
            "the ephemeral of another",
            "a holder of the receiver's keys opens in the sender's name",
            patched(good, 96, STRANGER.exchange),
        ),
        ("the sender of another", "the signing key not bound", patched(good, 32, STRANGER.signing)),
        ("a weak ephemeral", "an agreement of zeros taken", _weak(link)),
        ("another version", "version unchecked", patched(good, 4, b"\x02")),
        ("another magic", "another file taken", patched(good, 0, b"SPDF")),
        ("a bit of the signature", "signature unchecked", flipped(good, 250)),
        ("cut", "length unchecked", good[:-1]),
        ("longer", "length unchecked", good + b"\0"),
        ("empty", "length unchecked", b""),
    ]
    for name, _, data in found:
        _must_fail(name, lambda data=data: form.accept_link(RECEIVER, KEY, link, data))
    return [{"name": name, "bug": bug, "opening": data.hex(), "error": "BAD_IDENTITY"} for name, bug, data in found]


def _weak(link: BoundLink) -> bytes:
    """An opening whose ephemeral key is of small order, signed as it should be."""
    front = patched(_opened(link)[0][:192], 96, bytes(32))
    return front + SENDER.sign(b"speed/1 opening" + link.source + link.target + front)


def _statements() -> list[dict[str, Any]]:
    node = node_id(SOURCE)
    vouched = Statement(form.VOUCHED, node, SENDER.fingerprint, NOW, NOW + 86400)
    revoked = Statement(form.REVOKED, node, SENDER.fingerprint, NOW + 1)
    good = form.make_statement(OWNER, vouched)
    rows: list[dict[str, Any]] = []
    for name, bug, one in [("vouched", "other bytes signed", vouched), ("revoked", "kind not read", revoked)]:
        rows.append(
            {
                "name": name,
                "bug": bug,
                "statement": form.make_statement(OWNER, one).hex(),
                "kind": one.kind,
                "fingerprint": one.fingerprint,
                "issued": one.issued,
                "until": one.until,
            }
        )
    refused = [
        ("of a stranger", "any signature taken", form.make_statement(STRANGER, vouched)),
        ("a stranger with the owner's name", "the owner's keys not bound", patched(good, 64, STRANGER.signing)),
        ("of another node", "a statement copied to another name", form.make_statement(OWNER, _of_other(vouched))),
        ("another kind", "an unknown kind read as vouched", form.make_statement(OWNER, _of_kind(vouched, 3))),
        ("a longer end", "the end not signed", patched(good, 16, bytes([0xFF]) * 8)),
        ("another fingerprint", "the fingerprint not signed", flipped(good, 40)),
        ("cut", "length unchecked", good[:-1]),
    ]
    for name, bug, data in refused:
        _must_fail(name, lambda data=data: form.read_statement(data, node, (OWNER.fingerprint,)))
        rows.append({"name": name, "bug": bug, "statement": data.hex(), "error": "BAD_IDENTITY"})
    return [{**row, "node": SOURCE} for row in rows]


def _of_other(one: Statement) -> Statement:
    return Statement(one.kind, node_id(OTHER), one.fingerprint, one.issued, one.until)


def _of_kind(one: Statement, kind: int) -> Statement:
    return Statement(kind, one.node, one.fingerprint, one.issued, one.until)


def _judgements() -> list[tuple[str, str, str, Evidence]]:
    mine, other = SENDER.fingerprint, STRANGER.fingerprint
    node = node_id(SOURCE)
    vouched = Statement(form.VOUCHED, node, mine, NOW - 10, NOW + 10)
    revoked = Statement(form.REVOKED, node, mine, NOW - 5)
    owned = Evidence(has_owners=True, now=NOW)
    known = KnownIdentity(mine)
    return [
        ("without, unknown", "nodes without identity refused", "", Evidence(now=NOW)),
        ("without, beside owners", "nodes without identity refused", "", owned),
        ("without, though known", "downgraded to the shared key", "", Evidence(known=known, now=NOW)),
        ("without, though granted", "downgraded to the shared key", "", Evidence(grants=(mine,), now=NOW)),
        ("without, though vouched", "downgraded to the shared key", "", owned._replace(statement=vouched)),
        ("without, though revoked", "a revoked name goes on without", "", owned._replace(statement=revoked)),
        ("seen first", "nobody remembered", mine, Evidence(now=NOW)),
        ("seen again", "a known one asked again", mine, Evidence(known=known, now=NOW)),
        ("changed", "the newest taken", other, Evidence(known=known, now=NOW)),
        ("granted", "grants not asked", mine, Evidence(grants=(other, mine), now=NOW)),
        (
            "not the granted one",
            "a remembered one passes a grant",
            mine,
            Evidence(grants=(other,), known=known, now=NOW),
        ),
        (
            "granted, known as another",
            "pins before grants",
            mine,
            Evidence(grants=(mine,), known=KnownIdentity(other), now=NOW),
        ),
        ("granted, revoked", "a grant outlives a revocation", mine, Evidence((mine,), None, revoked, True, NOW)),
        ("vouched", "statements not read", mine, owned._replace(statement=vouched)),
        ("another is vouched", "any statement will do", other, owned._replace(statement=vouched)),
        ("nobody vouches", "first use beside owners", mine, owned),
        ("nobody vouches, known", "a pin stands for a statement", mine, owned._replace(known=known)),
        ("expired at its end", "the last second", mine, owned._replace(statement=vouched, now=NOW + 10)),
        ("before its end", "the last second", mine, owned._replace(statement=vouched, now=NOW + 9)),
        ("revoked", "kind unchecked", mine, owned._replace(statement=revoked)),
        ("another than the revoked one", "a revocation lets others in", other, owned._replace(statement=revoked)),
        (
            "an old statement",
            "one put back",
            mine,
            owned._replace(statement=vouched, known=KnownIdentity(mine, NOW - 9)),
        ),
        (
            "revoked, statement gone",
            "a revocation forgotten",
            mine,
            owned._replace(known=KnownIdentity(mine, NOW - 5, True)),
        ),
        (
            "revoked, old one put back",
            "a revocation undone",
            mine,
            owned._replace(statement=vouched, known=KnownIdentity(mine, NOW - 5, True)),
        ),
        (
            "vouched again",
            "revoked for ever",
            mine,
            owned._replace(statement=vouched, known=KnownIdentity(mine, NOW - 15, True)),
        ),
    ]


def _judged(name: str, bug: str, fingerprint: str, evidence: Evidence) -> dict[str, Any]:
    row: dict[str, Any] = {"name": name, "bug": bug, "fingerprint": fingerprint, "grants": list(evidence.grants)}
    if evidence.known is not None:
        row["known"] = evidence.known._asdict()
    if evidence.statement is not None:
        one = evidence.statement
        row["statement"] = {
            "kind": one.kind,
            "fingerprint": one.fingerprint,
            "issued": one.issued,
            "until": one.until,
        }
    return {**row, "has_owners": evidence.has_owners, "now": evidence.now, "verdict": form.judge(fingerprint, evidence)}
