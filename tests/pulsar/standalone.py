"""A Pulsar standalone, and its Java client."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

from scripts.servers.pulsar import LIBRARIES, SOURCE, Pulsar
from tests.pulsar.keys import make_key

PEER_SECONDS = 120.0


class Server(Pulsar):
    """One that runs; ``keys`` are those that its Java client uses.

    Args:
        held: names of keys with which its WebSocket service encrypts and decrypts.
    """

    def __init__(self, directory: Path, held: Sequence[str] = ()) -> None:
        super().__init__(directory)
        self.keys = directory / "peer"
        self.keys.mkdir()
        for name, kind in (("rsa", "rsa"), ("other", "rsa"), ("ec", "ec")):
            make_key(self.keys, name, kind)
        for name in held:
            (directory / "keys").mkdir(exist_ok=True)
            make_key(directory / "keys", name)
        self.start()

    def public(self, *names: str) -> dict[str, bytes]:
        return {name: (self.keys / f"{name}.public.pem").read_bytes() for name in names}

    def private(self, *names: str) -> dict[str, bytes]:
        return {name: (self.keys / f"{name}.private.pem").read_bytes() for name in names}

    def java(self, verb: str, topic: str, *words: str) -> str:
        """What Pulsar's Java client prints; ``server/Peer.java`` names the words."""
        java = [
            "java",
            "-Xmx128m",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            f"-Dlog4j.configurationFile={SOURCE}/log4j2.xml",
        ]
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
            words = ["javac", "-d", str(classes), "-cp", LIBRARIES, f"{SOURCE}/Peer.java"]
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
