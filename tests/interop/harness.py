"""Agents as processes: started, told what to do, waited for within a bound, and always ended."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, Queue
from typing import IO, Any

from tests.interop.languages import LANGUAGES, ROOT
from tests.interop.values import from_json, to_json

ANSWER_SECONDS = 60.0
START_SECONDS = 60.0
END_SECONDS = 20.0


def until(holds: Callable[[], bool], wait: float = ANSWER_SECONDS) -> bool:
    """Whether ``holds()`` becomes true within ``wait`` seconds."""
    deadline = time.monotonic() + wait
    while not (held := holds()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return held


class AgentError(Exception):
    """The agent answered with an error; ``code`` is its stable code. ``execution``: of a call, what it says of that."""

    def __init__(self, code: str, message: str, details: dict[str, Any], execution: str = "") -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.details = details
        self.execution = execution


def pause(pid: int) -> None:
    """SIGSTOP, and wait until the kernel has stopped this child: until then it reads what is sent."""
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)


class Agent:
    """One agent process. What it writes to stderr is kept, and shown when something goes wrong."""

    def __init__(self, language: str, name: str, root: str, *, under: Sequence[str] = (), **options: Any) -> None:
        """Start it; ``ready()`` waits until its node is there. ``options``: allow, lease, heartbeat, workers, …

        ``under``: a command that runs it, such as strace.
        """
        LANGUAGES[language].check_built()
        self.language = language
        self.name = name
        self.generation = 0
        self.pid = 0
        self._numbers = itertools.count(1)
        self._lines: Queue[str | None] = Queue()
        self._answers: dict[int, dict[str, Any]] = {}
        self._unheeded: set[int] = set()
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by end()
        self.process = subprocess.Popen(
            [
                *under,
                *LANGUAGES[language].command,
                "--name",
                name,
                "--root",
                root,
                "--key",
                f"{root}/speed.key",
                *_flags(options),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            cwd=ROOT,
            env=_environment(),
        )
        self._reader = threading.Thread(target=self._read, name=f"agent-{name}", daemon=True)
        self._reader.start()

    def __repr__(self) -> str:
        return f"<{self.language} agent {self.name}>"

    def ready(self, wait: float = START_SECONDS) -> Agent:
        """Wait for the node; AgentError when it could not start."""
        told = self._next_line(wait)
        if told.get("event") != "ready":
            self.process.wait(END_SECONDS)
            raise AgentError(told["error"], told["message"], {})
        self.generation, self.pid = told["generation"], told["pid"]
        return self

    def tell(self, op: str, **fields: Any) -> int:
        """Send a command without waiting; its number is for ``answer``."""
        number = next(self._numbers)
        command = {"id": number, "op": op, **{key: to_json(value) for key, value in fields.items()}}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command).encode() + b"\n")
        self.process.stdin.flush()
        return number

    def mention(self, op: str, **fields: Any) -> None:
        """Send a command whose answer nobody looks at."""
        self._unheeded.add(self.tell(op, **fields))

    def answer(self, number: int, wait: float = ANSWER_SECONDS) -> Any:
        """The result of command ``number``; AgentError when it failed."""
        while number not in self._answers:
            told = self._next_line(wait)
            if told["id"] in self._unheeded:
                self._unheeded.remove(told["id"])
            else:
                self._answers[told["id"]] = told
        told = self._answers.pop(number)
        if told["ok"]:
            return from_json(told.get("result"))
        details = from_json(told.get("details") or {})
        raise AgentError(told["error"], told.get("message", ""), details, told.get("execution", ""))

    def ask(self, op: str, **fields: Any) -> Any:
        """Send a command and wait for its result."""
        return self.answer(self.tell(op, **fields))

    def refusal(self, op: str, **fields: Any) -> AgentError:
        """The error with which a command must fail."""
        try:
            result = self.ask(op, **fields)
        except AgentError as error:
            return error
        raise AssertionError(f"{self!r}: {op} succeeded with {result!r}")

    def call(self, target: Agent, service: str, arguments: dict[str, Any], **options: Any) -> Any:
        return self.ask("call", target=target.name, service=service, arguments=arguments, **options)

    # --- its end ---

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self.process.kill()
        self.process.wait(END_SECONDS)

    def pause(self) -> None:
        pause(self.process.pid)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def close(self) -> int:
        """Close in order; the exit status."""
        self.ask("close")
        return self.process.wait(END_SECONDS)

    def end(self) -> None:
        """Whatever state it is in: gone afterwards."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(END_SECONDS)
        self._reader.join(END_SECONDS)
        for stream in (self.process.stdin, self.process.stdout, self._stderr):
            try:
                if stream is not None:
                    stream.close()
            except BrokenPipeError:
                pass  # a command that it never read

    @property
    def idle(self) -> bool:
        """Whether it is alive and every command was answered."""
        return self.process.poll() is None and not self._answers and self._lines.empty()

    def descriptors(self) -> list[str]:
        """What its descriptors lead to, without those that it closes meanwhile."""
        open_ones = []
        for fd in os.listdir(f"/proc/{self.pid}/fd"):
            with contextlib.suppress(FileNotFoundError):
                open_ones.append(os.readlink(f"/proc/{self.pid}/fd/{fd}"))
        return open_ones

    def stderr(self) -> str:
        """The end of what it said there."""
        size = os.fstat(self._stderr.fileno()).st_size
        return os.pread(self._stderr.fileno(), 4000, max(0, size - 4000)).decode(errors="replace")

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith(b"\n"):  # else it was killed in the middle of what it said
                self._lines.put(line.decode())
        self._lines.put(None)

    def _next_line(self, wait: float) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=wait)
        except Empty:
            raise AssertionError(f"{self!r} said nothing for {wait} s; stderr:\n{self.stderr()}") from None
        if line is None:
            self._lines.put(None)
            raise AssertionError(f"{self!r} ended ({self.process.wait(END_SECONDS)}); stderr:\n{self.stderr()}")
        try:
            told: dict[str, Any] = json.loads(line)
        except ValueError:
            raise AssertionError(f"{self!r} said {line!r}; stderr:\n{self.stderr()}") from None
        return told


def _flags(options: dict[str, Any]) -> list[str]:
    allowed = [flag for pattern in options.pop("allow", ()) for flag in ("--allow", pattern)]
    return allowed + [text for key, value in options.items() for text in (f"--{key.replace('_', '-')}", str(value))]


def _environment() -> dict[str, str]:
    """With the first Java compiler only: agents live shortly, and many of them start."""
    path = os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))
    java = f"-XX:TieredStopAtLevel=1 {os.environ.get('SPEED_JAVA_OPTIONS', '')}"
    return {**os.environ, "SPEED_JAVA_OPTIONS": java, "PYTHONPATH": path}
