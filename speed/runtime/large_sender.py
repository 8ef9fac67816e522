"""Payloads that go out in segments because no envelope holds them: streamed, acknowledged once (G-18 to G-20)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic

from speed.errors import ConfigurationError
from speed.runtime.context import Context
from speed.runtime.futures import OneAnswer, Waiter
from speed.runtime.links import Links
from speed.runtime.outgoing import OutgoingLink
from speed.segment.form import MAX_HEAD_BYTES, Segment, write_segment
from speed.segment.source import Source
from speed.segment.splitter import Splitter, splitter_for
from speed.wire.envelope import FLAG_ACK_REQUESTED, FLAG_SEGMENT
from speed.wire.limits import MAX_PAYLOAD_BYTES, MAX_SEGMENTED_BYTES, RECONSTRUCTION_SECONDS

Progress = Callable[[int, int], object]
"""Called with the bytes of the payload that were written so far, and all of them."""


class LargeSender:
    """Sends payloads in segments. Thread-safe."""

    def __init__(self, context: Context, links: Links) -> None:
        self._context, self._links = context, links

    def send(
        self,
        target: str,
        type_: int,
        source: Source,
        timeout_seconds: float,
        progress: Progress | None = None,
        unordered: bool = False,
    ) -> None:
        """Send one payload; each segment waits for room as long as ``timeout_seconds``."""
        link = self._links.granted(target, monotonic() + timeout_seconds)
        for segment in self._segments(link, source, unordered):
            link.send(type_, FLAG_SEGMENT, write_segment(segment), monotonic() + timeout_seconds)
            _report(progress, segment, source)

    def send_acknowledged(
        self,
        target: str,
        type_: int,
        source: Source,
        timeout_seconds: float,
        progress: Progress | None = None,
        unordered: bool = False,
    ) -> bool:
        """As ``send``, then wait for the acknowledgement, as long as ``timeout_seconds`` from the last segment on."""
        link = self._links.granted(target, monotonic() + timeout_seconds)
        waiter = Waiter()
        answer = OneAnswer(waiter.complete)
        flags = FLAG_SEGMENT | FLAG_ACK_REQUESTED
        tracked: list[int] = []

        def track(sequence: int) -> None:
            tracked.append(sequence)
            far = monotonic() + RECONSTRUCTION_SECONDS
            self._context.pending.add(sequence, far, target, answer)

        try:
            for segment in self._segments(link, source, unordered):
                if waiter.done:
                    break  # the receiver has given it up
                link.send_tracked(type_, flags, write_segment(segment), monotonic() + timeout_seconds, track)
                _report(progress, segment, source)
            deadline = monotonic() + timeout_seconds
            for sequence in tracked:
                if not answer.given:
                    self._context.pending.add(sequence, deadline, target, answer)
            self._context.alarm.wake_by(deadline)
            return bool(waiter.result())
        finally:
            for sequence in tracked:
                self._context.pending.forget(target, sequence)

    def _segments(self, link: OutgoingLink, source: Source, unordered: bool) -> Iterator[Segment]:
        link.check_takes(source.size, MAX_SEGMENTED_BYTES)
        return (link.splitter or splitter_for(source.size)).split(source, unordered=unordered)


def link_splitter(segment_size: int, parity_rate: float) -> Splitter:
    """What cuts all that goes out on a link. ConfigurationError for a size that no envelope holds."""
    if segment_size > MAX_PAYLOAD_BYTES - MAX_HEAD_BYTES:
        most = MAX_PAYLOAD_BYTES - MAX_HEAD_BYTES
        raise ConfigurationError(f"segment_size {segment_size} cannot be used: an envelope holds at most {most}")
    return Splitter(segment_size, parity_rate)


def _report(progress: Progress | None, segment: Segment, source: Source) -> None:
    if progress is not None and not segment.is_parity:
        full = len(segment.payload) if not segment.is_last_data else 0
        progress((segment.index + 1) * full or source.size, source.size)
