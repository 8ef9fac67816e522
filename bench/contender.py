"""Two processes of one library, asked line by line."""

from __future__ import annotations

import json
import selectors
import subprocess
import time
from pathlib import Path
from typing import Any

from contenders.processes import cpu_ns, environment, resident_mb
from contenders.root import make_root
from contenders.table import BUILD, PEERS, is_speed

HERE = Path(__file__).resolve().parent
START_SECONDS = 60.0
STEP_SECONDS = 120.0


class Program:
    """One process that answers each JSON line with one."""

    def __init__(self, name: str, command: list[str], log: Path, variables: dict[str, str] | None = None) -> None:
        self.name = name
        self.log = log
        began = time.perf_counter()
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                command,
                cwd=HERE,
                env=environment() | (variables or {}),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        try:
            self._line(START_SECONDS)
            self.start_ms = (time.perf_counter() - began) * 1e3
        except BaseException:
            self.close()
            raise

    def _line(self, seconds: float) -> str:
        """One line; RuntimeError if the process ends or says nothing for `seconds`."""
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            line = self.process.stdout.readline() if selector.select(seconds) else ""
        if not line:
            said = [line.strip() for line in self.log.read_text().splitlines() if any(map(str.isalpha, line))]
            raise RuntimeError(f"{self.name}: {said[-1] if said else f'no answer within {seconds:g} s'}")
        return line

    def ask(self, do: str, **members: Any) -> Any:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps({"do": do, **members}) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it ended: reading finds that, and its reason
        return json.loads(self._line(STEP_SECONDS))

    def cpu_ns(self) -> int:
        """Processor time so far."""
        return cpu_ns(self.process.pid)

    def resident_mb(self) -> float:
        return resident_mb(self.process.pid)

    def close(self) -> None:
        """End it by ending its input."""
        try:
            if self.process.stdin is not None:
                self.process.stdin.close()
        except BrokenPipeError:
            pass  # what it was told last was not read
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Contender:
    """The server and the client of one library, with a directory of their own; a word for each, if they take one.

    `variables` are those of the environment that the client gets beside the usual ones.
    """

    def __init__(
        self,
        name: str,
        base: Path,
        client: tuple[str, ...] = (),
        server: tuple[str, ...] = (),
        variables: dict[str, str] | None = None,
    ) -> None:
        self.name = name
        self.peer = PEERS[name]
        self.work = base / name
        self.work.mkdir()
        if is_speed(name):
            make_root(self.work)
        if not all(path.exists() for path in self.peer.needs):
            raise RuntimeError(f"not built: run {BUILD}")
        self.server = self._start("server", *server)
        try:
            self.client = self._start("client", *client, variables=variables)
        except BaseException:
            self.server.close()
            raise

    def _start(self, role: str, *kind: str, variables: dict[str, str] | None = None) -> Program:
        command = (self.peer.server if role == "server" else self.peer.client)(role, self.work, *kind)
        return Program(f"{self.name} {role}", command, self.work / f"{role}.log", variables)

    def cpu_ns(self) -> int:
        """Of both sides."""
        return self.client.cpu_ns() + self.server.cpu_ns()

    def ask(self, do: str, size: int, count: int, warm: int, **members: Any) -> Any:
        return self.client.ask(do, bytes=size, count=count, warm=warm, **members)

    def close(self) -> None:
        self.client.close()
        self.server.close()


def start_all(names: list[str], base: Path) -> tuple[dict[str, Contender], dict[str, str]]:
    """Start what can be started; returns the contenders and, for each other, why not."""
    started: dict[str, Contender] = {}
    absent: dict[str, str] = {}
    for name in names:
        try:
            started[name] = Contender(name, base)
        except (RuntimeError, OSError) as error:
            absent[name] = str(error)
    return started, absent
