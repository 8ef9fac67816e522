"""Things that are no ordinary files, where ordinary files are expected (L-10, L-17, L-20, R-1).

A round plants a symbolic link, a FIFO, a device, a directory, a hard link and a sparse file of a tebibyte, each as a
segment, a cursor, a fence, a slot, a lane directory and an entry, for a receiver of each language. What they lead to is
authentic: whoever follows or trusts it dispatches a trap, skips a sound message, or writes outside. Further lanes are
truncated and rewritten while they are read. Sound messages before and after all of it must arrive, nothing else.
"""

from __future__ import annotations

import os
import stat
import time
from collections import defaultdict
from pathlib import Path
from random import Random

from speed.fs.identity import identity
from speed.wire import names
from speed.wire.cursor import Cursor, Fence, encode_cursor, encode_fence
from speed.wire.entry import Entry, encode_entry
from tests.interop.harness import Agent
from tests.torture.ghost import Ghost, message
from tests.torture.scenario import Report, Scenario
from tests.torture.world import World, in_worlds

KINDS = ("symlink", "fifo", "device", "directory", "hard link", "sparse")
PLACES = ("segment", "cursor", "fence", "slot", "lane", "entry")
BY_RULE = {("hard link", "entry"), ("sparse", "cursor"), ("hard link", "lane"), ("sparse", "slot")}
"""Not wrong: an authentic entry counts under any name of its file, what follows a cursor is ignored (L-14), as is what
follows a payload in its slot (L-28); and no directory has two names."""
SLOT_BYTES = (1 << 20, 16 << 20)
TEBIBYTE = 1 << 40
SHAKES = 20
ARRIVAL_SECONDS = 10.0
MUTATED_SECONDS = 1.0
"""A broken promise is not waited for."""


class Round:
    """Everything once for each receiver; ``outside`` is the directory that nobody may touch."""

    def __init__(self, world: World, seed: int, report: Report) -> None:
        self.world, self.seed, self.report = world, seed, report
        self.random = Random(seed)
        self.outside = Path(world.root, f"outside-{seed}")
        self.outside.mkdir()
        self.expected: dict[str, list[str]] = defaultdict(list)
        self.ghosts: list[Ghost] = []

    def run(self) -> None:
        for agent in self.world.agents.values():
            for kind in KINDS:
                for place in PLACES:
                    if (kind, place) not in BY_RULE:
                        self.plant_at(place, kind, agent)
            before = _snapshot(self.outside)
            self.shake(self.ghost(agent))
            self.check_arrivals(agent)
            self.report.check(_snapshot(self.outside) == before, f"{agent!r} changed what a link leads to")
            listed = set(agent.ask("nodes"))
            known = {each.name for each in self.world.agents.values()}
            self.report.check(listed <= known, f"{agent!r} trusts the entries of {sorted(listed - known)}")
            self.clean(agent)

    # --- planting ---

    def plant_at(self, place: str, kind: str, agent: Agent) -> None:
        ghost = self.ghost(agent)
        if self.report.mutated:
            kind = "regular"
        getattr(self, f"_plant_{place}")(ghost, kind)
        self.report.add(f"{kind}s" if kind != "directory" else "directories")

    def ghost(self, agent: Agent) -> Ghost:
        name = f"t.h{self.seed}.{len(self.ghosts)}"
        self.ghosts.append(Ghost(self.world.root, name, agent.name, self.world.keyring, self.world.life_of(agent)))
        return self.ghosts[-1]

    def sound(self, ghost: Ghost) -> bytes:
        """An envelope that must arrive."""
        self.expected[ghost.files.source].append(f"sound {ghost.counter}")
        return ghost.message(f"sound {ghost.counter}")

    def _plant_segment(self, ghost: Ghost, kind: str) -> None:
        ghost.files.add_segment((1, 1), self.sound(ghost))
        self._plant(ghost.files.segment_path((1, 2)), kind, ghost.message("trapped"))
        ghost.files.add_segment((1, 3), self.sound(ghost))

    def _plant_cursor(self, ghost: Ghost, kind: str) -> None:
        """If it were trusted, the sound message would lie behind the reader."""
        far = Cursor(1, 1, 9, 0, 1 << 40 | 99, (), clean=True)
        self._plant_beside_sound(ghost, names.cursor_name(1), kind, encode_cursor(far, self._lane_key(ghost)))

    def _plant_fence(self, ghost: Ghost, kind: str) -> None:
        """If it were trusted, the sound message would be rejected."""
        fence = encode_fence(Fence(2, 1, 1, 0), self._lane_key(ghost))
        self._plant_beside_sound(ghost, names.fence_name(2), kind, fence)

    def _plant_slot(self, ghost: Ghost, kind: str) -> None:
        """Its envelope stands between two sound ones."""
        before = self.sound(ghost)
        trapped, slot = ghost.in_slot(message("trapped" + " " * self.random.randrange(*SLOT_BYTES)))
        self._plant_beside(before + trapped + self.sound(ghost), ghost, names.slot_name(1, 1), kind, slot)

    def _plant_beside_sound(self, ghost: Ghost, filename: str, kind: str, bait: bytes) -> None:
        self._plant_beside(self.sound(ghost), ghost, filename, kind, bait)

    def _plant_beside(self, data: bytes, ghost: Ghost, filename: str, kind: str, bait: bytes) -> None:
        """In a lane that appears whole, so that its reader finds the planted file at first sight."""
        lane, aside = ghost.files.path, Path(self.world.root, "aside")
        aside.mkdir(0o700)
        (aside / names.lane_file_name(1, 1)).write_bytes(data)
        self._plant(aside / filename, kind, bait)
        aside.rename(lane)
        ghost.files.ring()

    def _plant_lane(self, ghost: Ghost, kind: str) -> None:
        data = ghost.message("trapped")
        if kind in ("symlink", "regular"):
            elsewhere = self.outside / ghost.files.source
            elsewhere.mkdir(0o700)
            (elsewhere / names.lane_file_name(1, 1)).write_bytes(data)
            elsewhere.rename(ghost.files.path) if kind == "regular" else ghost.files.path.symlink_to(elsewhere)
        elif kind == "directory":
            (ghost.files.path / names.lane_file_name(1, 1)).mkdir(0o700, parents=True)
        else:
            self._plant(ghost.files.path, kind, data)
        ghost.files.ring()

    def _plant_entry(self, ghost: Ghost, kind: str) -> None:
        name, me = ghost.files.source, identity()
        now = time.monotonic_ns() // 1_000_000
        entry = Entry(
            name,
            1,
            me.pid,
            me.pid_start,
            me.pid_namespace,
            me.host,
            me.boot_id,
            1,
            1,
            now,
            60_000,
            5_000,
            allow=("t.*",),
        )
        data = encode_entry(entry, self.world.keyring.registry_key)
        self._plant(Path(names.entry_path(self.world.root, name)), kind, data)

    def _lane_key(self, ghost: Ghost) -> bytes:
        return self.world.keyring.lane_key(names.node_id(ghost.files.source), names.node_id(ghost.files.target))

    def _plant(self, path: Path, kind: str, bait: bytes) -> None:
        original = self.outside / f"bait-{len(self.ghosts)}"
        if kind in ("symlink", "hard link"):
            original.write_bytes(bait)
            original.chmod(0o600)
            path.symlink_to(original) if kind == "symlink" else os.link(original, path)
        elif kind == "fifo":
            os.mkfifo(path, 0o600)
        elif kind == "device":
            self._make_device(path)
        elif kind == "directory":
            path.mkdir(0o700)
        else:
            aside = Path(self.world.root, "aside-file")  # the receiver may move it away at once
            aside.write_bytes(bait)
            aside.chmod(0o600)
            if kind == "sparse":
                os.truncate(aside, TEBIBYTE)
            aside.rename(path)

    def _make_device(self, path: Path) -> None:
        """One that never ends: /dev/zero under another name."""
        try:
            os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))
        except PermissionError:
            self.report.add("devices that this user may not make")

    # --- reading while it changes ---

    def shake(self, ghost: Ghost) -> None:
        """Append, cut, overwrite, while the receiver is reading; then a new segment."""
        path = ghost.files.segment_path((1, 1))
        ghost.write(ghost.message("shaken"))
        for _ in range(SHAKES):
            ghost.write(b"".join(ghost.message("shaken" * self.random.randrange(300)) for _ in range(4)))
            size = path.stat().st_size
            with path.open("r+b") as file:
                file.seek(self.random.randrange(size))
                file.write(self.random.randbytes(self.random.randrange(200)))
                if self.random.random() < 0.5:
                    file.truncate(self.random.randrange(size))
            ghost.files.ring()
        self.report.add("times rewritten while read", SHAKES)
        ghost.files.add_segment((1, 2), self.sound(ghost))

    # --- what came of it ---

    def check_arrivals(self, agent: Agent) -> None:
        missing = {source: list(texts) for source, texts in self.expected.items()}
        self.expected.clear()
        deadline = time.monotonic() + (MUTATED_SECONDS if self.report.mutated else ARRIVAL_SECONDS)
        while True:
            wait = deadline - time.monotonic() if any(missing.values()) else 0
            told = agent.ask("receive", timeout=max(0.0, wait))
            if told is None:
                break
            source, text = told["source"], told["payload"]
            if text == "shaken" * (len(text) // 6):
                continue  # authentic, before or after it was in its place
            holds = bool(missing.get(source)) and missing[source][0] == text
            if self.report.check(
                holds, f"{agent!r} dispatched {text[:80]!r} of {source}, due was {missing.get(source)}"
            ):
                missing[source].pop(0)
                self.report.add("sound messages")
        lost = {source: texts for source, texts in missing.items() if texts}
        self.report.check(not lost, f"{agent!r} did not get {lost}")

    def clean(self, agent: Agent) -> None:
        """What was planted in the registry stays until somebody removes it: this round does."""
        for ghost in self.ghosts:
            path = Path(names.entry_path(self.world.root, ghost.files.source))
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            else:
                path.unlink(missing_ok=True)


def _snapshot(directory: Path) -> dict[str, tuple[int, bytes]]:
    """Every file below, with its content."""
    files = (path for path in sorted(directory.rglob("*")) if path.is_file())
    return {str(path): (path.stat().st_size, path.read_bytes()) for path in files}


def run(seed: int, count: int, report: Report) -> None:
    for world, round_seed in in_worlds(report.rounds(seed, count), report):
        Round(world, round_seed, report).run()


SCENARIO = Scenario(
    name="hostile",
    promise="no link is followed, no FIFO or device waited for, nothing but an ordinary file believed",
    unit="rounds of 32 planted things for each language",
    tiny=1,
    quick=4,
    full=1112,
    mutation="the authentic bait is an ordinary file in its place",
    run=run,
)
