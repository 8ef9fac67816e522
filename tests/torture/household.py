"""The nodes of a process of ``scripts/torture life``: each may be closed and started again at any moment."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import threading
import time
import traceback
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from functools import partial
from random import Random

import speed

FAMILY = "life.*"
CALL_SECONDS = 3.0
DRAIN_SECONDS = 2.0
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


def exits() -> None:
    sys.exit("asked for")


async def awaits_exit() -> None:
    sys.exit("asked for")


def forks() -> str:
    """The child returns as well, and must not be heard."""
    pid = os.fork()
    if pid == 0:
        return "child"
    os.waitpid(pid, 0)
    return "parent"


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
        node.register("counted", self._counted)
        node.register("summed", self._summed)
        node.register("relay", partial(self._relay, node))
        node.register("leave", partial(self._leave, node))
        node.register("exits", exits)
        node.register("awaits_exit", awaits_exit)
        node.register("forks", forks)
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
        if message.payload.get("exits"):
            sys.exit("asked for")

    def _note(self, id: str) -> str:  # noqa: A002 - the caller's name of the call
        for _ in range(2 if self.breaks("twice") else 1):
            self._journal.tell("ran", id)
        return id

    def _counted(self, id: str, count: int) -> Generator[int, None, str]:  # noqa: A002 - as above
        self._journal.tell("ran", id)
        yield from range(count)
        return id

    def _summed(self, id: str, items: Iterator[int]) -> list[str | int]:  # noqa: A002 - as above
        self._journal.tell("ran", id)
        return [id, sum(items)]

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
