"""An S3 and an SQS that keep what they have in memory: moto, as a server, with one bucket and one queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scripts.servers.server import PASSWORD, PYTHON, USER, Server

BUCKET = "events"
QUEUE = f"{BUCKET}.fifo"


class Moto(Server):
    """Of PyPI. It forgets all when it ends."""

    name, command, package = "s3", PYTHON, "python3-moto"

    @property
    def endpoint(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def address(self) -> str:
        """It takes any credentials, but asks for some."""
        return f"s3://{USER}:{PASSWORD}@{BUCKET}?endpoint={self.endpoint}"

    def words(self) -> Sequence[str]:
        """The command."""
        return [PYTHON, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]

    def answers(self) -> bool:
        """Once its bucket is there."""
        from botocore.exceptions import BotoCoreError, ClientError

        if not self.listens():
            return False
        try:
            self.make(BUCKET)
        except (BotoCoreError, ClientError):
            return False
        return True

    def make(self, name: str) -> None:
        """A bucket."""
        self.client("s3").create_bucket(Bucket=name)

    def client(self, service: str) -> Any:
        """Of boto3."""
        import boto3
        from botocore.config import Config

        return boto3.client(
            service,
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=USER,
            aws_secret_access_key=PASSWORD,
            config=Config(connect_timeout=2, read_timeout=10, retries={"max_attempts": 0}, proxies={}),
        )


class MotoSqs(Moto):
    """An SQS; its queues keep order by key."""

    name = "sqs"

    @property
    def address(self) -> str:
        """It takes any credentials, but asks for some."""
        return f"sqs://{USER}:{PASSWORD}@{QUEUE}?endpoint={self.endpoint}&bucket={BUCKET}"

    def make(self, name: str) -> None:
        """A bucket, and a queue of its name."""
        super().make(name)
        self.client("sqs").create_queue(QueueName=f"{name}.fifo", Attributes={"FifoQueue": "true"})
