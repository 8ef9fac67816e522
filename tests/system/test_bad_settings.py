"""Keys, roots, names and options that cannot be: a named error that says what is possible."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from typing import Any

import pytest

import speed
from speed.fs.keyfile import write_key_file

Make = Callable[..., speed.Node]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "line 1"),
        (b"SPEED-KEY-V1\n\n", "no key"),
        (b"SPEED-KEY-V1\n\nnot base64!\n", "line 3"),
        (b"SPEED-KEY-V1\n\nAAAA\n", "3 bytes"),
        (b"\xff\xfe\x00", "text"),
    ],
)
def test_a_malformed_key_file_is_named_and_never_shown(root: str, content: bytes, says: str) -> None:
    path = f"{root}/bad.key"
    with open(path, "wb") as file:
        file.write(content)
    os.chmod(path, 0o600)
    with pytest.raises(speed.KeyFileError, match=says) as caught:
        speed.Node("billing", root=root, key=path)
    assert "base64!" not in str(caught.value)


def test_a_missing_key_file_says_how_to_make_one(root: str) -> None:
    with pytest.raises(speed.KeyFileError, match="speed key new"):
        speed.Node("billing", root=root, key=f"{root}/none.key")


def test_a_key_file_that_others_can_read_is_refused(root: str) -> None:
    os.chmod(f"{root}/speed.key", 0o644)
    with pytest.raises(speed.KeyFileError, match="chmod 600"):
        speed.Node("billing", root=root)


def test_a_node_with_another_key_cannot_wait_for_a_name_to_be_free(root: str, node: Make) -> None:
    """R-5: its holder lives, although its entry cannot be read."""
    billing = node("billing", lease_seconds=0.2, heartbeat_seconds=0.05)
    write_key_file(f"{root}/other.key", (os.urandom(32),))
    until_lease_has_passed = time.monotonic() + 0.3
    while True:
        passed = time.monotonic() > until_lease_has_passed
        with pytest.raises(speed.NameTakenError, match="use the key of this root"):
            node("billing", key=f"{root}/other.key", lease_seconds=0.2, heartbeat_seconds=0.05)
        if passed:
            break
    assert billing.generation == 1


def test_a_root_that_is_a_file_is_refused(root: str) -> None:
    with pytest.raises(speed.RootError, match="directory"):
        speed.Node("billing", root=f"{root}/speed.key", key=f"{root}/speed.key")


@pytest.mark.parametrize("name", ["", "a/b", "..", ".hidden", "a" * 129, "speed_registry", "é", "a b", "a.", "inbox"])
def test_a_name_that_breaks_the_rule_is_refused(root: str, name: str) -> None:
    """W-1."""
    with pytest.raises(speed.InvalidNameError, match=r"use letters|choose another|choose a shorter"):
        speed.Node(name, root=root)


@pytest.mark.parametrize(
    "options",
    [
        {"lease_seconds": 1.0},
        {"lease_seconds": float("nan")},
        {"lease_seconds": "30"},
        {"heartbeat_seconds": 0},
        {"workers": 0},
        {"workers": "4"},
        {"durability": "later"},
        {"bell": "loud"},
        {"max_lane_bytes": 0},
        {"max_lane_bytes": 1 << 70},
        {"max_open_files": 1 << 70},
        {"max_open_files": 0},
        {"max_open_files": "many"},
    ],
    ids=str,
)
def test_an_impossible_option_is_named_with_what_is_possible(root: str, options: dict[str, Any]) -> None:
    """R-7."""
    with pytest.raises(speed.ConfigurationError, match=r"use |must exceed") as caught:
        speed.Node("billing", root=root, **options)
    assert next(iter(options)).split("_")[0] in str(caught.value)
    assert not os.path.exists(f"{root}/billing")


SPANS: dict[str, Callable[[speed.Node, Any, Any, Any], object]] = {
    "call": lambda node, topic, consumer, span: node.call("host", "any", timeout=span),
    "submit": lambda node, topic, consumer, span: node.submit("host", "any", timeout=span),
    "result": lambda node, topic, consumer, span: node.submit("host", "any").result(span),
    "exception": lambda node, topic, consumer, span: node.submit("host", "any").exception(span),
    "ping": lambda node, topic, consumer, span: node.ping("host", timeout=span),
    "services": lambda node, topic, consumer, span: node.services("host", timeout=span),
    "info": lambda node, topic, consumer, span: node.info("host", timeout=span),
    "stats": lambda node, topic, consumer, span: node.stats("host", timeout=span),
    "send": lambda node, topic, consumer, span: node.send("host", 1, timeout=span),
    "send_all": lambda node, topic, consumer, span: node.send_all("host", [1], timeout=span),
    "send_batch": lambda node, topic, consumer, span: node.send_batch("host", [1], timeout=span),
    "forward": lambda node, topic, consumer, span: node.forward("host", [], timeout=span),
    "publish": lambda node, topic, consumer, span: node.publish("news", 1, timeout=span),
    "publish_batch": lambda node, topic, consumer, span: node.publish_batch("news", [1], timeout=span),
    "receive": lambda node, topic, consumer, span: node.receive(span),
    "wait_for": lambda node, topic, consumer, span: node.wait_for("host", timeout=span),
    "close": lambda node, topic, consumer, span: node.close(drain_seconds=span),
    "topic.publish": lambda node, topic, consumer, span: topic.publish(1, timeout=span),
    "deliver_after": lambda node, topic, consumer, span: topic.publish(1, deliver_after=span),
    "topic.publish_all": lambda node, topic, consumer, span: topic.publish_all([{"payload": b"1"}], timeout=span),
    "delete_key": lambda node, topic, consumer, span: topic.delete_key("k", timeout=span),
    "describe": lambda node, topic, consumer, span: topic.describe(timeout=span),
    "create": lambda node, topic, consumer, span: topic.create(timeout=span),
    "delete": lambda node, topic, consumer, span: topic.delete(timeout=span),
    "seek": lambda node, topic, consumer, span: topic.seek("s", 0, timeout=span),
    "purge": lambda node, topic, consumer, span: topic.purge(timeout=span),
    "compact": lambda node, topic, consumer, span: topic.compact(timeout=span),
    "unsubscribe": lambda node, topic, consumer, span: topic.unsubscribe("s", timeout=span),
    "consumer": lambda node, topic, consumer, span: topic.consumer("s", timeout=span),
    "ack_timeout": lambda node, topic, consumer, span: topic.consumer("s", ack_timeout=span),
    "consumer.receive": lambda node, topic, consumer, span: consumer.receive(span),
    "reject": lambda node, topic, consumer, span: consumer.reject(delay=span),
    "reader.receive": lambda node, topic, consumer, span: topic.reader(0).receive(span),
    "aio.call": lambda node, topic, consumer, span: asyncio.run(node.aio.call("host", "any", timeout=span)),
    "aio.receive": lambda node, topic, consumer, span: asyncio.run(node.aio.receive(span)),
    "aio.topic": lambda node, topic, consumer, span: asyncio.run(
        node.aio.topic("t", host="host").publish(1, deliver_after=span)
    ),
}
"""Every verb that takes seconds."""


@pytest.mark.parametrize("name", SPANS)
def test_no_verb_takes_a_span_of_time_that_is_none(node: Make, name: str) -> None:
    """S-4."""
    host, own = node("host", allow=["own"]), node("own")
    for service in ("subscribe", "read", "leave"):
        host.register(f"topics.{service}", lambda **_: {"next": 0, "lane": "", "messages": []})
    topic = own.topic("t", host="host")
    with topic.consumer("s") as consumer:
        for span in (float("nan"), float("inf"), float("-inf"), 1e9, "5"):
            with pytest.raises(speed.ConfigurationError, match="use a number of seconds below"):
                SPANS[name](own, topic, consumer, span)


def test_nobody_can_be_granted_to_everyone(node: Make) -> None:
    """A-2."""
    with pytest.raises(speed.InvalidNameError, match="everyone"):
        node("billing").allow("*")


def test_disk_durability_is_refused_in_memory(root: str) -> None:
    """L-7."""
    if not root.startswith("/dev/shm"):
        pytest.fail("this test needs a root in memory")
    with pytest.raises(speed.DurabilityError, match="memory"):
        speed.Node("billing", root=root, durability="disk")
