"""What a real Pulsar answers, and what the gateway answers to the same (``tests/pulsar/conversations.json``)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from tests.pulsar import record
from tests.pulsar.keys import make_key
from tests.system.gateways import NAMED, GatewaySite, started_gateway

pytestmark = pytest.mark.system
site = pytest.fixture(started_gateway, name="site", scope="module")
RECORDED = json.loads(record.FILE.read_text())
OF_PULSAR = {one["title"]: one["steps"] for one in RECORDED["conversations"]}
WITH_KEYS = {one["title"]: one["steps"] for one in RECORDED["with_keys"]}
SENT = {**record.CONVERSATIONS, **record.WITH_KEYS}
_MISTAKE = "the client's mistake, not the server's"
_NO_KEYS = "the gateway opens nothing, so nothing fails: who cannot open a message sees that it is encrypted"
_TAKEN = "it is taken, as it is by somebody who has it alone"
_OPENED = "who finds a context has something to decrypt: what was opened has none"
_HELLO = {"receive": "c", "frame": {"messageId": "<id 1>", "payload": "aGVsbG8="}}
_ENCRYPTED = {"receive": "c", "frame": {"messageId": "<id 1>", "encryptionContext": {"param": record.IV}}}
DIFFERENT: dict[str, tuple[dict[str, Any], str]] = {
    "a property that is null ends the connection": (
        {"receive": "p", "frame": {"result": "send-error:7"}},
        "this message is refused, the others go on",
    ),
    "a topic without name is refused": ({"open": "p", "status": 400}, _MISTAKE),
    "an unknown domain is refused": ({"open": "p", "status": 400}, _MISTAKE),
    "a reader from an id that is none": ({"open": "r", "status": 400}, _MISTAKE),
    "an acknowledgement of no id ends the connection": ({"receive": "c", "closed": 1008}, _MISTAKE),
    "a command without id": ({"receive": "c", "closed": 1008}, _MISTAKE),
    "a command that is not JSON": ({"receive": "c", "closed": 1008}, "Pulsar drops the connection without a word"),
    "permits without number": ({"receive": "c", "nothing": True}, "no permits, where Pulsar drops the connection"),
    "an unacknowledged message comes again": (
        {"receive": "d", "frame": {"messageId": "<id 1>", "redeliveryCount": 1}},
        "it counts as delivered before; Pulsar forgets that with its consumer",
    ),
    "a subscription is taken back": ({"receive": "c", "closed": 1000}, "the connection ends with it"),
    "a subscription that is not durable is taken back": ({"receive": "c", "closed": 1000}, "as one that is"),
    "a subscription that is not durable is kept for its other consumers": (
        {"receive": "d", "frame": {"messageId": "<id 1>", "redeliveryCount": 1}},
        "it counts as delivered before, as in one that is durable",
    ),
    "a durable consumer of a subscription that is not": ({"open": "d", "status": 409}, _TAKEN),
    "a consumer that is not durable of a subscription that is": ({"open": "d", "status": 409}, _TAKEN),
    "an encrypted message is not delivered by default": (_ENCRYPTED, _NO_KEYS),
    "an encrypted message is discarded if that is asked": (_ENCRYPTED, _NO_KEYS),
    "a reader is not told of encryption": ({**_ENCRYPTED, "receive": "r"}, "it is told, and can open the message"),
    "encryption without IV is accepted": (
        {"receive": "p", "frame": {"result": "send-error:7"}},
        "nobody could open the message",
    ),
    "two recipients": ({"receive": "p", "frame": {"result": "ok"}}, "several recipients work"),
    "the server encrypts and decrypts with a key that is named": (_HELLO, _OPENED),
    "what the server encrypted with two keys": (_HELLO, _OPENED),
    "what the server compresses and encrypts": (_HELLO, _OPENED),
    "a key that the server does not have": ({"open": "p", "status": 400}, _MISTAKE),
    "a key that the server does not have beside one that it has": ({"open": "p", "status": 400}, _MISTAKE),
}
"""What the gateway says otherwise, and why."""
QUIET_SECONDS = 0.3
"""How long is waited whether more comes; for a connection that is to end, as long as for an answer."""


def played(site: GatewaySite, title: str) -> list[dict[str, Any]]:
    """The conversation with the gateway; texts that explain are each server's own."""
    talk = record.Talk(f"ws://127.0.0.1:{site.port}", site.topic())
    steps: list[dict[str, Any]] = []
    try:
        for step in SENT[title]:
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


def holds(part: Any, whole: Any) -> bool:
    """Whether ``whole`` says all that ``part`` says."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(name in whole and holds(value, whole[name]) for name, value in part.items())
    return bool(part == whole)


@pytest.fixture(scope="module")
def with_keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewaySite]:
    path = tmp_path_factory.mktemp("keys")
    for name in record.HELD:
        make_key(path, name)
    sources = ", ".join(f'{name} = "pem://{path}/{name}.private.pem"' for name in record.HELD)
    site = GatewaySite(path, f"{NAMED}keys = {{{sources}}}\n")
    yield site
    site.close()


def check(site: GatewaySite, title: str, recorded: list[dict[str, Any]], patch: pytest.MonkeyPatch) -> None:
    expected = told(recorded)
    ours, _ = DIFFERENT.get(title, ({}, ""))
    is_to_end = "closed" in ours if ours else any("closed" in one for one in expected)
    patch.setattr(record, "QUIET_SECONDS", record.ANSWER_SECONDS if is_to_end else QUIET_SECONDS)
    steps = played(site, title)
    if ours:
        assert steps != expected, "it is not different any more"
        assert any(holds(ours, one) for one in steps), steps
    else:
        assert steps == expected


@pytest.mark.parametrize("title", OF_PULSAR)
def test_the_gateway_answers_as_pulsar_does(site: GatewaySite, title: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(site, title, OF_PULSAR[title], monkeypatch)


@pytest.mark.parametrize("title", WITH_KEYS)
def test_a_gateway_with_keys_answers_as_pulsar_does_with_keys(
    with_keys: GatewaySite, title: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(with_keys, title, WITH_KEYS[title], monkeypatch)
