"""The native engine where it differs from the Python one: choice, locks, signals, the end of the interpreter."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

import speed
from speed.engine import why_unusable
from speed.segment import Limits

Make = Callable[..., speed.Node]

PROGRAM = """
import os, signal, sys, threading, time
import speed
node = speed.Node("one", root=sys.argv[1], allow=["two"], engine="native")
"""


@pytest.fixture
def pair(node: Make) -> tuple[speed.Node, speed.Node]:
    return node("billing", allow=["analytics"], engine="native"), node("analytics", engine="native")


def run(root: str, script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM + script, root], capture_output=True, text=True, timeout=60, check=False
    )


def test_a_node_tells_its_engine_and_an_unknown_engine_is_refused(node: Make) -> None:
    assert node("one", engine="native").engine == "native"
    assert node("two", engine="python").engine == "python"
    with pytest.raises(speed.ConfigurationError, match="use 'auto', 'python' or 'native'"):
        node("three", engine="quick")


def test_the_environment_decides_what_auto_means(node: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPEED_ENGINE", "python")
    assert node("one").engine == "python"
    monkeypatch.setenv("SPEED_ENGINE", "native")
    assert node("two").engine == "native"
    monkeypatch.delenv("SPEED_ENGINE")
    assert node("three").engine == "native"


def test_an_extension_of_another_version_is_not_used() -> None:
    assert "this is 9.9.9" in why_unusable("9.9.9")


@pytest.mark.parametrize(("client", "server"), [("native", "python"), ("python", "native"), ("native", "native")])
def test_engines_understand_each_other(node: Make, client: str, server: str) -> None:
    """W-15."""
    value = {
        "text": "ö\0",
        "bytes": b"\0\xff",
        "list": [1, -1, 2**64 - 1, -(2**63), 1.0, True, None, {}, []],
        "time": datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone.utc),
        "old": datetime(1, 1, 1, tzinfo=timezone.utc),
        "map": {1: "one", "two": 2, -3: {"deep": [[[]]]}},
    }
    node("server", allow=["client"], engine=server).register("echo", lambda value: value)
    assert node("client", engine=client).call("server", "echo", {"value": value}) == value


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (object(), r"arguments\.x is of type object, which has no representation"),
        ({"y": [1, 2j]}, r"arguments\.x\.y\[1\] is of type complex"),
        ({1.5: 1}, r"arguments\.x has a key of type float: use str or int"),
        ({True: 1}, r"arguments\.x has a key of type bool"),
        (2**64, r"arguments\.x is an integer beyond 64 bits"),
        (-(2**63) - 1, r"arguments\.x is an integer beyond 64 bits"),
        ("\ud800", r"arguments\.x is text with a lone surrogate"),
        (datetime(2026, 1, 1), r"arguments\.x is a datetime without a time zone"),  # noqa: DTZ001
    ],
)
def test_what_has_no_representation_is_named_as_by_the_python_engine(node: Make, value: Any, says: str) -> None:
    """W-15."""
    node("server", allow=["native", "python"])
    for engine in ("native", "python"):
        with pytest.raises(speed.UnserialisableError, match=says):
            node(engine, engine=engine).call("server", "any", {"x": value})


def test_a_value_nested_too_deeply_is_refused(pair: tuple[speed.Node, speed.Node]) -> None:
    """W-16."""
    deep: list[Any] = []
    for _ in range(40):
        deep = [deep]
    with pytest.raises(speed.UnserialisableError, match="nested deeper than 32"):
        pair[1].call("billing", "any", {"x": deep})
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(speed.UnserialisableError, match="nested deeper than 32"):
        pair[1].call("billing", "any", {"x": endless})


@pytest.mark.skipif(sys.platform != "linux", reason="names are read from /proc")
def test_tools_see_what_each_thread_of_the_core_is_for(pair: tuple[speed.Node, speed.Node]) -> None:
    billing, analytics = pair
    billing.register("tax", lambda: 1)
    analytics.call("billing", "tax")
    names = {path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")}
    assert {"speed-registry", "speed-relief", "speed-worker"} <= names


@pytest.mark.parametrize(
    ("error", "attempt"),
    [
        (speed.UnknownNodeError, lambda node: node.send("nobody", 1)),
        (speed.InvalidNameError, lambda node: node.send("not a name", 1)),
        (speed.ServiceNotFoundError, lambda node: node.call("billing", "absent")),
        (speed.AccessDeniedError, lambda node: node.send("billing", 1, timeout=0)),
        (speed.ConfigurationError, lambda node: node.segment("billing", 63, parity_rate=0.5)),
    ],
)
def test_an_error_of_the_core_is_the_class_of_its_code(
    node: Make, error: type[speed.SpeedError], attempt: Callable[[speed.Node], Any]
) -> None:
    billing = node("billing", allow=["analytics"], engine="native")
    analytics = node("analytics", engine="native")
    if error is speed.AccessDeniedError:
        billing.deny("analytics")
    with pytest.raises(error) as caught:
        attempt(analytics)
    assert type(caught.value) is error


def test_a_waiting_call_leaves_the_interpreter_to_other_threads(pair: tuple[speed.Node, speed.Node]) -> None:
    billing, analytics = pair
    release = threading.Event()
    billing.register("slow", lambda: release.wait(20))
    caller = threading.Thread(target=lambda: analytics.call("billing", "slow", timeout=20))
    caller.start()
    release.set()
    caller.join(20)
    assert not caller.is_alive()


def test_an_interrupt_ends_a_waiting_call_and_a_waiting_receive(root: str) -> None:
    ended = run(
        root,
        """
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background inherits that it is ignored
two = speed.Node("two", root=sys.argv[1], engine="native")
asked = threading.Event()
def interrupt():
    asked.set(); os.kill(os.getpid(), signal.SIGINT); threading.Event().wait(30)
node.register("slow", interrupt)
for wait in (lambda: two.call("one", "slow", timeout=25), lambda: two.receive(25)):
    try:
        if asked.is_set():
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        wait()
    except KeyboardInterrupt:
        print("interrupted")
os._exit(0)
""",
    )
    assert ended.stdout == "interrupted\ninterrupted\n", ended.stderr


def test_a_program_that_never_closes_its_node_ends_quietly_and_leaves(root: str, node: Make) -> None:
    ended = run(root, "node.register('x', lambda: 1); node.on_message(print)")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert [entry.name for entry in node("other").nodes()] == ["other"]


def test_threads_inside_services_and_calls_do_not_disturb_the_end(root: str) -> None:
    ended = run(
        root,
        """
two = speed.Node("two", root=sys.argv[1], engine="native")
inside = threading.Event()
node.register("long", lambda: (inside.set(), time.sleep(1.5)))
threading.Thread(target=lambda: two.call("one", "long"), daemon=True).start()
inside.wait(20)
""",
    )
    assert ended.returncode == 0, ended.stderr
    assert "terminate" not in ended.stderr


def test_a_forked_child_may_end_in_every_way(root: str) -> None:
    """R-23."""
    ended = run(
        root,
        """
for end in (lambda: os._exit(0), lambda: sys.exit(0)):
    pid = os.fork()
    if pid == 0:
        try:
            node.call("one", "x")
        except speed.ForkedNodeError:
            print("forked", flush=True)
        end()
    assert os.waitpid(pid, 0)[1] == 0
print(len(node.nodes()))
""",
    )
    assert ended.stdout == "forked\nforked\n1\n", ended.stderr


def test_a_closed_node_lets_its_services_go(node: Make) -> None:
    class Service:
        def invoke(self, request: speed.Request) -> int:
            return 1

    service = Service()
    seen = weakref.ref(service)
    one = node("one", engine="native")
    one.register("service", service)
    del service
    one.close()
    del one
    node.__closure__[0].cell_contents.clear()  # type: ignore[attr-defined]
    gc.collect()
    assert seen() is None


def test_a_signal_that_comes_while_an_error_is_made_is_what_its_handler_raised(
    pair: tuple[speed.Node, speed.Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    """S-25."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(speed.UnknownNodeError, "__init__", interrupt)
    with pytest.raises(KeyboardInterrupt):
        pair[1].call("nobody", "one")


def test_a_system_exit_of_a_service_is_its_failure(pair: tuple[speed.Node, speed.Node]) -> None:
    """S-8."""
    billing, analytics = pair
    billing.register("leave", lambda: sys.exit(3))
    with pytest.raises(speed.ExecutionFailedError, match="SystemExit"):
        analytics.call("billing", "leave")
    assert os.getpid() > 0


@pytest.mark.parametrize("limits", [Limits(idle_seconds="long"), Limits(reconstructions=1.5), Limits(completions=-1)])  # type: ignore[arg-type]
def test_limits_of_segments_that_cannot_be_are_refused_by_name(node: Make, limits: Limits) -> None:
    """G-15."""
    with pytest.raises(speed.ConfigurationError, match=r"the limit (idle_seconds|reconstructions|completions) is"):
        node("one", engine="native", segment_limits=limits)


@pytest.mark.parametrize("ack", [False, True])
def test_what_a_reader_or_a_progress_raises_ends_the_sending(pair: tuple[speed.Node, speed.Node], ack: bool) -> None:
    """G-20."""
    billing, analytics = pair
    payload = bytes(65 << 20)

    def stop(written: int, total: int) -> None:
        raise LookupError(f"{written} of {total}")

    with pytest.raises(LookupError, match=" of 68157"):
        analytics.send("billing", payload, ack=ack, on_progress=stop)
    analytics.send("billing", b"small", ack=ack)
    received = billing.receive(timeout=20)
    assert received is not None
    assert received.payload == b"small"
