"""Agents for the tests; every one of them is ended, however a test ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.interop.harness import Agent
from tests.interop.languages import CHOSEN, LANGUAGES
from tests.interop.pool import Agents

collect_ignore = [] if set(CHOSEN) == set(LANGUAGES) else ["test_flights.py"]
"""The example needs all languages; it is left out where scripts/interop was asked for fewer."""


@pytest.fixture(scope="session")
def shared_agents() -> Iterator[Agents]:
    """One root for all tests of this worker."""
    agents = Agents()
    yield agents
    agents.close()


@pytest.fixture
def agents(shared_agents: Agents, request: pytest.FixtureRequest) -> Iterator[Agents]:
    """The shared agents; a test that fails shows what they said and leaves none of them to the next."""
    before = request.session.testsfailed
    yield shared_agents
    if request.session.testsfailed > before or getattr(request.node, "failed", False):
        print(shared_agents.stderr())
        shared_agents.forget()
    shared_agents.drop_dead()


@pytest.fixture
def private() -> Iterator[Agents]:
    """A root and agents of the test's own."""
    agents = Agents()
    yield agents
    print(agents.stderr())
    agents.close()


@pytest.fixture
def between(agents: Agents) -> Callable[..., tuple[Agent, Agent]]:
    """``between(source, target)``: a shared caller of one language and a shared server of another."""

    def both(source: str, target: str, role: str = "server") -> tuple[Agent, Agent]:
        return agents.shared("caller", source), agents.shared(role, target)

    return both


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    outcome: Any = yield
    if outcome.get_result().failed:
        item.failed = True  # type: ignore[attr-defined]
