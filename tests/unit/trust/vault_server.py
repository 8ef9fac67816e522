"""Vault's HTTP interface as far as a key provider uses it: KV version 2, and the logins by token, role and pod."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "hvs.good"
LOGINS = {
    "/v1/auth/approle/login": {"role_id": "role", "secret_id": "secret"},
    "/v1/auth/kubernetes/login": {"role": "orders", "jwt": "pod-token"},
}


@dataclass
class Vault:
    """What the server keeps; ``reads`` counts the secrets asked for."""

    address: str = ""
    secrets: dict[str, Any] = field(default_factory=dict)
    reads: int = 0


@contextmanager
def running_vault() -> Iterator[Vault]:
    vault = Vault()

    class Answer(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class calls it so
            """Nothing: pytest's output is not the place."""

        def do_GET(self) -> None:
            vault.reads += 1
            name = self.path.partition("?")[0].removeprefix("/v1/secret/data/")
            if self.headers.get("X-Vault-Token") != TOKEN:
                self._say(403, {"errors": ["permission denied"]})
            elif name not in vault.secrets:
                self._say(404, {"errors": []})
            else:
                self._say(200, {"data": {"data": vault.secrets[name], "metadata": {"version": 1}}})

        def do_POST(self) -> None:
            given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            good = LOGINS.get(self.path) == given
            self._say(*((200, {"auth": {"client_token": TOKEN}}) if good else (403, {"errors": ["denied"]})))

        def _say(self, status: int, body: Any) -> None:
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    vault.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield vault
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
