"""The services of one node: registration, checked arguments, invocation (rules S-3, S-8, S-9).

A service is an object with ``invoke(request)``, or a plain function whose parameters are checked against its
signature. The table lives in memory only; nothing about services is ever written to disk (RFC 7.1).
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, runtime_checkable

from speed.core.access import AccessPolicy
from speed.core.calls import checked_code, is_code
from speed.core.hints import ANYTHING, Hint, Misfit, compile_hint, describe, type_name, written
from speed.core.log import logger
from speed.errors import (
    CALL_ERRORS,
    ApplicationError,
    CallError,
    CallWithdrawnError,
    ConfigurationError,
    ExecutionFailedError,
    InvalidArgumentsError,
    ServiceExistsError,
    ServiceNotFoundError,
    SpeedError,
)
from speed.wire import names
from speed.wire.column import Column
from speed.wire.limits import MAX_ERROR_CHARACTERS

# A function's signature compiled into argument checks that cost about a microsecond per call (rule S-9).

_NO_TYPES: Mapping[Any, frozenset[type]] = types.MappingProxyType({})


class Parameters(NamedTuple):
    """The compiled checks of one function."""

    service: str
    hints: Mapping[str, Hint]
    """The check of each parameter."""
    required: frozenset[str]
    rest: Hint | None
    """The check of what ``**kwargs`` takes; None for a function without it."""
    request_parameter: str | None
    """The parameter that wants the request itself, if any."""
    signature: str
    makes: bool
    """Whether a parameter asks for what is made of its argument."""
    viewed: tuple[str, ...]
    """The parameters that ask for a view of bytes."""

    def taken(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the function gets for ``arguments``.

        Raises InvalidArgumentsError naming the first wrong, unknown or missing argument.
        """
        self._check(arguments)
        if not self.makes:
            return arguments
        return {name: self._made(name, value) for name, value in arguments.items()}

    def _made(self, name: str, value: Any) -> Any:
        hint = self.hints.get(name) or self._of_rest(name)
        if hint.make is None:
            return value
        try:
            return hint.make(value)
        except Exception as error:  # what a dataclass of the program raises for values that it does not take
            raise InvalidArgumentsError(
                f"{self.service}: argument {name!r} is no {hint.label} ({type(error).__name__})", {"argument": name}
            ) from None

    def _check(self, arguments: Mapping[str, Any]) -> None:
        hints = self.hints
        for name, value in arguments.items():
            hint = hints.get(name) or self._of_rest(name)
            if (hint.kinds is not None and type(value) not in hint.kinds) or hint.inside is not None:
                misfit = hint.misfit(value)
                if misfit is not None:
                    raise self._misfit(name, misfit)
        if not self.required <= arguments.keys():
            missing = sorted(self.required - arguments.keys())
            listed = ", ".join(map(repr, missing))
            raise InvalidArgumentsError(
                f"{self.service}: missing argument {listed}; expected {self.signature}", {"argument": missing[0]}
            )

    def _of_rest(self, name: str) -> Hint:
        if self.rest is None or name == self.request_parameter:
            raise InvalidArgumentsError(
                f"{self.service}: unknown argument {name!r}; expected {self.signature}", {"argument": name}
            )
        return self.rest

    def _misfit(self, name: str, misfit: Misfit) -> InvalidArgumentsError:
        text = f"argument {name!r}{misfit.where} must be {misfit.expected}, not {misfit.given}"
        if misfit.given == Column.__name__:
            text = f"argument {name!r} is a column, which this function does not take: use {_FOR_COLUMNS}"
        return InvalidArgumentsError(
            f"{self.service}: {text}", {"argument": name, "expected": misfit.expected, "given": misfit.given}
        )


def compile_parameters(
    service: str, function: Callable[..., Any], request_type: type, also: Mapping[Any, frozenset[type]] = _NO_TYPES
) -> Parameters:
    """Read the signature once; ``also`` are types of arguments beside those of the wire.

    Raises ConfigurationError for positional-only parameters, since arguments travel by name, and for type hints that
    cannot be checked.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return Parameters(service, {}, frozenset(), ANYTHING, None, "(**kwargs)", False, ())
    names = _globals(function)
    wanted: str | None = None
    rest: Hint | None = None
    hints: dict[str, Hint] = {}
    required: set[str] = set()
    for name, parameter in signature.parameters.items():
        what = f"service {service!r}: parameter {name!r}"
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise ConfigurationError(f"{what} is positional-only; remove the '/'")
        if parameter.kind is parameter.VAR_POSITIONAL:
            continue
        written = _written(parameter, names, what)
        if written is request_type:
            wanted = name
            continue
        hint = _UNHINTED if written is parameter.empty else compile_hint(written, what, also)
        if parameter.kind is parameter.VAR_KEYWORD:
            rest = hint
            continue
        hints[name] = hint
        if parameter.default is parameter.empty:
            required.add(name)
    makes = any(hint.make is not None for hint in (*hints.values(), rest or ANYTHING))
    viewed = tuple(name for name, hint in hints.items() if memoryview in (hint.kinds or ()))
    return Parameters(service, hints, frozenset(required), rest, wanted, str(signature), makes, viewed)


def _globals(function: Callable[..., Any]) -> dict[str, Any]:
    """The names that the annotations of ``function`` may use."""
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function):
        function = type(function).__call__
    return getattr(inspect.unwrap(function), "__globals__", {})


def _written(parameter: inspect.Parameter, names: dict[str, Any], what: str) -> Any:
    """The type hint of a parameter, resolved and without ``Annotated``; ``Parameter.empty`` where there is none."""
    if parameter.annotation is parameter.empty:
        return parameter.empty
    holder = types.SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    try:
        return typing.get_type_hints(holder, names)[parameter.name]
    except Exception as error:  # annotations run the user's code: any exception may come out of it
        raise ConfigurationError(
            f"{what} has the type hint {parameter.annotation!r}, which cannot be read ({error}): "
            "import what it names, where the function is defined"
        ) from None


def _no_column(value: Any) -> Misfit | None:
    return Misfit("", "a value of one call", type_name(value)) if type(value) is Column else None


_UNHINTED = Hint("Any", None, _no_column)
"""Whoever wants a column says so: a function of plain values would fail at it, and not say why."""
_FOR_COLUMNS = "@by_row, @by_array or @by_arrow of speed.column_services, or declare the parameter as speed.Column"


log = logger("speed.spc")

_RUNNING = {"phase": "running"}
_MISSING: Any = object()


class Cancellation(Protocol):
    """What tells a service that nobody waits for it any longer; ``threading.Event`` is one."""

    def is_set(self) -> bool: ...
    def wait(self, timeout: float | None = None) -> bool: ...


class _Never:
    """The cancellation of a request that cannot be withdrawn."""

    def is_set(self) -> bool:
        return False

    def wait(self, timeout: float | None = None) -> bool:
        raise RuntimeError("this request cannot be withdrawn: do not wait for that")


class Request(NamedTuple):
    """One call as a service sees it.

    Attributes:
        service: the name that was called.
        arguments: by name.
        caller: name of the calling node, which is authenticated.
        request_id: unique among all callers.
        deadline_ms: when the caller stops waiting, in Unix milliseconds.
        traceparent: the caller's trace, as a W3C ``traceparent``.
        redelivered: whether an earlier process may have begun it; only services registered as ``idempotent`` see that.
        cancellation: is set once the caller has withdrawn the call, or is gone, or the deadline has passed.
    """

    service: str
    arguments: Mapping[str, Any]
    caller: str
    request_id: str
    deadline_ms: int
    traceparent: str | None = None
    redelivered: bool = False
    cancellation: Cancellation = _Never()

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the result any longer."""
        return self.cancellation.is_set()

    @property
    def columns(self) -> dict[str, Column]:
        """The arguments that are columns, of equally many rows. Raises InvalidArgumentsError if they differ."""
        batch = {name: value for name, value in self.arguments.items() if type(value) is Column}
        rows = {name: column.rows for name, column in batch.items()}
        if len(set(rows.values())) > 1:
            raise InvalidArgumentsError(f"{self.service}: columns of different lengths: {rows}", {"rows": rows})
        return batch

    def get(self, name: str, kind: type | tuple[type, ...] | None = None, default: Any = _MISSING) -> Any:
        """Argument ``name``, checked to be of ``kind``; ``default`` when absent. Raises InvalidArgumentsError."""
        value = self.arguments.get(name, _MISSING)
        if value is _MISSING:
            if default is _MISSING:
                raise InvalidArgumentsError(f"{self.service}: missing argument {name!r}", {"argument": name})
            return default
        if kind is not None and not _is(value, kind):
            raise InvalidArgumentsError(
                f"{self.service}: argument {name!r} must be {describe(kind)}, not {type_name(value)}",
                {"argument": name},
            )
        return value


def _is(value: object, kind: type | tuple[type, ...]) -> bool:
    """isinstance as the wire understands it: bool is no int, int is good enough for float."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if isinstance(value, bool):
        return bool in kinds or object in kinds
    return isinstance(value, kinds) or (isinstance(value, int) and float in kinds)


class Response(NamedTuple):
    """What a service answers: a result, or an error with code, message and details.

    A service may return its result alone; it needs a Response only to say an error without raising one.
    """

    result: Any = None
    error_code: str | None = None
    error_message: str = ""
    details: Mapping[str, Any] = MappingProxyType({})

    @property
    def ok(self) -> bool:
        """True for a result."""
        return self.error_code is None

    @property
    def has_own_code(self) -> bool:
        """True for an error whose code is the service's, and none of SPEED's."""
        return self.error_code is not None and self.error_code not in CALL_ERRORS and is_code(self.error_code)

    @classmethod
    def error(cls, code: str, message: str, details: Mapping[str, Any] | None = None) -> Response:
        """An error answer.

        ``code`` is one of SPEED's, or the service's own: a capital letter, then up to 63 of A-Z, 0-9 and ``_``. The
        caller gets its own as ApplicationError with this ``code``. Raises ConfigurationError for another.
        """
        return cls(None, checked_code(code), message, details or {})


@runtime_checkable
class Service(Protocol):
    """What ``register`` takes beside plain functions: any object with this method."""

    def invoke(self, request: Request) -> Any:
        """Answer with a Response; any other value is taken as the result."""


class FunctionService:
    """A plain function as a service: arguments travel by name and are checked before the call (rule S-9)."""

    __slots__ = ("_function", "_parameters", "name")

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        also: Mapping[Any, frozenset[type]] = MappingProxyType({}),
    ) -> None:
        """Compiles the checks once; ``also`` are types of arguments that do not come over the wire as they are.

        Raises ConfigurationError for a function that cannot be called by name, or has a type hint nobody can check.
        """
        self.name = name
        self._function = function
        self._parameters: Parameters = compile_parameters(name, function, Request, also)

    @property
    def signature(self) -> str:
        """The parameters for people, e.g. ``(x: int, y: int = 2)``."""
        return self._parameters.signature

    @property
    def takes_request(self) -> bool:
        """Whether the function asks for the request itself."""
        return self._parameters.request_parameter is not None

    @property
    def viewed(self) -> tuple[str, ...]:
        """The parameters that are hinted ``memoryview``."""
        return self._parameters.viewed

    def invoke(self, request: Request) -> Any:
        """Check and call. Raises InvalidArgumentsError naming the parameter, else whatever the function raises."""
        injected = self._parameters.request_parameter
        if injected is None:
            return self.call(request.arguments)
        return self._function(**self._parameters.taken(request.arguments), **{injected: request})

    def call(self, arguments: Mapping[str, Any]) -> Any:
        """The same for a function that does not ask for the request."""
        return self._function(**self._parameters.taken(arguments))


class Registered(NamedTuple):
    """A service with its grants; ``policy`` None: whoever may write to the node may call."""

    service: Service
    policy: AccessPolicy | None
    idempotent: bool


class ServiceRegistry:
    """Services by name.

    Threads: `find`, `allows`, `names` are lock-free reads of a dict; `register` and `unregister` are serialised
    by the caller (the node's lock).
    """

    __slots__ = ("_services",)

    def __init__(self) -> None:
        self._services: dict[str, Registered] = {}

    def register(
        self,
        name: str,
        service: Service | Callable[..., Any],
        allow: Iterable[str] | None = None,
        *,
        idempotent: bool = False,
    ) -> Service:
        """Add a service; ``allow`` narrows who may call it (grant patterns). An ``idempotent`` one may run again.

        Raises InvalidNameError, ServiceExistsError for a duplicate (RFC 7.8), ConfigurationError for no service.
        """
        names.check_service_name(name)
        if isinstance(allow, str):
            raise ConfigurationError(f"service {name!r}: allow must be a collection of names, not one string")
        if name in self._services:
            raise ServiceExistsError(f"service {name!r} is already registered; unregister it first")
        made = as_service(name, service)
        self._services[name] = Registered(made, None if allow is None else AccessPolicy(allow), idempotent)
        return made

    def unregister(self, name: str) -> None:
        """Remove a service. Raises ServiceNotFoundError."""
        if self._services.pop(name, None) is None:
            raise ServiceNotFoundError(f"no service {name!r} is registered")

    def allows(self, name: str, caller: str) -> bool:
        """The service's own narrower check (rule A-5); True for an unknown service: it is not found later."""
        row = self._services.get(name)
        return row is None or row.policy is None or row.policy.allows(caller)

    def names(self, caller: str | None = None) -> tuple[str, ...]:
        """Sorted service names; with ``caller`` only those it may call."""
        return tuple(sorted(name for name in list(self._services) if caller is None or self.allows(name, caller)))

    def __contains__(self, name: object) -> bool:
        return name in self._services

    def find(self, name: str, caller: str) -> Registered | Response:
        """The service for a caller, or why it cannot be called (A-5)."""
        row = self._services.get(name)
        if row is None:
            return Response.error(
                "SERVICE_NOT_FOUND", f"no service {name!r} here: `speed services` lists those you may call"
            )
        if row.policy is not None and not row.policy.allows(caller):
            return Response.error("ACCESS_DENIED", f"service {name!r} does not allow node {caller!r}")
        return row


def run(service: Service, request: Request) -> Response:
    """Invoke ``service``; what it raises becomes an error answer (S-8)."""
    try:
        return response_of(service.invoke(request))
    except BaseException as error:  # its own exit or cancellation, too: the caller waits
        return failure(request.service, request.caller, error, is_cancelled=request.cancelled)


def response_of(answer: Any, keep: Collection[type] = ()) -> Response:
    """What a service returned, with its result in the form in which it travels, but for types in ``keep``."""
    if type(answer) is not Response:
        return Response(written(answer, keep))
    return answer if answer.result is None else answer._replace(result=written(answer.result, keep))


def failure(service: str, caller: str, error: BaseException, *, is_cancelled: bool) -> Response:
    """The answer to a call whose service raised ``error``; what the service did not mean to raise is logged."""
    if isinstance(error, _ANSWERS) and error.node is None and is_code(error.code):
        return Response.error(error.code, str(error), error.details)
    if is_cancelled and is_cancellation(error):
        return Response.error("WITHDRAWN", f"{service!r} ended because the call was withdrawn", _RUNNING)
    log.error("service %s failed for a call of %s", service, caller, exc_info=error)
    return _failed(error)


_ANSWERS = InvalidArgumentsError | ExecutionFailedError | ApplicationError
"""What a service raises to answer; one of these that a call of its own ended with is a failure (S-20)."""


def is_cancellation(error: BaseException) -> bool:
    """Whether a service says that it ended because it was asked to: of any event loop."""
    return isinstance(error, CallWithdrawnError) or type(error).__name__ == "CancelledError"


def as_service(name: str, service: Service | Callable[..., Any]) -> Service:
    """The object itself when it has ``invoke``, else a FunctionService around a callable."""
    if callable(getattr(service, "invoke", None)) and not inspect.isclass(service):
        return service  # type: ignore[return-value]
    if inspect.isclass(service):
        raise ConfigurationError(f"service {name!r}: register an instance of {service.__name__}, not the class")
    if callable(service):
        return FunctionService(name, service)
    raise ConfigurationError(
        f"service {name!r}: {type_name(service)} is neither a function nor an object with invoke(request)"
    )


def failure_text(error: BaseException) -> str:
    """What a failure says of itself, cut, as text that can be sent; nothing if that fails as well."""
    try:
        return str(error)[:MAX_ERROR_CHARACTERS].encode(errors="replace").decode()
    except BaseException:
        return ""


def failure_line(error: BaseException) -> str:
    """The same with its kind, where it is not one of ours."""
    text = failure_text(error)
    return text if isinstance(error, SpeedError) else f"{type(error).__name__}: {text}"


def _failed(error: BaseException) -> Response:
    """EXECUTION_FAILED with the exception's type and message; never a traceback (it may show payloads and paths)."""
    kind = type(error).__name__
    message = failure_text(error)
    return Response.error("EXECUTION_FAILED", f"{kind}: {message}" if message else kind, failure_details(error))


def failure_details(error: BaseException) -> dict[str, Any]:
    """What is told of an error beside its text: the call that it ended, or its kind."""
    if isinstance(error, SpeedError) and error.node is not None:
        return {"cause": error.code, "node": error.node, "service": error.service}
    details: dict[str, Any] = {"exception": type(error).__name__}
    if isinstance(error, CallError):
        details["cause"] = error.code
    return details
