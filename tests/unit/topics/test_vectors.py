"""registry_spec/vectors/topics.json (D-2, D-4, D-8 to D-13)."""

from __future__ import annotations

from typing import Any

import pytest

from speed.errors import WireError
from speed.topics.subscription import SubscriptionError, SubscriptionState, Terms
from speed.wire.seal import Keyring
from speed.wire.topic import RecordHead, cursor_name, decode, decode_head, encode, key_hash, open_state, seal_state
from tests.vectors import case_name, load

VECTORS = load("topics")
RING = Keyring(tuple(bytes.fromhex(key) for key in VECTORS["accepted_keys"]))
LANE = bytes.fromhex(VECTORS["lane"])


@pytest.mark.parametrize("case", VECTORS["key_hashes"], ids=str)
def test_hashes_of_keys(case: dict[str, Any]) -> None:
    assert key_hash(case["key"]) == case["hash"]


@pytest.mark.parametrize("case", VECTORS["cursor_files"], ids=str)
def test_names_of_cursor_files(case: dict[str, Any]) -> None:
    assert cursor_name(case["subscription"]) == case["file"]


@pytest.mark.parametrize("case", VECTORS["records_valid"], ids=case_name)
def test_valid_records_are_read_and_written(case: dict[str, Any]) -> None:
    data = bytes.fromhex(case["hex"])
    kept = decode(data)
    assert kept.head == decode_head(data) == RecordHead(*(case[name] for name in RecordHead._fields))
    assert (kept.about, kept.payload) == (case["about"], bytes.fromhex(case["payload"]))
    assert encode(*kept) == data


@pytest.mark.parametrize("case", VECTORS["records_invalid"], ids=case_name)
def test_invalid_records_are_refused(case: dict[str, Any]) -> None:
    with pytest.raises(WireError, match="head of a message"):
        decode_head(bytes.fromhex(case["hex"]))


@pytest.mark.parametrize("case", VECTORS["states_valid"], ids=case_name)
def test_valid_state_files_are_read_and_written(case: dict[str, Any]) -> None:
    data = bytes.fromhex(case["hex"])
    value = open_state(data, LANE, case["file"], RING)
    assert value == case["value"]
    assert seal_state(value, LANE, case["file"], RING) == data or case["bug"]


@pytest.mark.parametrize("case", VECTORS["states_invalid"], ids=case_name)
def test_invalid_state_files_are_refused(case: dict[str, Any]) -> None:
    with pytest.raises(WireError) as refused:
        open_state(bytes.fromhex(case["hex"]), LANE, case["file"], RING)
    assert refused.value.reason in ("BAD_JOURNAL", "UNKNOWN_KEY")


def done(one: SubscriptionState, step: dict[str, Any]) -> Any:
    """What a step gives."""
    arguments = {name: value for name, value in step.items() if name not in ("do", "gives")}
    renamed = {"now": "now_ms", "due": "due_ms", "most": "limit"}
    try:
        result = getattr(one, step["do"])(**{renamed.get(name, name): value for name, value in arguments.items()})
    except SubscriptionError as error:
        return error.code
    if step["do"] == "begin" or not isinstance(result, list):
        return result
    return [list(pair) for pair in result]


@pytest.mark.parametrize("case", VECTORS["subscriptions"], ids=case_name)
def test_a_subscription_does_the_steps(case: dict[str, Any]) -> None:
    one = SubscriptionState(Terms(case["type"], case["max_deliveries"]), 0)
    for number, step in enumerate(case["steps"]):
        assert done(one, step) == step.get("gives"), (number, step)
    assert one.cursor == case["cursor"]
