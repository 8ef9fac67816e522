"""Who holds a name: the table of verdicts and the owner's own lease (rules R-7 to R-12)."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from speed.core.access import LeaseState, OwnLease, Verdict, check_lease, judge
from speed.errors import ConfigurationError, LeaseLostError
from tests.thorough import examples
from tests.vectors import case_name, load

LEASE = 3000
HEARTBEAT = 500


@dataclasses.dataclass
class Held:
    boot_id: str = "boot-a"
    lease: int = LEASE
    heartbeat_monotonic_ms: int = 10_000


def verdict(at: int, *, boot: str = "boot-a", alive: bool | None = True, unchanged: int = 0, held: Held | None = None):
    return judge(held or Held(), boot, at, alive, unchanged)


def test_a_fresh_heartbeat_on_the_same_boot_is_live():
    """R-8."""
    assert verdict(10_000) is Verdict.LIVE
    assert verdict(13_000) is Verdict.LIVE


def test_a_heartbeat_older_than_the_lease_is_stale_on_the_same_boot():
    """R-8: one millisecond past the lease decides."""
    assert verdict(13_001) is Verdict.STALE


def test_a_gone_process_is_stale_at_once_however_fresh_its_heartbeat():
    """R-8."""
    assert verdict(10_000, alive=False) is Verdict.STALE


def test_another_pid_namespace_of_the_same_boot_is_judged_by_the_clock():
    """R-8: the process cannot be seen, the monotonic clock is shared."""
    assert verdict(11_000, alive=None) is Verdict.LIVE
    assert verdict(13_001, alive=None) is Verdict.STALE


def test_a_heartbeat_from_the_future_is_watched_for_a_lease():
    """R-9: nothing is concluded from a clock that cannot be."""
    assert verdict(9_000) is Verdict.WATCH
    assert verdict(9_000, unchanged=LEASE) is Verdict.WATCH
    assert verdict(9_000, unchanged=LEASE + 1) is Verdict.STALE


@pytest.mark.parametrize("at", [0, 10_000, 10**12])
def test_the_clock_of_another_boot_is_never_compared(at: int):
    """R-10: neither an old nor a new time stamp of another machine decides."""
    assert verdict(at, boot="boot-b", alive=None) is Verdict.WATCH
    assert verdict(at, boot="boot-b", alive=None, unchanged=LEASE + 1) is Verdict.STALE


def test_an_unknown_boot_is_treated_as_another_boot():
    """R-10: two empty boot ids are not the same boot."""
    assert verdict(10_000, boot="", held=Held(boot_id="")) is Verdict.WATCH


@pytest.mark.parametrize(("lease", "heartbeat"), [(1500, 500), (100, 500), (3000, 0), (3000, -1)])
def test_a_lease_must_exceed_three_heartbeats(lease: int, heartbeat: int):
    """R-7."""
    with pytest.raises(ConfigurationError):
        check_lease(lease, heartbeat)


def test_an_owner_stops_at_the_millisecond_from_which_others_may_reclaim():
    """R-12: the owner's limit is the observer's limit."""
    own = OwnLease(LEASE, HEARTBEAT, 10_000)
    assert not own.must_stop(13_000)
    assert own.must_stop(13_001)


def test_running_out_is_final():
    """R-12: a clock that goes back, or a late renewal, does not revive a lease."""
    own = OwnLease(LEASE, HEARTBEAT, 10_000)
    assert own.must_stop(13_001)
    assert own.must_stop(10_000)
    with pytest.raises(LeaseLostError):
        own.renewed(10_500, 10_500)


def test_a_renewal_that_ends_after_the_old_lease_does_not_count():
    """R-12: while the write was under way an observer may have reclaimed."""
    own = OwnLease(LEASE, HEARTBEAT, 10_000)
    with pytest.raises(LeaseLostError):
        own.renewed(12_999, 13_001)
    assert own.state is LeaseState.LOST


def test_a_renewal_counts_from_the_time_that_was_written():
    """R-12."""
    own = OwnLease(LEASE, HEARTBEAT, 10_000)
    own.renewed(10_500, 10_900)
    assert own.expires_ms == 13_500


def test_who_sees_a_newer_owner_has_lost_its_lease_at_once():
    """R-12."""
    own = OwnLease(LEASE, HEARTBEAT, 10_000)
    own.lose()
    assert own.must_stop(10_001)


@dataclasses.dataclass
class Owner:
    """A process of the model. Steps of one operation may be arbitrarily far apart (it may be paused)."""

    boot: str
    lease: OwnLease | None = None
    generation: int = 0
    alive: bool = True
    writing: int | None = None
    """The heartbeat it is about to write."""
    judged: int | None = None
    """The newest generation when it judged the name free."""
    seen: tuple[object, int] | None = None

    def acts(self, now: int) -> bool:
        return self.alive and self.lease is not None and not self.lease.must_stop(now)


@dataclasses.dataclass
class OnDisk:
    owner: int
    boot_id: str
    lease: int
    heartbeat_monotonic_ms: int
    generation: int


class NeverTwoOwners(RuleBasedStateMachine):
    """R-5 to R-12 with pauses between any two steps: at no time do two processes hold the name."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 100_000
        self.processes = [Owner("boot-a"), Owner("boot-a"), Owner("boot-b")]
        self.entry: OnDisk | None = None
        self.newest = 0

    @rule(by=st.integers(1, LEASE + 100))
    def time_passes(self, by: int) -> None:
        self.now += by

    @rule(i=st.integers(0, 2))
    def is_killed_and_started_again(self, i: int) -> None:
        self.processes[i].alive = False
        self.processes.append(self.processes[i])
        self.processes[i] = Owner(self.processes[i].boot)

    @rule(i=st.integers(0, 2))
    def begins_a_heartbeat(self, i: int) -> None:
        process = self.processes[i]
        if process.acts(self.now):
            process.writing = self.now

    @rule(i=st.integers(0, 2))
    def writes_the_heartbeat(self, i: int) -> None:
        process = self.processes[i]
        written, process.writing = process.writing, None
        if written is None or process.lease is None:
            return
        # After a replacement it writes into an unlinked inode.
        if self.entry and self.entry.generation == process.generation:
            self.entry.heartbeat_monotonic_ms = written
            try:
                process.lease.renewed(written, self.now)
            except LeaseLostError:
                process.lease = None

    @rule(i=st.integers(0, 2))
    def judges_the_name(self, i: int) -> None:
        process = self.processes[i]
        if process.lease is not None:
            return
        if self.entry is None:
            process.judged = self.newest
            return
        mark = (self.entry.generation, self.entry.heartbeat_monotonic_ms)
        if process.seen is None or process.seen[0] != mark:
            process.seen = (mark, self.now)
        same = self.entry.boot_id == process.boot
        alive = self._owner_alive() if same else None
        found = judge(self.entry, process.boot, self.now, alive, self.now - process.seen[1])
        process.judged = self.newest if found is Verdict.STALE else None

    @rule(i=st.integers(0, 2))
    @precondition(lambda self: True)
    def claims_and_installs(self, i: int) -> None:
        process = self.processes[i]
        judged, process.judged = process.judged, None
        if judged is None or judged != self.newest:  # O_EXCL: somebody was faster
            return
        self.newest += 1
        process.generation = self.newest
        process.lease = OwnLease(LEASE, HEARTBEAT, self.now)
        self.entry = OnDisk(i, process.boot, LEASE, self.now, self.newest)

    def _owner_alive(self) -> bool:
        assert self.entry is not None
        return any(p.alive and p.generation == self.entry.generation for p in self.processes)

    @invariant()
    def at_most_one_process_holds_the_name(self) -> None:
        holders = [process.generation for process in self.processes if process.acts(self.now)]
        assert len(holders) <= 1, holders


NeverTwoOwners.TestCase.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)
TestNeverTwoOwners = NeverTwoOwners.TestCase


VECTORS = load("leases")


@pytest.mark.parametrize("case", VECTORS["judged"], ids=case_name)
def test_an_observer_says_what_the_contract_says(case):
    """R-8 to R-10."""
    held = Held(case["boot"], case["lease"], case["heartbeat"])
    alive = {"lives": True, "gone": False, "unseen": None}[case["process"]]
    assert judge(held, case["observer"], case["now"], alive, case["unchanged"]).value == case["verdict"]


@pytest.mark.parametrize("case", VECTORS["owned"], ids=case_name)
def test_an_owner_stops_when_the_contract_says(case):
    """R-12."""
    own = OwnLease(case["lease"], 1, case["renewed"])
    for now, lost, written in case["looks"]:
        assert own.must_stop(now) is lost
        if written is not None:
            own.renewed(written, now)


@pytest.mark.parametrize("case", VECTORS["settings"], ids=case_name)
def test_a_node_starts_with_the_settings_that_the_contract_allows(case):
    """R-7, R-21."""
    try:
        check_lease(case["lease"], case["heartbeat"], case["late"])
    except ConfigurationError:
        assert not case["starts"]
    else:
        assert case["starts"]
