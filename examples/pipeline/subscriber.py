"""The subscriber: prints each alert once, and tells at its end how many there were.

    python -m examples.pipeline.subscriber --root … --key … --write alerts.json

Alerts come at least once: one that a restarted query sends again carries the same message id, and is left out here.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from typing import Any

import speed
from examples.pipeline.windows import ALERT_TOPIC

NAME = "alerts"


class Alerts:
    """What was told so far, by message id. The node calls it on its workers."""

    def __init__(self) -> None:
        self.repeated = 0
        self._told: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()

    def take(self, message: speed.Message) -> None:
        """Print one alert, unless it was printed before."""
        alert = message.payload
        with self._lock:
            if message.message_id in self._told:
                self.repeated += 1
                return
            self._told[message.message_id] = alert
        print(f"ALERT     | {alert['hour']} {alert['carrier']}: {alert['late']} of {alert['flights']} flights late, "
              f"{alert['cancelled']} cancelled, {alert['euros']:,} euros owed", flush=True)  # fmt: skip

    def all(self) -> list[dict[str, Any]]:
        """Every alert, in the order of hours and carriers."""
        with self._lock:
            return sorted(self._told.values(), key=lambda alert: (alert["hour"], alert["carrier"]))


def main() -> int:
    """Until it is told to stop."""
    parser = argparse.ArgumentParser(description="Prints the alerts.")
    parser.add_argument("--root")
    parser.add_argument("--key")
    parser.add_argument("--write", metavar="FILE", help="write all alerts at the end, as JSON")
    chosen = parser.parse_args()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    alerts = Alerts()
    with speed.Node(NAME, root=chosen.root, key=chosen.key, allow=["etl.*"], workers=1) as node:
        node.subscribe(ALERT_TOPIC, alerts.take)
        stop.wait()
    found = alerts.all()
    if chosen.write:
        with open(chosen.write, "w", encoding="utf-8") as file:
            json.dump(found, file)
    print(f"alerts    | {len(found)} alerts, {alerts.repeated} of them sent again and not printed again", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
