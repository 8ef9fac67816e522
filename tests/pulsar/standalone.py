"""A Pulsar standalone, and its Java client."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

from scripts.servers.server import lives
from tests.pulsar.keys import make_key

ROOT = Path(__file__).resolve().parents[2]
LOGS = ROOT / "tests/pulsar/server/log4j2.xml"
LIBRARIES = f"{ROOT}/build/pulsar/lib/*"
PEER_SECONDS = 120.0


class Server:
    """All its files are in ``directory``; ``keys`` are those that its Java client uses.

    Args:
        held: names of keys with which its WebSocket service encrypts and decrypts.
    """

    def __init__(self, directory: Path, held: Sequence[str] = ()) -> None:
        self.directory, self.keys = directory, directory / "peer"
        self.keys.mkdir()
        for name, kind in (("rsa", "rsa"), ("other", "rsa"), ("ec", "ec")):
            make_key(self.keys, name, kind)
        for name in held:
            (directory / "keys").mkdir(exist_ok=True)
            make_key(directory / "keys", name)
        self.certificate = directory / "server.pem"
        self.tls = self._with_tls()
        self.start()
        lines = (directory / "addresses").read_text().split()
        self.addresses = dict(line.split("=", 1) for line in lines)

    def _script(self, verb: str) -> None:
        words = [f"{ROOT}/scripts/pulsar", verb, str(self.directory)]
        done = subprocess.run(words, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 0, done.stderr

    def _with_tls(self) -> dict[str, str]:
        """The addresses for TLS, with a certificate that stands for itself."""
        private, where = self.directory / "server.key", "subjectAltName=DNS:localhost,IP:127.0.0.1"
        words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=localhost"]
        files = ["-addext", where, "-keyout", str(private), "-out", str(self.certificate)]
        subprocess.run(["openssl", *words, *files], check=True, capture_output=True)
        with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
            broker, web = (taken.getsockname()[1] for taken in (one, two))
        (self.directory / "more.conf").write_text(
            f"brokerServicePortTls={broker}\nwebServicePortTls={web}\n"
            f"tlsCertificateFilePath={self.certificate}\ntlsKeyFilePath={private}\n"
        )
        return {"broker": f"pulsar+ssl://localhost:{broker}", "admin": f"https://localhost:{web}"}

    def public(self, *names: str) -> dict[str, bytes]:
        return {name: (self.keys / f"{name}.public.pem").read_bytes() for name in names}

    def private(self, *names: str) -> dict[str, bytes]:
        return {name: (self.keys / f"{name}.private.pem").read_bytes() for name in names}

    def java(self, verb: str, topic: str, *words: str) -> str:
        """What Pulsar's Java client prints; ``server/Peer.java`` names the words."""
        java = ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Dlog4j.configurationFile={LOGS}"]
        java += ["-cp", f"{self._compiled_peer()}:{LIBRARIES}"]
        program = ["Peer", verb, self.addresses["broker"], topic, str(self.keys)]
        environment = {**os.environ, "JAVA_TOOL_OPTIONS": ""}
        done = subprocess.run(
            [*java, *program, *words],
            check=False,
            capture_output=True,
            text=True,
            timeout=PEER_SECONDS,
            env=environment,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout

    def _compiled_peer(self) -> Path:
        """Where the class of the Java client is; compiled once, which takes longer than most of what it does."""
        classes = self.directory / "peer-classes"
        if not (classes / "Peer.class").exists():
            words = ["javac", "-d", str(classes), "-cp", LIBRARIES, f"{ROOT}/tests/pulsar/server/Peer.java"]
            done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=PEER_SECONDS)
            assert done.returncode == 0, done.stderr[-4000:]
        return classes

    def admin(self, method: str, path: str, body: object = None) -> Any:
        """What the admin API answers."""
        url, data = f"{self.addresses['admin']}/admin/v2/{path}", None if body is None else json.dumps(body).encode()
        asked = Request(url, data, {"Content-Type": "application/json"}, method=method)
        with build_opener(ProxyHandler({})).open(asked, timeout=PEER_SECONDS) as answer:
            told = answer.read()
        return json.loads(told) if told else None

    def start(self) -> None:
        """Also again, after ``kill``: it has the same addresses."""
        self._script("start")

    def kill(self) -> None:
        """It dies at once."""
        pid = int((self.directory / "pid").read_text())
        os.kill(pid, signal.SIGKILL)
        while lives(pid):
            time.sleep(0.05)

    def stop(self) -> None:
        self._script("stop")
