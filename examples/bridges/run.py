"""Both hosts on this machine: makes keys, starts them, kills one in the middle, compares what was sold with what came.

    python -m examples.bridges.run [--nats ADDRESS] [--count N]

Exit status: 0 as it should be, 1 not.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path

from speed.fs.keyfile import write_key_file

HERE = Path(__file__).parent
SOURCES = HERE.parents[1]
SHOWN = "nats://127.0.0.1:4222"
READY_SECONDS = 60.0


class Host:
    """A speedd in the directory of its host."""

    def __init__(self, work: Path, name: str, nats: str) -> None:
        self.directory, self.name = work / name, name
        self.directory.mkdir()
        text = (HERE / f"{name}.toml").read_text().replace(SHOWN, nats)
        (self.directory / f"{name}.toml").write_text(text)
        write_key_file(str(self.directory / f"{name}.key"), (secrets.token_bytes(32),))

    @property
    def environment(self) -> dict[str, str]:
        """For programs of this host."""
        paths = f"{SOURCES}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
        root, key = self.directory / self.name, self.directory / f"{self.name}.key"
        return {**os.environ, "PYTHONPATH": paths, "SPEED_ROOT": str(root), "SPEED_KEY": str(key)}

    def start(self) -> None:
        """Until its processes are up."""
        reading, writing = os.pipe()
        command = [sys.executable, "-m", "speed.daemon", "run", "-c", f"{self.name}.toml", "--ready-fd", str(writing)]
        with open(self.directory / "log", "ab") as log:
            self._process = subprocess.Popen(
                command, cwd=self.directory, env=self.environment, stderr=log, pass_fds=(writing,)
            )
        os.close(writing)
        with open(reading, "rb") as ready:
            if ready.readline() != b"READY\n":
                raise SystemExit(f"speedd of {self.name} did not start: see {self.directory}/log")

    def kill(self) -> None:
        """It dies at once, and its processes with it."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """In order."""
        self._process.terminate()
        self._process.wait(READY_SECONDS)


def run(work: Path, nats: str, count: int) -> bool:
    """Whether all was reserved and billed once."""
    front, back = Host(work, "front", nats), Host(work, "back", nats)
    pair = secrets.token_bytes(32)
    for host in (front, back):
        write_key_file(str(host.directory / "front-back.key"), (pair,))
        host.start()
    shop = [sys.executable, "-m", "examples.bridges.shop", "--count", str(count)]
    with subprocess.Popen(shop, env=front.environment, cwd=SOURCES, stdout=subprocess.PIPE, text=True) as selling:
        assert selling.stdout is not None
        for line in selling.stdout:
            if not line.startswith("sold "):
                print(line, end="", flush=True)
            elif line == f"sold {count // 2}\n":
                back.kill()
                back.start()
    for host in (front, back):
        host.stop()
    return selling.returncode == 0 and is_whole(back.directory, count)


def is_whole(directory: Path, count: int) -> bool:
    """Whether each order is there once, in both books."""
    reserved = json.loads((directory / "reserved.json").read_text())
    billed = [json.loads(line) for line in (directory / "billed.jsonl").read_text().splitlines()]
    orders = list(range(1, count + 1))
    return sorted(map(int, reserved)) == orders and sorted(one["order"] for one in billed) == orders


def main() -> int:
    """One run."""
    parser = argparse.ArgumentParser(prog="examples.bridges.run", description="A shop over two hosts.")
    parser.add_argument("--nats", default=SHOWN, help=f"the NATS server (default: {SHOWN})")
    parser.add_argument("--count", type=int, default=20, help="orders (default: 20)")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="speed-shop-") as work:
        if not run(Path(work), chosen.nats, chosen.count):
            print("FAILED    | not every order was reserved and billed once", file=sys.stderr)
            return 1
    print(f"ok        | {chosen.count} orders sold, each reserved and billed once")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
