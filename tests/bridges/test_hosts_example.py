"""The shop of examples/bridges sells over two hosts, of which one is killed in the middle."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.bridges.joined import ROOT, Broker

pytestmark = [pytest.mark.system, pytest.mark.slow]


def test_the_shop_sells_each_order_once_though_a_host_is_killed(tmp_path: Path) -> None:
    server = Broker(tmp_path / "nats")
    server.start()
    command = [sys.executable, "-m", "examples.bridges.run", "--nats", server.address, "--count", "12"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=240)
    finally:
        server.kill()
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("ok        | 12 orders sold, each reserved and billed once\n")
    assert "back is away" in done.stdout


def test_the_grant_is_the_same_text_on_both_hosts() -> None:
    texts = [(ROOT / "examples" / "bridges" / f"{name}.toml").read_text() for name in ("front", "back")]
    grants = [text[text.index("[[host_grant]]") :].partition("[[process]]")[0].strip() for text in texts]
    assert grants[0] == grants[1]
    assert len((ROOT / "examples" / "bridges" / "README.md").read_text().splitlines()) <= 40
