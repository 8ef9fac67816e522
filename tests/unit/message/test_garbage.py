"""What arrives is opened or refused by name; nothing else escapes, nothing is half believed (M-4, M-16 to M-30)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from speed.errors import WireError
from speed.message.errors import MessageError
from speed.message.keys import generate_key, key_of_record
from speed.message.options import decode_batch, encode_batch
from speed.message.protect import Protection, TrustedKeys, open_view, protect_message, verify
from speed.message.view import MessageView
from tests.thorough import examples
from tests.unit.message.keys import BASE, key

SIGNER = generate_key("ed.1", "ed25519", publishers=("billing",))
TRUSTED = TrustedKeys({SIGNER.id: SIGNER.public_part()})
KEYS = {name: key(name) for name in ("aes-256-gcm", "x-wing", "ml-kem-768", "x25519-ml-kem-1024")}
VALUE = {"amount": 1000}
MESSAGES = [
    protect_message(VALUE, Protection(encrypt_to=(one,), sign_with=SIGNER, compression="gzip"), **BASE)
    for one in KEYS.values()
]
EVERY_KEY = {one.id: one for one in KEYS.values()}


@settings(max_examples=examples(300), deadline=None)
@given(st.sampled_from(MESSAGES), st.data())
def test_an_altered_message_is_never_believed_and_never_breaks_the_reader(message: bytes, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(message) - 1))
    kind = data.draw(st.sampled_from(["flip", "cut", "insert", "double"]))
    altered = {
        "flip": message[:place] + bytes([message[place] ^ data.draw(st.integers(1, 255))]) + message[place + 1 :],
        "cut": message[:place],
        "insert": message[:place] + data.draw(st.binary(min_size=1, max_size=8)) + message[place:],
        "double": message[:place] + message,
    }[kind]
    try:
        view = MessageView(altered).validate()
        signed = verify(view, TRUSTED, "require")
    except (MessageError, WireError):
        signed = None
    if signed is not None:  # the signature covers all but its own place among the records
        assert open_view(view, EVERY_KEY.get).payload == VALUE
    try:
        assert open_view(MessageView(altered).validate(), EVERY_KEY.get).payload == VALUE
    except (MessageError, WireError):
        pass


@settings(max_examples=examples(300), deadline=None)
@given(st.binary(max_size=200) | st.binary(max_size=60).map(lambda tail: bytes(encode_batch([1, "a"]).data) + tail))
def test_any_bytes_are_a_batch_or_a_named_error(data: bytes) -> None:
    """M-30."""
    try:
        decode_batch(memoryview(data))
    except (MessageError, WireError):
        pass


@settings(max_examples=examples(300), deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["id", "algorithm", "secret", "public", "topics", "publishers", "not_after_ms", "other"]),
        st.sampled_from(["k", "x-wing", "ed25519", "AAAA", "A" * 44, 7, None, True, [], ["*"], [7], {}, "é"])
        | st.text(),
    )
)
def test_any_record_is_a_key_or_a_named_error(record: dict[str, object]) -> None:
    """M-26."""
    try:
        key_of_record(record)
    except MessageError:
        pass
