"""The bench runs: what it prints, what it makes of libraries that are not there, what it writes into the README."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "scripts" / "bench"
STEP_SECONDS = 60

pytestmark = pytest.mark.system


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    """The measuring program itself: building what it measures is another program's task."""
    return subprocess.run(
        [sys.executable, str(BENCH / "main.py"), "--plan", "tiny", "--no-startup", *words],
        capture_output=True,
        text=True,
        timeout=STEP_SECONDS,
        check=False,
    )


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The bench's modules can be imported; afterwards their plain names mean nothing again."""
    monkeypatch.syspath_prepend(str(BENCH))
    yield
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(BENCH)):
            del sys.modules[name]


@pytest.fixture(scope="module")
def report() -> dict[str, object]:
    done = bench("--only", "speed,connection", "--lang", "python", "--json")
    assert done.returncode in {0, 1}, done.stderr
    return json.loads(done.stdout)


def test_the_bench_measures_speed_beside_a_peer(report: dict[str, dict[str, dict[str, float]]]) -> None:
    measured = report["contenders"]
    assert set(measured) == {"speed", "connection"}
    assert measured["speed"]["small_p50_us"] > 0
    assert measured["speed"]["large_p50_us"] > measured["speed"]["small_p50_us"]
    assert measured["speed"]["one_way_per_second"] > 0
    assert report["figures"]["small/speed/connection"] > 0


def test_every_target_has_a_verdict(report: dict[str, list[dict[str, str]]]) -> None:
    assert {row["verdict"] for row in report["verdicts"]} <= {"PASS", "FAIL", "not measured"}


def test_an_unknown_contender_is_named_with_those_that_exist() -> None:
    done = bench("--only", "carrier-pigeon")
    assert done.returncode == 2
    assert "carrier-pigeon" in done.stderr
    assert "connection" in done.stderr


def test_a_library_that_cannot_start_is_left_out_with_its_reason(
    modules: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import contender
    from contenders import table

    gone = table.Peer("cpp", "gone", "none", table.CALLS, table.built("gone"), table.built("gone"))
    monkeypatch.setitem(table.PEERS, "gone", gone)
    started, left_out = contender.start_all(["gone"], tmp_path)
    assert not started
    assert left_out == {"gone": "not built: run scripts/bench/build"}


def test_only_what_stands_between_the_markers_of_the_readme_changes(
    modules: None, tmp_path: Path, report: dict[str, object]
) -> None:
    import report as text

    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{text.BEGIN}\nold\n{text.END}\nafter\n")
    text.write_readme(report, "scripts/bench/run", readme)
    written = readme.read_text()
    assert written.startswith(f"before\n{text.BEGIN}\n")
    assert written.endswith(f"\n{text.END}\nafter\n")
    assert "old" not in written
    assert "SPEED node.call" in written


def test_a_readme_without_markers_is_left_as_it_is(modules: None, tmp_path: Path, report: dict[str, object]) -> None:
    import report as text

    readme = tmp_path / "README.md"
    readme.write_text("by hand\n")
    with pytest.raises(ValueError, match="bench:begin"):
        text.write_readme(report, "scripts/bench/run", readme)
    assert readme.read_text() == "by hand\n"
