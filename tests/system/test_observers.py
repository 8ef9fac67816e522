"""Who the owner of a root lets look at its nodes: they ping and read figures without a grant, no more (A-7)."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import speed
from speed.errors import AccessDeniedError
from speed.fs.keyfile import load_key_file, write_identity
from speed.fs.registry import Registry
from speed.fs.root import prepare_root
from speed.wire.identities import NodeIdentity
from tests.system.commands import Command

pytestmark = pytest.mark.system

PATIENCE = 20.0
Make = Callable[..., speed.Node]


def write_observers(root: str | Path, text: str) -> Path:
    prepare_root(str(root))
    path = Path(root) / "speed_registry" / ".observers"
    path.write_text(text)
    path.chmod(0o600)
    return path


def observers_in_entry(root: str | Path, name: str) -> tuple[str, ...]:
    entry = Registry(str(root), load_key_file(f"{root}/speed.key")).live(name)
    assert entry is not None
    return entry.observers


def until(holds: Callable[[], bool]) -> None:
    ends = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.02)


@pytest.fixture(params=["python", "native"])
def pricing(root: str, node: Make, request: pytest.FixtureRequest) -> speed.Node:
    """A node that grants nothing, with a service that it lets nobody call; `cli.*` may look."""
    write_observers(root, "cli.*\n")
    made = node("pricing", engine=request.param, heartbeat_seconds=0.1)
    made.register("quote", lambda price: price, allow=())
    return made


@pytest.fixture(params=["python", "native"])
def looker(node: Make, pricing: speed.Node, request: pytest.FixtureRequest) -> speed.Node:
    return node("cli.1", engine=request.param)


def test_an_observer_pings_and_reads_all_figures_without_a_grant(pricing: speed.Node, looker: speed.Node) -> None:
    assert looker.ping("pricing") > 0
    answer = looker.stats("pricing")
    assert answer["name"] == "pricing"
    assert "refusedSenders" in answer
    assert not answer["refusedSenders"]


def test_an_observer_reads_the_figures_of_services_that_it_may_not_call(
    pricing: speed.Node, looker: speed.Node
) -> None:
    pricing.register("total", lambda price: price, allow=["pricing"])
    pricing.allow("pricing")
    pricing.call("pricing", "total", {"price": 1})
    until(lambda: "total" in looker.stats("pricing")["services"])  # counted when its answer was written
    assert looker.stats("pricing")["services"]["total"]["numRequests"] == 1


@pytest.mark.parametrize(
    "act",
    [
        lambda node: node.call("pricing", "quote", {"price": 1}),
        lambda node: node.send("pricing", b"text"),
        lambda node: node.services("pricing"),
        lambda node: node.info("pricing"),
        lambda node: node.describe("pricing"),
    ],
    ids=["call", "send", "services", "info", "describe"],
)
def test_an_observer_does_nothing_else(pricing: speed.Node, looker: speed.Node, act: Callable[[Any], Any]) -> None:
    looker.stats("pricing")  # a right to look that was just used is no right to write
    with pytest.raises(AccessDeniedError):
        act(looker)


def test_a_message_of_an_observer_that_writes_it_all_the_same_is_discarded(
    root: str, pricing: speed.Node, node: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The receiver judges again, whatever the sender thinks."""
    monkeypatch.setattr("speed.engine.python.links.granted", lambda *_: True)
    monkeypatch.setattr("speed.engine.python.links.Links._is_granted", lambda *_: True)
    sly = node("cli.2", engine="python")
    sly.send("pricing", b"text")
    with pytest.raises(AccessDeniedError):
        sly.call("pricing", "quote", {"price": 1}, timeout=PATIENCE)
    until(lambda: sly.stats("pricing")["refusedSenders"].get("cli.2") == 2)
    assert pricing.receive(timeout=0.0) is None


def test_who_is_no_observer_is_refused(pricing: speed.Node, node: Make) -> None:
    with pytest.raises(AccessDeniedError):
        node("web").stats("pricing")


def test_a_denial_holds_for_observers_too(root: str, pricing: speed.Node, looker: speed.Node) -> None:
    pricing.deny("cli.*")
    with pytest.raises(AccessDeniedError):
        looker.stats("pricing")
    with pytest.raises(AccessDeniedError):
        looker.ping("pricing")
    pricing.allow("cli.1")
    assert looker.info("pricing")["name"] == "pricing"


def test_a_running_node_takes_what_the_owner_changes(root: str, pricing: speed.Node, looker: speed.Node) -> None:
    path = write_observers(root, "web\n")
    until(lambda: observers_in_entry(root, "pricing") == ("web",))
    with pytest.raises(AccessDeniedError):
        looker.stats("pricing")
    path.unlink()
    until(lambda: observers_in_entry(root, "pricing") == ())
    write_observers(root, "# the operator\ncli.*  # all commands\n")
    until(lambda: observers_in_entry(root, "pricing") == ("cli.*",))
    looker.stats("pricing")


def test_a_file_that_others_can_write_lets_nobody_look(
    root: str, pricing: speed.Node, looker: speed.Node, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_observers(root, "cli.*\nweb\n")
    path.chmod(0o666)
    until(lambda: observers_in_entry(root, "pricing") == ())
    with pytest.raises(AccessDeniedError):
        looker.stats("pricing")
    until(lambda: "others can write to it" in caplog.text)
    path.chmod(0o600)
    until(lambda: observers_in_entry(root, "pricing") == ("cli.*", "web"))


def test_an_observer_may_look_at_a_node_that_is_starting(
    root: str, node: Make, pricing: speed.Node, looker: speed.Node
) -> None:
    slow = node("slow", engine=pricing.engine, starting=True)
    assert looker.stats("slow")["name"] == "slow"
    slow.ready()


def test_doctor_knows_the_file_and_says_why_one_does_not_count(run: Command) -> None:
    def found(check: str) -> list[dict[str, Any]]:
        return [one for one in run("root", "doctor", "--json").value["findings"] if one["check"] == check]

    assert found("observers")[0]["state"] == "ok"
    assert not [one for one in found("registry") if ".observers" in one["found"]]
    (run.root / "speed_registry" / ".observers").chmod(0o666)
    (finding,) = found("observers")
    assert finding["state"] == "warning"
    assert "others can write to it" in finding["found"]
    assert finding["todo"]


@pytest.fixture
def identified(root: str, node: Make, tmp_path: Path) -> Callable[..., speed.Node]:
    """Makes nodes with an identity of their own."""

    def make(name: str, **options: Any) -> speed.Node:
        path = tmp_path / f"{name}.identity"
        write_identity(str(path), NodeIdentity.new())
        return node(name, identity=path, **options)

    return make


@pytest.mark.parametrize("seer", ["python", "native"])
@pytest.mark.parametrize("seen", ["python", "native"])
def test_an_observer_with_an_identity_looks_by_a_link_of_its_own(
    root: str, identified: Callable[..., speed.Node], seer: str, seen: str
) -> None:
    write_observers(root, "cli.*\n")
    identified("pricing", engine=seen)
    looker = identified("cli.1", engine=seer)
    assert looker.stats("pricing")["name"] == "pricing"
    with pytest.raises(AccessDeniedError):
        looker.info("pricing")


@pytest.mark.parametrize("seen", ["python", "native"])
def test_a_grant_of_an_identity_decides_alone_for_its_name(
    root: str, node: Make, identified: Callable[..., speed.Node], seen: str
) -> None:
    write_observers(root, "cli.*\n")
    pricing = identified("pricing", engine=seen)
    other = node("cli.2")
    assert other.stats("pricing")["name"] == "pricing"
    pricing.allow("cli.2@" + "0" * 40)
    with pytest.raises(AccessDeniedError):
        other.stats("pricing")
