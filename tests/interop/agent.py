"""The Python agent: a node that does what a test tells it, one JSON command a line, one JSON answer a line.

``python -m tests.interop.agent --name NAME --root ROOT --key KEY [--identity FILE] [--allow PATTERN]… [--lease S]
[--heartbeat S] [--workers N] [--durability process|disk] [--lane-bytes N] [--ephemeral true|false]
[--watch true|false]``. The contract of all agents is ``tests/interop/README.md``. The end of the input closes the node.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import queue
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import speed
from speed.engine.options import MESSAGE_OPTIONS
from speed.wire.limits import LANE_WINDOW_BYTES
from tests.interop.agent_services import register
from tests.interop.agent_topics import Topics
from tests.interop.values import from_json, to_json

if TYPE_CHECKING:
    from tests.interop.agent_protected import Protected

LATE_SECONDS = 60.0
PERIOD = bytes(i * 31 % 256 for i in range(256))


class Agent(Topics):
    """Public methods named ``do_<op>`` are the commands; their parameters are the fields of the command."""

    def __init__(self, node: speed.Node, options: argparse.Namespace) -> None:
        super().__init__()
        self._node = node
        self._options = options
        self._in_hand: speed.Message | None = None
        self._events: queue.Queue[speed.Message] = queue.Queue()
        self._joined: list[str] = []
        self._left: list[str] = []
        self._prize: speed.Node | None = None
        self._calls: dict[int, Future[Any]] = {}
        self._protected: Protected | None = None
        if options.watch == "true":
            node.on_join(lambda entry: self._joined.append(entry.name))
            node.on_leave(lambda entry: self._left.append(entry.name))
        register(node)

    # --- access ---

    def do_allow(self, patterns: list[str]) -> None:
        self._node.allow(*patterns)

    def do_deny(self, patterns: list[str]) -> None:
        self._node.deny(*patterns)

    # --- messages and events ---

    def do_send(self, target: str, payload: Any, **options: Any) -> str:
        metadata = {name: options.pop(name) for name in options.keys() & MESSAGE_OPTIONS}
        return self._node.send(target, payload, options=speed.PublishOptions(**metadata), **options)

    def do_receive(self, timeout: float) -> dict[str, Any] | None:
        self._in_hand = self._node.receive(timeout)
        return None if self._in_hand is None else _told(self._in_hand)

    def do_finish(self) -> None:
        """Finish what ``receive`` returned last, without asking for more."""
        if self._in_hand is not None:
            self._in_hand.done()

    def do_burst(self, target: str, count: int, bytes: int) -> float:  # noqa: A002 - a field of the contract
        filler = os.urandom(bytes)
        began = time.monotonic()
        for number in range(count):
            self._node.send(target, {"n": number, "filler": filler}, timeout=LATE_SECONDS)
        return time.monotonic() - began

    def do_drain(self, count: int, timeout: float) -> dict[str, Any]:
        deadline = time.monotonic() + timeout
        numbers: list[int] = []
        redelivered = 0
        while len(numbers) < count:
            message = self._in_hand = self._node.receive(max(0.0, deadline - time.monotonic()))
            if message is None:
                break
            numbers.append(message.payload["n"])
            redelivered += message.redelivered
        self.do_finish()
        return {"received": len(numbers), "in_order": numbers == sorted(numbers), "redelivered": redelivered}

    def do_publish(self, topic: str, payload: Any) -> int:
        return self._node.publish(topic, payload)

    def do_subscribe(self, pattern: str, shared: bool = False) -> None:
        self._node.subscribe(pattern, self._events.put, shared=shared)

    def do_event(self, timeout: float) -> dict[str, Any] | None:
        try:
            return _told(self._events.get(timeout=timeout))
        except queue.Empty:
            return None

    # --- calls ---

    def do_call(self, target: str, service: str, arguments: dict[str, Any] | None = None, **options: Any) -> Any:
        return self._node.call(target, service, arguments, **options)

    do_try_call = do_call

    def do_start(
        self, call: int, target: str, service: str, arguments: dict[str, Any] | None = None, **options: Any
    ) -> None:
        """Begin a call and do not wait for it; ``call`` is its number from now on."""
        self._calls[call] = self._node.submit(target, service, arguments, **options)

    def do_withdraw(self, call: int) -> None:
        if call in self._calls:
            self._calls[call].cancel()

    def do_outcome(self, call: int) -> Any:
        """What became of it; waits for its end, and forgets it."""
        return self._calls.pop(call).result(LATE_SECONDS)

    def do_stream(
        self, target: str, service: str, arguments: dict[str, Any] | None = None, read: int | None = None, **more: Any
    ) -> dict[str, Any]:
        """All items of a stream and its result, or its first ones."""
        with self._node.stream(target, service, arguments, **more) as stream:
            if read is not None:
                return {"items": [next(stream) for _ in range(read)]}
            return {"items": list(stream), "result": stream.result}

    def do_progress(self, target: str, count: int) -> dict[str, Any]:
        heard: list[speed.Progress] = []
        result = self._node.call(target, "steps", {"count": count}, on_progress=heard.append)
        return {"result": result, "heard": [[one.done, one.total, one.note] for one in heard]}

    def do_pipeline(self, target: str, service: str, count: int) -> dict[str, bool]:
        futures = [self._node.submit(target, service, {"n": n}, timeout=LATE_SECONDS) for n in range(count)]
        results = [future.result(LATE_SECONDS) for future in futures]
        seen = self._node.call(target, "sequence_seen")
        expected = list(range(count))
        return {"in_order": seen == expected, "results_ok": results == expected}

    def do_large(self, target: str, bytes: int) -> bool:  # noqa: A002 - a field of the contract
        pattern = (PERIOD * (bytes // len(PERIOD) + 1))[:bytes]
        return bool(self._node.call(target, "echo", {"data": pattern}, timeout=LATE_SECONDS) == pattern)

    # --- other nodes ---

    def do_segment(self, target: str, size: int | None, parity: float) -> None:
        self._node.segment(target, size, parity_rate=parity)

    def do_ping(self, target: str) -> float:
        return self._node.ping(target)

    def do_services(self, target: str) -> list[str]:
        return self._node.services(target)

    def do_info(self, target: str) -> dict[str, Any]:
        return self._node.info(target)

    def do_stats(self, target: str | None = None) -> dict[str, Any]:
        return self._node.stats(target)

    def do_nodes(self, fabric: str | None = None) -> list[str]:
        return [entry.name for entry in self._node.nodes(fabric)]

    def do_wait_for(self, target: str, timeout: float) -> str:
        return self._node.wait_for(target, timeout=timeout).name

    def do_joins(self) -> list[str]:
        return _taken(self._joined)

    def do_leaves(self) -> list[str]:
        return _taken(self._left)

    # --- names ---

    def do_race(self, name: str, at: int) -> int:
        """Take ``name`` with a second node at ``at`` ns of CLOCK_MONOTONIC; its generation. NAME_TAKEN if lost."""
        while time.monotonic_ns() < at:
            time.sleep(max(0, at - time.monotonic_ns() - 1_000_000) / 1e9)
        told = self._options
        ephemeral = told.ephemeral == "true"
        self._prize = speed.Node(name, told.root, told.key, allow=told.allow, ephemeral=ephemeral)
        return self._prize.generation

    def do_release(self) -> None:
        """Close what ``race`` won."""
        if self._prize is not None:
            self._prize.close()
            self._prize = None

    # --- protected messages: see test_protected.py ---

    def do_protect(self, **settings: Any) -> int:
        from tests.interop.agent_protected import Protected  # most agents never need it, and live shortly

        self.do_unprotect()
        self._protected = Protected(self._options.root, self._options.key, **settings)
        return self._protected.generation

    def do_unprotect(self) -> None:
        if self._protected is not None:
            self._protected.close()
            self._protected = None

    def do_protected_send(self, target: str, payload: Any, timeout: float) -> str:
        assert self._protected is not None
        return self._protected.send(target, payload, timeout)

    def do_protected_receive(self, timeout: float) -> dict[str, Any] | None:
        assert self._protected is not None
        return self._protected.receive(timeout)

    # --- bytes ---

    def do_decode(self, kind: str, bytes: bytes) -> str:  # noqa: A002 - a field of the contract
        from tests.interop.decoding import verdict

        return verdict(kind, bytes)

    def do_close(self) -> None:
        self.do_topic_leave()
        self.do_release()
        self.do_unprotect()
        self._node.close()


def _taken(names: list[str]) -> list[str]:
    """All of ``names``, which are then forgotten."""
    taken = names.copy()
    del names[: len(taken)]
    return taken


def _told(message: speed.Message) -> dict[str, Any]:
    return {
        "payload": message.payload,
        "source": message.source,
        "topic": message.topic,
        "redelivered": message.redelivered,
        "traceparent": message.traceparent,
        "messageId": message.message_id,
    }


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def _failure(error: Exception) -> dict[str, Any]:
    code = error.code if isinstance(error, speed.SpeedError) else type(error).__name__
    told = {"ok": False, "error": code, "message": str(error), "details": to_json(getattr(error, "details", {}))}
    execution = getattr(error, "execution", None)
    return told if execution is None else {**told, "execution": execution.value}


def _answer(agent: Agent, command: dict[str, Any]) -> dict[str, Any]:
    number, op = command.pop("id"), command.pop("op")
    run: Callable[..., Any] = getattr(agent, f"do_{op}")
    try:
        result = run(**{field: from_json(value) for field, value in command.items()})
    except Exception as error:
        return {"id": number, **_failure(error)}
    return {"id": number, "ok": True, "result": to_json(result)}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for required in ("--name", "--root", "--key"):
        parser.add_argument(required, required=True)
    parser.add_argument("--identity")
    parser.add_argument("--allow", action="append", default=[])
    parser.add_argument("--lease", type=float, default=30.0)
    parser.add_argument("--heartbeat", type=float, default=5.0)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--durability", default="process")
    parser.add_argument("--lane-bytes", type=int, default=LANE_WINDOW_BYTES)
    parser.add_argument("--ephemeral", choices=["true", "false"], default="false")
    parser.add_argument("--watch", choices=["true", "false"], default="true")
    return parser.parse_args()


def main() -> int:
    options = _options()
    logging.basicConfig(level=logging.WARNING)  # on standard error
    try:
        node = speed.Node(
            options.name,
            options.root,
            options.key,
            lease_seconds=options.lease,
            heartbeat_seconds=options.heartbeat,
            workers=options.workers,
            durability=options.durability,
            max_lane_bytes=options.lane_bytes,
            ephemeral=options.ephemeral == "true",
            identity=options.identity,
        )
        agent = Agent(node, options)
        node.allow(*options.allow)  # last: what waits in its lanes is for the services that it has by now
    except speed.SpeedError as error:
        _say({"event": "failed", **_failure(error)})
        return 3
    _say({"event": "ready", "generation": node.generation, "pid": os.getpid()})
    for line in sys.stdin:
        command = json.loads(line)
        is_close = command["op"] == "close"
        _say(_answer(agent, command))
        if is_close:
            return 0
    agent.do_close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
