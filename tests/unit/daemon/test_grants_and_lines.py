"""Reloaded grants, lines of pipes, and the notices to a service manager."""

from __future__ import annotations

import socket
from pathlib import Path

from speed.core.access import AccessPolicy
from speed.daemon.control import ServiceNotifier
from speed.daemon.host import MAX_LINE_CHARACTERS, LineSplitter, RecordJoiner, change_grants


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


def records(*lines: str) -> list[tuple[str, bool]]:
    joiner = RecordJoiner()
    return [tuple(record) for record in (*joiner.feed(lines), *joiner.rest())]


def test_the_lines_of_a_traceback_are_one_record() -> None:
    head, frame, error = "Traceback (most recent call last):", '  File "a.py", line 1, in f', "ValueError: no"
    chained = "During handling of the above exception, another exception occurred:"
    assert records("before", head, frame, error, "after", "and on") == [
        ("before", False),
        (f"{head}\n{frame}\n{error}", True),
        ("after", False),
        ("and on", False),
    ]
    [(text, failed)] = records(head, frame, error, chained, head, frame, error)
    assert (failed, text.count("\n")) == (True, 6)


def test_a_stack_trace_of_java_is_one_record_with_its_message() -> None:
    lines = ("java.lang.Error: no", "\tat shop.Main.f(Main.java:5)", "Caused by: java.io.IOException", "\t... 12 more")
    assert records("before", *lines, "after") == [("before", False), ("\n".join(lines), True), ("after", False)]


def test_of_a_long_traceback_the_first_lines_and_the_error_are_kept() -> None:
    head, frames, error = "Traceback (most recent call last):", ["  " + "x" * 998] * 100, "RecursionError: deep"
    [(text, failed)] = records(head, *frames, error)
    assert (failed, text.startswith(head), text.endswith(error)) == (True, True, True)
    assert len(text) <= MAX_LINE_CHARACTERS


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
