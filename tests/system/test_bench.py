"""The bench runs: what it prints, what it makes of libraries that are not there, what it writes into the docs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
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
    assert left_out == {"gone": "not built: run bench/build"}


def test_only_what_stands_between_the_markers_of_the_page_changes(
    modules: None, tmp_path: Path, report: dict[str, object]
) -> None:
    import report as text

    page = tmp_path / "figures.md"
    page.write_text(f"before\n{text.BEGIN}\nold\n{text.END}\nafter\n")
    text.write_page(report, "bench/run", page)
    written = page.read_text()
    assert written.startswith(f"before\n{text.BEGIN}\n")
    assert written.endswith(f"\n{text.END}\nafter\n")
    assert "old" not in written
    assert "SPEED node.call" in written


@pytest.fixture
def whole(report: dict[str, Any]) -> dict[str, Any]:
    """A report with cases, one of which failed."""
    row = {"contender": "speed", "case": "events", "value": 1234.5, "unit": "/s", "decimals": 0, "figure": ""}
    failed = {"contender": "speed", "case": "backlog", "failed": "RuntimeError: no answer within 120 s"}
    return {**report, "cases": [row, failed], "left_out": {"flight": "small: half a message"}}


def test_the_page_tells_every_target_every_case_and_what_failed(modules: None, whole: dict[str, Any]) -> None:
    import report as text

    written = text.markdown(whole, "bench/run")
    for target in whole["verdicts"]:
        assert f"| {target['what']} | {target['target']} |" in written
    assert "| events | 1,234 /s |" in written
    assert "| backlog | RuntimeError: no answer within 120 s |" in written
    assert "Arrow Flight, unix socket was left out: small: half a message." in written


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_the_picture_is_drawn(modules: None, tmp_path: Path, whole: dict[str, Any], suffix: str) -> None:
    import plot

    picture = tmp_path / "made" / f"bench.{suffix}"
    plot.draw(whole, picture)
    begin = {"svg": b"<?xml", "png": b"\x89PNG"}[suffix]
    assert picture.read_bytes().startswith(begin)


def test_a_case_that_fails_is_told_and_the_others_are_measured(modules: None, monkeypatch: pytest.MonkeyPatch) -> None:
    import case
    import cases

    def fails(*_: Any) -> Iterator[Any]:
        yield case.Row("before", 1.0, "")
        raise KeyError("ns")

    def works(*_: Any) -> Iterator[Any]:
        yield case.Row("after", 2.0, "")

    monkeypatch.setattr(cases, "CASES", {"one": (case.Place(fails),), "other": (case.Place(works),)})
    rows = list(cases.run(["speed"], frozenset({"one", "other"}), case.TINY, None))
    assert [row["case"] for row in rows] == ["before", "fails", "after"]
    assert rows[1]["failed"] == "KeyError: 'ns'"


def test_what_a_contender_gave_before_it_failed_is_kept(modules: None, monkeypatch: pytest.MonkeyPatch) -> None:
    import kinds
    import rounds
    from contenders.table import PEERS

    class Fragile:
        peer = PEERS["connection"]
        asked = 0

        def cpu_ns(self) -> int:
            return 0

        def ask(self, *_: Any) -> dict[str, Any]:
            self.asked += 1
            if self.asked == 3:
                raise RuntimeError("it ended")
            return {"ns": [1000]}

    bench = rounds.Bench({"connection": Fragile()}, kinds.TINY, {})
    bench.measure({"small": kinds.KINDS["small"], "large": kinds.KINDS["large"]}, 5)
    assert bench.left_out == {"connection": "small: it ended"}
    assert bench.found["connection"] == {"small": [[1000]], "cpu": [0.0], "large": [[1000]]}


def test_a_page_without_markers_is_left_as_it_is(modules: None, tmp_path: Path, report: dict[str, object]) -> None:
    import report as text

    page = tmp_path / "figures.md"
    page.write_text("by hand\n")
    with pytest.raises(ValueError, match="bench:begin"):
        text.write_page(report, "bench/run", page)
    assert page.read_text() == "by hand\n"


def test_chosen_cases_are_measured_without_the_peers() -> None:
    done = bench("--only", "speed", "--cases", "nodes,uptime", "--json")
    assert done.returncode in {0, 1}, done.stderr
    found = json.loads(done.stdout)
    assert not found["contenders"]
    curves = [row["curve"] for row in found["cases"] if row.get("curve")]
    assert curves == ["nodes", "nodes", "calls", "calls"]
    assert all(row["ratio"] > 0 and row["cpu_us"] > 0 for row in found["cases"] if row.get("curve"))
    growth = {verdict["figure"] for verdict in found["verdicts"] if verdict["measured"] is not None}
    assert growth == {"population/speed", "growth_nodes/speed", "growth_calls/speed"}


def test_a_case_that_does_not_exist_is_named_with_those_that_do() -> None:
    done = bench("--cases", "nodes,weather")
    assert done.returncode == 2
    assert "no weather; there are all, peers, sizes" in done.stderr


def test_what_is_asked_side_by_side_needs_the_rounds(modules: None) -> None:
    import main

    assert main.words_of("threads") == {"threads", "peers"}
    assert main.words_of("waiting") == {"waiting"}
    assert main.words_of("all") == set(main.WORDS)


def test_messages_that_wait_unread_do_not_stop_the_calls_beside_them(modules: None, tmp_path: Path) -> None:
    import case
    import growth
    from contender import Contender

    pair = Contender("speed", tmp_path, server=("unread",))
    twin_work = tmp_path / "twin"
    twin_work.mkdir()
    twin = Contender("speed", twin_work, server=("unread",))
    try:
        *points, verdict = growth.waiting_at_receiver(pair, twin, case.TINY)
    finally:
        pair.close()
        twin.close()
    assert [point.at for point in points] == list(case.TINY.waiting_mib)
    assert verdict.figure == "growth_waiting_server"
    left = sum(file.stat().st_size for file in (pair.work / "root/server/inbox/crowd.0").glob("*.lane"))
    assert left >= case.TINY.waiting_mib[-1] << 20


def test_pictures_of_growth_and_cases_are_drawn_beside_the_first(modules: None, tmp_path: Path) -> None:
    import main

    row = {"contender": "speed", "case": "events", "value": 1234.5, "unit": "/s", "decimals": 0, "figure": ""}
    point = {**row, "unit": "µs", "ratio": 1.0, "cpu_ratio": 1.1}
    curves = [{**point, "curve": curve, "at": at} for curve in ("nodes", "calls") for at in (2, 20)]
    main.draw({"contenders": {}, "cases": [row, *curves]}, tmp_path / "bench.svg")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bench-cases.svg", "bench-growth.svg"]


def test_a_reason_is_what_the_profile_shows(modules: None, monkeypatch: pytest.MonkeyPatch) -> None:
    import collections

    import reasons

    monkeypatch.setattr(reasons.perf, "is_there", lambda: True)
    monkeypatch.setattr(reasons, "_profile", lambda *_: collections.Counter(kernel=1, interpreter=3))
    missed = {"what": "call", "verdict": "FAIL", "figure": "small/speed/grpc", "why": ""}
    tail = {"what": "p99", "verdict": "FAIL", "figure": "tail/speed", "why": ""}
    met = {"what": "memory", "verdict": "PASS", "figure": "cpu_us/speed", "why": ""}
    found: dict[str, Any] = {"verdicts": [missed, tail, met]}
    reasons.add(found)
    assert [row["why"] for row in found["verdicts"]] == ["processor time: 75 % interpreter, 25 % kernel", "", ""]
    assert found["profiles"] == {"speed/call/200": {"interpreter": 0.75, "kernel": 0.25}}
