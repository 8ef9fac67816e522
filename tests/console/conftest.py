"""One speedd and one browser for all tests of the console."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import speed
from speed.errors import SpeedError
from tests.console.consoles import HOSTILE, Served, Visitor
from tests.system.browser import Browser, Page


def tax(amount: float, country: str = "FI") -> float | speed.Response:
    """What is due for an amount."""
    if amount < 0:
        return speed.Response.error("NEGATIVE", "less than nothing")
    return amount * 0.2


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A speedd that sees a node with a service, which is called, and nodes with hostile texts."""
    with closing(Served(tmp_path_factory.mktemp("console"))) as made:
        billing = made.node("billing", allow=["test", "speedd"])
        billing.register("tax", tax)
        made.node("closed")
        for number, fabric in enumerate(HOSTILE):
            for side in ("left", "right"):
                made.node(f"hostile{number}.{side}", allow=["speedd"], fabrics=[fabric])
        caller = made.node("test", allow=["speedd"])
        orders, secret = caller.topic("orders"), caller.topic("secret")
        for number in (1, 2):
            orders.publish({"tea": f"<b>{number}</b>"})
            caller.publish("flights", {"flight": f"AY10{number}"})
        secret.publish("hidden")
        orders.consumer("reports", start="earliest").close()
        stop = threading.Event()

        def call() -> None:
            amount = 0
            while not stop.wait(0.02):
                amount += 1
                try:
                    caller.call("billing", "tax", {"amount": float(amount % 50 - 1)})
                except SpeedError:
                    pass  # one of fifty is wrong, so that errors are seen

        calling = threading.Thread(target=call, name="calls", daemon=True)
        calling.start()
        try:
            yield made
        finally:
            stop.set()
            calling.join(10)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """The browser of all tests."""
    with closing(Browser(tmp_path_factory.mktemp("browser"))) as opened:
        yield opened


@pytest.fixture
def page(served: Served, browser: Browser) -> Iterator[Page]:
    """A tab that was let in."""
    with closing(served.page(browser)) as opened:
        yield opened


@pytest.fixture
def visitor(served: Served) -> Visitor:
    """Who asks by HTTP, and was let in."""
    return served.visitor()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Of a speedd of its own."""
    return tmp_path
