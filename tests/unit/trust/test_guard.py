"""What a node's settings do to a message before it is sent, and refuse when it came (M-25, M-28, M-29, M-31)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from speed.errors import StorageError, WireError
from speed.message import message_pb2
from speed.message.audit import AuditLog
from speed.message.errors import AlgorithmError, KeyUnavailableError, MessageError, UnsignedError, UntrustedError
from speed.message.keys import MessageKey, generate_key
from speed.message.keystore import KeyStore
from speed.message.options import PublishOptions
from speed.message.protect import Protection, protect_message
from speed.message.schemas.registry import SchemaRegistry
from speed.message.security import Guard, MessageSecurity
from speed.message.view import MessageView
from speed.message.writing import with_security
from tests.unit.message.keys import BASE
from tests.vectors import case_name, load

pb: Any = message_pb2
ORDER = {"id": 1, "card": "4111"}
PERSONAL = {"properties": {"card": {"x-pii": True}}}


class Away:
    """A provider that does not answer."""

    def fetch(self) -> tuple[MessageKey, ...]:
        raise KeyUnavailableError("away")


def schemas(tmp_path: Path, **files: Any) -> SchemaRegistry:
    for name, schema in files.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "v1.json").write_text(json.dumps(schema))
    return SchemaRegistry(tmp_path)


def written(security: MessageSecurity, **options: Any) -> MessageView:
    return MessageView(Guard(security).write(ORDER, PublishOptions(**options), **BASE)).validate()


@pytest.mark.parametrize("said", [None, False, True])
def test_a_schema_that_marks_personal_data_says_so_whatever_the_sender_says(tmp_path: Path, said: bool | None) -> None:
    """M-29."""
    security = MessageSecurity(schemas=schemas(tmp_path, Order=PERSONAL))
    assert written(security, schema="Order", contains_pii=said).security.contains_pii


@pytest.mark.parametrize("said", [None, False, True])
def test_without_such_a_schema_the_sender_says_whether_a_message_is_personal(tmp_path: Path, said: bool | None) -> None:
    security = MessageSecurity(schemas=schemas(tmp_path, Order={}))
    assert written(security, schema="Order", contains_pii=said).security.contains_pii is bool(said)


# --- keys of publishers ---


def publishers(file: Path, *keys: MessageKey) -> None:
    file.write_text(json.dumps([key.public_part().to_record() for key in keys]))
    file.chmod(0o600)


def signed(key: MessageKey) -> MessageView:
    return written(MessageSecurity(sign_with=key))


def test_a_publisher_that_rotated_its_key_is_believed_at_once(tmp_path: Path) -> None:
    """M-26: the receiver has just read the set of keys without it."""
    first, second = (generate_key(f"billing.{n}", "ed25519", publishers=("billing",)) for n in (1, 2))
    publishers(tmp_path / "keys.json", first)
    keys = KeyStore({"publishers": f"file://{tmp_path}/keys.json"})
    guard = Guard(MessageSecurity(keys=keys, policy="require", trusted=("publishers",)))
    guard.open(signed(first))
    publishers(tmp_path / "keys.json", first, second)
    guard.open(signed(second))
    with pytest.raises(UntrustedError, match=r"billing\.3"):
        guard.open(signed(generate_key("billing.3", "ed25519", publishers=("billing",))))


def test_an_unsigned_message_asks_nobody_for_a_key() -> None:
    guard = Guard(MessageSecurity(keys=KeyStore({"all": Away()}), policy="require", trusted=("all",)))
    with pytest.raises(UnsignedError):
        guard.open(written(MessageSecurity()))


def test_one_set_of_publishers_that_is_away_holds_up_no_message_of_another() -> None:
    key = generate_key("billing.1", "ed25519", publishers=("billing",))
    keys = KeyStore({"away": Away(), "billing": key.public_part()})
    Guard(MessageSecurity(keys=keys, policy="require", trusted=("away", "billing"))).open(signed(key))


# --- refused algorithms ---


@pytest.mark.parametrize("case", load("signatures")["refused_algorithms"], ids=case_name)
@pytest.mark.parametrize("policy", ["off", "verify"])
def test_a_refused_algorithm_is_named_whatever_the_policy(case: dict[str, Any], policy: str) -> None:
    """M-24."""
    keys = KeyStore({"publishers": generate_key("ed-1", "ed25519", publishers=("billing",))})
    guard = Guard(MessageSecurity(keys=keys, policy=policy, trusted=("publishers",)))
    with pytest.raises(AlgorithmError, match=f"(?i){case['algorithm']}") as refused:
        guard.open(MessageView(bytes.fromhex(case["hex"])).validate())
    assert refused.value.code == case["error"]


# --- audit ---


def told(path: Path) -> list[tuple[str, str, str, str]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [(line["operation"], line["outcome"], line.get("source", ""), line["message_id"]) for line in lines]


def refusing(tmp_path: Path) -> dict[str, tuple[MessageSecurity, MessageView, str, str]]:
    """Settings of a reader, a message that they refuse, and the line: one of each kind."""
    signer, shared = generate_key("billing.1", "ed25519", publishers=("billing",)), generate_key("k", "aes-256-gcm")
    trusting = MessageSecurity(keys=KeyStore({"all": signer}), policy="require", trusted=("all",))
    order = schemas(tmp_path, Order={"required": ["amount"]})
    other = {"schema_name": "Order", "schema_version": "v1", "schema_hash": "sha256:" + "0" * 64}
    described = order.get("Order", "v1").fields

    def clear(schema: dict[str, Any] | None = None, **security: Any) -> MessageView:
        data = protect_message(ORDER, Protection(), schema=schema, **BASE)
        return MessageView(with_security(data, pb.SecurityContext(**security).SerializeToString()))

    known = MessageSecurity(keys=KeyStore({"k": shared}))
    secret = written(known, encrypt_to=shared, classification="restricted")
    return {
        "unsigned": (trusting, clear(), "verify", "UNSIGNED"),
        "unknown key": (trusting, signed(generate_key("x", "ed25519")), "verify", "UNTRUSTED"),
        "weak": (MessageSecurity(), clear(signature_algorithm="hmac-md5"), "verify", "WEAK_ALGORITHM"),
        "ahead": (replace(trusting, clock_ms=lambda: 0), signed(signer), "receive", "BAD_MESSAGE"),
        "in the clear": (MessageSecurity(), clear(data_classification="restricted"), "receive", "NOT_ENCRYPTED"),
        "clearance": (replace(known, clearance="internal"), secret, "receive", "NOT_CLEARED"),
        "no key": (MessageSecurity(), secret, "decrypt", "NO_RECIPIENT_KEY"),
        "another hash": (MessageSecurity(schemas=order), clear(other), "receive", "BAD_SCHEMA"),
        "no fit": (MessageSecurity(schemas=order), clear(described), "receive", "BAD_SCHEMA"),
    }


KINDS = ("unsigned", "unknown key", "weak", "ahead", "in the clear", "clearance", "no key", "another hash", "no fit")


@pytest.mark.parametrize("kind", KINDS)
def test_each_refusal_of_a_received_message_is_one_line_of_who_what_and_why(tmp_path: Path, kind: str) -> None:
    """M-31."""
    security, view, operation, code = refusing(tmp_path)[kind]
    guard = Guard(replace(security, audit=AuditLog(str(tmp_path / "audit"))))
    with pytest.raises((MessageError, WireError)) as refused:
        guard.open(view, "billing")
    refusals = [line for line in told(tmp_path / "audit") if line[1] != "ok"]
    assert refusals == [(operation, code, "billing", BASE["message_id"])]
    assert getattr(refused.value, "reason", refused.value.code) == code
    assert "4111" not in (tmp_path / "audit").read_text()


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"classification": "restricted"}, "NOT_ENCRYPTED"),
        ({"sign_with": "nobody"}, "KEY_UNAVAILABLE"),
        ({"encrypt_to": "away"}, "KEY_UNAVAILABLE"),
        ({"schema": "Order"}, "BAD_SCHEMA"),
        ({"schema": "Unknown"}, "BAD_SCHEMA"),
        ({"sign_with": "encrypts", "encrypt_to": "encrypts"}, "KEY_REFUSED"),
    ],
)
def test_each_refusal_to_send_is_one_line(tmp_path: Path, options: dict[str, Any], code: str) -> None:
    """M-31."""
    keys = KeyStore({"away": Away(), "encrypts": generate_key("k", "aes-256-gcm")})
    audit = AuditLog(str(tmp_path / "audit"))
    order = schemas(tmp_path, Order={"required": ["amount"]})
    with pytest.raises(MessageError) as refused:
        written(MessageSecurity(keys=keys, schemas=order, audit=audit), **options)
    assert refused.value.code == code
    assert told(tmp_path / "audit") == [("send", code, "billing", BASE["message_id"])]


def test_a_message_that_cannot_be_judged_now_is_not_refused_in_the_audit(tmp_path: Path) -> None:
    """It is judged again and again, and told when that is done."""
    security = MessageSecurity(keys=KeyStore({"all": Away()}), policy="require", trusted=("all",))
    guard = Guard(replace(security, audit=AuditLog(str(tmp_path / "audit"))))
    for _ in range(3):
        with pytest.raises(KeyUnavailableError):
            guard.open(signed(generate_key("billing.1", "ed25519")), "billing")
    assert told(tmp_path / "audit") == []


# --- access to what is personal or restricted ---


def accesses(path: Path) -> list[dict[str, Any]]:
    return [line for line in map(json.loads, path.read_text().splitlines()) if line["operation"] == "access"]


@pytest.mark.parametrize("said", [False, True])
def test_a_schema_that_marks_personal_data_counts_over_what_a_publisher_says(tmp_path: Path, said: bool) -> None:
    """M-28: also of a message whose publisher has another registry, or none."""
    order = schemas(tmp_path, Order=PERSONAL)
    data = protect_message(ORDER, Protection(), schema=order.get("Order", "v1").fields, **BASE)
    view = MessageView(with_security(data, pb.SecurityContext(contains_pii=said).SerializeToString()))
    opened = Guard(MessageSecurity(schemas=order)).open(view)
    assert opened.security.contains_pii
    assert opened.payload == ORDER
    assert opened.to_bytes() == view.to_bytes()


def test_who_is_handed_personal_data_is_written_down_with_publisher_topic_and_schema(tmp_path: Path) -> None:
    """M-31."""
    order = schemas(tmp_path, Order=PERSONAL)
    data = protect_message(
        ORDER, Protection(), schema=order.get("Order", "v1").fields, **{**BASE, "publisher_id": "shop"}
    )
    audit = AuditLog(str(tmp_path / "audit"))
    Guard(MessageSecurity(schemas=order, audit=audit), "analytics").open(MessageView(data), "billing")
    (line,) = accesses(tmp_path / "audit")
    assert line.pop("time")
    assert line == {
        "operation": "access",
        "outcome": "ok",
        "algorithm": "",
        "key_id": "",
        "message_id": BASE["message_id"],
        "source": "billing",
        "reader": "analytics",
        "topic": BASE["topic"],
        "namespace": BASE["namespace"],
        "publisher": "shop",
        "schema": "Order/v1",
        "contains_pii": True,
    }


def test_who_is_handed_a_restricted_message_is_written_down_and_others_are_not(tmp_path: Path) -> None:
    """M-31."""
    shared = generate_key("k", "aes-256-gcm")
    audit = AuditLog(str(tmp_path / "audit"))
    reader = Guard(MessageSecurity(keys=KeyStore({"k": shared}), audit=audit), "analytics")
    for classification in ("internal", "confidential", "restricted"):
        reader.open(written(MessageSecurity(), encrypt_to=shared, classification=classification), "billing")
    assert [line["classification"] for line in accesses(tmp_path / "audit")] == ["restricted"]


def test_a_message_whose_access_cannot_be_written_down_is_not_handed_out(tmp_path: Path) -> None:
    audit = AuditLog(str(tmp_path / "audit"))
    view = written(MessageSecurity(), contains_pii=True)
    audit.close()
    with pytest.raises(StorageError):
        Guard(MessageSecurity(audit=audit), "analytics").open(view, "billing")


def test_lines_about_what_is_sent_tell_where_it_belongs(tmp_path: Path) -> None:
    """M-31."""
    audit = AuditLog(str(tmp_path / "audit"))
    written(MessageSecurity(audit=audit), encrypt_to=generate_key("k", "aes-256-gcm"), classification="restricted")
    (line,) = map(json.loads, (tmp_path / "audit").read_text().splitlines())
    assert (line["topic"], line["namespace"], line["classification"]) == (
        BASE["topic"],
        BASE["namespace"],
        "restricted",
    )
