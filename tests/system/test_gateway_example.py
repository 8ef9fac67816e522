"""The kitchen of examples/gateway: its configuration, its program, and the addresses of its page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.system.documents import REPOSITORY
from tests.system.gateways import Client, GatewaySite

pytestmark = pytest.mark.system
EXAMPLE = REPOSITORY / "examples" / "gateway"


def test_what_the_program_orders_comes_to_the_page(tmp_path: Path) -> None:
    config = (EXAMPLE / "speedd.toml").read_text().replace("port = 8080", "port = 0").replace('"cli.*"', '"test"')
    here = config.replace("[node]\n", '[node]\nroot = "root"\nkey = "speed.key"\n')
    page = (EXAMPLE / "kitchen.html").read_text()
    topic = re.search(r'const topic = "(.+)"', page)
    paths = re.findall(r"`(producer|consumer)/\$\{topic\}(.*?)`", page)
    assert topic
    assert [role for role, _ in paths] == ["producer", "consumer"]
    with closing(GatewaySite(tmp_path, here)) as site:
        origin = "http://localhost:8000"
        base = f"ws://localhost:{site.port}/ws/v2"
        of_page = [Client(f"{base}/{role}/{topic[1]}{rest}", {}, origin=origin) for role, rest in paths]
        done = subprocess.run(
            [sys.executable, EXAMPLE / "order.py", "tea", "cake"],
            env={**os.environ, "GATEWAY": f"ws://localhost:{site.port}"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout.split()) == (0, ["tea", "ok", "cake", "ok"]), done.stderr
        assert of_page[1].payloads(2) == [b"tea", b"cake"]
        assert of_page[0].publish(b"coffee")["result"] == "ok"
        assert of_page[1].payloads(1) == [b"coffee"]
        for one in of_page:
            one.close()
