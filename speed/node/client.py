"""Clients with types: a ``typing.Protocol`` whose methods are the services of one node.

The methods are checked against what the node describes (S-26) when the first of them is called.
"""

from __future__ import annotations

import functools
import inspect
import threading
import typing
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from speed.core.hints import texts
from speed.core.services import result_reader
from speed.core.signatures import Description, streamed_item
from speed.errors import ConfigurationError, InvalidArgumentsError
from speed.wire import lazily
from speed.wire.names import is_family
from speed.wire.text import describe

if TYPE_CHECKING:
    from speed.aio import AsyncNode
    from speed.engine.options import Retry
    from speed.node.verbs import Verbs


Function = TypeVar("Function", bound=Callable[..., Any])


def named(service: str, /, **arguments: str) -> Callable[[Function], Function]:
    """The service of a method of a protocol, where it has another name than the method, and so for its arguments::

        class Prices(Protocol):
            @speed.named("prices.total", class_="class")
            def total(self, class_: str) -> Decimal: ...

    Raises ConfigurationError for names that are not text.
    """
    texts("the names of a service and its arguments", (service, *arguments.values()))

    def mark(function: Function) -> Function:
        function.__speed_named__ = service, arguments  # type: ignore[attr-defined]
        return function

    return mark


class Method:
    """One method of a protocol: which service it is, how arguments get their names, and what its result is."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        """Raises ConfigurationError for parameters that have no names, and hints that cannot be read or checked."""
        self.name: str
        self._keys: Mapping[str, str]
        self.name, self._keys = getattr(function, "__speed_named__", (name, {}))
        self.is_async = inspect.iscoroutinefunction(function)
        self.signature = self._signature(function)
        try:
            hints = typing.get_type_hints(function)
        except Exception as error:  # annotations run the user's code: any exception may come out of it
            raise ConfigurationError(f"the type hints of the method {name!r} cannot be read ({error})") from None
        returns = hints.pop("return", None)
        item = streamed_item(returns)
        self.gives = item is not None
        self.sent = next((name for name, hint in hints.items() if _is_sent(hint)), None)
        """The parameter with the items that the caller sends."""
        self.streams = self.gives or self.sent is not None
        if self.streams and self.is_async:
            raise ConfigurationError(f"the method {name!r} streams and is async: use node.aio.stream")
        self.returns = item if self.gives else None if returns is type(None) else returns
        if self.returns is not None:
            result_reader(self.returns)

    def _signature(self, function: Callable[..., Any]) -> inspect.Signature:
        _, *parameters = inspect.signature(function).parameters.values()  # without ``self``
        for one in parameters:
            if one.kind in (one.POSITIONAL_ONLY, one.VAR_POSITIONAL):
                raise ConfigurationError(f"the method {self.name!r} has the parameter {one}: arguments travel by name")
        if unknown := self._keys.keys() - {one.name for one in parameters}:
            raise ConfigurationError(f"the method {self.name!r} has no parameter {min(unknown)!r}, which is named")
        return inspect.Signature(parameters)

    def named(self, given: tuple[Any, ...], by_name: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call by their names. Raises InvalidArgumentsError, before anything is written."""
        try:
            bound = self.signature.bind(*given, **by_name)
        except TypeError as error:
            raise InvalidArgumentsError(f"{self.name}: {error}; expected {self.signature}") from None
        named: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            rest = self.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD
            named |= value if rest else {name if name == self.sent else self._keys.get(name, name): value}
        return named

    def check(self, target: str, described: Description | None) -> None:
        """ConfigurationError unless the node has such a service, as far as it says."""
        if described is None:
            raise ConfigurationError(f"{target!r} has no service {self.name!r} that this node may call")
        if described.streaming is not self.streams:
            text = "streams: hint its items as Iterator[…]" if described.streaming else "does not stream"
            raise ConfigurationError(f"the service {self.name!r} of {target!r} {text}")
        schema = described.parameters
        if schema is None:
            return
        known = schema.get("properties")
        properties: Any = known if isinstance(known, dict) else {}
        required: Any = schema.get("required") or ()
        parameters = self.signature.parameters.items()
        own = [
            self._keys.get(name, name)
            for name, one in parameters
            if one.kind is not one.VAR_KEYWORD and name != self.sent
        ]
        odd = [name for name in own if name not in properties and schema.get("additionalProperties") is False]
        missing = [name for name in required if name not in own]
        if odd or missing:
            raise ConfigurationError(
                f"the method {self.name}{self.signature} is not the service of {target!r}, {described.signature()}: "
                + (f"it has no {', '.join(map(repr, odd))}" if odd else f"it needs {', '.join(map(repr, missing))}")
            )


class Client:
    """The services of one node as the methods of a protocol. Thread-safe."""

    def __init__(
        self,
        node: Verbs,
        aio: Callable[[], AsyncNode],
        protocol: Any,
        target: str,
        timeout: float | None,
        retry: Retry | None,
        alike: bool = False,
    ) -> None:
        self._aio, self._alike = aio, alike
        self._node, self._target, self._timeout, self._retry = node, target, timeout, retry
        self._methods = methods_of(protocol)
        self._protocol = protocol
        self._lock = threading.Lock()
        self._is_checked = False
        self._members: Mapping[str, Any] = {}
        """Of a family, those that were checked."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = self._methods.get(name)
        if method is None:
            raise AttributeError(f"{describe(self._protocol)} has no method {name!r}")
        call = self._awaited if method.is_async else self._call
        return functools.update_wrapper(functools.partial(call, method), getattr(self._protocol, name))

    def __repr__(self) -> str:
        return f"<client {describe(self._protocol)} of {self._target!r}>"

    def _call(self, method: Method, *given: Any, **by_name: Any) -> Any:
        named = method.named(given, by_name)
        self._check()
        if method.streams:
            return self._stream(method, named)
        how: dict[str, Any] = {"timeout": self._timeout, "returns": method.returns, "retry": self._retry}
        return self._node.call(self._target, method.name, named, **how)

    def _stream(self, method: Method, named: dict[str, Any]) -> Any:
        items = None if method.sent is None else named.pop(method.sent, None)
        how: dict[str, Any] = {"timeout": self._timeout, "items": items}
        if method.gives:
            return self._node.stream(self._target, method.name, named, returns=method.returns, **how)
        result = self._node.stream(self._target, method.name, named, **how).wait()
        return result if method.returns is None else result_reader(method.returns)(result)

    async def _awaited(self, method: Method, *given: Any, **by_name: Any) -> Any:
        with lazily.guard:
            import asyncio  # costs 10 ms to import; who awaits has it

        named = method.named(given, by_name)
        if not self._is_up_to_date():
            await asyncio.to_thread(self._check)
        how: dict[str, Any] = {"timeout": self._timeout, "returns": method.returns, "retry": self._retry}
        return await self._aio().call(self._target, method.name, named, **how)

    def _check(self) -> None:
        """When the first method is called, and again for new members of a family, or while nobody can be asked."""
        if self._is_up_to_date():
            return
        with self._lock:
            if self._is_up_to_date():
                return
            members = self._node._family(self._target).able() if is_family(self._target) else {}
            described = self._described()
            for method in self._methods.values():
                if described is not None:
                    method.check(self._target, described.get(method.name))
            self._is_checked, self._members = True, members

    def _is_up_to_date(self) -> bool:
        if not self._is_checked or not is_family(self._target):
            return self._is_checked
        return self._node._family(self._target).able().items() <= self._members.items()

    def _described(self) -> dict[str, Description] | None:
        """None of a node of before, which does not describe."""
        if self._alike and is_family(self._target):
            self._node._family(self._target).check_alike()
        try:
            return {one.name: one for one in self._node.describe(self._target)}
        except InvalidArgumentsError:
            return None


def _is_sent(hint: Any) -> bool:
    """Whether a parameter takes items: ``Iterator[…]``, or None."""
    return any(streamed_item(part) is not None for part in (hint, *typing.get_args(hint)))


def methods_of(protocol: Any) -> dict[str, Method]:
    """The public methods of a protocol. Raises ConfigurationError for a class without, or one that cannot be called."""
    if not isinstance(protocol, type):
        raise ConfigurationError(f"a client needs a class, a typing.Protocol, not {type(protocol).__name__}")
    found = {
        name: Method(name, function)
        for one in reversed(protocol.__mro__[:-1])
        if one is not typing.Protocol and one is not typing.Generic
        for name, function in vars(one).items()
        if not name.startswith("_") and inspect.isfunction(function)
    }
    if not found:
        raise ConfigurationError(f"{protocol.__name__} has no public methods: each of them is a service")
    return found
