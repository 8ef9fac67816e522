"""The errors of ``codes.json`` as a tree."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

Naming = Callable[["Kind"], str]
WIDTH = 120


@dataclass(frozen=True)
class Kind:
    """One kind of error; with ``own_code`` each error of it has a code of its own, which a service chose."""

    name: str
    code: str
    parent: str | None
    means: str
    more: str
    own_code: bool = False


@dataclass(frozen=True)
class Tree:
    """All kinds of error, parents before their children; ``answers`` are the codes that travel in responses."""

    kinds: tuple[Kind, ...]
    answers: tuple[str, ...]

    @classmethod
    def of(cls, codes: dict[str, Any]) -> Tree:
        kinds = (
            Kind(
                row["name"],
                row["code"],
                row.get("parent"),
                row["means"],
                row.get("more", ""),
                row.get("own_code", False),
            )
            for row in codes["errors"]
        )
        return cls(tuple(kinds), tuple(codes["spc"]))

    def without(self, names: frozenset[str]) -> Tree:
        """The tree of a language that has no class for these and those below them."""
        kept: list[Kind] = []
        for kind in self.kinds:
            if kind.name not in names and (kind.parent is None or kind.parent in {one.name for one in kept}):
                kept.append(kind)
        return Tree(tuple(kept), self.answers)

    def named(self, name: str | None) -> Kind:
        return next(kind for kind in self.kinds if kind.name == name)

    def children(self, parent: Kind) -> list[Kind]:
        return [kind for kind in self.kinds if kind.parent == parent.name]

    def below(self, kind: Kind, ancestor: str) -> bool:
        """Whether ``kind`` is this ancestor or derives from it."""
        return kind.name == ancestor or (kind.parent is not None and self.below(self.named(kind.parent), ancestor))

    def answered(self, code: str) -> Kind:
        """The kind of a code that travels in responses."""
        return next(kind for kind in self.kinds if kind.code == code and kind.name != "Wire")

    def drawn(self, root: str, name: Naming, prefix: str, leave_out: Collection[str] = ()) -> str:
        """The tree below ``root`` for the head of a file, each line behind ``prefix``."""
        groups = [kind for kind in self.children(self.named(root)) if kind.name not in leave_out]
        lines = [name(self.named(root))]
        for group in groups:
            last = group is groups[-1]
            lines += self._group(group, name, ("└── ", "    ") if last else ("├── ", "│   "), len(prefix))
        return "\n".join(f"{prefix}{line}".rstrip() for line in lines) + "\n"

    def _group(self, group: Kind, name: Naming, marks: tuple[str, str], indent: int) -> Iterator[str]:
        yield f"{marks[0]}{name(group)}"
        words = [self._family(child, name) for child in self.children(group)]
        begin = f"{marks[1]}    "
        text = textwrap.wrap(" ".join(words), WIDTH - indent - len(begin), break_long_words=False)
        yield from (begin + line for line in text)

    def _family(self, kind: Kind, name: Naming) -> str:
        children = " ".join(name(child) for child in self.children(kind))
        return f"{name(kind)} ({children})" if children else name(kind)
