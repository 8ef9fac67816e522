"""A key file that changes under a running node: taken whole, or not at all (W-20)."""

from __future__ import annotations

import os
import pathlib

import pytest

from speed.errors import WireError
from speed.fs import keyfile
from speed.fs.keyfile import KeySource, write_key_file
from speed.fs.registration import register
from speed.fs.registry import Registry
from speed.fs.root import prepare_root
from speed.wire.envelope import parse_header
from speed.wire.names import entry_path, node_id
from speed.wire.seal import Keyring, LinkOpener, LinkSealer
from tests.fs.entries import LONG
from tests.fs.lanes import SOURCE, SOURCE_ID, TARGET, TARGET_ID, Lane

OLD, NEW = bytes(range(32)), bytes(range(1, 33))
IDS = node_id("analytics"), node_id("billing")


@pytest.fixture
def path(tmp_path: pathlib.Path) -> str:
    write_key_file(str(tmp_path / "speed.key"), (OLD,))
    return str(tmp_path / "speed.key")


@pytest.fixture
def source(path: str) -> KeySource:
    return KeySource(path)


def keys_of(source: KeySource) -> tuple[bytes, ...]:
    return source.keyring.now.keys


def test_the_keys_of_a_changed_file_are_taken_with_the_next_look(path: str, source: KeySource) -> None:
    write_key_file(path, (NEW, OLD), replace=True)
    assert source.look() is None
    assert keys_of(source) == (NEW, OLD)


def test_the_link_that_kubernetes_turns_is_followed_each_time(tmp_path: pathlib.Path) -> None:
    for name, keys in (("..1", (OLD,)), ("..2", (NEW,))):
        (tmp_path / name).mkdir()
        write_key_file(str(tmp_path / name / "speed.key"), keys)
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "speed.key").symlink_to("..data/speed.key")
    source = KeySource(str(tmp_path / "speed.key"))
    (tmp_path / "..new").symlink_to("..2")
    os.rename(tmp_path / "..new", tmp_path / "..data")
    assert source.look() is None
    assert keys_of(source) == (NEW,)


def cut(path: str) -> None:
    os.truncate(path, 40)


def emptied(path: str) -> None:
    os.truncate(path, 0)


def removed(path: str) -> None:
    os.unlink(path)


def opened_to_others(path: str) -> None:
    os.chmod(path, 0o644)


def given_away(path: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make the file of somebody else")
    os.chown(path, 12345, 12345)


SPOILED = [cut, emptied, removed, opened_to_others, given_away]


@pytest.mark.parametrize("spoil", SPOILED)
def test_a_file_that_is_not_sound_changes_nothing(path: str, source: KeySource, spoil: object) -> None:
    write_key_file(path, (NEW,), replace=True)
    assert callable(spoil)
    spoil(path)
    assert source.look() is not None
    assert keys_of(source) == (OLD,)


def test_an_unknown_key_is_looked_for_at_once_but_not_again_and_again(
    path: str, source: KeySource, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []
    read = keyfile.read_keys
    monkeypatch.setattr(keyfile, "read_keys", lambda path: reads.append(path) or read(path))
    write_key_file(path, (OLD, NEW), replace=True)
    assert source.keyring.opening_aead(Keyring((NEW,)).key_id, *IDS, 1)
    for number in range(100):
        with pytest.raises(WireError, match="not in the key file"):
            source.keyring.opening_aead(number.to_bytes(8, "big"), *IDS, 1)
    assert len(reads) == 1


def test_a_link_seals_with_the_new_key_at_once_and_goes_on_counting(path: str, source: KeySource) -> None:
    sealer = LinkSealer(source.keyring, *IDS, 1)
    before = parse_header(sealer.seal(1, 0, 1, 0, b"", bytes(12)))
    write_key_file(path, (NEW, OLD), replace=True)
    source.look()
    after = parse_header(sealer.seal(1, 0, 2, 0, b"", bytes(12)))
    assert (before.key_id, after.key_id) == (Keyring((OLD,)).key_id, Keyring((NEW,)).key_id)
    assert after.sequence == before.sequence + 1


def test_a_retired_key_is_not_accepted_even_where_it_opened_something_before(path: str, source: KeySource) -> None:
    write_key_file(path, (NEW, OLD), replace=True)
    source.look()
    envelope = LinkSealer(Keyring((OLD,)), *IDS, 1).seal(1, 0, 1, 0, b"payload", os.urandom(12))
    header = parse_header(envelope)
    opener = LinkOpener(source.keyring, *IDS)
    assert opener.open(header, envelope) == b"payload"
    write_key_file(path, (NEW,), replace=True)
    source.look()
    with pytest.raises(WireError) as refused:
        opener.open(header, envelope)
    assert refused.value.reason == "UNKNOWN_KEY"


def test_an_entry_is_read_again_by_the_keys_of_now(tmp_path: pathlib.Path, path: str, source: KeySource) -> None:
    prepare_root(str(tmp_path))
    ours = Registry(str(tmp_path), source.keyring, is_prepared=True)
    theirs = Registry(str(tmp_path), Keyring((NEW, OLD)))
    registration = register(theirs, "billing", **LONG)
    os.utime(entry_path(str(tmp_path), "billing"), (1, 1))  # long settled: it is remembered what was read
    assert ours.read("billing") is None
    write_key_file(path, (OLD, NEW), replace=True)
    source.look()
    assert ours.read("billing") is not None
    write_key_file(path, (OLD,), replace=True)
    source.look()
    assert ours.read("billing") is None
    registration.remove()


def test_a_heartbeat_seals_the_entry_with_the_new_key(tmp_path: pathlib.Path, path: str, source: KeySource) -> None:
    prepare_root(str(tmp_path))
    ours = Registry(str(tmp_path), source.keyring, is_prepared=True)
    registration = register(ours, "billing", **LONG)
    assert not registration.has_new_keys
    write_key_file(path, (NEW, OLD), replace=True)
    source.look()
    assert registration.has_new_keys
    registration.heartbeat()
    assert not registration.has_new_keys
    assert Registry(str(tmp_path), Keyring((NEW,))).read("billing") is not None
    registration.remove()


def test_a_scan_leaves_no_cursor_behind_that_only_a_retired_key_opens(tmp_path: pathlib.Path) -> None:
    lane = Lane(tmp_path)
    ring = Keyring((OLD,))
    writer = lane.writer()
    lane.inbox._keyring = ring
    writer.append(LinkSealer(ring, SOURCE_ID, TARGET_ID, 1).seal(1, 0, 1, 0, b"", os.urandom(12)))
    reader = lane.reader()
    received, _ = reader.read(10, 1 << 20, 0.0)
    reader.finish(received[0].token)
    ring.take((NEW, OLD))
    reader.read(10, 1 << 20, 1.0, scan=True)
    ring.take((NEW,))
    lane.inbox._generation = 2
    again = lane.reader()
    assert again.read(10, 1 << 20, 2.0, scan=True) == ([], False)
    assert not again.counts, (SOURCE, TARGET)
    lane.close()


def test_what_could_not_be_written_anew_is_counted_and_tried_again(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lane = Lane(tmp_path)
    ring = Keyring((OLD,))
    lane.inbox._keyring = ring
    writer = lane.writer()
    writer.append(LinkSealer(ring, SOURCE_ID, TARGET_ID, 1).seal(1, 0, 1, 0, b"", os.urandom(12)))
    reader = lane.reader()
    ring.take((NEW, OLD))

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(reader._deliveries, "rewrite", fails)
        reader.read(10, 1 << 20, 1.0, scan=True)
    assert reader.counts["commits_failed"] == 1
    reader.read(10, 1 << 20, 2.0, scan=True)
    assert not reader._files.has_new_key
    lane.close()
