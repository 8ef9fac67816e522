"""The process groups of speedd's processes, told to a guardian that ends them if speedd itself is killed."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from speed.daemon import guardian

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
            told = self._input.write(line.encode())
        except OSError:
            told = 0
        if told != len(line):
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
