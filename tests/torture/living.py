"""A process with several nodes and threads that do what comes to their minds: ``python -m tests.torture.living``.

Its first line of input is a JSON object with the fields of ``Setting``. It starts its nodes, says ``ready``, and acts
from the next line of input on for so many seconds: calls, nested and withdrawn calls, messages of all sizes, events,
grants, closes and starts, from all threads with all nodes. When each thread is done and each node runs, it says
``quiet``; a further line of input ends it, and it says how many descriptors it had before and has now. What happened
stands in its journal, a fact a line (``life_facts``). Other languages have the same program.

``broken`` breaks a promise on purpose: ``lost``, ``twice``, ``foreign``, ``hang`` or ``descriptor``.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import gc
import itertools
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import speed

FAMILY = "life.*"
NEVER = {"ACCESS_DENIED", "UNKNOWN_NODE", "SERVICE_NOT_FOUND", "INVALID_ARGUMENTS", "INBOX_FULL"}
"""Codes of calls that were not begun, for errors that do not say so themselves."""
CALL_SECONDS = 3.0
DRAIN_SECONDS = 2.0
SEGMENT_BYTES, LARGE_BYTES = 65_536, 300_000
BREAK_EACH = 10
"""What is broken on purpose is broken for each so many."""


@dataclass(frozen=True)
class Setting:
    """``names``: the nodes of this process; ``others``: all nodes there are. ``grace``: seconds that an act may take
    beyond its own bound.
    """

    root: str
    journal: str
    prefix: str
    seed: int
    seconds: float
    threads: int
    names: list[str]
    others: list[str]
    grace: float
    engine: str = "python"
    broken: str = ""


class Journal:
    """Facts, a line each. Any thread writes."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def tell(self, *words: object) -> None:
        os.write(self._file, " ".join(map(str, words)).replace("\n", " ").encode() + b"\n")

    def foreign(self, where: str, error: BaseException) -> None:
        """What no program should ever see."""
        traceback.print_exception(error)
        self.tell("foreign", where, type(error).__name__, error)


class Household:
    """The nodes by name. Each may be closed and started again at any moment, whoever uses it."""

    def __init__(self, setting: Setting, journal: Journal) -> None:
        self.setting, self._journal = setting, journal
        self._turns = {name: threading.Lock() for name in setting.names}
        self._nodes: dict[str, speed.Node] = {}
        self._asked: set[str] = set()
        self._counter = itertools.count(1)
        self.keeps_all = False
        """Whether these nodes can withdraw calls; such nodes keep what comes before they are told what takes it."""

    def start(self, name: str) -> speed.Node:
        early = [FAMILY] if self.keeps_all else []
        node = speed.Node(
            name,
            self.setting.root,
            f"{self.setting.root}/speed.key",
            heartbeat_seconds=0.5,
            workers=2,
            engine=self.setting.engine,
            allow=early,
        )
        node.on_message(lambda message: self._took(name, message))
        node.subscribe(FAMILY, lambda message: self._took(name, message))
        node.register("note", self._note)
        node.register("relay", partial(self._relay, node))
        node.register("leave", partial(self._leave, node))
        node.allow(FAMILY)
        self._nodes[name] = node
        return node

    def start_all(self) -> None:
        for name in self.setting.names:
            node = self._nodes.get(name)
            if node is None or node.closed:
                node = self.start(name)
            if not self.keeps_all:
                (entry,) = [entry for entry in node.nodes() if entry.name == name]
                self.keeps_all = "withdraw" in getattr(entry, "features", ())

    def any(self, random: Random) -> speed.Node:
        """Perhaps one that another thread closes meanwhile; one that is closed is seldom worth a try."""
        found = self._nodes[random.choice(self.setting.names)]
        return self._nodes[random.choice(self.setting.names)] if found.closed else found

    def turn_over(self, name: str, drain: float) -> None:
        """Close and start again, unless another thread does so."""
        with self._turn(name) as is_mine:
            if is_mine:
                self._close(name, drain)
                self.start(name)

    def leave(self, name: str, asker: speed.Node) -> None:
        """Ask it to close itself from inside a service, and start it again once its name is free."""
        with self._turn(name) as is_mine:
            if is_mine and self.keeps_all:
                self._asked.add(name)
                with contextlib.suppress(speed.SpeedError):
                    asker.call(name, "leave", timeout=CALL_SECONDS)
                if self._is_too_late(name):
                    self._start_when_free(name)

    def _is_too_late(self, name: str) -> bool:
        """Whether the other of both, the service and who asked for it, decided before: it closes, or it will not."""
        try:
            self._asked.remove(name)
        except KeyError:
            return True
        return False

    @contextlib.contextmanager
    def _turn(self, name: str) -> Iterator[bool]:
        """Whether this thread may close and start it."""
        turn = self._turns[name]
        is_mine = turn.acquire(blocking=False)
        try:
            yield is_mine
        finally:
            if is_mine:
                turn.release()

    def _start_when_free(self, name: str) -> None:
        until = time.monotonic() + CALL_SECONDS + self.setting.grace
        while True:
            try:
                self.start(name)
                return
            except speed.NameTakenError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.01)

    def close_all(self) -> None:
        for name in self.setting.names:
            self._close(name, DRAIN_SECONDS)
        self._nodes.clear()

    def _close(self, name: str, drain: float) -> None:
        node = self._nodes[name]
        with contextlib.suppress(speed.SpeedError):
            self._journal.tell("counted", name, *map("{0[0]}={0[1]}".format, node.stats()["counters"].items()))
        node.close(drain_seconds=drain)

    def breaks(self, what: str) -> bool:
        """Whether it is time to break this promise."""
        return self.setting.broken == what and next(self._counter) % BREAK_EACH == 0

    # --- what others ask of a node ---

    def _took(self, name: str, message: speed.Message) -> None:
        if not self.breaks("lost"):
            self._journal.tell("took", message.payload["id"], name, "again" if message.redelivered else "first")

    def _note(self, id: str) -> str:  # noqa: A002 - the caller's name of the call
        for _ in range(2 if self.breaks("twice") else 1):
            self._journal.tell("ran", id)
        return id

    def _leave(self, node: speed.Node) -> None:
        """Close the node that this is a service of, if that is still wanted."""
        if self._is_too_late(node.name):
            return
        began = time.monotonic()
        node.close(drain_seconds=DRAIN_SECONDS)
        if time.monotonic() - began > self.setting.grace:
            self._journal.tell("late", "close", "from inside")

    def _relay(self, node: speed.Node, target: str, id: str) -> str:  # noqa: A002 - as above
        """A call within a call; empty when it failed."""
        try:
            return str(node.call(target, "note", {"id": id}, timeout=CALL_SECONDS / 2))
        except speed.SpeedError:
            return ""
        except BaseException as error:
            self._journal.foreign("relay", error)
            raise


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
            *[(self.send_large, 2 * CALL_SECONDS), (self.look, CALL_SECONDS), (self.grant, 1.0)],
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
    setting = Setting(**json.loads(sys.stdin.readline()))
    journal = Journal(setting.journal)
    household = Household(setting, journal)
    before = warm_up(household)
    household.start_all()
    print("ready", flush=True)
    sys.stdin.readline()
    until = time.monotonic() + setting.seconds
    people = [Person(household, journal, number, until) for number in range(setting.threads)]
    for person in people:
        person.start()
    for person in people:
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
