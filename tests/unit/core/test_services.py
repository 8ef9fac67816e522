"""Services: registration, checked arguments, errors (rules S-3, S-8, S-9, A-5)."""

from __future__ import annotations

import datetime
import enum
import functools
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal, Optional, Union

import numpy
import pytest

from speed.core.calls import own_code, travelling
from speed.core.hints import compile_hint
from speed.core.services import FunctionService, Request, Response, Service, ServiceRegistry, run
from speed.errors import (
    CallTimeoutError,
    CallWithdrawnError,
    ConfigurationError,
    ExecutionFailedError,
    InvalidArgumentsError,
    InvalidNameError,
    ServiceExistsError,
    ServiceNotFoundError,
    UnserialisableError,
)
from speed.wire.cells import from_values
from speed.wire.column import Column
from speed.wire.value import plain


def request(service: str = "f", caller: str = "analytics", **arguments: Any) -> Request:
    return Request(service, arguments, caller, "request-1", 0)


def registry_with(function: Any, **options: Any) -> ServiceRegistry:
    services = ServiceRegistry()
    services.register("f", function, **options)
    return services


def invoke(services: ServiceRegistry, asked: Request) -> Response:
    """As a node does: find the service for its caller, run it, and give its result the form in which it travels."""
    found = services.find(asked.service, asked.caller)
    answer = found if isinstance(found, Response) else run(found.service, asked)
    return answer._replace(result=plain(answer.result))


def test_a_function_is_called_with_its_arguments_by_name():
    """S-9."""

    def add(x: int, y: int = 2) -> int:
        return x + y

    assert invoke(registry_with(add), request(x=40)) == Response(42)


def test_an_object_with_invoke_gets_the_whole_request():
    """S-3 (RFC 7.3)."""

    class Tax:
        def invoke(self, request: Request) -> Mapping[str, object]:
            return {"caller": request.caller, "tax": request.get("amount", int) * 2}

    answer = invoke(registry_with(Tax()), request(amount=21))
    assert answer.ok
    assert answer.result == {"caller": "analytics", "tax": 42}


def test_a_response_is_passed_on_as_it_is():
    """S-3."""

    class Refusing:
        def invoke(self, request: Request) -> Response:
            return Response.error("INVALID_ARGUMENTS", "no", {"a": 1})

    answer = invoke(registry_with(Refusing()), request())
    assert (answer.error_code, answer.details) == ("INVALID_ARGUMENTS", {"a": 1})


def test_a_second_service_of_the_same_name_is_refused():
    """RFC 7.8."""
    services = registry_with(lambda: 1)
    with pytest.raises(ServiceExistsError):
        services.register("f", lambda: 2)


def test_an_unregistered_service_is_gone():
    services = registry_with(lambda: 1)
    services.unregister("f")
    assert invoke(services, request()).error_code == "SERVICE_NOT_FOUND"
    with pytest.raises(ServiceNotFoundError):
        services.unregister("f")


def test_what_is_no_service_is_refused_at_registration():
    def positional(x: int, /) -> int:
        return x

    class NotAnInstance:
        def invoke(self, request: Request) -> None: ...

    for thing in (42, positional, NotAnInstance):
        with pytest.raises(ConfigurationError):
            registry_with(thing)
    with pytest.raises(InvalidNameError):
        ServiceRegistry().register("no/slash", lambda: 1)
    with pytest.raises(ConfigurationError):
        ServiceRegistry().register("f", lambda: 1, allow="analytics")


@pytest.mark.parametrize(
    ("annotation", "good", "bad"),
    [
        (int, [0, -1, 2**63], [True, 1.0, "1", None]),
        (float, [1.5, 2], [True, "1", None]),
        (str, ["", "x"], [b"x", 1, None]),
        (bool, [True, False], [1, 0, None]),
        (bytes, [b"x"], ["x", None]),
        (list, [[], [1]], [{}, "x"]),
        (list[int], [[1]], [{}, 3]),
        (dict, [{}], [[], "x"]),
        (Mapping[str, int], [{"a": 1}], [[1]]),
        (Optional[int], [1, None], ["x", True]),  # noqa: UP045
        (Union[int, str], [1, "x"], [1.5, None]),  # noqa: UP007
        (int | None, [1, None], ["x"]),
        (None, [None], [1]),
        (datetime.datetime, [datetime.datetime.now(datetime.timezone.utc)], ["2024"]),
        (Any, [None, 1, "x"], []),
        (object, [None, 1], []),
    ],
)
def test_annotations_of_simple_types_are_checked(annotation: Any, good: list[Any], bad: list[Any]):
    """S-9."""

    def function(x):  # type: ignore[no-untyped-def]
        return "ran"

    function.__annotations__["x"] = annotation
    services = registry_with(function)
    for value in good:
        assert invoke(services, request(x=value)).result == "ran", value
    for value in bad:
        assert invoke(services, request(x=value)).error_code == "INVALID_ARGUMENTS", value


def test_a_wrong_argument_is_named_with_expected_and_given_type_but_never_its_value():
    """S-9."""

    def pay(amount: int) -> int:
        return amount

    answer = invoke(registry_with(pay), request(amount="secret"))
    assert answer.error_message == "f: argument 'amount' must be int, not str"
    assert answer.details == {"argument": "amount", "expected": "int", "given": "str"}


def test_missing_and_unknown_arguments_are_named():
    """S-9."""

    def pay(amount: int, *, rate: float) -> float:
        return amount * rate

    services = registry_with(pay)
    assert "'rate'" in invoke(services, request(amount=1)).error_message
    assert "'colour'" in invoke(services, request(amount=1, rate=1.0, colour="red")).error_message


def test_keyword_catch_alls_take_unknown_arguments():
    """S-9."""

    def anything(*args: int, x: int = 0, **rest: Any) -> dict[str, Any]:
        return {"x": x, **rest}

    services = registry_with(anything)
    assert invoke(services, request(x=1, z=3)).result == {"x": 1, "z": 3}
    assert invoke(services, request(x="1")).error_code == "INVALID_ARGUMENTS"


def test_a_parameter_annotated_as_request_receives_the_request():
    def who(call: Request, x: int = 0) -> str:
        return call.caller

    services = registry_with(who)
    assert invoke(services, request(x=1)).result == "analytics"
    assert invoke(services, request(call="forged")).error_code == "INVALID_ARGUMENTS"


def test_an_exception_becomes_execution_failed_without_a_traceback():
    """S-8."""

    def broken() -> None:
        raise KeyError("colour")

    answer = invoke(registry_with(broken), request())
    assert answer.error_code == "EXECUTION_FAILED"
    assert answer.error_message == "KeyError: 'colour'"
    assert answer.details == {"exception": "KeyError"}


def test_a_service_that_exits_does_not_take_its_worker_along():
    """S-8."""

    def leave() -> None:
        raise SystemExit(3)

    assert invoke(registry_with(leave), request()).error_code == "EXECUTION_FAILED"


def test_a_service_may_refuse_arguments_and_fail_with_details_itself():
    """S-8."""

    def picky(kind: str) -> None:
        if kind == "arguments":
            raise InvalidArgumentsError("amount must be positive", {"argument": "amount"})
        raise ExecutionFailedError("no such customer", {"customer": 7})

    services = registry_with(picky)
    assert invoke(services, request(kind="arguments")).error_code == "INVALID_ARGUMENTS"
    failed = invoke(services, request(kind="other"))
    assert (failed.error_code, failed.details) == ("EXECUTION_FAILED", {"customer": 7})


def test_a_failed_nested_call_is_a_failure_of_the_service_not_of_its_caller():
    """S-8: a nested time-out must not look like a time-out of this call."""

    def nested() -> None:
        raise CallTimeoutError("too late")

    answer = invoke(registry_with(nested), request())
    assert answer.error_code == "EXECUTION_FAILED"
    assert answer.details["cause"] == "TIMEOUT"


def test_a_failed_nested_call_is_told_with_its_node_and_service():
    """S-20."""

    def nested() -> None:
        error = InvalidArgumentsError("missing argument 'n'")
        error.node, error.service = "behind", "picky"
        raise error

    answer = invoke(registry_with(nested), request())
    assert answer.error_code == "EXECUTION_FAILED"
    assert answer.details == {"cause": "INVALID_ARGUMENTS", "node": "behind", "service": "picky"}


def test_a_code_of_its_own_is_told_from_one_of_the_contract():
    """S-19."""
    assert Response.error("OUT_OF_STOCK", "none left").has_own_code
    assert not Response.error("EXECUTION_FAILED", "broken").has_own_code
    assert not Response(None, "no code", "made by hand").has_own_code
    assert not Response(1).has_own_code


@pytest.mark.parametrize("code", ["", "lower", "1ST", "A B", "A" * 65, "SECRÉT", 7, None])
def test_a_code_that_cannot_travel_is_refused(code: Any) -> None:
    """S-19."""
    with pytest.raises(ConfigurationError, match=r"error code .* cannot be used"):
        Response.error(code, "none left")


@pytest.mark.parametrize(("travelled", "own"), [("app/A_1", "A_1"), ("A_1", None), ("app/", None), ("app/a", None)])
def test_only_what_travels_as_one_is_a_code_of_a_service(travelled: str, own: str | None) -> None:
    """S-19."""
    assert own_code(travelled) == own


@pytest.mark.parametrize(("code", "travels_as"), [("A_1", "app/A_1"), ("EXECUTION_FAILED", "EXECUTION_FAILED")])
def test_only_a_code_of_its_own_is_marked_as_one(code: str, travels_as: str) -> None:
    """S-19."""
    assert travelling(code) == travels_as


def test_a_service_may_narrow_who_calls_it():
    """A-5."""
    services = registry_with(lambda: 1, allow={"billing", "etl.*"})
    assert invoke(services, request(caller="analytics")).error_code == "ACCESS_DENIED"
    assert invoke(services, request(caller="etl.1")).ok
    assert services.names("analytics") == ()
    assert services.names("billing") == services.names() == ("f",)


def test_request_get_checks_presence_and_type():
    """S-9."""
    call = request(x=1, flag=True)
    assert call.get("x", int) == 1
    assert call.get("x", float) == 1
    assert call.get("y", int, 5) == 5
    with pytest.raises(InvalidArgumentsError):
        call.get("y")
    with pytest.raises(InvalidArgumentsError):
        call.get("flag", int)


def test_columns_of_one_call_have_equally_many_rows() -> None:
    """C-6."""
    two, three = from_values([1, 2]), from_values([1, 2, 3])
    assert request(x=two, y=two, factor=2).columns == {"x": two, "y": two}
    with pytest.raises(InvalidArgumentsError, match="different lengths"):
        _ = request(x=two, y=three).columns


def test_a_service_says_how_it_is_called() -> None:
    """S-9: ``speed services`` shows it."""

    def add(x: int, y: int = 2) -> int:
        return x + y

    services = ServiceRegistry()
    service = services.register("add", add)
    assert isinstance(service, FunctionService)
    assert service.signature == "(x: 'int', y: 'int' = 2) -> 'int'"
    assert "add" in services
    assert "subtract" not in services


def test_a_function_says_whether_it_asks_for_the_request() -> None:
    """S-9: one that does not is called without making a request for it."""

    def asks(x: int, request: Request) -> str:
        return f"{x} for {request.caller}"

    services = ServiceRegistry()
    made = [services.register("asks", asks), services.register("plain", lambda x: x)]
    assert [isinstance(one, FunctionService) and one.takes_request for one in made] == [True, False]
    assert invoke(services, request("asks", x=1)).result == "1 for analytics"


def test_a_function_that_tells_no_signature_takes_what_comes() -> None:
    """S-9: some of those written in C tell none."""
    services = registry_with("{x} of {y}".format)
    assert invoke(services, request(x=1, y=2)).result == "1 of 2"


def test_an_annotation_that_cannot_be_read_is_refused_at_registration() -> None:
    """S-9: a name that only a type checker knows would be a check that nobody makes."""

    def later(x: Unknown) -> Any:  # type: ignore[name-defined]  # noqa: F821
        return x

    with pytest.raises(ConfigurationError, match=r"parameter 'x' has the type hint 'Unknown', which cannot be read"):
        registry_with(later)


def test_an_annotation_of_the_result_may_name_what_only_a_type_checker_knows() -> None:
    """S-9: only arguments are checked."""

    def later(x: int) -> Unknown:  # type: ignore[name-defined]  # noqa: F821
        return x

    assert invoke(registry_with(later), request(x=1)).result == 1


def _plain(x: int) -> int:
    return x


class Colour(enum.Enum):
    RED = 1


@dataclass
class Order:
    amount: int
    day: datetime.date | None = None


@dataclass
class Unsound:
    amount: complex


@dataclass
class Positive:
    amount: int

    def __post_init__(self) -> None:
        if self.amount <= 0:
            raise ValueError("secret")


@pytest.mark.parametrize(
    ("annotation", "named"),
    [
        (complex, "complex"),
        (Literal[Colour.RED], "Colour.RED"),
        (list[complex], "complex"),
        (dict[str, complex], "complex"),
        (complex | None, "complex"),
        (Unsound, "complex"),
        ([int], "[<class 'int'>]"),
    ],
)
def test_an_annotation_that_cannot_be_checked_is_refused_at_registration(annotation: Any, named: str) -> None:
    """S-9: the error names the parameter, its hint, and what is possible."""

    def odd(x):  # type: ignore[no-untyped-def]
        return x

    odd.__annotations__ = {"x": annotation}
    with pytest.raises(ConfigurationError) as refused:
        registry_with(odd)
    told = str(refused.value)
    assert told.startswith("service 'f': parameter 'x' has the type hint ") or annotation is Unsound
    assert named in told
    assert "use bool, int, float, str, bytes, memoryview, datetime" in told


@pytest.mark.parametrize(
    ("annotation", "value", "told"),
    [
        (list[int], [1, "secret"], "argument 'x'[1] must be int, not str"),
        (list[list[float]], [[1.5], [2, None]], "argument 'x'[1][1] must be float, not None"),
        (dict[str, int], {"secret": 1.5}, "argument 'x'[…] must be int, not float"),
        (dict[str, int], {7: 1}, "argument 'x' must be dict[str, int], not a dict with a key of int"),
        (tuple[int, str], [1], "argument 'x' must be tuple[int, str], not 1 values"),
        (tuple[int, str], [1, 2], "argument 'x'[1] must be str, not int"),
        (tuple[int, ...], [1, "a"], "argument 'x'[1] must be int, not str"),
        (Literal["fast", "slow"], "secret", "argument 'x' must be 'fast' or 'slow', not another str"),
        (Literal[1], True, "argument 'x' must be 1, not bool"),
        (list[int] | None, [None], "argument 'x'[0] must be int, not None"),
        (list[int] | list[str], [1, "a"], "argument 'x' must be list[int] or list[str], not list"),
        (list[int] | None, "text", "argument 'x' must be list[int] or None, not str"),
    ],
)
def test_what_is_inside_a_value_is_checked_and_its_place_is_named(annotation: Any, value: Any, told: str) -> None:
    """S-9: never what stands there."""

    def function(x):  # type: ignore[no-untyped-def]
        return x

    function.__annotations__["x"] = annotation
    answer = invoke(registry_with(function), request(x=value))
    assert (answer.error_code, answer.error_message) == ("INVALID_ARGUMENTS", f"f: {told}")


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (list[Any], [1, "a", None]),
        (dict[str, list[int]], {"a": [1], "b": []}),
        (dict[int, str], {1: "a"}),
        (tuple[int, str], [1, "a"]),
        (tuple[()], []),
        (Literal["fast", 1] | None, None),
        (list[int] | list[str], ["a", "b"]),
        (list[Literal["a"] | None], ["a", None]),
        (Annotated[int, "rows"], 1),
        (Union[Any, Literal[1]], "anything"),  # noqa: UP007
    ],
)
def test_what_fits_inside_is_taken(annotation: Any, value: Any) -> None:
    """S-9."""

    def function(x):  # type: ignore[no-untyped-def]
        return list(x) if isinstance(x, tuple) else x

    function.__annotations__["x"] = annotation
    assert invoke(registry_with(function), request(x=value)) == Response(value)


def test_what_a_catch_all_takes_is_checked_as_well() -> None:
    """S-9."""

    def total(**amounts: int) -> int:
        return sum(amounts.values())

    services = registry_with(total)
    assert invoke(services, request(a=1, b=2)).result == 3
    assert invoke(services, request(a="1")).error_message == "f: argument 'a' must be int, not str"


def test_a_column_for_a_function_of_plain_values_is_refused_with_what_would_take_it() -> None:
    """C-6."""
    batch = from_values([1, 2])
    for function in (lambda x: x, _plain):
        answer = invoke(registry_with(function), request(x=batch))
        assert answer.error_code == "INVALID_ARGUMENTS"
        assert "argument 'x' is a column" in answer.error_message
        assert "@by_row, @by_array" in answer.error_message


def test_a_function_that_says_so_takes_columns() -> None:
    """C-6."""

    def rows(x: Column, y: Any = None) -> int:
        return x.rows

    batch = from_values([1, 2])
    assert invoke(registry_with(rows), request(x=batch, y=batch)).result == 2


def test_a_refusal_names_every_type_that_would_do() -> None:
    """S-9."""
    call = request(x=None)
    with pytest.raises(InvalidArgumentsError, match="must be int or str, not None"):
        call.get("x", (int, str))
    with pytest.raises(InvalidArgumentsError, match="must be int, not None"):
        call.get("x", int)


def test_a_failure_that_cannot_say_why_is_told_by_its_kind():
    """S-3."""

    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise ValueError

    def fail() -> None:
        raise Unspeakable

    response = invoke(registry_with(fail), request())
    assert (response.error_code, response.error_message) == ("EXECUTION_FAILED", "Unspeakable")


def test_a_request_of_a_test_is_never_withdrawn_and_is_not_waited_for() -> None:
    """S-16."""
    asked = request("tax")
    assert not asked.cancelled
    with pytest.raises(RuntimeError, match="cannot be withdrawn"):
        asked.cancellation.wait(0)


def test_a_service_that_ends_because_its_call_was_withdrawn_says_so() -> None:
    """S-16."""

    class Withdrawn(Service):
        def invoke(self, request: Request) -> object:
            raise CallWithdrawnError("enough")

    cancellation = threading.Event()
    asked = Request("tax", {}, "analytics", "analytics/1", 0, cancellation=cancellation)
    assert run(Withdrawn(), asked).error_code == "EXECUTION_FAILED"
    cancellation.set()
    answer = run(Withdrawn(), asked)
    assert (answer.error_code, dict(answer.details)) == ("WITHDRAWN", {"phase": "running"})


def test_a_map_of_anything_takes_any_map() -> None:
    def count(items: dict[Any, Any]) -> int:
        return len(items)

    assert FunctionService("count", count).call({"items": {"a": [1]}}) == 1
    with pytest.raises(InvalidArgumentsError, match="must be dict"):
        FunctionService("count", count).call({"items": [1]})


class _Doubling:
    def __call__(self, value: int) -> int:
        return 2 * value


@pytest.mark.parametrize(
    "function", [_Doubling(), functools.partial(_Doubling()), functools.partial(_Doubling.__call__, None)]
)
def test_the_hints_of_objects_and_partial_functions_are_read(function: Any) -> None:
    with pytest.raises(InvalidArgumentsError, match="argument 'value' must be int, not str"):
        FunctionService("double", function).call({"value": "2"})


DAY = datetime.date(2026, 11, 25)
SPAN = datetime.timedelta(seconds=-1, microseconds=5)
NUMBER = uuid.UUID("0f8fad5b-d9cb-469f-a165-70867728950e")


def answering(annotation: Any) -> tuple[ServiceRegistry, list[Any]]:
    """A service of one argument with this hint, which answers with it, and what the service was given."""
    given: list[Any] = []

    def function(x):  # type: ignore[no-untyped-def]
        given.append(x)
        return x

    function.__annotations__["x"] = annotation
    return registry_with(function), given


@pytest.mark.parametrize(
    ("annotation", "form", "value"),
    [
        (Decimal, "-12.50", Decimal("-12.50")),
        (Decimal, "100", Decimal(100)),
        (datetime.date, "2026-11-25", DAY),
        (datetime.time, "23:59:59.000001", datetime.time(23, 59, 59, 1)),
        (datetime.timedelta, -999_995, SPAN),
        (uuid.UUID, str(NUMBER), NUMBER),
        (Colour, 1, Colour.RED),
        (Optional[datetime.date], None, None),  # noqa: UP045
        (datetime.date | None, "2026-11-25", DAY),
        (list[datetime.date], ["2026-11-25"], [DAY]),
        (dict[str, Decimal], {"a": "1.5"}, {"a": Decimal("1.5")}),
        (tuple[str, datetime.date], ["a", "2026-11-25"], ("a", DAY)),
        (Order, {"amount": 1, "day": "2026-11-25"}, Order(1, DAY)),
        (list[Order], [{"amount": 1, "day": None}], [Order(1)]),
        (dict[str, list[uuid.UUID]], {"a": [str(NUMBER)]}, {"a": [NUMBER]}),
    ],
)
def test_a_hint_is_given_the_value_that_it_names_and_the_result_goes_back_in_its_form(
    annotation: Any, form: Any, value: Any
) -> None:
    """V-2."""
    services, given = answering(annotation)
    answer = invoke(services, request(x=form))
    assert given == [value]
    assert type(given[0]) is type(value)
    assert answer.result == form


def test_what_a_time_or_a_fraction_leaves_out_is_nothing() -> None:
    """V-2: as other languages write them."""
    services, given = answering(datetime.time)
    for text in ("10:15", "10:15:07.5"):
        assert invoke(services, request(x=text)).ok
    assert given == [datetime.time(10, 15), datetime.time(10, 15, 7, 500_000)]


@pytest.mark.parametrize(
    ("annotation", "value", "told"),
    [
        (Decimal, "1e5", "argument 'x' must be Decimal, not another str"),
        (Decimal, "NaN", "argument 'x' must be Decimal, not another str"),
        (Decimal, 1.5, "argument 'x' must be Decimal, not float"),
        (datetime.date, "2026-02-30", "argument 'x' must be date, not another str"),
        (datetime.date, "20261125", "argument 'x' must be date, not another str"),
        (datetime.time, "24:00", "argument 'x' must be time, not another str"),
        (datetime.timedelta, True, "argument 'x' must be timedelta, not bool"),
        (datetime.datetime, "2026-11-25T23:59:59", "argument 'x' must be datetime, not str"),
        (uuid.UUID, str(NUMBER).upper(), "argument 'x' must be UUID, not another str"),
        (Colour, "secret", "argument 'x' must be one of 1, not another str"),
        (list[Order], [{"amount": "secret"}], "argument 'x'[0].amount must be int, not str"),
        (Order, {}, "argument 'x' must be a map with 'amount', not one without it"),
        (Order, {"amount": 1, "day": "x"}, "argument 'x'.day must be date, not another str"),
        (Positive, {"amount": 0}, "argument 'x' is no Positive (ValueError)"),
    ],
)
def test_what_has_another_form_is_refused_by_the_name_of_the_argument(annotation: Any, value: Any, told: str) -> None:
    """V-2, S-9: never what stands there."""
    services, given = answering(annotation)
    answer = invoke(services, request(x=value))
    assert (answer.error_code, answer.error_message) == ("INVALID_ARGUMENTS", f"f: {told}")
    assert answer.details["argument"] == "x"
    assert given == []


def test_numbers_of_numpy_in_a_result_are_those_of_python() -> None:
    """V-1."""
    result = {"n": numpy.int32(7), "rows": [numpy.float32(0.5), numpy.bool_(True)]}
    answer = invoke(registry_with(lambda: result), request())
    assert answer.result == {"n": 7, "rows": [0.5, True]}
    assert [type(one) for one in (answer.result["n"], *answer.result["rows"])] == [int, float, bool]


def test_what_has_no_form_stays_in_a_result_and_is_refused_when_it_is_written() -> None:
    """V-2."""
    plain = object()
    assert invoke(registry_with(lambda: {"x": plain}), request()).result == {"x": plain}


def test_arguments_without_a_form_are_left_as_they_are_beside_those_with_one() -> None:
    """V-2."""

    def function(day: datetime.date, amount: int, **rest: Any) -> str:
        return f"{day.year} {amount} {rest}"

    answer = invoke(registry_with(function), request(day="2026-11-25", amount=7, more="x"))
    assert answer.result == "2026 7 {'more': 'x'}"


def test_a_type_that_fits_as_it_is_needs_no_form() -> None:
    """V-2: services of columns are given decimals."""
    hint = compile_hint(Decimal, "the field 'x'", {Decimal: frozenset({Decimal})})
    assert hint.take(Decimal("1.5")) == Decimal("1.5") == hint.take("1.5")


def test_a_dataclass_whose_hints_cannot_be_read_is_refused_at_registration() -> None:
    """S-9."""

    @dataclass
    class Unreadable:
        amount: Missing  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(ConfigurationError, match="the type hints of Unreadable cannot be read"):
        compile_hint(Unreadable, "the field 'x'")


def test_a_result_of_a_response_is_written_like_any_other() -> None:
    """V-2."""
    assert invoke(registry_with(lambda: Response({"day": DAY})), request()).result == {"day": "2026-11-25"}


def test_a_result_within_itself_is_refused() -> None:
    """W-16: it has no end."""
    endless: list[Any] = []
    endless += [endless, endless]
    with pytest.raises(UnserialisableError, match="nested deeper than"):
        invoke(registry_with(lambda: endless), request())
