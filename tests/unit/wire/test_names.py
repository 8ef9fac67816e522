"""Names, node ids and file names: W-1 to W-3, A-2, L-1, R-4."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speed.errors import InvalidNameError
from speed.wire import names
from tests.vectors import case_name, load

VECTORS = load("names")
PARSERS: dict[str, Callable[[str], Any]] = {
    "slot": names.parse_slot,
    "segment": names.parse_lane_file,
    "cursor": names.parse_cursor,
    "start": names.parse_start,
    "fence": names.parse_fence,
    "claim": names.parse_claim,
    "entry": names.parse_entry_file,
}
generations = st.integers(1, 2**24 - 1)
node_names = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,9}(\.[A-Za-z0-9_-]{1,9})?", fullmatch=True).filter(
    lambda name: name not in names.RESERVED_NAMES
)


def listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


@pytest.mark.parametrize("case", VECTORS["valid_names"], ids=lambda case: case["name"][:20])
def test_a_valid_name_is_accepted_and_has_the_published_id(case: dict[str, str]) -> None:
    """W-1, W-3."""
    assert names.check_node_name(case["name"]) == case["name"]
    assert names.check_service_name(case["name"]) == case["name"]
    assert names.node_id(case["name"]).hex() == case["node_id"]


@pytest.mark.parametrize("case", VECTORS["invalid_names"], ids=case_name)
def test_an_invalid_name_is_refused(case: dict[str, str]) -> None:
    """W-1: a refused name can never become a path."""
    with pytest.raises(InvalidNameError):
        names.check_node_name(case["name"])


def test_a_reserved_node_name_is_a_fine_service_name() -> None:
    """W-1: services have no directory."""
    assert names.check_service_name("inbox") == "inbox"


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (names.check_topic, "valid_topics", "invalid_topics"),
        (names.check_grant, "valid_grants", "invalid_grants"),
        (names.check_topic_pattern, "valid_topic_patterns", "invalid_topic_patterns"),
    ],
    ids=["topic", "grant", "topic pattern"],
)
def test_topics_grants_and_patterns_follow_their_rule(check: Callable[[str], str], good: str, bad: str) -> None:
    """W-2, A-2: nothing grants everyone."""
    for text in VECTORS[good]:
        assert check(text) == text
    for text in VECTORS[bad]:
        with pytest.raises(InvalidNameError):
            check(text)


@pytest.mark.parametrize("case", VECTORS["matching"], ids=case_name)
def test_a_pattern_covers_exactly_its_family(case: dict[str, Any]) -> None:
    """A-2, W-2."""
    assert names.matches(case["pattern"], case["name"]) is case["matches"]


def test_the_star_covers_every_topic() -> None:
    """W-2."""
    assert names.matches("*", "orders.created")


@pytest.mark.parametrize("case", VECTORS["files"], ids=lambda case: case["file"])
def test_a_file_name_has_one_spelling_only(case: dict[str, Any]) -> None:
    """L-1, R-4: two names for one number would be two segments, or two winners of a claim."""
    assert listed(PARSERS[case["kind"]](case["file"])) == case["parsed"]


@given(generations, st.integers(1, 2**32 - 1), node_names)
def test_every_file_name_is_read_back(generation: int, segment: int, name: str) -> None:
    """L-1, R-1, R-4."""
    assert names.parse_lane_file(names.lane_file_name(generation, segment)) == (generation, segment)
    assert names.parse_cursor(names.cursor_name(generation)) == generation
    assert names.parse_fence(names.fence_name(generation)) == generation
    assert names.parse_claim(names.claim_name(name, generation)) == (name, generation)
    assert names.parse_entry_file(names.entry_name(name)) == name


@given(st.text(max_size=40))
def test_whatever_is_accepted_as_a_name_stays_inside_the_root(text: str) -> None:
    """W-1."""
    if names.is_node_name(text):
        assert "/" not in text
        assert "\x00" not in text
        assert text not in {".", ".."}
        assert not text.startswith(names.TEMPORARY_PREFIX)


@given(node_names)
def test_a_node_id_is_a_uuid_of_version_8(name: str) -> None:
    """W-3."""
    identity = UUID(bytes=names.node_id(name))
    assert identity.version == 8
    assert identity.variant == "specified in RFC 4122"


def test_a_name_that_is_no_text_is_refused() -> None:
    """W-1."""
    for value in (None, b"billing", 7):
        with pytest.raises(InvalidNameError):
            names.check_service_name(value)  # type: ignore[arg-type]


def test_everything_lies_where_the_layout_says() -> None:
    """L-1, L-18, R-1, R-4, W-14, J-1, J-9, D-1."""
    assert names.node_dir("/r", "billing") == "/r/billing"
    assert names.inbox_dir("/r", "billing") == "/r/billing/inbox"
    assert names.lane_dir("/r", "billing", "analytics") == "/r/billing/inbox/analytics"
    assert names.quarantine_dir("/r", "billing") == "/r/billing/quarantine"
    assert names.entry_path("/r", "billing") == "/r/speed_registry/billing.node"
    assert names.claims_dir("/r") == "/r/speed_registry/.claims"
    assert names.claim_path("/r", "billing", 7) == "/r/speed_registry/.claims/billing.000007"
    assert names.registry_dir("/r") == "/r/speed_registry"
    assert names.temporary_name("x") == names.TEMPORARY_PREFIX + "x"
    assert names.is_journal_lane("0" * 32)
    assert not names.is_journal_lane("speed_registry")
    assert names.child_path("/r/billing", "bell") == names.bell_path("/r", "billing")
    assert names.bell_path("/r", "billing") == "/r/billing/bell"
    assert names.default_key_path("/r") == "/r/speed.key"
    assert names.daemon_lock("/r") == "/r/.speedd.lock"
    assert names.journal_dir("/r") == "/r/journal"
    assert names.journal_node("host") == "host.journal"
    assert names.topics_dir("/r") == "/r/topics"
    assert names.topics_node("host") == "host.topics"
    assert names.bridges_node("host") == "host.bridges"
    assert names.bridge_name("orders") == "bridge.orders"
