"""Identities of nodes: their file, cards, openings of bound links, and statements of an owner (I-1 to I-8).

Ed25519 signs, X25519 exchanges, both by libsodium. Nothing here shows a secret; all of it is thread-safe.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from struct import Struct
from typing import Any, NamedTuple

from speed.errors import KeyFileError, WireError
from speed.wire import lazily
from speed.wire.entry import Entry
from speed.wire.limits import FINGERPRINT_BYTES, KEY_BYTES, MAX_EXCHANGE_KEYS, MAX_OWNERS
from speed.wire.names import is_fingerprint, opening_name
from speed.wire.seal import hkdf, key_id_of, random_bytes

FIRST_LINE = "SPEED-IDENTITY-V1"
_FIX = "make one with `speed key identity new`"
_SIGNATURE_BYTES = 64


def fingerprint_of(signing: bytes, exchange: bytes) -> bytes:
    """The 20 bytes that name an identity, from its two public keys (I-1)."""
    return sha256(b"speed/1 identity" + signing + exchange).digest()[:FINGERPRINT_BYTES]


# The file of an identity (I-2).


@dataclass(frozen=True, repr=False)
class NodeIdentity:
    """The secrets of one node, which it shares with nobody. Never shows them.

    Attributes:
        seed: 32 bytes that make the identity; its fingerprint follows from them.
        exchanges: secret exchange keys, the one of now first. Without the old ones, what was sealed for them is lost.
        owners: fingerprints of those whose statements say who a node is; without any, who comes first is remembered.
    """

    seed: bytes
    exchanges: tuple[bytes, ...]
    owners: tuple[str, ...] = ()

    @classmethod
    def new(cls, owners: Sequence[str] = ()) -> NodeIdentity:
        return cls(random_bytes(KEY_BYTES), (random_bytes(KEY_BYTES),), tuple(owners))

    def renewed(self, keep: int = 1) -> NodeIdentity:
        """The same identity with a new exchange key, and ``keep`` older ones that are still accepted."""
        return NodeIdentity(self.seed, (random_bytes(KEY_BYTES), *self.exchanges[:keep]), self.owners)

    @cached_property
    def _signing(self) -> tuple[bytes, bytes]:
        pair = _sodium().crypto_sign_seed_keypair(hkdf(self.seed, b"speed/1 identity signing"))
        return bytes(pair[0]), bytes(pair[1])

    @cached_property
    def _exchange(self) -> bytes:
        return hkdf(self.seed, b"speed/1 identity exchange")

    @cached_property
    def _publics(self) -> dict[bytes, bytes]:
        return {public_of(secret): secret for secret in self.exchanges}

    @property
    def signing(self) -> bytes:
        """The public key that proves what it signed."""
        return self._signing[0]

    @cached_property
    def exchange(self) -> bytes:
        """The public exchange key that never changes."""
        return public_of(self._exchange)

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.signing, self.exchange).hex()

    def sign(self, data: bytes) -> bytes:
        """The signature, 64 bytes."""
        signed: bytes = _sodium().crypto_sign(data, self._signing[1])[:_SIGNATURE_BYTES]
        return signed

    def agree(self, public: bytes) -> bytes:
        """What this identity and the holder of ``public`` share. WireError BAD_IDENTITY for a weak key."""
        return _agreed(self._exchange, public)

    def agree_renewed(self, own: bytes, public: bytes) -> bytes:
        """The same by the exchange key whose public half is ``own``; BAD_IDENTITY where it was given up."""
        secret = self._publics.get(own)
        if secret is None:
            raise WireError("BAD_IDENTITY", "it is for an exchange key that was given up")
        return _agreed(secret, public)

    def resting_key(self, shared: bytes) -> bytes:
        """What takes the place of a shared key for files of this node alone (I-9)."""
        return hkdf(shared + self._exchange, b"speed/1 identity at rest")

    def __repr__(self) -> str:
        return f"<Identity {self.fingerprint}>"

    def __reduce__(self) -> Any:
        raise TypeError("an identity is never pickled: load its file where it is needed")


def public_of(secret: bytes) -> bytes:
    """The public half of an X25519 secret."""
    public: bytes = _sodium().crypto_scalarmult_base(secret)
    return public


def _agreed(secret: bytes, public: bytes) -> bytes:
    try:
        shared: bytes = _sodium().crypto_scalarmult(secret, public)
    except Exception:
        raise WireError("BAD_IDENTITY", "an exchange key that is none") from None
    return shared


def _is_signed(public: bytes, signature: bytes, data: bytes) -> bool:
    try:
        _sodium().crypto_sign_open(signature + data, public)
    except Exception:
        return False
    return True


def _sodium() -> Any:
    return lazily.load("nacl.bindings")


def parse_identity_file(text: bytes) -> NodeIdentity:
    """The identity of a file; KeyFileError names the line, never its content."""
    try:
        lines = [line.rstrip(" \t\r") for line in text.decode("ascii").split("\n")]
    except UnicodeDecodeError:
        raise KeyFileError(f"the identity file is no text; {_FIX}") from None
    if lines[0] != FIRST_LINE:
        raise KeyFileError(f"line 1 of the identity file is not {FIRST_LINE}; {_FIX}")
    found: dict[str, list[Any]] = {"seed": [], "exchange": [], "owner": []}
    for number, line in enumerate(lines[1:], start=2):
        word, _, value = line.partition(" ")
        if line and word not in found:
            raise KeyFileError(f"line {number} of the identity file is no seed, exchange or owner; {_FIX}")
        if line:
            found[word].append(_owner(value, number) if word == "owner" else _secret(value, number))
    _check_counts(found)
    return NodeIdentity(found["seed"][0], tuple(found["exchange"]), tuple(found["owner"]))


def _check_counts(found: dict[str, list[Any]]) -> None:
    bounds = {"seed": (1, 1), "exchange": (1, MAX_EXCHANGE_KEYS), "owner": (0, MAX_OWNERS)}
    for word, (least, most) in bounds.items():
        if not least <= len(found[word]) <= most or len(set(found[word])) != len(found[word]):
            raise KeyFileError(f"the identity file has no {word}, too many of them, or one twice; {_FIX}")


def _secret(value: str, number: int) -> bytes:
    try:
        secret = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise KeyFileError(f"line {number} of the identity file is not Base64; {_FIX}") from None
    if len(secret) != KEY_BYTES or base64.b64encode(secret).decode() != value:
        raise KeyFileError(f"line {number} of the identity file is not the Base64 of {KEY_BYTES} bytes; {_FIX}")
    return secret


def _owner(value: str, number: int) -> str:
    if not is_fingerprint(value):
        raise KeyFileError(f"line {number} of the identity file is no fingerprint: 40 hexadecimal digits; {_FIX}")
    return value


def format_identity_file(identity: NodeIdentity) -> bytes:
    """The text that ``parse_identity_file`` reads back."""
    exchanges = [f"exchange {base64.b64encode(key).decode()}" for key in identity.exchanges]
    owners = [f"owner {owner}" for owner in identity.owners]
    lines = [FIRST_LINE, "", f"seed {base64.b64encode(identity.seed).decode()}", *exchanges, *owners]
    return ("\n".join(lines) + "\n").encode()


# The card of a node: its public keys, in its entry (I-3).

CARD_BYTES = 3 * KEY_BYTES + _SIGNATURE_BYTES


class Card(NamedTuple):
    """The public keys of a node: two that are its identity, and the exchange key of now."""

    signing: bytes
    exchange: bytes
    renewed: bytes

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.signing, self.exchange).hex()


def make_card(identity: NodeIdentity, node: bytes) -> bytes:
    """The card of the node with this id."""
    keys = identity.signing + identity.exchange + public_of(identity.exchanges[0])
    return keys + identity.sign(b"speed/1 card" + node + keys)


def read_card(data: bytes, node: bytes) -> Card:
    """WireError BAD_IDENTITY for what its own keys did not sign for this node: a copy, or a part of another."""
    keys, signature = data[: 3 * KEY_BYTES], data[3 * KEY_BYTES :]
    if len(data) != CARD_BYTES or not _is_signed(keys[:KEY_BYTES], signature, b"speed/1 card" + node + keys):
        raise WireError("BAD_IDENTITY", "a card that was not made for this node")
    return Card(*(keys[at : at + KEY_BYTES] for at in range(0, len(keys), KEY_BYTES)))


def fingerprint_in(entry: Entry) -> str:
    """Of the card of an entry; empty without one, and for one that is not sound."""
    try:
        return read_card(base64.b64decode(entry.identity), entry.id).fingerprint if entry.identity else ""
    except (ValueError, WireError):
        return ""


# The opening of a bound link: what its sender leaves in the lane (I-4, I-5).

_OPENING = Struct(">4sB3xII8s8x32s32s32s32s32s")
_OPENING_MAGIC = b"SPDO"
OPENING_BYTES = _OPENING.size + _SIGNATURE_BYTES


class BoundLink(NamedTuple):
    """Which link an opening is for: ids of both nodes, the sender's generation, the life of an ephemeral receiver."""

    source: bytes
    target: bytes
    generation: int
    target_life: int = 0


class OpenedLink(NamedTuple):
    """A bound link: its key, the id that its envelopes name, and the fingerprint of its sender."""

    key: bytes
    fingerprint: str

    @property
    def key_id(self) -> bytes:
        return key_id_of(self.key)


def open_link(
    own: NodeIdentity, to: Card, shared: bytes, link: BoundLink, ephemeral: bytes = b""
) -> tuple[bytes, OpenedLink]:
    """The opening to leave in the lane, and the key (I-4); ``ephemeral`` is drawn where it is not given, and forgotten.

    WireError BAD_IDENTITY where a key of the card is weak.
    """
    ephemeral = ephemeral or random_bytes(KEY_BYTES)
    drawn = public_of(ephemeral)
    publics = own.signing, own.exchange, drawn, to.exchange, to.renewed
    front = _OPENING.pack(_OPENING_MAGIC, 1, link.generation, link.target_life, key_id_of(shared), *publics)
    signature = own.sign(b"speed/1 opening" + link.source + link.target + front)
    secrets = own.agree(to.exchange), _agreed(ephemeral, to.exchange), _agreed(ephemeral, to.renewed)
    key = _bound_key(shared, secrets, link, to.fingerprint, front)
    return front + signature, OpenedLink(key, own.fingerprint)


class Bond(NamedTuple):
    """This node and another one, as a link between them takes them."""

    own: NodeIdentity
    to: Card

    def bind(
        self, shared: bytes, source: bytes, target: bytes, generation: int, target_life: int
    ) -> tuple[bytes, tuple[str, bytes]]:
        """The key of the link, and the name and bytes of the file to leave in the lane. BAD_IDENTITY."""
        opening, opened = open_link(self.own, self.to, shared, BoundLink(source, target, generation, target_life))
        return opened.key, (opening_name(generation, opened.key_id), opening)


def shared_key_id_of(opening: bytes) -> bytes:
    """Which shared key an opening was made under; BAD_IDENTITY for what is no opening."""
    if len(opening) != OPENING_BYTES or opening[:5] != _OPENING_MAGIC + b"\x01":
        raise WireError("BAD_IDENTITY", "no opening of a link")
    return opening[16:24]


def accept_link(own: NodeIdentity, shared: bytes, link: BoundLink, opening: bytes) -> OpenedLink:
    """The key of a link that another node opened to this one (I-5). WireError BAD_IDENTITY."""
    if shared_key_id_of(opening) != key_id_of(shared):
        raise WireError("BAD_IDENTITY", "an opening under another shared key")
    front, signature = opening[: _OPENING.size], opening[_OPENING.size :]
    _, _, generation, life, _, signing, exchange, drawn, to, renewed = _OPENING.unpack(front)
    if (generation, life) != (link.generation, link.target_life) or to != own.exchange:
        raise WireError("BAD_IDENTITY", "an opening of another link, or for another identity")
    if not _is_signed(signing, signature, b"speed/1 opening" + link.source + link.target + front):
        raise WireError("BAD_IDENTITY", "an opening that its sender did not sign for this link")
    secrets = own.agree(exchange), own.agree(drawn), own.agree_renewed(renewed, drawn)
    key = _bound_key(shared, secrets, link, own.fingerprint, front)
    return OpenedLink(key, fingerprint_of(signing, exchange).hex())


def _bound_key(shared: bytes, secrets: tuple[bytes, ...], link: BoundLink, target: str, front: bytes) -> bytes:
    about = link.source + link.target + bytes.fromhex(target) + sha256(front).digest()
    return hkdf(shared + b"".join(secrets), b"speed/1 bound link" + about)


# Statements: the owner of a root says whose name is whose (I-6).

_STATEMENT = Struct(">4sBB2xQQ16s20s4x32s32s")
_STATEMENT_MAGIC = b"SPDV"
STATEMENT_BYTES = _STATEMENT.size + _SIGNATURE_BYTES
VOUCHED, REVOKED = 1, 2


@dataclass(frozen=True, slots=True)
class Statement:
    """``node`` (its id) is who has ``fingerprint``, or no longer is; times in Unix seconds, ``until`` 0 for no end."""

    kind: int
    node: bytes
    fingerprint: str
    issued: int
    until: int = 0
    owner: str = field(default="", compare=False)


def make_statement(owner: NodeIdentity, statement: Statement) -> bytes:
    """The bytes of a statement that this owner signs."""
    front = _STATEMENT.pack(
        _STATEMENT_MAGIC,
        1,
        statement.kind,
        statement.issued,
        statement.until,
        statement.node,
        bytes.fromhex(statement.fingerprint),
        owner.signing,
        owner.exchange,
    )
    return front + owner.sign(b"speed/1 statement" + front)


def read_statement(data: bytes, node: bytes, owners: Sequence[str]) -> Statement:
    """What one of ``owners`` says of a node; WireError BAD_IDENTITY for anything else."""
    if len(data) != STATEMENT_BYTES or data[:5] != _STATEMENT_MAGIC + b"\x01":
        raise WireError("BAD_IDENTITY", "no statement of an owner")
    front, signature = data[: _STATEMENT.size], data[_STATEMENT.size :]
    _, _, kind, issued, until, named, fingerprint, signing, exchange = _STATEMENT.unpack(front)
    owner = fingerprint_of(signing, exchange).hex()
    if owner not in owners or not _is_signed(signing, signature, b"speed/1 statement" + front):
        raise WireError("BAD_IDENTITY", "a statement that no known owner signed")
    if named != node or kind not in (VOUCHED, REVOKED):
        raise WireError("BAD_IDENTITY", "a statement of another node, or of another kind")
    return Statement(kind, named, fingerprint.hex(), issued, until, owner)


# Whether a name may have an identity (I-7).


class KnownIdentity(NamedTuple):
    """What a node remembers of a name: its identity, the newest statement of it, and whether that revoked it."""

    fingerprint: str
    issued: int = 0
    is_revoked: bool = False


class Evidence(NamedTuple):
    """What a name is judged by: fingerprints that grants name, what is remembered, and what an owner states.

    ``has_owners``: whether owners say who a node is. ``now``: Unix seconds.
    """

    grants: tuple[str, ...] = ()
    known: KnownIdentity | None = None
    statement: Statement | None = None
    has_owners: bool = False
    now: int = 0

    @property
    def current(self) -> Statement | None:
        """The statement, unless a newer one was seen before: an old one may have been put back."""
        newest = 0 if self.known is None else self.known.issued
        return None if self.statement is None or self.statement.issued < newest else self.statement

    def is_revoked(self, fingerprint: str) -> bool:
        stated, known = self.current, self.known
        if stated is not None and stated.kind == REVOKED and stated.fingerprint == fingerprint:
            return True
        return known is not None and known.is_revoked and known.fingerprint == fingerprint and stated is None

    @property
    def is_due(self) -> bool:
        """Whether the name is to have an identity."""
        return bool(self.grants or self.known or self.statement)


def judge(fingerprint: str, evidence: Evidence) -> str:
    """``accepted``, ``first`` (accepted, and to be remembered), or why not: ``changed``, ``revoked``, ``expired``,
    ``unvouched``; without a fingerprint, the name came without an identity: ``accepted`` or ``missing``.
    """
    if not fingerprint:
        return "missing" if evidence.is_due else "accepted"
    if evidence.is_revoked(fingerprint):
        return "revoked"
    if evidence.grants:
        return "accepted" if fingerprint in evidence.grants else "changed"
    return _by_statement(fingerprint, evidence) if evidence.has_owners else _by_use(fingerprint, evidence.known)


def _by_statement(fingerprint: str, evidence: Evidence) -> str:
    stated = evidence.current
    if stated is None or stated.kind == REVOKED:
        return "unvouched"
    if stated.fingerprint != fingerprint:
        return "changed"
    return "expired" if stated.until and evidence.now >= stated.until else "accepted"


def _by_use(fingerprint: str, known: KnownIdentity | None) -> str:
    if known is None:
        return "first"
    return "accepted" if known.fingerprint == fingerprint else "changed"
