"""Names that change hands between languages: races, killed owners, paused owners (registry.md, lanes.md)."""

from __future__ import annotations

import itertools
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

import speed
from speed.fs.keyfile import read_keys
from speed.fs.registry import Registry
from speed.message.writing import encode_message
from speed.wire.cursor import decode_cursor
from speed.wire.envelope import EnvelopeType
from speed.wire.limits import LEASE_SECONDS
from speed.wire.names import claim_path, lane_dir, lane_file_name, node_id
from speed.wire.seal import Keyring, LinkSealer
from tests.interop.harness import Agent, AgentError, until
from tests.interop.languages import CHOSEN, LANGUAGES, pairs
from tests.interop.pool import Agents
from tests.interop.racing import race
from tests.representative import fewer

RACERS = int(os.environ.get("SPEED_RACERS") or fewer(64, 12))
ROUNDS = int(os.environ.get("SPEED_RACE_ROUNDS") or fewer(60, 15))


@pytest.fixture
def registry() -> Callable[[str], Registry]:
    """The registry of a root as an observer sees it."""
    return lambda root: Registry(root, Keyring(read_keys(f"{root}/speed.key")))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_exactly_one_of_many_processes_of_all_languages_wins_a_name(
    private: Agents, registry: Callable[[str], Registry]
) -> None:
    """R-4, R-5: whatever they are written in, one claim wins; the others hear NAME_TAKEN."""
    languages = itertools.islice(itertools.cycle(CHOSEN), RACERS)
    racers = [private.start(language, f"racer.{number}") for number, language in enumerate(languages)]
    for racer in racers:
        racer.ready()
    winners = dict.fromkeys(CHOSEN, 0)
    for number in range(ROUNDS):
        winner = _race(racers, f"prize-{number}", registry(private.root))
        winners[winner.language] += 1
        winner.ask("release")
    print("rounds won:", winners)
    assert sum(winners.values()) == ROUNDS


def _race(racers: list[Agent], name: str, registry: Registry) -> Agent:
    """One round. The winner, and it alone, is in the registry."""
    winners = race(racers, name)
    assert len(winners) == 1, (name, winners)
    ((winner, generation),) = winners
    entry = registry.read(name)
    assert entry is not None
    assert (entry.pid, entry.generation) == (winner.process.pid, generation)
    assert entry.language == LANGUAGES[winner.language].says
    assert registry.newest_generation(name) == generation
    return winner


@pairs("reclaims the name of")
def test_the_name_and_the_messages_of_a_killed_node(private: Agents, source: str, target: str) -> None:
    """R-6, R-8, L-15: free at once; what was not finished is delivered again, and only what may have been handled
    is marked: the one that was in hand."""
    sender = private.start(third(source, target), "sender").ready()
    victim = private.start(target, "billing", allow=["sender"]).ready()
    for number in range(6):
        sender.ask("send", target="billing", payload={"n": number}, ack=True, timeout=10)
    assert [victim.ask("receive", timeout=10)["payload"]["n"] for _ in range(3)] == [0, 1, 2]  # 2 is in hand
    victim.kill()
    heir = private.start(source, "billing", allow=["sender"]).ready()
    assert heir.generation == victim.generation + 1
    received = [heir.ask("receive", timeout=10) for _ in range(4)]
    assert [message["payload"]["n"] for message in received] == [2, 3, 4, 5]
    assert [message["redelivered"] for message in received] == [True, False, False, False]
    sender.ask("send", target="billing", payload={"n": 6}, ack=True, timeout=10)
    assert heir.ask("drain", count=2, timeout=1) == {"received": 1, "in_order": True, "redelivered": 0}


@pairs("reclaims the name of")
def test_the_requests_of_a_killed_node(private: Agents, source: str, target: str) -> None:
    """S-8, S-21: what was running is not run again, and what waited behind it never runs in the next life; the callers
    are told NODE_LEFT, and which of the two holds."""
    caller = private.start(third(source, target), "caller", heartbeat=1).ready()
    other = private.start(third(source, target), "other", heartbeat=1).ready()
    victim = private.start(target, "billing", allow=["caller", "other"], heartbeat=0.5, workers=1).ready()
    fields = {"target": "billing", "timeout": 300}
    sleeping = caller.tell("call", service="sleep", arguments={"seconds": 300}, **fields)
    assert until(lambda: _is_begun(private.root, "caller"))
    waiting = other.tell("call", service="sequence", arguments={"n": 7}, **fields)
    assert until(lambda: _is_written(private.root, "other"))
    victim.kill()
    for agent, call, execution in ((caller, sleeping, "may have run"), (other, waiting, "not begun")):
        with pytest.raises(AgentError) as left:
            agent.answer(call)
        assert (left.value.code, left.value.execution) == ("NODE_LEFT", execution)
    heir = private.start(source, "billing", allow=["caller", "other"], workers=1).ready()
    other.ask("ping", target="billing")  # so all that it wrote was read
    assert caller.call(heir, "sequence_seen", {}) == []


def _is_written(root: str, source: str) -> bool:
    """Whether ``source`` wrote something to billing."""
    return any(path.stat().st_size for path in pathlib.Path(root, "billing", "inbox", source).glob("*.lane"))


def _is_begun(root: str, source: str) -> bool:
    """Whether billing has begun all that ``source`` wrote: it is committed before (S-8)."""
    keys = Keyring(read_keys(f"{root}/speed.key")).lane_keys(node_id(source), node_id("billing"))
    cursors = [path.read_bytes() for path in pathlib.Path(root, "billing", "inbox", source).glob("cursor.*")]
    return any(one.last_sequence and not one.unfinished for one in (decode_cursor(data, keys) for data in cursors))


WITHOUT_MAIN_THREAD = """
import ctypes, sys, speed
node = speed.Node("billing", root=sys.argv[1], key=sys.argv[1] + "/speed.key", allow=["racer"])
node.register("echo", lambda data: data)
print("up", flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""


@pytest.mark.parametrize("language", CHOSEN)
def test_a_node_whose_main_thread_ended_keeps_its_name(private: Agents, language: str) -> None:
    """R-6: its process looks like a zombie, and lives."""
    racer = private.start(language, "racer").ready()
    owner = subprocess.Popen([sys.executable, "-c", WITHOUT_MAIN_THREAD, private.root], stdout=subprocess.PIPE)
    try:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"up\n"
        assert until(lambda: pathlib.Path(f"/proc/{owner.pid}/stat").read_text().rpartition(") ")[2][0] == "Z")
        assert race([racer], "billing") == []
        assert racer.ask("call", target="billing", service="echo", arguments={"data": 7}, timeout=10) == 7
    finally:
        owner.kill()
        owner.communicate()
    assert until(lambda: race([racer], "billing") != [])


@pairs("replaces", different=True)
def test_a_paused_owner_that_was_replaced_gets_nothing_accepted(
    private: Agents, registry: Callable[[str], Registry], source: str, target: str
) -> None:
    """R-8, R-12, L-18: it was stopped in the middle of sending, its lease ran out, another took its name, it goes
    on: what it writes lies behind the fence, and it hears LEASE_LOST."""
    receiver = private.start(third(source, target), "receiver", allow=["billing"]).ready()
    owner = private.start(target, "billing", lease=1.5, heartbeat=0.3).ready()
    sending = owner.tell("burst", target="receiver", count=3_000_000, bytes=100)
    assert receiver.ask("drain", count=1_000, timeout=30)["received"] == 1_000
    owner.pause()
    assert until(lambda: registry(private.root).live("billing", sure=True) is None)
    heir = private.start(source, "billing", lease=30).ready()
    assert heir.generation == owner.generation + 1
    _drain(receiver)
    owner.resume()
    with pytest.raises(AgentError) as lost:
        owner.answer(sending)
    assert lost.value.code == "LEASE_LOST"
    assert owner.refusal("send", target="receiver", payload={"n": -1}, timeout=5).code == "LEASE_LOST"
    heir.ask("send", target="receiver", payload="first of the successor", ack=True, timeout=30)
    assert receiver.ask("receive", timeout=30)["payload"] == "first of the successor"
    assert receiver.ask("receive", timeout=0) is None


@pytest.mark.parametrize("source", CHOSEN)
def test_a_crash_leads_back_behind_no_fence(private: Agents, source: str) -> None:
    """L-18: what a replaced sender appends is rejected, also after its receiver read past the fence and died."""
    receiver = private.start(source, "receiver", allow=["billing"]).ready()
    owner = private.start("python", "billing").ready()
    owner.ask("send", target="receiver", payload={"n": 1}, timeout=30)
    assert receiver.ask("receive", timeout=30)["payload"] == {"n": 1}  # in hand, so the cursor stays before it
    owner.kill()
    heir = private.start("python", "billing").ready()
    heir.ask("send", target="receiver", payload={"n": 2}, ack=True, timeout=30)
    _wait_until_listed(f"{private.root}/receiver/inbox/billing")  # behind the fence
    receiver.kill()
    _append_late(private.root, {"n": 3})
    successor = private.start(source, "receiver", allow=["billing"]).ready()
    assert successor.ask("drain", count=3, timeout=3) == {"received": 2, "in_order": True, "redelivered": 1}


def _wait_until_listed(lane: str) -> None:
    """Until the lane's receiver lists it once more: it then puts aside what is no file of a lane (L-20)."""
    foreign = pathlib.Path(lane, "no lane file")
    foreign.touch()
    assert until(lambda: not foreign.exists())


def _append_late(root: str, payload: dict[str, int]) -> None:
    """What the first owner of the name ``billing`` still has in its hands is written: its second envelope."""
    keyring = Keyring(read_keys(f"{root}/speed.key"))
    sealer = LinkSealer(keyring, node_id("billing"), node_id("receiver"), 1)
    message = encode_message(payload, message_id="late", topic="message", namespace="default", published_at_ms=1)
    with open(f"{lane_dir(root, 'receiver', 'billing')}/{lane_file_name(1, 1)}", "ab") as segment:
        segment.write(sealer.seal(EnvelopeType.MESSAGE, 0, 2, 1, message, os.urandom(12)))


@pytest.mark.parametrize("source", CHOSEN)
def test_a_claim_given_back_is_free_at_once_even_if_it_is_empty(private: Agents, source: str) -> None:
    """R-4, R-5: so its maker left it when the disk was full."""
    other = private.start(source, "other").ready()
    pathlib.Path(claim_path(private.root, "billing", 1)).touch(mode=0o400)
    claiming = other.tell("race", name="billing", at=time.monotonic_ns())
    assert other.answer(claiming, wait=LEASE_SECONDS - 1) == 2  # any other claim that says nothing is waited out


def _drain(receiver: Agent) -> None:
    """Receive until nothing more comes: what the owner wrote before it was paused."""
    while receiver.ask("drain", count=10_000_000, timeout=1.0)["received"]:
        pass


def third(one: str, other: str) -> str:
    """A language that is neither, where there is one."""
    return next((name for name in CHOSEN if name not in (one, other)), one)


def test_an_observer_and_all_languages_agree_on_who_is_there(private: Agents) -> None:
    """R-2, R-20: every node lists every node."""
    members = [private.start(language, f"member.{language}") for language in CHOSEN]
    names = sorted(member.ready().name for member in members)
    for member in members:
        assert until(lambda member=member: sorted(member.ask("nodes")) == names), member.ask("nodes")
    with speed.Node("observer", root=private.root) as observer:
        entries = {entry.name: entry for entry in observer.nodes()}
        assert {entries[member.name].language for member in members} == {LANGUAGES[name].says for name in CHOSEN}
        assert {entries[member.name].pid for member in members} == {member.process.pid for member in members}
