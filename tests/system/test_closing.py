"""Closing: from inside, at the end of the interpreter, beside everything else, by a lost lease (T-12, T-13)."""

from __future__ import annotations

import gc
import os
import threading
import time
import warnings
from collections.abc import Callable
from queue import Queue
from typing import Any

import pytest

import speed
from speed.fs.registration import Registration
from speed.wire import names
from tests.system.conftest import Child

Make = Callable[..., speed.Node]
Start = Callable[..., Child]
PATIENCE = 20.0
NEVER = 1000.0
"""Who waited for himself would wait so long."""


def test_closing_takes_little_longer_than_what_it_was_given(make: Make) -> None:
    """T-13: of three, one is judged that the machine did not hold up."""
    took: list[float] = []
    for number in range(3):
        name = f"billing-{number}"
        billing, hung, go = make(name, allow=["analytics"]), threading.Event(), threading.Event()
        billing.register("hang", lambda hung=hung, go=go: (hung.set(), go.wait(NEVER))[1])
        with make("analytics") as analytics:
            analytics.submit(name, "hang", timeout=NEVER)
            assert hung.wait(PATIENCE)
            began = time.monotonic()
            billing.close(drain_seconds=0.5)
            took.append(time.monotonic() - began)
            go.set()
    assert 0.5 <= min(took) < 2


def is_heard(root: str, name: str) -> bool:
    try:
        os.close(os.open(names.bell_path(root, name), os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


def test_the_bell_of_a_node_that_leaves_is_heard_when_its_entry_goes(
    root: str, node: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-15: a bell that nobody hears says that the process died."""
    heard: list[bool] = []
    remove = Registration.remove

    def watched(registration: Registration) -> None:
        heard.append(is_heard(root, registration.entry.name))
        remove(registration)

    monkeypatch.setattr(Registration, "remove", watched)
    node("billing", engine="python").close()
    assert (heard, is_heard(root, "billing")) == ([True], False)


def test_no_bell_of_a_node_that_leaves_is_seen_unheard_beside_its_entry(root: str, make: Make) -> None:
    """R-15, as another process may see it; a look may miss it, and never sees what is not."""
    unheard: list[str] = []

    def watch(name: str) -> None:
        while is_heard(root, name):
            pass
        if os.path.exists(names.entry_path(root, name)):
            unheard.append(name)

    for number in range(10):
        leaving = make(f"billing-{number}")
        watching = threading.Thread(target=watch, args=(leaving.name,))
        watching.start()
        leaving.close()
        watching.join(PATIENCE)
    assert unheard == []


@pytest.mark.parametrize("inside", ["service", "handler", "event", "callback", "join"])
def test_a_node_may_be_closed_from_inside(root: str, make: Make, inside: str) -> None:
    """T-12: it does not wait for what it is called from."""
    billing = make("billing", allow=["analytics"], workers=1)
    analytics = make("analytics", allow=["billing"])
    closed: Queue[Any] = Queue()

    def close(*_: Any) -> None:
        billing.close(drain_seconds=NEVER)
        closed.put(os.path.exists(names.entry_path(root, "billing")))

    if inside == "service":
        billing.register("close", close)
        analytics.submit("billing", "close", timeout=PATIENCE)
    elif inside == "handler":
        billing.on_message(close)
        analytics.send("billing", 1)
    elif inside == "event":
        billing.subscribe("orders.*", close)
        analytics.publish("orders.created", 1)
    elif inside == "callback":
        analytics.register("echo", lambda x: x)
        billing.submit("analytics", "echo", {"x": 1}).add_done_callback(close)
    else:
        billing.on_join(close)
        make("newcomer")
    assert closed.get(timeout=PATIENCE) is False
    assert billing.closed


def test_a_message_whose_handler_closed_the_node_is_handled(root: str, make: Make) -> None:
    """It does not come again, to close the next node as well."""
    analytics = make("analytics")
    seen: list[Any] = []
    ended = threading.Event()
    billing = make("billing", allow=["analytics"])

    def handle(message: speed.Message) -> None:
        seen.append(message.payload)
        billing.close(drain_seconds=NEVER)
        ended.set()

    billing.on_message(handle)
    analytics.send("billing", "stop")
    assert ended.wait(PATIENCE)
    successor = make("billing", allow=["analytics"])
    successor.on_message(lambda message: seen.append(message.payload))
    analytics.wait_for("billing", timeout=PATIENCE)
    analytics.send("billing", "next", ack=True, timeout=PATIENCE)
    assert seen == ["stop", "next"]


OPEN_AT_EXIT = """
import sys, speed
node = speed.Node("billing", root=sys.argv[1], allow=["analytics"], engine=sys.argv[2])
node.register("echo", lambda x: x)
node.on_message(lambda message: None)
print("up", flush=True)
sys.stdin.readline()
"""


def test_a_node_that_is_open_when_the_interpreter_ends_leaves(root: str, make: Make, kind: str, child: Start) -> None:
    process = child(OPEN_AT_EXIT, root, kind)
    assert process.line() == "up"
    process.tell("end")
    assert process.process.wait(PATIENCE) == 0
    assert not os.path.exists(names.entry_path(root, "billing"))


def test_a_node_that_nobody_holds_any_more_warns(root: str) -> None:
    def make_and_drop() -> Any:
        return speed.Node("dropped", root=root, engine="python")._engine

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        engine = make_and_drop()
        gc.collect()
    engine.close(0.0)
    assert [one.category for one in seen if "dropped" in str(one.message)] == [ResourceWarning]


def test_a_closed_node_does_not_warn(root: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        node = speed.Node("dropped", root=root, engine="python")
        node.close()
        del node
        gc.collect()


def test_the_future_of_a_parents_call_says_so_in_a_forked_child(node: Make) -> None:
    """R-23: nobody would ever end it there."""
    end = threading.Event()
    billing, analytics = node("billing", allow=["analytics"], engine="python"), node("analytics", engine="python")
    billing.register("hold", lambda: end.wait(PATIENCE))
    future = analytics.submit("billing", "hold", timeout=PATIENCE)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            future.result(PATIENCE)
        except speed.ForkedNodeError:
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    end.set()
    assert future.result(PATIENCE) is True


def test_each_operation_on_a_closed_node_raises_an_exception_of_its_own(make: Make) -> None:
    """One that many raise would collect the frames of all."""
    node = make("billing")
    node.close()
    seen: list[speed.NodeClosedError] = []
    for _ in range(100):
        with pytest.raises(speed.NodeClosedError) as caught:
            node.call("anybody", "anything")
        seen.append(caught.value)
    assert len({id(error) for error in seen}) == 100

    def frames(error: BaseException) -> int:
        traceback, count = error.__traceback__, 0
        while traceback is not None:
            traceback, count = traceback.tb_next, count + 1
        return count

    assert frames(seen[0]) == frames(seen[-1])


def test_starting_and_closing_from_many_threads_raises_nothing_foreign(root: str, make: Make) -> None:
    """Nodes that leave while another starts, and events that are published while their node is closed."""
    foreign: Queue[BaseException] = Queue()
    everyone = [f"node-{number}" for number in range(8)]

    def live(number: int) -> None:
        for life in range(4):
            try:
                with speed.Node(f"node-{number}", root=root, allow=everyone, engine="python") as own:
                    own.subscribe("all.*", lambda message: None)
                    publisher = threading.Thread(target=publish, args=(own,), daemon=True)
                    publisher.start()
                    own.send(f"node-{(number + life + 1) % 8}", life, timeout=0.1)
            except speed.SpeedError:
                continue
            except BaseException as error:
                foreign.put(error)

    def publish(own: speed.Node) -> None:
        try:
            while True:
                own.publish("all.things", 1, timeout=0.1)
        except speed.SpeedError:
            return
        except BaseException as error:
            foreign.put(error)

    threads = [threading.Thread(target=live, args=(number,), daemon=True) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(3 * PATIENCE)
        assert not thread.is_alive()
    assert foreign.empty(), foreign.get()


def test_a_program_is_told_that_its_lease_is_lost(node: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """R-12: on a thread that is neither the registry's nor a worker's."""
    told: Queue[tuple[str, str]] = Queue()
    billing = node("billing", engine="python", lease_seconds=0.6, heartbeat_seconds=0.1)
    billing.on_lost(lambda error: told.put((error.code, threading.current_thread().name)))
    registration = billing._engine._parts.context.registration  # type: ignore[attr-defined]
    beat, hold = registration.heartbeat, threading.Event()

    def late() -> None:
        while not registration.is_over:
            hold.wait(0.05)
        beat()

    monkeypatch.setattr(registration, "heartbeat", late)
    code, thread = told.get(timeout=PATIENCE)
    assert (code, thread) == ("LEASE_LOST", "speed-billing-lost")
    with pytest.raises(speed.LeaseLostError):
        billing.send("anybody", 1)
