"""``speed support-bundle``: everything that somebody who helps needs, and nothing that is secret."""

from __future__ import annotations

import base64
import json
import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import speed
from speed.fs.keyfile import load_key_file
from speed.observe.redaction import REDACTED, log_tail, redacted, redacted_text
from tests.system.commands import Command

pytestmark = pytest.mark.system

PAYLOAD = "account 4711 of Mrs. Miller"
PASSWORD = "correct-horse-battery"
CONFIG = f"""
[node]
root = "root"
key = "/etc/speed/speed.key"
[log]
file = "speedd.log"
[[process]]
name = "etl"
command = ["etl", "--password", "{PASSWORD}", "--url=amqp://me:{PASSWORD}@broker/x?sig={PASSWORD}", "run"]
env = {{ HOME = "/srv", STATE = "{PASSWORD}" }}
[[backend]]
name = "orders"
url = "postgres://me:{PASSWORD}@db:5432/orders"
sasl_password = "{PASSWORD}"
token_file = "/etc/speed/token"
"""


@pytest.fixture
def shop(run: Command) -> Iterator[speed.Node]:
    """A node that could not handle a message, and was called in vain."""
    key = run.root / "speed.key"
    with (
        speed.Node("shop", root=run.root, key=key, allow=["cli.*", "billing"]) as node,
        speed.Node("billing", root=run.root, key=key) as billing,
    ):

        @node.on_message
        def fail(message: speed.Message) -> None:
            raise ValueError(f"no {message.payload}")

        node.register("tax", lambda amount: amount)
        with pytest.raises(speed.ExecutionFailedError):
            billing.send("shop", PAYLOAD, ack=True)
        with pytest.raises(speed.InvalidArgumentsError):
            billing.call("shop", "tax", {"account": PAYLOAD})
        with pytest.raises(speed.AccessDeniedError):
            node.call("billing", "pay")
        yield node


def unpacked(path: Path) -> dict[str, str]:
    """The texts in a bundle, by name."""
    with tarfile.open(path) as archive:
        members = [(os.path.basename(one.name), archive.extractfile(one)) for one in archive]
        return {name: file.read().decode() for name, file in members if file is not None}


def bundle(run: Command, path: Path, *words: str) -> dict[str, str]:
    done = run("support-bundle", "--output", str(path), *words)
    assert done.status == 0, done.err
    return unpacked(path)


def written(directory: Path) -> Path:
    """A configuration, and the log that it names, with what a program printed."""
    (directory / "speedd.toml").write_text(CONFIG)
    records: list[dict[str, Any]] = [
        {"event": "ready", "level": "info"},
        {"event": "output", "process": "etl", "text": PAYLOAD},
        {"event": "bridge_waits", "url": f"redis://:{PASSWORD}@cache"},
    ]
    lines = [*map(json.dumps, records), f"Traceback: {PAYLOAD}"]
    (directory / "speedd.log").write_text("\n".join(lines))
    return directory / "speedd.toml"


def test_a_bundle_tells_of_nodes_troubles_counters_and_dead_letters(
    run: Command, shop: speed.Node, tmp_path: Path
) -> None:
    found = bundle(run, tmp_path / "bundle.tar.gz")
    assert {node["name"] for node in json.loads(found["nodes.json"])} >= {"shop", "billing"}
    assert json.loads(found["stats.json"])["shop"]["counters"]["dead_letters"] == 1
    assert [(one["sender"], one["receiver"]) for one in json.loads(found["refused.json"])] == [("shop", "billing")]
    assert json.loads(found["dead.json"])[0]["errorCode"] == "EXECUTION_FAILED"
    assert {one["check"] for one in json.loads(found["doctor.json"])} >= {"key", "space", "nodes"}
    assert json.loads(found["machine.json"])["speed"] == speed.__version__
    assert json.loads(found["topics.json"])["error"] == "UNKNOWN_NODE", "no speedd is here, and that is said"
    assert "no speedd serves the root" in json.loads(found["speedd.json"])["message"]


def test_no_key_no_payload_no_password_and_no_output_is_in_a_bundle(
    run: Command, shop: speed.Node, tmp_path: Path
) -> None:
    found = bundle(run, tmp_path / "bundle.tar.gz", "--config", str(written(tmp_path)))
    (key,) = load_key_file(str(run.root / "speed.key")).now.keys
    for name, text in found.items():
        for secret in (PASSWORD, PAYLOAD, "4711", key.hex(), base64.b64encode(key).decode().rstrip("=")):
            assert secret not in text, name
    config = json.loads(found["config.json"])
    assert config["node"]["key"] == "/etc/speed/speed.key", "where it lies is no secret"
    assert config["backend"][0]["token_file"] == "/etc/speed/token"
    assert config["backend"][0]["url"] == f"postgres://{REDACTED}@db:5432/orders"
    assert config["process"][0]["command"][2:4] == [REDACTED, f"--url=amqp://{REDACTED}@broker/x?sig={REDACTED}"]
    assert config["process"][0]["env"] == {"HOME": REDACTED, "STATE": REDACTED}
    assert "ready" in found["log-1.txt"]
    assert "2 lines that are not of speedd itself are left out" in found["log-1.txt"]


def test_a_bundle_is_for_its_owner_alone_and_replaces_nothing(run: Command, tmp_path: Path) -> None:
    path = tmp_path / "bundle.tar.gz"
    bundle(run, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = run("support-bundle", "--output", str(path))
    assert again.status == 8
    assert "File exists" in again.err


def test_a_bundle_that_would_hold_the_key_is_not_written(run: Command, tmp_path: Path) -> None:
    (key,) = load_key_file(str(run.root / "speed.key")).now.keys
    (tmp_path / "speedd.toml").write_text(f'[node]\nname = "{key.hex()}"\n')
    refused = run("support-bundle", "--output", str(tmp_path / "b.tar.gz"), "--config", str(tmp_path / "speedd.toml"))
    assert refused.status == 3
    assert key.hex() not in refused.err
    assert not (tmp_path / "b.tar.gz").exists()


def test_a_bundle_of_a_broken_root_says_what_is_broken(run: Command, tmp_path: Path) -> None:
    (run.root / "speed.key").write_bytes(b"no key")
    found = bundle(run, tmp_path / "bundle.tar.gz")
    assert json.loads(found["status.json"])["error"] == "KEY_FILE"
    assert any(one["state"] == "broken" for one in json.loads(found["doctor.json"]))


def test_a_configuration_that_is_none_is_told_without_its_text(run: Command, tmp_path: Path) -> None:
    (tmp_path / "speedd.toml").write_text(f"password {PASSWORD}")
    found = bundle(run, tmp_path / "bundle.tar.gz", "--config", str(tmp_path / "speedd.toml"))
    assert PASSWORD not in found["config.json"]
    assert json.loads(found["config.json"])["error"] == "CONFIGURATION"


def test_no_link_is_followed_to_a_log_and_a_pipe_is_none(tmp_path: Path) -> None:
    (tmp_path / "log").write_text('{"event": "ready"}')
    (tmp_path / "link").symlink_to(tmp_path / "log")
    os.mkfifo(tmp_path / "pipe")
    assert log_tail(str(tmp_path / "log")) == ['{"event": "ready"}']
    for name in ("link", "pipe"):
        with pytest.raises(OSError, match=name):
            log_tail(str(tmp_path / name))


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("key", "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2U=", REDACTED),
        ("key", "speed.key", "speed.key"),
        ("aws_secret_access_key", "/abc", REDACTED),
        ("tokens", ["a", "b"], REDACTED),
        ("password", {"value": "x"}, REDACTED),
        ("lease_seconds", 4.0, 4.0),
        ("token_file", "/etc/token", "/etc/token"),
    ],
)
def test_what_is_a_secret_is_told_by_its_name(name: str, value: object, shown: object) -> None:
    assert redacted({name: value}) == {name: shown}


def test_what_is_assigned_to_the_name_of_a_secret_is_none_of_a_text() -> None:
    assert redacted_text("PASSWORD=abc Authorization: Bearer abc.def x=1") == (
        f"PASSWORD={REDACTED} Authorization: Bearer {REDACTED} x=1"
    )
