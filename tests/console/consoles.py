"""A speedd with a console, nodes that it sees, and who asks it: by HTTP, or in a browser."""

from __future__ import annotations

import json
import secrets
import subprocess
import threading
from collections.abc import Mapping
from functools import cache
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import speed
from speed.fs.keyfile import write_key_file
from speed.observe.speedd import ask
from tests.system.browser import Browser, Page
from tests.system.daemon.speedds import PATIENCE, Speedd

ROOT = Path(__file__).resolve().parents[2]
AXE = "axe-core@4.14.1"
HOSTILE = (
    "<img src=x onerror=\"document.title='taken'\">",
    "<script>document.title='taken'</script>",
    "\u202eevil\u2066",
    "\x1b[31mred\x07",
    "x" * 120,
    "&lt;b&gt; \"' {{key}} ${1} \u0130\U0001f600",
)
"""Names of fabrics, which may be any text."""
HEAD = """
[node]
root = "root"
key = "speed.key"
allow = ["test"]
lease_seconds = 5
heartbeat_seconds = 1
"""
SERVED = """
[console]
port = 0
actions = true
history = "week"
[topics]
publish = ["test"]
consume = ["test", "speedd"]
manage = ["speedd", "test"]
[[topic]]
name = "orders"
[[topic]]
name = "secret"
publish = ["test"]
consume = ["test"]
manage = []
[[topic]]
name = "carried"
[journal]
topics = ["flights"]
allow = ["test"]
[gateway]
port = 0
name = "nobody"
[[bridge]]
name = "away"
source = "topics"
target = "redis://127.0.0.1:1"
topics = "carried"
"""


class Served:
    """A running speedd with a console, and nodes in its root."""

    def __init__(self, directory: Path, config: str = SERVED) -> None:
        self.root, self.key, self.directory = str(directory / "root"), str(directory / "speed.key"), directory
        write_key_file(self.key, (secrets.token_bytes(32),))
        self.nodes: list[speed.Node] = []
        self.speedd = Speedd(directory, config, head=HEAD)
        self.port = int(self.speedd.until("console")["port"])
        self.speedd.until("ready")
        self.speedd.limit.cancel()
        self._reading = threading.Thread(target=self.speedd.end, name="log", daemon=True)
        self._reading.start()

    def node(self, name: str, **options: Any) -> speed.Node:
        """A node that lives as long as this speedd, or until it is closed."""
        self.nodes.append(speed.Node(name, root=self.root, key=self.key, **options))
        return self.nodes[-1]

    def address(self) -> str:
        """One that lets one browser in."""
        return str(ask(self.root, {"do": "console"})["address"])

    def page(self, browser: Browser) -> Page:
        """A tab that was let in, and shows the overview."""
        page = browser.page(self.address())
        page.shows("document.querySelector('h1')?.textContent", "Overview")
        return page

    def visitor(self) -> Visitor:
        """Who asks by HTTP, and was let in."""
        return Visitor(self.port).entered(self.address())

    def close(self) -> None:
        for node in self.nodes:
            node.close(drain_seconds=0)
        self.speedd.process.kill()
        self._reading.join(PATIENCE)
        assert self.speedd.process.stderr is not None
        self.speedd.process.stderr.close()


class Visitor:
    """Asks by HTTP with a cookie and a key, where it has some."""

    def __init__(self, port: int) -> None:
        self.port, self.cookie, self.key = port, "", ""

    def entered(self, address: str) -> Visitor:
        """Let in by an address."""
        parts = urlsplit(address)
        answer = self.ask(f"{parts.path}?{parts.query}")
        self.cookie = (answer.getheader("Set-Cookie") or "").partition(";")[0]
        self.key = answer.read().decode().partition('data-key="')[2].partition('"')[0]
        return self

    def ask(self, path: str, headers: Mapping[str, str] | None = None, body: Any = None) -> HTTPResponse:
        """The answer to a request; a ``body`` makes it one that acts, from a page of the console."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        own = {"Cookie": self.cookie, "X-Speed-Key": self.key}
        if body is not None:
            own |= {"Origin": f"http://127.0.0.1:{self.port}", "Content-Type": "application/json"}
        sent = {name: value for name, value in {**own, **(headers or {})}.items() if value}
        data = None if body is None else json.dumps(body)
        connection.request("GET" if body is None else "POST", path, data, sent)
        return connection.getresponse()

    def value(self, path: str, body: Any = None) -> Any:
        """What is answered to one that is let in."""
        answer = self.ask(path, body=body)
        value = json.loads(answer.read())
        assert answer.status == 200, value
        return value

    def status(self, path: str, headers: Mapping[str, str] | None = None, body: Any = None) -> int:
        answer = self.ask(path, headers, body)
        answer.close()
        return answer.status


@cache
def axe() -> str:
    """The script that finds what people with a screen reader or a keyboard cannot use."""
    place = ROOT / "build" / "npm"
    place.mkdir(parents=True, exist_ok=True)
    archive = place / f"{AXE.replace('@', '-')}.tgz"
    if not archive.exists():
        packed = ["npm", "pack", "--silent", AXE, "--pack-destination", str(place)]
        done = subprocess.run(packed, capture_output=True, text=True, check=False, timeout=120, cwd=place)
        if done.returncode:
            pytest.fail(f"axe-core cannot be fetched: {done.stderr[-500:]}", pytrace=False)
    command = ["tar", "-xzOf", str(archive), "package/axe.min.js"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def misfits(page: Page) -> list[str]:
    """What axe finds wrong with the page as it is."""
    page.run("void 0" if page.run("!!window.axe") else axe())
    found = page.resolved(
        "axe.run(document, {resultTypes: ['violations']}).then((one) => JSON.stringify(one.violations))"
    )
    return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in json.loads(found)]
