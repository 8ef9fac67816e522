"""The pictures of docs/howto/console.md: a root with traffic and some trouble, as a browser shows it.

``scripts/console-pictures --minutes 20`` makes them; so many minutes are on the heat map.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import speed
from speed.errors import SpeedError
from tests.console.consoles import ROOT, Served
from tests.system.browser import Browser

PICTURES = (
    ("console-overview", "overview", 1280, 900, "light"),
    ("console-services", "services", 1280, 620, "dark"),
    ("console-phone", "overview", 390, 844, "dark"),
    ("console-try", "try/rules/price", 390, 844, "light"),
)
"""Name, view, width, height and theme."""
CONFIG = """
[console]
port = 0
actions = true
[topics]
publish = ["shop"]
consume = ["shop", "speedd"]
manage = ["speedd"]
[[topic]]
name = "orders"
"""
TIMES = {"geo": ("locate", 0.0004), "rules": ("price", 0.006), "model": ("predict", 0.05)}
"""What each node offers, and about how long it takes, in seconds."""
MAX_BYTES = 150_000


def slow(pause: threading.Event, seconds: float, amount: float, country: str = "FI") -> float:
    """What an order costs, with its taxes."""
    pause.wait(random.expovariate(1 / seconds))
    return amount * 1.2


@contextmanager
def traffic(served: Served) -> Iterator[None]:
    """Calls to all services, and orders that nobody reads."""
    stop = threading.Event()
    for name, (service, seconds) in TIMES.items():
        node = served.node(name, allow=["shop", "etl.*", "speedd"])
        node.register(service, described(partial(slow, stop, seconds)))
    for number in range(1, 5):
        served.node(f"etl.{number}", allow=["speedd"], fabrics=["spark-nightly"])
    served.node("legacy")
    shop = served.node("shop", allow=["speedd"])
    shop.topic("orders").consumer("invoices", start="earliest").close()
    threads = [threading.Thread(target=call, args=(shop, name, stop), name=f"call-{name}") for name in TIMES]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def described(function: partial[float]) -> object:
    """As a function with a signature of its own."""

    def price(amount: float, country: str = "FI") -> float:
        """What an order costs, with its taxes."""
        return function(amount, country)

    return price


def call(shop: speed.Node, name: str, stop: threading.Event) -> None:
    while not stop.wait(0.05):
        try:
            shop.call(name, TIMES[name][0], {"amount": 10.0})
            if name == "model":
                shop.topic("orders").publish({"amount": 10.0})
        except SpeedError:
            return  # its node was closed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--into", type=Path, default=ROOT / "docs" / "pictures")
    chosen = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="shop-", dir="/dev/shm") as directory,
        closing(Served(Path(directory), CONFIG)) as served,
        traffic(served),
        closing(Browser(Path(directory) / "browser")) as browser,
    ):
        page = served.page(browser)
        threading.Event().wait(chosen.minutes * 60)
        for name, view, width, height, theme in PICTURES:
            page.look(width, height, theme)
            page.run(f"location.hash = '#/{view}'")
            threading.Event().wait(3)
            made = page.picture()
            assert len(made) <= MAX_BYTES, f"{name} has {len(made)} bytes"
            (chosen.into / f"{name}.png").write_bytes(made)
            print(f"{name}.png: {len(made)} bytes")


if __name__ == "__main__":
    main()
