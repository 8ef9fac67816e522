"""A received message with its payload decrypted and decompressed (M-25)."""

from __future__ import annotations

from typing import Any

from speed.errors import WireError
from speed.message.compression import decompress, is_read
from speed.message.encryption import FindKey, decrypt
from speed.message.keys import MessageKey
from speed.wire.message import MessageView


class OpenedView(MessageView):
    """The view of a message whose payload was opened; all else is as it was received.

    ``signed_by`` and ``opened_by`` are ids of keys, or None. ``is_personal``: its schema marks personal data, whatever
    the publisher says.
    """

    __slots__ = ("_encoding", "_plain", "is_personal", "opened_by", "signed_by")

    def __init__(self, data: bytes | memoryview, plain: bytes | bytearray | memoryview, encoding: str) -> None:
        super().__init__(data)
        self._plain = memoryview(plain)
        self._encoding = encoding
        self.signed_by: str | None = None
        self.opened_by: str | None = None
        self.is_personal = False

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
    opened = OpenedView(view.data, plain, encoding)
    opened.opened_by = None if key is None else key.id
    return opened


__all__ = ["OpenedView", "open_view"]
