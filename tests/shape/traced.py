"""The files of ``speed/`` in which something runs, for one verb after another: what a reader has to open to follow it.

usage: python -m tests.shape.traced        prints {"start": [files], "call": […], "send": […], "publish": […]} as JSON

The Python engine runs both nodes, in this process, and all of its threads are followed.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from time import sleep
from types import FrameType
from typing import Any

import speed
from speed.topics.catalogue import Catalogue
from speed.topics.host import Access, Grants, Host

PACKAGE = str(Path(speed.__file__).resolve().parent) + "/"
REST_SECONDS = 0.3
"""Before a verb, for what is still done of the one before."""
TIMES = 8
"""What is met each time belongs to the verb; what else a thread did meanwhile does not."""

_met: set[str] | None = None


def _note(frame: FrameType, event: str, _: Any) -> None:
    if _met is not None and event == "call":
        code = frame.f_code
        if code.co_name != "<module>" and code.co_filename.startswith(PACKAGE):
            _met.add(code.co_filename.removeprefix(PACKAGE))


def met(verb: Callable[[], object]) -> set[str]:
    """The files in which something is called while ``verb`` runs, on any thread."""
    global _met
    found: list[set[str]] = []
    for _ in range(TIMES):
        sleep(REST_SECONDS)
        _met = set()
        try:
            verb()
        finally:
            found.append(_met)
            _met = None
    return set.intersection(*found)


def of_nodes(root: str) -> Iterator[tuple[str, set[str]]]:
    """A start, a call, and a message that is acknowledged."""
    with ExitStack() as nodes:

        def node(name: str) -> speed.Node:
            return speed.Node(name, root=root, engine="python", heartbeat_seconds=20, lease_seconds=90)

        billing, analytics = nodes.enter_context(node("billing")), nodes.enter_context(node("analytics"))
        numbers = count()
        yield "start", met(lambda: nodes.enter_context(node(f"more-{next(numbers)}")))
        billing.allow("analytics")
        billing.register("tax", lambda amount: amount / 4)
        billing.on_message(lambda _: None)
        analytics.allow("billing")
        for _ in range(2):
            analytics.call("billing", "tax", {"amount": 8})
            analytics.send("billing", {"order": 1}, ack=True)
        yield "call", met(lambda: analytics.call("billing", "tax", {"amount": 8}))
        yield "send", met(lambda: analytics.send("billing", {"order": 2}, ack=True))


def of_topics(root: str, directory: str) -> Iterator[tuple[str, set[str]]]:
    """A message to a durable topic, with its host."""
    grants = Grants(("analytics",), ("analytics",), ("analytics",))
    node = speed.Node("speedd.topics", root=root, engine="python", allow=["analytics"])
    with node, speed.Node("analytics", root=root, engine="python", allow=["speedd.topics"]) as analytics:
        catalogue = Catalogue(directory, f"{root}/speed.key", node.name)
        host = Host(node, catalogue, Access(grants, {}))
        try:
            topic = analytics.topic("orders")
            topic.create()
            topic.publish({"order": 1})
            yield "publish", met(lambda: topic.publish({"order": 2}))
        finally:
            host.close()
            catalogue.close()


def main() -> None:
    threading.setprofile(_note)
    sys.setprofile(_note)
    with tempfile.TemporaryDirectory() as directory:
        root = speed.init_root(f"{directory}/root")
        found = {**dict(of_nodes(root)), **dict(of_topics(root, f"{directory}/topics"))}
    sys.setprofile(None)
    print(json.dumps({verb: sorted(files) for verb, files in found.items()}))


if __name__ == "__main__":
    main()
