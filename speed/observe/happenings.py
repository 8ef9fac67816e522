"""What happens in a root, told one by one: nodes that come and go, refusals, messages that became dead letters."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from speed import Node
from speed.core.access import Verdict
from speed.errors import SpeedError
from speed.fs.dead_letters import DeadLetters
from speed.fs.registry import Registry
from speed.observe.figures import Answers, ask_all
from speed.observe.traffic import Refusal, refusals
from speed.wire.entry import Entry
from speed.wire.names import is_node_name

EVENTS = ("joined", "starting", "ready", "replaced", "leaving", "left", "died", "silent", "answers", "refused", "dead")
MAX_LETTERS_A_LOOK = 100
"""So many dead letters of one node are told one by one; of more, how many there are."""
REPEAT_SECONDS = 30.0
"""Who goes on being refused is told again after this, with all that was refused meanwhile."""


@dataclass(frozen=True)
class Happening:
    """One thing that happened to ``node``; ``what`` is one of EVENTS, ``text`` tells more, ``details`` for programs."""

    what: str
    node: str
    text: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    def described(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        return {"event": self.what, "node": self.node, **self.details}


@dataclass
class _Look:
    """What was there at one moment."""

    live: dict[str, Entry]
    dead: set[str]
    """Nodes whose entry is there, and whose process is not."""
    letters: dict[str, set[int]]
    answers: Answers


@dataclass
class _Repeated:
    """What was not told of a pair since it was told last."""

    until: float
    refused: int = 0
    unsent: int = 0
    last: Refusal | None = None


class Watch:
    """Tells what happened since the last look; not thread-safe.

    Args:
        registry: of the root that is watched.
        node: asks others what they count; None: only what files tell.
        clock: gives the seconds of a clock that does not jump.
    """

    def __init__(self, registry: Registry, node: Node | None, clock: Callable[[], float] = monotonic) -> None:
        self._registry, self._node, self._clock = registry, node, clock
        self._last: _Look | None = None
        self._refused: dict[tuple[str, str], _Repeated] = {}
        """Who was told to be refused, and is not told again for a while."""

    def news(self, timeout: float) -> list[Happening]:
        """All that is new; of the first look nothing. ``timeout``: seconds that nodes may take to answer.

        Raises StorageError where the root cannot be read.
        """
        before, self._last = self._last, self._look(timeout)
        if before is None:
            return []
        found = refusals(self._last.answers, self._last.live.values(), before.answers)
        return [*_changes(before, self._last), *self._news_of(found)]

    def _news_of(self, found: list[Refusal]) -> Iterator[Happening]:
        """Each pair once, and again when it goes on for long."""
        now = self._clock()
        for one in found:
            pair = one.sender, one.receiver
            known = self._refused.get(pair)
            if known is None:
                self._refused[pair] = _Repeated(now + REPEAT_SECONDS)
                yield _refused(one, one.refused, one.unsent)
            else:
                known.last, known.refused, known.unsent = one, known.refused + one.refused, known.unsent + one.unsent
        for pair, known in list(self._refused.items()):
            if known.until <= now:
                del self._refused[pair]
                if known.last is not None:
                    self._refused[pair] = _Repeated(now + REPEAT_SECONDS)
                    yield _refused(known.last, known.refused, known.unsent)

    @property
    def live(self) -> list[Entry]:
        """The nodes of the last look."""
        return list(self._last.live.values()) if self._last else []

    def _look(self, timeout: float) -> _Look:
        live, dead = {}, set()
        for entry, verdict in self._registry.entries():
            if self._node is not None and entry.name == self._node.name:
                continue
            if verdict is Verdict.STALE or self._registry.process_gone(entry):
                dead.add(entry.name)
            else:
                live[entry.name] = entry
        answers = ask_all(self._node, timeout) if self._node else {}
        return _Look(live, dead, self._letters(), answers)

    def _letters(self) -> dict[str, set[int]]:
        """Numbers of dead letters, by node."""
        found = {}
        with os.scandir(self._registry.root) as files:
            nodes = [one.name for one in files if is_node_name(one.name) and one.is_dir(follow_symlinks=False)]
        for name in nodes:
            try:
                kept = DeadLetters(self._registry.root, name, self._registry.keyring).kept()
            except SpeedError:
                continue  # `speed root doctor` tells why
            if kept:
                found[name] = {one.number for one in kept}
        return found


def _refused(one: Refusal, refused: int, unsent: int) -> Happening:
    text = f"writes to {one.receiver}, which does not allow it: {one.cure}"
    details = {"receiver": one.receiver, "refused": refused, "unsent": unsent, "cure": one.cure}
    return Happening("refused", one.sender, text, details)


def _changes(before: _Look, now: _Look) -> Iterator[Happening]:
    yield from _comings(before, now)
    yield from _goings(before, now)
    yield from _silences(before, now)
    for name, letters in now.letters.items():
        yield from _died_letters(name, sorted(letters - before.letters.get(name, set())))


def _comings(before: _Look, now: _Look) -> Iterator[Happening]:
    for name, entry in now.live.items():
        past = before.live.get(name)
        text = f"pid {entry.pid}, {entry.language}, on {entry.host}"
        details = {"pid": entry.pid, "language": entry.language, "host": entry.host, "generation": entry.generation}
        if past is None:
            yield Happening("starting" if entry.status == "starting" else "joined", name, text, details)
        elif past.generation != entry.generation:
            yield Happening("replaced", name, f"by {text}", details)
        elif past.status != entry.status:
            yield Happening({"online": "ready"}.get(entry.status, entry.status), name, "", details)


def _goings(before: _Look, now: _Look) -> Iterator[Happening]:
    for name, past in before.live.items():
        if name in now.dead:
            text = f"its process {past.pid} is gone, or hangs and lost its lease"
            yield Happening("died", name, text, {"pid": past.pid, "generation": past.generation})
        elif name not in now.live:
            yield Happening("left", name, "", {"pid": past.pid, "generation": past.generation})


def _silences(before: _Look, now: _Look) -> Iterator[Happening]:
    for name, answer in now.answers.items():
        if name not in before.answers or name not in now.live:
            continue
        if answer is None and before.answers[name] is not None:
            yield Happening("silent", name, "it does not answer, though its lease is held")
        elif answer is not None and before.answers[name] is None:
            yield Happening("answers", name, "again")


def _died_letters(name: str, numbers: list[int]) -> Iterable[Happening]:
    if len(numbers) > MAX_LETTERS_A_LOOK:
        text = f"{len(numbers)} messages could not be handled: see `speed dead list {name}`"
        return [Happening("dead", name, text, {"count": len(numbers)})]
    return [
        Happening("dead", name, f"a message could not be handled: `speed dead show {name} {one}`", {"number": one})
        for one in numbers
    ]
