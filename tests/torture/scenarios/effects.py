"""Exactly-once effects: what an application did, and the ids of what it acted on, in one SQLite transaction (S-8).

A round is one kill of an application and its agent together: while it takes messages (agents of all languages), or
while it serves requests (Python), whose caller asks once more, with its own id, whatever was not answered. Calls of
another service, which looks at no ids, are never repeated: some of them are withdrawn, and each has its effect at most
once. Some messages and calls travel in segments. Mutated, each round breaks another promise.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from random import Random
from typing import Any

from tests.interop.harness import Agent
from tests.interop.languages import ROOT
from tests.torture.consumer import Ledger
from tests.torture.duel import FAST, VICTIM, Duel, Outcome, language_of
from tests.torture.scenario import Report, Scenario
from tests.torture.withdrawals import SEGMENT_BYTES, Withdrawals

COMMANDS = 10
TIMEOUT = 20.0
LIFE_SECONDS = 180.0
BREAKS = {
    "ids": ("serve", "effects that took place twice"),
    "segments": ("receive", "effects that are lost"),
    "never": ("serve", "its caller was told that it was not begun"),
    "twice": ("serve", "ran twice"),
}
"""What can be broken on purpose, in which role, and what must be said of it."""


class Life:
    """The application's process and its agent, which die together."""

    def __init__(self, duel: Duel, role: str, language: str, *, mutated: bool) -> None:
        self.role = role
        command = [sys.executable, "-u", "-m", "tests.torture.consumer", role, language, duel.root, ledger_path(duel)]
        self.process = subprocess.Popen(
            command + ["mutated"] * mutated,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "SPEED_KEY": f"{duel.root}/speed.key"},
            start_new_session=True,
        )
        self._watchdog = threading.Timer(LIFE_SECONDS, self._kill)
        self._watchdog.daemon = True
        self._watchdog.start()
        if self.line() != "ready":
            raise AssertionError(f"the {language} application did not start")

    def let(self, count: int) -> None:
        """It may act on that many more."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(b"\n" * count)
            self.process.stdin.flush()

    def line(self) -> str:
        """What it says next; nothing when it is gone."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().decode().strip()

    def end(self) -> None:
        """SIGKILL to both."""
        self._watchdog.cancel()
        self._kill()
        self.process.communicate()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


def ledger_path(duel: Duel) -> str:
    return f"{duel.root}/ledger"


def ids_of(seed: int) -> list[str]:
    return [f"{seed}-{number}" for number in range(COMMANDS)]


def effects_in(duel: Duel, prefix: str) -> dict[str, int]:
    """How often each of these took place."""
    ledger = Ledger(ledger_path(duel))
    found = {one: times for one, times in ledger.effects().items() if one.startswith(prefix)}
    ledger.close()
    return found


class Once:
    """Calls of the application's service ``once``."""

    service = "once"

    def __init__(self, duel: Duel, seed: int) -> None:
        self._duel, self._prefix = duel, f"{seed}.once-"

    def arguments(self, number: int) -> dict[str, Any]:
        return {"id": f"{self._prefix}{number}"}

    def ran_so_far(self) -> Counter[int]:
        return self.ran()

    def ran(self) -> Counter[int]:
        effects = effects_in(self._duel, self._prefix)
        return Counter({int(one.removeprefix(self._prefix)): times for one, times in effects.items()})


class Application:
    """Its lives, one after the other."""

    def __init__(self, duel: Duel, report: Report) -> None:
        self.duel, self.report = duel, report
        self.life: Life | None = None
        self.broken = ""

    def live(self, role: str, seed: int) -> Life:
        if self.life is not None:
            self.life.end()
        self.life = Life(self.duel, role, language_of(seed // 2), mutated=self.broken == "ids")
        return self.life

    def round(self, seed: int, report: Report) -> None:
        self.report = report
        self.broken = report.broken(BREAKS)
        roles = {"receive": self.receive, "serve": self.serve}
        play = roles[BREAKS[self.broken][0] if self.broken else list(roles)[seed % 2]]
        self.judge(seed, play(seed, self.duel.peer(language_of(seed // 6))))

    def is_cut(self, seed: int, number: int) -> bool:
        """Whether this one travels in segments."""
        return Random(seed * 1000 + number).random() < 0.4

    def tell(self, peer: Agent, op: str, seed: int, number: int, **fields: Any) -> int:
        """Have it send or call, in segments if this one is to be."""
        size = SEGMENT_BYTES if self.is_cut(seed, number) else None
        peer.mention("segment", target=VICTIM, size=size, parity=0)
        told = peer.tell(op, target=VICTIM, timeout=TIMEOUT, **fields)
        peer.mention("segment", target=VICTIM, size=None, parity=0)
        return told

    def arguments(self, seed: int, number: int) -> dict[str, str]:
        """The id of this one, and enough of a filler for some segments."""
        length = Random(seed * 1000 + number).randrange(5 * SEGMENT_BYTES)
        return {"id": ids_of(seed)[number], "filler": "x" * (length + self.is_cut(seed, number) * SEGMENT_BYTES)}

    def receive(self, seed: int, peer: Agent) -> set[str]:
        """It is killed while it takes messages; its heir takes the rest. Whose effects were promised."""
        life = self.life if self.life and self.life.role == "receive" else self.live("receive", seed)
        ids, end = ids_of(seed), f"{seed}-end"
        places = range(COMMANDS)
        told = [self.tell(peer, "send", seed, place, payload=self.arguments(seed, place)) for place in places]
        sent = self.strike(life, Random(seed), peer, told)
        heir = self.live("receive", seed + 2)
        peer.ask("send", target=VICTIM, payload={"id": end}, timeout=TIMEOUT)
        said = "-"
        while said not in ("", end):
            heir.let(1)
            said = heir.line()
        self.report.add("in segments", sum(self.is_cut(seed, place) for place in sent.results))
        return {ids[place] for place in sent.results} | {end}

    def serve(self, seed: int, peer: Agent) -> set[str]:
        """It is killed while it serves; its caller asks again whatever was not answered, but for calls of ``once``."""
        random = Random(seed)
        life = self.live("serve", seed)
        withdrawals = Withdrawals(Once(self.duel, seed), random, self.report)
        told = []
        gone = self.caller_that_goes(seed)
        beside = random.sample(range(COMMANDS), 3)
        for place in range(COMMANDS):
            begun = withdrawals.begin(peer, VICTIM) if place in beside else []
            told.append(self.tell(peer, "call", seed, place, service="note", arguments=self.arguments(seed, place)))
            withdrawals.end(peer, begun)
        sent = self.strike(life, random, peer, told)
        withdrawals.server_died()
        gone.end()
        begun = effects_in(self.duel, f"{seed}.gone-")
        withdrawals.hear(peer)
        self.live("serve", seed).let(3 * COMMANDS)
        for place in sorted(set(range(COMMANDS)) - set(sent.results)):
            peer.answer(self.tell(peer, "call", seed, place, service="note", arguments=self.arguments(seed, place)))
        last = f"{seed}-last"  # behind all that the first life left in the lane
        peer.ask("call", target=VICTIM, service="note", arguments={"id": last}, timeout=TIMEOUT)
        withdrawals.judge("the application is killed;", broken=self.broken)
        later = effects_in(self.duel, f"{seed}.gone-")
        self.report.check(
            later == begun, f"what a caller that is gone had asked of an earlier life ran: {later}, {begun}"
        )
        return {*ids_of(seed), last}

    def caller_that_goes(self, seed: int) -> Agent:
        """It calls ``once`` some times, and is killed when the application was: no later life runs what waits then."""
        gone = self.duel.cast.start(language_of(seed // 6), "peer.gone", allow=[VICTIM], **FAST).ready()
        for number in range(COMMANDS):
            arguments = {"id": f"{seed}.gone-{number}", "filler": ""}
            gone.tell("start", call=number, target=VICTIM, service="once", arguments=arguments, timeout=TIMEOUT)
        return gone

    def strike(self, life: Life, random: Random, peer: Agent, told: list[int]) -> Outcome:
        """Just after a commit, or somewhere between two; what its peer heard."""
        before = random.randrange(1, COMMANDS)
        waits = random.random() < 0.5 or self.broken == "ids"
        life.let(before if waits else COMMANDS)
        for _ in range(before):
            life.line()
        if not waits:
            time.sleep(random.random() * 0.003)
        life.end()
        self.life = None
        self.report.add("kills")
        heard = Outcome()
        heard.take(peer, told)
        return heard

    def judge(self, seed: int, promised: set[str]) -> None:
        effects = effects_in(self.duel, f"{seed}-")
        if self.broken == "segments":
            cut = {one for number, one in enumerate(ids_of(seed)) if self.is_cut(seed, number)}
            effects = {one: times for one, times in effects.items() if one not in cut}
        self.report.add("effects", sum(effects.values()))
        twice = [one for one, times in effects.items() if times > 1]
        self.report.check(not twice, f"effects that took place twice: {twice}")
        self.report.check(promised <= set(effects), f"effects that are lost: {sorted(promised - set(effects))}")


def run(seed: int, count: int, report: Report) -> None:
    with Duel() as duel:
        application = Application(duel, report)
        try:
            for attempt in report.attempts(seed, count, BREAKS):
                application.round(attempt.round_seed, attempt)
        finally:
            if application.life is not None:
                application.life.end()


SCENARIO = Scenario(
    name="effects",
    promise="where request ids are kept in the effect's own transaction, kills lose no effect and repeat none; "
    "calls without ids have theirs once at most, withdrawn ones that were not begun never",
    unit="kills",
    tiny=3 * len(BREAKS),
    quick=12,
    full=10_000,
    mutation="ids that were kept do not count, what came in segments is dropped, calls run that never began, or twice",
    run=run,
)
