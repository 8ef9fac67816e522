"""What became of one event: who got it, and who did not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self


class Published(int):
    """How many nodes got an event. ``delivered`` are their names; ``failed`` maps the others to codes of errors."""

    delivered: tuple[str, ...]
    failed: Mapping[str, str]

    def __new__(cls, delivered: Iterable[str] = (), failed: Mapping[str, str] = MappingProxyType({})) -> Self:
        names = tuple(delivered)
        made = super().__new__(cls, len(names))
        made.delivered = names
        made.failed = MappingProxyType(dict(failed))
        return made
