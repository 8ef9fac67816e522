"""``speed stats``, ``top`` and ``metrics``: what services do, seen by who looks after them."""

from __future__ import annotations

import json
import os
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

import speed
from speed.core.scheduler import TIMES
from speed.observe.figures import loads
from speed.observe.metrics import MAX_NAMES, metrics_text
from tests.system.commands import PATIENCE, Command

pytestmark = pytest.mark.system


@pytest.fixture
def pricing(run: Command) -> Iterator[speed.Node]:
    """A node with a service that sleeps, and one that fails, each called once."""
    with speed.Node("pricing", root=run.root, key=run.root / "speed.key", allow=["cli.*", "pricing"]) as node:
        node.register("quote", lambda seconds: time.sleep(seconds))

        @node.service("fail")
        def fail() -> None:
            raise speed.ApplicationError("SOLD_OUT", "nothing is left")

        node.call("pricing", "quote", {"seconds": 0.05})
        with pytest.raises(speed.ApplicationError):
            node.call("pricing", "fail")
        yield node


def test_stats_shows_percentiles_of_each_service(run: Command, pricing: speed.Node) -> None:
    shown = run("stats", "pricing").out
    assert "ran p99" in shown
    assert shown.split("quote")[1].split()[0] == "1"
    row = run("stats", "pricing", "--json").value["services"]["quote"]
    assert sum(row["runTimes"]) == row["numRequests"] == 1


def test_metrics_tell_of_handlers_peers_and_descriptors(run: Command, pricing: speed.Node) -> None:
    pricing.on_message(lambda message: None)
    pricing.send("pricing", b"text", ack=True)
    found = {one.name: one for one in text_string_to_metric_families(run("metrics").out)}
    labels = [one.labels for one in found["speed_handler_attempts"].samples]
    assert {"node": "pricing", "handler": "(messages)"} in labels
    received = [one.value for one in found["speed_peer_received_bytes"].samples if one.labels["peer"] == "pricing"]
    assert received[0] > 0
    assert found["speed_open_files"].samples[0].value > 3


def test_top_shows_what_happened_between_two_looks(run: Command, pricing: speed.Node) -> None:
    stopping = threading.Event()

    def call_on() -> None:
        while not stopping.is_set():
            pricing.call("pricing", "quote", {"seconds": 0.02})

    caller = threading.Thread(target=call_on, name="caller")
    caller.start()
    try:
        rows = json.loads(run("top", "--once", "--interval", "1", "--json").out)
    finally:
        stopping.set()
        caller.join()
    assert rows[0]["service"] == "quote", "what did most comes first"
    assert rows[0]["callsPerSecond"] > 0
    assert rows[0]["runP50Seconds"] >= 0.02
    assert rows[0]["errorShare"] == 0


def test_top_shows_a_service_whose_every_worker_hangs(run: Command, pricing: speed.Node) -> None:
    going_on = threading.Event()
    pricing.register("hold", lambda: going_on.wait(PATIENCE))
    calls = [pricing.submit("pricing", "hold", timeout=PATIENCE) for _ in range(6)]
    try:
        shown = json.loads(run("top", "--once", "--interval", "0.5", "--json").out)
    finally:
        going_on.set()
    assert [(row["runningRequests"], row["queuedRequests"]) for row in shown if row["service"] == "quote"] == [(4, 2)]
    assert [call.result() for call in calls] == [True] * 6


def test_a_node_that_was_started_anew_counts_from_its_start() -> None:
    row = {"numRequests": 100, "numErrors": 50, "runTimes": [100] + [0] * (TIMES - 1)}
    fresh = {"numRequests": 4, "numErrors": 1, "runTimes": [4] + [0] * (TIMES - 1)}
    found = list(loads({"a": {"services": {"x": row}}}, {"a": {"services": {"x": fresh}}}, 2.0))
    assert (found[0].calls_per_second, found[0].error_share, sum(found[0].run_times)) == (2.0, 0.25, 4)


def test_metrics_are_what_prometheus_reads(run: Command, pricing: speed.Node) -> None:
    families = {one.name: one for one in text_string_to_metric_families(run("metrics").out)}
    assert [(one.labels, one.value) for one in families["speed_up"].samples] == [({"node": "pricing"}, 1.0)]
    counted = {
        (sample.labels["service"], sample.name): sample.value
        for name in ("speed_service_requests", "speed_service_errors")
        for sample in families[name].samples
    }
    assert counted["quote", "speed_service_requests_total"] == 1
    assert counted["fail", "speed_service_errors_total"] == 1
    buckets = [one for one in families["speed_service_run_seconds"].samples if one.labels.get("service") == "quote"]
    assert [one.value for one in buckets if one.labels.get("le") == "+Inf"] == [1.0]
    assert [one.value for one in buckets if one.labels.get("le") == "0.032768"] == [0.0]


def test_a_textfile_is_whole_and_everybody_may_read_it(run: Command, pricing: speed.Node, tmp_path: Path) -> None:
    there = tmp_path / "elsewhere"
    there.write_text("kept")
    (tmp_path / "speed.prom").symlink_to(there)
    assert run("metrics", "--textfile", str(tmp_path / "speed.prom")).status == 0
    assert there.read_text() == "kept", "no link is followed"
    assert list(text_string_to_metric_families((tmp_path / "speed.prom").read_text()))
    assert stat.S_IMODE(os.stat(tmp_path / "speed.prom").st_mode) == 0o644
    assert [name for name in os.listdir(tmp_path) if name.startswith(".speed.prom")] == []


def test_a_textfile_that_cannot_be_written_is_named(run: Command, pricing: speed.Node, tmp_path: Path) -> None:
    failed = run("metrics", "--textfile", str(tmp_path / "gone" / "speed.prom"))
    assert failed.status == 8
    assert "gone/speed.prom: No such file" in failed.err


def test_a_node_with_thousands_of_names_cannot_flood_the_metrics() -> None:
    row = {"numRequests": 1, "numErrors": 0, "lastError": "", "processingSeconds": 0.1, "averageSeconds": 0.1}
    answer = {
        "counters": {f"c{number}": 1 for number in range(5_000)},
        "services": {f's"{number}\n}}': row for number in range(5_000)},
    }
    families = {one.name: one for one in text_string_to_metric_families(metrics_text({"evil": answer, "gone": None}))}
    assert len(families["speed_events"].samples) == MAX_NAMES
    assert len(families["speed_service_requests"].samples) == MAX_NAMES
    assert [(one.labels["node"], one.value) for one in families["speed_up"].samples] == [("evil", 1.0), ("gone", 0.0)]
