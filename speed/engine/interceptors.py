"""Small functions around calls and services: for logs, figures, access, and values that go along.

An interceptor is a generator function: what stands before its ``yield`` runs before the call or the service, what
stands behind it afterwards. So one form serves calls that block, futures and coroutines alike.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from concurrent.futures import CancelledError, Future
from typing import Any

from speed.core.services import FunctionService, Request, Service
from speed.engine.options import CallRequest
from speed.errors import ConfigurationError
from speed.wire.text import type_name

Interceptor = Callable[[Any], Generator[Any, Any, Any]]
Interceptors = tuple[Interceptor, ...]
"""The first is the outermost."""


def checked(interceptor: Any) -> Interceptor:
    """ConfigurationError for what is no generator function."""
    if inspect.isgeneratorfunction(interceptor) or inspect.isgeneratorfunction(getattr(interceptor, "__call__", None)):  # noqa: B004
        return interceptor  # type: ignore[no-any-return]
    raise ConfigurationError(
        f"an interceptor is a generator function, which yields the request once, not {type_name(interceptor)}: "
        "def measure(request): began = monotonic(); yield request; print(monotonic() - began)"
    )


class Passage:
    """One request on its way through interceptors, and its outcome on the way back. One thread at a time uses it."""

    def __init__(self, interceptors: Interceptors, request: Any) -> None:
        self.request = request
        """What the last of them let through."""
        self.is_over = False
        """Whether one of them ended it, so that nothing is called."""
        self._result: Any = None
        self._error: BaseException | None = None
        self._open: list[Generator[Any, Any, Any]] = []
        for interceptor in interceptors:
            if not self.is_over:
                self._enter(interceptor)

    def _enter(self, interceptor: Interceptor) -> None:
        try:
            entered = interceptor(self.request)
            given = next(entered)
            self._open.append(entered)
        except StopIteration as ended:  # it has the result itself
            self.succeeded(ended.value)
        except BaseException as error:
            self.failed(error)
        else:
            if isinstance(given, type(self.request)):
                self.request = given
            elif given is not None:
                self.failed(ConfigurationError(f"an interceptor yielded {type_name(given)}: it yields the request"))

    def succeeded(self, result: Any) -> None:
        self._result = result
        self._leave()

    def failed(self, error: BaseException) -> None:
        self._error = error
        self._leave()

    def _leave(self) -> None:
        self.is_over = True
        while self._open:
            one = self._open.pop()
            try:
                _ = one.send(self._result) if self._error is None else one.throw(self._error)
            except StopIteration as ended:
                if self._error is not None or ended.value is not None:
                    self._result, self._error = ended.value, None
            except BaseException as error:
                self._error = error
            else:
                one.close()
                self._error = ConfigurationError("an interceptor yielded twice: it yields the request once")

    def outcome(self) -> Any:
        """The result, once it is over; raises the error."""
        error, self._error = self._error, None  # which would hold its own traceback, and so this
        if error is not None:
            raise error
        return self._result


def through(interceptors: Interceptors, proceed: Callable[[Any], Any], request: Any) -> Any:
    """What becomes of ``proceed(request)`` between the interceptors."""
    passage = Passage(interceptors, request)
    if not passage.is_over:
        try:
            result = proceed(passage.request)
        except BaseException as error:
            passage.failed(error)
        else:
            passage.succeeded(result)
    return passage.outcome()


class Intercepted:
    """A service between interceptors."""

    def __init__(self, service: Service, interceptors: Interceptors) -> None:
        self._interceptors = interceptors
        self.service = service
        self.described = getattr(service, "described", service)
        self.takes_columns = getattr(service, "takes_columns", False)
        self.streams = getattr(service, "streams", False)
        self.whose_items = getattr(service, "whose_items", None)

    @property
    def viewed(self) -> tuple[str, ...]:
        """The parameters that are hinted ``memoryview``."""
        return self.described.viewed if isinstance(self.described, FunctionService) else ()

    def invoke(self, request: Request) -> Any:
        return through(self._interceptors, self.service.invoke, request)


class InterceptedFuture(Future[Any]):
    """The outcome of a call that was submitted between interceptors; they run on before it is done."""

    def __init__(self, interceptors: Interceptors, submit: Callable[[CallRequest], Future[Any]], request: Any) -> None:
        """Raises what ``submit`` raises, as the interceptors leave it."""
        super().__init__()
        self._called: Future[Any] | None = None
        self._passage = Passage(interceptors, request)
        if not self._passage.is_over:
            try:
                self._called = submit(self._passage.request)
            except BaseException as error:
                self._passage.failed(error)
        if self._called is None:
            self.set_result(self._passage.outcome())
        else:
            self._called.add_done_callback(self._finish)

    def cancel(self) -> bool:
        """Withdraw the call; True only if nothing was written."""
        return self._called is not None and self._called.cancel()

    def ask_another(self) -> None:
        """Of a call to a family that is hedged: have a second member do the same, within the same passage."""
        another = getattr(self._called, "ask_another", None)
        if another is not None:
            another()

    def _finish(self, called: Future[Any]) -> None:
        if called.cancelled():
            self._passage.failed(CancelledError())
            super().cancel()
            self.set_running_or_notify_cancel()
            return
        error = called.exception()
        if error is None:
            self._passage.succeeded(called.result())
        else:
            self._passage.failed(error)
        try:
            self.set_result(self._passage.outcome())
        except BaseException as left:
            self.set_exception(left)
