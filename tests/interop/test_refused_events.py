"""A publisher of any language hears of events that a journal does not record (J-9)."""

from __future__ import annotations

from pathlib import Path

import pytest

from speed.journal.recording import Recorder, RecordingRule
from speed.journal.writer import JournalWriter
from tests.interop.harness import until
from tests.interop.languages import CHOSEN
from tests.interop.pool import Agents


@pytest.mark.parametrize("source", CHOSEN)
def test_a_publisher_counts_and_logs_the_events_that_are_refused(private: Agents, source: str, tmp_path: Path) -> None:
    key = f"{private.root}/speed.key"
    publisher = private.start(source, "publisher").ready()
    recorded = RecordingRule(("flights.*",), (), ("publisher",), refuse=("flights.debug.*",))
    with JournalWriter(tmp_path / "journal", key) as writer:
        recorder = Recorder(writer, recorded, "recorder", root=private.root, key=key)
        try:
            publisher.ask("wait_for", target="recorder", timeout=20)
            publisher.ask("publish", topic="flights.debug.x", payload=1)
            assert until(lambda: publisher.ask("stats")["counters"].get("events_reported_refused") == 1)
            assert until(lambda: "recorder" in publisher.stderr() and "JOURNAL_REFUSED" in publisher.stderr())
        finally:
            recorder.close()
