"""What does not fit together in the tables about other hosts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from speed.daemon.toml_lines import KeyPath
from speed.wire.hosts import host_of

Found = Mapping[str, list[dict[str, Any]]]
Problem = tuple[KeyPath, str, str]


def host_mistakes(found: Found, lines: Mapping[KeyPath, int]) -> Iterator[Problem]:
    """Where, what is wrong, and what to do."""
    hosts, others, grants = found["hosts"][0], found["host"], found["host_grant"]
    if ("hosts",) not in lines:
        for name in [name for name, tables in (("host", others), ("host_grant", grants)) if tables]:
            yield (name, 0), f"[[{name}]] without [hosts]", "add [hosts]"
        return
    for key, todo in (("name", 'add name = "…"'), ("address", 'add address = "nats://…"')):
        if ("hosts", key) not in lines:
            yield ("hosts",), f"[hosts] has no {key}", todo
    own = hosts.get("name")
    if own is None:
        return
    for number, host in enumerate(others):
        if host.get("name") == own:
            yield ("host", number, "name"), f"host {own!r} is this host itself", "name the other one"
    if not others:
        yield ("hosts",), "[hosts] knows no other host", "add a [[host]]"
    known = {own, *(host.get("name") for host in others)}
    for number, grant in enumerate(grants):
        yield from _grant_mistakes(number, grant, own, known)


def _grant_mistakes(number: int, grant: Mapping[str, Any], own: str, known: set[Any]) -> Iterator[Problem]:
    """A grant is about this host and others, and names who calls out of this one."""
    for key in ("callers", "nodes"):
        for pattern in grant.get(key, ()):
            if host_of(pattern) not in known:
                yield (
                    ("host_grant", number, key),
                    f"there is no host {host_of(pattern)!r}",
                    "add a [[host]], or correct it",
                )
    callers, nodes = grant.get("callers", ()), grant.get("nodes", ())
    if f"*@{own}" in callers:
        what = f"'*@{own}' would let everyone of this host call out"
        yield ("host_grant", number, "callers"), what, "name each node, or a family such as 'etl.*'"
    here = {one == own for one in map(host_of, (*callers, *nodes))}
    if callers and nodes and here != {True, False}:
        yield ("host_grant", number), f"a [[host_grant]] between {own!r} and others names both", "name nodes of both"
