"""A received message with its payload decrypted and decompressed (M-25)."""

from __future__ import annotations

from typing import Any

from speed.errors import WireError
from speed.message.compression import decompress, is_read
from speed.message.encryption import FindKey, decrypt
from speed.message.errors import NotAvailableError
from speed.message.keys import MessageKey
from speed.wire.limits import MAX_PAYLOAD_BYTES
from speed.wire.message import MessageView


class OpenedView(MessageView):
    """The view of a message that was looked at, its payload opened where it was closed; all else is as it was received.

    ``is_personal``: its schema marks personal data, whatever the publisher says.
    """

    __slots__ = ("_encoding", "_opener", "_plain", "_signer", "is_personal")

    def __init__(self, data: bytes | memoryview, plain: bytes | bytearray | memoryview, encoding: str) -> None:
        super().__init__(data)
        self._plain = memoryview(plain)
        self._encoding = encoding
        self._signer: str | None = None
        self._opener: str | None = None
        self.is_personal = False

    def told(self, *, signed_by: str | None = None, opened_by: str | None = None) -> OpenedView:
        """Note ids of keys; returns self."""
        self._signer, self._opener = signed_by or self._signer, opened_by or self._opener
        return self

    @property
    def signed_by(self) -> str | None:
        return self._signer

    @property
    def opened_by(self) -> str | None:
        return self._opener

    @property
    def payload_encoding(self) -> str:
        return self._encoding

    @property
    def security(self) -> Any:
        """The SecurityContext as it was received; ``contains_pii`` is true where the schema says so."""
        context = super().security
        if self.is_personal and not context.contains_pii:
            context = type(context).FromString(context.SerializeToString())
            context.contains_pii = True
        return context

    @property
    def payload_bytes(self) -> memoryview:
        """The payload as the publisher had it, before compression and encryption."""
        return self._plain

    @property
    def plain_bytes(self) -> memoryview:
        """The same, if its encoding was one that is read here."""
        if self._encoding != "none":
            raise WireError("BAD_MESSAGE", f"content_encoding: is {self._encoding}; read payload_bytes")
        return self._plain


def whole(view: MessageView) -> MessageView:
    """A message whose payload lies in the store, in memory; NotAvailableError if no envelope holds it."""
    if view.size == len(view.data):
        return view
    if view.size > MAX_PAYLOAD_BYTES:
        raise NotAvailableError("what no envelope holds is neither signed nor encrypted: send it in parts")
    return MessageView(view.to_bytes())


def as_opened(view: MessageView) -> OpenedView:
    """A view of nothing that was closed, which can be told more of."""
    return view if isinstance(view, OpenedView) else OpenedView(view.data, view.payload_bytes, view.payload_encoding)


def open_view(view: MessageView, find: FindKey, fips_mode: str = "off") -> OpenedView:
    """``view`` with its payload opened; raises MessageError for what is not as M-20 to M-23 say.

    A payload in an encoding that is not read here stays as it is, and its ``payload`` raises as ever (M-9).
    """
    plain: bytes | bytearray | memoryview = view.payload_bytes
    key: MessageKey | None = None
    if view.is_encrypted:
        plain, key = decrypt(view, find, fips_mode)
    encoding = view.content_encoding
    if is_read(encoding):
        plain = decompress(encoding, plain, view.uncompressed_bytes)
        encoding = "none"
    return OpenedView(view.data, plain, encoding).told(opened_by=None if key is None else key.id)


__all__ = ["OpenedView", "as_opened", "open_view", "whole"]
