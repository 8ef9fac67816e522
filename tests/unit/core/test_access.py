"""Deny all, grants of names and families, denials that hold (rules A-1 to A-6)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speed.core.access import AccessPolicy, granted, may_look, parse_observers
from speed.errors import ConfigurationError, InvalidNameError
from speed.wire.entry import Entry
from tests.vectors import case_name, load

OBSERVERS = load("observers")


def test_nobody_is_allowed_at_first():
    """A-1."""
    assert not AccessPolicy().allows("analytics")


def test_a_grant_names_one_node_and_no_other():
    """A-2."""
    policy = AccessPolicy(["analytics"])
    assert policy.allows("analytics")
    assert not policy.allows("analytics2")
    assert not policy.allows("analytics.1")


def test_a_family_grant_covers_the_names_below_it_but_not_the_name_itself():
    """A-2."""
    policy = AccessPolicy(["etl.*"])
    assert policy.allows("etl.1")
    assert policy.allows("etl.eu.7")
    assert not policy.allows("etl")
    assert not policy.allows("etlx")


@pytest.mark.parametrize("pattern", ["*", "", "a*", "*.a", "a.*.b", "../x", "a b"])
def test_there_is_no_grant_for_everyone_and_no_other_wildcard(pattern: str):
    """A-2: and a refused call grants nothing at all."""
    policy = AccessPolicy()
    with pytest.raises(InvalidNameError):
        policy.allow("good", pattern)
    assert policy.allowed() == ()


def test_a_denied_name_stays_denied_under_its_granted_family():
    """A-4: in either order of the two statements."""
    first = AccessPolicy(["etl.*"])
    first.deny("etl.1")
    second = AccessPolicy()
    second.deny("etl.1")
    second.allow("etl.*")
    for policy in (first, second):
        assert not policy.allows("etl.1")
        assert policy.allows("etl.2")


def test_what_a_denial_excepts_from_a_grant_is_published_with_it():
    """A-4, L-21: the lane is read, so that requests are answered; a denial that takes the grant away leaves nothing."""
    policy = AccessPolicy(["etl.*", "billing"])
    policy.deny("etl.1", "billing")
    assert policy.allowed() == ("etl.*",)
    assert policy.denied() == ("etl.1",)
    assert policy.publishes("etl.1")
    assert policy.publishes("etl.2")
    assert not policy.publishes("billing")
    assert not policy.publishes("etl")


def test_an_exact_grant_lifts_an_exact_denial():
    """A-4."""
    policy = AccessPolicy(["etl.*"])
    policy.deny("etl.1")
    policy.allow("etl.1")
    assert policy.allows("etl.1")


def test_denying_a_family_takes_back_every_grant_below_it():
    """A-4."""
    policy = AccessPolicy(["etl.*", "etl.1", "etl.eu.*", "billing"])
    policy.deny("etl.*")
    assert not policy.allows("etl.1")
    assert not policy.allows("etl.eu.1")
    assert policy.allowed() == ("billing",)


def test_the_most_specific_rule_decides():
    """A-4."""
    policy = AccessPolicy(["etl.*"])
    policy.deny("etl.eu.*")
    policy.allow("etl.eu.7")
    assert policy.allows("etl.us.1")
    assert not policy.allows("etl.eu.1")
    assert policy.allows("etl.eu.7")


def test_a_decision_changes_with_the_next_statement_although_it_was_cached():
    """A-4: deny takes effect for what is not yet dispatched."""
    policy = AccessPolicy(["a"])
    assert policy.allows("a")
    policy.deny("a")
    assert not policy.allows("a")


def test_names_from_strangers_do_not_grow_the_policy_without_bound():
    """A-6."""
    policy = AccessPolicy(["etl.*"])
    for i in range(20_000):
        assert policy.allows(f"etl.{i}")
    assert len(policy._rules.cache) <= 4096


_part = st.sampled_from(["a", "b", "c"])
_name = st.lists(_part, min_size=1, max_size=3).map(".".join)
_pattern = st.one_of(_name, _name.map(lambda name: name + ".*"))


@given(st.lists(st.tuples(st.booleans(), _pattern)), _name)
def test_sender_and_receiver_agree_whatever_was_granted_and_denied(statements: list[tuple[bool, str]], name: str):
    """A-3, A-4: the sender's check of the entry equals the receiver's own check."""
    policy = AccessPolicy()
    for grant, pattern in statements:
        (policy.allow if grant else policy.deny)(pattern)
    entry = Entry("x", 1, 1, 1, "", "", "", 0, 0, 0, 1, 1, allow=policy.allowed(), deny=policy.denied())
    assert granted(entry, name) == policy.allows(name)


def test_what_was_granted_can_be_taken_back_as_if_it_had_never_been():
    """A-2: grants that cannot be published are not in force."""
    policy = AccessPolicy(["etl.*"])
    undo = policy.undo()
    policy.allow("billing")
    policy.deny("etl.one")
    undo()
    assert policy.allowed() == ("etl.*",)
    assert (policy.allows("billing"), policy.allows("etl.one")) == (False, True)


MINE, OTHER = "ab" * 20, "cd" * 20


def entry_of(policy: AccessPolicy) -> Entry:
    grants = {"allow": policy.allowed(), "deny": policy.denied(), "identities": policy.identities()}
    return Entry("x", 1, 1, 1, "", "", "", 0, 0, 0, 1, 1, **grants)


def test_a_grant_of_an_identity_is_published_beside_those_of_names():
    """I-8: who knows no identities finds no grant."""
    policy = AccessPolicy([f"etl.1@{MINE}", "analytics"])
    assert policy.allowed() == ("analytics",)
    assert policy.identities() == (f"etl.1@{MINE}",)
    assert policy.allows("etl.1")
    assert policy.fingerprints("etl.1") == (MINE,)
    assert policy.fingerprints("analytics") == ()


def test_a_grant_of_an_identity_decides_before_that_of_a_family():
    """I-8."""
    entry = entry_of(AccessPolicy(["etl.*", f"etl.1@{MINE}"]))
    assert granted(entry, "etl.1", MINE)
    assert not granted(entry, "etl.1", OTHER)
    assert not granted(entry, "etl.1", "")
    assert granted(entry, "etl.1")
    assert granted(entry, "etl.2", "")


def test_a_denial_takes_the_grants_of_identities_it_covers():
    """A-4, I-8."""
    policy = AccessPolicy([f"etl.1@{MINE}", f"etl.1@{OTHER}", f"billing@{MINE}"])
    policy.deny("etl.*")
    assert not policy.allows("etl.1")
    assert policy.identities() == (f"billing@{MINE}",)
    policy.allow("etl.1")
    assert entry_of(policy).allow == ("etl.1",)


@pytest.mark.parametrize(
    "pattern", [f"etl.*@{MINE}", f"@{MINE}", f"etl@{MINE[:-1]}", f"etl@{MINE.upper()}", f"a@b@{MINE}"]
)
def test_only_one_node_has_an_identity(pattern: str):
    """I-8."""
    with pytest.raises(InvalidNameError):
        AccessPolicy([pattern])


def test_a_name_may_look_like_a_fingerprint():
    """I-8: only what stands behind an @ is one."""
    policy = AccessPolicy(["ab" * 20])
    assert policy.allowed() == ("ab" * 20,)
    assert policy.allows("ab" * 20)


@pytest.mark.parametrize("case", OBSERVERS["texts"], ids=case_name)
def test_the_owner_of_a_root_names_observers_in_a_text(case: dict[str, Any]):
    """A-7."""
    text = bytes.fromhex(case["hex"])
    if case["names"] is None:
        with pytest.raises(ConfigurationError):
            parse_observers(text)
    else:
        assert parse_observers(text) == tuple(case["names"])


@pytest.mark.parametrize("case", OBSERVERS["askers"], ids=case_name)
def test_an_entry_says_who_may_look(case: dict[str, Any]):
    """A-7, A-3."""
    lists = {field: tuple(case[field]) for field in ("allow", "deny", "identities", "observers")}
    entry = replace(entry_of(AccessPolicy()), **lists)
    assert may_look(entry, case["asker"], "") is case["looks"]
    assert granted(entry, case["asker"], "") is case["writes"]


@pytest.mark.parametrize("case", OBSERVERS["published"], ids=case_name)
def test_a_node_decides_as_its_entry_says(case: dict[str, Any]):
    """A-7, A-4."""
    policy = AccessPolicy(() if case["granted_last"] else case["allow"])
    policy.deny(*case["deny"])
    policy.allow(*(case["allow"] if case["granted_last"] else ()))
    policy.observe(case["observers"])
    assert policy.denied() == tuple(case["published_deny"])
    assert policy.observes(case["asker"]) is case["observes"]
    assert policy.allows(case["asker"]) is case["allows"]


def test_observers_stay_when_grants_change():
    """A-7."""
    policy = AccessPolicy()
    policy.observe(("cli.*",))
    policy.allow("web")
    policy.deny("etl.*")
    assert policy.observers() == ("cli.*",)
    assert policy.observes("cli.1")
    assert policy.publishes("cli.1")
    assert not policy.allows("cli.1")
