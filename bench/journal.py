"""The journal's rates: ``python -m bench.journal [--json] [--messages N]``.

One process sends, as fast as it can; the recorder of this one records; then all is read, undecoded and decoded.
Files lie in memory, so that the figures are of the code and not of a disk.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from speed.fs.keyfile import write_key_file
from speed.journal import Journal, Record
from speed.journal.recording import Recorder, RecordingRule
from speed.journal.writer import JournalWriter

FLIGHT = {
    "carrier": "UA", "flight": 1545, "origin": "EWR", "dest": "IAH",
    "dep_delay": 2.0, "arr_delay": 11.0, "distance": 1400,
}  # fmt: skip
SENDER = """
import json, sys, speed
root, count, flight = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
with speed.Node("sender", root=root, key=f"{root}/speed.key") as node:
    node.wait_for("orders")
    node.send_all("orders", [flight] * count, timeout=60)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--messages", type=int, default=200_000)
    asked = parser.parse_args()
    root = tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    try:
        found = measure(Path(root), asked.messages)
    finally:
        shutil.rmtree(root)
    if asked.json:
        print(json.dumps(found))
    else:
        print("\n".join(f"{name:>24} {value:>12,}" if name != "engine" else f"{name:>24} {value:>12}"
                        for name, value in found.items()))  # fmt: skip


def measure(root: Path, count: int) -> dict[str, object]:
    """Records, then reads, ``count`` messages."""
    key = root / "speed.key"
    write_key_file(str(key), (secrets.token_bytes(32),))
    journal = Journal(root / "journal", key)
    with JournalWriter(journal.directory, key) as writer:
        recorder = Recorder(writer, RecordingRule((), ("orders",), ("sender",)), "journal", root=root, key=key)
        try:
            recording = record(root, journal, count)
        finally:
            engine = recorder.nodes[0].engine
            recorder.close()
    (lane,) = journal.lanes()
    size = sum(path.stat().st_size for path in Path(journal.directory, lane.id).iterdir())
    return {
        "engine": engine,
        "messages": count,
        "recorded/s": recording,
        "read/s": reading(journal, lane.id, count, lambda record: None),
        "read, metadata/s": reading(journal, lane.id, count, lambda record: record.view.topic),
        "read, payload/s": reading(journal, lane.id, count, lambda record: record.view.payload),
        "bytes a message": round(size / count),
    }


def record(root: Path, journal: Journal, count: int) -> int:
    """Messages a second, from the first one in the journal to the last."""
    sender = subprocess.Popen([sys.executable, "-c", SENDER, str(root), str(count), json.dumps(FLIGHT)])
    while (begun := total(journal)) == 0 and sender.poll() is None:
        time.sleep(0.001)
    began = time.perf_counter()
    while (done := total(journal)) < count and not sender.poll():
        time.sleep(0.002)
    rate = (done - begun) / (time.perf_counter() - began)
    if sender.wait() or done < count:
        raise SystemExit(f"only {done} of {count} messages were recorded")
    return round(rate)


def total(journal: Journal) -> int:
    return sum(journal.end(info.id) for info in journal.lanes()) if Path(journal.directory).is_dir() else 0


def reading(journal: Journal, lane: str, count: int, look: Callable[[Record], object]) -> int:
    """Records a second."""
    began = time.perf_counter()
    seen = 0
    for one in journal.read(lane, 0, count):
        look(one)
        seen += 1
    if seen != count:
        raise SystemExit(f"only {seen} of {count} records were read")
    return round(seen / (time.perf_counter() - began))


if __name__ == "__main__":
    main()
