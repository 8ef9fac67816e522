"""The services of one node: registration, checked arguments, invocation (rules S-3, S-8, S-9).

A service is an object with ``invoke(request)``, or a plain function whose parameters are checked against its
signature. The table lives in memory only; nothing about services is ever written to disk (RFC 7.1).
"""

from __future__ import annotations

import functools
import inspect
import re
import typing
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, runtime_checkable

from speed.core.access import AccessPolicy
from speed.core.calls import checked_code, is_code
from speed.core.hints import compile_hint
from speed.core.log import logger
from speed.core.readers import Hint, Misfit
from speed.core.signatures import Parameters, brief, compile_parameters, summary_of, travelling
from speed.errors import (
    CALL_ERRORS,
    ApplicationError,
    CallError,
    CallWithdrawnError,
    ConfigurationError,
    Execution,
    ExecutionFailedError,
    InvalidArgumentsError,
    InvalidNameError,
    ServiceExistsError,
    ServiceNotFoundError,
    SpeedError,
    WireError,
)
from speed.wire import names
from speed.wire.column import Column
from speed.wire.limits import MAX_ERROR_CHARACTERS, MAX_SUMMARY_CHARACTERS
from speed.wire.spc import StreamOffer
from speed.wire.text import describe, type_name
from speed.wire.value import pack

log = logger("speed.spc")

_RUNNING = {"phase": "running"}
_MISSING: Any = object()
_MAX_AMOUNT = 1 << 63


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
        items: what the caller sends, item by item, to a service that takes it (an iterator); else None.
        channel: of the node's own.
        caller_identity: the fingerprint that the caller proved; empty where either node has no identity.
    """

    service: str
    arguments: Mapping[str, Any]
    caller: str
    request_id: str
    deadline_ms: int
    traceparent: str | None = None
    redelivered: bool = False
    cancellation: Cancellation = _Never()
    items: Any = None
    channel: Any = None
    caller_identity: str = ""

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

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Tell a caller that wants to know (``on_progress``) how far this is; costs next to nothing if none does.

        ``done`` and ``total`` are of one unit, from 0; of ``note`` 200 characters travel. Thread-safe. It never waits,
        and may be lost: the caller gets the newest, some twenty a second. Raises ConfigurationError for other numbers.
        """
        for name, amount in (("done", done), ("total", total)):
            if not (amount is None and name == "total") and not (_is(amount, float) and 0 <= amount < _MAX_AMOUNT):  # type: ignore[operator]
                raise ConfigurationError(f"{name} of progress is {amount!r}: use a number from 0")
        if self.channel is not None and self.channel.wants_progress:
            self.channel.report(done, total, str(note))

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
    def parameters(self) -> Parameters:
        """The compiled checks."""
        return self._parameters

    @property
    def function(self) -> Callable[..., Any]:
        """What is called."""
        return self._function

    @property
    def viewed(self) -> tuple[str, ...]:
        """The parameters that are hinted ``memoryview``."""
        return self._parameters.viewed

    def invoke(self, request: Request) -> Any:
        """Check and call. Raises InvalidArgumentsError naming the parameter, else whatever the function raises."""
        injected, items = self._parameters.request_parameter, self._parameters.items
        given: dict[str, Any] = {} if injected is None else {injected: request}
        if items is not None:
            given[items.name] = request.items
        return self._function(**self._parameters.taken(request.arguments), **given)

    def call(self, arguments: Mapping[str, Any]) -> Any:
        """The same for a function that does not ask for the request."""
        return self._function(**self._parameters.taken(arguments))


class ServiceOptions(NamedTuple):
    """How a service is offered, beside its grants."""

    idempotent: bool = False
    version: str = ""
    """Of the service itself, for those who read its description."""


DEFAULT_OPTIONS = ServiceOptions()


_DECLARED: dict[str, type[ServiceError]] = {}
"""Errors that this program's services and callers know as classes, by code."""
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class ServiceError(ApplicationError):
    """Base of a service's own errors that have fields. A service raises one, and its callers catch the same class::

        class InsufficientFunds(speed.ServiceError):
            '''There is not enough money.'''

            balance: Decimal
            needed: Decimal


        raise InsufficientFunds(balance=balance, needed=amount)

    Its code is the name in capitals, ``INSUFFICIENT_FUNDS``, unless the class has another ``code``; the fields travel
    as ``details``. Who does not have the class gets ApplicationError with both, in each language. Raises
    ConfigurationError for a code that no service may give, or that another class of this program has.
    """

    def __init_subclass__(cls, **how: Any) -> None:
        super().__init_subclass__(**how)
        cls.code = checked_code(vars(cls).get("code") or _WORDS.sub("_", cls.__name__.removesuffix("Error")).upper())
        known = _DECLARED.setdefault(cls.code, cls)
        if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ConfigurationError(
                f"{known.__qualname__} and {cls.__qualname__} have one code, {cls.code}: set `code`"
            )
        _DECLARED[cls.code] = cls  # a cell of a notebook that is run again

    def __init__(self, message: str = "", /, **fields: Any) -> None:
        """Raises TypeError for fields that the class does not declare, and for those that are missing."""
        wanted = typing.get_type_hints(type(self)).keys() - typing.get_type_hints(ServiceError).keys()
        if odd := wanted.symmetric_difference(fields):
            raise TypeError(f"{type(self).__name__} has the fields {sorted(wanted)}: look at {sorted(odd)}")
        super().__init__(type(self).code, message or summary_of(type(self)), fields)
        self.__dict__.update(fields)

    @classmethod
    def fields(cls) -> dict[str, Hint]:
        """The checks of its fields. Raises ConfigurationError for a hint that nobody can check."""
        own = typing.get_type_hints(ServiceError)
        hints = {name: hint for name, hint in typing.get_type_hints(cls).items() if name not in own}
        return {name: compile_hint(hint, f"{cls.__name__}.{name}") for name, hint in hints.items()}


def as_declared(error: SpeedError) -> SpeedError:
    """An error that a service answered with as the class that this program has for its code, if it fits that."""
    kind = _DECLARED.get(error.code)
    if kind is None or not isinstance(error, ApplicationError) or isinstance(error, ServiceError):
        return error
    try:
        fields = {name: hint.take(error.details[name]) for name, hint in kind.fields().items()}
        made = kind(str(error), **fields)
    except Exception:  # other fields than the class has: of another version, or of another service
        return error
    made.execution, made.node, made.service = error.execution, error.node, error.service
    return made


class Registered(NamedTuple):
    """A service with its grants; ``policy`` None: whoever may write to the node may call."""

    service: Service
    policy: AccessPolicy | None
    idempotent: bool
    description: Mapping[str, Any]
    """As it travels."""


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
        how: ServiceOptions = DEFAULT_OPTIONS,
    ) -> Service:
        """Add a service; ``allow`` narrows who may call it (grant patterns). An idempotent one may run again.

        Raises InvalidNameError, ServiceExistsError for a duplicate (RFC 7.8), ConfigurationError for no service.
        """
        names.check_service_name(name)
        if isinstance(allow, str):
            raise ConfigurationError(f"service {name!r}: allow must be a collection of names, not one string")
        if name in self._services:
            raise ServiceExistsError(f"service {name!r} is already registered; unregister it first")
        made = as_service(name, service)
        policy = None if allow is None else AccessPolicy(allow)
        if policy is not None and policy.identities():
            raise InvalidNameError("grants of a service name nodes alone: grant the identity at the node")
        self._services[name] = Registered(made, policy, how.idempotent, describe_service(name, made, how))
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

    def description(self, name: str) -> Mapping[str, Any]:
        """Of a service that is registered, as it travels."""
        return self._services[name].description

    def descriptions(self, caller: str, most_bytes: int) -> list[Mapping[str, Any]]:
        """Of the services that ``caller`` may call, within ``most_bytes``: the last may lack their schemas (S-26)."""
        rows = map(self._services.get, self.names(caller))
        whole = [row.description for row in rows if row is not None]  # what was taken back meanwhile is not there
        left = most_bytes - sum(len(pack(brief(one))) for one in whole)
        found: list[Mapping[str, Any]] = []
        for one in whole:
            size = len(pack(one)) - len(pack(brief(one)))
            found.append(one if size <= left else brief(one))
            left -= size if size <= left else 0
        return found

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


def check_streaming(found: Registered, name: str, offer: StreamOffer) -> Response | None:
    """The refusal of a stream by a service that has none (S-27)."""
    if found.description["streaming"] or not (offer.wants_items or offer.sends):
        return None
    return Response.error("INVALID_ARGUMENTS", f"{name} gives and takes no items: call it by `call`")


def describe_service(name: str, service: Any, how: ServiceOptions) -> Mapping[str, Any]:
    """What others are told of a service (S-26)."""
    inner = getattr(service, "described", service)
    parameters = inner.parameters if isinstance(inner, FunctionService) else None
    hints = {} if parameters is None else parameters.hints
    whose = getattr(service, "whose_items", None)
    described = {
        "name": name,
        "summary": summary_of(inner.function if isinstance(inner, FunctionService) else type(inner)),
        "version": how.version[:MAX_SUMMARY_CHARACTERS],
        "streaming": getattr(service, "streams", False),
        **({} if whose is None else {"items": whose}),
        "idempotent": how.idempotent,
        "columns": getattr(service, "takes_columns", any(Column in (one.kinds or ()) for one in hints.values())),
    }
    return travelling(described, parameters)


def is_generator(given: Any) -> bool:
    """Whether a function, or what can be called, gives one item after the other."""
    while isinstance(given, functools.partial):
        given = given.func
    kinds = (given, getattr(type(given), "__call__", None))  # noqa: B004
    return any(inspect.isgeneratorfunction(kind) or inspect.isasyncgenfunction(kind) for kind in kinds)


def run(service: Service, request: Request) -> Response:
    """Invoke ``service``; what it raises becomes an error answer (S-8)."""
    try:
        return response_of(service.invoke(request))
    except BaseException as error:  # its own exit or cancellation, too: the caller waits
        return failure(request.service, request.caller, error, is_cancelled=request.cancelled)


def response_of(answer: Any) -> Response:
    """What a service returned; any value but a Response is its result."""
    return answer if type(answer) is Response else Response(answer)


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


def result_reader(returns: Any, what: str = "its result") -> Callable[[Any], Any]:
    """What reads a result as ``returns``; it raises WireError. ConfigurationError for what nobody can check."""
    try:
        return _result_reader(returns, what)
    except TypeError:  # unhashable
        return _result_reader.__wrapped__(returns, what)


@functools.lru_cache(maxsize=256)
def _result_reader(returns: Any, what: str) -> Callable[[Any], Any]:
    hint = compile_hint(returns, "returns")

    def read(result: Any) -> Any:
        try:
            return hint.take(result)
        except Misfit as misfit:
            error = WireError("BAD_PAYLOAD", f"the call ran, but {misfit.text(what)}")
            error.execution = Execution.RAN
            raise error from None

    return read


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
