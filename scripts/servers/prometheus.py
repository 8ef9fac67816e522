"""Prometheus, which scrapes what a test names and evaluates its rules."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from scripts.servers.server import Server


class Prometheus(Server):
    """Debian's; ``prometheus.yml`` in its directory says what it does, and is there before it starts."""

    name, command, package = "prometheus", "prometheus", "prometheus"

    def words(self) -> Sequence[str]:
        """The command."""
        files = [f"--config.file={self.directory / 'prometheus.yml'}", f"--storage.tsdb.path={self.directory / 'data'}"]
        return [self.found() or self.command, *files, f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn"]

    def answers(self) -> bool:
        """Whether it has read its rules."""
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=1.0) as answer:
            return bool(answer.status == 200)
        return False

    def get(self, path: str, **parameters: str) -> Any:
        """What its API answers. Raises OSError for what it refuses."""
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/{path}?{query}", timeout=10.0) as answer:
            return json.load(answer)["data"]
