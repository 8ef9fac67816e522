"""A speedd whose topics lie in a cluster that is not there (D-24)."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import speed
from tests.system.topics import CONFIG, TopicSite, until

pytestmark = pytest.mark.system


@pytest.fixture
def site(tmp_path: Path) -> Iterator[TopicSite]:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        broker, admin = (taken.getsockname()[1] for taken in (one, two))
    where = f'backend = "pulsar://127.0.0.1:{broker}"\nadmin = "http://127.0.0.1:{admin}"\n'
    site = TopicSite(tmp_path, CONFIG.replace("[topics]\n", "[topics]\n" + where))
    yield site
    site.close()


def lines_of(site: TopicSite) -> threading.Thread:
    """Reads on in the log of the speedd that runs."""

    def read() -> None:
        stream = site.started[-1].stderr
        assert stream is not None
        site.log.extend(stream)

    thread = threading.Thread(target=read)
    thread.start()
    return thread


def test_speedd_starts_and_says_once_what_is_missing_and_who_asks_is_told_to_try_again(site: TopicSite) -> None:
    process = site.start()
    reading = lines_of(site)
    with site.node() as node:
        topic = node.topic("orders")
        for call in (lambda: topic.publish("x"), topic.describe, topic.create, lambda: topic.consumer("billing")):
            with pytest.raises(speed.ApplicationError, match="does not answer") as refused:
                call()
            assert refused.value.code == "NOT_WRITTEN"
        with pytest.raises(speed.ApplicationError) as refused:
            node.topic("secret").publish("x")
        until(lambda: any("topics_not_written" in line for line in site.log))
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    reading.join()
    said = [one for line in site.log if (one := json.loads(line))["event"] == "topics_not_written"]
    assert len(said) == 1, said


def test_topics_that_the_root_still_has_are_no_topics_of_the_cluster(site: TopicSite) -> None:
    """D-20: what a configuration would hide is told."""
    left = site.root / "topics"
    left.mkdir(parents=True, mode=0o700)
    os.chmod(site.root, 0o700)
    (left / "x").touch()
    with pytest.raises(AssertionError, match="whose messages are not in the cluster"):
        site.start()
