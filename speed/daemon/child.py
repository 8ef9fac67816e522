"""One supervised operating-system process: starting it, its pipes, its group, its end."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from speed.daemon import guardian
from speed.daemon.config import Config, LogSettings, ProcessSettings
from speed.daemon.guardian import MARK, signal_group, signal_marked
from speed.daemon.host import MAX_LINE_CHARACTERS, LineSplitter, Record, RecordJoiner
from speed.fs.open import make_directories, open_log_file, unlink_quietly, write_all
from speed.wire.text import harmless_json

# The process groups of speedd's processes, told to a guardian that ends them if speedd itself is killed.

CLOSE_SECONDS = 5.0
"""What the guardian gets beyond the patience of the groups that are left."""


class Groups:
    """Groups that must not outlive speedd, each with the seconds between SIGTERM and SIGKILL."""

    def __init__(self, log: Any) -> None:
        """Starts the guardian. Raises OSError."""
        self._log = log
        self._seconds: dict[int, float] = {}
        self._marks: dict[int, str] = {}
        self._start()

    def add(self, group: int, seconds: float, mark: str) -> None:
        """``mark`` is in the environment of all that belongs to it."""
        self._seconds[group], self._marks[group] = seconds, mark
        self._tell(self._line(group))

    def _line(self, group: int) -> str:
        return f"+{group} {self._seconds[group]:g} {self._marks[group]}\n"

    def remove(self, group: int) -> None:
        self._marks.pop(group, None)
        if self._seconds.pop(group, None) is not None:
            self._tell(f"-{group}\n")

    def look(self) -> None:
        """Start another guardian if it was killed."""
        if self._popen.poll() is not None:
            self._replace()

    def close(self) -> None:
        """End the groups that are left, and the guardian."""
        self._input.close()
        try:
            self._popen.wait(max(self._seconds.values(), default=0.0) + CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._popen.kill()

    def _start(self) -> None:
        command = [sys.executable, "-I", "-S", guardian.__file__]
        self._popen = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, bufsize=0, start_new_session=True
        )
        if self._popen.stdin is None:
            raise AssertionError("its input is a pipe")
        self._input = self._popen.stdin
        os.set_blocking(self._input.fileno(), False)  # a guardian that was stopped must not stop speedd
        for group in self._seconds:
            self._input.write(self._line(group).encode())
        self._log.info("guardian_started", pid=self._popen.pid)

    def _tell(self, line: str) -> None:
        try:
            written = self._input.write(line.encode())
        except OSError:
            written = 0
        if written != len(line):
            self._replace()

    def _replace(self) -> None:
        """Another guardian, which is told everything."""
        self._popen.kill()
        self._popen.wait()
        self._input.close()
        try:
            self._start()
        except OSError as error:  # the next look tries again
            self._log.error("guardian_not_started", reason=str(error))


KILLED_SECONDS = 1.0
"""How long a killed group is waited for: what the kernel holds is not to hold up a restart."""


@dataclass(frozen=True)
class Surroundings:
    """What every process gets from the configuration around it."""

    config: Config
    root: str
    key: str

    def environment(self, settings: ProcessSettings) -> dict[str, str]:
        """Environment of a process. Commands in any language learn their node's settings from it."""
        paths = [str(path) for path in self.config.python_path] + _own_place()
        # Relative entries were relative to our directory; the processes run in another one.
        paths += [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
        own = {
            "SPEED_ROOT": self.root,
            "SPEED_KEY": self.key,
            "SPEED_NODE": settings.name,
            "SPEED_ALLOW": ",".join(settings.allow),
            "SPEED_FABRICS": ",".join(settings.fabrics),
            "SPEED_WORKERS": str(settings.workers),
            "SPEED_LEASE_SECONDS": f"{self.config.node.lease_seconds:g}",
            "SPEED_HEARTBEAT_SECONDS": f"{self.config.node.heartbeat_seconds:g}",
            "PYTHONUNBUFFERED": "1",
        }
        if paths:
            own["PYTHONPATH"] = os.pathsep.join(paths)
        manager = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")  # these speak to speedd alone
        base = {name: value for name, value in os.environ.items() if name not in manager}
        return base | own | settings.env

    def host_orders(self, settings: ProcessSettings, ready_fd: int) -> dict[str, Any]:
        """First line for ``speed.daemon.host``."""
        node = self.config.node
        return {
            "name": settings.name,
            "entry": settings.entry,
            "allow": list(settings.allow),
            "python_path": [str(path) for path in self.config.python_path],
            "ready_fd": ready_fd,
            "encryption": None if self.config.encryption is None else self.config.encryption.as_table(),
            "node": {
                "root": self.root,
                "key": self.key,
                "fabrics": list(settings.fabrics),
                "workers": settings.workers,
                "lease_seconds": node.lease_seconds,
                "heartbeat_seconds": node.heartbeat_seconds,
            },
        }


def _own_place() -> list[str]:
    """Where this package lies when it runs from a source tree: the processes must find it too."""
    place = Path(__file__).parents[2]
    return [] if place.name in ("site-packages", "dist-packages") else [str(place)]


QUIET_SECONDS = 0.2
"""A line that ends a record is waited for so long."""


class _Output:
    """One pipe of a process: its lines, joined to records."""

    def __init__(self, stream: str) -> None:
        self.stream = stream
        self.quiet_at: float | None = None
        self._lines = LineSplitter()
        self._joiner = RecordJoiner()

    def fed(self, data: bytes) -> list[Record]:
        """What is complete with these bytes; none are the end."""
        if not data or self.stream == "ready":
            return self._joiner.feed(self._lines.feed(data) if data else self._lines.end()) + self._joiner.rest()
        found = self._joiner.feed(self._lines.feed(data))
        self.quiet_at = time.monotonic() + QUIET_SECONDS if self._joiner.is_waiting else None
        return found

    def quiet(self) -> list[Record]:
        if self.quiet_at is None or time.monotonic() < self.quiet_at:
            return []
        self.quiet_at = None
        return self._joiner.rest()


class Child:
    """A started process. All methods are for the supervisor's one thread."""

    def __init__(self, settings: ProcessSettings, around: Surroundings) -> None:
        """Start it. Raises OSError when not even Python can be started."""
        self.settings = settings
        self.mark = os.urandom(16).hex()
        """In the environment of all that this start of the process starts in turn, in sessions of their own too."""
        self._strays: set[int] = set()
        self._ends_by: float | None = None
        """When what is left of the group is killed, once the process itself ended."""
        ready, ready_child = os.pipe()
        try:
            self._popen = self._start(around, ready_child)
        except OSError:
            os.close(ready)
            raise
        finally:
            os.close(ready_child)
        self.pid = self._popen.pid
        self._outputs = self._watch_outputs(ready)
        if settings.entry is not None:
            self._order(around.host_orders(settings, ready_child))
            self._never_wait()

    def _start(self, around: Surroundings, ready_child: int) -> subprocess.Popen[bytes]:
        is_host = self.settings.entry is not None
        program = ["speed.daemon.host"] if is_host else ["speed.daemon.guardian", str(os.getpid())]
        return subprocess.Popen(
            [sys.executable, "-m", *program, *self.settings.command],
            stdin=subprocess.PIPE if is_host else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=around.environment(self.settings) | {MARK: self.mark},
            cwd=around.config.directory,
            pass_fds=(ready_child,) if is_host else (),
            bufsize=0,
            start_new_session=True,  # a signal to the group reaches what the process itself started
        )

    def _watch_outputs(self, ready: int) -> dict[int, _Output]:
        out, err = self._popen.stdout, self._popen.stderr
        if out is None or err is None:
            raise AssertionError("both outputs are pipes")
        named = {out.fileno(): "stdout", err.fileno(): "stderr", ready: "ready"}
        for fd in named:
            os.set_blocking(fd, False)
        self._ready = ready
        return {fd: _Output(name) for fd, name in named.items()}

    def _never_wait(self) -> None:
        """A host that was stopped must not stop speedd: from now on, orders fit into the pipe or are not given."""
        if self._popen.stdin is not None:
            os.set_blocking(self._popen.stdin.fileno(), False)

    def descriptors(self) -> list[int]:
        """Pipes to watch for reading."""
        return list(self._outputs)

    def read(self, fd: int) -> tuple[str, list[Record], bool]:
        """(stream, records, ended) of one readable pipe; the stream is ``stdout``, ``stderr`` or ``ready``."""
        output = self._outputs[fd]
        try:
            data = os.read(fd, 65536)
        except BlockingIOError:
            return output.stream, [], False
        return output.stream, output.fed(data), not data

    def quiet(self) -> list[tuple[str, Record]]:
        """Records, with their streams, that waited for another line, and none came."""
        return [(output.stream, record) for output in self._outputs.values() for record in output.quiet()]

    def quiet_at(self) -> float | None:
        """When there are some, in seconds of the monotonic clock; None while nothing waits."""
        return min((output.quiet_at for output in self._outputs.values() if output.quiet_at), default=None)

    def forget(self, fd: int) -> None:
        """Stop reading one pipe."""
        self._outputs.pop(fd, None)
        if fd == self._ready:
            os.close(fd)
            self._ready = -1

    def exit_status(self) -> int | None:
        """Status of the ended process (negative: killed by that signal), None while it or its group lives."""
        status = self._popen.poll()
        return status if status is not None and self._is_group_over() else None

    @property
    def is_leaving(self) -> bool:
        """Whether the process ended and what it started did not yet."""
        return self._ends_by is not None

    def _is_group_over(self) -> bool:
        """Whether nothing is left of the group, and of what left it, which are asked to end first and killed later.

        While anything of the group is left, the kernel gives its number to no other process.
        """
        self._reap_orphans()
        if not self._signal(0):
            return True
        now = time.monotonic()
        if self._ends_by is None:
            self._ends_by = now + self.settings.stop_timeout_seconds
            self.terminate()
        if now >= self._ends_by:
            self.kill()
        return now >= self._ends_by + KILLED_SECONDS

    def _signal(self, number: int) -> bool:
        """Send a signal to all that it started; whether there is anything."""
        strays = signal_marked(self.mark, number)
        self._strays.update(strays)
        return signal_group(self.pid, number) or bool(strays)

    def _reap_orphans(self) -> None:
        """Where speedd is the first process of a container, what lost its parent becomes its child."""
        with suppress(ChildProcessError):
            while os.waitpid(-self.pid, os.WNOHANG)[0]:
                pass
        for pid in self._strays - {self.pid}:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)

    def grant(self, allow: tuple[str, ...]) -> bool:
        """Tell a hosted node its new grants; False for a command, which must be started again."""
        if self.settings.entry is None:
            return False
        return self._order({"allow": list(allow)})

    def _order(self, order: dict[str, Any]) -> bool:
        """Write a line to the host; False when it has not read the earlier ones."""
        stream = self._popen.stdin
        if stream is None:
            raise AssertionError("a host has an input")
        line = json.dumps(order).encode() + b"\n"
        try:
            return stream.write(line) == len(line)
        except OSError:
            return True  # it has just ended; its exit is reported on its own

    def terminate(self) -> None:
        """Ask it and all it started to end."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it and all it started."""
        self._signal(signal.SIGKILL)

    def close(self) -> None:
        """Release the pipes of an ended process."""
        for fd in self.descriptors():
            self.forget(fd)
        for stream in (self._popen.stdin, self._popen.stdout, self._popen.stderr):
            if stream is not None:
                try:
                    stream.close()
                except OSError:
                    pass  # buffered orders for a process that is gone


# The one structured log of speedd: its own events, and what its processes put out.


_DIRECTORY_MODE = 0o750
_FILE_MODE = 0o640
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_HIGHEST = 50


class LogFile:
    """The file behind the log: it is rotated when it is full, and opened again after others rotated it. Thread-safe."""

    def __init__(self, settings: LogSettings) -> None:
        """Without a file: stderr. Raises OSError."""
        self._settings = settings
        self.level = settings.level
        """What is less than this is not written; a reload may change it."""
        self._lock = threading.Lock()
        self._fd = -1  # a process may have been started without a stderr
        self._size: int | None = None
        """None: this is stderr, which is not rotated."""
        self.reopen()

    def reopen(self) -> None:
        """Write to the file that now has the name. Raises OSError; the old file then stays in use."""
        with self._lock:
            self._reopen()

    def change(self, settings: LogSettings) -> None:
        """Write as other settings say, and open the file again. Raises OSError; then all is as before."""
        with self._lock:
            before, self._settings = self._settings, settings
            try:
                self._reopen()
            except OSError:
                self._settings = before
                raise
            self.level = settings.level

    def write(self, text: str) -> None:
        data = text.encode("utf-8", "backslashreplace")
        # A full disk must not stop the services that are logged.
        with self._lock, suppress(OSError):
            if self._size and self._size + len(data) > self._settings.max_bytes:
                self._rotate()
            write_all(self._fd, data)
            if self._size is not None:
                self._size += len(data)

    def flush(self) -> None:
        """Everything is written at once."""

    def _reopen(self) -> None:
        path = self._settings.file
        if path is None:
            self._to_stderr()
            return
        # Neither is for the world: the output of services may tell what they work on.
        make_directories(str(path.parent), _DIRECTORY_MODE)
        fd = open_log_file(str(path), _FILE_MODE)
        if self._size is not None:
            os.close(self._fd)
        self._fd, self._size = fd, os.fstat(fd).st_size

    def _to_stderr(self) -> None:
        if self._size is not None:
            os.close(self._fd)
        self._fd, self._size = sys.stderr.fileno() if sys.stderr else -1, None

    def _rotate(self) -> None:
        """Begin a new file; where the old one cannot be kept, it is emptied."""
        path, kept = str(self._settings.file), self._settings.kept_files
        try:
            names = [path, *(f"{path}.{number}" for number in range(1, kept + 1))]
            for newer, older in zip(names[-2::-1], names[:0:-1], strict=True):
                with suppress(FileNotFoundError):
                    os.replace(newer, older)
            self._reopen()
        except OSError:
            pass
        if self._size:
            os.ftruncate(self._fd, 0)
            self._size = 0
        while unlink_quietly(f"{path}.{kept + 1}"):
            kept += 1


class Forwarded(logging.Handler):
    """Puts what libraries and services in speedd's own process log into its log."""

    def __init__(self, log: Any) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        self._log.log(record.levelno, "logged", logger=record.name, text=self.format(record))


def _bounded(_logger: object, _method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """No text of a line is longer than a line of a service may be."""
    return {key: value[:MAX_LINE_CHARACTERS] if isinstance(value, str) else value for key, value in event.items()}


def _harmless(_logger: Any, _method: str, line: Any) -> str:
    """Services print what others wrote: nothing of it may act where the log is looked at."""
    return harmless_json(line)


def open_log(sink: LogFile, *, all_levels: bool = False, **fixed: Any) -> Any:
    """A logger that writes JSON lines to ``sink``, of its level and above; ``fixed`` stands in every line."""

    def heard(_logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if all_levels or _LEVELS.get(method, _HIGHEST) >= _LEVELS[sink.level]:
            return event
        raise structlog.DropEvent

    return structlog.wrap_logger(
        structlog.WriteLogger(sink),  # type: ignore[arg-type]
        processors=[
            heard,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _bounded,
            structlog.processors.JSONRenderer(default=str, ensure_ascii=False),
            _harmless,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS["debug"]),
        **fixed,
    ).bind()
