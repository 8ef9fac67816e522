"""A process that takes, keeps and gives back names on command: one command a line, one answer a line.

Usage: contender.py <root> <lease ms> <heartbeat ms>.
Commands: ``register <name> <monotonic ns to wait for>``, ``heartbeat <name>``,
``remove <name>``, ``churn <name> <times>`` (take and give back; answers how often it was not alone),
``succeed <name> <times>`` (let a lease run out, take the name anew; answers how often that entry vanished),
``sweep <name> <file>`` (remove stale entries until the file is gone; answers how many).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

from speed.errors import LeaseLostError, NameTakenError
from speed.fs.registration import Registration, register
from speed.fs.registry import Registry
from speed.fs.root import prepare_root
from speed.wire.seal import Keyring

KEY = bytes(range(32))
LATE_SECONDS = 0.004


def alone(registry: Registry, name: str, lease: int, heartbeat: int) -> bool:
    """Take the name, check by a file of its own that nobody else holds it, and give it back."""
    while True:
        try:
            registration = register(registry, name, lease_ms=lease, heartbeat_ms=heartbeat)
            break
        except (NameTakenError, LeaseLostError):
            time.sleep(0.0005)
    witness = f"{registry.root}/witness-{name}"
    try:
        os.close(os.open(witness, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    registration.heartbeat()
    os.unlink(witness)
    registration.remove()
    return True


def taken(registry: Registry, name: str, lease: int, heartbeat: int) -> Registration:
    """Take the name as soon as it is free."""
    while True:
        try:
            return register(registry, name, lease_ms=lease, heartbeat_ms=heartbeat)
        except (NameTakenError, LeaseLostError):
            time.sleep(0.0005)


def expiring(registry: Registry, name: str) -> None:
    """Take the name for a lease that runs out at once, but not before a slow disk has taken the claim."""
    lease = 4
    while True:
        try:
            register(registry, name, lease_ms=lease, heartbeat_ms=1)
            return
        except NameTakenError:
            time.sleep(0.0005)
        except LeaseLostError:
            lease *= 2


def stays(registry: Registry, name: str, lease: int, heartbeat: int) -> bool:
    """Succeed an owner whose lease ran out; whether the new entry outlives those who look at the old one."""
    expiring(registry, name)
    successor = taken(registry, name, lease, heartbeat)
    time.sleep(3 * LATE_SECONDS)
    deadline = time.monotonic() + 1
    while not (there := registry.read(name) == successor.entry) and time.monotonic() < deadline:
        pass  # it may be in the hands of one who is about to put it back
    successor.remove()
    return there


def late(call: Callable[..., None]) -> Callable[..., None]:
    """``call`` a little later: whatever can come between a look and what follows from it does come."""

    def called(*arguments: Any, **options: Any) -> None:
        time.sleep(LATE_SECONDS)
        call(*arguments, **options)

    return called


def sweep(registry: Registry, until_gone: str) -> int:
    os.rename, os.unlink = late(os.rename), late(os.unlink)
    removed = 0
    while os.path.exists(until_gone):
        removed += len(registry.remove_stale())
    return removed


def main(root: str, lease: int, heartbeat: int) -> None:
    prepare_root(root)
    registry = Registry(root, Keyring((KEY,)), is_prepared=True)
    held: dict[str, Registration] = {}
    print("ready", flush=True)
    for line in sys.stdin:
        command, name, *rest = line.split()
        try:
            if command == "register":
                while time.monotonic_ns() < int(rest[0]):
                    pass
                held[name] = register(registry, name, lease_ms=lease, heartbeat_ms=heartbeat)
                answer = f"won {held[name].entry.generation}"
            elif command == "churn":
                held_alone = [alone(registry, name, lease, heartbeat) for _ in range(int(rest[0]))]
                answer = f"intruders {held_alone.count(False)}"
            elif command == "succeed":
                stayed = [stays(registry, name, lease, heartbeat) for _ in range(int(rest[0]))]
                answer = f"vanished {stayed.count(False)}"
            elif command == "sweep":
                answer = f"removed {sweep(registry, rest[0])}"
            elif command == "heartbeat":
                held[name].heartbeat()
                answer = "ok"
            else:
                held.pop(name).remove()
                answer = "removed"
        except NameTakenError:
            answer = "taken"
        except LeaseLostError:
            answer = "lost"
        print(answer, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
