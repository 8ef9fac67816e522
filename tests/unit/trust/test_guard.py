"""What a node's settings do to a message before it is sent, and refuse when it came (M-25, M-28, M-29, M-31)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from speed.message.options import PublishOptions
from speed.trust.schemas import SchemaRegistry
from speed.trust.security import Guard, MessageSecurity
from speed.wire.message import MessageView
from tests.unit.message.keys import BASE

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
