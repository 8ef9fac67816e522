"""PostgreSQL, with one user and a password. It does not run as root: Debian's user ``postgres`` does it then."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from scripts.servers.server import PASSWORD, USER, Server, owned_by


class Postgres(Server):
    """Debian's. Nothing of it survives a power cut, which makes it quick."""

    name, command, package = "postgres", "postgres", "postgresql"

    @classmethod
    def found(cls) -> str | None:
        """The newest; Debian has it on no path."""
        every = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda one: int(one.parts[-3]))
        return str(every[-1]) if every else super().found()

    @property
    def address(self) -> str:
        """It wants a password from everybody."""
        return f"postgres://{USER}:{PASSWORD}@127.0.0.1:{self.port}/postgres"

    def identity(self) -> dict[str, str]:
        """Root may not run it."""
        return {"user": "postgres", "group": "postgres"} if os.getuid() == 0 else {}

    def prepare(self) -> None:
        """Make its cluster."""
        (self.directory / "password").write_text(PASSWORD)
        (self.directory / "log").touch()
        key = self.certificate.with_name("server.key")
        if os.getuid() == 0:
            owned_by(self.directory, "postgres")
            owned_by(key, "postgres")
        initdb = str(Path(self.found() or "").with_name("initdb"))
        words = [initdb, "-D", str(self.directory / "data"), "-U", USER, "--auth=scram-sha-256", "-N", "-E", "UTF8"]
        file = f"--pwfile={self.directory / 'password'}"
        subprocess.run([*words, file, "--locale=C"], check=True, capture_output=True, **self.identity())  # type: ignore[call-overload]

    def words(self) -> Sequence[str]:
        """The command."""
        own = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "fsync": "off",
            "shared_buffers": "32MB",
            "max_connections": "40",
            "ssl": "on",
            "ssl_cert_file": str(self.certificate),
            "ssl_key_file": str(self.certificate.with_name("server.key")),
        }
        settings = [word for name, value in own.items() for word in ("-c", f"{name}={value}")]
        return [self.found() or self.command, "-D", str(self.directory / "data"), *settings]

    def answers(self) -> bool:
        """Whether it takes the password."""
        import asyncio

        import asyncpg

        async def ask() -> None:
            connection = await asyncpg.connect(self.address, timeout=3, ssl=False)
            await connection.close()

        try:
            asyncio.run(ask())
        except (OSError, asyncpg.PostgresError, asyncio.TimeoutError):
            return False
        return True
