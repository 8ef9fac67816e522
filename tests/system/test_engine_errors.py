"""Both engines say the same of the same trouble: the code and the text of each error, provoked on real nodes."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import speed
from speed import PublishOptions

Provoked = Callable[["Site"], object]


class Site:
    """A root in memory, and nodes of one engine in it."""

    def __init__(self, engine: str, place: Path) -> None:
        self.engine, self.place, self.root = engine, place, place / "root"
        speed.init_root(str(self.root))
        self._ending = contextlib.ExitStack()
        self.a, self.b = self.make("a", allow=["b"]), self.make("b")
        for service in (_add, _boom, _bad, _app):
            self.a.register(service.__name__[1:], service)
        self.a.register("closed", _boom, allow=[])

    def make(self, name: str, **options: Any) -> speed.Node:
        told = {"root": str(self.root), "key": str(self.root / "speed.key"), "engine": self.engine, **options}
        return self._ending.enter_context(speed.Node(name, **told))

    def lose(self) -> speed.Node:
        """The root goes under its nodes, all of it at once: they write on."""
        self.b.send("a", 1)
        os.rename(self.root, f"{self.root}.gone")
        shutil.rmtree(f"{self.root}.gone", ignore_errors=True)
        return self.b

    def file(self, text: str, mode: int = 0o600) -> str:
        path = self.place / "file"
        path.write_text(text)
        path.chmod(mode)
        return str(path)

    def close(self) -> None:
        with contextlib.suppress(speed.SpeedError):
            self._ending.close()


def _add(x: int, y: int = 1) -> int:
    return x + y


def _boom() -> None:
    raise ValueError("no such order")


def _bad() -> object:
    return object()


def _app() -> None:
    raise speed.ApplicationError("FULL", "it is full")


def _options(**named: Any) -> Provoked:
    return lambda site: site.b.send("a", 1, options=PublishOptions(**named))


def _node(name: str = "c", **options: Any) -> Provoked:
    return lambda site: site.make(name, **options)


def _starting(site: Site) -> object:
    site.make("c", allow=["b"], starting=True)
    return site.b.call("c", "x", timeout=0.1)


def _closed(site: Site) -> object:
    node = site.make("c", allow=["b"])
    node.close()
    return node.send("a", 1)


def _left(site: Site) -> object:
    site.make("c", allow=["b"]).close()
    return site.b.call("c", "x")


PROVOKED: dict[str, Provoked] = {
    "a name that is none": _node("no name"),
    "a name of the root's own": _node("speed.key"),
    "a name that is held": _node("a"),
    "a grant that is none": lambda site: site.a.allow("*"),
    "a denial that is none": lambda site: site.a.deny("x y"),
    "a lease that is too short": _node(lease_seconds=1, heartbeat_seconds=1),
    "no heartbeat": _node(heartbeat_seconds=0),
    "no workers": _node(workers=0),
    "a durability that is none": _node(durability="x"),
    "a disk in memory": _node(durability="disk"),
    "no key": lambda site: site.make("c", key=str(site.place / "none")),
    "a key that is none": lambda site: site.make("c", key=site.file("x")),
    "an open key": lambda site: site.make("c", key=site.file("x", 0o644)),
    "a root that is a file": lambda site: site.make("c", root=site.file("x")),
    "a call to nobody": lambda site: site.b.call("nobody", "x"),
    "a message to nobody": lambda site: site.b.send("nobody", 1),
    "a ping to nobody": lambda site: site.b.ping("nobody"),
    "a wait for nobody": lambda site: site.b.wait_for("nobody", timeout=0.1),
    "a call that is not granted": lambda site: site.a.call("b", "x"),
    "a message that is not granted": lambda site: site.a.send("b", 1),
    "a call to a node that starts": _starting,
    "a call to a node that left": _left,
    "a closed node": _closed,
    "a service that is not there": lambda site: site.b.call("a", "x"),
    "a service for nobody": lambda site: site.b.call("a", "closed"),
    "a service twice": lambda site: site.a.register("add", _add),
    "a service name that is none": lambda site: site.a.register("no name", _add),
    "a service to take back that is not there": lambda site: site.a.unregister("x"),
    "an argument of a wrong type": lambda site: site.b.call("a", "add", {"x": "t"}),
    "an argument that is missing": lambda site: site.b.call("a", "add", {}),
    "an argument that nobody knows": lambda site: site.b.call("a", "add", {"x": 1, "z": 1}),
    "arguments that are a list": lambda site: site.b.call("a", "add", [1]),  # type: ignore[arg-type]
    "an argument that cannot be sent": lambda site: site.b.call("a", "add", {"x": object()}),
    "a service that raises": lambda site: site.b.call("a", "boom"),
    "a result that cannot be sent": lambda site: site.b.call("a", "bad"),
    "a code of a service's own": lambda site: site.b.call("a", "app"),
    "a timeout that is text": lambda site: site.b.call("a", "add", {"x": 1}, timeout="x"),  # type: ignore[arg-type]
    "a timeout that is no number": lambda site: site.b.call("a", "add", {"x": 1}, timeout=float("nan")),
    "a payload that cannot be sent": lambda site: site.b.send("a", object()),
    "an integer beyond 64 bits": lambda site: site.b.send("a", 1 << 70),
    "text with a lone surrogate": lambda site: site.b.send("a", "\ud800"),
    "bytes that are no message": lambda site: site.b.forward("a", [b"junk"]),
    "a topic that is none": lambda site: site.b.publish("no topic", 1),
    "a pattern that is none": lambda site: site.b.subscribe("a.*.b", print),
    "a priority that is none": _options(priority=99),
    "a time to live that is none": _options(ttl_seconds=-1),
    "a label of a wrong type": _options(labels={"a": 1}),
    "a correlation id of a wrong type": _options(correlation_id=7),
    "a trace that is none": _options(traceparent="x"),
    "a message topic that is none": _options(topic="a b"),
    "a segment size of nothing": lambda site: site.b.segment("a", 0),
    "a segment size beyond an envelope": lambda site: site.b.segment("a", 1 << 30),
    "a segment size below the unit of parity": lambda site: site.b.segment("a", 63, parity_rate=0.5),
    "a parity rate that is none": lambda site: site.b.segment("a", 64, parity_rate=1.5),
    "nodes of a root that is gone": lambda site: site.lose().nodes(),
    "a message in a root that is gone": lambda site: site.lose().send("a", 1),
    "a call in a root that is gone": lambda site: site.lose().call("a", "add", {"x": 1}, timeout=1),
    "an event in a root that is gone": lambda site: site.lose().publish("t", 1),
    "a grant in a root that is gone": lambda site: site.lose().allow("z"),
    "a subscription in a root that is gone": lambda site: site.lose().subscribe("t", print),
    "a watch in a root that is gone": lambda site: site.lose().on_join(print),
    "a wait in a root that is gone": lambda site: site.lose().wait_for("nobody", timeout=0.1),
}


def provoked(engine: str, provoke: Provoked, place: Path) -> tuple[str, str]:
    """Kind and code, and the text without what differs by place."""
    site = Site(engine, place)
    try:
        provoke(site)
    except Exception as error:
        kind = f"{type(error).__name__} {getattr(error, 'code', '')}"
        return kind, str(error).replace(str(place), "PLACE")
    finally:
        site.close()
    return "nothing", ""


@pytest.fixture
def places() -> Iterator[dict[str, Path]]:
    made = {engine: Path(f"/dev/shm/speed-errors-{os.getpid()}-{engine}") for engine in ("python", "native")}
    for place in made.values():
        place.mkdir(mode=0o700)
    yield made
    for place in made.values():
        shutil.rmtree(place, ignore_errors=True)


@pytest.mark.parametrize("name", PROVOKED)
def test_both_engines_say_the_same_of(name: str, places: dict[str, Path]) -> None:
    told = {engine: provoked(engine, PROVOKED[name], place) for engine, place in places.items()}
    assert told["native"] == told["python"]
    assert told["python"][0] != "nothing"


@pytest.mark.parametrize("name", [name for name in PROVOKED if name.endswith("a root that is gone")])
def test_a_root_that_is_gone_is_named_whatever_is_asked_of_its_nodes(name: str, places: dict[str, Path]) -> None:
    """R-20."""
    for engine, place in places.items():
        kind, text = provoked(engine, PROVOKED[name], place)
        assert kind == "StorageError STORAGE"
        assert text.startswith("the registry of PLACE/root is gone: ")
