"""Names across hosts, and what two hosts exchange (H-1, H-4, H-9)."""

from __future__ import annotations

from typing import Any

from scripts.vectors.fixed import KEY, NONCE, TIME, flipped
from speed.errors import InvalidNameError
from speed.hosts.link import PairSeal
from speed.wire import names, spc
from speed.wire.envelope import EnvelopeType
from speed.wire.seal import Keyring
from speed.wire.value import pack

A, B = "hosta", "hostb"
LIFE_A, LIFE_B = bytes(range(0x10, 0x20)), bytes(range(0x20, 0x30))


def hosts() -> dict[str, Any]:
    """Names, grants, and envelopes of two hosts with the key ``pair_key``."""
    return {
        "about": "H-1, H-4, H-9. Envelopes from `source` to `target`, whose lives are `source_life` and `target_life`; "
        "greetings and their answers are sealed without lives. `error` is the wire code of a refusal.",
        "names": [{"name": name, "valid": _is_valid(names.check_host_name, name), "bug": bug} for name, bug in _NAMES],
        "patterns": [
            {"pattern": pattern, "valid": _is_valid(names.check_remote_pattern, pattern), "bug": bug}
            for pattern, bug in _PATTERNS
        ],
        "covers": [
            {"pattern": pattern, "node": node, "host": host, "covers": names.covers([pattern], node, host), "bug": bug}
            for pattern, node, host, bug in _COVERS
        ],
        "grants": [{"grant": grant, "local": names.local_grant(grant), "bug": bug} for grant, bug in _GRANTS],
        "pair_key": KEY.hex(),
        "envelopes": _envelopes(),
    }


def _is_valid(check: Any, text: str) -> bool:
    try:
        check(text)
    except InvalidNameError:
        return False
    return True


def _envelopes() -> list[dict[str, Any]]:
    seal = PairSeal(Keyring((KEY,)), A, B, lambda: TIME)
    back = PairSeal(Keyring((KEY,)), B, A, lambda: TIME)
    greeting = pack({"nonce": NONCE + NONCE[:4], "life": LIFE_A, "number": 1})
    answer = pack({"nonce": NONCE + NONCE[:4], "life": LIFE_B, "knows": b"", "clock": 12_345})
    question = pack(
        {
            "requestId": "1",
            "deadline": 17_345,
            "operation": "call",
            "caller": "analytics",
            "node": "billing",
            "service": "charge",
            "arguments": {"amount": 100},
        }
    )
    asked = seal.seal(EnvelopeType.SPC_REQUEST, 1, question, LIFE_A, LIFE_B)
    response = spc.encode_success("1", {"tax": 18})
    return [
        _envelope(
            "a greeting", A, B, greeting, seal.seal_hello(greeting, reply=False, nonce=NONCE), "sealed with lives"
        ),
        _envelope(
            "its answer", B, A, answer, back.seal_hello(answer, reply=True, nonce=NONCE), "the flag REPLY is left out"
        ),
        _envelope("a question", A, B, question, asked, "lives in another order", lives=(LIFE_A, LIFE_B)),
        _envelope(
            "its response",
            B,
            A,
            response,
            back.seal(EnvelopeType.SPC_RESPONSE, 1, response, LIFE_B, LIFE_A),
            "one key for both directions",
            lives=(LIFE_B, LIFE_A),
        ),
        _refused("a question of another life", A, B, asked, (LIFE_A, LIFE_A), "replayed after a restart"),
        _refused("an altered question", A, B, flipped(asked, 100), (LIFE_A, LIFE_B), "the tag is not looked at"),
        _refused("an altered header", A, B, flipped(asked, 20), (LIFE_A, LIFE_B), "the header is not authenticated"),
    ]


def _envelope(
    name: str,
    source: str,
    target: str,
    payload: bytes,
    envelope: bytes,
    bug: str,
    lives: tuple[bytes, bytes] | None = None,
) -> dict[str, Any]:
    row: dict[str, Any] = {"name": name, "source": source, "target": target}
    if lives is not None:
        row |= {"source_life": lives[0].hex(), "target_life": lives[1].hex()}
    return {**row, "payload": payload.hex(), "envelope": envelope.hex(), "bug": bug}


def _refused(
    name: str, source: str, target: str, envelope: bytes, lives: tuple[bytes, bytes], bug: str
) -> dict[str, Any]:
    row = _envelope(name, source, target, b"", envelope, bug, lives)
    del row["payload"]
    return {**row, "error": "BAD_TAG"}


_NAMES = (
    ("hosta", "a plain name is refused"),
    ("Host-1_b", "capital letters, digits, - and _ are refused"),
    ("x" * 32, "the longest name is refused"),
    ("x" * 33, "a name that is longer is taken"),
    ("", "no name is taken"),
    ("a.b", "a dot begins another part of the subject"),
    ("-a", "a name that looks like an option is taken"),
    ("a@b", "two hosts in one name"),
    ("\u00e4", "letters beyond ASCII are taken"),
    ("\u0663", "digits beyond ASCII are taken"),
)
_PATTERNS = (
    ("analytics@hosta", "a node of a host is refused"),
    ("etl.*@hosta", "a family is refused"),
    ("*@hosta", "all nodes of a host are refused"),
    ("*", "everyone is taken"),
    ("*@*", "all hosts are taken"),
    ("analytics", "a node of this root is taken"),
    ("@hosta", "nobody is taken"),
    ("a*@hosta", "half a name is taken"),
)
_COVERS = (
    ("analytics@hosta", "analytics", "hosta", "a name covers nothing"),
    ("analytics@hosta", "analytics", "hostb", "the host is not looked at"),
    ("etl.*@hosta", "etl.eu.1", "hosta", "a family ends at the first dot"),
    ("etl.*@hosta", "etl", "hosta", "a family covers its own name"),
    ("*@hosta", "etl.eu", "hosta", "a star ends at a dot"),
    ("*@hosta", "etl", "hostab", "the beginning of a host is enough"),
)
_GRANTS = (
    ("analytics@hosta", "a node of another host is granted under its bare name"),
    ("etl.*@hosta", "a family of another host is one of this root"),
    ("*@hosta", "everyone is granted"),
    ("analytics", "a node of this root is changed"),
    ("etl.*", "a family of this root is changed"),
)
