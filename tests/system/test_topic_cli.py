"""``speed topic`` beside a real speedd."""

from __future__ import annotations

import json
import subprocess
import sys
import threading

import pytest

from tests.system.topics import TopicSite, started_site

pytestmark = pytest.mark.system


site = pytest.fixture(started_site, name="site", scope="module")


def command(site: TopicSite, *words: str) -> list[str]:
    options = ["--root", str(site.root), "--key", str(site.key), "--as", "test"]
    return [sys.executable, "-m", "speed.cli", "topic", *words, *options]


def speed(site: TopicSite, *words: str, status: int = 0, typed: str = "") -> str:
    done = subprocess.run(command(site, *words), capture_output=True, text=True, input=typed, check=False, timeout=60)
    assert done.returncode == status, done.stderr
    return done.stdout + (done.stderr if status else "")


def test_a_topic_is_made_used_looked_at_and_removed(site: TopicSite) -> None:
    speed(site, "create", "news")
    said = ("--message-key", "k", "--property", "a=b")
    assert speed(site, "publish", "news", '{"n": 1}', "two", *said).split() == ["0", "1"]
    assert speed(site, "publish", "news", typed="three\n").split() == ["2"]
    assert speed(site, "peek", "news", "-n", "1") == '0  test  k  {"n": 1}\n'
    assert speed(site, "tail", "news", "-n", "1") == "2  test  three\n"
    assert speed(site, "consume", "news", "billing", "-n", "2") == '0  test  k  {"n": 1}\n1  test  k  two\n'
    (row,) = json.loads(speed(site, "subscriptions", "news", "--json"))
    assert (row["subscription"], row["cursor"], row["backlog"]) == ("billing", 2, 1)
    assert speed(site, "purge", "news", "--dry-run") == "1 messages would be acknowledged.\n"
    assert speed(site, "seek", "news", "billing", "earliest") == "billing goes on at 0.\n"
    speed(site, "unsubscribe", "news", "billing")
    assert json.loads(speed(site, "describe", "news", "--json"))["subscriptions"] == []
    speed(site, "delete", "news", "--yes")
    assert "news" not in speed(site, "list")


def test_dead_letters_are_published_again(site: TopicSite) -> None:
    speed(site, "create", "failed", "--dead-letters-of", "orders")
    assert speed(site, "redrive", "failed") == "0 dead letters published again.\n"
    assert json.loads(speed(site, "redrive", "failed", "-n", "5", "--json")) == {"messages": 0}
    assert "UNKNOWN_TOPIC" in speed(site, "redrive", "nothing", status=7)
    speed(site, "delete", "failed", "--yes")


def test_more_is_looked_at_than_is_fetched_at_once(site: TopicSite) -> None:
    speed(site, "create", "many")
    speed(site, "publish", "many", typed="x\n" * 250)
    assert len(speed(site, "peek", "many", "-n", "240").splitlines()) == 240
    speed(site, "delete", "many", "--yes")


def test_a_line_for_programs_has_everything(site: TopicSite) -> None:
    speed(site, "publish", "orders", "7", "--message-key", "k", "--property", "a=b")
    line = json.loads(speed(site, "tail", "orders", "-n", "1", "--json"))
    assert (line["payload"], line["key"], line["properties"], line["publisher"]) == (7, "k", {"a": "b"}, "test")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("seek", "orders", "billing", "yesterday"), "is no place"),
        (("peek", "orders", "--from", "yesterday"), "is no place"),
        (("publish", "orders", "x", "--property", "a"), "is no property"),
    ],
)
def test_what_makes_no_sense_is_wrong_usage(site: TopicSite, words: tuple[str, ...], text: str) -> None:
    assert text in speed(site, *words, status=2)


def test_a_topic_that_is_not_there_is_an_error_of_the_other_side(site: TopicSite) -> None:
    assert "UNKNOWN_TOPIC" in speed(site, "publish", "nowhere", "x", status=7)


def test_following_shows_what_is_published_later(site: TopicSite) -> None:
    tail = subprocess.Popen(command(site, "tail", "orders", "-n", "0", "--follow"), stdout=subprocess.PIPE, text=True)
    with site.node("cli.publisher") as node:
        topic = node.topic("orders")
        # It follows once its reader has its place; until then what is published is behind it.
        assert tail.stdout is not None
        shown = threading.Event()

        def publish() -> None:
            while not shown.wait(0.05):
                topic.publish("later")

        publisher = threading.Thread(target=publish)
        publisher.start()
        try:
            assert tail.stdout.readline().endswith("cli.publisher  later\n")
        finally:
            shown.set()
            publisher.join()
            tail.kill()
            tail.wait()
            tail.stdout.close()


def test_an_overview_shows_all_subscriptions_the_worst_first(site: TopicSite) -> None:
    for topic in ("calm", "stuck", "unread"):
        speed(site, "create", topic)
        speed(site, "publish", topic, "1", "2")
    assert speed(site, "consume", "calm", "all", "-n", "2").count("\n") == 2
    assert speed(site, "consume", "stuck", "some", "-n", "1").count("\n") == 1
    rows = json.loads(speed(site, "overview", "calm", "stuck", "unread", "--json"))
    shown = [(row["topic"], row["subscription"], row["state"], row["backlog"]) for row in rows]
    assert shown == [
        ("stuck", "some", "nobody consumes", 1),
        ("calm", "all", "", 0),
        ("unread", "", "no subscription", 0),
    ]
    assert {"stuck", "calm", "unread"} <= {row["topic"] for row in json.loads(speed(site, "overview", "--json"))}
    assert "stuck some" in speed(site, "overview")


@pytest.mark.parametrize(("topic", "status", "text"), [("nowhere", 7, "UNKNOWN_TOPIC"), ("secret", 5, "DENIED")])
def test_an_overview_of_what_is_not_there_or_not_granted_says_so(
    site: TopicSite, topic: str, status: int, text: str
) -> None:
    assert text in speed(site, "overview", topic, status=status)


def test_who_may_not_do_something_with_a_topic_is_told_whose_grant_is_missing(site: TopicSite) -> None:
    assert "must grant this command's name" in speed(site, "publish", "secret", "x", status=5)


def test_top_shows_the_subscriptions_in_which_something_waits(site: TopicSite) -> None:
    speed(site, "create", "piled")
    speed(site, "publish", "piled", "1", "2", "3")
    speed(site, "consume", "piled", "late", "-n", "1")
    words = ["top", "--once", "--interval", "0.5", "--root", str(site.root), "--key", str(site.key), "--as", "test"]
    done = subprocess.run(
        [sys.executable, "-m", "speed.cli", *words], capture_output=True, text=True, check=True, timeout=60
    )
    assert "piled late: 2 messages wait" in done.stdout
    assert "nobody consumes" in done.stdout
