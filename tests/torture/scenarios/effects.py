"""Exactly-once effects: what an application did, and the ids of what it acted on, in one SQLite transaction (S-8).

A round is one kill of an application and its agent together: while it takes messages (agents of all languages), or
while it serves requests (Python), whose caller asks once more, with its own id, whatever was not answered.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from random import Random

from tests.interop.harness import Agent
from tests.interop.languages import ROOT
from tests.torture.consumer import Ledger
from tests.torture.duel import VICTIM, Duel, Outcome, language_of, tell_all
from tests.torture.scenario import Report, Scenario

COMMANDS = 10
TIMEOUT = 20.0
LIFE_SECONDS = 180.0


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


class Application:
    """Its lives, one after the other."""

    def __init__(self, duel: Duel, report: Report) -> None:
        self.duel, self.report = duel, report
        self.life: Life | None = None

    def live(self, role: str, seed: int) -> Life:
        if self.life is not None:
            self.life.end()
        self.life = Life(self.duel, role, language_of(seed // 2), mutated=self.report.mutated)
        return self.life

    def round(self, seed: int) -> None:
        play = (self.receive, self.serve)[seed % 2]
        self.judge(seed, play(seed, self.duel.peer(language_of(seed // 6))))

    def receive(self, seed: int, peer: Agent) -> set[str]:
        """It is killed while it takes messages; its heir takes the rest. Whose effects were promised."""
        life = self.life if self.life and self.life.role == "receive" else self.live("receive", seed)
        ids, end = ids_of(seed), f"{seed}-end"
        told = tell_all(peer, "send", [{"target": VICTIM, "payload": {"id": one}, "timeout": TIMEOUT} for one in ids])
        sent = self.strike(life, Random(seed), peer, told)
        heir = self.live("receive", seed + 2)
        peer.ask("send", target=VICTIM, payload={"id": end}, timeout=TIMEOUT)
        said = "-"
        while said not in ("", end):
            heir.let(1)
            said = heir.line()
        return {ids[place] for place in sent.results} | {end}

    def serve(self, seed: int, peer: Agent) -> set[str]:
        """It is killed while it serves; its caller asks again whatever was not answered."""
        life = self.live("serve", seed)
        ids, call = ids_of(seed), {"target": VICTIM, "service": "note", "timeout": TIMEOUT}
        told = tell_all(peer, "call", [{**call, "arguments": {"id": one}} for one in ids])
        sent = self.strike(life, Random(seed), peer, told)
        self.live("serve", seed).let(3 * COMMANDS)
        for place in set(range(COMMANDS)) - set(sent.results):
            peer.ask("call", **call, arguments={"id": ids[place]})
        return set(ids)

    def strike(self, life: Life, random: Random, peer: Agent, told: list[int]) -> Outcome:
        """Just after a commit, or somewhere between two; what its peer heard."""
        before = random.randrange(1, COMMANDS)
        waits = random.random() < 0.5
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
        ledger = Ledger(ledger_path(self.duel))
        effects = {one: times for one, times in ledger.effects().items() if one.startswith(f"{seed}-")}
        ledger.close()
        self.report.add("effects", sum(effects.values()))
        twice = [one for one, times in effects.items() if times > 1]
        self.report.check(not twice, f"effects that took place twice: {twice}")
        self.report.check(promised <= set(effects), f"effects that are lost: {sorted(promised - set(effects))}")


def run(seed: int, count: int, report: Report) -> None:
    with Duel() as duel:
        application = Application(duel, report)
        try:
            for round_seed in report.rounds(seed, count):
                application.round(round_seed)
        finally:
            if application.life is not None:
                application.life.end()


SCENARIO = Scenario(
    name="effects",
    promise="where request ids are kept in the effect's own transaction, kills lose no effect and repeat none",
    unit="kills",
    tiny=4,
    quick=12,
    full=10_000,
    mutation="the application does not look at the ids it kept",
    run=run,
)
