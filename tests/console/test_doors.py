"""Who is let into the console, from where, and what a browser may do with what it is given."""

from __future__ import annotations

import socket
from http.client import HTTPResponse
from urllib.parse import urlsplit

import pytest

from speed.console import MAX_SESSIONS, MAX_TOKENS, TOKEN_SECONDS, ConsoleSettings, Doorkeeper, is_own_host
from speed.console.server import HEAD_SECONDS, MAX_STREAMS
from tests.console.consoles import Served, Visitor
from tests.system.topics import until

OVERVIEW = "/api/overview"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def keeper(clock: Clock) -> Doorkeeper:
    return Doorkeeper(100.0, clock)


def test_a_token_lets_one_browser_in_and_no_second_one(keeper: Doorkeeper) -> None:
    token = keeper.token()
    session = keeper.enter(token)
    assert session is not None
    assert keeper.knows(session.cookie, session.key)
    assert keeper.enter(token) is None


@pytest.mark.parametrize("token", ["", "x", "é" * 50, "\udce9"])
def test_a_wrong_token_lets_nobody_in(keeper: Doorkeeper, token: str) -> None:
    keeper.token()
    assert keeper.enter(token) is None


def test_a_token_is_too_old_after_ten_minutes(keeper: Doorkeeper, clock: Clock) -> None:
    token = keeper.token()
    clock.now = TOKEN_SECONDS
    assert keeper.enter(token) is None


def test_a_session_ends(keeper: Doorkeeper, clock: Clock) -> None:
    session = keeper.enter(keeper.token())
    assert session is not None
    clock.now = 99.0
    assert keeper.knows(session.cookie, session.key)
    clock.now = 100.0
    assert not keeper.knows(session.cookie, session.key)


def test_a_cookie_is_worth_nothing_without_its_own_key(keeper: Doorkeeper) -> None:
    one, other = keeper.enter(keeper.token()), keeper.enter(keeper.token())
    assert one is not None
    assert other is not None
    for key in ("", other.key, one.cookie):
        assert not keeper.knows(one.cookie, key)
    keeper.leave(one.cookie)
    assert not keeper.knows(one.cookie, one.key)


def test_tokens_and_sessions_are_bounded(keeper: Doorkeeper) -> None:
    tokens = [keeper.token() for _ in range(MAX_TOKENS + 1)]
    assert keeper.enter(tokens[0]) is None
    sessions = [keeper.enter(keeper.token()) for _ in range(MAX_SESSIONS + 1)]
    assert [one is not None and keeper.knows(one.cookie, one.key) for one in sessions] == [
        False,
        *[True] * MAX_SESSIONS,
    ]


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:9000", "127.0.0.1:80", "[::1]:1", "LOCALHOST", "desk.example:1"]
)
def test_the_console_knows_its_own_names(host: str) -> None:
    assert is_own_host(host, ConsoleSettings(hosts=("desk.example",)))


@pytest.mark.parametrize(
    "host", ["", "evil.example", "127.0.0.1.evil.example", "localhost.", "10.0.0.1", "[::2]", "[", ":80"]
)
def test_the_console_knows_no_other_name(host: str) -> None:
    assert not is_own_host(host, ConsoleSettings(hosts=("desk.example",)))


# A running speedd, by HTTP.


def test_an_address_lets_in_once(served: Served) -> None:
    address = served.address()
    first = Visitor(served.port).entered(address)
    assert first.value(OVERVIEW)["speedd"] == "speedd"
    again = Visitor(served.port).entered(address)
    assert (again.cookie, again.key) == ("", "")


def test_a_stolen_cookie_alone_reads_nothing(served: Served, visitor: Visitor) -> None:
    assert visitor.status(OVERVIEW, {"X-Speed-Key": ""}) == 401
    assert visitor.status(OVERVIEW, {"X-Speed-Key": served.visitor().key}) == 401
    assert visitor.status(OVERVIEW, {"Cookie": ""}) == 401
    assert visitor.status(OVERVIEW) == 200


@pytest.mark.parametrize("path", ["/", "/enter?token=x", "/console.js", OVERVIEW, "/api/events"])
def test_a_name_of_elsewhere_is_refused(visitor: Visitor, path: str) -> None:
    """A page can have its own name lead to this machine."""
    assert visitor.status(path, {"Host": f"evil.example:{visitor.port}"}) == 403


def test_a_page_of_elsewhere_is_refused(visitor: Visitor) -> None:
    assert visitor.status(OVERVIEW, {"Origin": "http://127.0.0.1:1"}) == 403
    assert visitor.status(OVERVIEW, {"Origin": "null"}) == 403
    assert visitor.status(OVERVIEW, {"Sec-Fetch-Site": "cross-site"}) == 403
    assert visitor.status(OVERVIEW, {"Sec-Fetch-Site": "same-origin"}) == 200


def test_an_action_says_where_it_comes_from(visitor: Visitor) -> None:
    assert visitor.status("/api/leave", {"Origin": ""}, body={}) == 403
    assert visitor.status("/api/leave", {"Origin": "http://evil.example"}, body={}) == 403
    assert visitor.status("/api/leave") == 405
    assert visitor.status("/api/leave", body={}) == 200
    assert visitor.status(OVERVIEW) == 401


@pytest.mark.parametrize("path", ["/", "/enter?token=x", "/console.css", OVERVIEW, "/api/nodes/nobody"])
def test_each_answer_forbids_frames_strange_scripts_and_keeping(visitor: Visitor, path: str) -> None:
    headers = visitor.ask(path).headers
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert "script-src 'self';" in headers["Content-Security-Policy"]
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Access-Control-Allow-Origin"] is None


def test_a_cookie_is_for_this_host_and_no_script(served: Served) -> None:
    parts = urlsplit(served.address())
    cookie = Visitor(served.port).ask(f"{parts.path}?{parts.query}").headers["Set-Cookie"]
    assert cookie.startswith(f"speed-console-{served.port}=")
    assert {"HttpOnly", "SameSite=strict", "Max-Age=43200"} <= {one.strip() for one in cookie.split(";")}


def test_the_log_has_no_token(served: Served) -> None:
    token = served.address().partition("token=")[2]
    served.node("logged").close()
    assert not any(token in str(event) for event in served.speedd.events)


@pytest.mark.parametrize(
    "path", ["/nothing", "/../speed.key", "/%2e%2e/speedd.toml", "/page/index.html", "/api/nothing"]
)
def test_there_are_no_other_files(visitor: Visitor, path: str) -> None:
    assert visitor.status(path) == 404


def test_a_thousand_tabs_are_bounded(served: Served, visitor: Visitor) -> None:
    streams: list[HTTPResponse] = []
    try:
        for _ in range(1_000):
            answer = visitor.ask("/api/events")
            if answer.status == 200:
                assert answer.readline() == b": here\n"
                streams.append(answer)
            else:
                assert answer.status == 503
                assert b"too many pages look at this root: close some" in answer.read()
        assert len(streams) <= MAX_STREAMS
        assert visitor.value(OVERVIEW)["speedd"] == "speedd"
    finally:
        for one in streams:
            one.close()
    until(lambda: _streams_again(visitor))


def _streams_again(visitor: Visitor) -> bool:
    answer = visitor.ask("/api/events")
    answer.close()
    return answer.status == 200


def test_who_connects_and_says_nothing_is_not_waited_for(served: Served, visitor: Visitor) -> None:
    """Nor do many of them lock anybody out for longer."""
    silent = [socket.create_connection(("127.0.0.1", served.port), HEAD_SECONDS * 4) for _ in range(150)]
    try:
        silent[0].sendall(b"GET / HTTP/1.1\r\nHost: local")
        assert silent[0].recv(1) == b""
        until(lambda: visitor.status("/") == 200)
    finally:
        for one in silent:
            one.close()


def test_parameters_that_are_nonsense_are_refused(visitor: Visitor) -> None:
    for path in ("/api/nodes/" + "x" * 5000, "/api/nodes/..%2f..%2fetc", "/api/nodes/%00", "/api/describe/%E0"):
        assert visitor.status(path) == 404, path
    assert visitor.value("/api/history?node=%00&service=x&node=y") == {"kept": True, "points": []}
