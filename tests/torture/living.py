"""A process with several nodes and threads that do what comes to their minds: ``python -m tests.torture.living``.

Its first line of input is a JSON object with the fields of ``household.Setting``. It starts its nodes, says ``ready``,
and acts from the next line of input on for so many seconds: calls, nested and withdrawn calls, messages of all sizes,
events, streams, what goes to the family of all nodes, grants, closes and starts, from all threads with all nodes;
services and handlers that exit or fork, and signals that interrupt the main thread. When each thread is done and each
node runs, it says ``quiet``; a further line of input ends it, and it says how many descriptors it had before and has
now. What happened stands in its journal, a fact a line (``life_facts``). Other languages have the same program.

``broken`` breaks a promise on purpose: ``lost``, ``twice``, ``foreign``, ``hang`` or ``descriptor``.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import gc
import itertools
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from random import Random
from typing import Any

import speed
from tests.torture.household import CALL_SECONDS, DRAIN_SECONDS, FAMILY, Household, Journal, Setting

NEVER = {"ACCESS_DENIED", "UNKNOWN_NODE", "SERVICE_NOT_FOUND", "INVALID_ARGUMENTS", "INBOX_FULL"}
"""Codes of calls that were not begun, for errors that do not say so themselves."""
SEGMENT_BYTES, LARGE_BYTES = 65_536, 300_000


INTERRUPT_SECONDS = 0.002


class Interruption(BaseException):
    """What the handler of a signal raises."""


class Alarm:
    """A signal that raises while it is armed: its handler may run a moment later than the wait that it was for."""

    is_armed = False

    def __call__(self, *_: object) -> None:
        if self.is_armed:
            raise Interruption

    def __enter__(self) -> None:
        self.is_armed = True
        signal.setitimer(signal.ITIMER_REAL, INTERRUPT_SECONDS)

    def __exit__(self, *_: object) -> None:
        self.is_armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)


ALARM = Alarm()


class Asked(logging.Filter):
    """Leaves out what the log says of exits, which were asked for."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], SystemExit))


class Person(threading.Thread):
    """Does one thing after the other."""

    def __init__(self, household: Household, journal: Journal, number: int, until: float) -> None:
        super().__init__(name=f"person-{number}")
        self.household, self.setting, self._journal = household, household.setting, journal
        self._random = Random(self.setting.seed * 1000 + number)
        self._ids = (f"{self.setting.prefix}.{number}.{n}" for n in itertools.count())
        self._until = until

    def run(self) -> None:
        acts = [
            *[(self.call, CALL_SECONDS), (self.send, CALL_SECONDS), (self.publish, CALL_SECONDS)] * 6,
            *[(self.relay, CALL_SECONDS), (self.withdraw, CALL_SECONDS), (self.await_some, CALL_SECONDS)] * 2,
            *[(self.call_family, CALL_SECONDS), (self.send_to_family, CALL_SECONDS)] * 2,
            *[(self.read_stream, CALL_SECONDS), (self.send_stream, CALL_SECONDS)] * 2,
            *[(self.send_large, 2 * CALL_SECONDS), (self.look, CALL_SECONDS), (self.grant, 1.0)],
            *[(self.provoke, CALL_SECONDS), (self.send_fatal, CALL_SECONDS)],
            *[(self.interrupt, CALL_SECONDS)] * (threading.current_thread() is threading.main_thread()),
            *[(self.turn_over, 2 * DRAIN_SECONDS), (self.leave, CALL_SECONDS + DRAIN_SECONDS)],
        ]
        while time.monotonic() < self._until:
            act, bound = self._random.choice(acts)
            began = time.monotonic()
            self._try(act)
            took = time.monotonic() - began
            if took > bound + self.setting.grace:
                self._journal.tell("late", act.__name__, round(took, 2))

    def _try(self, act: Callable[[], None]) -> None:
        try:
            act()
        except speed.SpeedError as error:
            self._journal.tell("refused", act.__name__, error.code)
        except BaseException as error:
            self._journal.foreign(act.__name__, error)

    def _pick(self) -> tuple[speed.Node, str, str]:
        """A node of this process, one of all, and a new id."""
        return self.household.any(self._random), self._random.choice(self.setting.others), next(self._ids)

    def _ended(self, call_id: str, result: Callable[[], Any]) -> None:
        """How a call ended: its answer, or an error and whether the call may have begun."""
        try:
            answer = result()
        except speed.SpeedError as error:
            said = getattr(error, "execution", None)
            never = error.code in NEVER if said is None else said.value == "not begun"
            self._journal.tell("failed", call_id, error.code, "never" if never else "maybe")
        else:
            self._journal.tell("answered" if answer == call_id else "failed", call_id, "RELAY maybe")

    # --- acts ---

    def call(self) -> None:
        node, target, call_id = self._pick()
        if self.household.breaks("hang"):
            time.sleep(CALL_SECONDS + 2 * self.setting.grace)
        self._ended(call_id, lambda: node.call(target, "note", {"id": call_id}, timeout=CALL_SECONDS))

    def relay(self) -> None:
        node, target, call_id = self._pick()
        arguments = {"target": self._random.choice(self.setting.others), "id": call_id}
        self._ended(call_id, lambda: node.call(target, "relay", arguments, timeout=CALL_SECONDS))

    def withdraw(self) -> None:
        node, target, call_id = self._pick()
        future = node.submit(target, "note", {"id": call_id}, timeout=CALL_SECONDS)
        time.sleep(self._random.random() * 0.003)
        if self.household.keeps_all and future.cancel():
            self._journal.tell("failed", call_id, "CANCELLED", "never")
        else:
            self._ended(call_id, lambda: future.result(2 * CALL_SECONDS))

    def await_some(self) -> None:
        """Three calls at once, some of them given up."""
        asyncio.run(self._awaited([self._pick() for _ in range(3)]))

    async def _awaited(self, picked: list[tuple[speed.Node, str, str]]) -> None:
        async def one(node: speed.Node, target: str, call_id: str) -> None:
            with contextlib.suppress(speed.SpeedError, asyncio.TimeoutError, CancelledError):
                call = node.aio.call(target, "note", {"id": call_id}, timeout=CALL_SECONDS)
                await asyncio.wait_for(call, self._random.choice((0.0005, 0.005, 2 * CALL_SECONDS)))

        await asyncio.gather(*(one(*each) for each in picked))

    def send(self) -> None:
        node, target, message_id = self._pick()
        if self.household.breaks("foreign"):
            raise ValueError("broken on purpose")
        filler = "x" * self._random.randrange(2000)
        payload = {"id": message_id, "filler": filler}
        node.send(target, payload, ack=self._random.random() < 0.5, timeout=CALL_SECONDS)
        self._journal.tell("sent", message_id, target)

    def call_family(self) -> None:
        """Whoever begins it runs it, and nobody else."""
        node, _, call_id = self._pick()
        retry = self._random.choice((None, speed.Retry(attempts=3)))
        self._ended(call_id, lambda: node.call(FAMILY, "note", {"id": call_id}, timeout=CALL_SECONDS, retry=retry))

    def send_to_family(self) -> None:
        node, _, message_id = self._pick()
        payload = {"id": message_id, "filler": ""}
        node.send(FAMILY, payload, ack=self._random.random() < 0.5, timeout=CALL_SECONDS)
        self._journal.tell("sent", message_id, FAMILY)

    def read_stream(self) -> None:
        """All items in order, or some of them. Like the next one, of nodes in Python."""
        node, target, call_id = self._pick()
        target = self._random.choice((target, FAMILY))
        count = self._random.randrange(5000)
        wanted = self._random.choice((count, count // 2))

        def read() -> Any:
            arguments = {"id": call_id, "count": count}
            with node.stream(target, "counted", arguments, timeout=CALL_SECONDS) as stream:
                items = list(itertools.islice(stream, wanted))
                if items != list(range(wanted)):
                    raise ValueError(f"{len(items)} items of {wanted}, the last ones {items[-3:]}")
                return stream.wait() if wanted == count else call_id

        self._ended(call_id, read)

    def send_stream(self) -> None:
        node, target, call_id = self._pick()
        target = self._random.choice((target, FAMILY))
        count = self._random.randrange(5000)

        def send() -> Any:
            stream = node.stream(target, "summed", {"id": call_id}, items=range(count), timeout=CALL_SECONDS)
            answer, total = stream.wait()
            if total != sum(range(count)):
                raise ValueError(f"{count} items became {total}")
            return answer

        self._ended(call_id, send)

    def provoke(self) -> None:
        """A service that exits or forks; other languages have none of them. None but the parent answers."""
        node, target, _ = self._pick()
        service = self._random.choice(("exits", "awaits_exit", "forks"))
        answer = node.call(target, service, timeout=CALL_SECONDS)
        if (service, answer) != ("forks", "parent"):
            raise ValueError(f"{service} answered {answer!r}")

    def send_fatal(self) -> None:
        """A message whose handler exits, in Python: it was handled all the same, and the next one is."""
        node, target, message_id = self._pick()
        node.send(target, {"id": message_id, "filler": "", "exits": True}, timeout=CALL_SECONDS)
        self._journal.tell("sent", message_id, target)

    def interrupt(self) -> None:
        """A signal that ends a wait."""
        with contextlib.suppress(Interruption), ALARM:
            self._interrupted(*self._pick())

    def _interrupted(self, node: speed.Node, target: str, call_id: str) -> None:
        try:
            if self._random.random() < 0.5:
                node.wait_for("life.nobody", timeout=CALL_SECONDS)
            else:
                self._ended(call_id, lambda: node.call(target, "note", {"id": call_id}, timeout=CALL_SECONDS))
        except Interruption:
            self._journal.tell("failed", call_id, "INTERRUPTED", "maybe")

    def send_large(self) -> None:
        node, target, message_id = self._pick()
        cut = self._random.random() < 0.5
        node.segment(target, SEGMENT_BYTES if cut else None)
        try:
            node.send(target, {"id": message_id, "filler": b"x" * LARGE_BYTES}, timeout=CALL_SECONDS)
            self._journal.tell("sent", message_id, target)
        finally:
            node.segment(target, None)

    def publish(self) -> None:
        node, _, event_id = self._pick()
        if self.household.breaks("descriptor"):
            os.open(os.devnull, os.O_RDONLY)
        told = node.publish("life.event", {"id": event_id})
        self._journal.tell("published", event_id, *getattr(told, "delivered", ()))

    def look(self) -> None:
        node, target, _ = self._pick()
        look: Callable[..., object] = self._random.choice((node.ping, node.services, node.info, node.stats))
        look(target, timeout=CALL_SECONDS)
        node.nodes()

    def grant(self) -> None:
        """Of what nobody here is called."""
        node, _, _ = self._pick()
        change = self._random.choice((node.allow, node.deny))
        change(f"guest.{self._random.randrange(9)}.*")

    def turn_over(self) -> None:
        self.household.turn_over(self._random.choice(self.setting.names), self._random.choice((0.1, DRAIN_SECONDS)))

    def leave(self) -> None:
        self.household.leave(self._random.choice(self.setting.names), self.household.any(self._random))


def descriptors() -> list[str]:
    """What is open."""
    gc.collect()
    found = []
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # that of the listing itself
            found.append(os.readlink(f"/proc/self/fd/{fd}"))
    return sorted(found)


def warm_up(household: Household) -> list[str]:
    """What is opened once and kept is opened; what that is."""
    household.start_all()
    asyncio.run(asyncio.sleep(0))
    household.close_all()
    return descriptors()


def main() -> None:
    faulthandler.enable()
    logging.basicConfig()
    logging.getLogger().handlers[0].addFilter(Asked())
    signal.signal(signal.SIGALRM, ALARM)
    setting = Setting(**json.loads(sys.stdin.readline()))
    journal = Journal(setting.journal)
    household = Household(setting, journal)
    before = warm_up(household)
    household.start_all()
    print("ready", flush=True)
    sys.stdin.readline()
    until = time.monotonic() + setting.seconds
    people = [Person(household, journal, number, until) for number in range(setting.threads)]
    for person in people[1:]:
        person.start()
    people[0].run()  # in the main thread, which gets the signals
    for person in people[1:]:
        person.join()
    household.start_all()
    print("quiet", flush=True)
    sys.stdin.readline()
    household.close_all()
    after = descriptors()
    print("open before:", before, "open now:", after, file=sys.stderr)
    print("descriptors", len(before), len(after), flush=True)


if __name__ == "__main__":
    main()
