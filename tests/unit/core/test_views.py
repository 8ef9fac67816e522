"""Values whose bytes are asked for as memoryviews, and the functions that ask for them."""

from __future__ import annotations

from speed.core.services import FunctionService
from speed.wire.value import as_views


def test_bytes_become_views_at_any_depth_and_all_else_stays() -> None:
    seen = as_views({"data": b"12", "more": [b"3", 4, "five"], "none": None})
    assert seen == {"data": b"12", "more": [b"3", 4, "five"], "none": None}
    assert [type(seen["data"]), type(seen["more"][0])] == [memoryview, memoryview]


def test_a_function_says_which_of_its_parameters_are_views() -> None:
    def mean(samples: memoryview, weights: memoryview | None = None, name: bytes = b"") -> float:
        return 0.0

    assert FunctionService("mean", mean).viewed == ("samples", "weights")
    assert FunctionService("plain", lambda data: data).viewed == ()
