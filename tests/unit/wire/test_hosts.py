"""Names across hosts, patterns, and stand-ins."""

from __future__ import annotations

import pytest

from speed.errors import InvalidNameError
from speed.wire.names import (
    check_host_name,
    check_remote_pattern,
    covers,
    host_id,
    local_grant,
    local_grants,
    node_id,
    split_remote,
    stand_in,
)


@pytest.mark.parametrize("name", ["a", "hosta", "Host-1_b", "x" * 32])
def test_a_host_has_a_short_name_without_dots(name: str) -> None:
    """H-1."""
    assert check_host_name(name) == name


@pytest.mark.parametrize("name", ["", "-a", "_a", "a.b", "a@b", "x" * 33, "ä", "a b", "a*", 5])
def test_other_names_are_refused(name: str) -> None:
    """H-1."""
    with pytest.raises(InvalidNameError):
        check_host_name(name)


def test_a_node_of_another_host_is_a_node_and_a_host() -> None:
    """H-1."""
    assert split_remote("etl.eu.1@hosta") == ("etl.eu.1", "hosta")
    for name in ("@hosta", "a@", "a@b@c", "a b@hosta", "bell@hosta"):
        with pytest.raises(InvalidNameError):
            split_remote(name)


@pytest.mark.parametrize(
    ("pattern", "node", "host", "holds"),
    [
        ("analytics@hosta", "analytics", "hosta", True),
        ("analytics@hosta", "analytics", "hostb", False),
        ("analytics@hosta", "analytics.1", "hosta", False),
        ("etl.*@hosta", "etl.eu", "hosta", True),
        ("etl.*@hosta", "etl", "hosta", False),
        ("*@hosta", "anything.at.all", "hosta", True),
        ("*@hosta", "anything", "hostab", False),
    ],
)
def test_a_pattern_covers_nodes_of_one_host(pattern: str, node: str, host: str, holds: bool) -> None:
    """H-1."""
    assert check_remote_pattern(pattern) == pattern
    assert covers([pattern], node, host) is holds
    assert covers(["other@hostz", pattern], node, host) is holds


@pytest.mark.parametrize("pattern", ["analytics", "*", "*.x@hosta", "@hosta", "a@*", "etl.*@", "a*@hosta"])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    """H-1: nothing covers all hosts."""
    with pytest.raises(InvalidNameError):
        check_remote_pattern(pattern)


def test_a_node_of_another_host_acts_under_a_name_of_this_root() -> None:
    """H-9."""
    assert stand_in("analytics", "hosta") == "at.hosta.analytics"
    assert local_grants(["analytics@hosta", "etl.*@hosta", "*@hosta", "local", "etl.*"]) == (
        "at.hosta.analytics",
        "at.hosta.etl.*",
        "at.hosta.*",
        "local",
        "etl.*",
    )
    with pytest.raises(InvalidNameError, match="128"):
        stand_in("x" * 128, "hosta")
    with pytest.raises(InvalidNameError):
        local_grant("a@b c")


def test_envelopes_name_a_host_as_they_name_a_node() -> None:
    """H-4."""
    assert host_id("hosta") == node_id("hosta")
