"""Senders, receivers, callers and servers are killed; nobody loses what was acknowledged (L-5, L-12, L-15, L-17, S-7).

A round is one kill: at a random moment, or as the victim enters one of the system calls of its paths. Its name then
lives on in the next language. Victims and peers change their language, so that all nine pairs come up in all roles.
Some messages travel in segments, some in slots, and some calls are withdrawn. Mutated, each round breaks another
promise.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from random import Random
from typing import Any

from tests.interop.harness import Agent
from tests.torture.duel import VICTIM, Duel, Outcome, aim, language_of, tell_all
from tests.torture.scenario import Report, Scenario
from tests.torture.withdrawals import SEGMENT_BYTES, Noted, Withdrawals

COMMANDS = LAST = 20
TIMEOUT = 20.0
LARGE_BYTES, LARGE_SEGMENT_BYTES = 1_500_000, 262_144
"""A payload that a worker puts together, in its turn: the thread that reads does so with smaller ones."""
SLOTTED_BYTES, SHARE_SLOTTED = range(131_072, 2_000_000), 0.05
"""Payloads that lie in slots, and how many of those that are not cut."""
BREAKS = {
    "acknowledged": ("sender", "something acknowledged is lost"),
    "segments": ("receiver", "something acknowledged in segments is lost"),
    "never": ("server", "its caller was told that it was not begun"),
    "twice": ("server", "ran twice"),
    "again": ("server", "what had run ran again"),
    "later": ("server", "ran in a later life"),
}
"""What can be broken on purpose, in which role, and what must be said of it."""
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
        self.broken = report.broken(BREAKS)
        self.share_cut = 0.4 if report.mutated else self.random.choice((0.0, 0.2, 0.6))
        self.heirs_workers = self.random.choice((1, 4))
        self.withdrawals = Withdrawals(Noted(Path(duel.root) / f"ran.{seed}", self.random), self.random, report)

    def run(self) -> None:
        roles = {"sender": self.sender, "receiver": self.receiver, "caller": self.caller, "server": self.server}
        roles[BREAKS[self.broken][0] if self.broken else list(roles)[self.seed // 3 % 4]]()
        self.report.add("kills")

    # --- the victim ---

    def kill(self, watched: Agent, numbers: list[int]) -> Outcome:
        """Once ``watched``, who may be the victim, gave some answers. What it answered in all."""
        outcome = Outcome()
        last = self.random.randrange(COMMANDS // 2 if self.broken else COMMANDS)  # early: much is under way
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
        return self.duel.live(language_of(self.seed + 1), self.heirs_workers)

    def payload(self, number: int) -> dict[str, Any]:
        """Of any size, and known from its number: a torn one would not be equal."""
        return {"life": self.seed, "n": number, "filler": chr(97 + number) * self.shape(number)[1]}

    def shape(self, number: int) -> tuple[int | None, int]:
        """The size of the segments in which this message travels, if it does, and that of its filler."""
        random = Random(self.seed * 1000 + number)
        if self.share_cut and number == self.seed % (3 * COMMANDS):
            return LARGE_SEGMENT_BYTES, LARGE_BYTES
        if random.random() < self.share_cut:
            return SEGMENT_BYTES, random.randrange(SEGMENT_BYTES, 10 * SEGMENT_BYTES)
        if random.random() < SHARE_SLOTTED:
            return None, random.choice(SLOTTED_BYTES)
        return None, random.randrange(1500)

    def is_cut(self, number: int) -> bool:
        return self.shape(number)[0] is not None

    def tell_sends(self, agent: Agent, target: str, *, acks: bool) -> list[int]:
        """Have it send all messages, each in its shape; their numbers, as far as it could be told."""
        numbers: list[int] = []
        with contextlib.suppress(BrokenPipeError):
            for number in range(COMMANDS):
                fields = {"payload": self.payload(number), "ack": acks and self.random.random() < 0.5}
                agent.mention("segment", target=target, size=self.shape(number)[0], parity=0)
                numbers.append(agent.tell("send", target=target, **fields, timeout=TIMEOUT))
            agent.mention("segment", target=target, size=None, parity=0)
        return numbers

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
        numbers = self.tell_sends(self.victim, self.peer.name, acks=True)
        asked = tell_all(self.peer, "receive", [{"timeout": TIMEOUT}] * COMMANDS)
        outcome = self.kill(self.victim, numbers)
        acknowledged = set(range(len(numbers))) if self.broken == "acknowledged" else set(outcome.results)
        self.mark(self.heir(), self.peer, first=0)  # enough for all whom the peer still waits for
        taken = Outcome()
        taken.take(self.peer, asked)
        payloads = [message for message in taken.results.values() if message and "mark" not in message["payload"]]
        came = [(self.sound(message), message["redelivered"]) for message in payloads]
        came += self.received(self.peer)
        numbers_came = [number for number, _ in came]
        self.check_handled("sender", acknowledged, set(numbers_came))
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
        told = self.tell_sends(self.peer, VICTIM, acks=False)
        outcome = self.kill(self.victim, asked)
        sent = Outcome()
        sent.take(self.peer, told)
        accepted = set(sent.results)
        heir = self.heir()
        self.mark(self.peer, heir)
        before = [self.sound(message) for message in outcome.results.values() if message]
        after = self.received(heir)
        if self.broken == "segments":
            before, after = [n for n in before if not self.is_cut(n)], [one for one in after if not self.is_cut(one[0])]
        repeated = [(number, flag) for number, flag in after if number in before]
        self.report.add("redelivered", len(repeated))
        firsts = [*before, *(number for number, _ in after if number not in before)]
        self.check_handled("receiver", accepted, set(firsts))
        self.report.check(firsts == sorted(set(firsts)), f"receiver {self.what} something came twice or late")
        self.report.check(len(repeated) <= 1, f"receiver {self.what} {len(repeated)} came again")
        self.report.check(all(flag for _, flag in repeated), f"receiver {self.what} came again without its flag")
        # L-15: whatever is cut may have the flag; so may what lies before it, unfinished while its segments are taken.
        last_cut = max((number for number in range(COMMANDS) if self.is_cut(number)), default=-1)
        flagged = [number for number, flag in after if flag and number > last_cut]
        self.report.check(len(flagged) <= 1, f"receiver {self.what} more than one has the flag: {flagged}")

    def check_handled(self, role: str, acknowledged: set[int], came: set[int]) -> None:
        """What was acknowledged came."""
        cut = {number for number in acknowledged if self.is_cut(number)}
        self.report.add("acknowledged", len(acknowledged))
        self.report.add("of these in segments", len(cut))
        lost = acknowledged - cut - came
        self.report.check(not lost, f"{role} {self.what} something acknowledged is lost: {sorted(lost)}")
        lost = cut - came
        self.report.check(not lost, f"{role} {self.what} something acknowledged in segments is lost: {sorted(lost)}")

    def tell_calls(self, agent: Agent, target: str) -> list[int]:
        """Have it call ``sequence``, and beside that begin and withdraw calls of ``note``; the numbers of the first."""
        numbers: list[int] = []
        with contextlib.suppress(BrokenPipeError):
            for number in range(COMMANDS):
                begun = self.withdrawals.begin(agent, target) if self.random.random() < 0.5 else []
                fields = {"service": "sequence", "arguments": {"n": number}, "timeout": TIMEOUT}
                numbers.append(agent.tell("call", target=target, **fields))
                self.withdrawals.end(agent, begun)
        return numbers

    def caller(self) -> None:
        self.aim()
        outcome = self.kill(self.victim, self.tell_calls(self.victim, self.peer.name))
        answered = set(outcome.results.values())
        self.withdrawals.hear(self.victim)
        ran = self.heir().call(self.peer, "sequence_seen", {}, timeout=TIMEOUT)
        self.report.add("answered", len(answered))
        self.report.check(ran == sorted(set(ran)), f"caller {self.what} a call ran twice or late: {ran}")
        self.report.check(answered <= set(ran), f"caller {self.what} an answer to a call that never ran")
        self.report.check(len(set(ran) - answered) <= 1, f"caller {self.what} more ran than was in hand")
        self.withdrawals.judge(f"caller {self.what}")

    def server(self) -> None:
        self.aim()
        outcome = self.kill(self.peer, self.tell_calls(self.peer, VICTIM))
        self.withdrawals.server_died()
        answered = list(outcome.results.values())
        heir = self.heir()
        ran = self.peer.call(heir, "sequence_seen", {}, timeout=TIMEOUT)
        if self.broken == "again":
            ran = answered + ran
        again = set(ran) & set(answered)
        self.report.add("answered", len(answered))
        self.report.check(outcome.codes <= GONE, f"server {self.what} its caller hears {sorted(outcome.codes)}")
        self.report.check(answered == sorted(set(answered)), f"server {self.what} answers are mixed up")
        # Requests begin in order; those that the heir found may run side by side, and then are noted in any order.
        in_order = ran if self.heirs_workers == 1 else sorted(ran)
        late = in_order != sorted(set(ran))
        self.report.check(not late, f"server {self.what} a request ran twice or late in one life: {ran}")
        self.report.check(not again, f"server {self.what} what had run ran again: {sorted(again)} of {answered}")
        self.withdrawals.hear(self.peer)
        self.withdrawals.judge(f"server {self.what}", broken=self.broken)


def run(seed: int, count: int, report: Report) -> None:
    with Duel() as duel:
        for attempt in report.attempts(seed, count, BREAKS):
            Round(duel, attempt.round_seed, attempt).run()


SCENARIO = Scenario(
    name="kills",
    promise="who is killed loses nothing acknowledged, in segments or not; one message a kill is repeated at most, "
    "and no call; none runs later of which its caller was told that it failed",
    unit="kills",
    tiny=2 * len(BREAKS),
    quick=36,
    full=10_000,
    mutation="what was not acknowledged counts, what came in segments does not, a withdrawn call ran, calls run twice",
    run=run,
)
