"""Values as msgpack, by the type table of ``registry_spec/wire.md``, and payloads of messages (M-8, M-9, M-10).

msgpack alone lets other keys and deeper nesting pass, which a reader in another language could not take. So
types are checked at C speed on both sides; only a refusal starts the walk that names the path.
"""

from __future__ import annotations

import enum
import math
import re
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from functools import lru_cache
from pathlib import PurePath
from typing import Any, NamedTuple
from uuid import UUID

import msgpack

from speed.errors import UnserialisableError, WireError
from speed.wire import column, lazily
from speed.wire.column import Column
from speed.wire.limits import COLUMN_EXTENSION, MAX_JSON_DEPTH, MAX_VALUE_DEPTH, MAX_VALUE_ITEMS
from speed.wire.records import ContentEncoding, ContentType

_SCALARS = (type(None), bool, int, float, str, bytes, bytearray, memoryview)
_EXACT_SCALARS = frozenset({type(None), bool, int, float, str, bytes})
_EXACT_KEYS = frozenset({str, int})
_MAX_KEPT_BYTES = 1 << 16
"""Of one value: a packer keeps a buffer as large as the largest that it packed."""
_WALKED_BYTES = 1 << 20
"""Payloads above this are walked before they are built: a count that says more than there is costs as much as the value
that it promises, and some versions of msgpack reserve memory for it at each depth."""
_packers: deque[Any] = deque(maxlen=16)
"""Packers at rest: making one takes longer than packing a small value, and two threads must not use the same."""


def is_flat(values: Iterable[Any]) -> bool:
    """Whether all are scalars of exact types, the usual case: found at C speed."""
    return _EXACT_SCALARS.issuperset(map(type, values))


def pack(value: Any, what: str = "value", *, sound: bool = False) -> bytes:
    """The bytes of ``value``; UnserialisableError names the path to what has no representation.

    What has a form travels in it (V-2). ``sound``: the caller has checked its types.
    """
    if not sound and not _sound(value, MAX_VALUE_DEPTH):
        value = _plain_of(value, what)
        if not _sound(value, MAX_VALUE_DEPTH):
            find_unserialisable(value, what)
    try:
        packer = _packers.pop()
    except IndexError:
        packer = msgpack.Packer(datetime=True, default=_pack_column)
    try:
        packed: bytes = packer.pack(value)
    except Exception as error:
        find_unserialisable(value, what)
        raise UnserialisableError(f"{what} cannot be serialised: {error}") from None
    if len(packed) > MAX_VALUE_ITEMS and _items_of(value) > MAX_VALUE_ITEMS:
        raise UnserialisableError(f"{what} has more than {MAX_VALUE_ITEMS} items: use columns or bytes, or send less")
    if len(packed) <= _MAX_KEPT_BYTES:
        _packers.append(packer)
    return packed


def _plain_of(value: Any, what: str) -> Any:
    try:
        return plain(value)
    except UnserialisableError:
        find_unserialisable(value, what)
        raise
    except Exception as error:  # the code of a value: any exception may come out of it
        raise UnserialisableError(f"{what} cannot be read: {type(error).__name__}") from None


def unpack(data: bytes | bytearray | memoryview, what: str = "payload", *, depth: int = 0) -> Any:
    """The value in ``data``; WireError BAD_PAYLOAD for anything but one value within the limits.

    ``depth``: how many containers the value lies in already.
    """
    value = _unpack(data, what)
    check_sound(value, what, depth)
    return value


def unpack_map(data: bytes | bytearray | memoryview, what: str) -> dict[str, Any]:
    """The map in ``data``; WireError BAD_PAYLOAD for any other value."""
    value = unpack_unchecked_map(data, what)
    check_sound(value, what)
    return value


def unpack_unchecked_map(data: bytes | bytearray | memoryview, what: str) -> dict[str, Any]:
    """The map in ``data``; the caller looks at its fields itself, or calls ``check_sound``."""
    value = _unpack(data, what)
    if type(value) is not dict:
        raise WireError("BAD_PAYLOAD", f"{what} is no map")
    return value


def _unpack(data: bytes | bytearray | memoryview, what: str) -> Any:
    if len(data) > MAX_VALUE_ITEMS:
        return _unpack_counted(data, what)
    if len(data) > _WALKED_BYTES:
        _walk(data, what)
    try:
        return msgpack.unpackb(data, strict_map_key=True, timestamp=3, ext_hook=_extension)
    except ValueError:
        pass  # broken, or a key that is no text: then each key is looked at before a dict could merge 1.0 with 1
    except Exception as error:
        raise _not_one_value(what, error) from None
    try:
        return msgpack.unpackb(
            data, strict_map_key=False, timestamp=3, ext_hook=_extension, object_pairs_hook=_checked_map
        )
    except Exception as error:
        raise _not_one_value(what, error) from None


def _unpack_counted(data: bytes | bytearray | memoryview, what: str) -> Any:
    """The same where there may be more items than a value can have: each takes a byte at least."""
    _walk(data, what)
    items = 0

    def counted(container: Any) -> Any:
        nonlocal items
        items += len(container)
        if items > MAX_VALUE_ITEMS:
            raise ValueError("too many items")
        return container

    try:
        return msgpack.unpackb(
            data,
            strict_map_key=False,
            timestamp=3,
            ext_hook=_extension,
            list_hook=counted,
            object_pairs_hook=lambda pairs: _checked_map(counted(pairs)),
            max_array_len=MAX_VALUE_ITEMS,
            max_map_len=MAX_VALUE_ITEMS,
        )
    except Exception as error:
        raise _not_one_value(what, error) from None


def _items_of(value: Any) -> int:
    """Elements of arrays and entries of maps, of all containers in ``value`` together."""
    if not isinstance(value, dict | list | tuple):
        return 0
    inner = value.values() if isinstance(value, dict) else value
    return len(value) + sum(_items_of(item) for item in inner if isinstance(item, dict | list | tuple))


def _walk(data: bytes | bytearray | memoryview, what: str) -> None:
    """WireError for what ends before its counts are met; nothing is built."""
    unpacker = msgpack.Unpacker(max_buffer_size=len(data))
    try:
        unpacker.feed(data)
        unpacker.skip()
    except Exception as error:
        raise _not_one_value(what, error) from None
    if unpacker.tell() != len(data):
        raise _not_one_value(what, msgpack.ExtraData(None, b""))


def _pack_column(value: Any) -> msgpack.ExtType:
    if type(value) is not Column:
        raise TypeError(f"{type(value).__name__} has no representation")
    return msgpack.ExtType(COLUMN_EXTENSION, column.encode(value))


def _extension(code: int, data: bytes) -> Any:
    return column.decode(data) if code == COLUMN_EXTENSION else msgpack.ExtType(code, data)


def _not_one_value(what: str, error: Exception) -> WireError:
    return WireError("BAD_PAYLOAD", f"{what} is not one msgpack value: {type(error).__name__}")


def _checked_map(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    if not _EXACT_KEYS.issuperset(type(key) for key, _ in pairs):
        raise ValueError("a key is neither text nor a whole number")
    return dict(pairs)


def check_sound(value: Any, what: str, depth: int = 0) -> None:
    """WireError BAD_PAYLOAD unless ``value``, which lies in ``depth`` containers, is made of the types of the table."""
    if not _sound(value, MAX_VALUE_DEPTH - depth):
        raise WireError("BAD_PAYLOAD", f"{what} has a type outside the table, or too deep a nesting")


def _sound(value: Any, depth: int) -> bool:
    """Whether ``value`` is made of exact types of the table and nests at most ``depth`` containers."""
    kind = type(value)
    items: Iterable[Any]
    if kind is dict:
        if not _EXACT_KEYS.issuperset(map(type, value)):
            return False
        items = value.values()
    elif kind is list or kind is tuple:
        items = value
    else:
        return kind in _EXACT_SCALARS or kind is Column or (kind is datetime and value.tzinfo is not None)
    if depth == 0:
        return False
    if _EXACT_SCALARS.issuperset(map(type, items)):
        return True
    for item in items:  # noqa: SIM110 - not all(): this runs for every call, and a generator costs twice as much
        if type(item) not in _EXACT_SCALARS and not _sound(item, depth - 1):
            return False
    return True


def find_unserialisable(value: Any, path: str, depth: int = 0) -> None:
    """Raise for the first part of ``value`` that the type table does not know; subclasses pass."""
    if isinstance(value, dict | list | tuple):
        if depth >= MAX_VALUE_DEPTH:
            raise UnserialisableError(f"{path} is nested deeper than {MAX_VALUE_DEPTH}")
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in pairs:
            if isinstance(value, dict):
                _check_key(key, path)
            find_unserialisable(item, f"{path}.{key}" if isinstance(value, dict) else f"{path}[{key}]", depth + 1)
    elif type(value) is Column:
        return
    elif type(value) is datetime:
        if value.tzinfo is None:
            raise UnserialisableError(f"{path} is a datetime without a time zone")
    elif isinstance(value, _SCALARS):
        _check_scalar(value, path)
    elif (form := formed(value)) is not value:
        find_unserialisable(form, path, depth)
    else:
        raise UnserialisableError(
            f"{path} is of type {type(value).__name__}, which has no representation: convert it first"
        )


def _check_key(key: Any, path: str) -> None:
    if not isinstance(key, str | int) or isinstance(key, bool):
        raise UnserialisableError(f"{path} has a key of type {type(key).__name__}: use str or int")
    _check_scalar(key, f"a key of {path}")


def _check_scalar(value: Any, path: str) -> None:
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise UnserialisableError(f"{path} is an integer beyond 64 bits")
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise UnserialisableError(f"{path} is text with a lone surrogate") from None


# Types that the wire has no kind for, in the form in which they travel (V-2).


class Form(NamedTuple):
    """How values of one type travel."""

    kind: type
    """What comes over the wire."""
    read: Callable[[Any], Any]
    """Raises ValueError for what is no such value."""
    write: Callable[[Any], Any]
    """Gives back what has no form."""
    schema: Mapping[str, Any]


_MICROSECOND = timedelta(microseconds=1)
_MAX_DIGITS = 1000
"""Characters of a decimal that is read: what is longer costs more than it can mean."""


def _matching(pattern: str, make: Callable[[str], Any]) -> Callable[[str], Any]:
    compiled = re.compile(pattern, re.ASCII)

    def read(text: str) -> Any:
        if len(text) > _MAX_DIGITS or compiled.fullmatch(text) is None:
            raise ValueError
        return make(text)

    return read


def _time(text: str) -> time:
    whole, _, fraction = text.partition(".")
    return time.fromisoformat(whole).replace(microsecond=int(fraction.ljust(6, "0")))


def _write_time(value: time) -> Any:
    return value if value.tzinfo else value.isoformat()  # with a zone it has no form


def _write_decimal(value: Decimal) -> Any:
    return format(value, "f") if value.is_finite() else value


def _span(microseconds: int) -> timedelta:
    try:
        return timedelta(microseconds=microseconds)
    except OverflowError:
        raise ValueError from None


def _text(form: str) -> Mapping[str, Any]:
    return {"type": "string", "format": form}


FORMS: Mapping[Any, Form] = {
    Decimal: Form(str, _matching(r"-?\d+(\.\d+)?", Decimal), _write_decimal, _text("decimal")),
    date: Form(str, _matching(r"\d{4}-\d\d-\d\d", date.fromisoformat), date.isoformat, _text("date")),
    time: Form(str, _matching(r"\d\d:\d\d(:\d\d(\.\d{1,6})?)?", _time), _write_time, _text("time")),
    timedelta: Form(int, _span, lambda span: span // _MICROSECOND, {"type": "integer", "format": "microseconds"}),
    UUID: Form(str, _matching(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", UUID), str, _text("uuid")),
    memoryview: Form(bytes, memoryview, bytes, {"type": "string", "contentEncoding": "base64"}),
}
_PLAIN = frozenset({type(None), bool, int, float, str, bytes, bytearray, memoryview, datetime, Column})


def plain(value: Any, keep: Collection[type] = (), depth: int = MAX_VALUE_DEPTH) -> Any:
    """``value`` with what it holds in the form in which it travels; types in ``keep`` stay as they are.

    What has no form stays too, and is refused when it is packed. UnserialisableError for what is nested too deep.
    """
    kind = type(value)
    if kind in _PLAIN or kind in keep:
        return value
    if depth < 0:
        raise UnserialisableError(f"a value is nested deeper than {MAX_VALUE_DEPTH}")
    if kind is dict or isinstance(value, dict):
        names = value if _EXACT_KEYS.issuperset(map(type, value)) else map(formed, value)
        return {name: plain(one, keep, depth - 1) for name, one in zip(names, value.values(), strict=True)}
    if isinstance(value, list | tuple):
        return value if _PLAIN.issuperset(map(type, value)) else [plain(one, keep, depth - 1) for one in value]
    form = formed(value)
    return form if form is value else plain(form, keep, depth)


def formed(value: Any) -> Any:
    """``value`` in the form in which it travels, with what it holds as it is; itself where it has none."""
    kind = type(value)
    form = FORMS.get(kind)
    if form is not None:
        return form.write(value)
    if isinstance(value, enum.Enum):
        return member_form(value)
    if isinstance(value, set | frozenset):
        return list(value)
    if is_dataclass(kind):
        return {name: getattr(value, name) for name in _fields_of(kind)}
    if isinstance(value, PurePath):
        return str(value)
    if hasattr(kind, "__struct_config__"):  # of msgspec
        return _of_struct(value)
    if hasattr(kind, "__pydantic_fields__"):
        return value.model_dump(by_alias=True)
    return _of_arrow(_of_numpy(value))


def as_views(value: Any) -> Any:
    """``value`` with memoryviews for the bytes in it, at any depth."""
    if isinstance(value, bytes):
        return memoryview(value)
    if isinstance(value, list):
        return [as_views(one) for one in value]
    if isinstance(value, dict):
        return {key: as_views(one) for key, one in value.items()}
    return value


@lru_cache(maxsize=1024)
def _fields_of(kind: Any) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind))


def member_form(member: enum.Enum) -> Any:
    """A member of an enumeration: its value where that is text or an integer, else its name."""
    if type(member.value) in (str, int):
        return member.value
    return member if member.name is None else member.name  # flags together have no name


def _of_struct(value: Any) -> dict[str, Any]:
    kind = type(value)
    config = kind.__struct_config__
    members = {} if config.tag is None else {config.tag_field: config.tag}
    names = zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
    return members | {encoded: getattr(value, name) for name, encoded in names}


def _of_numpy(value: Any) -> Any:
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return value
    if isinstance(value, numpy.number | numpy.bool_ | numpy.datetime64):
        return _number_of(numpy, value)
    if isinstance(value, numpy.ndarray) and value.dtype.name in ARRAY_TYPES:
        data = numpy.ascontiguousarray(value, value.dtype.newbyteorder("<")).tobytes()
        return {"dtype": value.dtype.name, "shape": list(value.shape), "data": data}
    return value


def _of_arrow(value: Any) -> Any:
    """A table or a batch as a map of columns, and an array as a column, over the bytes where they lie."""
    arrow = sys.modules.get("pyarrow")
    if arrow is None or not isinstance(value, arrow.Table | arrow.RecordBatch | arrow.Array | arrow.ChunkedArray):
        return value
    column = lazily.load("speed.columns").from_arrow
    if isinstance(value, arrow.Array | arrow.ChunkedArray):
        return column(value)
    names = value.schema.names
    if len(set(names)) < len(names):
        raise UnserialisableError(f"{type(value).__name__} has a column twice: a map of columns has each name once")
    return {name: column(one) for name, one in zip(names, value.columns, strict=True)}


def _number_of(numpy: Any, value: Any) -> Any:
    kind = {numpy.datetime64: "datetime64[us]", numpy.timedelta64: "timedelta64[us]"}.get(type(value))
    number = (value if kind is None else value.astype(kind)).item()
    if type(number) is datetime:
        return number.replace(tzinfo=timezone.utc)
    if type(number) is timedelta:
        return number // _MICROSECOND
    return number if type(number) in (bool, int, float) else value


ARRAY_TYPES = frozenset(
    {"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"}
)
"""The types of items that an array of numpy may have (V-2)."""
_MAX_AXES = 32


def read_array(value: Any, dtype: str | None) -> Any:
    """The array of numpy in a map with ``dtype``, ``shape`` and ``data``, read-only; ValueError for another map."""
    numpy = sys.modules["numpy"]
    name, shape, data = value.get("dtype"), value.get("shape"), value.get("data")
    if type(name) is not str or name not in ARRAY_TYPES or (dtype is not None and name != dtype):
        raise ValueError
    if type(shape) is not list or len(shape) > _MAX_AXES or not all(type(one) is int and one >= 0 for one in shape):
        raise ValueError
    kind = numpy.dtype(name).newbyteorder("<")
    if not isinstance(data, bytes | memoryview) or math.prod(shape) * kind.itemsize != len(data):
        raise ValueError
    return numpy.frombuffer(data, kind).reshape(shape)


MSGPACK_TYPE = "application/msgpack"
TEXT_TYPE = "text/plain"
BYTES_TYPE = "application/octet-stream"
PROTOBUF_TYPE = "application/protobuf"
BATCH_TYPE = "application/x-speed-batch"
TYPE_URL_PREFIX = "type.googleapis.com/"

JSON_TYPE = "application/json"
AVRO_TYPE = "application/avro"
CONTENT_TYPES = {
    ContentType.UNSPECIFIED: BYTES_TYPE,
    ContentType.PROTOBUF: PROTOBUF_TYPE,
    ContentType.JSON: JSON_TYPE,
    ContentType.AVRO: AVRO_TYPE,
}
ENCODING_NUMBERS = {name.lower(): number for name, number in vars(ContentEncoding).items() if name.isupper()}
CONTENT_ENCODINGS = {number: text for text, number in ENCODING_NUMBERS.items()}
_MSGPACK_KINDS = frozenset([dict, list, tuple, bool, int, float, type(None)])
_NUMBER_OF = {text: number for number, text in CONTENT_TYPES.items() if number != ContentType.UNSPECIFIED}


class Content(NamedTuple):
    """A payload ready to be framed: content type (number, custom text), type URL and the bytes."""

    number: int
    custom: str | None
    type_url: str | None
    data: bytes | bytearray | memoryview


def encode_content(payload: Any, content_type: str | None = None) -> Content:
    """The bytes of ``payload`` and their inferred type; if that is given it must be bytes or str.

    Raises UnserialisableError for a value outside the type table.
    """
    if content_type is not None:
        return _encode_declared(payload, content_type)
    if type(payload) in _MSGPACK_KINDS:  # most are
        return Content(ContentType.CUSTOM, MSGPACK_TYPE, None, pack(payload, "payload"))
    if isinstance(payload, str):
        return Content(ContentType.CUSTOM, TEXT_TYPE, None, _utf8(payload))
    if isinstance(payload, bytes | bytearray | memoryview):
        return Content(ContentType.CUSTOM, BYTES_TYPE, None, _flat(payload))
    if is_protobuf(payload):
        return Content(
            ContentType.PROTOBUF, None, TYPE_URL_PREFIX + payload.DESCRIPTOR.full_name, payload.SerializeToString()
        )
    return Content(ContentType.CUSTOM, MSGPACK_TYPE, None, pack(payload, "payload"))


def is_protobuf(payload: Any) -> bool:
    """Whether it is a message of protobuf."""
    return getattr(type(payload), "DESCRIPTOR", None) is not None and hasattr(payload, "SerializeToString")


def decode_content(content_type: str, type_url: str, data: memoryview) -> Any:
    """The value of ``data``; types without a decoder here come back as bytes.

    Raises WireError(BAD_MESSAGE) when the bytes are not of the type they claim.
    """
    try:
        if content_type == MSGPACK_TYPE:
            return _unpack_payload(data)
        if content_type == TEXT_TYPE:
            return str(data, "utf-8")
        if content_type == PROTOBUF_TYPE:
            return _parse_protobuf(type_url, bytes(data))
        if content_type == JSON_TYPE:
            return lazily.load("speed.wire.text").read_json(bytes(data), MAX_JSON_DEPTH)
    except (ValueError, RecursionError) as error:
        raise WireError("BAD_MESSAGE", f"payload: is not valid {content_type}: {error}") from error
    return bytes(data)


def content_type_text(number: int, custom: str) -> str:
    """The media type of an enum number; absent means bytes, a number of a later version ``unknown/<n>``."""
    if number == ContentType.CUSTOM:
        return custom
    return CONTENT_TYPES.get(number) or f"unknown/{number}"


def content_encoding_text(number: int, custom: str) -> str:
    """The name of an encoding number, ``none`` when absent."""
    if number == ContentEncoding.CUSTOM:
        return custom
    return CONTENT_ENCODINGS.get(number) or f"unknown/{number}"


def _encode_declared(payload: Any, content_type: str) -> Content:
    if isinstance(payload, str):
        payload = _utf8(payload)
    if not isinstance(payload, bytes | bytearray | memoryview):
        raise UnserialisableError(f"payload: content_type {content_type!r} needs bytes or str")
    number = _NUMBER_OF.get(content_type, ContentType.CUSTOM)
    if number == ContentType.PROTOBUF:
        raise UnserialisableError("payload: give the protobuf message itself, its type URL must travel too")
    return Content(number, content_type if number == ContentType.CUSTOM else None, None, _flat(payload))


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise UnserialisableError("payload is text with a lone surrogate") from error


def _flat(data: bytes | bytearray | memoryview) -> bytes | bytearray | memoryview:
    """``data`` such that len() counts bytes; copies only a memoryview that is not contiguous."""
    if not isinstance(data, memoryview):
        return data
    return data.cast("B") if data.c_contiguous and data.nbytes else data.tobytes()


def _parse_protobuf(type_url: str, data: bytes) -> Any:
    """The message if its type is linked into this process, else the google.protobuf.Any itself."""
    pool = lazily.load("google.protobuf.descriptor_pool").Default()
    factory = lazily.load("google.protobuf.message_factory")
    decode_error = lazily.load("google.protobuf.message").DecodeError
    try:
        descriptor = pool.FindMessageTypeByName(type_url.rpartition("/")[2])
    except KeyError:
        return lazily.load("google.protobuf.any_pb2").Any(type_url=type_url, value=data)
    try:
        return factory.GetMessageClass(descriptor).FromString(data)
    except decode_error as error:
        raise ValueError(f"{type_url}: {error}") from error


def _unpack_payload(data: memoryview) -> Any:
    try:
        return unpack(data, "payload")
    except WireError as error:
        raise ValueError(str(error)) from error
