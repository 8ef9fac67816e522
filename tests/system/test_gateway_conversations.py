"""What a real Pulsar answers, and what the gateway answers to the same (``tests/pulsar/conversations.json``)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from tests.pulsar import record
from tests.system.gateways import GatewaySite

pytestmark = pytest.mark.system
OF_PULSAR = {one["title"]: one["steps"] for one in json.loads(record.FILE.read_text())["conversations"]}
_CLIENTS_MISTAKE = "the client's mistake, not the server's: 400, or 1008"
_NO_KEYS = "the gateway opens nothing, so nothing fails: who cannot open a message sees that it is encrypted"
DIFFERENT = {
    "a property that is null ends the connection": "send-error:7 for this message; the others go on",
    "a topic without name is refused": _CLIENTS_MISTAKE,
    "an unknown domain is refused": _CLIENTS_MISTAKE,
    "a reader from an id that is none": _CLIENTS_MISTAKE,
    "an acknowledgement of no id ends the connection": _CLIENTS_MISTAKE,
    "a command without id": _CLIENTS_MISTAKE,
    "a command that is not JSON": "a close code says why, where Pulsar drops the connection",
    "permits without number": "no permits, where Pulsar drops the connection",
    "an unacknowledged message comes again": "it counts as delivered before; Pulsar forgets that with its consumer",
    "a subscription is taken back": "the connection ends with it",
    "an encrypted message is not delivered by default": _NO_KEYS,
    "an encrypted message is discarded if that is asked": _NO_KEYS,
    "a reader is not told of encryption": "it is told, and can open the message",
    "encryption without IV is accepted": "it is refused: nobody could open the message",
    "two recipients": "several recipients work",
}
"""What the gateway does otherwise, and why."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewaySite]:
    site = GatewaySite(tmp_path_factory.mktemp("gateway"))
    yield site
    site.close()


def played(site: GatewaySite, title: str) -> list[dict[str, Any]]:
    """The conversation with the gateway; texts that explain are each server's own."""
    talk = record.Talk(f"ws://127.0.0.1:{site.port}", site.topic())
    steps: list[dict[str, Any]] = []
    try:
        for step in record.CONVERSATIONS[title]:
            steps += talk.step(step)
    except (ConnectionClosed, KeyError, IndexError) as error:
        steps.append({"ended": type(error).__name__})
    finally:
        talk.end()
    return told(steps)


def told(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**one, "frame": said(one["frame"])} if isinstance(one.get("frame"), dict) else one for one in steps]


def said(frame: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in frame.items() if name != "errorMsg"}


@pytest.mark.parametrize("title", OF_PULSAR)
def test_the_gateway_answers_as_pulsar_does(site: GatewaySite, title: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "QUIET_SECONDS", 0.3)
    expected = told(OF_PULSAR[title])
    if title in DIFFERENT:
        assert played(site, title) != expected, "it is not different any more"
    else:
        assert played(site, title) == expected
