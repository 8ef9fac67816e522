"""Senders, receivers, callers and servers are killed; nobody loses what was acknowledged (L-5, L-12, L-15, L-17, S-7).

A round is one kill: at a random moment, or as the victim enters one of the system calls of its paths. Its name then
lives on in the next language. Victims and peers change their language, so that all nine pairs come up in all roles.
"""

from __future__ import annotations

import time
from random import Random
from typing import Any

from tests.interop.harness import Agent
from tests.torture.duel import VICTIM, Duel, Outcome, aim, language_of, tell_all
from tests.torture.scenario import Report, Scenario

COMMANDS = LAST = 20
TIMEOUT = 20.0
GONE = {"NODE_LEFT", "UNKNOWN_NODE", "ACCESS_DENIED"}
"""What a caller may hear of a server that was killed; the last before a new life grants."""


class Round:
    """One life of the victim, and its death."""

    def __init__(self, duel: Duel, seed: int, report: Report) -> None:
        self.duel, self.seed, self.report = duel, seed, report
        self.random = Random(seed)
        self.peer = duel.peer(language_of(seed // 12))
        alive = duel.victim is not None and duel.victim.process.poll() is None
        self.victim = duel.victim if alive and duel.victim else duel.live(language_of(seed))
        self.what = f"{self.victim.language}, killed beside {self.peer.language},"

    def run(self) -> None:
        (self.sender, self.receiver, self.caller, self.server)[self.seed // 3 % 4]()
        self.report.add("kills")

    # --- the victim ---

    def kill(self, watched: Agent, numbers: list[int]) -> Outcome:
        """Once ``watched``, who may be the victim, gave some answers. What it answered in all."""
        outcome = Outcome()
        last = self.random.randrange(COMMANDS)
        outcome.take(watched, numbers, end=last)
        if self.sniper is None:
            time.sleep(self.random.random() * 0.002)
        else:
            outcome.take(watched, numbers, last)
            last = COMMANDS
        self.report.add("at a system call", self.victim.process.poll() is not None)
        self.victim.kill()
        outcome.take(watched, numbers, last)
        if self.sniper is not None:
            self.sniper.end()
        return outcome

    def aim(self) -> None:
        self.sniper = aim(self.victim, self.random) if self.random.random() < 0.5 else None

    def heir(self) -> Agent:
        return self.duel.live(language_of(self.seed + 1))

    def payload(self, number: int) -> dict[str, Any]:
        """Of any size, and known from its number: a torn one would not be equal."""
        length = Random(self.seed * 1000 + number).randrange(1500)
        return {"life": self.seed, "n": number, "filler": chr(97 + number) * length}

    def sends(self, target: str) -> list[dict[str, Any]]:
        return [
            {"target": target, "payload": self.payload(number), "ack": self.random.random() < 0.5, "timeout": TIMEOUT}
            for number in range(COMMANDS)
        ]

    def received(self, agent: Agent) -> list[tuple[int, bool]]:
        """What comes until the mark, with its flag."""
        found: list[tuple[int, bool]] = []
        while True:
            message = agent.ask("receive", timeout=TIMEOUT)
            if not self.report.check(
                message is not None, f"{self.what} nothing more comes: an accepted message is lost"
            ):
                return found
            if message["payload"].get("mark") == LAST:
                agent.ask("finish")
                return found
            if "mark" not in message["payload"]:
                found.append((self.sound(message), message["redelivered"]))

    def sound(self, message: dict[str, Any]) -> int:
        """Its number."""
        number: int = message["payload"]["n"]
        self.report.check(message["payload"] == self.payload(number), f"{self.what} a torn message is dispatched")
        return number

    def mark(self, source: Agent, target: Agent, first: int = LAST) -> None:
        """Tell ``target`` that nothing more comes."""
        for number in range(first, LAST + 1):
            source.ask("send", target=target.name, payload={"mark": number}, timeout=TIMEOUT)

    # --- the four roles ---

    def sender(self) -> None:
        self.aim()
        numbers = tell_all(self.victim, "send", self.sends(self.peer.name))
        asked = tell_all(self.peer, "receive", [{"timeout": TIMEOUT}] * COMMANDS)
        outcome = self.kill(self.victim, numbers)
        acknowledged = set(range(len(numbers))) if self.report.mutated else set(outcome.results)
        self.mark(self.heir(), self.peer, first=0)  # enough for all whom the peer still waits for
        taken = Outcome()
        taken.take(self.peer, asked)
        payloads = [message for message in taken.results.values() if message and "mark" not in message["payload"]]
        came = [(self.sound(message), message["redelivered"]) for message in payloads]
        came += self.received(self.peer)
        numbers_came = [number for number, _ in came]
        self.report.add("acknowledged", len(acknowledged))
        self.report.check(acknowledged <= set(numbers_came), f"sender {self.what} something acknowledged is lost")
        self.report.check(numbers_came == sorted(set(numbers_came)), f"sender {self.what} something came twice or late")
        self.report.check(
            len(set(numbers_came) - acknowledged) <= 1, f"sender {self.what} more than what was in hand came"
        )
        self.report.check(
            not any(flag for _, flag in came), f"sender {self.what} a flag, although nobody may have had it"
        )

    def receiver(self) -> None:
        self.aim()
        asked = tell_all(self.victim, "receive", [{"timeout": TIMEOUT}] * COMMANDS)
        told = tell_all(self.peer, "send", [{**fields, "ack": False} for fields in self.sends(VICTIM)])
        outcome = self.kill(self.victim, asked)
        sent = Outcome()
        sent.take(self.peer, told)
        accepted = set(range(COMMANDS)) if self.report.mutated else set(sent.results)
        heir = self.heir()
        self.mark(self.peer, heir)
        before = [self.sound(message) for message in outcome.results.values() if message]
        after = self.received(heir)
        self.report.add("acknowledged", len(accepted))
        repeated = [(number, flag) for number, flag in after if number in before]
        self.report.add("redelivered", len(repeated))
        firsts = [*before, *(number for number, _ in after if number not in before)]
        self.report.check(accepted <= set(firsts), f"receiver {self.what} something acknowledged is lost")
        self.report.check(firsts == sorted(set(firsts)), f"receiver {self.what} something came twice or late")
        self.report.check(len(repeated) <= 1, f"receiver {self.what} {len(repeated)} came again")
        self.report.check(all(flag for _, flag in repeated), f"receiver {self.what} came again without its flag")
        self.report.check(sum(flag for _, flag in after) <= 1, f"receiver {self.what} more than one has the flag")

    def calls(self, target: str) -> list[dict[str, Any]]:
        return [
            {"target": target, "service": "sequence", "arguments": {"n": number}, "timeout": TIMEOUT}
            for number in range(COMMANDS)
        ]

    def caller(self) -> None:
        self.aim()
        outcome = self.kill(self.victim, tell_all(self.victim, "call", self.calls(self.peer.name)))
        answered = set(range(COMMANDS)) if self.report.mutated else set(outcome.results.values())
        ran = self.heir().call(self.peer, "sequence_seen", {}, timeout=TIMEOUT)
        self.report.add("answered", len(answered))
        self.report.check(ran == sorted(set(ran)), f"caller {self.what} a call ran twice or late: {ran}")
        self.report.check(answered <= set(ran), f"caller {self.what} an answer to a call that never ran")
        self.report.check(len(set(ran) - answered) <= 1, f"caller {self.what} more ran than was in hand")

    def server(self) -> None:
        self.aim()
        outcome = self.kill(self.peer, tell_all(self.peer, "call", self.calls(VICTIM)))
        answered = list(outcome.results.values())
        heir = self.heir()
        ran = self.peer.call(heir, "sequence_seen", {}, timeout=TIMEOUT)
        if self.report.mutated:
            ran = answered + ran
        again = set(ran) & set(answered)
        self.report.add("answered", len(answered))
        self.report.check(outcome.codes <= GONE, f"server {self.what} its caller hears {sorted(outcome.codes)}")
        self.report.check(answered == sorted(set(answered)), f"server {self.what} answers are mixed up")
        self.report.check(ran == sorted(set(ran)), f"server {self.what} a request ran twice or late in one life: {ran}")
        self.report.check(not again, f"server {self.what} what had run ran again: {sorted(again)} of {answered}")


def run(seed: int, count: int, report: Report) -> None:
    with Duel() as duel:
        for round_seed in report.rounds(seed, count):
            Round(duel, round_seed, report).run()


SCENARIO = Scenario(
    name="kills",
    promise="who is killed loses nothing acknowledged; one message a kill is repeated at most, and no call",
    unit="kills",
    tiny=4,
    quick=36,
    full=10_000,
    mutation="what a sender was told counts as acknowledged, answered or not",
    run=run,
)
