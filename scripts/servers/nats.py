"""NATS with JetStream: anybody may do everything, and one user has a password and little room."""

from __future__ import annotations

from collections.abc import Sequence

from scripts.servers.server import PASSWORD, USER, Server

_SETTINGS = """listen: "127.0.0.1:{port}"
jetstream {{ store_dir: "{directory}/jetstream", max_file_store: 1GB }}
authorization {{
  users: [
    {{ user: open, password: "" }}
    {{ user: {user}, password: "{password}" }}
    {{ user: deaf, password: "{password}", permissions: {{ publish: {{ deny: ">" }} }} }}
  ]
}}
no_auth_user: open
"""


class Nats(Server):
    """Debian's."""

    name, command, package = "nats", "nats-server", "nats-server"

    def prepare(self) -> None:
        """Write its settings."""
        text = _SETTINGS.format(port=self.port, directory=self.directory, user=USER, password=PASSWORD)
        (self.directory / "nats.conf").write_text(text)

    def words(self) -> Sequence[str]:
        """The command."""
        return [self.found() or self.command, "-c", str(self.directory / "nats.conf")]

    def answers(self) -> bool:
        """It listens once it is ready."""
        return self.listens()
