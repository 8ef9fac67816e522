"""Dead letters on disk (S-18)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from speed.errors import StorageError, WireError
from speed.fs import dead_letters
from speed.fs.dead_letters import DeadLetter, DeadLetters, LetterFile
from speed.wire.seal import Keyring

RING = Keyring((bytes(32),))


def letter(payload: bytes = b"hello") -> DeadLetter:
    return DeadLetter("MESSAGE", "analytics", 1 << 40 | 9, 1000, 5, "EXECUTION_FAILED", "boom", 2000, len(payload))


@pytest.fixture
def letters(tmp_path: Path) -> DeadLetters:
    (tmp_path / "billing").mkdir(mode=0o700)
    return DeadLetters(str(tmp_path), "billing", RING)


def test_a_node_that_never_failed_has_no_letters(letters: DeadLetters) -> None:
    """S-18."""
    assert letters.kept() == []


def test_what_is_kept_is_read_back(letters: DeadLetters) -> None:
    """S-18."""
    assert letters.add(letter(), [b"hello"], 5) == 1
    assert letters.add(letter(), [b"hello"], 5, durable=True) == 2
    head, pieces = letters.read(2)
    assert (head, b"".join(pieces)) == (letter(), b"hello")


def test_nothing_of_a_letter_is_readable_without_the_key(letters: DeadLetters, tmp_path: Path) -> None:
    """S-18."""
    letters.add(letter(), [b"hello"], 5)
    (file,) = (tmp_path / "billing" / "dead").iterdir()
    assert not any(word in file.read_bytes() for word in (b"hello", b"analytics", b"boom"))
    assert file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(WireError, match="UNKNOWN_KEY"):
        DeadLetters(str(tmp_path), "billing", Keyring((bytes([1]) * 32,))).read(1)


def test_a_number_is_not_used_again_while_a_later_one_is_there(letters: DeadLetters) -> None:
    """S-18."""
    assert [letters.add(letter(), [b"hello"], 5) for _ in range(3)] == [1, 2, 3]
    assert letters.drop(2)
    assert letters.add(letter(), [b"hello"], 5) == 4
    assert not letters.drop(2)


def test_a_letter_is_asked_for_again_once(letters: DeadLetters) -> None:
    """S-18."""
    letters.add(letter(), [b"hello"], 5)
    assert letters.move(1, "letter", "retry")
    assert not letters.move(1, "letter", "retry")
    assert [one.state for one in letters.kept()] == ["retry"]
    assert letters.read(1)[0] == letter()


def test_there_is_a_bound_in_number_and_in_bytes(letters: DeadLetters, monkeypatch: pytest.MonkeyPatch) -> None:
    """S-18."""
    monkeypatch.setattr(dead_letters, "MAX_DEAD_LETTERS", 2)
    assert [letters.add(letter(), [b"hello"], 5) for _ in range(3)] == [1, 2, None]
    monkeypatch.setattr(dead_letters, "MAX_DEAD_BYTES", 1000)
    monkeypatch.setattr(dead_letters, "MAX_DEAD_LETTERS", 9)
    assert letters.add(letter(), [b"hello"], 999) is None


def test_other_files_are_no_letters(letters: DeadLetters, tmp_path: Path) -> None:
    """S-18."""
    letters.add(letter(), [b"hello"], 5)
    for name in ("1.letter", "00000000.letter", "00000002.letters", ".tmp-00000003.letter", "notes.txt"):
        (tmp_path / "billing" / "dead" / name).write_text("x")
    assert [one.number for one in letters.kept()] == [1]


def test_a_link_is_not_followed(letters: DeadLetters, tmp_path: Path) -> None:
    """L-10."""
    letters.add(letter(), [b"hello"], 5)
    directory = tmp_path / "billing" / "dead"
    os.symlink(directory / "00000001.letter", directory / "00000002.letter")
    assert LetterFile(2, "letter", (directory / "00000002.letter").lstat().st_size) in letters.kept()
    with pytest.raises(StorageError):
        letters.read(2)


def test_a_write_that_fails_leaves_nothing(letters: DeadLetters, tmp_path: Path) -> None:
    """S-18."""

    def payload() -> Iterator[bytes]:
        yield b"he"
        raise OSError(28, "No space left on device")

    with pytest.raises(StorageError, match="No space"):
        letters.add(letter(), payload(), 5)
    assert list((tmp_path / "billing" / "dead").iterdir()) == []
