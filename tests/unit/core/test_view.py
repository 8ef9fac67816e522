"""Joins, departures and changes between two readings of the registry (R-20)."""

from __future__ import annotations

import dataclasses
from typing import Any

from speed.core.access import Changed, Joined, Left, RegistryView
from speed.wire.entry import Entry, decode_entry
from speed.wire.seal import Keyring
from tests.vectors import load

VECTORS = load("entries")
_CASE = VECTORS["valid"][0]
_KEYS = Keyring(tuple(bytes.fromhex(key) for key in VECTORS["accepted_keys"])).registry_keys
PUBLISHED = decode_entry(bytes.fromhex(_CASE["content"]), _KEYS)


def entry(name: str, generation: int = 1, **changes: Any) -> Entry:
    return dataclasses.replace(PUBLISHED, name=name, generation=generation, **changes)


def test_a_node_that_appears_joined_and_one_that_is_gone_left() -> None:
    """R-20."""
    view, billing = RegistryView(), entry("billing")
    assert view.update([billing]) == (Joined(billing),)
    assert dict(view.entries) == {"billing": billing}
    assert view.update([]) == (Left(billing),)
    assert dict(view.entries) == {}


def test_a_new_generation_of_a_name_is_a_departure_and_a_join() -> None:
    """R-20: whoever waits for the old owner must hear that it is gone."""
    view, old, new = RegistryView(), entry("billing", 1), entry("billing", 2)
    view.update([old])
    assert view.update([new]) == (Left(old), Joined(new))


def test_what_a_node_publishes_anew_is_a_change_but_a_heartbeat_is_none() -> None:
    """R-20."""
    view, before = RegistryView(), entry("billing")
    view.update([before])
    beaten = dataclasses.replace(before, last_heartbeat=before.last_heartbeat + 5_000)
    assert view.update([beaten]) == ()
    granted = dataclasses.replace(beaten, allow=("reporting",))
    assert view.update([granted]) == (Changed(beaten, granted),)


def test_departures_come_first_and_each_kind_in_order_of_names() -> None:
    """R-20: the same two readings give the same events, however the directory was listed."""
    view = RegistryView()
    view.update([entry("d"), entry("b")])
    events = view.update([entry("c"), entry("a")])
    assert [(type(event), event.entry.name) for event in events if not isinstance(event, Changed)] == [
        (Left, "b"),
        (Left, "d"),
        (Joined, "a"),
        (Joined, "c"),
    ]


def test_a_node_that_is_starting_joins_when_it_is_online() -> None:
    """R-2."""
    view = RegistryView()
    view.update([entry("billing")])
    starting = entry("billing", 2, status="starting")
    assert view.update([starting]) == (Left(entry("billing")),)
    online = dataclasses.replace(starting, status="online")
    assert view.update([online]) == (Joined(online),)
