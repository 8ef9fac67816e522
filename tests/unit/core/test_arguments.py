"""What a program passes to the verbs of a node: what is taken, and what is said of anything else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from speed.core import hints
from speed.errors import ConfigurationError, InvalidNameError


@pytest.mark.parametrize(
    ("take", "given", "taken"),
    [
        (lambda given: hints.text("node", given), "billing", "billing"),
        (lambda given: hints.texts("allow", given), ["a", "b"], ("a", "b")),
        (lambda given: hints.texts("allow", given), {"a"}, ("a",)),
        (lambda given: hints.each("allow", given), ("a", "b.*"), ("a", "b.*")),
        (lambda given: hints.several("payloads", given), [1], [1]),
        (hints.by_name, None, {}),
        (hints.by_name, {"a": 1}, {"a": 1}),
        (lambda given: hints.function("the handler", given), print, print),
        (lambda given: hints.number("seconds", given), 1.5, 1.5),
    ],
)
def test_what_fits_is_taken(take: Callable[[Any], Any], given: Any, taken: Any) -> None:
    assert take(given) == taken


@pytest.mark.parametrize(
    ("take", "given", "told"),
    [
        (lambda given: hints.texts("allow", given), "a", r"not one str: write allow=\['a'\]"),
        (lambda given: hints.texts("allow", given), [1], "must be a list or set of str, not list"),
        (lambda given: hints.texts("allow", given), b"a", "must be a list or set of str, not bytes"),
        (lambda given: hints.each("deny", given), (["a"],), r"deny takes names one by one, .*, not list"),
        (lambda given: hints.several("payloads", given), 5, "payloads must be a list, .*, not int"),
        (hints.by_name, [1], "must be a dict such as .*, not list"),
        (lambda given: hints.function("the handler", given), None, "the handler must be a function, not None"),
        (lambda given: hints.number("seconds", given), True, "seconds must be a number, not bool"),
    ],
)
def test_anything_else_is_refused_by_what_was_expected(take: Callable[[Any], Any], given: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        take(given)


def test_a_name_that_is_no_text_is_an_invalid_name() -> None:
    with pytest.raises(InvalidNameError, match="the name of a node must be a str, not int"):
        hints.text("node", 5)
