"""Bridges of a speedd to a real backend and back, while daemon, backend and network are killed (B-11 to B-18).

A round is one kill: of speedd, of the backend's process, or of the network between, a relay that is cut, perhaps after
it went dumb. Numbers are published meanwhile under their sequences. All of them come back, in the order of their key,
and once where the contract says so. Mutated, each round breaks another promise.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import asyncpg

import speed
from scripts.servers import FlushingRedis, Kafka, Nats, Postgres, Server
from tests.bridges.bridged import BACK, OUT, BridgedSite, disordered, twice
from tests.system.topics import until
from tests.torture.relay import Relay
from tests.torture.scenario import Report, Scenario

EACH = 200
"""Messages of a round."""
PLACE = "torture.orders"
"""What the topic is called in the backend."""
MAX_PAUSE_SECONDS = 0.5
"""How long what was published may have been on its way when somebody is killed."""
BREAKS = {
    "lost": ("network", "is lost"),
    "twice": ("speedd", "came twice"),
    "order": ("backend", "another order"),
}
"""What can be broken on purpose, whose kill it belongs to, and what must be said of it."""
NAMES = ("redis", "nats", "postgres", "kafka")
"""S3 is not among them: moto forgets all when it is killed."""


class RelayedKafka(Kafka):
    """It tells its clients to come through the relay."""

    relay_port = 0

    def prepare(self) -> None:
        super().prepare()
        file = self.directory / "server.properties"
        own = f"advertised.listeners=PLAINTEXT://127.0.0.1:{self.port}"
        file.write_text(file.read_text().replace(own, f"advertised.listeners=PLAINTEXT://127.0.0.1:{self.relay_port}"))


KINDS: dict[str, type[Server]] = {"redis": FlushingRedis, "nats": Nats, "postgres": Postgres, "kafka": RelayedKafka}


class World:
    """A backend behind a relay and a speedd with two bridges to it, that rounds share."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.path = Path(tempfile.mkdtemp(prefix=f"bridges-{name}."))
        self.path.chmod(0o755)  # PostgreSQL's user goes through it
        self.server = KINDS[name](self.path / "server")
        self.server.directory.chmod(0o755)
        self.relay = Relay(self.server.port)
        if isinstance(self.server, RelayedKafka):
            self.server.relay_port = self.relay.port
        self.server.start()
        address = self.server.address.replace(f":{self.server.port}", f":{self.relay.port}")
        more = "?transactional_id=torture" if name == "kafka" else ""
        (self.path / "site").mkdir()
        self.site = BridgedSite(self.path / "site", address + more, PLACE, back=address)
        self.site.start()
        self.next = 1
        """The number that comes next."""

    @property
    def node(self) -> speed.Node:
        return self.site.node

    def rows_there(self) -> int | None:
        """How many messages lie in a backend whose way back may repeat them; None where it does not."""
        return asyncio.run(self._rows()) if self.name == "postgres" else None

    async def _rows(self) -> int:
        connection = await asyncpg.connect(self.server.address, timeout=10, ssl=False)
        try:
            return int(await connection.fetchval("SELECT count(*) FROM prism_events WHERE topic = $1", PLACE))
        finally:
            await connection.close()

    def close(self) -> None:
        self.site.close()
        self.relay.close()
        self.server.kill()
        shutil.rmtree(self.path, ignore_errors=True)


class Round:
    """One kill."""

    def __init__(self, world: World, seed: int, report: Report) -> None:
        self.world, self.report, self.random = world, report, Random(seed)
        self.broken = report.broken(BREAKS)
        self.numbers = range(world.next, world.next + EACH)
        world.next += EACH
        self.start = world.site.end()

    def run(self) -> None:
        victims: dict[str, Callable[[], None]] = {
            "speedd": self.speedd,
            "backend": self.backend,
            "network": self.network,
        }
        victim = BREAKS[self.broken][0] if self.broken else self.random.choice(list(victims))
        moment = self.random.randrange(1, EACH)
        self.world.site.publish(self.numbers[:moment])
        self.pause()
        victims[victim]()
        self.world.site.publish(self.numbers[moment:])
        self.report.add(f"kills of {victim}")
        self.report.add(f"by {self.world.name}")
        self.judge(f"{self.world.name}, {victim} killed:")

    def pause(self) -> None:
        """Until a moment that the seed chose."""
        threading.Event().wait(self.random.random() * MAX_PAUSE_SECONDS)

    # --- the victims ---

    def speedd(self) -> None:
        if self.broken == "twice":
            until(lambda: self.world.site.end() > self.start)  # something that can come again
            config = self.world.site.site.config
            config.write_text(config.read_text().replace('name = "b-in"', 'name = "another-in"'))
        self.world.site.restart()

    def backend(self) -> None:
        self.world.server.kill()
        self.pause()
        self.world.server.start()

    def network(self) -> None:
        if self.random.random() < 0.5:
            self.world.relay.stall()
            self.pause()
        self.world.relay.cut()
        if self.broken == "lost":
            self.world.site.restart()  # it cannot ask the backend, and so takes nothing
            self.world.node.topic(OUT).publish(self.strange)
            self.world.node.topic(OUT).seek("bridge.b-out", "latest")
        self.pause()
        self.world.relay.mend()

    # --- judging ---

    def judge(self, who: str) -> None:
        wanted = [*self.numbers, self.strange] if self.broken == "lost" else list(self.numbers)
        came = self.came()
        missing = sorted(set(wanted) - {one.payload for one in came})
        self.report.check(not missing, f"{who} {len(missing)} published, and is lost: {missing[:9]}; {self.state()}")
        older = [one.payload for one in came if 0 < one.payload < self.numbers[0]]
        again = [*older, *twice(came)]
        self.report.check(not again or self.may_repeat, f"{who} came twice: {again[:9]} of {len(again)}")
        wrong = disordered(came[::-1] if self.broken == "order" else came)
        self.report.check(not wrong, f"{who} another order than that of publishing: {wrong}")
        rows = self.world.rows_there()
        self.report.check(rows in (None, self.numbers[-1]), f"{who} {rows} rows of {self.numbers[-1]} messages")
        lost = [row[what] for row in self.world.site.rows().values() for what in ("dead", "dropped")]
        self.report.check(not any(lost), f"{who} dead letters: {lost}")
        self.report.add("carried", len(self.numbers))
        self.report.add("repeated", len(again))

    @property
    def may_repeat(self) -> bool:
        """Where the contract says "at least once"."""
        return self.world.name == "postgres"

    def came(self) -> list[speed.TopicMessage]:
        """What came back, as soon as that is all of this round."""
        if self.broken == "twice":
            until(lambda: self.world.site.end() > self.start + EACH)
        try:
            return self.world.site.came(self.numbers, self.start)
        except AssertionError:
            return self.world.site.kept(BACK, self.start)

    @property
    def strange(self) -> int:
        """A number of no round."""
        return -self.numbers[0]

    def state(self) -> Any:
        return {way: (row["state"], row["trouble"], row["lag"]) for way, row in self.world.site.rows().items()}


def run(seed: int, count: int, report: Report) -> None:
    worlds: dict[str, World] = {}
    try:
        for attempt in report.attempts(seed, count, BREAKS):
            name = "redis" if report.mutated else NAMES[attempt.round_seed % len(NAMES)]
            if name not in worlds:
                worlds[name] = World(name)
            Round(worlds[name], attempt.round_seed, attempt).run()
    finally:
        for world in worlds.values():
            world.close()


SCENARIO = Scenario(
    name="bridges",
    promise="a bridge loses nothing and keeps keys in order, whoever is killed; it repeats only where that is said",
    unit="kills",
    tiny=len(BREAKS),
    quick=len(NAMES),
    full=2000,
    mutation="a cursor is moved over what was not carried, speedd's heir has another bridge, what came is turned round",
    run=run,
)
