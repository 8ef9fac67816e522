"""Runs an agent as another user: ``python -m tests.interop.member UID GID COMMAND…``, as root.

A Python agent runs in this very process, since the interpreter may lie where only root can read: all that it needs is
imported first.
"""

from __future__ import annotations

import contextlib
import ctypes.util  # noqa: F401 - what watches the registry imports it late
import importlib
import os
import pkgutil
import sys

import speed

UMASK = 0o077
"""The strictest that people have; what a group shares must not depend on it."""


UNUSED = tuple(f"speed.{one}" for one in ("bridges", "daemon", "gateway", "pulsar", "spark", "topics.cluster"))
"""What neither agents nor `speed root gc` use, and what takes most of the time."""


def become(user: int, group: int) -> None:
    """This user, in this one group beside its own."""
    os.umask(UMASK)
    os.setgroups([group])
    os.setgid(user)
    os.setuid(user)


def import_all() -> None:
    for found in pkgutil.walk_packages(speed.__path__, "speed."):
        if not found.name.endswith("__main__") and not found.name.startswith(UNUSED):
            with contextlib.suppress(ImportError):
                importlib.import_module(found.name)


def main() -> None:
    user, group, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    if "-m" not in command:
        become(user, group)
        os.execv(command[0], command)
    module = command[command.index("-m") + 1]
    import_all()
    run = importlib.import_module(module).main
    become(user, group)
    sys.argv = command[command.index("-m") + 1 :]
    sys.exit(run())


if __name__ == "__main__":
    main()
