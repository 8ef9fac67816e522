"""``python -m speed.daemon.launch PARENT_PID PROGRAM ARGUMENT…``: becomes the program, and ends when its parent does.

The kernel's parent-death signal survives ``exec``, so a program in any language is stopped when speedd was
killed. Only Linux has it; elsewhere the program is started without it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """Ask for SIGTERM when the parent process dies; raise SystemExit when it already did."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        raise SystemExit(1)


def main() -> None:
    """Replace this process by the program of the command line."""
    parent, *command = sys.argv[1:]
    die_with_parent(int(parent))
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"cannot start {command[0]!r}: {error.strerror}; check `command`", file=sys.stderr)
        raise SystemExit(127) from None


if __name__ == "__main__":
    main()
