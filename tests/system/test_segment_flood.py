"""First segments that never go on, through a node: what it holds of them stays within its limits (G-15, G-16).

``SEGMENT_FLOOD=1000000 pytest -s tests/system/test_segment_flood.py`` is the figure of docs/howto/large-payloads.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import islice
from time import monotonic
from typing import Any

import pytest

from speed.segment import Segment, Splitter, write_segment
from speed.wire.envelope import FLAG_SEGMENT, EnvelopeType
from speed.wire.limits import MAX_SENDER_RECONSTRUCTIONS
from speed.wire.names import segments_dir
from tests.system.segments import WAIT, Outsider, engine, message

COUNT = int(os.environ.get("SEGMENT_FLOOD", "3000"))
WARMING = 500
PART_BYTES = 1000
GROWTH_KIB = 16 << 10
INDEX_BYTES = 8 << 20
"""What a store's index may take, its log included."""
PATIENCE = 600.0
RECEIVER = """
import sys, speed
def resident():
    return next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmRSS"))
node = speed.Node("billing", root=sys.argv[1], allow=["analytics"], engine=sys.argv[2])
node.on_message(lambda message: print("handled", len(message.payload)))
print("up", node.engine)
for line in sys.stdin:
    print(resident())
"""


def first_segments() -> Iterator[bytes]:
    """Each of another payload, which none of the others belongs to."""
    number = 0
    while True:
        number += 1
        yield write_segment(Segment(number.to_bytes(32, "big"), 200, 0, 0, False, bytes(PART_BYTES)))


def flood(outsider: Outsider, segments: Iterator[bytes], count: int) -> None:
    link = engine(outsider.node)._parts.links.granted("billing")
    for begin in range(0, count, 64):
        batch = list(islice(segments, min(64, count - begin)))
        link.send_all(EnvelopeType.MESSAGE, FLAG_SEGMENT, batch, monotonic() + PATIENCE)


def on_disk(directory: str) -> tuple[int, int]:
    """How many payloads are held, and how many bytes that takes with the index."""
    with os.scandir(directory) as entries:
        sizes = {entry.name: entry.stat().st_size for entry in entries}
    return sum(name.endswith(".shards") for name in sizes), sum(sizes.values())


@pytest.mark.timeout(0)
def test_a_flood_of_first_segments_grows_neither_memory_nor_disk(
    root: str, kind: str, outsider: Outsider, child: Callable[..., Any]
) -> None:
    receiver = child(RECEIVER, root, kind)
    assert receiver.line() == f"up {kind}"

    def resident_kib() -> int:
        outsider.node.ping("billing", timeout=PATIENCE)  # answered behind all that was written
        receiver.tell("")
        return int(receiver.line())

    segments = first_segments()
    flood(outsider, segments, WARMING)
    before = resident_kib()
    flood(outsider, segments, COUNT)
    grown = resident_kib() - before
    held, size = on_disk(segments_dir(root, "billing"))
    print(f"{kind}: {COUNT} first segments, memory +{grown} KiB, {held} payloads and {size} bytes on disk")
    assert grown <= GROWTH_KIB
    assert held == MAX_SENDER_RECONSTRUCTIONS
    assert size <= INDEX_BYTES + held * 2 * PART_BYTES
    evicted = outsider.node.stats("billing", timeout=WAIT)["counters"]["segments_evicted"]
    assert evicted == WARMING + COUNT - held
    outsider.write(list(Splitter(64).split(message(b"unharmed" * 100))))
    assert receiver.line() == "handled 800"
