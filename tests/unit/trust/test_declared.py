"""What declared encryption becomes: keys that are asked for at the start, and settings of a node (M-38)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from speed.errors import ConfigurationError
from speed.message.declared import (
    MAX_FILE_BYTES,
    EncryptionSettings,
    check_keys,
    check_sources,
    declared,
    read_declared,
    security_of,
)
from speed.message.errors import KeyUnavailableError
from speed.message.keys import MessageKey, generate_key
from speed.message.keystore import rotate_file
from speed.message.options import PublishOptions
from speed.message.security import Guard
from speed.message.view import MessageView
from tests.unit.message.keys import BASE

DAY_MS = 86_400_000


def kept(tmp_path: Path, key: MessageKey, name: str = "own.json") -> str:
    (tmp_path / name).write_text(json.dumps([key.to_record()]))
    (tmp_path / name).chmod(0o600)
    return f"file://{tmp_path}/{name}"


def written(settings: EncryptionSettings) -> MessageView:
    return MessageView(Guard(security_of(settings)).write({"a": 1}, PublishOptions(), **BASE)).validate()


def test_a_node_encrypts_to_its_own_keys_and_reads_by_them(tmp_path: Path) -> None:
    settings = declared({"algorithm": "aes-256-gcm", "key_ref": kept(tmp_path, generate_key("k", "aes-256-gcm"))})
    view = written(settings)
    assert view.security.encryption.algorithm == "aes-256-gcm"
    assert Guard(security_of(settings)).open(view).payload == {"a": 1}


def test_a_node_encrypts_to_the_public_keys_of_its_readers(tmp_path: Path) -> None:
    reader = generate_key("reader", "ml-kem-768")
    own = kept(tmp_path, generate_key("own", "ml-kem-768"))
    readers = kept(tmp_path, reader.public_part(), "readers.json")
    view = written(declared({"algorithm": "ml-kem-768", "key_ref": own, "public_key_ref": readers}))
    assert [one.key_id for one in view.security.encryption.recipients] == ["reader"]


def test_where_encryption_is_not_enabled_messages_are_read_and_not_written_encrypted(tmp_path: Path) -> None:
    uri = kept(tmp_path, generate_key("k", "aes-256-gcm"))
    on = declared({"algorithm": "aes-256-gcm", "key_ref": uri})
    off = declared({"algorithm": "aes-256-gcm", "key_ref": uri, "enabled": False})
    assert not written(off).is_encrypted
    assert Guard(security_of(off)).open(written(on)).payload == {"a": 1}


def test_keys_of_another_algorithm_are_found_before_the_first_message(tmp_path: Path) -> None:
    settings = declared({"algorithm": "x-wing", "key_ref": kept(tmp_path, generate_key("k", "aes-256-gcm"))})
    with pytest.raises(ConfigurationError, match="key 'k' is of aes-256-gcm, and x-wing is declared"):
        check_keys(settings)


def test_keys_that_are_not_there_are_found_before_the_first_message(tmp_path: Path) -> None:
    with pytest.raises(KeyUnavailableError):
        check_keys(declared({"key_ref": f"file://{tmp_path}/none.json"}))
    check_keys(declared({"key_ref": kept(tmp_path, generate_key("k", "x-wing"))}))


def test_a_reference_to_no_provider_is_found_without_asking_anybody() -> None:
    check_sources(declared({"key_ref": "file:///nowhere"}))
    with pytest.raises(ConfigurationError, match="no key provider"):
        check_sources(declared({"key_ref": "ftp://keys"}))


@pytest.mark.parametrize(("algorithm", "is_warned"), [("x-wing", True), ("ml-kem-1024", False)])
def test_what_nist_does_not_approve_is_warned_of(
    algorithm: str, is_warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    security_of(declared({"algorithm": algorithm, "key_ref": "file:///k"}))
    assert ("not approved by NIST" in caplog.text) is is_warned


def test_a_file_declares_it_for_commands(tmp_path: Path) -> None:
    file = tmp_path / "speed.toml"
    file.write_text(
        '[encryption]\nalgorithm = "ml-kem-768"\nkey_ref = "file:///k"\n[encryption.key_rotation]\nenabled = true\n'
    )
    assert read_declared(file).key_rotation.enabled


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[", "is not TOML"),
        ("", r"no table \[encryption\]"),
        (None, "cannot be read"),
        ("#" * MAX_FILE_BYTES + "\n[encryption]", "has more than 262144 bytes"),
    ],
)
def test_a_file_that_declares_nothing_is_refused(tmp_path: Path, text: str | None, said: str) -> None:
    file = tmp_path / "speed.toml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigurationError, match=said):
        read_declared(file)


def test_a_file_of_keys_is_rotated_once_it_is_due(tmp_path: Path) -> None:
    kept(tmp_path, generate_key("k.1", "aes-256-gcm"))
    file = str(tmp_path / "own.json")
    fresh = rotate_file(file, 90 * DAY_MS, 7 * DAY_MS)
    assert fresh is not None
    assert fresh.id.startswith("k.")
    assert rotate_file(file, 90 * DAY_MS, 7 * DAY_MS) is None
    records: list[dict[str, Any]] = json.loads((tmp_path / "own.json").read_text())
    assert records[0]["not_after_ms"] == fresh.not_before_ms + 7 * DAY_MS
