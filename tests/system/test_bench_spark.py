"""The bench of SPEED in Spark: its verdicts, its section of docs/figures.md, what it makes of a part that fails."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The bench's module of that name; afterwards its plain names mean nothing again."""
    monkeypatch.syspath_prepend(str(BENCH))
    from on_spark import figures

    yield figures
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(BENCH)):
            del sys.modules[name]


def found(figures: Any, **measured: float) -> dict[str, Any]:
    machine = {"cpus": 2, "system": "Linux 6", "python": "3.11", "pyspark": "4", "engine": "native", "load": 0.5}
    verdicts = figures.verdicts(measured, list(figures.TARGETS))
    medians = {"5 rows": {"in process": (1.0, 2.0), "C++ service": (1.25, 2.5)}}
    return {"machine": machine, "verdicts": verdicts, "left_out": {"memory": "no"}, "enrich": {"medians": medians}}


def test_a_target_is_reached_missed_or_not_measured(figures: Any) -> None:
    rows = found(figures, **{"cpp/flights": 1.3, "read_thousand": 99.9, "write_thousand": 50.0})["verdicts"]
    by_name = {row["what"]: row["verdict"] for row in rows}
    assert by_name["all flights, C++ service / mapInArrow in process"] == "reached"
    assert by_name["streaming read, thousand messages/s"] == "NOT reached"
    assert by_name["streaming write, thousand messages/s"] == "reached"
    assert by_name["5 million rows, C++ service / mapInArrow in process"] == "not measured"


def test_the_table_tells_every_target_and_what_was_left_out(figures: Any) -> None:
    written = figures.text(found(figures, first_ms=120.4))
    for target in (target for part in figures.TARGETS.values() for target in part):
        assert target.what in written
    assert "left out: memory: no" in written
    assert "120  reached" in written


def test_only_what_stands_between_the_markers_of_the_page_changes(figures: Any, tmp_path: Path) -> None:
    page = tmp_path / "figures.md"
    page.write_text(f"before\n{figures.BEGIN}\nold\n{figures.END}\nafter\n")
    figures.write_page(found(figures, first_ms=400.0), "the command", page)
    written = page.read_text()
    assert written.startswith(f"before\n{figures.BEGIN}\n`the command`")
    assert written.endswith(f"\n{figures.END}\nafter\n")
    assert "old" not in written
    assert "| <= 300 | 400 | **NOT reached** |" in written
    assert "| 5 rows | 1.00 (2.00) | 1.25 (2.50) |" in written


def test_the_page_has_a_place_for_the_section(figures: Any) -> None:
    text = (BENCH.parent / "docs" / "figures.md").read_text()
    assert text.count(figures.BEGIN) == text.count(figures.END) == 1


def test_an_unknown_part_is_named_with_those_that_exist() -> None:
    command = [sys.executable, str(BENCH / "spark.py"), "--only", "pigeons"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "unknown: pigeons; there are enrich, shapes, first, executors, flat, streams, memory" in done.stderr


def test_a_part_that_fails_is_told_and_the_others_are_measured(figures: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import spark as bench

    def fails(*_: Any) -> dict[str, Any]:
        raise RuntimeError("no service")

    monkeypatch.setattr(bench.session, "session", lambda work, jars: open("/dev/null"))  # noqa: SIM115
    monkeypatch.setattr(bench.flight_jvm, "jars", list)
    monkeypatch.setattr(bench.enrich, "measure", fails)
    monkeypatch.setattr(bench.steady, "first_result", lambda *_: {"figures": {"first_ms": 7.0}})
    options = argparse.Namespace(quick=True, minutes=None, rows=None)
    result = bench.run(["enrich", "first"], options)
    assert result["left_out"] == {"enrich": "RuntimeError: no service"}
    assert result["figures"] == {"first_ms": 7.0}
