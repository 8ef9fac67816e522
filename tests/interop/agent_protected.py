"""The protected node of a Python agent: its messages are signed and encrypted with keys that a test hands to it."""

from __future__ import annotations

import queue
from typing import Any

import speed
from speed.message.keys import key_of_record
from speed.message.keystore import KeyStore
from speed.message.security import MessageSecurity


class Protected:
    """A second node beside the agent's own; ``settings`` go to ``MessageSecurity``."""

    def __init__(
        self,
        root: str,
        key: str,
        *,
        name: str,
        allow: list[str],
        keys: list[dict[str, Any]],
        trusted: list[str],
        encrypt_to: list[str],
        **settings: Any,
    ) -> None:
        store = KeyStore({one.id: one for one in map(key_of_record, keys)})
        security = MessageSecurity(keys=store, trusted=tuple(trusted), encrypt_to=tuple(encrypt_to), **settings)
        self._handled: queue.Queue[speed.Message] = queue.Queue()
        self._node = speed.Node(name, root=root, key=key, allow=allow, security=security)
        self._node.on_message(self._handled.put)

    @property
    def generation(self) -> int:
        return self._node.generation

    def send(self, target: str, payload: Any, timeout: float) -> str:
        return self._node.send(target, payload, ack=True, timeout=timeout)

    def receive(self, timeout: float) -> dict[str, Any] | None:
        try:
            message = self._handled.get(timeout=timeout)
        except queue.Empty:
            return None
        view = message.metadata
        ids = {"signedBy": getattr(view, "signed_by", None), "openedBy": getattr(view, "opened_by", None)}
        return {"payload": message.payload, "source": message.source, **ids}

    def close(self) -> None:
        self._node.close()
