"""Values and payloads: W-15 to W-17, S-1, S-2, S-11, S-12."""

from __future__ import annotations

import tracemalloc
from collections import OrderedDict
from datetime import datetime, timedelta, timezone
from enum import IntEnum
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speed.errors import UnserialisableError, WireError
from speed.wire import spc
from speed.wire.cells import from_values
from speed.wire.column import Column
from speed.wire.limits import MAX_PAYLOAD_BYTES
from speed.wire.value import pack, unpack
from tests.vectors import case_name, load, value_of

VALUES, PAYLOADS = load("values"), load("payloads")
DECODERS = {"request": spc.decode_request, "response": spc.decode_response, "control": spc.decode}

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
instants = st.datetimes(timezones=st.just(timezone.utc)).map(lambda instant: instant.replace(fold=0))
keys = texts | st.integers(-(2**63), 2**64 - 1)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | texts
    | st.binary(max_size=8)
    | instants
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4), max_leaves=12
)
anything = st.recursive(
    scalars | st.sampled_from([1j, object(), {1}, 2**64, "\ud800", datetime(2020, 1, 1)]),  # noqa: DTZ001
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys | st.none() | st.booleans(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("case", VALUES["valid"], ids=case_name)
def test_a_published_value_is_read_and_written_alike(case: dict[str, Any]) -> None:
    """W-15."""
    value, data = value_of(case["value"]), bytes.fromhex(case["hex"])
    assert repr(unpack(data)) == repr(value)
    assert pack(value) == data


@pytest.mark.parametrize("case", VALUES["also_read"], ids=case_name)
def test_every_form_of_a_value_is_read(case: dict[str, Any]) -> None:
    """W-15."""
    assert unpack(bytes.fromhex(case["hex"])) == value_of(case["value"])


@pytest.mark.parametrize("case", VALUES["invalid"], ids=case_name)
def test_bytes_that_are_no_value_are_refused(case: dict[str, str]) -> None:
    """W-15, W-16."""
    with pytest.raises(WireError) as refusal:
        unpack(bytes.fromhex(case["hex"]))
    assert refusal.value.reason == "BAD_PAYLOAD"


@pytest.mark.parametrize("head", [b"\xdd\x03\xff\xf0\x00", b"\xdf\x01\xff\xf0\x00\xa1a"], ids=["arrays", "maps"])
@pytest.mark.parametrize("levels", [1, 32, 1000])
def test_counts_that_say_more_than_there_is_cost_no_memory(head: bytes, levels: int) -> None:
    """W-16: each of them is met by the bytes that follow it, but all together are not."""
    lying = head * levels + b"\xc0" * (MAX_PAYLOAD_BYTES - levels * len(head))
    tracemalloc.start()
    try:
        with pytest.raises(WireError, match="BAD_PAYLOAD"):
            unpack(lying)
        assert tracemalloc.get_traced_memory()[1] < 2 * MAX_PAYLOAD_BYTES
    finally:
        tracemalloc.stop()


def test_large_values_are_read_back_and_what_follows_them_is_refused() -> None:
    """W-16."""
    for value in (
        bytes(3 << 20),
        {"a": ["text"] * 400_000},
        ["x" * (2 << 20), {1: datetime(2020, 1, 1, tzinfo=timezone.utc)}],
    ):
        data = pack(value)
        assert unpack(memoryview(data)) == value
        for broken in (data + b"\x00", data[:-1]):
            with pytest.raises(WireError, match="BAD_PAYLOAD"):
                unpack(broken)


@given(values)
def test_every_value_of_the_table_is_read_back(value: Any) -> None:
    """W-15."""
    assert repr(unpack(pack(value))) == repr(value)


@given(anything)
def test_whatever_is_packed_can_be_read_and_nothing_else_is_packed(value: Any) -> None:
    """W-17: one named error on the sender's side, never a surprise on the reader's."""
    try:
        data = pack(value)
    except UnserialisableError:
        return
    unpack(data)


@given(st.binary(max_size=100))
def test_garbage_is_a_value_or_one_named_error(garbage: bytes) -> None:
    """W-16."""
    try:
        value = unpack(garbage)
    except WireError:
        return
    unpack(pack(value))


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"x": [0, 1, 2, 3j]}, "value.x[3]"),
        ([2**64], "value[0]"),
        ({"a": {"b": datetime(2020, 1, 1)}}, "value.a.b"),  # noqa: DTZ001
        ({None: 1}, "value has a key"),
        ({True: 1}, "value has a key"),
        ({"a": {1.5: 1}}, "value.a has a key"),
        (["\ud800"], "value[0]"),
        (object(), "value is"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_an_unserialisable_part_is_named_by_its_path(value: Any, path: str) -> None:
    """W-17."""
    with pytest.raises(UnserialisableError) as refusal:
        pack(value)
    assert path in str(refusal.value)


def test_a_list_that_contains_itself_is_refused() -> None:
    """W-16, W-17."""
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(UnserialisableError, match="deeper"):
        pack(loop)


def test_what_has_a_representation_is_passed_over_on_the_way_to_what_has_none() -> None:
    """W-15: the message names the first part that cannot be written."""
    sound = [datetime(2020, 1, 1, tzinfo=timezone.utc), ("a", 1.5), None]
    with pytest.raises(UnserialisableError, match=r"arguments\[3\] is of type complex"):
        pack([*sound, 1j], "arguments")


def test_relatives_of_the_types_are_written_as_their_type() -> None:
    """W-15: tuples are arrays; bytearray and memoryview are bytes; enums are their number."""
    colour = IntEnum("colour", [("RED", 1)])
    east = timezone(timedelta(hours=2))
    assert unpack(pack((1, 2))) == [1, 2]
    assert unpack(pack([bytearray(b"a"), memoryview(b"b")])) == [b"a", b"b"]
    assert unpack(pack(OrderedDict(a=colour.RED))) == {"a": 1}
    assert unpack(pack(datetime(2020, 1, 1, 2, tzinfo=east))) == datetime(2020, 1, 1, tzinfo=timezone.utc)


@pytest.mark.parametrize("case", [*PAYLOADS["valid"], *PAYLOADS["also_read"]], ids=case_name)
def test_a_published_payload_is_accepted(case: dict[str, Any]) -> None:
    """S-1, S-2, S-11, S-12."""
    data = bytes.fromhex(case["hex"])
    fields, decoded = value_of(case["fields"]), DECODERS[case["kind"]](data)
    if case["kind"] == "request":
        head, arguments = decoded
        names = ("requestId", "service", "caller", "generation", "deadline")
        assert head[:5] == tuple(fields[name] for name in names)
        both = "bootId" in fields and "bootDeadline" in fields
        assert head[5:7] == ((fields["bootId"], fields["bootDeadline"]) if both else ("", 0))
        assert head.repeated == fields.get("repeated", False)
        assert (head.traceparent, arguments) == (fields.get("traceparent"), fields["arguments"])
    elif isinstance(decoded, spc.WireResponse):
        ok = fields["status"] == "SUCCESS"
        error = (fields.get("errorCode", ""), fields.get("errorMessage", ""), fields.get("details", {}))
        assert decoded == (fields["requestId"], ok, fields.get("result"), *error)
    else:
        assert {name: value for name, value in decoded.items() if value is not None} == fields


@pytest.mark.parametrize("case", PAYLOADS["invalid"], ids=case_name)
def test_a_broken_payload_is_refused(case: dict[str, str]) -> None:
    """S-1, S-2, S-11."""
    with pytest.raises(WireError) as refusal:
        DECODERS[case["kind"]](bytes.fromhex(case["hex"]))
    assert refusal.value.reason == "BAD_PAYLOAD"


@pytest.mark.parametrize("case", [one for one in PAYLOADS["invalid"] if one["kind"] == "request"], ids=case_name)
def test_the_id_of_a_broken_request_is_read_where_it_can_be(case: dict[str, str]) -> None:
    """S-2."""
    assert spc.readable_request_id(bytes.fromhex(case["hex"])) == case["answered"]


@given(st.dictionaries(texts, values, max_size=4), texts.filter(bool))
def test_a_request_is_read_back(arguments: dict[str, Any], request_id: str) -> None:
    """S-1."""
    head, decoded = spc.decode_request(spc.encode_request(request_id, "tax", arguments, "analytics", 7, 5, None))
    assert head[:9] == (request_id, "tax", "analytics", 7, 5, "", 0, None, False)
    assert repr(decoded) == repr(arguments)


@given(st.dictionaries(texts, values, max_size=4), st.booleans())
def test_a_request_that_is_sent_again_is_the_same_but_for_its_generation(
    arguments: dict[str, Any], repeated: bool
) -> None:
    """S-21."""
    once = spc.encode_request("1.7", "tax", arguments, "analytics", 7, 5, "00-trace", ("boot", 9))
    before, _ = spc.decode_request(once)
    head, decoded = spc.decode_request(spc.encode_again(once, 9, repeated=repeated))
    assert head._replace(arguments_at=0) == before._replace(generation=9, repeated=repeated, arguments_at=0)
    assert repr(decoded) == repr(arguments)


def test_an_argument_without_representation_is_named() -> None:
    """S-1, W-17."""
    with pytest.raises(UnserialisableError, match=r"^arguments\.x\[1\]"):
        spc.encode_request("1", "tax", {"x": [1, 2j]}, "analytics", 7, 5)
    with pytest.raises(UnserialisableError, match="name of type int"):
        spc.encode_request("1", "tax", {1: 2}, "analytics", 7, 5)  # type: ignore[dict-item]


def test_an_error_is_sent_even_if_its_details_cannot_be() -> None:
    """S-2: the code matters more than what it carries."""
    response = spc.decode_response(spc.encode_error("1", "EXECUTION_FAILED", "\ud800", {"x": 1j}))
    assert response.error_code == "EXECUTION_FAILED"
    assert response.details == {}


@given(st.dictionaries(st.sampled_from(["requestId", "status", "result", "sequence", "op", "deadline"]), scalars))
def test_any_map_is_a_payload_or_one_named_error(fields: dict[str, Any]) -> None:
    """S-1, S-2, S-11."""
    data = msgpack.packb(fields, datetime=True)
    for decode in (*DECODERS.values(), spc.decode_ack):
        try:
            decode(data)
        except WireError as error:
            assert error.reason == "BAD_PAYLOAD"


def test_an_ack_names_a_sequence() -> None:
    """S-11."""
    assert spc.decode_ack(spc.encode_ack(2**63 + 1)) == (2**63 + 1, False)
    assert spc.decode_ack(spc.encode_ack(7, waiting=True)) == (7, True)
    with pytest.raises(WireError):
        spc.decode_ack(pack({"requestId": "1"}))


def test_what_stands_beside_a_column_is_named_when_it_cannot_travel() -> None:
    """W-15, C-1."""
    with pytest.raises(UnserialisableError, match=r"value\[1\] is of type object"):
        pack([from_values([1]), object()])


def test_a_column_that_cannot_be_is_refused_by_name() -> None:
    """C-3: a kind that no list of kinds has."""
    with pytest.raises(UnserialisableError, match="cannot be serialised"):
        pack([Column("int1024", 1, memoryview(b""))])


def test_values_of_any_size_one_after_the_other_are_packed_alone() -> None:
    """W-15: a packer that was used before, or by which a value was refused, leaves nothing in the next."""
    for value in ({"a": 1}, "x" * 200_000, {"a": 1}, b"y" * 70_000, [1, 2]):
        assert unpack(pack(value)) == value
        with pytest.raises(UnserialisableError):
            pack({"a": 1 << 80})


@pytest.mark.parametrize("value", [[0] * 9, [[0] * 4, [0] * 3], {number: [] for number in range(9)}, [{1: 1}] * 5])
def test_a_value_of_too_many_items_is_neither_written_nor_read(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """W-16: elements of arrays and entries of maps, all together."""
    from speed.wire import value as values

    data = values.pack(value)
    monkeypatch.setattr(values, "MAX_VALUE_ITEMS", 8)
    with pytest.raises(UnserialisableError, match="more than 8 items"):
        values.pack(value)
    with pytest.raises(WireError, match="BAD_PAYLOAD"):
        values.unpack(data)
    assert values.unpack(values.pack([[0] * 3, [0] * 3])) == [[0] * 3, [0] * 3]


def test_a_control_payload_above_the_limit_is_refused_unread() -> None:
    """S-11."""
    large = spc.encode({"requestId": "1", "padding": "p" * 65536})
    with pytest.raises(WireError, match="the limit is 65536"):
        spc.decode(large)
    assert spc.decode(large, 1 << 20)["requestId"] == "1"


@pytest.mark.parametrize("ids", [None, "1", [], ["1"] * 65, [1], [""], ["i" * 65]])
def test_a_withdrawal_of_what_is_no_list_of_ids_is_refused(ids: Any) -> None:
    """S-16."""
    with pytest.raises(WireError, match="requestIds"):
        spc.request_ids({"op": "WITHDRAW", "requestIds": ids})


def test_a_withdrawal_names_its_calls() -> None:
    """S-16."""
    assert spc.request_ids({"op": "WITHDRAW", "requestIds": ["1", "2"]}) == ["1", "2"]


def test_what_a_service_sees_as_id_is_unique_among_callers() -> None:
    """S-3."""
    assert spc.full_request_id("etl.1", "7.1") == "etl.1/7.1" != spc.full_request_id("etl", "1/7.1")


@pytest.mark.parametrize(
    ("code", "message", "details", "told"),
    [
        ("X", None, None, ("X", "", {})),
        ("X", "y" * 3000, None, ("X", "y" * 2000, {})),
        ("X", "y", {"a": 1j}, ("X", "y (its details have no representation, and are left out)", {})),
        ("X", "y", {"a": bytes(65537)}, ("X", "y (its details are too large, and are left out)", {})),
        ("X", "y", {"a": 1}, ("X", "y", {"a": 1})),
    ],
)
def test_an_error_can_be_sent_whatever_a_service_made_of_it(code: Any, message: Any, details: Any, told: Any) -> None:
    """S-3."""
    read = spc.decode_response(spc.encode_error("7.1", code, message, details))
    assert (read.error_code, read.error_message, read.details) == told


def test_a_large_value_of_one_piece_has_no_items_to_count() -> None:
    """W-16."""
    assert len(pack(bytes(9 << 20))) == (9 << 20) + 5
