"""A receiver in a process of its own that keeps each effect once: `spark_receiver.py ROOT DATABASE [KILL_AT]`.

Each message's id and its effect go into the database in one transaction; an id that is there already has no effect
again. With ``KILL_AT`` the Python worker that sent the message of that number is killed, once.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys

import speed


def main(root: str, path: str, kill_at: str = "0") -> None:
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=OFF")
    database.execute("CREATE TABLE effects (id TEXT PRIMARY KEY, n INTEGER, source TEXT)")
    received = 0

    def take(message: speed.Message) -> None:
        nonlocal received
        received += 1
        if received == int(kill_at):
            os.kill(int(message.source.rpartition(".")[2]), signal.SIGKILL)  # a worker's node is named by its pid
        row = (message.message_id, message.payload["n"], message.source)
        database.execute("INSERT OR IGNORE INTO effects VALUES (?, ?, ?)", row)

    with speed.Node("billing", root=root, workers=1) as node:
        node.on_message(take)
        node.allow("etl.*")
        print("ready", flush=True)
        sys.stdin.read()
        print(received, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
