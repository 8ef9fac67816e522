"""What ``speed doctor`` finds of the durable topics in a root: files that are not what was written."""

from __future__ import annotations

import os
from collections.abc import Iterator

from speed.cli.finding import Finding
from speed.cli.output import bytes_text
from speed.errors import JournalError, KeyFileError, WireError
from speed.fs.keyfile import load_key_file
from speed.journal import Journal
from speed.journal.journal_lane import JournalLane
from speed.journal.reader import LaneInfo
from speed.topics.state import TopicState
from speed.wire.names import topics_dir
from speed.wire.seal import Keyring
from speed.wire.topic import COMPACTED, PRODUCERS, SETTINGS

MOST_BYTES = 1 << 30
"""Of messages that are read: more take longer than somebody waits."""
TODO = "restore it from a copy, or `speed topic seek` behind what is missing"


def topics(root: str, key: str) -> Iterator[Finding]:
    """One finding for each that is damaged, else one for all; none where there are no topics."""
    place = topics_dir(root)
    if not os.path.isdir(place):
        return
    journal, keyring = Journal(place, key), load_key_file(key)
    try:
        found, damaged = journal.survey()
    except JournalError as error:
        yield Finding("topics", "broken", str(error), "run as the owner of the topics")
        return
    yield from (Finding("topics", "broken", str(error), "restore it from a copy") for error in damaged.values())
    count = read = 0
    for info in found:
        whys = list(_damaged_states(place, info, keyring))
        size = _size(place, info)
        if read + size <= MOST_BYTES:
            read += size
            whys += _damaged_messages(journal, info)
        count += bool(whys)
        yield from (Finding("topics", "broken", f"topic {info.subject}: {why}", TODO) for why in whys)
    if not damaged and not count:
        yield Finding("topics", "ok", f"{len(found)}, of which {bytes_text(read)} were read")


def _damaged_states(place: str, info: LaneInfo, keyring: Keyring) -> Iterator[str]:
    state = TopicState(place, info.id, keyring, durable=False)
    try:
        for name in (SETTINGS, PRODUCERS, COMPACTED):
            try:
                state.get(name)
            except (OSError, WireError) as error:
                yield f"{name}: {error}"
        yield from (f"{name}: {why}" for name, why in state.cursors().items() if isinstance(why, str))
    finally:
        state.close()


def _size(place: str, info: LaneInfo) -> int:
    with JournalLane(place, info.id) as files:
        return sum(map(files.size, files.volumes()))


def _damaged_messages(journal: Journal, info: LaneInfo) -> list[str]:
    """The first damage of a topic."""
    try:
        for _ in journal.blocks(info.id, journal.first(info.id), journal.end(info.id)):
            pass
    except (JournalError, KeyFileError) as error:
        return [str(error)]
    return []
