"""One measured value beside its target."""

from __future__ import annotations

from typing import NamedTuple


class Figure(NamedTuple):
    """One line: ``most`` says that the target is not to be exceeded; ``processor`` is the same by processor time."""

    name: str
    value: float
    unit: str
    target: float | None = None
    most: bool = False
    processor: float | None = None

    @property
    def reached(self) -> bool:
        if self.target is None:
            return True
        return self.value <= self.target if self.most else max(self.value, self.processor or 0) >= self.target


def line(figure: Figure) -> str:
    """For people."""
    processor = f"({figure.processor:,.0f} by processor time)" if figure.processor else ""
    target = "" if figure.target is None else f"{'<=' if figure.most else '>='} {figure.target:,.0f}"
    verdict = "" if figure.target is None else "reached" if figure.reached else "NOT reached"
    return f"{figure.name:<48} {figure.value:>10,.1f} {figure.unit:<6} {processor:<32} {target:<10} {verdict}"
