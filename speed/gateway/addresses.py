"""What a request's address asks for: the role, the topics, the subscription, the parameters. Pure.

A topic ``persistent://TENANT/NAMESPACE/NAME`` is the topic NAME of SPEED where TENANT/NAMESPACE is the configured one;
of all others the three parts are the name. Slashes become dots.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote

from speed.errors import InvalidNameError
from speed.gateway.limits import MAX_TOPICS_EACH
from speed.gateway.refusal import RefusedError
from speed.wire import names

ROLES = ("producer", "consumer", "reader")
_PERSISTENT = "persistent"
_SCHEME = "persistent://"
_PLAIN = re.compile(r"(?:[A-Za-z0-9_:/-]|\\\.|\.\*?)+", re.ASCII)
MAX_PATTERN = 256


@dataclass(frozen=True)
class Address:
    """What a client wants to be; ``parameters`` are the first of each name."""

    role: str
    topics: tuple[str, ...]
    subscription: str
    parameters: Mapping[str, str]
    pattern: str = ""
    """Of the topics, where they are not named."""


def split(target: str) -> tuple[list[str], dict[str, str]]:
    """The parts of the path, decoded, and the first parameter of each name. Raises RefusedError 400."""
    path, _, query = target.partition("?")
    if not path.startswith("/"):
        raise RefusedError(400, "the address begins with no slash")
    try:
        parts = [unquote(part, errors="strict") for part in path[1:].split("/")]
    except UnicodeDecodeError:
        raise RefusedError(400, "the address is not UTF-8") from None
    parameters: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        parameters.setdefault(name, value)
    return parts, parameters


class TopicNames:
    """From the names of clients to those of SPEED.

    Args:
        namespace: tenant and namespace that are left out, as ``public/default``.
    """

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace

    def of(self, tenant: str, namespace: str, topic: str) -> str:
        """Raises RefusedError 400 for what is no name of a topic."""
        own = f"{tenant}/{namespace}"
        name = topic if own == self._namespace else f"{own}/{topic}"
        try:
            return names.check_topic(name.replace("/", "."))
        except InvalidNameError as error:
            raise RefusedError(400, str(error)) from None

    def of_text(self, text: str) -> str:
        """Of a topic as parameters name it: with everything, or its name alone."""
        if not text.startswith(_SCHEME):
            tenant, namespace = self._namespace.split("/")
            return self.of(tenant, namespace, text)
        parts = text.removeprefix(_SCHEME).split("/", 2)
        if len(parts) != 3:
            raise RefusedError(400, "a topic is persistent://TENANT/NAMESPACE/NAME, or its name alone")
        return self.of(*parts)

    def matching(self, pattern: str, known: Iterable[str]) -> tuple[str, ...]:
        """Those of ``known`` (names of SPEED) that ``pattern`` covers. Raises RefusedError 400.

        A pattern is text with ``.*`` for anything and ``.`` for one character; ``\\.`` is a dot. More of regular
        expressions takes too long on some texts.
        """
        if len(pattern) > MAX_PATTERN or not _PLAIN.fullmatch(pattern):
            raise RefusedError(400, "a pattern of topics is text with .* for anything, of at most 256 characters")
        wanted = pattern.removeprefix(f"{_SCHEME}{self._namespace}/").replace(r"\.", "\0")
        return tuple(name for name in known if _covers(wanted.split(".*"), name))

    def address(self, target: str) -> Address:
        """Raises RefusedError 400 or 404."""
        parts, parameters = split(target)
        if parts[:2] == ["ws", "v2"] and len(parts) > 2 and parts[2] in ROLES:
            return self._version_2(parts[2], parts[3:], parameters)
        if parts[:3] == ["ws", "v3", "consumer"] and len(parts) == 4:
            return self._version_3(parts[3], parameters)
        if parts == ["ws", "pingpong"]:
            return Address("pingpong", (), "", parameters)
        raise RefusedError(404, "there is nothing here: /ws/v2/producer, /ws/v2/consumer and /ws/v2/reader are")

    def _version_2(self, role: str, parts: list[str], parameters: dict[str, str]) -> Address:
        if parts[:1] != [_PERSISTENT]:
            raise RefusedError(400, "only persistent topics are served")
        rest = parts[1:]
        subscription = rest.pop() if role == "consumer" and rest else ""
        if len(rest) < 3 or not all(rest) or (role == "consumer" and not subscription):
            path = "/persistent/TENANT/NAMESPACE/TOPIC" + ("/SUBSCRIPTION" if role == "consumer" else "")
            raise RefusedError(400, f"the address of a {role} is /ws/v2/{role}{path}")
        topic = self.of(rest[0], rest[1], "/".join(rest[2:]))
        return Address(role, (topic,), _checked(subscription), parameters)

    def _version_3(self, subscription: str, parameters: dict[str, str]) -> Address:
        listed, pattern = parameters.get("topics", ""), parameters.get("topicsPattern", "")
        if bool(listed) == bool(pattern):
            raise RefusedError(400, "give topics or topicsPattern")
        given = listed.split(",") if listed else []
        if len(given) > MAX_TOPICS_EACH:
            raise RefusedError(400, f"{len(given)} topics: one consumer has at most {MAX_TOPICS_EACH}")
        topics = tuple(dict.fromkeys(self.of_text(one) for one in given))
        return Address("consumer", topics, _checked(subscription), parameters, pattern)


def _checked(subscription: str) -> str:
    if subscription and not names.is_node_name(subscription):
        raise RefusedError(400, "a subscription's name has letters, digits, '_', '-' and '.' only, at most 128")
    return subscription


def _covers(pieces: list[str], name: str) -> bool:
    """Whether ``name`` is the pieces with anything between them; each is looked for once, from the left."""
    first, *others = pieces
    if not others:
        return _is(first, name)
    if len(name) < len(first) + len(others[-1]) or not _is(first, name[: len(first)]):
        return False
    place, end = len(first), len(name) - len(others[-1])
    for piece in others[:-1]:
        while place + len(piece) <= end and not _is(piece, name[place : place + len(piece)]):
            place += 1
        place += len(piece)
    return place <= end and _is(others[-1], name[end:])


def _is(piece: str, text: str) -> bool:
    """``.`` of a piece is any character, a zero byte is a dot."""
    return len(piece) == len(text) and all(
        one == "." or one == other or (one == "\0" and other == ".") for one, other in zip(piece, text, strict=True)
    )
