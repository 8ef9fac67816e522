"""Identities of nodes in Java, beside nodes in Python and in Java (I-1 to I-9)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

import speed
from speed.fs.keyfile import change_identity, change_key_file, read_identity, write_identity
from speed.wire import names
from speed.wire.entry import key_ids_in
from speed.wire.identities import NodeIdentity
from speed.wire.seal import key_id_of
from tests.interop.harness import Agent, AgentError, until
from tests.interop.languages import CHOSEN
from tests.interop.pool import Agents

pytestmark = pytest.mark.skipif("java" not in CHOSEN, reason="SPEED_PAIRS names no pair with Java")
WAIT = 20.0


def _who(request: speed.Request) -> list[str]:
    return [request.caller, request.caller_identity]


class Nodes:
    """Nodes with identities in a root of their own: an agent in Java, or a node of this process."""

    def __init__(self, agents: Agents, secrets: Path) -> None:
        self.root = agents.root
        self._agents, self._secrets = agents, secrets
        self.opened: list[speed.Node] = []

    def identity(self, name: str) -> str:
        """The file of an identity, made when it is first asked for."""
        path = str(self._secrets / f"{name}.identity")
        if not os.path.exists(path):
            write_identity(path, NodeIdentity.new())
        return path

    def fingerprint(self, name: str) -> str:
        return read_identity(self.identity(name)).fingerprint

    def java(self, name: str, *allow: str, identity: str = "", **options: Any) -> Agent:
        return self._agents.start(
            "java", name, allow=allow, identity=self.identity(identity or name), **options
        ).ready()

    def plain_java(self, name: str, *allow: str) -> Agent:
        return self._agents.start("java", name, allow=allow).ready()

    def python(self, name: str, *allow: str, identity: str = "", **options: Any) -> speed.Node:
        """It tells who calls."""
        file = self.identity(identity or name)
        node = speed.Node(name, root=self.root, engine="python", identity=file, allow=allow, **options)
        self.opened.append(node)
        node.register("who", _who)
        return node

    def lane(self, source: str, target: str) -> list[str]:
        return os.listdir(names.lane_dir(self.root, target, source))


@pytest.fixture
def nodes(private: Agents, tmp_path: Path) -> Iterator[Nodes]:
    made = Nodes(private, tmp_path)
    yield made
    for node in made.opened:
        node.close()


def who(node: speed.Node, target: str, timeout: float = WAIT) -> Any:
    return node.call(target, "who", {}, timeout=timeout)


def who_by(agent: Agent, target: str, timeout: float = WAIT) -> Any:
    return agent.ask("call", target=target, service="who", arguments={}, timeout=timeout)


def accepts(root: str, name: str, key: bytes) -> bool:
    """Whether a node says that it takes what this key seals."""
    return key_id_of(key) in key_ids_in(Path(names.entry_path(root, name)).read_bytes())


def test_java_is_told_which_identity_of_python_called(nodes: Nodes) -> None:
    server = nodes.java("server", "caller")
    assert who(nodes.python("caller"), server.name) == ["caller", nodes.fingerprint("caller")]
    assert any(one.endswith(".opening") for one in nodes.lane("caller", "server"))
    assert any(one.endswith(".opening") for one in nodes.lane("server", "caller"))


def test_java_is_told_which_identity_sent_a_message(nodes: Nodes) -> None:
    server = nodes.java("server", "caller", "plain")
    nodes.python("caller").send("server", 1)
    assert server.ask("receive", timeout=WAIT)["senderIdentity"] == nodes.fingerprint("caller")
    nodes.plain_java("plain").ask("send", target="server", payload=1)
    assert server.ask("receive", timeout=WAIT)["senderIdentity"] == ""


def test_python_is_told_which_identity_of_java_sent_a_message(nodes: Nodes) -> None:
    heard: Queue[tuple[str, str]] = Queue()
    nodes.python("server", "caller").on_message(lambda one: heard.put((one.source, one.sender_identity)))
    nodes.java("caller").ask("send", target="server", payload=1)
    assert heard.get(timeout=WAIT) == ("caller", nodes.fingerprint("caller"))


def test_python_is_told_which_identity_of_java_called(nodes: Nodes) -> None:
    nodes.python("server", "caller")
    assert who_by(nodes.java("caller"), "server") == ["caller", nodes.fingerprint("caller")]


def test_java_is_told_which_identity_of_java_called(nodes: Nodes) -> None:
    nodes.java("server", "caller")
    assert who_by(nodes.java("caller"), "server") == ["caller", nodes.fingerprint("caller")]


def test_a_grant_of_java_of_one_identity_is_for_no_other(nodes: Nodes) -> None:
    nodes.java("server", f"caller@{nodes.fingerprint('caller')}")
    with nodes.python("caller") as caller:
        assert who(caller, "server")[1] == nodes.fingerprint("caller")
    with nodes.python("caller", identity="other") as other, pytest.raises(speed.AccessDeniedError):
        who(other, "server")


def test_a_grant_of_python_of_one_identity_is_for_no_other(nodes: Nodes) -> None:
    nodes.python("server", f"caller@{nodes.fingerprint('caller')}")
    caller = nodes.java("caller")
    assert who_by(caller, "server")[1] == nodes.fingerprint("caller")
    caller.close()
    other = nodes.java("caller", identity="other")
    assert other.refusal("call", target="server", service="who", arguments={}).code == "ACCESS_DENIED"
    other.close()
    plain = nodes.plain_java("caller")
    assert plain.refusal("call", target="server", service="who", arguments={}).code == "ACCESS_DENIED"


def test_java_without_an_identity_goes_on_beside_identities(nodes: Nodes) -> None:
    server = nodes.python("server", "plain")
    plain = nodes.plain_java("plain", "server")
    assert who_by(plain, "server") == ["plain", ""]
    assert who(server, "plain") == ["server", ""]


def test_java_refuses_an_identity_that_changed(nodes: Nodes) -> None:
    server = nodes.java("server", "caller")
    with nodes.python("caller", "server") as first:
        who(first, "server")
    second = nodes.python("caller", "server", identity="other")
    assert server.refusal("ping", target="caller").code == "IDENTITY_CHANGED"
    with pytest.raises(speed.CallTimeoutError):
        who(second, "server", timeout=1)


def test_python_refuses_an_identity_of_java_that_changed(nodes: Nodes) -> None:
    server = nodes.python("server", "caller")
    first = nodes.java("caller", "server")
    who_by(first, "server")
    first.close()
    second = nodes.java("caller", "server", identity="other")
    with pytest.raises(speed.IdentityChangedError):
        server.ping("caller")
    with pytest.raises(AgentError, match="TIMEOUT"):
        who_by(second, "server", timeout=1)


def test_no_node_of_java_starts_with_the_identity_of_another(nodes: Nodes) -> None:
    nodes.python("caller")
    with pytest.raises(AgentError) as refused:
        nodes.java("other", identity="caller")
    assert refused.value.code == "IDENTITY_COPIED"


def test_java_writes_nothing_for_a_card_that_was_copied(nodes: Nodes) -> None:
    server = nodes.java("server", "caller")
    caller = nodes.python("caller", "server")
    card = caller._engine._context.registration.entry.identity  # type: ignore[attr-defined]
    with speed.Node("copy", root=nodes.root, engine="python", allow=["server"]) as copy:
        copy._engine._context.registration.update(identity=card)  # type: ignore[attr-defined]
        assert server.refusal("ping", target="copy").code == "IDENTITY"
        assert not os.path.exists(names.lane_dir(nodes.root, "copy", "server"))


@pytest.mark.parametrize("receiver", ["python", "java"])
def test_the_next_life_in_the_other_language_handles_what_was_accepted(nodes: Nodes, receiver: str) -> None:
    """The first is killed with one message in hand, and its exchange key is renewed before the next one starts."""
    mine = nodes.identity("server")
    first = nodes.java("server", "caller")
    caller = nodes.python("caller")
    caller.send("server", "in hand")
    caller.send("server", "waits")
    assert first.ask("receive", timeout=WAIT)["payload"] == "in hand"
    first.kill()
    change_identity(mine, lambda identity: identity.renewed(keep=1))
    caller.close()
    if receiver == "java":
        second = nodes.java("server", "caller")
        assert [second.ask("receive", timeout=WAIT)["payload"] for _ in range(2)] == ["in hand", "waits"]
        return
    heard: Queue[Any] = Queue()
    nodes.python("server", "caller").on_message(lambda message: heard.put(message.payload))
    assert {heard.get(timeout=WAIT), heard.get(timeout=WAIT)} == {"in hand", "waits"}


def test_links_go_on_when_the_shared_key_changes(nodes: Nodes) -> None:
    server = nodes.java("server", "caller", heartbeat=0.2, lease=20)
    caller = nodes.python("caller", "server", heartbeat_seconds=0.2, lease_seconds=20)
    before = who(caller, "server"), who_by(server, "caller")
    added = os.urandom(32)
    change_key_file(f"{nodes.root}/speed.key", lambda keys: (*keys, added))
    assert until(lambda: all(accepts(nodes.root, name, added) for name in ("caller", "server")), WAIT)
    change_key_file(f"{nodes.root}/speed.key", lambda keys: (added, keys[0]))

    def are_opened_again() -> bool:
        assert (who(caller, "server"), who_by(server, "caller")) == before
        lanes = nodes.lane("caller", "server"), nodes.lane("server", "caller")
        return all(sum(one.endswith(".opening") for one in lane) >= 2 for lane in lanes)

    assert until(are_opened_again, WAIT)


def test_java_takes_an_exchange_key_that_was_renewed_while_it_runs(nodes: Nodes) -> None:
    nodes.java("server", "caller", heartbeat=0.2, lease=20)
    caller = nodes.python("caller")
    before = who(caller, "server")
    change_identity(nodes.identity("server"), lambda identity: identity.renewed(keep=1))

    def is_opened_again() -> bool:
        assert who(caller, "server") == before
        return sum(one.endswith(".opening") for one in nodes.lane("caller", "server")) >= 2

    assert until(is_opened_again, WAIT)


@pytest.mark.parametrize("size", [1 << 20, 80 << 20], ids=["in a slot", "in segments"])
def test_large_payloads_cross_a_bound_link(nodes: Nodes, size: int) -> None:
    nodes.java("server", "caller")
    caller = nodes.python("caller")
    assert caller.call("server", "size", {"data": bytes(size)}, timeout=60) == size
