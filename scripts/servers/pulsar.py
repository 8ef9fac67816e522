"""Apache Pulsar 4.0.1: a standalone with its WebSocket service, in the clear and by TLS."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

from scripts.servers import archives
from scripts.servers.server import ROOT, Server

SOURCE = ROOT / "tests" / "pulsar" / "server"
HOME = ROOT / "build" / "pulsar"
LIBRARIES = f"{HOME}/lib/*"
_OPENED = (
    "java.base/java.nio",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.platform",
    "java.base/java.lang",
    "java.base/java.util.zip",
    "java.base/sun.net",
    "java.management/sun.management",
    "jdk.management/com.sun.management.internal",
)


class Pulsar(Server):
    """230 MB are downloaded once; it takes about 1 GB of memory.

    With a directory ``keys`` in its own its WebSocket service encrypts and decrypts, with ``NAME.public.pem`` and
    ``NAME.private.pem`` in it.
    """

    name, command, package = "pulsar", "javac", "openjdk-17-jdk-headless"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.web, self.web_tls = self._kept_port("web"), self._kept_port("web-tls")
        self.broker_tls = self._kept_port("broker-tls")

    @classmethod
    def provide(cls) -> None:
        """The archives as well."""
        super().provide()
        # Debian's Maven 3.8 does not end with these dependencies.
        archives.provide("Pulsar (230 MB)", SOURCE / "pom.xml", SOURCE / "jars.sha256", HOME, newer_maven=True)

    @property
    def addresses(self) -> dict[str, str]:
        """Of each of its services."""
        return {
            "websocket": f"ws://127.0.0.1:{self.web}",
            "broker": f"pulsar://127.0.0.1:{self.port}",
            "admin": f"http://127.0.0.1:{self.web}",
        }

    @property
    def tls(self) -> dict[str, str]:
        """The addresses for TLS, with ``certificate``, which stands for itself."""
        return {
            "broker": f"pulsar+ssl://localhost:{self.broker_tls}",
            "admin": f"https://localhost:{self.web_tls}",
        }

    def prepare(self) -> None:
        """Write its settings, and compile what reads its keys."""
        for name in ("conf", "tmp"):
            (self.directory / name).mkdir()
        text = (SOURCE / "standalone.conf").read_text()
        text = text.replace("@BROKER_PORT@", str(self.port)).replace("@WEB_PORT@", str(self.web))
        text += (
            f"brokerServicePortTls={self.broker_tls}\nwebServicePortTls={self.web_tls}\n"
            f"tlsCertificateFilePath={self.certificate}\ntlsKeyFilePath={self.directory / 'server.key'}\n"
        )
        if (self.directory / "keys").exists():
            text += "cryptoKeyReaderFactoryClassName=ServerKeys\n"
            words = ["javac", "-d", str(self.directory / "classes"), "-cp", LIBRARIES, str(SOURCE / "ServerKeys.java")]
            subprocess.run(words, check=True, capture_output=True, env={**os.environ, "JAVA_TOOL_OPTIONS": ""})
        (self.directory / "conf" / "standalone.conf").write_text(text)
        worker = "workerId: standalone\nworkerHostname: localhost\nworkerPort: 6750\n"
        (self.directory / "conf" / "functions_worker.yml").write_text(worker)

    def words(self) -> Sequence[str]:
        """The command."""
        memory = ["-Xmx768m", "-XX:MaxDirectMemorySize=512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        settings = ["io.netty.leakDetectionLevel=disabled", f"log4j.configurationFile={SOURCE}/log4j2.xml"]
        settings.append(f"java.io.tmpdir={self.directory}/tmp")
        opened = [f"--add-opens={place}=ALL-UNNAMED" for place in _OPENED]
        java = ["java", *memory, *opened, *(f"-D{one}" for one in settings), "-cp", f"classes:{LIBRARIES}"]
        files = ["--config", "conf/standalone.conf", "--metadata-dir", "meta", "--bookkeeper-dir", "bk"]
        return [*java, "org.apache.pulsar.PulsarStandaloneStarter", "-nss", "-nfw", "-a", "127.0.0.1", *files]

    def answers(self) -> bool:
        """Once the namespace of the topics is there."""
        namespaces = f"{self.addresses['admin']}/admin/v2/namespaces/public"
        with suppress(OSError), build_opener(ProxyHandler({})).open(namespaces, timeout=5) as answer:
            return b"public/default" in answer.read()
        return False
