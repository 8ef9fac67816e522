"""Two programs beside speedd, so that nothing that it started outlives it, however it died.

``python guardian.py`` ends the process groups of a speedd that is gone. It reads ``+GROUP SECONDS MARK`` and
``-GROUP``, one a line; the end of its input means that speedd is gone. What left its group for a session of its own is
found by the mark in its environment. It imports nothing of SPEED, so it takes little memory beside each speedd.

``python -m speed.daemon.guardian PARENT_PID PROGRAM ARGUMENT…`` becomes the program, and ends when its parent does. The
kernel's parent-death signal survives ``exec``, so a program in any language is stopped when speedd was killed. Only
Linux has it; elsewhere the program is started without it.
"""

from __future__ import annotations

import os
import signal
import sys
import time

_PR_SET_PDEATHSIG = 1
MARK = "SPEED_STARTED_AS"
"""Names, in the environment of all that a process starts, which start of which process it belongs to."""
LOOK_SECONDS = 0.05
"""How often a group is looked at: the end of what is no child of ours cannot be waited for."""


def signal_group(group: int, number: int) -> bool:
    """Send a signal to a process group; 0 only asks. False when there is no such group."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # a member changed its user; it is there
    return True


def signal_marked(mark: str, number: int) -> list[int]:
    """Send a signal to each process with this mark; 0 only asks. Which ones there are, as far as Linux shows them."""
    wanted = f"{MARK}={mark}".encode()
    return [pid for pid in _processes() if _signal_if_marked(pid, wanted, number)]


def _processes() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdecimal() and int(name) != os.getpid()]
    except OSError:
        return []


def _signal_if_marked(pid: int, wanted: bytes, number: int) -> bool:
    try:
        process = os.pidfd_open(pid)  # before the look: its number may be another's afterwards
    except (OSError, AttributeError):
        return False
    try:
        with open(f"/proc/{pid}/environ", "rb") as environment:
            if wanted not in environment.read().split(b"\0"):
                return False
        signal.pidfd_send_signal(process, number)
    except OSError:  # it is gone, or another user's
        return False
    finally:
        os.close(process)
    return True


def end(groups: dict[int, tuple[float, str]]) -> None:
    """Ask each group to end, and kill what is left of it after its seconds."""
    began = time.monotonic()
    left = {group: life for group, life in groups.items() if _signal(group, life[1], signal.SIGTERM)}
    while left:
        time.sleep(LOOK_SECONDS)
        for group, (seconds, mark) in list(left.items()):
            late = time.monotonic() - began >= seconds
            if not _signal(group, mark, signal.SIGKILL if late else 0) or late:
                del left[group]


def _signal(group: int, mark: str, number: int) -> bool:
    """Whether anything of it is there."""
    return any([signal_group(group, number), signal_marked(mark, number)])


def guard() -> None:
    """Follow the groups until the input ends, then end them."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # meant for speedd, whose end it waits for
    groups: dict[int, tuple[float, str]] = {}
    for line in sys.stdin:
        group, *life = line[1:].split()
        if life:
            groups[int(group)] = float(life[0]), life[1]
        else:
            groups.pop(int(group), None)
    end(groups)


def die_with_parent(parent: int) -> None:
    """Ask for SIGTERM when the parent process dies; raise SystemExit when it already did."""
    if sys.platform.startswith("linux"):
        import ctypes  # the guardian itself does without

        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        raise SystemExit(1)


def become(parent: int, command: list[str]) -> None:
    """Replace this process by a program that ends with ``parent``."""
    die_with_parent(parent)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"cannot start {command[0]!r}: {error.strerror}; check `command`", file=sys.stderr)
        raise SystemExit(127) from None


if __name__ == "__main__":
    if sys.argv[1:]:
        become(int(sys.argv[1]), sys.argv[2:])
    else:
        guard()
