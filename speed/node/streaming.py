"""Calls with streams and progress: the verbs of a node, and what iterates over the items (streams.md)."""

from __future__ import annotations

import html
import os
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from time import monotonic
from typing import Any, TextIO, final

from speed.core.hints import by_name, in_seconds, several, text
from speed.core.services import as_declared, result_reader
from speed.engine import Engine
from speed.engine.interceptors import Interceptors, Passage
from speed.engine.options import CallRequest
from speed.engine.streams import LOOK_SECONDS, RUNNING, CallChannel, ItemReader, ItemWriter, Reserved, Taken, TakenKind
from speed.engine.threads import ProgramsCode
from speed.errors import (
    CallTimeoutError,
    CallWithdrawnError,
    ConfigurationError,
    Execution,
    ForkedNodeError,
    InternalError,
    SpeedError,
)
from speed.wire.limits import STREAM_BYTES, STREAM_ITEMS
from speed.wire.names import is_family
from speed.wire.spc import MAX_CREDIT, Progress, StreamOffer
from speed.wire.text import harmless
from speed.wire.value import as_views


def name_callee(error: SpeedError, target: str, service: str) -> None:
    """Have the error of a call name whom it was made to: of a family the member, where there was one."""
    if error.node is None or not is_family(target):
        error.node = target
    error.service = service


@final
class Stream(ItemReader):
    """The items of a call, one after the other: ``for row in node.stream("billing", "rows"): …``.

    It ends when the service does; an error comes after all items that went before it, and again each time that the
    next item is asked for. ``close``, the end of a ``with`` block, or dropping it withdraws the call. One thread reads
    at a time; ``close`` may be called from any.
    """

    def __init__(
        self,
        channel: CallChannel,
        *,
        idle: float | None,
        callee: tuple[str, str],
        read: Callable[[Any], Any] | None = None,
        views: bool = False,
        on_progress: Callable[[Progress], object] | None = None,
        passage: Passage | None = None,
    ) -> None:
        super().__init__(channel, read)
        self._call = channel
        self._passages = [] if passage is None else [passage]
        """The interceptors, until whoever ends the stream takes them."""
        self._idle, self._callee, self._views, self._on_progress = idle, callee, views, on_progress
        self._process = os.getpid()
        self._sender: _Sender | None = None
        self._has_ended = False
        self.result: Any = None
        """What the service returned beside its items, once they are over."""

    def send(self, items: Iterable[Any]) -> None:
        """Have another thread send ``items`` while they are asked for; of a call that was begun with some."""
        self._sender = _Sender(self._call, items)
        self._sender.start()

    def close(self) -> None:
        """Read no more: the call is withdrawn unless it has ended, and the service told. Again does nothing."""
        if not self._has_ended and os.getpid() == self._process:
            self._has_ended = True
            self._error = self._error or self._named(CallWithdrawnError("the stream was closed here", RUNNING))
            self._batch = iter(())
            self._call.withdraw()
            self._call.close()
            with suppress(Exception):  # nobody waits for what interceptors make of that
                self._pass(self._error)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not self.__dict__.get("_has_ended", True):
            with suppress(Exception):
                self.close()

    def wait(self) -> Any:
        """Read to the end, and return what the service returned beside its items, which are dropped."""
        for _ in self:
            pass
        return self.result

    def _values(self, payload: bytes) -> list[Any]:
        items = super()._values(payload)
        return [as_views(item) for item in items] if self._views else items

    def _wait(self) -> Taken:
        taken = self._call.take(0.0)
        began = monotonic()
        while taken[0] in (TakenKind.NOTHING, TakenKind.PROGRESS):
            if taken[0] == TakenKind.PROGRESS:
                if self._on_progress is not None:
                    self._on_progress(Progress(*taken[1]))
                began = monotonic()
            elif self._idle is not None and monotonic() - began >= self._idle:
                raise self._named(CallTimeoutError(f"{self._callee[0]} sent nothing for {self._idle} s", RUNNING))
            taken = self._call.take(LOOK_SECONDS)
        return taken

    def _refilled(self) -> Any:
        if os.getpid() != self._process:
            raise ForkedNodeError("this stream is the parent process's: nobody brings its items here")
        try:
            return super()._refilled()
        except StopIteration:
            self._pass(None)
            raise
        except SpeedError as error:
            self._error = declared = as_declared(self._named(error))
            self._pass(declared)
            if not self._has_ended:
                self.close()
            if isinstance(self._error, StopIteration):
                raise self._error from None
            if declared is error:
                raise
            raise declared from None

    def _pass(self, error: BaseException | None) -> None:
        """Have the interceptors run on: what they make of the end is the end. Raises what they raise instead."""
        try:
            passage = self._passages.pop()
        except IndexError:
            return
        try:
            passage.succeeded(self.result) if error is None else passage.failed(error)
            self.result = passage.outcome()
        except BaseException as other:
            if other is error:
                return
            self._error = other
            if not self._has_ended:
                self.close()
            raise
        if error is not None:  # one of them made it a good end
            self._error = StopIteration()

    def _end(self, kind: TakenKind) -> None:
        if self._error is not None:  # closed meanwhile
            raise self._error
        failed = None if self._sender is None else self._sender.error
        if failed is not None:
            self._error = failed
            self.close()
            raise failed
        if self._call.broken:
            raise InternalError(f"{self._callee[0]}: {self._call.broken}", RUNNING)
        self._has_ended = True
        self.result = self._call.outcome()

    def _named(self, error: SpeedError) -> SpeedError:
        name_callee(error, *self._callee)
        if error.execution is None:
            error.execution = Execution.MAY_HAVE_RUN
        return error


class _Sender(threading.Thread):
    """Goes through the items of a caller, and sends them."""

    def __init__(self, channel: CallChannel, items: Iterable[Any]) -> None:
        super().__init__(name=f"speed-items-{channel.request_id}", daemon=True)
        self._channel, self._items = channel, items
        self.error: BaseException | None = None

    def run(self) -> None:
        writer = ItemWriter(self._channel, self._fail)
        try:
            with ProgramsCode():
                self._send_all(writer)
        except CallWithdrawnError:
            pass  # the call has ended: who reads it hears why
        except BaseException as error:  # of the program's own iterable, an exit among them
            self._fail(error)
            self._channel.close()
        finally:
            writer.stop()

    def _fail(self, error: BaseException) -> None:
        """Before the channel is closed: who reads it looks for the reason then."""
        self.error = self.error or error
        self._channel.withdraw()

    def _send_all(self, writer: ItemWriter) -> None:
        iterator = iter(self._items)
        try:
            for item in iterator:
                writer.put(item)
            while self._channel.reserve(0, LOOK_SECONDS) == Reserved.NOTHING:
                pass
            writer.finish(last=True)
        finally:
            close = getattr(iterator, "close", None)
            if close is not None:
                close()


@final
class ProgressBar:
    """Shows how far a call is: ``node.call("billing", "close_month", on_progress=speed.ProgressBar())``.

    In a notebook it is a bar below the cell, on a terminal a line of stderr, elsewhere nothing. One is for one call.
    """

    def __init__(self, label: str = "", file: TextIO | None = None) -> None:
        """``label`` stands before the bar. With ``file`` lines go there, whatever it is."""
        self._label, self._file = label, file
        self._cell: Any = None

    def __call__(self, progress: Progress) -> None:
        display = None if self._file is not None else _notebook_display()
        if display is not None:
            self._show_in_cell(display, progress)
        elif self._file is not None or sys.stderr.isatty():
            self._write(self._file or sys.stderr, progress)

    def _write(self, file: TextIO, progress: Progress) -> None:
        """What another node wrote is shown as text only."""
        share, note = _share(progress), progress.note
        bar = f"{progress.done:g}" if share is None else f"[{'#' * int(share * 30):30}] {share:4.0%}"
        line = harmless(" ".join(filter(None, (self._label, bar, f"{note[:40]:40}"))))
        file.write(f"\r{line}" + "\n" * (share == 1))
        file.flush()

    def _show_in_cell(self, display: Callable[..., Any], progress: Progress) -> None:
        bar = _Markup(self._label, progress)
        if self._cell is None:
            self._cell = display(bar, display_id=True)
        else:
            self._cell.update(bar)


class _Markup:
    """A bar as notebooks and plain consoles show it."""

    def __init__(self, label: str, progress: Progress) -> None:
        self._label, self._progress = label, progress

    def _repr_html_(self) -> str:
        done, total, note = self._progress
        limits = f' value="{done:g}" max="{total:g}"' if total else ""
        return f"{html.escape(self._label)} <progress{limits}></progress> {html.escape(harmless(note))}"

    def __repr__(self) -> str:
        share = _share(self._progress)
        return f"{self._label} {self._progress.done:g}" if share is None else f"{self._label} {share:.0%}"


def _share(progress: Progress) -> float | None:
    return min(1.0, progress.done / progress.total) if progress.total else None


def _notebook_display() -> Callable[..., Any] | None:
    """What shows an object below a cell; None where this process is no kernel of a notebook."""
    shell = sys.modules.get("IPython")
    if shell is None or not hasattr(shell.get_ipython(), "kernel"):
        return None
    shown: Callable[..., Any] = shell.display.display
    return shown


def _let_through(passage: Passage) -> CallRequest:
    """The request of a stream between interceptors. Raises what one of them raised."""
    if passage.is_over:
        passage.outcome()
        raise ConfigurationError("an interceptor answers a stream itself: it lets a stream through, or raises")
    request: CallRequest = passage.request
    return request


STREAM_SECONDS = 10.0 * 365 * 24 * 3600
"""The deadline of a stream that has none: of two nodes one will have ended."""


class StreamVerbs:
    """The verbs of a node for calls with streams and progress."""

    _engine: Engine
    _around_calls: Interceptors = ()

    def _toward(self, target: Any, key: str | None = None) -> Any:
        raise NotImplementedError

    def _call_with_progress(
        self, on_progress: Callable[[Progress], object], request: CallRequest, retry: Any, key: str | None
    ) -> Any:
        if retry is not None:
            raise ConfigurationError("a call whose progress is wanted is not tried again: leave retry or on_progress")
        offer, unread = StreamOffer(progress=True), request._replace(read=None)
        with self._stream(unread, offer, key, idle=None, on_progress=on_progress) as stream:
            result = stream.wait()
        result = as_views(result) if request.views else result
        return result if request.read is None else request.read(result)

    def _stream(self, request: CallRequest, offer: StreamOffer, key: str | None, **how: Any) -> Stream:
        if "@" in request.target:
            raise ConfigurationError(f"{request.target!r} is no node of this host: streams and progress go to one")
        channel: CallChannel = self._toward(request.target, key).open_stream(request, offer)
        return Stream(channel, callee=(request.target, request.service), read=request.read, views=request.views, **how)

    def stream(
        self,
        target: str,
        service: str,
        arguments: dict[str, Any] | None = None,
        *,
        items: Iterable[Any] | None = None,
        timeout: float | None = None,
        idle_timeout: float | None = 30.0,
        traceparent: str | None = None,
        views: bool = False,
        returns: Any = None,
        on_progress: Callable[[Progress], object] | None = None,
        window_items: int = STREAM_ITEMS,
        window_bytes: int = STREAM_BYTES,
        key: str | None = None,
    ) -> Stream:
        """Call a service that gives many items, takes many (``items``), or both; returns what iterates over them::

            for row in node.stream("billing", "rows", {"month": "2026-11"}):
                ...

        A thread of its own goes through ``items`` and sends them meanwhile. ``Stream.wait()`` is for a service that
        gives no items: it returns the result. ``timeout`` in seconds is the deadline of the whole call on both sides,
        ``idle_timeout`` how long the next item is waited for; None is no such limit. With ``returns`` each item is read
        as that type. Of what was not read yet at most ``window_items``, and little more than ``window_bytes``, are held
        here; the service waits then. ``key`` is as in ``call``. Interceptors of calls run on when the stream ends.
        Raises as ``call`` does, and so does asking for the next item.
        """
        target, service = text("node", target), text("service", service)
        read = None if returns is None else result_reader(returns, "an item")
        seconds = STREAM_SECONDS if timeout is None else in_seconds(timeout)
        request = CallRequest(target, service, by_name(arguments), seconds, traceparent, views, read)
        if not all(type(size) is int and 1 <= size <= MAX_CREDIT for size in (window_items, window_bytes)):
            raise ConfigurationError(f"a window of {window_items!r} items and {window_bytes!r} bytes cannot be used")
        offer = StreamOffer(window_items, window_bytes, items is not None, on_progress is not None)
        idle = None if idle_timeout is None else in_seconds(idle_timeout)
        iterator = None if items is None else iter(several("items", items))
        passage = Passage(self._around_calls, request) if self._around_calls else None
        if passage is not None:
            request = _let_through(passage)
        try:
            stream = self._stream(request, offer, key, idle=idle, on_progress=on_progress, passage=passage)
        except SpeedError as error:
            name_callee(error, request.target, request.service)
            if passage is not None:
                passage.failed(error)
                passage.outcome()
            raise
        if iterator is not None:
            stream.send(iterator)
        return stream
