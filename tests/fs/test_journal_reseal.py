"""Sealing a journal anew under another key, and what older keys still seal (J-16)."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from speed import JournalDamagedError, JournalError, KeyFileError, StorageError
from speed.fs.keyfile import load_key_file, read_keys, write_key_file
from speed.journal.files import LARGEST_BYTES
from speed.journal.reseal import Held, Resealed, held_by
from speed.journal.writer import JournalWriter
from speed.wire.journal import RECORD_BYTES, BlockEntry, Description, VolumeKeys, parse_block_header, seal_description
from speed.wire.topic import cursor_name, open_state, seal_state
from tests.fs.journals import SUBJECT, Place, incoming, message

SMALL = 65536


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def promote(place: Place) -> None:
    """A new first key; the older ones are still there."""
    write_key_file(str(place.key), (secrets.token_bytes(32), *read_keys(str(place.key))), replace=True)


def retire(place: Place) -> None:
    write_key_file(str(place.key), read_keys(str(place.key))[:1], replace=True)


def reseal(place: Place, **options: object) -> list[Resealed]:
    with place.writer(**options) as writer:
        return list(writer.reseal())


def held(place: Place) -> Held:
    """What only the keys behind the first one open."""
    ring = load_key_file(str(place.key))
    return held_by(str(place.directory), ring, ring.key_ids[1:])


def write_volumes(place: Place, count: int) -> None:
    """Five records in a block, a block in a volume."""
    with place.writer(volume_bytes=SMALL) as writer:
        for number in range(count):
            writer.record(SUBJECT, incoming(range(5 * number, 5 * number + 5), size=SMALL // 5))


def test_what_was_sealed_anew_is_read_when_the_older_key_is_retired(place: Place) -> None:
    """J-16: from the first record to the last, and recording goes on."""
    write_volumes(place, 3)
    promote(place)
    resealed = reseal(place)
    assert sum(one.path.endswith(".segment") for one in resealed) == 3
    assert [one.trouble for one in resealed] == [""] * 5
    retire(place)
    assert place.numbers() == list(range(15))
    place.write([15])
    assert place.numbers() == list(range(16))


def test_nothing_is_sealed_anew_that_the_first_key_sealed(place: Place) -> None:
    """J-16: so a run that has nothing to do changes nothing."""
    write_volumes(place, 2)
    promote(place)
    reseal(place)
    before = {path: path.stat().st_ino for path in place.directory.rglob("*")}
    assert reseal(place) == []
    assert {path: path.stat().st_ino for path in place.directory.rglob("*")} == before


def test_sizes_places_and_positions_stay_what_they_are(place: Place) -> None:
    """J-16, J-13: at every offset, and for a reader that was there before."""
    place.write(range(4), [4], range(5, 10))
    reader = place.reader
    sizes = [path.stat().st_size for path in place.segments()]
    marks = [reader.mark(place.lane, offset) for offset in range(11)]
    promote(place)
    place.write([10], range(11, 13))
    reseal(place)
    assert [path.stat().st_size for path in place.segments()][: len(sizes) - 1] == sizes[:-1]
    for offset, mark in enumerate(marks):
        reader.check(place.lane, offset, mark)
    retire(place)
    for offset, mark in enumerate(marks):
        place.reader.check(place.lane, offset, mark)
        assert place.reader.mark(place.lane, offset) == mark
    assert place.numbers() == list(range(13))


def test_a_lane_goes_on_in_the_volume_that_was_sealed_anew(place: Place) -> None:
    """J-16: blocks of both kinds lie in it, and a later key seals all of them anew."""
    with place.writer() as writer:
        writer.record(SUBJECT, incoming([0]))
        promote(place)
        assert list(writer.reseal())
        writer.record(SUBJECT, incoming([1]))
        assert len(place.segments()) == 1
    assert place.segments()[0].read_bytes()[4] == 2
    promote(place)
    reseal(place)
    retire(place)
    assert place.numbers() == [0, 1]


def test_what_goes_back_to_a_key_has_the_bytes_that_it_had_under_it(place: Place) -> None:
    """J-16: no nonce seals two plaintexts under one key."""
    place.write([0], [1])
    first, copies = read_keys(str(place.key))[0], []
    second, third = secrets.token_bytes(32), secrets.token_bytes(32)
    for keys in ((second, first), (third, second), (second, third)):
        write_key_file(str(place.key), keys, replace=True)
        assert reseal(place)
        copies.append(place.segments()[0].read_bytes())
    assert copies[0] == copies[2] != copies[1]


def test_a_forged_block_with_the_nonce_of_a_recorded_one_does_not_give_its_contents_away(place: Place) -> None:
    """J-16: who has the older key may make such, lay it into the directory, and have it sealed anew."""
    place.write([0])
    (segment,) = place.segments()
    old = load_key_file(str(place.key))
    promote(place)
    place.segments()[0].unlink()
    place.note_end(0)
    place.write([1])
    recorded = segment.read_bytes()
    secret = message(1)
    known = bytes(len(secret))
    keys = VolumeKeys(old, bytes.fromhex(place.lane), 0)
    segment.write_bytes(keys.seal(0, [BlockEntry(1, 2, 0, known)], parse_block_header(recorded).nonce))
    reseal(place)
    anew = segment.read_bytes()
    assert anew[48:60] == recorded[48:60], "the nonce stays"
    at = slice(64 + RECORD_BYTES, -16)
    assert bytes(a ^ b ^ c for a, b, c in zip(recorded[at], anew[at], known, strict=True)) != secret


def test_a_reader_that_has_a_volume_open_reads_on(place: Place) -> None:
    """J-16: also when the older key is gone meanwhile."""
    write_volumes(place, 3)
    records = place.reader.read(place.lane, 0, 15)
    assert next(records).offset == 0
    promote(place)
    reseal(place)
    retire(place)
    assert [record.offset for record in records] == list(range(1, 15))


def test_readers_and_recording_go_on_beside_it(place: Place) -> None:
    """J-16: every record is there once, whenever it came."""
    write_volumes(place, 20)
    promote(place)
    seen: list[list[int]] = []
    with place.writer(volume_bytes=SMALL) as writer:
        done = threading.Event()

        def record() -> None:
            number = 100
            while not done.is_set() or number < 150:
                writer.record(SUBJECT, incoming([number], size=5000))
                number += 1

        def read() -> None:
            while not done.is_set() or not seen:
                seen.append(place.numbers(0, 100))

        threads = [threading.Thread(target=record), threading.Thread(target=read)]
        for thread in threads:
            thread.start()
        assert list(writer.reseal())
        done.set()
        for thread in threads:
            thread.join()
    assert all(numbers == list(range(100)) for numbers in seen)
    assert held(place) == Held(0, 0)
    retire(place)
    numbers = place.numbers()
    assert numbers == list(range(len(numbers)))
    assert len(numbers) >= 150


def test_what_is_recorded_while_a_volume_is_sealed_anew_is_in_it(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """J-16: after it was written beside, and before it is put in place."""
    with place.writer() as writer:
        writer.record(SUBJECT, incoming([0]))
        promote(place)
        recorded, real = [1], os.fsync

        def record_before(fd: int) -> None:
            real(fd)
            if recorded:
                writer.record(SUBJECT, incoming([recorded.pop()]))

        monkeypatch.setattr(os, "fsync", record_before)
        list(writer.reseal())
        monkeypatch.undo()
        writer.record(SUBJECT, incoming([2]))
    assert recorded == []
    retire(place)
    assert place.numbers() == [0, 1, 2]


def test_state_files_of_topics_are_sealed_anew(place: Place) -> None:
    """J-16, D-2."""
    place.write([0])
    lane, ring = bytes.fromhex(place.lane), load_key_file(str(place.key))
    states = {"settings": {"parent": "x"}, "producers": {"end": 1}, cursor_name("billing"): {"cursor": 7}}
    for name, value in states.items():
        (place.directory / place.lane / name).write_bytes(seal_state(value, lane, name, ring))
    promote(place)
    assert held(place).files == 6
    reseal(place)
    retire(place)
    ring = load_key_file(str(place.key))
    for name, value in states.items():
        assert open_state((place.directory / place.lane / name).read_bytes(), lane, name, ring) == value


def test_rights_stay_in_the_root_of_a_group(place: Place) -> None:
    """J-16, R-29: what is the group's, and what is its host's alone."""
    place.write([0])
    lane, ring = place.directory / place.lane, load_key_file(str(place.key))
    (lane / "settings").write_bytes(seal_state({}, bytes.fromhex(lane.name), "settings", ring))
    lane.chmod(0o2770)
    rights = {"settings": 0o600, "end": 0o660, "description": 0o660, "000000000000.segment": 0o660}
    for name, mode in rights.items():
        (lane / name).chmod(mode)
    promote(place)
    assert len(reseal(place)) == 4
    assert {path.name: path.stat().st_mode & 0o777 for path in lane.iterdir()} == rights


def test_removed_lanes_are_remembered(place: Place) -> None:
    """J-16, J-14."""
    place.write([0])
    gone = place.lane
    with place.writer() as writer:
        writer.remove(SUBJECT)
        writer.record(SUBJECT, incoming([1]))
    promote(place)
    reseal(place)
    retire(place)
    assert place.reader.removed() == {gone: 1}


def test_a_cut_lane_is_sealed_anew_and_stays_cut(place: Place) -> None:
    """J-16, J-12."""
    place.write(range(3), [3, 4])
    (segment,) = place.segments()
    whole = segment.read_bytes()
    segment.write_bytes(whole[: whole.rfind(b"SPJB")])
    promote(place)
    reseal(place)
    retire(place)
    with pytest.raises(JournalDamagedError, match="written to offset 5, and ends at 3"):
        place.numbers()
    assert place.numbers(0, 3) == [0, 1, 2]


def test_a_lane_of_version_1_stays_one(place: Place) -> None:
    """J-16, J-2."""
    place.write(range(3))
    lane = place.directory / place.lane
    (lane / "end").unlink()
    old = Description(SUBJECT, has_end=False)
    ring = load_key_file(str(place.key))
    (lane / "description").write_bytes(seal_description(old, bytes.fromhex(lane.name), ring, secrets.token_bytes(12)))
    promote(place)
    reseal(place)
    retire(place)
    assert (lane / "description").read_bytes()[4] == 1
    assert place.numbers() == [0, 1, 2]


# --- damage ---


def damage(place: Place, number: int) -> tuple[int, int]:
    """One bit of a block; where it begins and ends."""
    (segment,) = place.segments()
    data = bytearray(segment.read_bytes())
    starts = [at for at in range(len(data)) if data.startswith(b"SPJB", at)] + [len(data)]
    start, end = starts[number : number + 2]
    data[end - 1] ^= 1
    segment.write_bytes(data)
    return start, end


def test_a_damaged_block_is_named_and_stays_damaged_when_the_key_is_gone(place: Place) -> None:
    """J-16: it is passed as before, and nobody asks for a key that could not open it."""
    place.write([0], [1], [2])
    start, end = damage(place, 1)
    (segment,) = place.segments()
    before = segment.read_bytes()
    promote(place)
    (found,) = (one for one in reseal(place) if one.trouble)
    assert found.path == f"{place.lane}/{segment.name}"
    assert (found.size, found.trouble) == (len(before) - (end - start), f"damaged at byte {start}")
    assert segment.read_bytes()[start + 64 : end] == before[start + 64 : end]
    assert held(place) == Held(0, 0)
    retire(place)
    assert place.numbers(skip_damaged=True) == [0, 2]
    with pytest.raises(JournalDamagedError, match="not authentic"):
        place.numbers()


def test_damaged_blocks_side_by_side_hold_no_key_back(place: Place) -> None:
    """J-16."""
    place.write([0], [1], [2], [3])
    damage(place, 1)
    damage(place, 2)
    promote(place)
    reseal(place)
    assert held(place) == Held(0, 0)
    assert reseal(place) == []
    retire(place)
    assert place.numbers(skip_damaged=True) == [0, 3]


def test_a_volume_of_which_no_block_opens_holds_no_key_back(place: Place) -> None:
    """J-16: it is named once, and looked at again only when keys change again."""
    place.write([0])
    damage(place, 0)
    promote(place)
    assert [one.trouble for one in reseal(place) if not one.size] == ["damaged at byte 0"]
    assert held(place) == Held(0, 0)
    assert reseal(place) == []
    promote(place)
    assert [one.trouble for one in reseal(place) if not one.size] == ["damaged at byte 0"]


def test_bytes_that_are_no_block_stay_as_they_are_and_what_is_behind_them_is_sealed_anew(place: Place) -> None:
    """J-16: the first such place is named."""
    place.write([0], [1], [2], [3], [4])
    (segment,) = place.segments()
    data, noise = bytearray(segment.read_bytes()), b"noise" * 20
    starts = [at for at in range(len(data)) if data.startswith(b"SPJB", at)]
    for start in (starts[1], starts[3]):
        data[start : start + 100] = noise
    segment.write_bytes(data)
    promote(place)
    (found,) = (one for one in reseal(place) if one.trouble)
    assert found.trouble == f"damaged at byte {starts[1]}"
    assert [segment.read_bytes()[start : start + 100] for start in (starts[1], starts[3])] == [noise, noise]
    assert held(place) == Held(0, 0)
    retire(place)
    assert place.numbers(skip_damaged=True) == [0, 2, 4]


@pytest.mark.parametrize("shift", [1, 30, 100])
def test_a_block_that_somebody_laid_into_another_changes_no_size(place: Place, shift: int) -> None:
    """J-16."""
    place.write([0], [1], [2])
    _, end = damage(place, 1)
    (segment,) = place.segments()
    data = segment.read_bytes()
    laid = data[: end - shift] + data[end:]
    segment.write_bytes(laid)
    promote(place)
    reseal(place)
    assert segment.stat().st_size == len(laid)
    assert held(place) == Held(0, 0)
    retire(place)
    # By chance the next block begins with the bytes that were taken: then this one is whole, and that one is not.
    is_whole = data[end - shift : end] == data[end : end + shift]
    assert place.numbers(skip_damaged=True) == ([0, 1] if is_whole else [0, 2])


def test_a_torn_rest_stays(place: Place) -> None:
    """J-16, J-6: and the next record is written over it, as ever."""
    place.write([0], [1])
    place.note_end(1)
    (segment,) = place.segments()
    torn = segment.read_bytes()[:-1]
    segment.write_bytes(torn)
    promote(place)
    assert [one.trouble for one in reseal(place) if one.trouble] == []
    assert segment.read_bytes()[torn.rfind(b"SPJB") :] == torn[torn.rfind(b"SPJB") :]
    assert held(place) == Held(0, 0)
    retire(place)
    assert place.numbers() == [0]
    place.write([2])
    assert place.numbers() == [0, 2]


@pytest.mark.parametrize("name", ["description", "end", "removed", "settings"])
def test_a_damaged_file_is_named_and_stays_damaged_when_the_key_is_gone(place: Place, name: str) -> None:
    """J-16: the journal is read all the same, and nobody asks for a key that could not open it."""
    place.write([0])
    with place.writer() as writer:
        writer.record(SUBJECT._replace(source="other"), incoming([0]))
        writer.remove(SUBJECT._replace(source="other"))
    ring, lane = load_key_file(str(place.key)), bytes.fromhex(place.lane)
    (place.directory / lane.hex() / "settings").write_bytes(seal_state({}, lane, "settings", ring))
    path = place.directory / ("" if name == "removed" else lane.hex()) / name
    path.write_bytes(path.read_bytes()[:-1])
    promote(place)
    (found,) = (one for one in reseal(place) if one.trouble)
    assert found.path.endswith(name)
    assert "BAD_JOURNAL" in found.trouble
    assert held(place) == Held(0, 0)
    retire(place)
    lanes, damaged = place.reader.survey()
    assert (len(lanes), len(damaged)) == ((0, 1) if name == "description" else (1, 0))


@pytest.mark.parametrize("left", [b"", b"damaged", bytes(40)], ids=["empty", "short", "zeros"])
def test_a_file_that_names_no_key_stays_as_it_is(place: Place, left: bytes) -> None:
    """J-16: it is named with each run."""
    place.write([0])
    end = place.directory / place.lane / "end"
    end.write_bytes(left)
    promote(place)
    for _ in range(2):
        (found,) = (one for one in reseal(place) if one.trouble)
        assert found.path.endswith("end")
        assert end.read_bytes() == left


def test_what_a_key_seals_that_is_not_there_is_named_and_stays(place: Place) -> None:
    """J-16."""
    place.write([0])
    before = {path: path.read_bytes() for path in place.directory.rglob("*") if path.is_file()}
    write_key_file(str(place.key), (secrets.token_bytes(32), secrets.token_bytes(32)), replace=True)
    troubles = [one.trouble for one in reseal(place)]
    assert len(troubles) == 3
    assert all("is not in the key file" in one for one in troubles)
    assert {path: path.read_bytes() for path in place.directory.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("name", ["end", "000000000000.segment"])
def test_no_link_is_followed(place: Place, tmp_path: Path, name: str) -> None:
    """J-16, L-10."""
    place.write([0])
    path = place.directory / place.lane / name
    other = tmp_path / "other"
    path.rename(other)
    os.link(other, path)
    before = other.read_bytes()
    promote(place)
    (found,) = (one for one in reseal(place) if one.trouble)
    assert found.path.endswith(name)
    assert other.read_bytes() == before
    assert held(place).files == 0


def test_a_sparse_giant_costs_no_more_than_its_bound(place: Place) -> None:
    """J-16, J-6: what lies beyond is a hole again."""
    place.write([0])
    (segment,) = place.segments()
    os.truncate(segment, 100 * LARGEST_BYTES)
    promote(place)
    reseal(place)
    assert segment.stat().st_size == 100 * LARGEST_BYTES
    assert segment.stat().st_blocks * 512 <= 2 * LARGEST_BYTES
    retire(place)
    assert place.numbers() == [0]


# --- ending early ---

KILLED = """
import os, signal, sys
from speed.journal.writer import JournalWriter

def seal_anew(left):
    def dying(real):
        def call(*args, **kwargs):
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **kwargs)
        return call

    with JournalWriter(sys.argv[1], sys.argv[2]) as writer:
        for name in ("write", "fsync", "rename", "unlink", "ftruncate"):
            setattr(os, name, dying(getattr(os, name)))
        for _ in writer.reseal():
            pass

for line in sys.stdin:
    child = os.fork()
    if not child:
        seal_anew(int(line))
        os._exit(0)
    print(os.WIFSIGNALED(os.waitpid(child, 0)[1]), flush=True)
"""
"""Has a process of its own seal a journal anew, which is killed at a call that changes files: its number is read."""


@pytest.fixture
def killed_at(place: Place) -> Iterator[Callable[[int], bool]]:
    """Whether a process that seals anew came to the call of this number, and was killed there."""
    command = [sys.executable, "-c", KILLED, str(place.directory), str(place.key)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def ask(number: int) -> bool:
            print(number, file=process.stdin, flush=True)
            answer = process.stdout.readline() if process.stdout else ""
            assert answer in ("True\n", "False\n")
            return answer == "True\n"

        yield ask
        process.stdin.close()


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_everything_readable_and_the_next_run_finishes(
    place: Place, killed_at: Callable[[int], bool]
) -> None:
    """J-16: with both keys; and nothing is left beside."""
    write_volumes(place, 2)
    promote(place)
    copy = Path(shutil.copytree(place.directory, place.path / "copy"))
    number = 1
    while killed_at(number):
        assert place.numbers() == list(range(10))
        reseal(place)
        assert held(place) == Held(0, 0)
        assert not list(place.directory.rglob(".tmp-*"))
        keys = read_keys(str(place.key))
        retire(place)
        assert place.numbers() == list(range(10))
        write_key_file(str(place.key), keys, replace=True)
        shutil.rmtree(place.directory)
        shutil.copytree(copy, place.directory)
        number += 1
    assert number > 20


def test_a_run_ends_when_the_keys_change_and_writes_nothing_under_a_key_that_went(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """J-16: the next run does the rest."""
    write_volumes(place, 3)
    promote(place)
    with place.writer() as writer:
        run = writer.reseal()
        next(run)
        promote(place)
        writer._keys.look()
        with monkeypatch.context() as patched:
            patched.delattr(os, "write")
            assert list(run) == []
        assert len(list(writer.reseal())) == 5
    retire(place)
    assert place.numbers() == list(range(15))


def test_a_writer_that_was_closed_puts_nothing_in_place(place: Place) -> None:
    """J-16, J-1: another process may have it."""
    write_volumes(place, 3)
    promote(place)
    writer = place.writer()
    run = writer.reseal()
    next(run)
    writer.close()
    before = {path: path.stat().st_ino for path in place.directory.rglob("*")}
    assert list(run) == []
    assert {path: path.stat().st_ino for path in place.directory.rglob("*")} == before
    with pytest.raises(JournalError, match="was closed"):
        list(writer.reseal())


def test_what_retention_removes_meanwhile_does_not_come_back(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """J-16, J-8: a volume between its being written beside and its being put in place; and lanes that went."""
    write_volumes(place, 2)
    promote(place)
    with place.writer() as writer:
        removing, real = [5], os.fsync

        def remove_before(fd: int) -> None:
            real(fd)
            if removing:
                writer.remove_before(place.lane, removing.pop())

        monkeypatch.setattr(os, "fsync", remove_before)
        list(writer.reseal())
        monkeypatch.undo()
    assert [path.name for path in place.segments()] == ["000000000005.segment"]
    assert not list(place.directory.rglob(".tmp-*"))


def test_a_volume_that_went_since_it_was_listed_is_passed(place: Place) -> None:
    """J-16."""
    write_volumes(place, 2)
    promote(place)
    with place.writer() as writer:
        run = writer.reseal()
        first = next(run)
        writer.remove(SUBJECT)
        rest = list(run)
    assert first.path.endswith("000000000000.segment")
    assert [one for one in rest if one.size and one.path.endswith(".segment")] == []


def test_a_lane_that_went_since_it_was_listed_is_passed(place: Place) -> None:
    """J-16."""
    subjects = [SUBJECT, SUBJECT._replace(source="other")]
    with place.writer() as writer:
        for subject in subjects:
            writer.record(subject, incoming([0]))
        promote(place)
        run = writer.reseal()
        first = next(run).path.partition("/")[0]
        (gone,) = (subject for subject in subjects if writer.end(subject).lane != first)
        writer.remove(gone)
        assert {one.path.partition("/")[0] for one in run} == {first}


def test_a_volume_from_which_a_block_was_taken_back_meanwhile_is_not_put_in_place(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """J-16, J-6: what could not be recorded whole is in no copy."""
    place.write([0], [1])
    (segment,) = place.segments()
    promote(place)
    real = os.fsync

    def take_back_before(fd: int) -> None:
        real(fd)
        os.truncate(segment, segment.read_bytes().rfind(b"SPJB"))

    monkeypatch.setattr(os, "fsync", take_back_before)
    with pytest.raises(StorageError, match="taken back"):
        reseal(place)
    monkeypatch.undo()
    assert place.numbers(0, 1) == [0]
    assert not list(place.directory.rglob(".tmp-*"))


def test_where_only_one_key_is_left_nothing_is_sealed_anew(place: Place) -> None:
    """J-16: what others sealed cannot be opened any more."""
    place.write([0])
    promote(place)
    retire(place)
    assert reseal(place) == []


def test_a_disk_without_room_is_told_and_leaves_what_was_there(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """J-16."""
    write_volumes(place, 1)
    promote(place)

    def full(fd: int, data: object) -> int:
        raise OSError(28, "No space left on device")

    with place.writer() as writer:
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(StorageError, match="No space left"):
            list(writer.reseal())
        monkeypatch.undo()
        assert not list(place.directory.rglob(".tmp-*"))
        assert place.numbers() == list(range(5))
        assert list(writer.reseal())


# --- what older keys seal ---


def test_what_a_key_seals_is_counted_file_by_file(place: Place) -> None:
    """J-16: headers tell; a file that both keys sealed is under both."""
    write_volumes(place, 2)
    assert held(place) == Held(0, 0)
    promote(place)
    everything = sum(path.stat().st_size for path in place.directory.rglob("*") if path.is_file())
    assert held(place) == Held(4, everything)
    place.write([10])
    assert held(place).files == 3
    reseal(place)
    assert held(place) == Held(0, 0)


def test_nothing_is_held_where_there_is_no_journal(place: Place) -> None:
    assert held(place) == Held(0, 0)


def test_a_journal_that_cannot_be_looked_at_is_told(place: Place) -> None:
    place.directory.write_bytes(b"")
    with pytest.raises(StorageError, match="cannot be looked at"):
        held(place)


def test_without_sealing_anew_the_older_key_is_needed(place: Place) -> None:
    """What the other tests rest on."""
    place.write([0])
    promote(place)
    retire(place)
    with pytest.raises(KeyFileError):
        place.numbers()


def test_a_lane_that_is_removed_takes_along_what_a_killed_run_left(place: Place) -> None:
    """J-1."""
    place.write([0])
    (place.directory / place.lane / ".tmp-000000000000.segment").write_bytes(b"half")
    with JournalWriter(place.directory, place.key) as writer:
        writer.remove(SUBJECT)
    assert [path.name for path in place.directory.iterdir() if path.is_dir()] == []
