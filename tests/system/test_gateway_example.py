"""The kitchen of examples/gateway, all of it: its page in Chromium, the program that orders, and the Spark job."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.system.browser import Browser, Page
from tests.system.documents import REPOSITORY
from tests.system.gateways import GatewaySite, published, until

pytestmark = pytest.mark.system
EXAMPLE = REPOSITORY / "examples" / "gateway"
ROWS = "[...document.querySelectorAll('li span')].map(one => one.textContent)"
SAID = "document.querySelector('output').textContent"
IS_CONNECTED = "producer.socket.readyState === WebSocket.OPEN && consumer.socket.readyState === WebSocket.OPEN"


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and logs nothing."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of its base
        pass


class Kitchen:
    """The example on free ports: a browser, the page's server, speedd; ``ends`` ends them."""

    def __init__(self, path: Path, ends: ExitStack) -> None:
        self.browser = ends.enter_context(closing(Browser(path / "browser")))
        (path / "pages").mkdir()
        pages = ends.enter_context(ThreadingHTTPServer(("localhost", 0), partial(Quiet, directory=str(path / "pages"))))
        threading.Thread(target=pages.serve_forever, daemon=True).start()
        ends.callback(pages.shutdown)
        self._origin = f"http://localhost:{pages.server_port}"
        self.site = ends.enter_context(closing(GatewaySite(path, self._config())))
        page = (EXAMPLE / "kitchen.html").read_text()
        assert page.count("localhost:8080") == 1
        (path / "pages/kitchen.html").write_text(page.replace("localhost:8080", f"localhost:{self.site.port}"))

    def _config(self) -> str:
        """The example's own; but for ports, the place of the root, and that this test may look into the topic."""
        text = (EXAMPLE / "speedd.toml").read_text()
        for old, new in (
            ("port = 8080", "port = 0"),
            ("http://localhost:8000", self._origin),
            ('"cli.*"', '"test"'),
            ("[node]\n", '[node]\nroot = "root"\nkey = "speed.key"\n'),
        ):
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        return text

    def page(self) -> Page:
        page = self.browser.page(f"{self._origin}/kitchen.html")
        page.shows("document.readyState + location.pathname", "complete/kitchen.html")
        page.shows(IS_CONNECTED, True)
        return page

    def run(self, program: str, *words: str) -> str:
        """What a program of the example prints."""
        settings = {
            "GATEWAY": f"ws://localhost:{self.site.port}",
            "SPEED_ROOT": str(self.site.topics.root),
            "SPEED_KEY": str(self.site.topics.key),
            "PYTHONPATH": str(REPOSITORY),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        done = subprocess.run(
            [sys.executable, EXAMPLE / program, *words],
            env={**os.environ, **settings},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def waiting(self) -> int:
        """Orders that are not done."""
        (of_pages,) = self.site.node.topic("orders").describe()["subscriptions"]
        return int(of_pages["backlog"])


@pytest.fixture
def kitchen(tmp_path: Path) -> Iterator[Kitchen]:
    with ExitStack() as ends:
        yield Kitchen(tmp_path, ends)


def order(page: Page, what: str) -> None:
    """As somebody does who types and presses the button."""
    page.run(f"form.what.value = {what!r}; form.querySelector('button').click()")
    page.shows(SAID, "kept")


def press(page: Page, button: str) -> None:
    """A button of the first order that the page shows."""
    page.run(f"[...document.querySelectorAll('li button')].find(one => one.textContent === {button!r}).click()")


def test_an_order_of_the_page_comes_back_to_it_and_reaches_the_programs(kitchen: Kitchen) -> None:
    page = kitchen.page()
    order(page, "crème brûlée")
    page.shows(ROWS, ["crème brûlée"])
    assert published(kitchen.site.node, "orders") == ["crème brûlée".encode()]


def test_an_order_of_the_program_is_on_one_page_until_it_is_done(kitchen: Kitchen) -> None:
    page = kitchen.page()
    assert kitchen.run("order.py", "tea", "cake").split() == ["tea", "ok", "cake", "ok"]
    page.shows(ROWS, ["tea", "cake"])
    press(page, "Done")
    page.shows(ROWS, ["cake"])
    until(lambda: kitchen.waiting() == 1)
    page.close()
    another = kitchen.page()
    another.shows(ROWS, ["cake (again: 1)"])


def test_a_page_of_another_origin_does_not_connect(kitchen: Kitchen) -> None:
    elsewhere = kitchen.browser.page("about:blank")
    elsewhere.run(f"ended = 0; new WebSocket('ws://localhost:{kitchen.site.port}/ws/pingpong').onclose = () => ended++")
    elsewhere.shows("ended", 1)


@pytest.mark.spark
def test_the_spark_job_counts_what_page_and_program_ordered(kitchen: Kitchen) -> None:
    order(kitchen.page(), "tea")
    kitchen.run("order.py", "tea", "cake")
    assert kitchen.run("report.py").splitlines() == ["2 tea", "1 cake"]
