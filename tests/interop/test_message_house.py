"""Audit lines of C++ and Java beside those of Python, and schemas between them (messages.md, M-29, M-31).

The agents of C++ and Java take more than ``test_protected.py`` says:

- ``protect{…, audit, schemas}``: ``audit`` is a path, ``schemas`` a map of ``NAME/VERSION`` to ``{hash, personal,
  deprecated, misfit}``; with ``misfit``, a text, no payload fits.
- ``protected_send{…, classification, schema}``: ``schema`` is a list of name and version.
- ``protected_receive`` has ``personal`` as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

import speed
from speed import AuditLog, KeyStore, MessageSecurity, PublishOptions, SchemaRegistry
from speed.message.errors import NotEncryptedError
from speed.message.keys import MessageKey, generate_key
from speed.message.schemas import schema_hash
from tests.interop.harness import Agent, until
from tests.interop.languages import CHOSEN
from tests.interop.pool import Agents

OTHER, PYTHON, WAIT = "house.other", "house.python", 20.0
LANGUAGES = [one for one in CHOSEN if one != "python"]
SCHEMA = json.dumps({"properties": {"sum": {"deprecated": True}}}).encode()
Line = dict[str, Any]


def lines(path: Path) -> list[Line]:
    return [json.loads(line) for line in path.read_text().splitlines()]


class House:
    """A node in another language and one in Python which sign, encrypt, and tell what they do."""

    def __init__(self, language: str, agents: Agents, directory: Path) -> None:
        self.agent: Agent = agents.start(language, "keeper.other").ready()
        self.signer = generate_key("signer-1", "ed25519", publishers=(OTHER, PYTHON))
        self.reader = generate_key("reader-1", "x25519-chacha20-poly1305")
        self.of_other, self.of_python = directory / "other.jsonl", directory / "python.jsonl"
        self._root, self._directory = agents.root, directory
        self._node: speed.Node | None = None
        self.heard: Queue[speed.Message] = Queue()

    def other(self, *keys: MessageKey, policy: str = "verify", **settings: Any) -> None:
        """Open the node in the other language; it signs and encrypts if ``settings`` say so."""
        usual: dict[str, Any] = {"sign_with": None, "encrypt_to": [], "compression": "none", "policy": policy}
        given = [key.to_record() for key in (self.signer, *keys)]
        usual |= {"keys": given, "trusted": [self.signer.id], "audit": str(self.of_other)}
        self.agent.ask("protect", name=OTHER, allow=[PYTHON], **usual | settings)

    def python(self, *keys: MessageKey, **settings: Any) -> speed.Node:
        """Open the node in Python."""
        store = KeyStore({key.id: key for key in (self.signer, *keys)})
        usual: dict[str, Any] = {"keys": store, "policy": "verify", "trusted": (self.signer.id,)}
        security = MessageSecurity(audit=AuditLog(str(self.of_python)), **usual | settings)
        self._node = speed.Node(
            PYTHON, root=self._root, key=f"{self._root}/speed.key", allow=[OTHER], security=security
        )
        self._node.on_message(self.heard.put)
        return self._node

    def schemas(self) -> SchemaRegistry:
        folder = self._directory / "schemas" / "order"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "v1.json").write_bytes(SCHEMA)
        return SchemaRegistry(folder.parent)

    def close(self) -> None:
        self.agent.ask("unprotect")
        if self._node is not None:
            self._node.close()


@pytest.fixture(params=LANGUAGES)
def house(request: pytest.FixtureRequest, private: Agents, tmp_path: Path) -> Iterator[House]:
    opened = House(request.param, private, tmp_path)
    yield opened
    opened.close()


def alike(mine: list[Line], theirs: list[Line]) -> None:
    """The same fields in the same order, and the same values but for time, message and names of nodes."""
    own = {"time", "message_id", "source", "reader", "publisher"}
    assert [list(line) for line in mine] == [list(line) for line in theirs]
    assert [{key: line[key] for key in line.keys() - own} for line in mine] == [
        {key: line[key] for key in line.keys() - own} for line in theirs
    ]
    for line in (*mine, *theirs):
        assert len(line["time"]) == len("2026-11-28T09:00:00.000+00:00")


def test_lines_of_the_other_language_are_those_of_python(house: House) -> None:
    """M-31: encrypt, sign, verify, decrypt and access, of a message from each node to the other."""
    house.other(house.reader, sign_with=house.signer.id, encrypt_to=[house.reader.id])
    node = house.python(house.reader, sign_with=house.signer.id, encrypt_to=(house.reader.id,))
    node.wait_for(OTHER, timeout=WAIT)
    node.send(OTHER, {"n": 1}, ack=True, timeout=WAIT, options=PublishOptions(classification="restricted"))
    assert house.agent.ask("protected_receive", timeout=WAIT)["source"] == PYTHON
    house.agent.ask("protected_send", target=PYTHON, payload={"n": 1}, classification="restricted", timeout=WAIT)
    assert house.heard.get(timeout=WAIT).payload == {"n": 1}
    mine, theirs = lines(house.of_other), lines(house.of_python)
    assert [line["operation"] for line in mine] == ["verify", "decrypt", "access", "encrypt", "sign"]
    assert [line["operation"] for line in theirs] == ["encrypt", "sign", "verify", "decrypt", "access"]
    alike(mine[:3], theirs[2:])
    alike(mine[3:], theirs[:2])


def test_a_refusal_of_the_other_language_is_told_as_one_of_python(house: House) -> None:
    """M-31: unsigned messages, where signatures are asked for."""
    house.other(policy="require")
    node = house.python(policy="require")
    node.wait_for(OTHER, timeout=WAIT)
    with pytest.raises(speed.InvalidArgumentsError, match="UNSIGNED"):
        node.send(OTHER, 1, ack=True, timeout=WAIT)
    assert "UNSIGNED" in str(house.agent.refusal("protected_send", target=PYTHON, payload=1, timeout=WAIT))
    alike(lines(house.of_other), lines(house.of_python))
    assert [line["outcome"] for line in lines(house.of_other)] == ["UNSIGNED"]


def test_a_confidential_message_in_the_clear_is_told_by_both_writers(house: House) -> None:
    """M-28, M-31."""
    house.other()
    node = house.python()
    node.wait_for(OTHER, timeout=WAIT)
    with pytest.raises(NotEncryptedError):
        node.send(OTHER, 1, options=PublishOptions(classification="confidential"))
    refused = house.agent.refusal(
        "protected_send", target=PYTHON, payload=1, classification="confidential", timeout=WAIT
    )
    assert refused.code == "NOT_ENCRYPTED"
    alike(lines(house.of_other), lines(house.of_python))
    assert [(line["operation"], line["outcome"]) for line in lines(house.of_other)] == [("send", "NOT_ENCRYPTED")]


# --- schemas ---


def known(**more: Any) -> dict[str, Any]:
    return {"order/v1": {"hash": schema_hash(SCHEMA), "personal": False, "deprecated": [], "misfit": None, **more}}


def send_order(house: House, payload: Any) -> None:
    node = house.python(schemas=house.schemas())
    node.wait_for(OTHER, timeout=WAIT)
    node.send(OTHER, payload, ack=True, timeout=WAIT, options=PublishOptions(schema=("order", "v1")))


def test_a_message_of_python_that_does_not_fit_is_refused_in_the_other_language_and_named(house: House) -> None:
    """M-29, M-31."""
    house.other(schemas=known(misfit="amount: is missing"))
    with pytest.raises(speed.InvalidArgumentsError, match="BAD_SCHEMA: amount: is missing"):
        send_order(house, {"n": 1})
    assert house.agent.ask("protected_receive", timeout=0) is None
    assert until(lambda: len(lines(house.of_other)) == 1, WAIT)
    told = lines(house.of_other)[0]
    assert (told["operation"], told["outcome"], told["schema"]) == ("receive", "BAD_SCHEMA", "order/v1")


def test_another_hash_than_that_of_python_is_refused_in_the_other_language(house: House) -> None:
    """M-29."""
    house.other(schemas=known(hash=schema_hash(b"another")))
    with pytest.raises(speed.InvalidArgumentsError, match="BAD_SCHEMA: schema_hash"):
        send_order(house, {"n": 1})


def test_what_a_schema_of_the_other_language_marks_is_personal_though_python_does_not_say_so(house: House) -> None:
    """M-29, M-31."""
    house.other(schemas=known(personal=True))
    send_order(house, {"card": "4111"})
    assert house.agent.ask("protected_receive", timeout=WAIT)["personal"] is True
    assert [line["operation"] for line in lines(house.of_other)] == ["access"]


def test_what_the_other_language_says_of_a_schema_is_read_in_python(house: House) -> None:
    """M-29: hash, deprecated fields and the mark of personal data come from the schema."""
    house.other(schemas=known(personal=True, deprecated=["sum"]))
    node = house.python(schemas=house.schemas())
    node.wait_for(OTHER, timeout=WAIT)
    house.agent.ask("protected_send", target=PYTHON, payload={"sum": 1}, schema=["order", "v1"], timeout=WAIT)
    view = house.heard.get(timeout=WAIT).metadata
    assert (view.schema.schema_hash, list(view.schema.deprecated_fields_used)) == (schema_hash(SCHEMA), ["sum"])
    assert view.security.contains_pii


def test_what_does_not_fit_is_not_sent_by_the_other_language(house: House) -> None:
    """M-29."""
    house.other(schemas=known(misfit="amount: is missing"))
    node = house.python()
    node.wait_for(OTHER, timeout=WAIT)
    refused = house.agent.refusal("protected_send", target=PYTHON, payload=1, schema=["order", "v1"], timeout=WAIT)
    assert refused.code == "BAD_SCHEMA"
