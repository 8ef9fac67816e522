"""A real Pulsar, and its Java client."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

import pytest

import speed.pulsar
from speed.pulsar import Pulsar

ROOT = Path(__file__).resolve().parents[2]
LOGS = ROOT / "tests/pulsar/server/log4j2.xml"
PEER_SECONDS = 120.0
CURVES = {"ec": "ec_paramgen_curve:prime256v1"}


class Server:
    """A Pulsar standalone in ``directory``; ``keys`` are those that its Java client uses."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.keys = directory, directory / "keys"
        self.certificate = directory / "server.pem"
        self.tls = self._with_tls()
        self.start()
        lines = (directory / "addresses").read_text().split()
        self.addresses = dict(line.split("=", 1) for line in lines)
        self.keys.mkdir()
        for name in ("rsa", "other", "ec"):
            self._make_key(name)

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

    def _make_key(self, name: str) -> None:
        kind = ["EC", "-pkeyopt", CURVES[name]] if name in CURVES else ["RSA", "-pkeyopt", "rsa_keygen_bits:2048"]
        made, private, public = (str(self.keys / f"{name}.{part}.pem") for part in ("made", "private", "public"))
        for words in (
            ["genpkey", "-algorithm", *kind, "-out", made],
            ["pkey", "-traditional", "-in", made, "-out", private],  # the only form that Pulsar's Java client reads
            ["pkey", "-pubout", "-in", made, "-out", public],
        ):
            subprocess.run(["openssl", *words], check=True, capture_output=True)

    def public(self, *names: str) -> dict[str, bytes]:
        return {name: (self.keys / f"{name}.public.pem").read_bytes() for name in names}

    def private(self, *names: str) -> dict[str, bytes]:
        return {name: (self.keys / f"{name}.private.pem").read_bytes() for name in names}

    def java(self, verb: str, topic: str, *words: str) -> str:
        """What Pulsar's Java client prints; ``server/Peer.java`` names the words."""
        java = ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", f"-Dlog4j.configurationFile={LOGS}"]
        java += ["-cp", f"{ROOT}/build/pulsar/lib/*"]
        program = [f"{ROOT}/tests/pulsar/server/Peer.java", verb, self.addresses["broker"], topic, str(self.keys)]
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
        while Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().split(")")[1][:3]:
            time.sleep(0.05)

    def stop(self) -> None:
        self._script("stop")


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    one = Server(tmp_path_factory.mktemp("pulsar"))
    yield one
    one.stop()


@pytest.fixture
def pulsar(server: Server) -> Iterator[Pulsar]:
    with speed.pulsar.connect(server.addresses["websocket"]) as one:
        yield one


@pytest.fixture
def topic() -> str:
    return f"public/default/{uuid.uuid4().hex}"


@pytest.fixture
def joined(pulsar: Pulsar, topic: str) -> Callable[..., speed.pulsar.Consumer]:
    """A consumer whose subscription is there."""

    def make(**options: object) -> speed.pulsar.Consumer:
        consumer = pulsar.consumer(topic, "billing", **options)  # type: ignore[arg-type]
        consumer.receive(0.1)
        return consumer

    return make
