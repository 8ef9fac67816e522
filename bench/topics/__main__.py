"""Durable topics beside a real Pulsar: ``python -m bench.topics [--json] [--pulsar] [--messages N] …``.

Both are measured in one run, one after the other, by the same programs.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path

from bench.topics import backlog, crowd, rates, websocket
from bench.topics.pulsar import PulsarTopic
from bench.topics.rates import Contender
from bench.topics.speedd import SpeedTopic

WEBSOCKET_WAITING = 1_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--pulsar", action="store_true", help="beside a real Pulsar (needs pulsar-client)")
    parser.add_argument("--messages", type=int, default=100_000, help="of each rate")
    parser.add_argument("--consumers", type=int, default=0, help="WebSocket consumers, of 100 topics")
    parser.add_argument("--backlog", type=int, default=0, help="messages that nobody consumed")
    asked = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    for kind in (SpeedTopic, PulsarTopic) if asked.pulsar else (SpeedTopic,):
        with _directory() as directory:
            found[kind.name] = _measured(kind(Path(directory)), asked.messages)
    if asked.consumers:
        with _directory() as directory:
            found[SpeedTopic.name] |= crowd.measure(Path(directory), asked.consumers)
    if asked.backlog:
        with _directory() as directory:
            found[SpeedTopic.name] |= backlog.measure(Path(directory), asked.backlog)
    print(json.dumps(found) if asked.json else text(found))


def _directory() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)


def _measured(contender: Contender, count: int) -> dict[str, float]:
    try:
        found = websocket.measure(contender.websocket, WEBSOCKET_WAITING, count)
        return found | rates.measure(contender, count)
    finally:
        contender.close()


def text(found: dict[str, dict[str, float]]) -> str:
    """A row for each figure, a column for each contender."""
    names = list(dict.fromkeys(name for figures in found.values() for name in figures))
    lines = [" " * 60 + "".join(f"{contender:>16}" for contender in found)]
    for name in names:
        cells = (f"{figures[name]:,}" if name in figures else "" for figures in found.values())
        lines.append(f"{name:>60}" + "".join(f"{cell:>16}" for cell in cells))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
