"""speedd as real processes: hosting, supervising, reloading, stopping."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import speed
from tests.system.daemon.speedds import HEAD, ONE, PATIENCE, Speedd, wait_gone

pytestmark = pytest.mark.system


def test_services_and_processes_answer_once_it_says_ready(start: Callable[..., Speedd], client: speed.Node) -> None:
    speedd = start(ONE)
    assert speedd.until("ready")["not_up"] == []
    assert client.call("speedd", "echo", {"value": "hi"}) == "hi"
    assert client.call("one", "pid") != speedd.process.pid
    assert speedd.stop() == 0
    assert client.nodes()[0].name == "test"
    assert len(client.nodes()) == 1


def test_output_of_processes_is_in_the_log_with_their_name(start: Callable[..., Speedd]) -> None:
    speedd = start(ONE)
    line = speedd.until("output", process="one")
    assert (line["text"], line["stream"]) == ("up: one", "stdout")


def test_a_killed_process_is_started_again_and_answers(start: Callable[..., Speedd], client: speed.Node) -> None:
    speedd = start(ONE)
    speedd.until("ready")
    first = client.call("one", "pid")
    os.kill(first, signal.SIGKILL)
    speedd.until("process_ended", process="one", status=-9)
    speedd.until("process_ready", process="one")
    assert client.call("one", "pid") != first


def test_a_process_that_always_crashes_is_restarted_with_growing_pauses(start: Callable[..., Speedd]) -> None:
    speedd = start('[[process]]\nname = "bad"\nentry = "svc:crashing"\n')
    pauses = [speedd.until("process_restarts", process="bad")["after_seconds"] for _ in range(3)]
    assert pauses == [0.5, 1.0, 2.0]
    assert any("no luck" in line.get("text", "") for line in speedd.events)
    assert speedd.stop() == 0


def test_a_frozen_process_is_ended_and_started_again(start: Callable[..., Speedd], client: speed.Node) -> None:
    speedd = start(ONE + "stop_timeout_seconds = 0.3\n")
    speedd.until("ready")
    first = client.call("one", "pid")
    os.kill(first, signal.SIGSTOP)
    assert "registry" in speedd.until("process_hangs", process="one", level="warning")["reason"]
    speedd.until("process_ended", process="one", status=-9)
    speedd.until("process_ready", process="one")
    client.wait_for("one", timeout=PATIENCE)
    assert client.call("one", "pid") != first


def test_a_process_that_does_not_come_up_in_its_time_is_started_again(
    start: Callable[..., Speedd], directory: Path
) -> None:
    speedd = start(ONE.replace("svc:register", "svc:patient") + "start_timeout_seconds = 2\n")
    assert "2 s" in speedd.until("process_hangs", process="one", level="warning")["reason"]
    (directory / "lib" / "svc.py.go").touch()
    speedd.until("process_restarts", process="one")
    speedd.until("process_ready", process="one")


def test_output_is_kept_at_every_level_and_a_traceback_is_one_record(start: Callable[..., Speedd]) -> None:
    crashing = '[[process]]\nname = "bad"\nentry = "svc:crashing"\nrestart = "never"\n'
    speedd = start(ONE + crashing, None, HEAD.replace('level = "debug"', 'level = "error"'))
    speedd.until("output", process="one", text="up: one")
    line = next((line for line in speedd.events if line.get("process") == "bad"), None)
    line = line or speedd.until("output", process="bad")
    assert line["level"] == "error"
    assert line["text"].startswith("Traceback (most recent call last):\n")
    assert line["text"].endswith("RuntimeError: no luck")


def test_sigterm_lets_calls_under_way_finish_and_stops_in_reverse_order(
    start: Callable[..., Speedd], client: speed.Node
) -> None:
    speedd = start(ONE + ONE.replace("one", "two"))
    speedd.until("ready")
    client.call("one", "pid")
    answer = client.submit("one", "slow")
    client.ping("one")  # the request before it in the lane has been taken
    assert speedd.stop() == 0
    assert answer.result(timeout=PATIENCE) == "finished"
    ended = [line["process"] for line in speedd.events if line["event"] == "process_ended"]
    assert ended == ["two", "one"]


def test_a_process_that_ignores_sigterm_is_killed_after_its_time(start: Callable[..., Speedd]) -> None:
    speedd = start(ONE.replace("svc:register", "svc:stubborn") + "stop_timeout_seconds = 0.3\n")
    speedd.until("ready")
    assert speedd.stop() == 0
    assert [line["status"] for line in speedd.events if line["event"] == "process_ended"] == [-9]


def test_sighup_reloads_grants_without_a_restart(start: Callable[..., Speedd], client: speed.Node) -> None:
    speedd = start(ONE.replace('"test"', '"other"'))
    speedd.until("ready")
    with pytest.raises(speed.AccessDeniedError):
        client.call("one", "pid")
    speedd.file.write_text(HEAD + ONE)
    speedd.process.send_signal(signal.SIGHUP)
    speedd.until("reloaded")
    client.wait_for("one", timeout=PATIENCE)
    client.call("one", "pid")
    speedd.file.write_text(HEAD.replace('["test"]', "[]") + ONE)
    speedd.process.send_signal(signal.SIGHUP)
    speedd.until("reloaded")
    with pytest.raises(speed.AccessDeniedError):
        client.call("speedd", "echo", {"value": "hi"})
    assert not [line for line in speedd.events if line["event"] == "process_ended"]


def test_a_wrong_file_at_a_reload_changes_nothing(start: Callable[..., Speedd], client: speed.Node) -> None:
    speedd = start(ONE)
    speedd.until("ready")
    speedd.file.write_text("[node]\nallow = 5\n")
    speedd.process.send_signal(signal.SIGHUP)
    assert "line 2" in speedd.until("reload_refused")["reason"]
    assert client.call("speedd", "echo", {"value": "hi"}) == "hi"


def test_a_second_speedd_of_the_same_root_and_name_is_refused(start: Callable[..., Speedd]) -> None:
    first = start("")
    first.until("ready")
    second = subprocess.run(
        [sys.executable, "-m", "speed.daemon", "run", "-c", str(first.file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert second.returncode == 3
    assert "NAME_TAKEN" in second.stderr
    assert first.process.poll() is None


def test_processes_end_when_speedd_is_killed(start: Callable[..., Speedd], client: speed.Node) -> None:
    sleeper = '[[process]]\nname = "sleeper"\ncommand = ["sleep", "1000"]\n'
    speedd = start(ONE + sleeper)
    sleeper_pid = speedd.until("process_started", process="sleeper")["pid"]
    speedd.until("process_ready", process="one")
    left = [os.pidfd_open(client.call("one", "pid")), os.pidfd_open(sleeper_pid)]
    speedd.process.kill()
    for pidfd in left:
        wait_gone(pidfd, PATIENCE)


def test_a_command_learns_its_node_from_its_environment(start: Callable[..., Speedd], directory: Path) -> None:
    script = 'import os, speed, signal\\nn = speed.Node(os.environ["SPEED_NODE"])\\nsignal.pause()'
    python = sys.executable
    speedd = start(
        f'[[process]]\nname = "own"\ncommand = ["{python}", "-c", "{script.replace(chr(34), chr(92) + chr(34))}"]\n'
    )
    speedd.until("process_ready", process="own")
    assert speedd.stop() == 0


def test_entries_of_dead_nodes_are_removed(start: Callable[..., Speedd], directory: Path) -> None:
    speedd = start("")
    speedd.until("ready")
    script = "import os, sys, speed; speed.Node('dead', root=sys.argv[1], key=sys.argv[2]); os._exit(1)"
    subprocess.run([sys.executable, "-c", script, str(directory / "root"), str(directory / "speed.key")], check=False)
    speedd.until("stale_entry_removed", node="dead")


def test_the_service_manager_is_told_when_it_is_ready_and_when_it_stops(
    start: Callable[..., Speedd], directory: Path
) -> None:
    import socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(directory / "n"))
        manager.settimeout(PATIENCE)
        speedd = start(ONE, {"NOTIFY_SOCKET": str(directory / "n"), "WATCHDOG_USEC": "400000"})
        seen = {manager.recv(300).split(b"\n")[0]}
        while b"READY=1" not in seen or b"WATCHDOG=1" not in seen:
            seen.add(manager.recv(300).split(b"\n")[0])
        assert speedd.stop() == 0
        while b"STOPPING=1" not in seen:
            seen.add(manager.recv(300).split(b"\n")[0])


def test_check_explains_references_that_lead_nowhere(directory: Path) -> None:
    file = directory / "speedd.toml"
    file.write_text(
        HEAD + '[[process]]\nname = "x"\nentry = "svc:absent"\n[[process]]\nname = "y"\ncommand = ["./no"]\n'
    )
    done = subprocess.run(
        [sys.executable, "-m", "speed.daemon", "check", "-c", str(file)], capture_output=True, text=True, check=False
    )
    lines = file.read_text().splitlines()
    assert done.returncode == 3
    number = lines.index('entry = "svc:absent"') + 1
    assert f"line {number}: 'x': module 'svc' does not define 'absent'" in done.stderr
    assert "there is no program './no'" in done.stderr


def test_a_starter_learns_of_readiness_through_a_descriptor(directory: Path) -> None:
    file = directory / "speedd.toml"
    file.write_text(HEAD + ONE)
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "speed.daemon", "run", "-c", str(file), "--ready-fd", str(writing)],
        stderr=subprocess.DEVNULL,
        pass_fds=[writing],
    )
    os.close(writing)
    try:
        assert os.read(reading, 100) == b"READY\n"
    finally:
        os.close(reading)
        process.terminate()
        assert process.wait(timeout=PATIENCE) == 0


def test_a_speedd_that_lost_its_name_stops_its_processes_and_fails(
    start: Callable[..., Speedd], directory: Path
) -> None:
    """R-13: paused for longer than its lease and replaced, it must not go on under the name."""
    speedd = start(ONE)
    speedd.until("ready")
    speedd.process.send_signal(signal.SIGSTOP)
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            successor = speed.Node("speedd", root=directory / "root", key=directory / "speed.key")
            break
        except speed.NameTakenError:
            assert time.monotonic() < deadline
            time.sleep(0.1)  # the pace of trying again
    with successor:
        speedd.process.send_signal(signal.SIGCONT)
        assert speedd.end() == 1
    events = [line["event"] for line in speedd.events]
    assert "node_lost" in events
    assert "process_ended" in events
