"""A node in a process of its own, which tests kill: `spark_service.py ROOT NAME DIRECTORY [MODE]`.

It answers ``twice`` and notes the first row of every batch that it runs in ``DIRECTORY/rows``; it answers ``host``, and
notes the field ``a`` of each message in ``DIRECTORY/messages``. Mode ``dies`` kills its process in the middle of the
third batch, once for a directory; ``slow`` takes a tenth of a second for each batch; ``holds`` keeps it.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

import speed
from speed.column_services import by_array

_SECONDS = {"slow": 0.1, "holds": 600.0}


def main(root: str, name: str, directory: str, mode: str = "") -> None:
    notes, died = Path(directory) / "rows", Path(directory) / "died"

    def twice(a: Any) -> Any:
        with notes.open("a") as file:
            file.write(f"{a[0]} {name}\n")
        if mode == "dies" and len(notes.read_text().splitlines()) >= 3 and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if mode in _SECONDS:
            time.sleep(_SECONDS[mode])
        return 2 * a

    def take(message: speed.Message) -> None:
        with (Path(directory) / "messages").open("a") as file:
            file.write(f"{message.payload['a']}\n")

    with speed.Node(name, root=root, workers=1) as node:
        node.register("twice", by_array(twice))
        node.service("host")(socket.gethostname)
        node.on_message(take)
        node.allow("etl.*")
        print("ready", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
