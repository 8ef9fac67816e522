"""Migrations: what is made of each message, what is kept in a file, and that nothing is lost or twice when it dies."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speed.backends import migrating
from speed.backends.backend import BackendAwayError, Delivered, Outgoing
from speed.backends.migrating import Judge, Migration, MigrationState, message_id_of
from speed.errors import ConfigurationError
from speed.message.old_forms import FORMS
from speed.message.view import MessageView
from speed.message.writing import encode_message

HEAD: dict[str, Any] = {"topic": "a.b", "namespace": "n", "message_id": "m-1", "published_at_ms": 1}
WHAT = {"from": "redis://h:1", "to": "kafka://h:2", "topics": "*", "group": "g"}


def judge(backend: str = "redis", forms: Sequence[str] = FORMS) -> Judge:
    return Judge(backend, frozenset(forms), "shop", 1024)


def lies(data: bytes, number: int = 0, **more: Any) -> Delivered:
    return Delivered("a.b", "k", data, f"{number}-0", number, **more)


@pytest.mark.parametrize(
    ("backend", "delivered", "form"),
    [
        ("redis", lies(encode_message(1, **HEAD)), "envelope"),
        ("redis", lies(encode_message(bytes(1024), **HEAD)), "too large"),
        ("redis", lies(b'{"payload": 1}'), "redis"),
        ("redis", lies(json.dumps({"payload": "x" * 1024}).encode()), "too large"),
        ("redis", lies(b'{"payload": 1, "meta": {"message_id": "m-1"}}'), "beside"),
        ("redis", lies(b"garbage"), "unknown"),
        ("redis", lies(b"raw", headers={"timestamp": b"1"}), "unknown"),
        ("kafka", lies(b"raw", headers={"timestamp": b"1"}), "kafka"),
        ("kafka", lies(b'{"payload": 1}'), "redis"),
        ("nats", lies(b"raw", headers={"Nats-Msg-Id": b"m-1"}), "nats"),
        ("postgres", lies(b"1", headers={"metadata": b"null"}), "postgresql"),
        ("postgres", lies(b"1", headers={"metadata": b"{"}), "unknown"),
        ("postgres", lies(b"1"), "unknown"),
        ("redis", Delivered("not:a:topic", None, b'{"payload": 1}', "1-0"), "unknown"),
    ],
)
def test_a_message_is_taken_for_what_it_is(backend: str, delivered: Delivered, form: str) -> None:
    found = judge(backend).judge(delivered)
    assert found.form == form
    assert (found.outgoing is None) == (form in ("unknown", "too large", "beside"))
    assert found.is_duplicate == (form == "beside")
    assert bool(found.why) == (form in ("unknown", "too large"))


def test_what_is_taken_over_keeps_its_key() -> None:
    outgoing = judge().judge(lies(b'{"payload": 1}')).outgoing
    assert outgoing is not None
    assert (outgoing.key, outgoing.topic, MessageView(outgoing.envelope).payload) == ("k", "a.b", 1)


def test_a_form_that_is_not_asked_for_is_unknown() -> None:
    found = judge(forms=["kafka"]).judge(lies(b'{"payload": 1}'))
    assert (found.form, found.why) == ("unknown", "the form of redis is not asked for")


def test_what_is_no_message_has_no_id() -> None:
    assert message_id_of(lies(b"garbage")) == ""
    assert message_id_of(lies(encode_message(1, **HEAD))) == "m-1"


def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    place = str(tmp_path / "state")
    one = MigrationState(place, WHAT, Counter({"redis": 3}), {"m-1": "a.b"}, 17, ["a.b 1-0"], {"a.b 0": 7})
    assert not one.is_there
    one.write()
    again = MigrationState(place, WHAT)
    again.read()
    assert again == one
    assert one.is_there
    with pytest.raises(ConfigurationError, match="another migration"):
        MigrationState(place, {**WHAT, "group": "h"}).read()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"what": 1, "counts": 2, "doubt": 3, "passed": 4, "offsets": 5}'])
def test_another_file_is_no_state(tmp_path: Path, text: str) -> None:
    (tmp_path / "state").write_text(text)
    with pytest.raises(ConfigurationError, match="no state"):
        MigrationState(str(tmp_path / "state"), WHAT).read()


def test_a_state_that_is_not_there_is_none_to_go_on_with(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="begin without"):
        MigrationState(str(tmp_path / "state"), WHAT).read()


def test_what_is_too_much_for_one_request_goes_in_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrating, "MAX_BATCH_BYTES", 1)
    target = Target(Trouble(["", "killed before"]))
    one = Migration(Source(ENTRIES, Trouble([])), target, judge(), MigrationState(str(tmp_path / "s"), WHAT))  # type: ignore[arg-type]
    with pytest.raises(KilledError):
        one.run(0.0, lambda _: None)
    assert len(target.kept) == 1


class KilledError(BaseException):
    """The process dies here."""


class Trouble:
    """What happens at each step, in turn; nothing once they are over."""

    def __init__(self, steps: Sequence[str]) -> None:
        self._steps: Iterator[str] = iter(steps)

    def step(self) -> str:
        return next(self._steps, "")

    @staticmethod
    def strike(kind: str) -> None:
        if kind.startswith("away"):
            raise BackendAwayError("away")
        if kind.startswith("killed"):
            raise KilledError


class Source:
    """Entries that a group has; what is not acknowledged comes again to the next consumer, or after trouble."""

    def __init__(self, entries: Sequence[Delivered], trouble: Trouble) -> None:
        self._left, self._held, self._trouble = list(entries), list[Delivered](), trouble

    def receive(self, most: int, timeout: float) -> list[Delivered]:
        found, self._left = self._left[:3], self._left[3:]
        self._held += found
        return found

    def acknowledge(self, delivered: Sequence[Delivered]) -> None:
        kind = self._trouble.step()
        if not kind.endswith("before"):
            self._held = [one for one in self._held if one not in delivered]
        if kind:
            self.close()
        self._trouble.strike(kind)

    def close(self) -> None:
        """What is held comes again."""
        self._left, self._held = self._held + self._left, []

    def positions(self) -> dict[str, str]:
        return {}


class Target:
    """Keeps what arrives, and may fail before, in between, or behind."""

    has_groups = True

    def __init__(self, trouble: Trouble) -> None:
        self.kept: list[Outgoing] = []
        self._trouble = trouble

    def publish(self, messages: Sequence[Outgoing], timeout: float) -> list[str]:
        kind = self._trouble.step() if messages else ""
        arrived = 0 if kind.endswith("before") else len(messages) // 2 if kind.endswith("between") else len(messages)
        self.kept += messages[:arrived]
        self._trouble.strike(kind)
        return [""] * len(messages)

    def pages(self, topic: str) -> Iterator[list[Delivered]]:
        yield [Delivered(one.topic, None, one.envelope, "") for one in self.kept if one.topic == topic]


STEPS = st.sampled_from(
    ["", "", "away before", "away between", "away behind", "killed before", "killed between", "killed behind"]
)
ENTRIES = [lies(json.dumps({"payload": number}).encode(), number) for number in range(10)]
ENTRIES += [lies(b"garbage", 10), lies(encode_message("new", **HEAD), 11)]


@given(st.lists(STEPS, max_size=16))
def test_nothing_is_lost_or_twice_wherever_it_dies_and_whoever_is_away(steps: list[str]) -> None:
    """M-39. A group gives again what was not acknowledged; the file and the target tell what has arrived."""
    trouble = Trouble(steps)
    source, target = Source(ENTRIES, trouble), Target(trouble)
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as quick:
        quick.setattr(migrating, "_PAUSE_SECONDS", 0.0)
        state = MigrationState(f"{directory}/state", WHAT)
        while True:
            try:
                one = Migration(source, target, judge(), state, lambda _, topic, __: target.pages(topic))  # type: ignore[arg-type]
                one.run(0.0, lambda _: None)
                break
            except KilledError:
                source.close()
                state = MigrationState(f"{directory}/state", WHAT)
                state.read()
    payloads = [MessageView(one.envelope).payload for one in target.kept]
    assert Counter(payloads) == Counter([*range(10), "new"])
    assert state.counts == {"redis": 10, "unknown": 1, "envelope": 1}


def test_a_partition_that_comes_again_is_passed_over(tmp_path: Path) -> None:
    """Kafka gives it from where it stood, whatever was acknowledged."""
    entries = [
        Delivered("a.b", None, encode_message(number, **HEAD), f"{number // 3}:{number % 3}", number % 3)
        for number in range(6)
    ]
    target = Target(Trouble([]))
    state = MigrationState(str(tmp_path / "state"), WHAT)
    for _ in range(2):
        source = Source(entries, Trouble([]))
        Migration(source, target, judge("kafka"), state, lambda _, topic, __: target.pages(topic)).run(
            0.0, lambda _: None
        )  # type: ignore[arg-type]
    assert [MessageView(one.envelope).payload for one in target.kept] == list(range(6))
    assert state.offsets == {"a.b 0": 3, "a.b 1": 3}


def test_a_migration_that_is_stopped_ends_behind_what_it_has_in_hand(tmp_path: Path) -> None:
    source, target = Source(ENTRIES, Trouble([])), Target(Trouble([]))
    one = Migration(
        source, target, judge(), MigrationState(str(tmp_path / "s"), WHAT), lambda _, topic, __: target.pages(topic)
    )  # type: ignore[arg-type]
    one.run(None, lambda _: one.stop())
    assert (len(target.kept), one.is_stopped) == (3, True)


def test_a_source_that_is_away_for_a_while_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And it does not end before nothing came for as long as was asked."""
    monkeypatch.setattr(migrating, "_PAUSE_SECONDS", 0.0)
    answers = iter(["away", "", "away", ""])

    class Hesitant(Source):
        def receive(self, most: int, timeout: float) -> list[Delivered]:
            if next(answers, "") == "away":
                raise BackendAwayError("away")
            return super().receive(most, timeout)

    source, target = Hesitant(ENTRIES[:3], Trouble([])), Target(Trouble([]))
    Migration(source, target, judge(), MigrationState(str(tmp_path / "s"), WHAT)).run(0.05, lambda _: None)  # type: ignore[arg-type]
    assert len(target.kept) == 3
    assert next(answers, "asked") == "asked"


def test_a_backend_that_stays_away_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrating, "_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(migrating, "PATIENCE_SECONDS", 0.0)
    trouble = Trouble(["away before"] * 10)
    source, target = Source(ENTRIES, trouble), Target(trouble)

    def away(_: Any, topic: str, since_ms: int) -> Iterator[list[Delivered]]:
        raise BackendAwayError("away")

    with pytest.raises(BackendAwayError):
        Migration(source, target, judge(), MigrationState(str(tmp_path / "s"), WHAT), away).run(0.0, lambda _: None)  # type: ignore[arg-type]
    assert target.kept == []


def test_the_first_that_are_not_copied_are_named(tmp_path: Path) -> None:
    source, target = Source([lies(b"hidden-word", number) for number in range(30)], Trouble([])), Target(Trouble([]))
    one = Migration(
        source, target, judge(), MigrationState(str(tmp_path / "s"), WHAT), lambda _, topic, __: target.pages(topic)
    )  # type: ignore[arg-type]
    one.run(0.0, lambda _: None)
    assert one.state.counts == {"unknown": 30}
    assert len(one.refused) == 20
    assert "hidden-word" not in repr(one.refused)
