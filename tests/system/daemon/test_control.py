"""speedd asked and told through the socket in its root."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import speed
from speed.observe.speedd import ask
from tests.system.daemon.speedds import HEAD, ONE, PATIENCE, Speedd

pytestmark = pytest.mark.system

CRASHING = '[[process]]\nname = "bad"\nentry = "svc:crashing"\n'


def told(speedd: Speedd, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "speed.daemon", words[0], "-c", str(speedd.file), *words[1:]]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)


def status(speedd: Speedd) -> dict[str, Any]:
    return dict(json.loads(told(speedd, "status", "--json").stdout))


def test_the_status_of_a_speedd_without_trouble_is_that_it_is_ready(start: Callable[..., Speedd]) -> None:
    speedd = start(ONE)
    speedd.until("ready")
    found = told(speedd, "status")
    assert found.returncode == 0
    assert found.stdout.startswith(f"speedd: ready, pid {speedd.process.pid}")
    assert "  one: running, pid " in found.stdout


def test_the_status_names_what_is_wrong_first_with_its_cure(start: Callable[..., Speedd]) -> None:
    speedd = start(ONE + CRASHING)
    speedd.until("process_restarts", process="bad")
    found = told(speedd, "status")
    assert found.returncode == 1
    first, cure = found.stdout.splitlines()[:2]
    assert first.startswith("! process bad is ")
    assert "`speedd restart bad`" in cure
    assert status(speedd)["ready"] is False


def test_a_refused_reload_fails_with_the_reason_and_stays_in_the_status_until_one_is_taken(
    start: Callable[..., Speedd],
) -> None:
    speedd = start(ONE)
    speedd.until("ready")
    speedd.file.write_text(HEAD + ONE + "restart = 5\n")
    refused = told(speedd, "reload")
    assert refused.returncode == 3
    assert "restart: 5 is not possible" in refused.stderr
    assert any("restart: 5 is not possible" in trouble["what"] for trouble in status(speedd)["troubles"])
    speedd.file.write_text(HEAD + ONE)
    assert told(speedd, "reload").returncode == 0
    assert status(speedd)["troubles"] == []


def test_a_reload_starts_new_processes_stops_removed_ones_and_starts_changed_ones_again(
    start: Callable[..., Speedd], client: speed.Node
) -> None:
    two, three = ONE.replace("one", "two"), ONE.replace("one", "three")
    speedd = start(ONE + two)
    speedd.until("ready")
    first, second = (client.call(name, "pid") for name in ("one", "two"))
    speedd.file.write_text(HEAD + ONE + three + "workers = 2\n")
    assert told(speedd, "reload").returncode == 0
    speedd.until("process_ended", process="two")
    speedd.until("process_ready", process="three")
    client.wait_for("three", timeout=PATIENCE)
    assert client.call("one", "pid") == first
    assert [one["name"] for one in status(speedd)["processes"]] == ["one", "three"]
    speedd.file.write_text(HEAD + ONE.replace("allow", "workers = 3\nallow") + two)
    assert told(speedd, "reload").returncode == 0
    speedd.until("process_changed", process="one")
    ready = {speedd.until("process_ready")["process"] for _ in range(2)}
    assert ready == {"one", "two"}
    assert client.call("one", "pid") != first
    assert client.call("two", "pid") != second
    assert speedd.stop() == 0


def test_a_process_that_is_taken_out_and_put_back_before_it_has_ended_runs_again(
    start: Callable[..., Speedd],
) -> None:
    slow = ONE.replace("svc:register", "svc:stubborn") + "stop_timeout_seconds = 1\n"
    speedd = start(slow)
    speedd.until("ready")
    for config in ("", slow):
        speedd.file.write_text(HEAD + config)
        assert told(speedd, "reload").returncode == 0
    speedd.until("process_ended", process="one")
    speedd.until("process_ready", process="one")
    assert speedd.stop() == 0
    assert [line["pid"] for line in speedd.events if line["event"] == "process_started"] != []


def test_a_reload_changes_the_level_of_the_log(start: Callable[..., Speedd]) -> None:
    quiet = HEAD.replace('level = "debug"', 'level = "error"')
    speedd = start(ONE, None, quiet)
    speedd.until("output", process="one")
    assert told(speedd, "reload").returncode == 0
    speedd.file.write_text(HEAD + ONE)
    assert told(speedd, "reload").returncode == 0
    assert speedd.until("reloaded")
    assert {line["event"] for line in speedd.events} == {"output", "reloaded"}


def test_the_service_manager_learns_that_a_reload_was_refused(start: Callable[..., Speedd], directory: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(directory / "notify"))
        manager.settimeout(PATIENCE)
        speedd = start(ONE, {"NOTIFY_SOCKET": str(directory / "notify")})
        while not manager.recv(4000).startswith(b"READY=1"):
            pass
        speedd.file.write_text("[node]\nallow = 5\n")
        speedd.reload()
        while not (line := manager.recv(4000)).startswith(b"READY=1"):
            pass
        assert b"STATUS=the reload was refused: " in line


def test_a_process_is_restarted_by_its_name_and_serves_when_the_command_returns(
    start: Callable[..., Speedd], client: speed.Node
) -> None:
    speedd = start(ONE)
    speedd.until("ready")
    first = client.call("one", "pid")
    assert told(speedd, "restart", "one").returncode == 0
    assert client.call("one", "pid") != first
    [process] = status(speedd)["processes"]
    assert (process["state"], process["starts"]) == ("running", 2)


def test_a_process_that_waits_for_its_restart_is_started_at_once(start: Callable[..., Speedd]) -> None:
    speedd = start(CRASHING)
    speedd.until("process_restarts", process="bad", after_seconds=2.0)
    starts = status(speedd)["processes"][0]["starts"]
    ask(str(speedd.file.parent / "root"), {"do": "restart", "name": "bad"})
    assert speedd.until("process_started", process="bad", start=starts + 1)


def test_a_name_that_no_process_has_is_refused(start: Callable[..., Speedd]) -> None:
    speedd = start(ONE)
    speedd.until("ready")
    found = told(speedd, "restart", "nobody")
    assert found.returncode == 3
    assert "it has one" in found.stderr


def test_stop_returns_when_speedd_has_ended(start: Callable[..., Speedd]) -> None:
    speedd = start(ONE)
    speedd.until("ready")
    assert told(speedd, "stop").returncode == 0
    assert speedd.process.wait(timeout=PATIENCE) == 0
    gone = told(speedd, "status")
    assert "no speedd serves the root" in gone.stderr
    assert not (speedd.file.parent / "root" / ".speedd.socket").exists()


def test_who_connects_and_says_nothing_or_nonsense_holds_nobody_up(
    start: Callable[..., Speedd], directory: Path
) -> None:
    speedd = start(ONE)
    speedd.until("ready")
    place = directory / "root" / ".speedd.socket"
    assert place.stat().st_mode & 0o777 == 0o600
    silent = [socket.socket(socket.AF_UNIX) for _ in range(3)]
    fd = os.open(place.parent, os.O_PATH)
    try:
        for connection, words in zip(silent, (b"", b"nonsense\n", b"[1]\n"), strict=True):
            connection.connect(f"/proc/self/fd/{fd}/{place.name}")
            connection.sendall(words)
        assert status(speedd)["ready"] is True
        assert ask(str(directory / "root"), {"do": "dance"})["error"]
    finally:
        os.close(fd)
        for connection in silent:
            connection.close()


def test_a_frozen_speedd_is_said_not_to_answer(start: Callable[..., Speedd], directory: Path) -> None:
    speedd = start(ONE)
    speedd.until("ready")
    speedd.process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(speed.RootError, match="did not answer"):
            ask(str(directory / "root"), {"do": "status"}, 0.5)
    finally:
        speedd.process.send_signal(signal.SIGCONT)


def test_a_speedd_that_was_killed_leaves_a_socket_that_hinders_nobody(start: Callable[..., Speedd]) -> None:
    first = start(ONE)
    first.until("ready")
    first.process.kill()
    first.process.wait()
    assert "no speedd serves" in told(first, "status").stderr
    second = start(ONE)
    second.until("ready")
    assert status(second)["pid"] == second.process.pid


def test_a_socket_that_cannot_be_made_keeps_nobody_from_serving(
    start: Callable[..., Speedd], client: speed.Node, directory: Path
) -> None:
    (directory / "root" / ".speedd.socket").mkdir()
    speedd = start(ONE)
    assert "Is a directory" in speedd.until("control_not_opened")["reason"]
    speedd.until("ready")
    client.call("one", "pid")
    assert told(speedd, "status").returncode == 3
    assert speedd.stop() == 0


@pytest.fixture
def small_root(directory: Path) -> Iterator[Path]:
    """The root of the configuration, on a filesystem of 3 MiB."""
    root = directory / "root"
    root.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m,mode=700", "tmpfs", str(root)], check=True)
    yield root
    subprocess.run(["umount", "-l", str(root)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small filesystem")
def test_a_full_root_is_logged_and_named_by_the_status_until_there_is_room(
    small_root: Path, start: Callable[..., Speedd]
) -> None:
    speedd = start("")
    speedd.until("ready")
    with open(small_root / "filler", "wb", buffering=0) as filler, pytest.raises(OSError, match="space"):
        while True:
            filler.write(bytes(4096))
    assert "is full" in speedd.until("root_full", level="error")["reason"]
    found = told(speedd, "status")
    assert (found.returncode, "is full" in found.stdout.splitlines()[0]) == (1, True)
    (small_root / "filler").unlink()
    speedd.until("recovered", what="root_full")
    assert status(speedd)["ready"] is True


PRICING = '[[process]]\nname = "pricing"\ncount = 2\nentry = "svc:register"\nallow = ["test"]\n'


def names_of(speedd: Speedd) -> list[str]:
    return [one["name"] for one in status(speedd)["processes"]]


def test_a_process_that_is_counted_runs_side_by_side_and_is_called_as_a_family(
    start: Callable[..., Speedd], client: speed.Node
) -> None:
    speedd = start(PRICING)
    speedd.until("ready")
    assert names_of(speedd) == ["pricing.1", "pricing.2"]
    assert len({client.call("pricing.*", "pid") for _ in range(4)}) == 2


def test_scaling_starts_and_ends_processes_until_a_reload_and_no_call_is_lost(
    start: Callable[..., Speedd], client: speed.Node
) -> None:
    speedd = start(PRICING)
    speedd.until("ready")
    scaled = told(speedd, "scale", "pricing", "3")
    assert (scaled.returncode, scaled.stderr) == (0, "")
    client.wait_for("pricing.3", timeout=PATIENCE)
    before = {client.call(f"pricing.{number}", "pid") for number in (1, 2, 3)}
    assert len(before) == 3
    waiting = [client.submit("pricing.*", "slow", timeout=PATIENCE) for _ in range(6)]
    assert told(speedd, "scale", "pricing", "1").returncode == 0
    assert [future.result(PATIENCE) for future in waiting] == ["finished"] * 6
    assert names_of(speedd) == ["pricing.1"]
    assert client.call("pricing.*", "pid") in before
    assert told(speedd, "reload").returncode == 0
    assert names_of(speedd) == ["pricing.1", "pricing.2"]
    speedd.file.write_text(HEAD + PRICING.replace("count = 2", "count = 0"))
    assert told(speedd, "reload").returncode == 0
    assert names_of(speedd) == []


def test_what_cannot_be_scaled_is_refused(start: Callable[..., Speedd]) -> None:
    speedd = start(ONE + PRICING + ONE.replace("one", "pricing.3"))
    speedd.until("ready")
    assert "no process 'one' with a count; those that have one: pricing" in told(speedd, "scale", "one", "2").stderr
    assert "the name 'pricing.3' is that of another process" in told(speedd, "scale", "pricing", "3").stderr
    assert told(speedd, "scale", "pricing", "257").returncode == 2
    for count in (-1, 1.5, "3", None, True, 257):
        answer = ask(str(speedd.file.parent / "root"), {"do": "scale", "name": "pricing", "count": count})
        assert "a process runs 0 to 256 times" in answer["error"]
    assert names_of(speedd) == ["one", "pricing.1", "pricing.2", "pricing.3"]


def test_counted_processes_need_names_of_their_own(start: Callable[..., Speedd]) -> None:
    speedd = start(ONE)
    speedd.until("ready")
    speedd.file.write_text(HEAD + ONE.replace("one", "pricing.2") + PRICING)
    found = told(speedd, "check")
    assert found.returncode == 3
    assert "the node 'pricing.2' of the process has the name of another one" in found.stderr
    speedd.file.write_text(HEAD + PRICING.replace("count = 2", "count = 1000"))
    assert "count" in told(speedd, "check").stderr
