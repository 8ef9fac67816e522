"""Large payloads between nodes of every pair of languages go through slots (L-28 to L-30)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from speed.wire.limits import MAX_SLOTS
from speed.wire.names import lane_dir
from tests.interop.harness import Agent
from tests.interop.languages import pairs
from tests.interop.pool import Agents

Between = Callable[..., tuple[Agent, Agent]]

LARGE_BYTES = (1 << 20) + 12_345


def slots(agents: Agents, receiver: Agent, sender: Agent) -> list[Path]:
    return sorted(Path(lane_dir(agents.root, receiver.name, sender.name)).glob("*.slot"))


@pairs("calls")
def test_a_large_call_and_its_answer_go_through_slots_that_are_used_again(
    agents: Agents, between: Between, source: str, target: str
) -> None:
    """More calls than there are slots; the commit that frees one may come after the next payload."""
    caller, server = between(source, target)
    for _ in range(20):
        assert caller.ask("large", target=server.name, bytes=LARGE_BYTES) is True
    for receiver, sender in ((server, caller), (caller, server)):
        used = slots(agents, receiver, sender)
        assert 1 <= len(used) < MAX_SLOTS
        assert all(path.stat().st_size > LARGE_BYTES for path in used)


@pairs("calls")
def test_large_and_small_payloads_keep_their_order(between: Between, source: str, target: str) -> None:
    """Sizes around a piece, and around what is worth a slot."""
    caller, server = between(source, target)
    for size in (1, 65_535, 65_536, 65_537, 131_000, 131_072, 131_073, 200_000, 10):
        assert caller.ask("large", target=server.name, bytes=size) is True
