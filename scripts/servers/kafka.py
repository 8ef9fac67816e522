"""Apache Kafka: one node that is its own controller, with a listener for all and one for who has a password."""

from __future__ import annotations

import os
import subprocess
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from scripts.servers import archives
from scripts.servers.server import PASSWORD, ROOT, USER, Server

SOURCE = ROOT / "tests" / "bridges" / "server"
HOME = ROOT / "build" / "kafka"
_ROLES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{secured},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{secured}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
user_{user}="{password}";
log.dirs={directory}/data
num.partitions=2
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
initial.broker.registration.timeout.ms=300000
group.min.session.timeout.ms=500
"""


class Kafka(Server):
    """Ready in seconds; 54 MB are downloaded once."""

    name, command, package = "kafka", "java", "openjdk-17-jre-headless"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.secured = self._kept_port("secured")
        self.controller = self._kept_port("controller")

    @classmethod
    def provide(cls) -> None:
        """The archives as well."""
        super().provide()
        archives.provide("Kafka (54 MB)", SOURCE / "pom.xml", SOURCE / "jars.sha256", HOME)

    def prepare(self) -> None:
        """Write its settings, and format its directory."""
        text = _ROLES.format(
            port=self.port,
            secured=self.secured,
            controller=self.controller,
            user=USER,
            password=PASSWORD,
            directory=self.directory,
        )
        (self.directory / "server.properties").write_text(text)
        tool = [*self._java("-Xmx128m"), "kafka.tools.StorageTool"]
        own_id = "A" + urlsafe_b64encode(uuid4().bytes).decode()[1:22]  # as its tool makes them, but without a JVM
        _told([*tool, "format", "-t", own_id, "-c", str(self.directory / "server.properties")])

    def _java(self, *options: str) -> list[str]:
        quiet = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", f"-Dkafka.logs.dir={self.directory}"]
        return [
            *("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *options, *quiet, "-cp", f"{HOME}/lib/*"),
        ]

    def words(self) -> Sequence[str]:
        """The command."""
        return [*self._java("-Xmx384m"), "kafka.Kafka", str(self.directory / "server.properties")]

    def answers(self) -> bool:
        """Whether it serves, and not only listens."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        if not self.listens():
            return False
        with suppress(KafkaException):
            asker = AdminClient({"bootstrap.servers": f"127.0.0.1:{self.port}", "log_level": 0})
            return bool(asker.list_topics(timeout=5).brokers)
        return False


def _told(words: Sequence[str]) -> str:
    own = {**os.environ, "JAVA_TOOL_OPTIONS": ""}
    return subprocess.run(words, check=True, capture_output=True, text=True, env=own).stdout
