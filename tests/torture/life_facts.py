"""What the processes of ``scenarios/life.py`` wrote down, and which promises that breaks.

A line of a journal is a fact:

| fact | means |
|---|---|
| ``sent ID TARGET`` | a message was accepted, by a node or by one of the family ``life.*`` |
| ``published ID TARGET…`` | an event was accepted by these nodes |
| ``took ID NAME first`` or ``again`` | a node's handler got it; ``again``: marked ``redelivered`` |
| ``ran ID`` | a service was invoked |
| ``answered ID …`` | a call got its answer |
| ``failed ID CODE never`` or ``maybe`` | it got an error; whether the service may have been invoked |
| ``refused ACT CODE`` | something else got an error |
| ``counted NAME KEY=COUNT…`` | what a node had counted when it was about to be closed |
| ``foreign ACT …`` | something raised what is no error of SPEED's |
| ``late ACT SECONDS`` | something took longer than its deadline and its grace |
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

FAMILY = "life.*"
SHOWN = 3
DISCARDED = ("rejected", "discarded", "payloads_lost", "segment_store", "messages_dropped", "events_un", "dead_letters")
"""How counters begin that tell of something that no program got."""


class Facts:
    """All facts of one round. Each name lives in one process, so that its facts are in order."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.sent: dict[str, str] = {}
        self.published: dict[str, list[str]] = {}
        self.took: dict[tuple[str, str], list[str]] = defaultdict(list)
        self.ran: Counter[str] = Counter()
        self.answered: set[str] = set()
        self.failed: dict[str, list[str]] = {}
        self.refused: list[str] = []
        self.odd: list[str] = []
        self.counters: Counter[str] = Counter()
        for line in lines:
            self._add(*line.rstrip("\n").split(" "))

    def _add(self, what: str, name: str, *rest: str) -> None:
        if what == "sent":
            self.sent[name] = rest[0]
        elif what == "published":
            self.published[name] = list(rest)
        elif what == "took":
            self.took[name, rest[0]].append(rest[1])
        elif what == "ran":
            self.ran[name] += 1
        elif what == "answered":
            self.answered.add(name)
        elif what == "failed":
            self.failed[name] = list(rest)
        elif what == "counted":
            self._count(rest)
        elif what == "refused":
            self.refused.append(f"{name} {rest[0]}")
        else:
            self.odd.append(" ".join((what, name, *rest)))

    def _count(self, told: Iterable[str]) -> None:
        for key, _, count in (one.partition("=") for one in told):
            self.counters[key] += int(count)

    def discarded(self) -> dict[str, int]:
        """What nodes counted of envelopes and payloads that they threw away: where to look for what is lost."""
        return {key: count for key, count in sorted(self.counters.items()) if key.startswith(DISCARDED) and count}

    def waits(self) -> bool:
        """Whether something that was accepted was not handled yet."""
        return bool(self._lost_messages() or self._lost_events())

    def _lost_messages(self) -> list[str]:
        taken = {one for one, _ in self.took}
        return [
            one
            for one, target in self.sent.items()
            if (one not in taken if target == FAMILY else (one, target) not in self.took)
        ]

    def _lost_events(self) -> list[str]:
        return [one for one, targets in self.published.items() if any((one, name) not in self.took for name in targets)]

    def broken(self) -> Iterator[str]:
        """Each promise that was broken, with examples."""
        yield from self._told("accepted messages were never handled", self._lost_messages())
        yield from self._told("accepted events were never handled", self._lost_events())
        yield from self._told("handled by whom they were not sent to", self._misled())
        yield from self._told("handled again without a mark", self._unmarked())
        yield from self._told("calls ran twice", [one for one, times in self.ran.items() if times > 1])
        yield from self._told("answered, and never ran", [one for one in self.answered if not self.ran[one]])
        yield from self._told("said to be not begun, and ran", self._begun())
        for what in ("foreign", "late"):
            yield from self._told(what, [fact for fact in self.odd if fact.startswith(f"{what} ")])

    def _told(self, what: str, cases: list[str]) -> Iterator[str]:
        if cases:
            yield f"{len(cases)}: {what}, such as {', '.join(cases[:SHOWN])}"

    def _misled(self) -> list[str]:
        return [one for one, name in self.took if self.sent.get(one, name) not in (name, FAMILY)]

    def _unmarked(self) -> list[str]:
        return [one for (one, _), marks in self.took.items() if "first" in marks[1:]]

    def _begun(self) -> list[str]:
        never = [one for one, (_, begun) in self.failed.items() if begun == "never"]
        return [one for one in never if self.ran[one]]
