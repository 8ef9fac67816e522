"""No configuration file, however wrong, ends a running speedd; ``check`` says of each what a reload says."""

from __future__ import annotations

import os
import resource
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import speed
from speed.observe.speedd import ask
from tests.system.daemon.speedds import HEAD, ONE, PATIENCE, Speedd

pytestmark = pytest.mark.system

MANY = ", ".join(f'"node-{number:05}"' for number in range(6000))
HUGE = "9" * 5000


def text(content: str | bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(content.encode() if isinstance(content, str) else content) and None


def directory_in_its_place(path: Path) -> None:
    path.unlink()
    path.mkdir()


def fifo_in_its_place(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def no_end(path: Path) -> None:
    os.truncate(path, 100 << 20)


def unreadable(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


WRONG = {
    "a typo": (text(HEAD + "[nodes]\n"), "did you mean node?"),
    "too many grants of the node": (text(HEAD.replace('["test"]', f"[{MANY}]")), "grant families"),
    "too many grants of a process": (text(HEAD + ONE.replace('["test"]', f"[{MANY}]")), "grant families"),
    "too many grants of the journal": (
        text(HEAD + f'[journal]\ntopics = ["a.*"]\nallow = [{MANY}]\n'),
        "grant families",
    ),
    "a number of 5,000 digits": (text(f"[node]\nworkers = {HUGE}\n"), "line 2"),
    "a hexadecimal number of 5,000 digits": (text(f"[node]\nworkers = 0x{HUGE}\n"), "line 2"),
    "1,200 nested brackets": (text("[node]\nallow = " + "[" * 1200 + "]" * 1200), "line 2"),
    "1,200 nested tables": (text("[node]\nallow = " + "{a=" * 1200 + "1" + "}" * 1200), "line 2"),
    "a key of 2,000 parts": (text("[node]\nallow" + ".a" * 2000 + " = 1\n"), "line 2"),
    "no UTF-8": (text(b'[node]\nname = "\xff"\n'), "line 2"),
    "a zero in a path": (text('[node]\nroot = "a\\u0000b"\n'), "line 2"),
    "a zero in a command": (text(HEAD + '[[process]]\nname = "x"\ncommand = ["ls", "a\\u0000b"]\n'), "line 17"),
    "a home of nobody": (text('[node]\nroot = "~no-such-user/x"\n'), "line 2"),
    "no program": (text(HEAD + '[[process]]\nname = "x"\ncommand = ["./absent"]\n'), "line 17"),
    "control characters": (text('[node]\n"a\\u001b[2J\\n" = 1\n'), "line 1"),
    "a directory": (directory_in_its_place, "no regular file"),
    "a FIFO": (fifo_in_its_place, "no regular file"),
    "100 MB": (no_end, "too large"),
    "a link to itself": (unreadable, "cannot be read"),
    "nothing": (Path.unlink, "does not exist"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_file_is_refused_by_the_reload_and_by_the_check(
    start: Callable[..., Speedd], client: speed.Node, what: str
) -> None:
    spoil, says = WRONG[what]
    speedd = start("")
    speedd.until("ready")
    spoil(speedd.file)
    speedd.reload()
    reason = speedd.until("reload_refused")["reason"]
    assert says in reason
    assert reason.isprintable()
    assert len(reason) < 10_000
    checked = speedd.check()
    assert (checked.returncode, checked.stdout) == (3, "")
    assert says in checked.stderr
    assert "Traceback" not in checked.stderr
    assert client.call("speedd", "echo", {"value": "hi"}) == "hi"


def test_after_a_refused_file_a_sound_one_is_taken_over(start: Callable[..., Speedd], client: speed.Node) -> None:
    speedd = start("")
    speedd.until("ready")
    speedd.file.write_text(HEAD.replace('["test"]', f"[{MANY}]"))
    speedd.reload()
    speedd.until("reload_refused")
    speedd.file.write_text(HEAD.replace('["test"]', "[]"))
    speedd.reload()
    speedd.until("reloaded")
    with pytest.raises(speed.AccessDeniedError):
        client.call("speedd", "echo", {"value": "hi"})
    assert speedd.stop() == 0


def test_grants_that_cannot_be_published_leave_the_old_ones_in_force(
    start: Callable[..., Speedd], client: speed.Node
) -> None:
    """No file may grow: the kernel refuses what a full disk would refuse."""
    speedd = start("", head=HEAD.replace("lease_seconds = 2", "lease_seconds = 60"))
    speedd.until("ready")
    speedd.file.write_text(HEAD.replace('["test"]', '["other", "test"]'))
    unlimited = resource.prlimit(speedd.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(speedd.process.pid, resource.RLIMIT_FSIZE, (0, unlimited[1]))
    speedd.reload()
    speedd.until("reload_refused")
    resource.prlimit(speedd.process.pid, resource.RLIMIT_FSIZE, unlimited)
    assert client.call("speedd", "echo", {"value": "hi"}) == "hi"
    speedd.reload()
    speedd.until("reloaded")
    assert speedd.stop() == 0


TOPICS = '[topics]\npublish = ["test"]\nconsume = ["test"]\nmanage = ["test"]\n'


def reloaded(speedd: Speedd, config: str, head: str = HEAD) -> None:
    speedd.file.write_text(head + config)
    speedd.reload()
    speedd.until("reloaded")


def test_a_reload_makes_topics_and_those_that_are_not_named_any_more_stay(
    start: Callable[..., Speedd], client: speed.Node
) -> None:
    speedd = start(TOPICS)
    speedd.until("ready")
    reloaded(speedd, TOPICS + '[[topic]]\nname = "orders"\n')
    client.wait_for("speedd.topics", timeout=PATIENCE)
    client.topic("orders").publish(1)
    reloaded(speedd, TOPICS)
    assert client.topic("orders").describe()["end"] == 1


def test_a_reload_changes_how_much_a_topic_keeps(start: Callable[..., Speedd], client: speed.Node) -> None:
    orders = '[[topic]]\nname = "orders"\nmax_bytes = 1048576\nbacklog = '
    speedd = start(TOPICS + orders + '"drop-oldest"\n')
    speedd.until("ready")
    client.wait_for("speedd.topics", timeout=PATIENCE)
    topic = client.topic("orders")
    with topic.consumer("billing"):
        pass  # whose backlog nobody reads
    for _ in range(3):
        topic.publish(bytes(600_000))
    reloaded(speedd, TOPICS + orders + '"refuse"\n')
    with pytest.raises(speed.SpeedError, match="still needs its oldest"):
        for _ in range(3):
            topic.publish(bytes(600_000))


def test_a_reload_opens_and_closes_the_gateway(start: Callable[..., Speedd]) -> None:
    speedd = start(TOPICS)
    speedd.until("ready")
    reloaded(speedd, TOPICS + '[gateway]\nname = "test"\nport = 0\n')
    port = speedd.seen("gateway")["port"]
    with socket.create_connection(("127.0.0.1", port), PATIENCE):
        pass
    reloaded(speedd, TOPICS)
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), PATIENCE):
        pass


def test_a_gateway_that_cannot_listen_leaves_the_old_one_open(start: Callable[..., Speedd]) -> None:
    gateway = TOPICS + '[gateway]\nname = "test"\nport = '
    with socket.create_server(("127.0.0.1", 0)) as other:
        speedd = start(f"{gateway}0\n")
        speedd.until("ready")
        speedd.file.write_text(HEAD + f"{gateway}{other.getsockname()[1]}\n")
        speedd.reload()
        assert "cannot listen" in speedd.until("reload_refused")["reason"]
        with socket.create_connection(("127.0.0.1", speedd.seen("gateway")["port"]), PATIENCE):
            pass


def test_a_reload_begins_and_ends_inboxes_of_the_journal(start: Callable[..., Speedd], client: speed.Node) -> None:
    journal = '[journal]\ncalls = true\nallow = ["test"]\n'
    speedd = start(journal)
    speedd.until("ready")
    reloaded(speedd, journal + 'inboxes = ["post"]\nmax_bytes = 2000000\n')
    client.wait_for("post", timeout=PATIENCE)
    client.send("post", {"letter": 1}, timeout=PATIENCE)
    reloaded(speedd, journal)
    deadline = time.monotonic() + PATIENCE
    while any(entry.name == "post" for entry in client.nodes()):
        assert time.monotonic() < deadline
        time.sleep(0.05)  # the pace of looking


def test_a_reload_moves_the_log(start: Callable[..., Speedd], directory: Path) -> None:
    speedd = start("")
    speedd.until("ready")
    speedd.file.write_text(HEAD.replace('level = "debug"', 'file = "moved/speedd.log"'))
    speedd.reload()
    deadline = time.monotonic() + PATIENCE
    while "reloaded" not in text_of(directory / "moved" / "speedd.log"):
        assert time.monotonic() < deadline
        time.sleep(0.05)  # the pace of looking


def text_of(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def test_what_only_a_restart_takes_over_is_named_by_log_status_and_check(start: Callable[..., Speedd]) -> None:
    speedd = start(ONE)
    speedd.until("ready")
    speedd.file.write_text(HEAD.replace("lease_seconds = 2", "lease_seconds = 3") + ONE + TOPICS)
    assert "only by a restart: [node] lease_seconds, [topics]" in speedd.check().stdout
    speedd.reload()
    assert speedd.until("reload_needs_restart")["settings"] == ["[node] lease_seconds", "[topics]"]
    speedd.until("reloaded")
    found = ask(str(speedd.file.parent / "root"), {"do": "status"})
    assert [one["what"] for one in found["troubles"]] == [
        "changed in the file, and waiting for a restart: [node] lease_seconds, [topics]"
    ]
    assert found["ready"] is True
    reloaded(speedd, ONE)
    assert ask(str(speedd.file.parent / "root"), {"do": "status"})["troubles"] == []
