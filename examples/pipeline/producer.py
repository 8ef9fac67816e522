"""The producer: replays the flights as events.

    python -m examples.pipeline.producer --root … --key … --rate 2000 --sample 20000

Exit status: 0 all were published, 1 the journal was not there.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from itertools import chain
from typing import Any

import speed
from examples.flights.data import package_folder
from examples.pipeline import events

NAME = "producer"
JOURNAL = "speedd.journal"
"""The node that records for the daemon of speedd.toml."""
STEPS_A_SECOND = 20
WAIT_SECONDS = 30.0
TELL_SECONDS = 5.0


def replay(node: speed.Node, rows: Iterator[dict[str, Any]], rate: float, total: int) -> int:
    """Publish ``rows`` at ``rate`` a second (0: as fast as they go); returns their number."""
    began = told = time.monotonic()
    number = 0
    for number, row in enumerate(rows, 1):
        publish(node, row)
        now = time.monotonic()
        if now - told >= TELL_SECONDS or number == total:
            told = now
            print(f"producer  | {number:,} of {total:,} events; it is {row['event_time']:%d %B %Y %H:%M}", flush=True)
        ahead = number / rate - (now - began) if rate else 0.0
        if ahead >= 1 / STEPS_A_SECOND:
            time.sleep(ahead)
    return number


def publish(node: speed.Node, row: dict[str, Any]) -> None:
    """One event; it waits for a journal that is away: an event that nobody got is published again."""
    end = time.monotonic() + WAIT_SECONDS
    while not node.publish(events.TOPIC, row, timeout=WAIT_SECONDS):
        node.wait_for(JOURNAL, timeout=max(0.1, end - time.monotonic()))


def main() -> int:
    """Wait for the journal, publish all."""
    parser = argparse.ArgumentParser(description="Replays the flights as events.")
    parser.add_argument("--root")
    parser.add_argument("--key")
    parser.add_argument("--rate", type=float, default=2000, help="events a second; 0: as fast as they go")
    parser.add_argument("--sample", type=int, help="only the first so many flights")
    chosen = parser.parse_args()
    table = events.table(package_folder(), chosen.sample)
    flights = (row for batch in table.to_batches(max_chunksize=1000) for row in batch.to_pylist())
    try:
        with speed.Node(NAME, root=chosen.root, key=chosen.key) as node:
            node.wait_for(JOURNAL, timeout=WAIT_SECONDS)
            replay(node, chain(flights, [events.closing(table)]), chosen.rate, table.num_rows + 1)
    except speed.SpeedError as error:
        print(f"producer: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
