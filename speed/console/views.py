"""What the console's page shows, as values for JSON. Each view is made on a thread, and may wait for a node."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from speed import __version__
from speed.console.collector import GatewayFigures, History, Look, RootCollector, figures_of
from speed.core.access import granted
from speed.errors import SpeedError
from speed.fs.dead_letters import DeadLetters
from speed.fs.keyfile import load_key_file
from speed.observe import Finding
from speed.observe.backlogs import together
from speed.observe.figures import ServiceLoad
from speed.observe.root import examine
from speed.wire.identities import fingerprint_in

if TYPE_CHECKING:
    from speed import Node
    from speed.bridges.running import Bridging, HostedTopics
    from speed.wire.entry import Entry

MAX_SERVICES: Final = 500
"""Services of one node that are shown: who answers chooses how many there are."""
MAX_HEAT_ROWS: Final = 100
MAX_DEAD_LETTERS: Final = 50
MAX_ITEMS: Final = 5_000
MAX_TEXT_CHARS: Final = 4_000
"""Of one text of others, and things in one list: what is longer is cut."""
MAX_WHOLE: Final = (1 << 53) - 1
"""A browser has no larger whole number."""
DESCRIBE_SECONDS: Final = 3.0
EXAMINED_SECONDS: Final = 10.0
"""So long an examination of the root holds: it writes and reads files."""


class NotFoundError(Exception):
    """There is nothing of that name."""


@dataclass(frozen=True)
class ConsoleSources:
    """What speedd lets the console see."""

    node: Node
    """Who asks and calls: speedd's own."""
    key: str
    """The key file of the root."""
    journal: str | None = None
    """The directory of the journal."""
    hosting: HostedTopics | None = None
    """The durable topics."""
    bridging: Bridging | None = None
    troubles: Callable[[], list[Finding]] = field(default=list)
    """What speedd knows to be wrong with itself."""
    gateway: Callable[[], GatewayFigures | None] = lambda: None
    """What the gateway to clients says of itself."""


class Views:
    """Thread-safe."""

    def __init__(self, around: ConsoleSources, collector: RootCollector, history: History, *, actions: bool) -> None:
        self._around, self._collector, self._history = around, collector, history
        self._actions = actions
        self._examining = threading.Lock()
        self._examined: tuple[float, list[Finding]] = float("-inf"), []

    # --- overview ---

    def overview(self) -> dict[str, Any]:
        """What is wrong first, then each node with its figures of now."""
        look = self._collector.look
        by_node = _by_node(look.loads)
        rows = [self._node_row(entry, look, by_node.get(entry.name, [])) for entry in look.entries]
        return {
            "look": look.number,
            "at": look.at,
            "root": self._around.node.root,
            "speedd": self._around.node.name,
            "version": __version__,
            "actions": self._actions,
            "findings": [_finding(one) for one in look.findings],
            "nodes": rows,
            "flows": [one.described() for one in look.flows],
        }

    def _node_row(self, entry: Entry, look: Look, own: Sequence[ServiceLoad]) -> dict[str, Any]:
        answer = look.answers.get(entry.name)
        calls = sum(load.calls_per_second for load in own)
        errors = sum(load.calls_per_second * load.error_share for load in own)
        return {
            "name": entry.name,
            "group": _group(entry),
            "state": self._state(entry, look),
            "language": entry.language,
            "host": entry.host,
            "pid": entry.pid,
            "startedAt": entry.startup_timestamp / 1000,
            "fabrics": list(entry.fabrics),
            "callsPerSecond": calls,
            "errorShare": errors / calls if calls else 0.0,
            **{key: (answer or {}).get(key) for key in ("queuedRequests", "runningRequests", "workers")},
            "inLanes": together(rows.values()).described() if (rows := look.waiting.get(entry.name)) else None,
        }

    def _state(self, entry: Entry, look: Look) -> str:
        """``up``, ``silent`` (it does not answer), ``closed`` (it does not let speedd ask), ``self``, or its status."""
        if entry.name == self._around.node.name:
            return "self"
        if entry.name not in look.answers:
            return "closed" if entry.status == "online" else entry.status
        return "silent" if look.answers[entry.name] is None else "up"

    # --- one node ---

    def node(self, name: str) -> dict[str, Any]:
        """One node with its grants, figures, services and dead letters. Raises NotFoundError."""
        look = self._collector.look
        entry = next((one for one in look.entries if one.name == name), None)
        if entry is None:
            raise NotFoundError(f"there is no node {name!r}: it has ended, or never was")
        own = _by_node(look.loads).get(name, [])
        answer = look.answers.get(name)
        return {
            **self._node_row(entry, look, own),
            "generation": entry.generation,
            "version": entry.version,
            "allow": list(entry.allow),
            "deny": list(entry.deny),
            "identity": fingerprint_in(entry),
            "identities": list(entry.identities),
            "subscriptions": list(entry.subscriptions),
            "lastHeartbeatAt": entry.last_heartbeat / 1000,
            "leaseSeconds": entry.lease / 1000,
            "figures": figures_of(answer),
            "counters": figures_of((answer or {}).get("counters")),
            "refusedSenders": figures_of((answer or {}).get("refusedSenders")),
            "refusedBy": figures_of((answer or {}).get("refusedBy")),
            "services": [_service(load, answer) for load in own[:MAX_SERVICES]],
            "lanes": [{"sender": sender} | row.described() for sender, row in look.waiting.get(name, {}).items()],
            "deadLetters": list(self._dead_letters(name)),
        }

    def _dead_letters(self, name: str) -> Iterator[dict[str, Any]]:
        """Without their payloads."""
        letters = DeadLetters(self._around.node.root, name, load_key_file(self._around.key))
        for kept in letters.kept()[:MAX_DEAD_LETTERS]:
            row: dict[str, Any] = {"node": name, "number": kept.number, "state": kept.state, "bytes": kept.size}
            try:
                letter, pieces = letters.read(kept.number)
            except SpeedError as error:
                yield {**row, "damaged": str(error)}
                continue
            pieces.close()  # type: ignore[attr-defined]
            why = {"type": letter.type, "source": letter.source, "diedAt": letter.died_at_ms / 1000}
            yield {**row, **why, "error": f"{letter.error_code}: {letter.error_message}"}

    def description(self, name: str) -> dict[str, Any]:
        """What the services of a node take and give that speedd may call. Raises NotFoundError, SpeedError."""
        entry = next((one for one in self._collector.look.entries if one.name == name), None)
        if entry is None:
            raise NotFoundError(f"there is no node {name!r}")
        if not granted(entry, self._around.node.name):
            return {"node": name, "services": [], "closed": True}
        found = self._around.node.describe(name, timeout=DESCRIBE_SECONDS)
        shown = [{**one.travelling(), "signature": one.signature()} for one in found[:MAX_SERVICES]]
        return {"node": name, "services": shown, "closed": False}

    # --- services ---

    def services(self) -> dict[str, Any]:
        """What all services do now, and the heat map of the last hour."""
        look = self._collector.look
        starts, hour = self._history.hour(time.time(), MAX_HEAT_ROWS)
        heat = [
            {"node": node, "service": service, "p99": [point.p99 for point in points], "calls": _sum(points)}
            for (node, service), points in hour.items()
        ]
        rows = sorted(look.loads, key=lambda load: -load.calls_per_second)[:MAX_SERVICES]
        return {
            "look": look.number,
            "services": [_service(load, look.answers.get(load.node)) for load in rows],
            "minutes": starts,
            "heat": heat,
        }

    def history(self, node: str, service: str) -> dict[str, Any]:
        """The week of one service, by quarters of an hour, if it is kept."""
        points = self._history.week(node, service, time.time())
        return {"kept": self._history.keeps_week, "points": [point._asdict() for point in points]}

    # --- bridges, the gateway, and the root as a whole ---

    def bridges(self) -> dict[str, Any]:
        """Each bridge with its ends, counters and trouble; and what the gateway to clients does."""
        bridging, look = self._around.bridging, self._collector.look
        gateway = None
        if look.gateway is not None:
            counted, now = look.gateway
            gateway = {"counted": counted, "now": now, "perSecond": look.gateway_rates}
        return {"bridges": [] if bridging is None else bridging.rows(), "gateway": gateway}

    def doctor(self) -> dict[str, Any]:
        """What an examination of the root finds; one at a time, and it holds for some seconds."""
        with self._examining:
            at, found = self._examined
            if time.monotonic() - at > EXAMINED_SECONDS:
                found = examine(self._around.node.root, self._around.key)
                self._examined = time.monotonic(), found
        return {"findings": [_finding(one) for one in found]}


def _finding(one: Finding) -> dict[str, Any]:
    return {"check": one.check, "state": one.state, "found": one.found, "todo": one.todo}


def _group(entry: Entry) -> str:
    """Nodes that belong together: by their first fabric, else by the family of their names, as those of executors."""
    family, _, last = entry.name.rpartition(".")
    return next(iter(entry.fabrics), family if family and last else "")


def _by_node(found: Sequence[ServiceLoad]) -> dict[str, list[ServiceLoad]]:
    sorted_by_node: dict[str, list[ServiceLoad]] = {}
    for load in found:
        sorted_by_node.setdefault(load.node, []).append(load)
    return sorted_by_node


def _service(load: ServiceLoad, answer: Mapping[str, Any] | None) -> dict[str, Any]:
    """A service with what it did since the look before, and since its node started."""
    row = ((answer or {}).get("services") or {}).get(load.service, {})
    total = {name: row.get(key) for name, key in (("calls", "numRequests"), ("errors", "numErrors"))}
    return {**load.described(), "total": total, "lastError": str(row.get("lastError", ""))[:500]}


def _sum(points: Sequence[Any]) -> float:
    return float(sum(point.calls for point in points))


def shown(value: Any, depth: int = 12) -> Any:
    """``value`` as JSON has it: bytes are counted, numbers that JSON or a browser lacks are text, texts are bounded."""
    if isinstance(value, str):
        return value if len(value) <= MAX_TEXT_CHARS else f"{value[:MAX_TEXT_CHARS]}…"
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return value if abs(value) <= MAX_WHOLE else str(value)[:40]
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes>"
    if not depth:
        return "…"
    if isinstance(value, Mapping):
        return {str(key)[:MAX_TEXT_CHARS]: shown(one, depth - 1) for key, one in islice(value.items(), MAX_ITEMS)}
    if isinstance(value, Iterable):
        return [shown(one, depth - 1) for one in islice(value, MAX_ITEMS)]
    return str(value)[:MAX_TEXT_CHARS]
