"""The admin API of a cluster, as a server of HTTP answers for it (D-20, D-24)."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from speed.errors import ConfigurationError, StorageError
from speed.topics.cluster.broker import Admin, Cluster, ConflictError, NotThereError
from speed.topics.subscription import SubscriptionError


class Server(ThreadingHTTPServer):
    """Answers with ``status`` and ``body``, and notes what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status, self.body = 200, b""
        self.asked: list[tuple[str, str, bytes, str | None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.asked.append((self.command, self.path, body, self.headers.get("Authorization")))
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    do_GET = do_PUT = do_POST = do_DELETE = _answer  # noqa: N815 - names of the standard library

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def admin(server: Server) -> Admin:
    return Admin(server.url + "/", "shop/orders", lambda: "secret")


def test_what_is_asked_names_the_topic_and_shows_the_token(server: Server, admin: Admin) -> None:
    server.body = b'{"a": 1}'
    assert admin.get("a.b", "stats", precise="true") == {"a": 1}
    admin.put("a", "", {"speed.lane": "x"})
    admin.post("a", "deduplicationEnabled", True)
    admin.delete("a", force="true")
    begins, bearer = "/admin/v2/persistent/shop/orders/", "Bearer secret"
    assert server.asked == [
        ("GET", begins + "a.b/stats?precise=true", b"", bearer),
        ("PUT", begins + "a", b'{"speed.lane": "x"}', bearer),
        ("POST", begins + "a/deduplicationEnabled", b"true", bearer),
        ("DELETE", begins + "a?force=true", b"", bearer),
    ]


def test_topics_of_the_namespace_are_listed_by_their_names(server: Server, admin: Admin) -> None:
    server.body = json.dumps(["persistent://shop/orders/a", "persistent://shop/orders/b-partition-0", "other"]).encode()
    assert admin.topics() == ["a", "b-partition-0"]


@pytest.mark.parametrize(
    ("status", "body", "error", "text"),
    [
        (404, b'{"reason": "Topic not found"}', NotThereError, "Topic not found"),
        (409, b"", ConflictError, "Conflict"),
        (412, b"[]", ConflictError, "Precondition Failed"),
        (401, b'{"reason": "no token"}', SubscriptionError, "no token; check its token"),
        (500, b"\xff", SubscriptionError, "answers 500: Internal Server Error; try again"),
        (200, b"<html>", StorageError, "does not answer"),
        (503, b'{"reason": "' + b"x" * 5000 + b'"}', StorageError, "x" * 300 + "; try again"),
    ],
)
def test_what_is_refused_says_what_it_means(
    server: Server, admin: Admin, status: int, body: bytes, error: type[Exception], text: str
) -> None:
    server.status, server.body = status, body
    with pytest.raises(error, match=text):
        admin.get("a", "stats")


def test_a_server_that_is_away_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(StorageError, match=r"does not answer: .*refused; try again"):
        Admin(f"http://127.0.0.1:{port}", "a/b", lambda: "").topics()


def test_a_certificate_that_nobody_vouches_for_is_refused(server: Server, tmp_path: Path) -> None:
    trusted = tmp_path / "ca.pem"
    trusted.write_text("no certificate")
    with pytest.raises(ConfigurationError, match=f"certificates cannot be read from {trusted}"):
        Admin("https://127.0.0.1:1", "a/b", lambda: "", str(trusted))
    with pytest.raises(StorageError, match="does not answer"):
        Admin(server.url.replace("http", "https"), "a/b", lambda: "").topics()


def test_a_token_is_read_anew_each_time(tmp_path: Path) -> None:
    file = tmp_path / "token"
    cluster = Cluster("pulsar://a", "http://a", token_file=str(file))
    with pytest.raises(StorageError, match=f"cannot be read from {file}"):
        cluster.token()
    for text in ("one\n", "two"):
        file.write_text(text)
        assert cluster.token() == text.strip()
    assert Cluster("pulsar://a", "http://a").token() == ""


def test_the_policies_of_the_namespace_are_asked_for(server: Server, admin: Admin) -> None:
    server.body = b'{"deduplicationEnabled": true}'
    assert admin.policies() == {"deduplicationEnabled": True}
    assert server.asked[0][:2] == ("GET", "/admin/v2/namespaces/shop/orders")
