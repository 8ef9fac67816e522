"""In a pid namespace of its own, where it decides about pids: a dead owner's pid is given to a process that lives.

``python -m tests.torture.renumbered ROOT LANGUAGE [mutated] [ephemeral]``, as the first process of the namespace.
Prints what went wrong, or nothing. ``mutated``: the owner is not killed.
"""

from __future__ import annotations

import os
import signal
import sys

from speed.errors import NameTakenError
from speed.fs.identity import start_of
from speed.fs.keyfile import load_key_file
from speed.fs.registry import Registry
from tests.interop.harness import Agent

NAME = "billing"
TRIES = 20


def stranger(pid: int, start: int) -> int:
    """A process with this pid, if it is free; 0 also if it began within the clock tick in which the owner did."""
    with open("/proc/sys/kernel/ns_last_pid", "w") as file:
        file.write(str(pid - 1))
    child = os.fork()
    if child == 0:
        signal.pause()
    if child == pid and start_of(pid) != start:
        return child
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return 0


def main(root: str, language: str, *how: str) -> str:
    registry = Registry(root, load_key_file(f"{root}/speed.key"))
    kind = {"ephemeral": "true"} if "ephemeral" in how else {}
    owner = Agent(language, NAME, root, lease=30, heartbeat=5, **kind).ready()
    pid = owner.pid
    entry = registry.read(NAME)
    if entry is None or entry.pid != pid:
        return f"the entry names pid {entry and entry.pid} of process {pid}"
    if "mutated" not in how:
        owner.kill()
        if not any(stranger(pid, entry.pid_start) for _ in range(TRIES)):
            return f"pid {pid} could not be had again"
    if registry.live(NAME, sure=True) is not None:
        return "a dead owner counts as live: another process has its pid"
    try:
        heir = registry.register(NAME, lease_ms=30_000, heartbeat_ms=5_000)
    except NameTakenError:
        return "the name of a dead owner is not free: another process has its pid"
    return "" if heir.entry.generation == owner.generation + 1 else "its generation is not the next one"


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
    sys.stdout.flush()
    os._exit(0)  # the namespace and all in it ends with its first process
