"""Headless Chromium, driven by its DevTools protocol."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import connect

from tests.system.topics import PATIENCE, until

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-port=0")


def program() -> str:
    """The browser of this machine; the test fails without one."""
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if found is None:
        pytest.fail("Chromium is missing (Debian: apt install chromium)", pytrace=False)
    return found


LEAVING = ("context", "navigated or closed")
"""In what the browser says of a script that has no page to run in."""


class LeavingPageError(Exception):
    """The tab is between two pages: no script can run."""


class Browser:
    """A Chromium whose files are all in ``directory``."""

    def __init__(self, directory: Path) -> None:
        as_root = ["--no-sandbox"] if os.geteuid() == 0 else []  # it refuses to be root inside its own sandbox
        self._process = subprocess.Popen(
            [program(), *OPTIONS, *as_root, f"--user-data-dir={directory}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": str(directory)},
        )
        try:
            until(lambda: self._place(directory) or self._process.poll() is not None)
            port, path = self._place(directory)
            opened = connect(f"ws://127.0.0.1:{port}{path}", max_size=None, proxy=None, open_timeout=PATIENCE)
            self._socket = opened.__enter__()  # it is closed by its own `close`
        except BaseException:
            self._process.kill()
            raise
        self._numbers = itertools.count(1)

    @staticmethod
    def _place(directory: Path) -> list[str]:
        """Port and path of its DevTools, once it has written them down."""
        file = directory / "DevToolsActivePort"
        lines = file.read_text().split() if file.exists() else []
        return lines if len(lines) == 2 else []

    def page(self, url: str) -> Page:
        """A tab that opens ``url``."""
        target = self.ask("Target.createTarget", url=url)["targetId"]
        return Page(self, target, self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])

    def ask(self, method: str, session: str | None = None, **parameters: Any) -> Any:
        """What the browser answers; events that come before are passed over."""
        number = next(self._numbers)
        of_tab = {"sessionId": session} if session else {}
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters, **of_tab}))
        while (told := json.loads(self._socket.recv(PATIENCE))).get("id") != number:
            pass
        if any(one in told.get("error", {}).get("message", "") for one in LEAVING):
            raise LeavingPageError
        assert "error" not in told, told
        return told["result"]

    def close(self) -> None:
        self._socket.close()
        self._process.terminate()
        self._process.wait(PATIENCE)


class Page:
    """One tab."""

    def __init__(self, browser: Browser, target: str, session: str) -> None:
        self._browser, self._target, self._session = browser, target, session

    def run(self, script: str) -> Any:
        """The value of a script in the page."""
        told = self._browser.ask("Runtime.evaluate", self._session, expression=script, returnByValue=True)
        if "exceptionDetails" in told:
            raise RuntimeError(f"{script}: {told['exceptionDetails']}")
        return told["result"].get("value")

    def shows(self, script: str, value: Any) -> None:
        """Wait until a script has this value, and fail with what it has instead."""
        seen: list[Any] = [None]

        def is_there() -> bool:
            try:
                seen[0] = self.run(script)
            except LeavingPageError:
                return False
            return bool(seen[0] == value)

        try:
            until(is_there)
        except AssertionError:
            raise AssertionError(f"{script} is {seen[0]!r} and not {value!r}") from None

    def ask(self, method: str, **parameters: Any) -> Any:
        """What the tab answers to a command of the protocol."""
        return self._browser.ask(method, self._session, **parameters)

    def resolved(self, script: str) -> Any:
        """The value of a promise in the page."""
        told = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in told:
            raise RuntimeError(f"{script[:200]}: {told['exceptionDetails']}")
        return told["result"].get("value")

    def look(self, width: int, height: int = 900, theme: str = "light") -> None:
        """Have the tab so large, on a machine of that theme."""
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])

    def press(self, key: str, text: str = "") -> None:
        """A key of the keyboard, by its name in the DOM."""
        code = {"Tab": 9, "Enter": 13, " ": 32}.get(key, 0)
        told = {"key": key, "code": key, "windowsVirtualKeyCode": code, "text": text or {"Enter": "\r"}.get(key, "")}
        self.ask("Input.dispatchKeyEvent", type="keyDown", **told)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **told)

    def type(self, text: str) -> None:
        """Into what has the focus."""
        self.ask("Input.insertText", text=text)

    def picture(self) -> bytes:
        """What is seen now, as PNG."""
        return base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"])

    def close(self) -> None:
        self._browser.ask("Target.closeTarget", targetId=self._target)
