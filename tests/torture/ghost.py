"""A sender without a node: it seals envelopes of any kind and writes them by hand, sound or not."""

from __future__ import annotations

import os
import time
from typing import Any

from speed.message.writing import encode_message, new_message_id
from speed.wire.cursor import SlotHead, SlotPieces
from speed.wire.envelope import FLAG_SLOTTED, EnvelopeType
from speed.wire.limits import KEY_BYTES
from speed.wire.names import node_id
from speed.wire.seal import Keyring, LinkSealer
from speed.wire.spc import encode_request
from tests.torture.lane_files import LaneFiles

DEADLINE_MS = 1 << 60


class Ghost:
    """The lane ``source`` -> ``target`` in generation 1, as if a node wrote it; ``counter`` is of its last envelope."""

    def __init__(self, root: str, source: str, target: str, keyring: Keyring, target_life: int = 0) -> None:
        """``target_life``: the generation of a target that is ephemeral (W-10)."""
        self.files = LaneFiles(root, source, target)
        self.counter = 0
        self._sealer = LinkSealer(keyring, node_id(source), node_id(target), 1, target_life)

    def seal(self, type_: int, payload: bytes, flags: int = 0) -> bytes:
        """The next envelope of the link."""
        self.counter += 1
        return self._sealer.seal(type_, flags, self.counter, unix_ms(), payload, os.urandom(12))

    def message(self, payload: Any) -> bytes:
        return self.seal(EnvelopeType.MESSAGE, message(payload))

    def event(self, payload: Any, topic: str) -> bytes:
        return self.seal(EnvelopeType.EVENT, message(payload, topic))

    def request(self, service: str, arguments: dict[str, Any], generation: int = 1) -> bytes:
        """``generation``: that of the node that it is for."""
        payload = encode_request(f"g{self.counter}", service, arguments, self.files.source, generation, DEADLINE_MS)
        return self.seal(EnvelopeType.SPC_REQUEST, payload)

    def in_slot(self, payload: bytes) -> tuple[bytes, bytes]:
        """An envelope whose payload lies in the first slot, and what that slot has to hold."""
        head = SlotHead(1, len(payload), os.urandom(KEY_BYTES))
        pieces = SlotPieces(head.key, len(payload))
        slot = b"".join(pieces.seal(index, payload) for index in range(pieces.count))
        return self.seal(EnvelopeType.MESSAGE, head.encode(), FLAG_SLOTTED), slot

    def write(self, data: bytes) -> None:
        """Append to the lane's one segment, which is made at first, and ring."""
        if self.files.segments():
            self.files.append(data)
        else:
            self.files.add_segment((1, 1), data)


def message(payload: Any, topic: str = "t") -> bytes:
    """The payload of a MESSAGE or EVENT."""
    now = unix_ms()
    identity = new_message_id(now, os.urandom(16))
    return encode_message(payload, topic=topic, namespace="default", message_id=identity, published_at_ms=now)


def unix_ms() -> int:
    return time.time_ns() // 1_000_000
