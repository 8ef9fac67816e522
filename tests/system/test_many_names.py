"""However many others a node meets, what it holds open is bounded, and none of them is turned away (L-21, L-26)."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

import speed
from tests.interop.harness import until
from tests.system.conftest import Child

Make = Callable[..., speed.Node]
Start = Callable[..., Child]
PATIENCE = 20.0
FILES = 160

SERVER = f"""
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES}, {FILES}))
import speed
most = int(sys.argv[3]) if len(sys.argv) > 3 else None
node = speed.Node("billing", root=sys.argv[1], engine=sys.argv[2], allow=["etl.*"], max_open_files=most)
node.register("double", lambda x: 2 * x)
node.register("files", lambda: len(os.listdir("/proc/self/fd")))
print("up", flush=True)
sys.stdin.readline()
node.close(drain_seconds=0)
"""


@pytest.fixture
def server(root: str, kind: str, child: Start) -> Child:
    billing = child(SERVER, root, kind)
    assert billing.line() == "up"
    return billing


def test_short_lived_senders_one_after_the_other_cost_no_descriptors(root: str, kind: str, server: Child) -> None:
    """Spark makes a new name for each worker."""
    held = []
    for number in range(120):
        with speed.Node(f"etl.app.{number}", root=root, engine=kind) as sender:
            assert sender.call("billing", "double", {"x": number}, timeout=PATIENCE) == 2 * number
            held.append(sender.call("billing", "files", timeout=PATIENCE))
    assert max(held) < FILES - 30
    assert max(held[90:]) <= max(held[:90]) + 3


def test_more_senders_than_may_be_awake_are_all_answered(node: Make, kind: str, server: Child) -> None:
    senders = [node(f"etl.{number}", engine="python", allow=["billing"]) for number in range(60)]
    for turn in range(3):
        for number, sender in enumerate(senders):
            assert sender.call("billing", "double", {"x": number + turn}, timeout=PATIENCE) == 2 * (number + turn)


def test_a_node_holds_no_more_files_open_than_its_program_lets_it(
    root: str, node: Make, kind: str, child: Start
) -> None:
    assert child(SERVER, root, kind, "24").line() == "up"
    held = []
    for number in range(16):
        sender = node(f"etl.{number}", engine="python", allow=["billing"])
        held.append(sender.call("billing", "files", timeout=PATIENCE))
    assert max(held) <= held[0] + 24 + 6


def test_what_runs_for_a_lane_at_rest_is_answered_and_not_repeated(node: Make, kind: str) -> None:
    go, ran = threading.Event(), []

    def hold(number: int) -> int:
        ran.append(number)
        go.wait(PATIENCE)
        return number

    billing = node("billing", engine=kind, allow=["s.*"], workers=12, max_open_files=24)
    billing.register("hold", hold)
    billing.register("echo", lambda x: x)
    senders = [node(f"s.{number}", engine="python", max_open_files=24) for number in range(10)]
    open_calls = [one.submit("billing", "hold", {"number": n}, timeout=PATIENCE) for n, one in enumerate(senders)]
    for sender in senders:
        assert sender.call("billing", "echo", {"x": 1}, timeout=PATIENCE) == 1
    go.set()
    assert [call.result(PATIENCE) for call in open_calls] == list(range(10))
    assert sorted(ran) == list(range(10))


def test_what_comes_without_a_grant_is_discarded_at_once_and_a_request_is_refused(node: Make, kind: str) -> None:
    """A-6: a grant that comes later does not deliver it."""
    billing, analytics = node("billing", engine=kind, allow=["analytics"]), node("analytics", engine="python")
    analytics.ping("billing")
    billing.deny("analytics")
    parts = analytics._engine._parts  # type: ignore[attr-defined]
    link = parts.links.open("billing", 1)
    from speed.wire import spc
    from speed.wire.envelope import EnvelopeType

    refused: list[object] = []
    parts.context.pending.add("1.77", float("inf"), "billing", refused.append)
    request = spc.encode_request("1.77", "echo", {}, "analytics", 1, 1 << 50, None)
    link.send(EnvelopeType.SPC_REQUEST, 0, request, 0.0)
    assert until(lambda: bool(refused))
    assert refused[0].outcome().code == "ACCESS_DENIED"  # type: ignore[attr-defined]
    assert billing.stats()["counters"]["unauthorised"] == 1
    billing.allow("analytics")
    assert billing.receive(timeout=0.2) is None
