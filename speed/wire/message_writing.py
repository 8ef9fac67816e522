"""The payload of MESSAGE and EVENT, made in one pass: its bytes are copied once (registry_spec/messages.md, M-n)."""

from __future__ import annotations

from typing import Any

from speed.wire.content import Content, encode_content
from speed.wire.message_frame import frame_of
from speed.wire.message_head import encode_head


def encode_message(payload: Any, *, content_type: str | None = None, **metadata: Any) -> bytes:
    """The bytes of one message; ``metadata`` as of ``encode_head``. ``content_type`` is inferred unless given (M-8).

    A ``payload`` that is a Content is written as it is. Raises what ``encode_head`` raises, UnserialisableError for the
    payload.
    """
    content = payload if type(payload) is Content else encode_content(payload, content_type)
    head = encode_head(content, **metadata)
    frame = frame_of(len(content.data), content.type_url or "")
    return b"".join((head, frame, content.data))  # the one copy of the payload's bytes
