"""What the console shows of topics and the journal, and what it may do, by HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.console.consoles import SERVED, Served, Visitor

ACTIONS = ("call", "seek", "redrive", "retry")


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("body", [{}, {"node": "", "service": "x"}, {"topic": 1}, {"node": "../x", "number": 1}])
def test_a_body_that_is_none_is_refused(visitor: Visitor, action: str, body: object) -> None:
    assert visitor.status(f"/api/{action}", body=body) == 400


def test_an_action_is_an_object_of_json(visitor: Visitor) -> None:
    assert visitor.status("/api/call", body=[1]) == 400
    assert visitor.status("/api/call", {"Content-Type": "text/plain"}, body={}) == 415
    assert visitor.status("/api/call", body={"node": "x" * (1 << 20)}) == 413


def test_a_call_is_answered_or_says_why_not(visitor: Visitor) -> None:
    call = {"node": "billing", "service": "tax", "arguments": {"amount": 10.0}}
    assert visitor.value("/api/call", call)["result"] == 2.0
    assert visitor.status("/api/call", body={**call, "arguments": {"amount": "ten"}}) == 400
    assert visitor.status("/api/call", body={**call, "node": "closed"}) == 502


def test_a_topic_that_speedd_may_not_manage_is_not_moved(visitor: Visitor) -> None:
    seek = {"topic": "secret", "subscription": "none", "to": "earliest"}
    answer = visitor.ask("/api/seek", body=seek)
    assert answer.status == 502
    assert b"may not manage" in answer.read()


def test_dead_letters_of_a_topic_that_speedd_may_not_manage_stay(visitor: Visitor) -> None:
    answer = visitor.ask("/api/redrive", body={"topic": "secret"})
    assert answer.status == 502
    assert b"may not manage" in answer.read()


def test_messages_of_a_topic_are_for_who_may_consume_them(visitor: Visitor) -> None:
    assert visitor.status("/api/topics/secret") == 502
    assert visitor.value("/api/topics/orders?from=1")["messages"][0]["offset"] == 1
    assert visitor.status("/api/topics/orders?from=never") == 502
    assert visitor.status("/api/topics/nothing") == 502


def test_the_journal_takes_any_search(visitor: Visitor) -> None:
    for query in ("since=nan", "since=-1", "subject=%00", "text=" + "x" * 5000, "subject=[[[&source=***"):
        assert visitor.value(f"/api/journal?{query}")["kept"] is True


@pytest.fixture(scope="module")
def looking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A console that looks only, of a speedd that hosts nothing."""
    config = "[console]\nport = 0\n"
    with closing(Served(tmp_path_factory.mktemp("looking"), config)) as made:
        yield made


@pytest.mark.parametrize("action", ACTIONS)
def test_without_actions_nothing_is_done(looking: Served, action: str) -> None:
    visitor = looking.visitor()
    assert visitor.status(f"/api/{action}", body={"node": "x", "service": "y", "arguments": {}}) == 403
    assert visitor.value("/api/overview")["actions"] is False


def test_what_is_not_hosted_is_empty(looking: Served) -> None:
    visitor = looking.visitor()
    assert visitor.value("/api/topics")["hosted"] is False
    assert visitor.value("/api/journal")["kept"] is False
    assert visitor.value("/api/bridges") == {"bridges": [], "gateway": None}
    assert visitor.status("/api/topics/orders") == 404


def test_a_week_is_kept_in_a_file_of_this_user_alone(served: Served) -> None:
    file = served.directory / "week"
    assert file.stat().st_mode & 0o777 == 0o600


def test_the_configuration_is_checked(tmp_path: Path) -> None:
    from speed.daemon.config_check import check_text

    _, mistakes = check_text('[console]\naddress = "0.0.0.0"\nport = -1\nhostz = []\n', tmp_path / "speedd.toml")
    assert [one.line for one in mistakes] == [2, 3, 4]
    _, mistakes = check_text('[console]\naddress = "::1"\ncertificate = "c"\n', tmp_path / "speedd.toml")
    assert "TLS needs both" in mistakes[0].what
    config, mistakes = check_text(SERVED, tmp_path / "speedd.toml")
    assert mistakes == []
    assert config is not None
    assert config.console is not None
    assert config.console.actions
