"""Segments: ``bench/run --only segment [--quick] [--json]``, or ``python -m bench.segment``.

What the libraries do in memory, and a large file between two processes; each figure beside its target. Figures in
MB/s are of the payload. The same by processor time stands beside them, and counts as well: a busy machine spoils the
first, not the second.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench import segment_others
from bench.figure import Figure, line
from speed import __version__
from speed.engine import why_unusable
from speed.fs.keyfile import write_key_file
from speed.segment import Assembler, Limits, Segment, Splitter, keccak256, write_segment
from speed.segment.form import Memory
from speed.segment.parity import Decoder, ParityEncoder, cut

ENGINES = ("python",) if why_unusable(__version__) else ("python", "native")
PEAK = """
def peak(reset):
    if reset:
        open("/proc/self/clear_refs", "w").write("5")
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
"""
RECEIVER = f"""{PEAK}
import hashlib, sys, threading, speed
done, root = threading.Event(), sys.argv[1]
def take(message):
    state = hashlib.blake2b()
    while data := message.payload.read(1 << 20):
        state.update(data)
    done.set()
with speed.Node("receiver", root=root, allow=["sender"], engine=sys.argv[2]) as node:
    node.on_message(take)
    before = peak(True)
    print("ready", flush=True)
    done.wait()
    print(peak(False) - before, flush=True)
"""
SENDER = f"""{PEAK}
import sys, time, speed
with speed.Node("sender", root=sys.argv[1], engine=sys.argv[3]) as node, open(sys.argv[2], "rb") as file:
    node.wait_for("receiver")
    before, began = peak(True), time.perf_counter()
    node.send("receiver", file, ack=True, timeout=300)
    print(time.perf_counter() - began, peak(False) - before, flush=True)
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench/run --only segment", description=__doc__)
    parser.add_argument("--only", choices=["segment"], default="segment")
    parser.add_argument("--quick", action="store_true", help="smaller payloads, fewer rounds")
    parser.add_argument("--json", action="store_true", help="print JSON")
    asked, _ = parser.parse_known_args()
    figures = []
    for figure in measure(16 if asked.quick else 64, 100 if asked.quick else 500, 20_000 if asked.quick else 1_000_000):
        figures.append(figure)
        if not asked.json:
            print(line(figure), flush=True)
    if asked.json:
        print(json.dumps([{**figure._asdict(), "reached": figure.reached} for figure in figures]))
    return 0 if all(figure.reached for figure in figures) else 1


def measure(megabytes: int, file_megabytes: int, flood: int) -> Iterator[Figure]:
    """All figures, one after the other."""
    payload = random.Random(1).randbytes(megabytes * 1_000_000)
    yield rate("Keccak-256 alone", payload, lambda: keccak256(payload))
    plain, coded = Splitter(1 << 20, 0), Splitter(1 << 20)
    yield rate("segments, no parity, hash apart", payload, lambda: cut_only(plain, payload), 400)
    yield rate("segments, no parity, with the hash", payload, lambda: written(plain, payload))
    yield from parity(megabytes)
    yield rate("segments with parity 0.125 and the hash", payload, lambda: written(coded, payload), 150)
    yield rate("put together, an eighth lost", payload, lambda: lossy(coded, payload))
    yield from segment_others.measure(megabytes)
    for engine in ENGINES:
        yield from between_processes(file_megabytes, engine)
    yield flooded(flood)


def rate(name: str, payload: bytes, work: Callable[[], object], target: float | None = None) -> Figure:
    """The best of five, in MB/s."""
    walls, processors = [], []
    for _ in range(5):
        wall, processor = time.perf_counter(), time.process_time()
        work()
        walls.append(time.perf_counter() - wall)
        processors.append(time.process_time() - processor)
    size = len(payload) / 1e6
    return Figure(name, size / min(walls), "MB/s", target, processor=size / min(processors))


def written(splitter: Splitter, payload: bytes) -> None:
    for segment in splitter.split(payload):
        write_segment(segment)


def cut_only(splitter: Splitter, payload: bytes) -> None:
    """As ``written``, with a hash that costs nothing."""
    for segment in cut(Memory(payload), splitter.shape(len(payload)), bytes(32)):
        write_segment(segment)


def parity(megabytes: int) -> Iterator[Figure]:
    import numpy as np

    for data, shards in ((64, 8), (224, 28), (226, 28)):
        width = megabytes * 1_000_000 // data // 64 * 64
        rows = np.frombuffer(random.Random(2).randbytes(data * width), np.uint8).reshape(data, width)
        encoder = ParityEncoder(data, shards)
        yield rate(f"parity alone, {data} + {shards}", rows.tobytes(), lambda e=encoder, r=rows: e.encode(r))  # type: ignore[misc]
        made, held = encoder.encode(rows), rows.copy()
        held[:shards] = 0
        decoder = Decoder(data, shards, range(shards), range(shards))
        yield rate(
            f"decoding alone, {data} + {shards}, {shards} lost",
            rows.tobytes(),
            lambda d=decoder, h=held, m=made: d.decode(h, m),  # type: ignore[misc]
        )


def lossy(splitter: Splitter, payload: bytes) -> None:
    assembler = Assembler()
    segments = list(splitter.split(payload))
    for segment in segments[len(segments) - segments[0].data_count :]:
        outcome = assembler.receive("a", write_segment(segment), 0)
    assert outcome.payload == payload


def between_processes(megabytes: int, engine: str) -> Iterator[Figure]:
    """A file from one process to another, acknowledged; what each side's memory grew by."""
    root = Path(tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
    try:
        write_key_file(str(root / "speed.key"), (secrets.token_bytes(32),))
        big = root / "big"
        with open(big, "wb") as file:
            file.writelines(os.urandom(1_000_000) for _ in range(megabytes))
        command = [sys.executable, "-c", RECEIVER, str(root), engine]
        receiver = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert receiver.stdout is not None
        receiver.stdout.readline()
        told = subprocess.run(
            [sys.executable, "-c", SENDER, str(root), str(big), engine], check=True, capture_output=True, text=True
        )
        seconds, sender_kib = map(float, told.stdout.split())
        receiver_kib = float(receiver.stdout.readline())
        receiver.wait()
    finally:
        shutil.rmtree(root)
    yield Figure(f"a file of {megabytes} MB, {engine} engine, acknowledged", megabytes / seconds, "MB/s")
    yield Figure("  memory that it took, sender", sender_kib / 1024, "MiB", 64, most=True)
    yield Figure("  memory that it took, receiver", receiver_kib / 1024, "MiB", 64, most=True)


def flooded(count: int) -> Figure:
    """First segments that never go on: what a receiver in memory still holds."""
    assembler = Assembler(Limits(sender_buffered_bytes=1 << 20))
    for number in range(count):
        first = Segment(number.to_bytes(32, "big"), 200, 0, 0, False, bytes(1000))
        assembler.receive("flood", write_segment(first), number / 1000)
    held = sum(len(part) for shards in assembler._shards.values() for part in shards.parts.values())
    return Figure(f"held after {count:,} bogus first segments", held / 1000, "kB", 1 << 10, most=True)


if __name__ == "__main__":
    sys.exit(main())
