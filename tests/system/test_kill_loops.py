"""Processes killed again and again at random moments: nothing accepted is lost, nothing is done twice unmarked.

``SEED=123 pytest tests/system/test_kill_loops.py`` repeats the choices of a run, though not its timing.
"""

from __future__ import annotations

import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain, count
from queue import Queue
from typing import Any

import pytest

import speed
from tests.representative import fewer

Make = Callable[..., speed.Node]
Start = Callable[..., Any]

ROUNDS = fewer(20, 8)
GONE = (speed.UnknownNodeError, speed.NodeLeftError)

# One process per script imports speed and forks the lives, so that they start quickly. Each line is one write(2),
# which a kill does not tear. A life ends with its parent, whose end of ``held`` closes then.
PARENT = """
import os, sys, speed
{script}
root = sys.argv[1]
while line := sys.stdin.readline():
    held, end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(end)
        os.write(1, b"%d\\n" % os.getpid())
        live(int(line))
        os.read(held, 1)
        os._exit(0)
    os.close(held)
    os.waitpid(pid, 0)
    os.close(end)
    os.write(1, b"dead\\n")
"""

SENDER = """
def live(life):
    node = speed.Node("sender", root=root)
    for number in range(1_000_000):
        node.send("receiver", [life, number], ack=True)
        os.write(1, b"%d\\n" % number)
"""

RECEIVER = """
def live(life):
    node = speed.Node("receiver", root=root, allow=["sender"])
    node.on_message(lambda message: os.write(1, b"%d %d\\n" % (message.payload, message.redelivered)))
"""

CALLER = """
def live(life):
    node = speed.Node("caller", root=root)
    for first in range(0, 1_000_000, 4):
        futures = {n: node.submit("server", "note", {"life": life, "number": n}) for n in range(first, first + 4)}
        for number, future in futures.items():
            assert future.result() == number
            os.write(1, b"%d\\n" % number)
"""

SERVER = """
def live(life):
    node = speed.Node("server", root=root, workers=WORKERS)
    @node.service("note")
    def note(number: int) -> list:
        os.write(1, b"%d\\n" % number)
        return [life, number]
    node.allow("caller")  # last: who may call finds the service
"""


@pytest.fixture
def chance() -> random.Random:
    """The choices of one test; its seed is printed with a failure."""
    seed = int(os.environ.get("SEED") or random.SystemRandom().randrange(1 << 32))
    print("SEED =", seed)
    return random.Random(seed)


@pytest.fixture
def lives(root: str, child: Start, chance: random.Random) -> Callable[..., Any]:
    """``lives(script)`` runs it ``ROUNDS`` times, each until its random-th line; yields all lines of each life."""

    def run(script: str) -> Iterator[list[str]]:
        parent = child(PARENT.replace("{script}", script), root)
        for life in range(ROUNDS):
            parent.tell(str(life))
            pid = int(parent.line())
            lines = [parent.line() for _ in range(chance.randrange(1, 60))]
            os.kill(pid, signal.SIGKILL)
            yield lines + list(iter(parent.line, "dead"))

    return run


def test_a_sender_killed_again_and_again_loses_nothing_acknowledged(node: Make, lives: Callable[..., Any]) -> None:
    """L-5, L-12, L-17."""
    received: list[tuple[int, int]] = []
    node("receiver", allow=["sender"]).on_message(lambda message: received.append(tuple(message.payload)))
    acknowledged = [(life, int(number)) for life, lines in enumerate(lives(SENDER)) for number in lines]
    assert len(received) == len(set(received)), "something came twice"
    assert set(acknowledged) <= set(received), "something acknowledged was lost"
    assert received == sorted(received), "the order was lost"
    assert len(received) - len(acknowledged) <= ROUNDS, "more than the one in hand came unacknowledged"


def test_a_receiver_killed_again_and_again_loses_nothing_and_repeats_one_message_a_kill(
    node: Make, lives: Callable[..., Any]
) -> None:
    """L-15."""
    sender = node("sender")
    sent, stop = 0, threading.Event()

    def send() -> None:
        nonlocal sent
        while not stop.is_set():
            try:
                sender.send("receiver", sent, timeout=0.1)
            except (*GONE, speed.InboxFullError):
                stop.wait(0.001)  # nobody there at the moment: not accepted, so the same once more
            else:
                sent += 1
                stop.wait(0.001)

    thread = threading.Thread(target=send)
    thread.start()
    handled: list[tuple[int, ...]] = []
    rest: Queue[tuple[int, ...]] = Queue()
    try:
        for lines in lives(RECEIVER):
            handled += [tuple(map(int, line.split())) for line in lines]
    finally:
        stop.set()
        thread.join()
    node("receiver", allow=["sender"]).on_message(lambda message: rest.put((message.payload, message.redelivered)))
    lost = set(range(sent)) - {number for number, _ in handled}
    while lost:
        handled.append(rest.get(timeout=60))  # fails when nothing more comes
        lost.discard(handled[-1][0])
    _assert_repeated_at_most_once_a_kill(handled)


def _assert_repeated_at_most_once_a_kill(handled: list[tuple[int, ...]]) -> None:
    """``handled`` are the numbers in order with their flags; the first of a number is no repetition."""
    first = {number: at for at, (number, _) in reversed(list(enumerate(handled)))}
    repeated = [one for at, one in enumerate(handled) if first[one[0]] != at]
    assert [number for number, flagged in repeated if not flagged] == [], "repeated without its flag"
    assert len(repeated) <= ROUNDS, f"{len(repeated)} messages were handled twice with {ROUNDS} kills"
    firsts = list(dict.fromkeys(number for number, _ in handled))
    assert firsts == sorted(firsts), "the order was lost"


def test_a_caller_killed_again_and_again_leaves_a_server_that_ran_each_call_once(
    node: Make, lives: Callable[..., Any]
) -> None:
    """S-3, S-7."""
    ran: list[tuple[int, int]] = []
    server = node("server", allow=["caller"])

    @server.service("note")
    def note(life: int, number: int) -> int:
        ran.append((life, number))
        return number

    answered = {(life, int(number)) for life, lines in enumerate(lives(CALLER)) for number in lines}
    with node("caller") as survivor:
        assert survivor.call("server", "note", {"life": ROUNDS, "number": 0}) == 0
    assert max(Counter(ran).values()) == 1, "a call ran twice"
    assert answered <= set(ran)
    assert len(ran) - len(answered) - 1 <= 4 * ROUNDS, "more ran than was answered or in hand"


@pytest.mark.parametrize("workers", [1, 4])
def test_a_server_killed_again_and_again_answers_what_it_ran_and_no_call_hangs(
    node: Make, lives: Callable[..., Any], workers: int
) -> None:
    """L-15, S-7, S-8."""
    caller = node("caller")
    answered: list[tuple[int, int]] = []  # by which life, and what
    failures: set[type] = set()
    stop = threading.Event()

    def call() -> None:
        for number in count():
            try:
                answered.append(tuple(caller.call("server", "note", {"number": number}, timeout=20)))
            except speed.SpeedError as error:
                failures.add(type(error))
                stop.wait(0.001)
            if stop.is_set():
                return

    thread = threading.Thread(target=call)
    thread.start()
    try:
        ran = [list(map(int, lines)) for lines in lives(SERVER.replace("WORKERS", str(workers)))]
    finally:
        stop.set()
        thread.join()
    everything = {(at, number) for at, life in enumerate(ran) for number in life}
    assert set(answered) <= everything, "an answer to a call that never ran"
    assert len(answered) == len({number for _, number in answered})
    # What no life answered may run in each. What one has answered runs again only if a thread was held up before the
    # commit: a worker, or the one that relieves them.
    again = [(at, number) for at, number in answered if number in chain.from_iterable(ran[at + 1 :])]
    assert max(Counter(at for at, _ in again).values(), default=0) <= 2, f"ran again: {again}"
    assert all(len(life) == len(set(life)) for life in ran), "a request ran twice in one life"
    told = {*GONE, speed.AccessDeniedError}  # the latter before a new life grants
    assert failures <= told, "a call was not told that its server is gone"
