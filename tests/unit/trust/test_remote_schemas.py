"""Schemas from an https registry: found, absent, and what is not followed (M-29)."""

from __future__ import annotations

import datetime
import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from speed.message.errors import SchemaError
from speed.message.schemas.registry import SchemaRegistry

SCHEMA = json.dumps({"type": "object", "required": ["id"]}).encode()
asked: list[str] = []


class Registry(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class calls it so
        """Nothing: pytest's output is not the place."""

    def do_GET(self) -> None:
        asked.append(self.path)
        status = {"/schemas/Order/v1.json": 200, "/schemas/Moved/v1.json": 302, "/schemas/Broken/v1.json": 500}
        found = status.get(self.path, 404)
        self.send_response(found)
        if found == 302:
            self.send_header("Location", "/schemas/Order/v1.json")
        body = SCHEMA if found == 200 else b""
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def certificate(folder: Path) -> tuple[str, str]:
    """A certificate of 127.0.0.1 that trusts itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "registry")])
    now = datetime.datetime.now(datetime.timezone.utc)
    host = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    built = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    built = built.not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(now + datetime.timedelta(days=1))
    built = built.add_extension(host, critical=False).add_extension(x509.BasicConstraints(True, None), critical=True)
    pem = serialization.Encoding.PEM
    (folder / "cert.pem").write_bytes(built.sign(key, hashes.SHA256()).public_bytes(pem))
    plain = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(plain)
    return str(folder / "cert.pem"), str(folder / "key.pem")


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    cert, key = certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", cert)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    asked.clear()
    yield f"https://localhost:{server.server_port}/schemas"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_schema_is_fetched_once_and_described(address: str) -> None:
    schemas = SchemaRegistry(address)
    found = [schemas.get("Order", "v1") for _ in range(3)]
    assert found[0].fields["schema_url"] == f"{address}/Order/v1.json"
    assert asked == ["/schemas/Order/v1.json"]


def test_what_a_registry_does_not_have_is_not_asked_for_again_at_once(address: str) -> None:
    """A stranger who names schemas must not make this node hammer its registry."""
    schemas = SchemaRegistry(address)
    assert [schemas.find("None", "v1") for _ in range(5)] == [None] * 5
    assert len(asked) == 3  # one for each ending


@pytest.mark.parametrize("name", ["Moved", "Broken"])
def test_redirects_and_failures_are_named_errors(address: str, name: str) -> None:
    with pytest.raises(SchemaError, match="answers"):
        SchemaRegistry(address).get(name, "v1")
    assert asked == [f"/schemas/{name}/v1.json"]


def test_a_registry_nobody_vouches_for_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(SchemaError, match="does not answer"):
        SchemaRegistry(address).get("Order", "v1")


def test_a_registry_that_does_not_answer_is_left_alone_for_a_while() -> None:
    schemas = SchemaRegistry("https://localhost:1/schemas")
    for name in ("Order", "Other"):
        with pytest.raises(SchemaError, match=r"Order/v1\.json: the registry does not answer"):
            schemas.find(name, "v1")


def test_the_newest_version_of_a_remote_registry_is_not_guessed(address: str) -> None:
    with pytest.raises(SchemaError, match="name a version"):
        SchemaRegistry(address).latest("Order")
