"""The payload of MESSAGE and EVENT: ``view`` reads messages, ``writing`` makes them, the other modules are parts.

Nothing is remembered between messages; protobuf, which handles only the small head, is imported at first use.
"""

from __future__ import annotations

from speed.wire.message.ids import new_message_id
from speed.wire.message.view import DEFAULT_NAMESPACE, DEFAULT_PRIORITY, DEFAULT_TOPIC, MessageView
from speed.wire.message.writing import encode_message

__all__ = [
    "DEFAULT_NAMESPACE",
    "DEFAULT_PRIORITY",
    "DEFAULT_TOPIC",
    "MessageView",
    "encode_message",
    "new_message_id",
]
