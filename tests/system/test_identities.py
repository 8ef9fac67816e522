"""Nodes with identities: links that a holder of the shared key alone can neither read nor write (I-1 to I-9)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import speed
from speed.fs.keyfile import (
    KnownIdentities,
    change_identity,
    change_key_file,
    load_key_file,
    read_identity,
    write_identity,
    write_statement,
)
from speed.fs.registry import Registry
from speed.wire import names
from speed.wire.entry import key_ids_in
from speed.wire.envelope import EnvelopeType, parse_header
from speed.wire.identities import REVOKED, VOUCHED, NodeIdentity, Statement, fingerprint_in, make_statement
from speed.wire.seal import LinkOpener, LinkSealer
from tests.system.commands import Command
from tests.system.conftest import ENGINES, Child

Nodes = Callable[..., speed.Node]
RECEIVER = """
import sys, speed
engine, root, identity, allow = sys.argv[1:]
node = speed.Node("billing", root=root, engine=engine, identity=identity, allow=[allow], workers=1)
def handle(message):
    print(message.payload, flush=True)
    if message.payload == "stuck":
        import time
        time.sleep(60)
node.on_message(handle)
print("ready", flush=True)
sys.stdin.read()
"""


STARTS = """
import sys, speed
engine, root, identity, name = sys.argv[1:]
print("loaded", flush=True)
sys.stdin.readline()
try:
    node = speed.Node(name, root=root, engine=engine, identity=identity)
    print("lives", flush=True)
except speed.SpeedError as error:
    print(error.code, flush=True)
sys.stdin.read()
"""


def eventually(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 20.0
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.02)
    return holds()


@pytest.fixture
def identities(tmp_path: Path) -> Callable[..., str]:
    """Makes identity files, by name."""

    def make(name: str, *owners: str) -> str:
        path = str(tmp_path / f"{name}.identity")
        write_identity(path, NodeIdentity.new(owners))
        return path

    return make


def fingerprint(path: str) -> str:
    return read_identity(path).fingerprint


@pytest.fixture(params=[(one, other) for one in ENGINES for other in ENGINES], ids="-".join)
def engines(request: pytest.FixtureRequest) -> tuple[str, str]:
    """That of the node ``billing``, and of all others."""
    one, other = request.param
    return one, other


@pytest.fixture
def with_identity(node: Nodes, identities: Callable[..., str], engines: tuple[str, str]) -> Nodes:
    """Makes nodes with an identity of their own, or the one that is given."""

    def make(name: str, identity: str = "", **options: Any) -> speed.Node:
        engine = engines[0 if name == "billing" else 1]
        return node(name, engine=engine, identity=identity or identities(name), **options)

    return make


def serve(node: speed.Node) -> None:
    """Who called, and the size of what was given."""

    def who(request: speed.Request, given: str = "") -> list[Any]:
        return [request.caller, request.caller_identity, len(given)]

    node.register("who", who)


def counter(node: speed.Node, name: str) -> int:
    return int(node.stats()["counters"].get(name, 0))


def test_a_service_is_told_which_identity_called(node: Nodes, with_identity: Nodes, tmp_path: Path) -> None:
    serve(with_identity("billing", allow=["analytics", "plain"]))
    analytics = with_identity("analytics")
    mine = fingerprint(str(tmp_path / "analytics.identity"))
    assert analytics.call("billing", "who", {}) == ["analytics", mine, 0]
    for kind in ENGINES:
        with node("plain", engine=kind) as plain:
            assert plain.call("billing", "who", {}) == ["plain", "", 0]


def test_a_handler_is_told_which_identity_sent_a_message(node: Nodes, with_identity: Nodes, tmp_path: Path) -> None:
    billing = with_identity("billing", allow=["analytics", "plain"])
    seen: list[tuple[str, str, str]] = []
    billing.on_message(lambda one: seen.append((one.source, one.sender_identity, str(one.payload)[:5])))
    analytics = with_identity("analytics")
    mine = fingerprint(str(tmp_path / "analytics.identity"))
    analytics.send("billing", "small", ack=True)
    analytics.send("billing", "large" + "x" * (20 << 20), ack=True, timeout=60)
    with node("plain") as plain:
        plain.send("billing", "plain", ack=True)
    assert seen == [("analytics", mine, "small"), ("analytics", mine, "large"), ("plain", "", "plain")]


def test_a_node_is_listed_with_its_card_and_the_identities_that_it_lets_in(
    with_identity: Nodes, identities: Callable[..., str]
) -> None:
    mine = identities("billing")
    grant = f"analytics@{'ab' * 20}"
    billing = with_identity("billing", mine, allow=[grant])
    (entry,) = billing.nodes()
    assert fingerprint_in(entry) == fingerprint(mine)
    assert entry.identities == (grant,)


def test_a_grant_of_an_identity_is_for_no_other(
    node: Nodes, with_identity: Nodes, identities: Callable[..., str]
) -> None:
    mine = identities("analytics")
    serve(with_identity("billing", allow=[f"analytics@{fingerprint(mine)}"]))
    with with_identity("analytics", mine) as analytics:
        assert analytics.call("billing", "who", {})[0] == "analytics"
    for kind, other in (
        ("python", None),
        ("native", None),
        ("python", identities("other")),
        ("native", identities("4")),
    ):
        with (
            node("analytics", engine=kind, identity=other) as analytics,
            pytest.raises(speed.AccessDeniedError),
        ):
            analytics.call("billing", "who", {}, timeout=5)


def test_who_has_the_shared_key_alone_reads_nothing(root: str, with_identity: Nodes) -> None:
    billing = with_identity("billing", allow=["analytics"])
    serve(billing)
    with_identity("analytics").call("billing", "who", {"given": "a secret"})
    ring = load_key_file(f"{root}/speed.key")
    for source, target in (("analytics", "billing"), ("billing", "analytics")):
        lane = names.lane_dir(root, target, source)
        (file,) = [one for one in os.listdir(lane) if one.endswith(".lane")]
        data = (Path(lane) / file).read_bytes()
        header = parse_header(data)
        opener = LinkOpener(ring, names.node_id(source), names.node_id(target))
        with pytest.raises(speed.errors.WireError, match="UNKNOWN_KEY"):
            opener.open(header, data[: 104 + header.payload_bytes])


def test_who_has_the_shared_key_alone_writes_nothing(root: str, with_identity: Nodes) -> None:
    billing = with_identity("billing", allow=["analytics"])
    handled: list[Any] = []
    billing.on_message(lambda message: handled.append(message.payload))
    with_identity("analytics").send("billing", "first", ack=True)
    lane = names.lane_dir(root, "billing", "analytics")
    ring = load_key_file(f"{root}/speed.key")
    sealer = LinkSealer(ring, names.node_id("analytics"), names.node_id("billing"), 1)
    (file,) = [one for one in os.listdir(lane) if one.endswith(".lane")]
    (whole, end) = ((Path(lane) / file).read_bytes(), os.path.getsize(f"{lane}/{file}"))
    header = parse_header(whole)
    counter_of_next = (header.sequence & ((1 << 40) - 1)) + 1
    forged = sealer.seal(EnvelopeType.MESSAGE, 0, counter_of_next, header.timestamp_ms, b"forged", os.urandom(12))
    with open(f"{lane}/{file}", "ab") as appended:
        appended.write(forged)
    assert os.path.getsize(f"{lane}/{file}") > end
    assert eventually(lambda: counter(billing, "unauthorised") == 1)
    assert handled == ["first"]


def test_an_identity_that_changed_is_refused_by_both_sides(
    with_identity: Nodes, identities: Callable[..., str]
) -> None:
    billing = with_identity("billing", allow=["analytics"])
    serve(billing)
    with with_identity("analytics", identities("first"), allow=["billing"]) as analytics:
        analytics.call("billing", "who", {})
    with with_identity("analytics", identities("second"), allow=["billing"]) as analytics:
        with pytest.raises(speed.IdentityChangedError) as refused:
            billing.send("analytics", "for the first alone")
        assert refused.value.code == "IDENTITY_CHANGED"
        with pytest.raises(speed.CallTimeoutError):
            analytics.call("billing", "who", {}, timeout=1)
    assert counter(billing, "unauthorised") >= 1


def test_a_known_name_is_not_met_without_its_identity(node: Nodes, with_identity: Nodes) -> None:
    billing = with_identity("billing", allow=["analytics"])
    serve(billing)
    with with_identity("analytics", allow=["billing"]) as analytics:
        analytics.call("billing", "who", {})
    plain = node("analytics", engine="python", allow=["billing"])
    with pytest.raises(speed.IdentityMissingError):
        billing.send("analytics", "in the clear of all")
    with pytest.raises(speed.CallTimeoutError):
        plain.call("billing", "who", {}, timeout=1)


def test_an_identity_lives_under_one_name(node: Nodes, with_identity: Nodes, identities: Callable[..., str]) -> None:
    mine = identities("analytics")
    with_identity("analytics", mine)
    with pytest.raises(speed.IdentityCopiedError):
        with_identity("billing", mine)


def test_of_two_that_start_at_once_with_one_identity_at_most_one_lives(
    root: str, identities: Callable[..., str], engines: tuple[str, str]
) -> None:
    mine = identities("analytics")
    names_of = zip(engines, ("analytics", "billing"), strict=True)
    children = [Child(STARTS, engine, root, mine, name) for engine, name in names_of]
    for child in children:
        assert child.line() == "loaded"
    for child in children:
        child.tell("go")
    lines = [child.line() for child in children]
    for child in children:
        child.kill()
    assert lines.count("lives") <= 1
    assert set(lines) <= {"lives", "IDENTITY_COPIED"}


def test_a_name_that_an_owner_vouches_for_is_believed_until_the_end_or_a_revocation(
    root: str, with_identity: Nodes, identities: Callable[..., str]
) -> None:
    owner = read_identity(identities("owner"))
    mine, now = identities("analytics"), int(time.time())
    billing = with_identity("billing", identities("billing", owner.fingerprint), allow=["analytics"])
    analytics = with_identity("analytics", mine, allow=["billing"])
    with pytest.raises(speed.IdentityUnvouchedError):
        billing.ping("analytics")

    def state(kind: int, issued: int, until: int = 0) -> None:
        made = Statement(kind, names.node_id("analytics"), fingerprint(mine), issued, until)
        write_statement(root, "analytics", make_statement(owner, made))
        time.sleep(1.1)  # a verdict is believed for a second

    state(VOUCHED, now - 10, now - 1)
    with pytest.raises(speed.IdentityExpiredError):
        billing.ping("analytics")
    state(VOUCHED, now)
    assert billing.ping("analytics") > 0
    state(REVOKED, now + 1)
    with pytest.raises(speed.IdentityRevokedError):
        billing.ping("analytics")
    state(VOUCHED, now)  # an old statement put back
    with pytest.raises(speed.IdentityRevokedError):
        billing.ping("analytics")
    assert analytics.closed is False


def test_what_was_accepted_is_handled_by_the_next_life_with_the_same_identity(
    root: str, with_identity: Nodes, identities: Callable[..., str], engines: tuple[str, str]
) -> None:
    mine = identities("billing")
    first = Child(RECEIVER, engines[0], root, mine, "analytics")
    assert first.line() == "ready"
    analytics = with_identity("analytics")
    analytics.send("billing", "stuck")
    analytics.send("billing", "waits")
    assert first.line() == "stuck"
    first.kill()
    change_identity(mine, lambda identity: identity.renewed(keep=1))
    analytics.close()
    second = Child(RECEIVER, engines[1], root, mine, "analytics")
    lines = {second.line(), second.line()}
    second.kill()
    assert lines == {"ready", "stuck"}


def test_links_go_on_when_the_shared_key_changes(root: str, with_identity: Nodes) -> None:
    billing = with_identity("billing", allow=["analytics"], heartbeat_seconds=0.2, lease_seconds=20)
    serve(billing)
    analytics = with_identity("analytics", heartbeat_seconds=0.2, lease_seconds=20)
    before = analytics.call("billing", "who", {})
    new = os.urandom(32)
    change_key_file(f"{root}/speed.key", lambda keys: (*keys, new))
    entries = [Path(names.entry_path(root, name)) for name in ("analytics", "billing")]
    assert eventually(lambda: all(len(key_ids_in(entry.read_bytes())) == 2 for entry in entries))
    change_key_file(f"{root}/speed.key", lambda keys: (new, *keys[:-1]))
    lane = names.lane_dir(root, "billing", "analytics")

    def is_opened_again() -> bool:
        assert analytics.call("billing", "who", {}) == before
        return sum(one.endswith(".opening") for one in os.listdir(lane)) == 2

    assert eventually(is_opened_again)


@pytest.mark.parametrize("size", [1 << 20, 80 << 20], ids=["in a slot", "in segments"])
def test_large_payloads_come_by_a_bound_link(with_identity: Nodes, tmp_path: Path, size: int) -> None:
    serve(with_identity("billing", allow=["analytics"]))
    analytics = with_identity("analytics")
    mine = fingerprint(str(tmp_path / "analytics.identity"))
    assert analytics.call("billing", "who", {"given": "x" * size}, timeout=60) == ["analytics", mine, size]


def test_openings_go_with_the_files_of_their_generation(
    root: str, with_identity: Nodes, identities: Callable[..., str]
) -> None:
    mine = identities("analytics")
    serve(with_identity("billing", allow=["analytics"]))
    for _ in range(3):
        with with_identity("analytics", mine) as analytics:
            analytics.call("billing", "who", {})
    lane = names.lane_dir(root, "billing", "analytics")
    found = [one for one in os.listdir(lane) if one.endswith(".opening")]
    assert {one[:6] for one in found} <= {"000002", "000003"}


def test_a_weak_or_copied_card_is_refused_before_anything_is_written(
    root: str, with_identity: Nodes, node: Nodes
) -> None:
    billing = with_identity("billing", allow=["analytics"])
    with_identity("analytics", allow=["billing"])
    entry = Registry(root, load_key_file(f"{root}/speed.key")).live("analytics")
    assert entry is not None
    other = node("copy", engine="python", allow=["billing"])
    other._engine._context.registration.update(identity=entry.identity)  # type: ignore[attr-defined]
    with pytest.raises(speed.IdentityError):
        billing.send("copy", "for analytics")
    assert not os.path.exists(names.lane_dir(root, "copy", "billing"))


def test_what_is_remembered_is_kept_and_can_be_forgotten(with_identity: Nodes, tmp_path: Path) -> None:
    billing = with_identity("billing", allow=["analytics"])
    serve(billing)
    analytics = with_identity("analytics")
    analytics.call("billing", "who", {})
    known = KnownIdentities(str(tmp_path / "billing.identity"))
    assert [*known.all()] == ["analytics"]
    assert known.forget("analytics")
    assert not KnownIdentities(str(tmp_path / "billing.identity")).all()
    (tmp_path / "billing.identity.known").write_text("nonsense")
    billing.close()
    with pytest.raises(speed.KeyFileError, match="damaged"):
        with_identity("billing", str(tmp_path / "billing.identity"))


def test_who_is_only_told_that_it_has_no_grant_is_not_remembered(
    node: Nodes, identities: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engines: Any
) -> None:
    """I-7: a holder of the shared key, which writes whatever entries say, would else fill what is remembered."""
    billing = node("billing", engine=engines[0], identity=identities("billing"), allow=["guest.*", "shop"])
    serve(billing)
    billing.deny("guest.*")  # its lane is read all the same, once it was answered
    monkeypatch.setattr("speed.engine.python.links.Links._check_grant", lambda *_: None)
    guest = node("guest.eve", engine="python", identity=identities("guest.eve"), allow=["billing"])
    for _ in range(2):
        with pytest.raises(speed.AccessDeniedError):
            guest.call("billing", "who", {}, timeout=20)
    assert not KnownIdentities(str(tmp_path / "billing.identity")).all()
    node("shop", engine=engines[1], identity=identities("shop")).call("billing", "who", {})
    assert [*KnownIdentities(str(tmp_path / "billing.identity")).all()] == ["shop"]
    billing.ping("guest.eve")  # of its own accord
    assert {*KnownIdentities(str(tmp_path / "billing.identity")).all()} == {"shop", "guest.eve"}


def test_who_cannot_be_remembered_is_not_met(
    with_identity: Nodes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As of a credential, whose directory is not to be written to: a directory stands where the file would be."""
    (tmp_path / ".billing.identity.known.lock").mkdir()
    billing = with_identity("billing", allow=["analytics"])
    with_identity("analytics", allow=["billing"])
    for _ in range(2):
        with pytest.raises(speed.IdentityUnvouchedError):
            billing.ping("analytics")

    def told() -> int:
        return sum("is not remembered" in one.getMessage() for one in caplog.records)

    assert eventually(lambda: told() > 0)
    assert told() == 1


@pytest.mark.parametrize("kind", ENGINES)
def test_a_node_without_an_identity_grants_none(node: Nodes, kind: str) -> None:
    with pytest.raises(speed.ConfigurationError, match="identity"):
        node("billing", engine=kind, allow=[f"analytics@{'ab' * 20}"])
    with node("billing", engine=kind) as billing, pytest.raises(speed.ConfigurationError, match="identity"):
        billing.allow(f"analytics@{'ab' * 20}")


def test_an_identity_is_granted_and_denied_while_the_node_lives(
    with_identity: Nodes, identities: Callable[..., str]
) -> None:
    mine = identities("analytics")
    billing, grant = with_identity("billing"), f"analytics@{fingerprint(mine)}"
    serve(billing)
    analytics = with_identity("analytics", mine)
    billing.allow(grant)
    assert billing.allowed() == (grant,)
    assert analytics.call("billing", "who", {})[1] == fingerprint(mine)
    billing.deny("analytics")
    assert billing.allowed() == ()
    with pytest.raises(speed.AccessDeniedError):
        analytics.call("billing", "who", {}, timeout=5)


def test_a_service_grants_no_identity(with_identity: Nodes) -> None:
    with pytest.raises(speed.InvalidNameError, match="grant the identity at the node"):
        with_identity("billing").register("who", lambda: 1, allow=[f"analytics@{'ab' * 20}"])


@pytest.mark.parametrize("kind", ENGINES)
def test_a_file_that_others_can_read_is_no_identity(node: Nodes, identities: Callable[..., str], kind: str) -> None:
    path = identities("billing")
    os.chmod(path, 0o640)
    with pytest.raises(speed.KeyFileError, match="chmod 600"):
        node("billing", engine=kind, identity=path)


@pytest.mark.parametrize("kind", ENGINES)
def test_the_command_line_makes_identities_and_states_whose_name_is_whose(
    run: Command, tmp_path: Path, kind: str
) -> None:
    owner, mine = str(tmp_path / "owner"), str(tmp_path / "mine")
    who = run("key", "identity", "new", owner, "--json").value["fingerprint"]
    made = run("key", "identity", "new", mine, "--owner", who, "--json").value
    assert made["owners"] == [who]
    assert run("key", "identity", "show", mine, "--json").value == made
    assert run("key", "identity", "new", mine).status != 0
    assert run("key", "identity", "renew", mine, "--json").value["exchangeKeys"] == 2
    stated = run("key", "identity", "vouch", "billing", made["fingerprint"], "--owner", owner, "--days", "3", "--json")
    assert stated.value["state"] == "vouched for"
    with speed.Node("billing", root=run.root, engine=kind, identity=mine):
        shown = run("nodes", "--json").value
    assert [one["identity"] for one in shown] == [made["fingerprint"]]
    assert run("key", "identity", "revoke", "billing", made["fingerprint"], "--owner", owner).status == 0
    assert run("key", "identity", "known", mine, "--json").value == []
    assert run("key", "identity", "forget", mine, "analytics").status != 0
