"""What a node's settings do to a message before it is sent, and refuse when it came (M-25, M-28, M-29, M-31)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from speed.message.errors import AlgorithmError, KeyUnavailableError, UnsignedError, UntrustedError
from speed.message.keys import MessageKey, generate_key
from speed.message.options import PublishOptions
from speed.trust.keystore import KeyStore
from speed.trust.schemas import SchemaRegistry
from speed.trust.security import Guard, MessageSecurity
from speed.wire.message import MessageView
from tests.unit.message.keys import BASE
from tests.vectors import case_name, load

ORDER = {"id": 1, "card": "4111"}
PERSONAL = {"properties": {"card": {"x-pii": True}}}


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
    class Away:
        def fetch(self) -> tuple[MessageKey, ...]:
            raise KeyUnavailableError("away")

    guard = Guard(MessageSecurity(keys=KeyStore({"all": Away()}), policy="require", trusted=("all",)))
    with pytest.raises(UnsignedError):
        guard.open(written(MessageSecurity()))


def test_one_set_of_publishers_that_is_away_holds_up_no_message_of_another() -> None:
    class Away:
        def fetch(self) -> tuple[MessageKey, ...]:
            raise KeyUnavailableError("away")

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
