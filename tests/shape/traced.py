"""The files of ``speed/`` in which something runs, for one verb after another: what a reader has to open to follow it.

usage: python -m tests.shape.traced        prints {"start": [files], "call": […], "send": […], "publish": […]} as JSON

The Python engine runs both nodes, in this process, and all of its threads are followed.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
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

_met: set[str] | None = None


def _note(frame: FrameType, event: str, _: Any) -> None:
    if _met is not None and event == "call":
        code = frame.f_code
        if code.co_name != "<module>" and code.co_filename.startswith(PACKAGE):
            _met.add(code.co_filename.removeprefix(PACKAGE))


@contextmanager
def met() -> Iterator[set[str]]:
    """The files in which something is called meanwhile, on any thread."""
    global _met
    found: set[str] = set()
    sleep(REST_SECONDS)
    _met = found
    try:
        yield found
    finally:
        _met = None


def of_nodes(root: str) -> Iterator[tuple[str, set[str]]]:
    """A start, a call, and a message that is acknowledged."""
    with speed.Node("billing", root=root, engine="python", heartbeat_seconds=20, lease_seconds=90) as billing:
        billing.allow("analytics")
        billing.register("tax", lambda amount: amount / 4)
        billing.on_message(lambda _: None)
        with met() as start:
            analytics = speed.Node("analytics", root=root, engine="python", heartbeat_seconds=20, lease_seconds=90)
        yield "start", start
        with analytics:
            analytics.allow("billing")
            for _ in range(2):
                analytics.call("billing", "tax", {"amount": 8})
                analytics.send("billing", {"order": 1}, ack=True)
            with met() as call:
                analytics.call("billing", "tax", {"amount": 8})
            yield "call", call
            with met() as send:
                analytics.send("billing", {"order": 2}, ack=True)
            yield "send", send


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
            with met() as publish:
                topic.publish({"order": 2})
            yield "publish", publish
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
