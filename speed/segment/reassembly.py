"""Which segments are kept, of whom and for how long. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any, NamedTuple, Protocol

from speed.errors import ConfigurationError, WireError
from speed.segment.form import STEP_BYTES, Keccak, Segment, new_keccak, read_segment
from speed.segment.parity import Decoder
from speed.wire import lazily, limits
from speed.wire.limits import MIN_LENGTH_TRIALS
from speed.wire.text import MAX_SPAN_SECONDS as MAX_SECONDS


class SegmentVerdict(Enum):
    """What became of a segment; refusals are a WireError."""

    KEPT = "kept"
    HELD = "held"
    """Its slot is held: a duplicate if the bytes are the same, else SEGMENT_CONFLICT."""
    READY = "ready"
    DONE = "done"


@dataclass(frozen=True)
class PayloadKey:
    """Whose payload it is: sender, type of its envelopes, hash."""

    sender: str
    kind: int
    hash: bytes


@dataclass(frozen=True)
class Limits:
    """Bounds of what a receiver keeps of payloads that come in segments.

    Attributes:
        payload_bytes: of one payload.
        reconstructions, sender_reconstructions: payloads that are being put together, in all and of one sender.
        buffered_bytes, sender_buffered_bytes: of their segments, in all and of one sender.
        completions, sender_completions: complete payloads that are remembered, so that repeated segments are known.
        idle_seconds: after so long without a segment a payload is given up.
        total_seconds: after so long it is given up in any case.
        completion_seconds: how long a complete payload is remembered.
    """

    payload_bytes: int = limits.MAX_SEGMENTED_BYTES
    reconstructions: int = limits.MAX_RECONSTRUCTIONS
    sender_reconstructions: int = limits.MAX_SENDER_RECONSTRUCTIONS
    buffered_bytes: int = limits.MAX_BUFFERED_BYTES
    sender_buffered_bytes: int = limits.MAX_SENDER_BUFFERED_BYTES
    completions: int = limits.MAX_COMPLETIONS
    sender_completions: int = limits.MAX_SENDER_COMPLETIONS
    idle_seconds: float = limits.RECONSTRUCTION_IDLE_SECONDS
    total_seconds: float = limits.RECONSTRUCTION_SECONDS
    completion_seconds: float = limits.COMPLETION_SECONDS

    def check(self) -> None:
        """Raise ConfigurationError for a bound that is no number, or below 0."""
        for name, value in asdict(self).items():
            if not isinstance(value, int | float if name.endswith("seconds") else int) or not value >= 0:
                raise ConfigurationError(f"the limit {name} is {value!r}; use a number that is not below 0")
            if name.endswith("seconds") and not value < MAX_SECONDS:
                raise ConfigurationError(f"the limit {name} is {value!r}; use a number below {MAX_SECONDS:.0f}")


@dataclass
class Reconstruction:
    """One payload that is being put together."""

    key: PayloadKey
    data_count: int
    parity_count: int
    begun: float
    touched: float
    segment_size: int = 0
    """0 while only the last data segment is held."""
    sizes: dict[int, int] = field(default_factory=dict)
    """Slot -> bytes held."""
    buffered: int = 0

    def contradicts(self, segment: Segment) -> bool:
        """Whether it cannot be a segment of this payload."""
        if (segment.data_count, segment.parity_count) != (self.data_count, self.parity_count):
            return True
        size = len(segment.payload)
        if segment.is_last_data:
            return 0 < self.segment_size < size
        if self.segment_size:
            return size != self.segment_size
        return size < self.sizes.get(self.data_count - 1, 0)

    def hold(self, segment: Segment, now: float) -> None:
        """Note a segment of a slot that is free."""
        self.place(segment.slot, len(segment.payload))
        self.touched = now

    def place(self, slot: int, size: int) -> None:
        """Note what lies in a slot."""
        if slot != self.data_count - 1:
            self.segment_size = size
        self.sizes[slot] = size
        self.buffered += size

    @property
    def is_ready(self) -> bool:
        return len(self.sizes) >= self.data_count


class Reassembly:
    """All payloads of one receiver that are being put together. For one thread at a time."""

    def __init__(self, bounds: Limits | None = None) -> None:
        self.limits = bounds or Limits()
        self._gathering: OrderedDict[PayloadKey, Reconstruction] = OrderedDict()
        self._ready: dict[PayloadKey, Reconstruction] = {}
        self._done: OrderedDict[PayloadKey, float] = OrderedDict()
        self._done_of: dict[str, int] = {}

    def admit(
        self, key: PayloadKey, segment: Segment, now: float, max_bytes: int | None = None
    ) -> tuple[SegmentVerdict, list[PayloadKey]]:
        """What is to be done with a valid segment, and the payloads that were evicted for it.

        After READY the payload waits for ``complete`` or ``discard``. ``max_bytes`` is a lower limit of this payload.
        WireError: SEGMENT_CONFLICT, SEGMENT_LIMIT.
        """
        if key in self._done:
            return SegmentVerdict.DONE, []
        one = self._gathering.get(key) or self._ready.get(key)
        if one and one.contradicts(segment):
            raise WireError("SEGMENT_CONFLICT", "contradicts what came before of the same payload")
        if one and segment.slot in one.sizes:
            return SegmentVerdict.HELD, []
        if one and one.is_ready:
            return SegmentVerdict.DONE, []
        self._check_size(segment, min(max_bytes or self.limits.payload_bytes, self.limits.payload_bytes))
        evicted = [] if segment.data_count == 1 else self._make_room(key, len(segment.payload))
        if one is None:
            one = Reconstruction(key, segment.data_count, segment.parity_count, now, now)
        one.hold(segment, now)
        self._gathering[key] = one
        self._gathering.move_to_end(key)
        if one.is_ready:
            self._ready[key] = self._gathering.pop(key)
        return (SegmentVerdict.READY if one.is_ready else SegmentVerdict.KEPT), evicted

    def reconstruction(self, key: PayloadKey) -> Reconstruction | None:
        """What is known of a payload that is not complete."""
        return self._gathering.get(key) or self._ready.get(key)

    def is_complete(self, key: PayloadKey) -> bool:
        return key in self._done

    def complete(self, key: PayloadKey, now: float) -> list[PayloadKey]:
        """The payload was delivered; returns the completions that were forgotten for it."""
        self._ready.pop(key, None)
        self._gathering.pop(key, None)
        if key not in self._done:
            self._done_of[key.sender] = self._done_of.get(key.sender, 0) + 1
        self._done[key] = now
        return list(self._surplus_completions(key.sender))

    def discard(self, key: PayloadKey) -> None:
        """Forget a payload that is not complete, so that it may be sent anew."""
        self._ready.pop(key, None)
        self._gathering.pop(key, None)

    def expire(self, now: float) -> tuple[list[PayloadKey], list[PayloadKey]]:
        """Forget what waited too long; returns (incomplete payloads, completions)."""
        bounds = self.limits
        late = [
            one.key
            for one in self._gathering.values()
            if now - one.touched >= bounds.idle_seconds or now - one.begun >= bounds.total_seconds
        ]
        for key in late:
            del self._gathering[key]
        old = []
        for key, since in self._done.items():
            if now - since < bounds.completion_seconds:
                break
            old.append(key)
        for key in old:
            self._forget(key)
        return late, old

    def restore(self, gathering: Iterable[Reconstruction], done: Iterable[tuple[PayloadKey, float]]) -> None:
        """Take up what a store kept; ready payloads wait for a segment that comes again."""
        for one in sorted(gathering, key=lambda one: one.touched):
            self._gathering[one.key] = one
        for key, since in sorted(done, key=lambda item: item[1]):
            self._done[key] = since
            self._done_of[key.sender] = self._done_of.get(key.sender, 0) + 1

    def _check_size(self, segment: Segment, limit: int) -> None:
        least = len(segment.payload)
        if not segment.is_last_data:
            least = (segment.data_count - 1) * least + 1
        if least > limit:
            raise WireError("SEGMENT_LIMIT", f"a payload of {least} bytes and more exceeds the limit of {limit}")

    def _make_room(self, key: PayloadKey, size: int) -> list[PayloadKey]:
        """Evict until the segment fits. SEGMENT_LIMIT if it cannot, and then nothing was evicted for it."""
        bounds, evicted = self.limits, list[PayloadKey]()
        own = self._gathering.get(key)
        alone = size + (own.buffered if own else 0)
        if alone > min(bounds.sender_buffered_bytes, bounds.buffered_bytes):
            raise WireError("SEGMENT_LIMIT", f"{alone} bytes of one payload find no room")
        new = 0 if own else 1
        while victim := self._victim(key, size, new, evicted):
            evicted.append(victim)
        for victim in evicted:
            del self._gathering[victim]
        return evicted

    def _victim(self, key: PayloadKey, size: int, new: int, gone: list[PayloadKey]) -> PayloadKey | None:
        bounds, everyone = self.limits, [one for one in self._gathering.values() if one.key not in gone]
        shortages: tuple[tuple[int, int, int, Callable[[Reconstruction], int]], ...] = (
            (bounds.sender_reconstructions, bounds.reconstructions, new, lambda _: 1),
            (bounds.sender_buffered_bytes, bounds.buffered_bytes, size, lambda one: one.buffered),
        )
        for of_sender, in_total, more, measure in shortages:
            held: dict[str, int] = {key.sender: more}
            for one in everyone:
                held[one.key.sender] = held.get(one.key.sender, 0) + measure(one)
            if more and held[key.sender] > of_sender:
                return _longest_waiting(everyone, key.sender, key)
            if more and sum(held.values()) > in_total:
                largest = max(held, key=lambda sender: (held[sender], sender == key.sender))
                return _longest_waiting(everyone, largest, key)
        return None

    def _surplus_completions(self, sender: str) -> Iterable[PayloadKey]:
        while self._done_of[sender] > self.limits.sender_completions or len(self._done) > self.limits.completions:
            if self._done_of[sender] <= self.limits.sender_completions:
                sender = max(self._done_of, key=self._done_of.__getitem__)
            oldest = next(key for key in self._done if key.sender == sender)
            self._forget(oldest)
            yield oldest

    def _forget(self, key: PayloadKey) -> None:
        del self._done[key]
        self._done_of[key.sender] -= 1
        if not self._done_of[key.sender]:
            del self._done_of[key.sender]


def _longest_waiting(gathering: list[Reconstruction], sender: str, key: PayloadKey) -> PayloadKey:
    """The payload of ``sender``, other than ``key``, that got its last segment first."""
    for other in gathering:
        if other.key.sender == sender and other.key != key:
            return other.key
    raise WireError("SEGMENT_LIMIT", "the segment finds no room")


# Putting segments together.


# A payload put together from enough of its segments, and proven by its hash (G-3, G-10, G-11).

_COLUMN_BYTES = 1 << 22
"""Data read at a time to decode, about."""
COLUMN_UNIT = 1 << 15
"""Columns are read in multiples of this: a store that seals blocks of this size opens each of them once."""
_BYTES_A_TRIAL = 128
"""Of the payload, for each further length that is tried."""


class Shards(Protocol):
    """The segments held of one payload, by slot; recovered ones are written beside them."""

    data_count: int
    parity_count: int
    segment_size: int

    def slots(self) -> set[int]: ...
    def size_of(self, slot: int) -> int: ...
    def read(self, slot: int, begin: int, end: int) -> bytes | memoryview: ...
    def write(self, slot: int, begin: int, data: memoryview) -> None: ...


def rebuild(shards: Shards, digest: bytes) -> int:
    """Recover the data segments that are missing, and prove the payload; returns its size in bytes.

    WireError(SEGMENT_HASH) when the segments held are not those of a payload with this hash.
    """
    last = shards.data_count - 1
    is_length_known = last in shards.slots()
    recover(shards)
    state = new_keccak()
    for index in range(last):
        _hash(state, shards, index, 0, shards.segment_size)
    if not is_length_known:
        return last * shards.segment_size + _recovered_length(state, shards, digest)
    size = shards.size_of(last)
    _hash(state, shards, last, 0, size)
    if state.digest() != digest:
        raise WireError("SEGMENT_HASH", "what was put together is not what its hash says")
    return last * shards.segment_size + size


def recover(shards: Shards) -> None:
    """Write the missing data shards, each in full length; in bounded memory."""
    held = shards.slots()
    missing = [index for index in range(shards.data_count) if index not in held]
    if not missing:
        return
    with lazily.guard:
        import numpy as np

    parity = sorted(slot for slot in held if slot >= shards.data_count)[: len(missing)]
    numbers = [slot - shards.data_count for slot in parity]
    decoder = Decoder(shards.data_count, shards.parity_count, missing, numbers)
    width = max(_COLUMN_BYTES // shards.data_count // COLUMN_UNIT, 1) * COLUMN_UNIT
    for begin in range(0, shards.segment_size, width):
        end = min(begin + width, shards.segment_size)
        data = _columns(np, shards, [slot if slot in held else None for slot in range(shards.data_count)], begin, end)
        for index, row in zip(missing, decoder.decode(data, _columns(np, shards, parity, begin, end)), strict=True):
            shards.write(index, begin, memoryview(row))


def trials(data_count: int, segment_size: int) -> int:
    """How many lengths of a lost last segment are tried (G-11)."""
    return MIN_LENGTH_TRIALS + data_count * segment_size // _BYTES_A_TRIAL


def _columns(np: Any, shards: Shards, slots: list[Any], begin: int, end: int) -> Any:
    columns = np.zeros((len(slots), end - begin), np.uint8)
    for row, slot in zip(columns, slots, strict=True):
        if slot is not None:
            part = shards.read(slot, begin, min(end, shards.size_of(slot)))
            row[: len(part)] = np.frombuffer(part, np.uint8)
    return columns


def _recovered_length(state: Keccak, shards: Shards, digest: bytes) -> int:
    """The length of the last data segment that its hash proves; ``state`` has all before it."""
    last, size = shards.data_count - 1, shards.segment_size
    shortest = max(_end_of_bytes(shards, last), 0 if last == 0 else 1)
    _hash(state, shards, last, 0, shortest)
    for length in _lengths(shortest, size, trials(shards.data_count, size)):
        if state.copy().digest() == digest:
            return length
        state.update(b"\0")
    _hash_zeros(state, size - min(size, shortest + trials(shards.data_count, size)))
    if state.digest() == digest:
        return size
    raise WireError("SEGMENT_HASH", "no length of the lost last segment has this hash")


def _lengths(shortest: int, longest: int, limit: int) -> range:
    return range(shortest, min(longest, shortest + limit))


def _end_of_bytes(shards: Shards, slot: int) -> int:
    """The position behind the last byte that is not zero."""
    for begin in range((shards.segment_size - 1) // STEP_BYTES * STEP_BYTES, -1, -STEP_BYTES):
        part = bytes(shards.read(slot, begin, min(begin + STEP_BYTES, shards.segment_size))).rstrip(b"\0")
        if part:
            return begin + len(part)
    return 0


def _hash(state: Keccak, shards: Shards, slot: int, begin: int, end: int) -> None:
    for part in _steps(shards, slot, begin, end):
        state.update(part)


def _steps(shards: Shards, slot: int, begin: int, end: int) -> Iterator[bytes | memoryview]:
    for at in range(begin, end, STEP_BYTES):
        yield shards.read(slot, at, min(at + STEP_BYTES, end))


def _hash_zeros(state: Keccak, count: int) -> None:
    zeros = bytes(min(count, STEP_BYTES))
    for at in range(0, count, STEP_BYTES):
        state.update(zeros[: count - at])


class Outcome(NamedTuple):
    """What became of one segment.

    Attributes:
        verdict: ``kept`` for later, ``duplicate`` of one that is there, ``complete`` with the payload, or ``done`` if
            its payload was complete before.
        payload: the whole payload, if it is complete.
    """

    verdict: str
    payload: bytes | None = None


class Assembler:
    """Puts payloads together in memory, within ``limits``. For one thread at a time.

    Example:
        >>> assembler = Assembler()
        >>> assembler.receive("sender", write_segment(next(Splitter(64).split(b"whole"))), now=0.0)
        Outcome(verdict='complete', payload=b'whole')
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self._reassembly = Reassembly(limits)
        self._shards: dict[PayloadKey, MemoryShards] = {}

    def receive(self, sender: str, data: bytes, now: float, kind: int = 1) -> Outcome:
        """Take one segment.

        Args:
            sender: whose payload it belongs to; senders do not disturb each other.
            data: the segment's bytes.
            now: seconds of a clock that does not jump.
            kind: tells payloads of one sender apart that are equal and yet two.

        Raises WireError with reason BAD_SEGMENT, SEGMENT_CONFLICT, SEGMENT_LIMIT or SEGMENT_HASH.
        """
        self.expire(now)
        segment = read_segment(data)
        key = PayloadKey(sender, kind, segment.hash)
        verdict, evicted = self._reassembly.admit(key, segment, now)
        for other in evicted:
            del self._shards[other]
        if verdict is SegmentVerdict.DONE:
            return Outcome("done")
        if verdict is SegmentVerdict.HELD:
            return self._again(key, segment)
        shards = self._shards.setdefault(key, MemoryShards(segment.data_count, segment.parity_count))
        shards.put(segment)
        if verdict is SegmentVerdict.KEPT:
            return Outcome("kept")
        return self._finish(key, now)

    def expire(self, now: float) -> list[PayloadKey]:
        """Forget what waited too long; returns the payloads that are lost."""
        late, _ = self._reassembly.expire(now)
        for key in late:
            del self._shards[key]
        return late

    def _again(self, key: PayloadKey, segment: Segment) -> Outcome:
        if self._shards[key].parts[segment.slot] != segment.payload:
            raise WireError("SEGMENT_CONFLICT", "has other bytes than the segment that came before")
        return Outcome("duplicate")

    def _finish(self, key: PayloadKey, now: float) -> Outcome:
        shards = self._shards.pop(key)
        try:
            size = rebuild(shards, key.hash)
        except BaseException:
            self._reassembly.discard(key)
            raise
        self._reassembly.complete(key, now)
        return Outcome("complete", shards.payload(size))


class MemoryShards:
    """The segments of one payload, in memory."""

    def __init__(self, data_count: int, parity_count: int) -> None:
        self.data_count, self.parity_count, self.segment_size = data_count, parity_count, 0
        self.parts: dict[int, bytes | bytearray] = {}

    def put(self, segment: Segment) -> None:
        self.parts[segment.slot] = bytes(segment.payload)
        if not segment.is_last_data or self.data_count == 1:
            self.segment_size = len(segment.payload)

    def slots(self) -> set[int]:
        return set(self.parts)

    def size_of(self, slot: int) -> int:
        return len(self.parts[slot])

    def read(self, slot: int, begin: int, end: int) -> memoryview:
        return memoryview(self.parts[slot])[begin:end]

    def write(self, slot: int, begin: int, data: memoryview) -> None:
        part = self.parts.setdefault(slot, bytearray(self.segment_size))
        assert isinstance(part, bytearray), "a segment that was received is never overwritten"
        part[begin : begin + len(data)] = data

    def payload(self, size: int) -> bytes:
        return b"".join(self.parts[index] for index in range(self.data_count))[:size]
