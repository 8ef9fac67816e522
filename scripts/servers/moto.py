"""An S3 that keeps what it has in memory: moto, as a server, with one bucket."""

from __future__ import annotations

from collections.abc import Sequence

from scripts.servers.server import PASSWORD, PYTHON, USER, Server

BUCKET = "events"


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
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError, ClientError

        if not self.listens():
            return False
        client = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=USER,
            aws_secret_access_key=PASSWORD,
            config=Config(connect_timeout=2, read_timeout=10, retries={"max_attempts": 0}, proxies={}),
        )
        try:
            client.create_bucket(Bucket=BUCKET)
        except (BotoCoreError, ClientError):
            return False
        return True
