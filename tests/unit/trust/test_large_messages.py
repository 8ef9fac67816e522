"""What a signature and a policy mean for a message whose payload lies in a store (M-16, G-18)."""

from __future__ import annotations

from io import BytesIO

import pytest

from speed import KeyStore, MessageSecurity, generate_key
from speed.engine.large_payload import FRONT_BYTES, Front, LargeMessageView, large_front
from speed.message.errors import NotAvailableError, SignatureError, UnsignedError
from speed.message.options import PublishOptions
from speed.message.security import Guard
from speed.wire.limits import MAX_PAYLOAD_BYTES
from speed.wire.records import varint
from tests.unit.message.keys import BASE

SIGNER = generate_key("billing.1", "ed25519", publishers=("billing",))
WRITER = Guard(MessageSecurity(keys=KeyStore({"billing": SIGNER}), sign_with="billing"))
READER = Guard(MessageSecurity(keys=KeyStore({"all": SIGNER.public_part()}), policy="require", trusted=("all",)))
CONTENT = b"x" * 100_000
PAYLOAD_TAG = varint(99 << 3 | 2)
EMPTY_PAYLOAD = PAYLOAD_TAG + b"\x02\x12\x00"


class Stored(BytesIO):
    def read_all(self) -> bytes:
        return self.getvalue()


def stored(message: bytes, total: int | None = None) -> LargeMessageView:
    """The message as it is when its payload came in segments; ``total`` as if it were longer."""
    front = Front(message[:FRONT_BYTES], len(message))
    content = Stored(message[front.start :])
    return LargeMessageView(front.without_value(), total or front.total, content, lambda: message)


def signed(payload: bytes) -> bytes:
    return WRITER.write(payload, PublishOptions(), **BASE)


def test_a_signed_message_whose_payload_is_stored_is_verified_as_a_whole() -> None:
    view = READER.open(stored(signed(CONTENT)))
    assert view.payload == CONTENT


def test_a_payload_put_behind_the_head_of_a_signed_empty_message_is_refused() -> None:
    """The head alone, with an empty payload, verifies."""
    empty = signed(b"")
    value = b"\x12" + varint(len(CONTENT)) + CONTENT
    forged = empty.removesuffix(EMPTY_PAYLOAD) + PAYLOAD_TAG + varint(len(value)) + value
    view = stored(forged)
    assert bytes(view.data) == empty
    with pytest.raises(SignatureError):
        READER.open(view)


def test_an_unsigned_one_is_refused_where_signatures_are_required() -> None:
    with pytest.raises(UnsignedError):
        READER.open(stored(large_front(len(CONTENT), **BASE) + CONTENT))


def test_one_that_no_envelope_holds_and_that_claims_a_signature_is_refused_unread() -> None:
    with pytest.raises(NotAvailableError):
        READER.open(stored(signed(CONTENT), MAX_PAYLOAD_BYTES + 1))


def test_an_unsigned_one_passes_without_being_read_where_none_is_required() -> None:
    view = stored(large_front(len(CONTENT), **BASE) + CONTENT)
    assert Guard(MessageSecurity()).open(view) is view
