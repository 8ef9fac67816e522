"""What became of one message or event: who got it, and how far it came."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from time import monotonic
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self


class Published(int):
    """How many nodes got an event; an ``int``.

    Attributes:
        delivered: the names of these nodes.
        failed: the names of the other subscribers, each with the code of the error that kept it from them.
    """

    delivered: tuple[str, ...]
    failed: Mapping[str, str]

    def __new__(cls, delivered: Iterable[str] = (), failed: Mapping[str, str] = MappingProxyType({})) -> Self:
        names = tuple(delivered)
        made = super().__new__(cls, len(names))
        made.delivered = names
        made.failed = MappingProxyType(dict(failed))
        return made


def publish_each(
    publish: Callable[..., Published], payloads: Mapping[str, Any], *, timeout: float = 5.0, **how: Any
) -> dict[str, Published]:
    """Publish one event for each topic, one after the other, within one bound (seconds) for all."""
    ends = monotonic() + timeout
    return {
        topic: publish(topic, payload, timeout=max(0.0, ends - monotonic()), **how)
        for topic, payload in payloads.items()
    }


class Sent(str):
    """The id of a message that was sent. ``waiting``: it was acknowledged, and nothing takes it there yet."""

    __slots__ = ("waiting",)
    waiting: bool

    def __new__(cls, message_id: str, *, waiting: bool = False) -> Self:
        made = super().__new__(cls, message_id)
        made.waiting = waiting
        return made
