"""Links of two identities, between nodes of each two languages (registry_spec/identity.md)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import speed
from speed.fs.keyfile import KnownIdentities, change_identity, read_identity, write_identity
from speed.wire import names
from speed.wire.identities import NodeIdentity
from tests.interop.harness import Agent, AgentError, until
from tests.interop.languages import pairs
from tests.interop.pool import Agents
from tests.interop.test_keys import speed_key

OFTEN = {"heartbeat": 0.3, "lease": 10}

pytestmark = pairs("calls")


class Identities:
    """Agents of a root, each with an identity file of its name."""

    def __init__(self, agents: Agents, directory: Path) -> None:
        self.agents, self.directory = agents, directory

    def path(self, name: str) -> str:
        path = str(self.directory / f"{name}.identity")
        if not os.path.exists(path):
            write_identity(path, NodeIdentity.new(()))
        return path

    def fingerprint(self, name: str) -> str:
        return read_identity(self.path(name)).fingerprint

    def agent(self, language: str, name: str, identity: str = "", allow: tuple[str, ...] = ()) -> Agent:
        return self.agents.start(language, name, allow=allow, identity=self.path(identity or name), **OFTEN).ready()


@pytest.fixture
def identities(private: Agents, tmp_path: Path) -> Identities:
    return Identities(private, tmp_path)


def openings(root: str, target: str, source: str) -> int:
    return sum(one.endswith(".opening") for one in os.listdir(names.lane_dir(root, target, source)))


def test_each_is_told_the_identity_of_the_other(identities: Identities, source: str, target: str) -> None:
    server = identities.agent(target, "server", allow=(f"caller@{identities.fingerprint('caller')}",))
    caller = identities.agent(source, "caller")
    assert caller.call(server, "who", {}) == ["caller", identities.fingerprint("caller")]
    assert openings(identities.agents.root, "server", "caller") == 1
    assert openings(identities.agents.root, "caller", "server") == 1


def test_large_payloads_and_streams_come_by_a_bound_link(identities: Identities, source: str, target: str) -> None:
    server = identities.agent(target, "server", allow=("caller",))
    caller = identities.agent(source, "caller")
    for size in (1, 1 << 20, 70 << 20):
        assert caller.call(server, "size", {"data": bytes(size)}, timeout=60.0) == size


def test_another_identity_under_a_known_name_is_refused(identities: Identities, source: str, target: str) -> None:
    server = identities.agent(target, "server", allow=("caller",))
    caller = identities.agent(source, "caller", allow=("server",))
    assert caller.call(server, "add", {"a": 1, "b": 2}) == 3
    caller.close()
    other = identities.agent(source, "caller", "other", allow=("server",))
    with pytest.raises(AgentError) as refused:
        other.call(server, "add", {"a": 1, "b": 2}, timeout=1.0)
    assert refused.value.code == "TIMEOUT"
    assert server.refusal("send", target="caller", payload="for the first alone").code == "IDENTITY_CHANGED"


def test_who_is_only_told_that_it_has_no_grant_is_not_remembered(
    identities: Identities, monkeypatch: pytest.MonkeyPatch, source: str, target: str
) -> None:
    """I-7: the stranger has the shared key, and writes whatever entries say."""
    server = identities.agent(target, "server", allow=("guest.*", "caller"))
    server.ask("deny", patterns=["guest.*"])
    monkeypatch.setattr("speed.engine.python.links.Links._check_grant", lambda *_: None)
    identity = identities.path("guest.eve")
    with speed.Node(
        "guest.eve", root=identities.agents.root, engine="python", identity=identity, allow=["server"]
    ) as guest:
        for _ in range(2):
            with pytest.raises(speed.AccessDeniedError):
                guest.call("server", "add", {"a": 1, "b": 2}, timeout=20)
        identities.agent(source, "caller").call(server, "add", {"a": 1, "b": 2})
        assert [*KnownIdentities(identities.path("server")).all()] == ["caller"]
        server.ask("send", target="guest.eve", payload="of its own accord")
        assert {*KnownIdentities(identities.path("server")).all()} == {"caller", "guest.eve"}


def test_calls_go_on_while_keys_are_renewed(identities: Identities, source: str, target: str) -> None:
    server = identities.agent(target, "server", allow=("caller",))
    caller = identities.agent(source, "caller")
    root = identities.agents.root
    expected = ["caller", identities.fingerprint("caller")]
    assert caller.call(server, "who", {}) == expected
    for step in ("add", "promote"):
        assert until(lambda: speed_key(root, "rotate", "--step", step) is not None)  # noqa: B023
        assert until(lambda: speed_key(root, "status") is not None), f"not everybody took the file of {step}"

    def is_opened_again() -> bool:
        assert caller.call(server, "who", {}) == expected
        return openings(root, "server", "caller") >= 2

    assert until(is_opened_again)
    change_identity(identities.path("server"), lambda identity: identity.renewed(keep=1))
    seen = openings(root, "server", "caller")

    def is_opened_for_the_renewed_key() -> bool:
        assert caller.call(server, "who", {}) == expected
        return openings(root, "server", "caller") > seen

    assert until(is_opened_for_the_renewed_key)
