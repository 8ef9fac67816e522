"""The services of the flights example, hosted by speedd in the languages that one of its configurations names."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from typing import Any

import speed
from tests.interop.languages import ROOT
from tests.interop.pool import make_root

FLIGHTS = ROOT / "examples" / "flights"
START_SECONDS = 60


class Hosted:
    """speedd with one of the example's configurations, and a node that may call its services."""

    def __init__(self, config: str) -> None:
        self.root = make_root()
        self.environment = dict(
            os.environ, SPEED_ROOT=self.root, SPEED_KEY=f"{self.root}/speed.key", PYTHONPATH=str(ROOT)
        )
        command = [sys.executable, "-m", "speed.daemon", "run", "-c", str(FLIGHTS / config)]
        self._daemon = subprocess.Popen(command, env=self.environment, stderr=subprocess.DEVNULL)
        self.node = speed.Node("etl.test", root=self.root)

    def wait(self) -> dict[str, str]:
        """The language of each service once it is there."""
        return {name: self.node.wait_for(name, timeout=START_SECONDS).language for name in ("geo", "rules")}

    def answer(self, node: str, service: str, arguments: dict[str, Any]) -> Any:
        """The result, or the code of the error."""
        try:
            return self.node.call(node, service, arguments)
        except speed.CallError as error:
            return error.code

    def close(self) -> None:
        self.node.close(drain_seconds=1)
        self._daemon.send_signal(signal.SIGTERM)
        try:
            self._daemon.wait(30)
        finally:
            self._daemon.kill()
            shutil.rmtree(self.root, ignore_errors=True)
