"""Reloaded grants, lines of pipes, and the notices to a service manager."""

from __future__ import annotations

import socket
from pathlib import Path

from speed.core.access import AccessPolicy
from speed.daemon.app import ServiceNotifier
from speed.daemon.host import MAX_LINE_CHARACTERS, LineSplitter, change_grants


def policy_after(old: list[str], new: list[str]) -> AccessPolicy:
    policy = AccessPolicy(old)
    change_grants(policy, old, new)
    return policy


def test_a_reload_takes_grants_back_and_gives_new_ones() -> None:
    policy = policy_after(["a", "b"], ["b", "c"])
    assert [name for name in "abc" if policy.allows(name)] == ["b", "c"]


def test_a_name_replaced_by_its_family_stays_allowed() -> None:
    """A-4: an exact denial would hold against the family."""
    assert policy_after(["etl.1"], ["etl.*"]).allows("etl.1")


def test_a_family_replaced_by_one_of_its_names_allows_only_that_name() -> None:
    policy = policy_after(["etl.*"], ["etl.1"])
    assert policy.allows("etl.1")
    assert not policy.allows("etl.2")


def test_bytes_become_lines_however_they_are_cut() -> None:
    data = "eins\nzwei ü\r\n\nlast".encode()
    for size in range(1, len(data) + 1):
        splitter = LineSplitter()
        lines = [line for at in range(0, len(data), size) for line in splitter.feed(data[at : at + size])]
        assert [*lines, *splitter.end()] == ["eins", "zwei ü", "last"]


def test_a_line_without_an_end_takes_bounded_memory() -> None:
    splitter = LineSplitter()
    lines = [line for _ in range(100) for line in splitter.feed(b"x" * 1000)]
    assert lines
    assert all(len(line) <= MAX_LINE_CHARACTERS for line in lines)


def test_the_service_manager_hears_of_readiness_and_life(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(5)
        environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "3000000"}
        notifier = ServiceNotifier(environment)
        notifier.ready("all up")
        assert manager.recv(200).startswith(b"READY=1\nSTATUS=all up\n")
        notifier.alive()
        assert manager.recv(200) == b"WATCHDOG=1"
        assert notifier.watchdog_seconds == 1.5


def test_without_a_service_manager_nothing_is_sent() -> None:
    notifier = ServiceNotifier({})
    notifier.ready("x")
    assert notifier.watchdog_seconds is None


def test_a_watchdog_meant_for_another_process_is_not_ours() -> None:
    assert ServiceNotifier({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"}).watchdog_seconds is None
