"""An application whose effects and request ids are in one SQLite transaction; it is killed with its agent at once.

``python -m tests.torture.consumer receive|serve LANGUAGE ROOT LEDGER [mutated]``. ``receive``: takes messages by an
agent of any language; ``serve``: offers the service ``note`` by a node of its own. For each line of input one message
is taken, or one call of ``note``; each committed number is printed. ``mutated``: ids are not looked at, and a call that
took effect is not answered before the next line, so that a kill finds one.

It offers ``once`` as well, which looks at no ids and waits for no line: nobody calls it again.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
from typing import Any

import speed
from tests.interop.harness import Agent
from tests.torture.duel import FAST, VICTIM

WAIT_SECONDS = 60.0


class Ledger:
    """The effects of an application, and the ids of what it acted on."""

    def __init__(self, path: str, *, keeps_ids: bool = True) -> None:
        self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._database.execute("PRAGMA busy_timeout=60000")
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("CREATE TABLE IF NOT EXISTS seen (id TEXT PRIMARY KEY)")
        self._database.execute("CREATE TABLE IF NOT EXISTS effect (id TEXT)")
        self._keeps_ids = keeps_ids

    def act(self, identity: str) -> None:
        """The effect, unless it took place; both or neither."""
        self._database.execute("BEGIN IMMEDIATE")
        added = self._database.execute("INSERT OR IGNORE INTO seen VALUES (?)", [identity]).rowcount
        if added or not self._keeps_ids:
            self._database.execute("INSERT INTO effect VALUES (?)", [identity])
        self._database.execute("COMMIT")

    def act_without_ids(self, identity: str) -> None:
        """The effect, as often as it is asked for."""
        self._database.execute("INSERT INTO effect VALUES (?)", [identity])

    def effects(self) -> dict[str, int]:
        """How often each took place."""
        return dict(self._database.execute("SELECT id, count(*) FROM effect GROUP BY id"))

    def close(self) -> None:
        self._database.close()


def receive(language: str, root: str, ledger: Ledger) -> None:
    agent = Agent(language, VICTIM, root, allow=["peer.*"], **FAST).ready()
    say("ready")
    for _ in sys.stdin:
        message: dict[str, Any] = agent.ask("receive", timeout=WAIT_SECONDS / 2)
        ledger.act(message["payload"]["id"])
        say(message["payload"]["id"])
    agent.end()


def serve(root: str, ledger: Ledger, *, holds_answers: bool) -> None:
    """Each line of input lets one request begin; with ``holds_answers``, one that took effect be answered."""
    node = speed.Node(VICTIM, root=root, lease_seconds=30, heartbeat_seconds=0.5, workers=1)

    @node.service("once")
    def once(id: str, filler: str) -> str:  # noqa: A002 - as below; the filler makes the request large
        ledger.act_without_ids(id)
        return id

    @node.service("note")
    def note(id: str, filler: str = "") -> str:  # noqa: A002 - the caller's id of what it wants once
        if not holds_answers:
            sys.stdin.readline()
        ledger.act(id)
        say(id)
        if holds_answers:
            sys.stdin.readline()
        return id

    node.allow("peer.*")
    say("ready")
    threading.Event().wait()


def say(line: str) -> None:
    os.write(1, line.encode() + b"\n")


def main() -> None:
    role, language, root, path, *mutated = sys.argv[1:]
    ledger = Ledger(path, keeps_ids=not mutated)
    if role == "serve":
        serve(root, ledger, holds_answers=bool(mutated))
    else:
        receive(language, root, ledger)


if __name__ == "__main__":
    main()
