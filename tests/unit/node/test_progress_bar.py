"""The bar that shows how far a call is, on a terminal and in a notebook."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace
from typing import Any

import pytest

import speed


def test_each_report_is_written_over_the_one_before_and_the_last_one_ends_the_line() -> None:
    file = io.StringIO()
    bar = speed.ProgressBar("orders", file)
    bar(speed.Progress(1, 4))
    bar(speed.Progress(4, 4, "done"))
    first, last = file.getvalue().split("\r")[1:]
    assert "orders" in first
    assert " 25%" in first
    assert "100% done" in last
    assert last.endswith("\n")


def test_a_total_that_nobody_knows_leaves_the_number() -> None:
    file = io.StringIO()
    speed.ProgressBar(file=file)(speed.Progress(1234.0))
    assert file.getvalue().strip() == "1234"


def test_a_note_of_another_node_moves_no_cursor() -> None:
    file = io.StringIO()
    speed.ProgressBar(file=file)(speed.Progress(1, 2, "\x1b[2J\r\n"))
    assert "\x1b" not in file.getvalue()
    assert file.getvalue().count("\r") == 1


def test_without_a_terminal_nothing_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    speed.ProgressBar()(speed.Progress(1, 2))
    assert capsys.readouterr() == ("", "")


def test_in_a_notebook_one_bar_is_shown_and_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []

    class Handle:
        def update(self, bar: Any) -> None:
            shown.append(bar)

    def display(bar: Any, *, display_id: bool) -> Handle:
        assert display_id
        shown.append(bar)
        return Handle()

    kernel = SimpleNamespace(kernel=object())
    notebook = SimpleNamespace(get_ipython=lambda: kernel, display=SimpleNamespace(display=display))
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    bar = speed.ProgressBar("orders")
    bar(speed.Progress(1, 4))
    bar(speed.Progress(2, 4, "<b>half</b>"))
    assert [repr(one) for one in shown] == ["orders 25%", "orders 50%"]
    assert shown[1]._repr_html_() == 'orders <progress value="2" max="4"></progress> &lt;b&gt;half&lt;/b&gt;'
