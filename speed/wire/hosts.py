"""Names across hosts: ``billing@hostb``, patterns such as ``etl.*@hosta``, and stand-ins (H-1, H-2, H-9). Pure."""

from __future__ import annotations

from collections.abc import Iterable

from speed.errors import InvalidNameError
from speed.wire.names import check_grant, check_node_name, matches, node_id

GATEWAY = "speedd.hosts"
"""The node of a root that carries to other hosts."""
SUBJECT = "speed.hosts."
"""What a host listens on begins so, and ends with its name."""
MAX_HOST_CHARACTERS = 32
_STAND_IN = "at"


def check_host_name(name: str) -> str:
    """Return ``name`` if it is the name of a host."""
    is_name = isinstance(name, str) and name[:1].isalnum() and name.replace("-", "a").replace("_", "a").isalnum()
    if not is_name or not name.isascii() or len(name) > MAX_HOST_CHARACTERS:
        shown = repr(name)[:80]
        raise InvalidNameError(f"{shown} is no name of a host: use 1 to {MAX_HOST_CHARACTERS} letters, digits, - and _")
    return name


def host_id(name: str) -> bytes:
    """The 16 bytes that envelopes name a host by."""
    return node_id(name)


def split_remote(name: str) -> tuple[str, str]:
    """Node and host of ``node@host``. InvalidNameError."""
    node, _, host = name.partition("@")
    return check_node_name(node), check_host_name(host)


def check_remote_pattern(pattern: str) -> str:
    """Return ``pattern`` if it is ``node@host``, ``family.*@host`` or ``*@host``."""
    node, _, host = pattern.partition("@")
    check_host_name(host)
    if node != "*":
        check_grant(node)
    return pattern


def host_of(pattern: str) -> str:
    """The host that a pattern is about."""
    return pattern.partition("@")[2]


def covers(patterns: Iterable[str], node: str, host: str) -> bool:
    """Whether one of the patterns is about this node of that host."""
    return any(host_of(one) == host and matches(one.partition("@")[0], node) for one in patterns)


def stand_in(node: str, host: str) -> str:
    """The node under which a node of another host acts here. InvalidNameError for a name that is too long for that."""
    return check_node_name(f"{_STAND_IN}.{host}.{node}")


def local_grant(pattern: str) -> str:
    """A grant as nodes of this root know it: ``etl.*@hosta`` is about stand-ins. InvalidNameError."""
    if "@" not in pattern:
        return pattern
    node, _, host = check_remote_pattern(pattern).partition("@")
    return check_grant(f"{_STAND_IN}.{host}.{node}")


def local_grants(patterns: Iterable[str]) -> tuple[str, ...]:
    """The same for several."""
    return tuple(map(local_grant, patterns))
