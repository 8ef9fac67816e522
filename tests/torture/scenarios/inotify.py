"""inotify instances run out (R-16): all nodes run, those without one poll the registry, and say so.

A round: nodes of all languages in a user namespace that has instances for half of them. One more comes and leaves in
order: each sees both, and all talk to each other.
"""

from __future__ import annotations

import subprocess

from tests.interop.harness import Agent, until
from tests.torture.fleet import Fleet
from tests.torture.scenario import Report, Scenario

FEW, MANY = 6, 200
MANY_FROM = 10
LIMIT = "/proc/sys/user/max_inotify_instances"


class Namespace:
    """A user namespace with its own limit; ``under`` starts a process in it."""

    def __init__(self, limit: int) -> None:
        script = f"echo {limit} > {LIMIT} && echo set && exec sleep infinity"
        self.process = subprocess.Popen(
            ["unshare", "--user", "--map-root-user", "sh", "-c", script], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "set\n", "a user namespace with a limit of its own cannot be had here"
        self.under = ["nsenter", "--preserve-credentials", "--user", f"--target={self.process.pid}"]

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


def round_of(size: int, report: Report) -> None:
    namespace = Namespace(size * 4 if report.mutated else size // 2)
    try:
        with Fleet(size, report, namespace.under) as fleet:
            fleet.exchange(1)
            (newcomer,) = fleet.grow(1)
            older = fleet.members[:-1]
            for agent in older:
                report.check(until(lambda agent=agent: newcomer.name in agent.ask("joins")), f"{agent!r} sees no join")
            fleet.exchange(2)
            fleet.members.pop().close()
            for agent in older:
                report.check(
                    until(lambda agent=agent: newcomer.name in agent.ask("leaves")), f"{agent!r} sees no leave"
                )
            tell(older, report)
    finally:
        namespace.end()


def tell(agents: list[Agent], report: Report) -> None:
    """Who watches, who polls, and who said so."""
    polling = [agent for agent in agents if not any("inotify" in path for path in agent.descriptors())]
    report.add("watch", len(agents) - len(polling))
    report.add("poll", len(polling))
    report.check(len(polling) >= len(agents) // 3, f"only {len(polling)} of {len(agents)} nodes lack an instance")
    for agent in polling:
        said = "polled" in agent.stderr() or agent.ask("stats")["counters"].get("registry_polled") == 1
        report.check(said, f"{agent!r} polls the registry and does not say so")


def run(seed: int, count: int, report: Report) -> None:
    for _ in report.rounds(seed, count):
        round_of(MANY if count >= MANY_FROM else FEW, report)


SCENARIO = Scenario(
    name="inotify",
    promise="where inotify instances run out, all nodes run; those without one poll the registry and say so",
    unit="times many nodes in half as many instances",
    tiny=1,
    quick=1,
    full=10,
    mutation="there are instances for all",
    run=run,
)
