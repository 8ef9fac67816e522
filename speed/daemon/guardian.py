"""``python guardian.py``: ends the process groups of a speedd that is gone, however it died.

It reads ``+GROUP SECONDS`` and ``-GROUP``, one a line; the end of its input means that speedd is gone. It imports
nothing of SPEED, so it takes little memory beside each speedd.
"""

from __future__ import annotations

import os
import signal
import sys
import time

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


def end(groups: dict[int, float]) -> None:
    """Ask each group to end, and kill what is left of it after its seconds."""
    began = time.monotonic()
    left = {group: seconds for group, seconds in groups.items() if signal_group(group, signal.SIGTERM)}
    while left:
        time.sleep(LOOK_SECONDS)
        for group, seconds in list(left.items()):
            late = time.monotonic() - began >= seconds
            if not signal_group(group, signal.SIGKILL if late else 0) or late:
                del left[group]


def main() -> None:
    """Follow the groups until the input ends, then end them."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # meant for speedd, whose end it waits for
    groups: dict[int, float] = {}
    for line in sys.stdin:
        group, _, seconds = line[1:].partition(" ")
        if line.startswith("+"):
            groups[int(group)] = float(seconds)
        else:
            groups.pop(int(group), None)
    end(groups)


if __name__ == "__main__":
    main()
