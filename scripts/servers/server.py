"""What all servers have in common: started as one process, waited for, killed, started again with what it had."""

from __future__ import annotations

import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PORTS = 20_000, 32_000
READY_SECONDS = 280.0
STOP_SECONDS = 20.0
USER, PASSWORD = "speed", "s3cret-of-trials"  # who may do everything


_installing = threading.Lock()
"""What one thread installed, the next need not."""
_APT = Path(__file__).resolve().parents[1] / "apt"


def _install(package: str) -> None:
    subprocess.run([_APT, package], check=False, capture_output=True)


class Server(ABC):
    """One server; ``directory`` is made, and whoever is not root owns it."""

    name = ""
    command = ""
    """What must be there to start it."""
    package = ""
    """Debian's, which brings it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.port = self._kept_port("port")

    def _kept_port(self, name: str) -> int:
        """A free port, the same again in the same directory."""
        file = self.directory / name
        if not file.exists():
            file.write_text(str(_free_port()))
        return int(file.read_text())

    @property
    def address(self) -> str:
        """As ``speed.messages.connect`` takes it, without credentials where none are needed."""
        return f"{self.name}://127.0.0.1:{self.port}"

    @classmethod
    def provide(cls) -> None:
        """Have what it needs installed; SystemExit names what is missing."""
        with _installing:
            if not cls.found() and os.getuid() == 0 and shutil.which("apt-get"):
                _install(cls.package)
        if not cls.found():
            raise SystemExit(f"backends: {cls.command} is missing (Debian: apt install {cls.package})")

    @classmethod
    def found(cls) -> str | None:
        """Where the command is."""
        return shutil.which(cls.command, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")

    @abstractmethod
    def words(self) -> Sequence[str]:
        """The command that runs it in the foreground."""

    def prepare(self) -> None:  # noqa: B027 - most need nothing
        """Before its first start."""

    def settings(self) -> Mapping[str, str]:
        """Of its environment."""
        return {}

    @abstractmethod
    def answers(self) -> bool:
        """Whether it is ready."""

    # --- life ---

    def start(self) -> None:
        """Also again, after ``kill``: it has the same address and what it kept."""
        self.provide()
        if not (self.directory / "prepared").exists():
            self.prepare()
            (self.directory / "prepared").touch()
        with open(self.directory / "log", "ab") as log:
            process = subprocess.Popen(
                self.words(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                env={**os.environ, "JAVA_TOOL_OPTIONS": "", **self.settings()},
                start_new_session=True,
                **self.identity(),
            )
        (self.directory / "pid").write_text(str(process.pid))
        self._wait(process)

    def identity(self) -> dict[str, str]:
        """Who runs it, if not who asks."""
        return {}

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        ends = time.monotonic() + READY_SECONDS
        while not self.answers():
            if process.poll() is not None or time.monotonic() > ends:
                tail = (self.directory / "log").read_bytes()[-3000:].decode(errors="replace")
                self.kill()
                raise SystemExit(f"backends: {self.name} did not start\n{tail}")
            time.sleep(0.1)

    def runs(self) -> bool:
        """Whether its process lives, whoever started it."""
        file = self.directory / "pid"
        return file.exists() and lives(int(file.read_text()))

    def kill(self) -> None:
        """It dies at once."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """It ends in order."""
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        file = self.directory / "pid"
        if not file.exists():
            return
        pid = int(file.read_text())
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        ends = time.monotonic() + STOP_SECONDS
        while lives(pid):
            if time.monotonic() > ends:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
        file.unlink()

    @property
    def certificate(self) -> Path:
        """One that stands for itself, and its key beside it as ``server.key``; made when first asked for."""
        file, key = self.directory / "server.pem", self.directory / "server.key"
        if not file.exists():
            where = "subjectAltName=DNS:localhost,IP:127.0.0.1"
            words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=localhost"]
            made = ["openssl", *words, "-addext", where, "-keyout", str(key), "-out", str(file)]
            subprocess.run(made, check=True, capture_output=True)
            key.chmod(0o600)
        return file

    def listens(self) -> bool:
        """Whether its port takes connections."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1.0):
            return True
        return False


def _free_port() -> int:
    """Below those that the system gives to connections: one of these might take it before the server does."""
    while True:
        port = random.randrange(*PORTS)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def lives(pid: int) -> bool:
    """Until its last thread has ended: one that was killed holds its port for as long, its first thread a zombie."""
    with suppress(ChildProcessError):
        return os.waitpid(pid, os.WNOHANG)[0] == 0
    process = Path(f"/proc/{pid}")
    with suppress(OSError):
        is_zombie = (process / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
        return not is_zombie or len(os.listdir(process / "task")) > 1
    return False


def owned_by(path: Path, user: str) -> None:
    """Give a file or directory to a user."""
    entry = pwd.getpwnam(user)
    os.chown(path, entry.pw_uid, entry.pw_gid)


PYTHON = sys.executable
