"""Keys in a secret of Kubernetes, by its name: the API server's answers, and what is not followed (M-26)."""

from __future__ import annotations

import json
import ssl
import threading
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from speed.errors import ConfigurationError
from speed.message.errors import KeyRefusedError, KeyUnavailableError
from speed.message.keys import generate_key
from speed.message.providers import provider_of
from tests.unit.trust.test_remote_schemas import certificate

KEY = generate_key("orders.1", "aes-256-gcm")
TOKEN = "pod-token"
FIELDS = {"orders": b64encode(json.dumps(KEY.to_record()).encode()).decode(), "torn": "?"}
BODIES: dict[str, Any] = {"keys": {"data": FIELDS}, "empty": {}, "list": [], "text": "{"}
STATUS = {"moved": 302, "broken": 500}
asked: list[str] = []


class Server(BaseHTTPRequestHandler):
    """What an API server answers about secrets of one namespace."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class calls it so
        """Nothing: pytest's output is not the place."""

    def do_GET(self) -> None:
        asked.append(self.path)
        folder, _, name = self.path.rpartition("/")
        is_known = folder == "/api/v1/namespaces/shop/secrets" and (name in BODIES or name in STATUS)
        is_allowed = self.headers["Authorization"] == f"Bearer {TOKEN}"
        self.send_response(STATUS.get(name, 200 if is_known else 404) if is_allowed else 403)
        if name == "moved":
            self.send_header("Location", f"{folder}/keys")
        found = BODIES.get(name, "")
        body = (found if isinstance(found, str) else json.dumps(found)).encode()
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def options(tmp_path: Path) -> Iterator[str]:
    """The options of a URI that lead to a running server."""
    cert, key = certificate(tmp_path)
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, name="kubernetes", daemon=True)
    thread.start()
    asked.clear()
    yield f"server=https://localhost:{server.server_port}&token={tmp_path}/token&ca={cert}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_field_of_a_secret_gives_its_keys(options: str, caplog: pytest.LogCaptureFixture) -> None:
    (found,) = provider_of(f"k8s://shop/keys?key_field=orders&{options}").fetch()
    assert found.to_record() == KEY.to_record()
    assert asked == ["/api/v1/namespaces/shop/secrets/keys"]
    assert "Base64" in caplog.text


@pytest.mark.parametrize(
    ("secret", "field", "error", "said"),
    [
        ("keys", "other", KeyUnavailableError, "no field 'other'"),
        ("keys", "torn", KeyRefusedError, "not Base64"),
        ("empty", "orders", KeyUnavailableError, "no field"),
        ("list", "orders", KeyUnavailableError, "no field"),
        ("text", "orders", KeyUnavailableError, "does not answer"),
        ("none", "orders", KeyUnavailableError, "answers 404"),
        ("broken", "orders", KeyUnavailableError, "answers 500"),
        ("moved", "orders", KeyUnavailableError, "answers 302"),
    ],
)
def test_what_gives_no_keys_is_named(options: str, secret: str, field: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        provider_of(f"k8s://shop/{secret}?key_field={field}&{options}").fetch()
    assert len(asked) == 1


def test_an_account_that_may_not_read_the_secret_is_told_so(options: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("another")
    with pytest.raises(KeyRefusedError, match="allow `get`"):
        provider_of(f"k8s://shop/keys?key_field=orders&{options}").fetch()


@pytest.mark.parametrize(
    "uri", ["k8s://shop/keys", "k8s://shop", "k8s://shop/a/b?key_field=x", "k8s://shop/a?key_field=x&server=http://h"]
)
def test_a_reference_that_leads_nowhere_is_refused(uri: str) -> None:
    with pytest.raises(ConfigurationError, match="k8s://"):
        provider_of(uri)
