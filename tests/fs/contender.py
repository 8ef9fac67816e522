"""A process that takes, keeps and gives back names on command: one command a line, one answer a line.

Usage: contender.py <root> <lease ms> <heartbeat ms>.
Commands: ``register <name> <monotonic ns to wait for>``, ``heartbeat <name>``,
``remove <name>``, ``churn <name> <times>`` (take and give back; answers how often it was not alone).
"""

from __future__ import annotations

import os
import sys
import time

from speed.errors import LeaseLostError, NameTakenError
from speed.fs.registration import Registration
from speed.fs.registry import Registry
from speed.wire.seal import Keyring

KEY = bytes(range(32))


def alone(registry: Registry, name: str, lease: int, heartbeat: int) -> bool:
    """Take the name, check by a file of its own that nobody else holds it, and give it back."""
    while True:
        try:
            registration = registry.register(name, lease_ms=lease, heartbeat_ms=heartbeat)
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


def main(root: str, lease: int, heartbeat: int) -> None:
    registry = Registry(root, Keyring((KEY,)))
    registry.prepare()
    held: dict[str, Registration] = {}
    print("ready", flush=True)
    for line in sys.stdin:
        command, name, *rest = line.split()
        try:
            if command == "register":
                while time.monotonic_ns() < int(rest[0]):
                    pass
                held[name] = registry.register(name, lease_ms=lease, heartbeat_ms=heartbeat)
                answer = f"won {held[name].entry.generation}"
            elif command == "churn":
                held_alone = [alone(registry, name, lease, heartbeat) for _ in range(int(rest[0]))]
                answer = f"intruders {held_alone.count(False)}"
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
