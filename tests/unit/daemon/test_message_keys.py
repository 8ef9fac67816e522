"""speedd adds the next key to a file of keys when it is due, and says so (M-38)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from speed.daemon.config_check import check_text
from speed.daemon.hosting import LOOK_SECONDS, MessageKeyRotation
from speed.message.declared import declared
from speed.message.keys import generate_key
from speed.message.providers import provider_of


class Log:
    """What was said."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, **more: Any) -> None:
        self.events.append((event, more))

    error = info


def rotation(file: Path, log: Log, **more: Any) -> MessageKeyRotation:
    table = {"algorithm": "aes-256-gcm", "key_ref": f"file://{file}", "key_rotation": {"enabled": True, **more}}
    return MessageKeyRotation(declared(table), log)


def test_a_key_that_is_old_enough_gets_a_successor_once(tmp_path: Path) -> None:
    file, log = tmp_path / "keys.json", Log()
    file.write_text(json.dumps(generate_key("orders.1", "aes-256-gcm").to_record()))
    file.chmod(0o600)
    rotating = rotation(file, log)
    for now in (0.0, LOOK_SECONDS / 2, LOOK_SECONDS):
        rotating.look(now)
    ((event, more),) = log.events
    assert event == "message_key_rotated"
    assert [key.id for key in provider_of(f"file://{file}").fetch()] == ["orders.1", more["key_id"]]


def test_a_file_that_cannot_be_rotated_is_told_and_looked_at_again(tmp_path: Path) -> None:
    log = Log()
    rotating = rotation(tmp_path / "none.json", log)
    rotating.look(0.0)
    rotating.look(LOOK_SECONDS)
    assert [event for event, _ in log.events] == ["message_key_not_rotated"] * 2


def test_where_no_rotation_is_declared_nothing_is_done(tmp_path: Path) -> None:
    log = Log()
    MessageKeyRotation(None, log).look(0.0)
    MessageKeyRotation(declared({"key_ref": f"file://{tmp_path}/none"}), log).look(0.0)
    assert log.events == []


def test_mistakes_in_what_is_declared_are_told_with_their_line() -> None:
    text = '[node]\nname = "a"\n[encryption]\nkey_ref = "file:///k"\nalgorithm = "3des"\n'
    _, mistakes = check_text(text, Path("speedd.toml"))
    assert [(one.line, one.what) for one in mistakes] == [
        (5, "[encryption] algorithm: 3des is deprecated or too weak, and no setting allows it")
    ]
    config, _ = check_text(text.replace("3des", "aes-256-gcm"), Path("speedd.toml"))
    assert config is not None
    assert config.encryption is not None
    assert config.encryption.row.name == "aes-256-gcm"
