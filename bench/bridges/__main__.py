"""Bridges beside bare clients: ``python -m bench.bridges [--json] [--messages N] [--rate N] [backend …]``.

Each backend is started, measured and removed in turn: what its own client publishes a second, what a bridge carries out
of a topic, and what one carries into a topic. With Kafka also how long a message is on its way, at one rate.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import speed
from bench.bridges.bare import AT_ONCE, BARE
from bench.bridges.delay import PAYLOAD_BYTES, delays, share
from scripts.servers import KINDS, Server
from tests.bridges.bridged import BACK, OUT, BridgedSite

LARGE_BYTES = 65_536
"""Of the messages for S3."""
LOOK_SECONDS = 0.02
DELAY_SECONDS = 8.0
PATIENCE_SECONDS = 300.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--messages", type=int, default=100_000, help="of each rate; a hundredth of them for S3")
    parser.add_argument("--rate", type=int, default=2_000, help="messages a second while delays are measured")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(KINDS)}")
    asked = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    for name in asked.names or KINDS:
        found[name] = measured(name, asked.messages, asked.rate)
        if not asked.json:
            for what, figure in found[name].items():
                print(f"{name:>10}  {what:<52}{figure:>12,}", flush=True)
    if asked.json:
        print(json.dumps(found))


def measured(name: str, count: int, rate: int) -> dict[str, float]:
    """All figures of one backend."""
    path = Path(tempfile.mkdtemp(prefix=f"bench-{name}-"))
    path.chmod(0o755)
    server = KINDS[name](path / "server")  # PostgreSQL's user gets that
    server.directory.chmod(0o755)
    server.start()
    try:
        size, count = (LARGE_BYTES, count // 100) if name == "s3" else (PAYLOAD_BYTES, count)
        found = {
            f"bare client, {size} bytes, /s": _rate(count, lambda: BARE[name](server, "bare", [bytes(size)] * count))
        }
        found |= _bridged(server, path, size, count)
        if name == "s3":
            found |= _bridged(server, path, size, count, "manifests=true")
        if name == "kafka":
            found |= _delays(server, path, rate)
        return found
    finally:
        server.kill()
        shutil.rmtree(path, ignore_errors=True)


def _rate(count: int, work: Callable[[], Any]) -> int:
    began = time.perf_counter()
    work()
    return round(count / (time.perf_counter() - began))


def _site(path: Path, address: str, place: str) -> BridgedSite:
    directory = Path(tempfile.mkdtemp(dir=path))
    return BridgedSite(directory, address, place)


def _bridged(server: Server, path: Path, size: int, count: int, how: str = "") -> dict[str, float]:
    """What waits in a topic is carried out, and then back. Each way is alone while it is measured."""
    site = _site(path, f"{server.address}&{how}" if how else server.address, f"bench.orders{len(how)}")
    config = site.site.config
    general, out, back = config.read_text().split("[[bridge]]")
    config.write_text(general)
    site.start()
    for first in range(0, count, 10 * AT_ONCE):
        site.node.topic(OUT).publish_batch(bytes(size) for _ in range(min(10 * AT_ONCE, count - first)))
    found = {}
    for way, table in (("out of a topic", out), ("into a topic", back)):
        config.write_text(f"{general}[[bridge]]{table}")
        site.restart()
        found[f"bridge {way}, {size} bytes{', ' + how if how else ''}, /s"] = _carried(site, count)
    assert site.node.topic(BACK).describe()["end"] == count
    site.close()
    return found


def _carried(site: BridgedSite, count: int) -> int:
    """Messages a second, from the first that is seen to be carried to the last."""
    began, first, ends = 0.0, 0, time.monotonic() + PATIENCE_SECONDS
    while True:
        (row,) = site.node.call("speedd", "bridges.list")
        now, carried = time.perf_counter(), row["carried"]
        if not first and carried:
            began, first = now, carried
        if carried >= count:
            return round((carried - first) / (now - began)) if carried > first else 0
        assert time.monotonic() < ends, row
        time.sleep(LOOK_SECONDS)


def _delays(server: Server, path: Path, rate: int) -> dict[str, float]:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": f"127.0.0.1:{server.port}", "enable.idempotence": True, "linger.ms": 1})

    def bare(payloads: list[bytes]) -> None:
        for one in payloads:
            producer.produce("bare-delay", one)
        producer.poll(0)

    found = {"bare client": delays(server, "bare-delay", rate, DELAY_SECONDS, bare)}
    site = _site(path, server.address, "bench.delay")
    config = site.site.config
    config.write_text("[[bridge]]".join(config.read_text().split("[[bridge]]")[:2]))
    site.start()
    topic: speed.Topic = site.node.topic(OUT)
    found["through a topic and a bridge"] = delays(server, "bench.delay", rate, DELAY_SECONDS, topic.publish_batch)
    site.close()
    return {
        f"{what}, {rate:,}/s, {part} of delays within, ms": share(ordered, at)
        for what, ordered in found.items()
        for part, at in (("half", 0.5), ("99 %", 0.99))
    }


if __name__ == "__main__":
    main()
