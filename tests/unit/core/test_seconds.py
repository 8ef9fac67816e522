"""Spans of time that a program gives: numbers below 10^9 (S-4)."""

from __future__ import annotations

import math
from typing import Any

import pytest

from speed.core.hints import checked_seconds, milliseconds
from speed.engine.python.serving import Withdrawal
from speed.errors import ConfigurationError
from speed.message.audit import TokenVerifier
from speed.message.keystore import KeyStore
from speed.segment.reassembly import Limits

ODD = [math.nan, math.inf, -math.inf, 1e9, "5", None]


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_what_is_no_span_is_named(odd: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"delay is .*; use a number of seconds below 1000000000"):
        checked_seconds("delay", odd)
    with pytest.raises(ConfigurationError, match="delay is "):
        milliseconds("delay", odd)


def test_a_span_travels_in_milliseconds_and_is_over_already_below_0() -> None:
    assert (milliseconds("delay", 0.0015), milliseconds("delay", -1), checked_seconds("delay", -1)) == (2, 0, -1)


@pytest.mark.parametrize("odd", ODD[:-1], ids=repr)
def test_a_service_waits_for_its_withdrawal_no_odd_time(odd: Any) -> None:
    with pytest.raises(ConfigurationError, match="timeout is "):
        Withdrawal().wait(odd)


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_a_client_of_pulsar_takes_no_odd_time(odd: Any) -> None:
    pytest.importorskip("websockets")
    from speed.pulsar.client import Pulsar

    pulsar = Pulsar("ws://127.0.0.1:9", None, None, 1 << 20)
    with pytest.raises(ConfigurationError, match="key_seconds is "):
        pulsar.producer("orders", key_seconds=odd)


@pytest.mark.parametrize("odd", ODD[:-1], ids=repr)
def test_no_setting_takes_an_odd_time(odd: Any) -> None:
    with pytest.raises(ConfigurationError, match="max_age_seconds is "):
        KeyStore({}, max_age_seconds=odd)
    with pytest.raises(ConfigurationError, match="leeway_seconds is "):
        TokenVerifier({}, audience="a", issuer="i", leeway_seconds=odd)
    with pytest.raises(ConfigurationError, match="idle_seconds is "):
        Limits(idle_seconds=odd).check()
