"""A busy node whose process forks like PySpark's daemon: children work with nodes of their own and leave by ``_exit``.

``python -m tests.torture.forker ROOT PEER FORKS [mutated]``. Prints what went wrong, one failure a line, then how many
messages came. ``mutated``: forks behind Python's back, so that nothing is told of it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import speed

NAME = "forker"
ABREAST = 4
CHILD_SECONDS, MUTATED_SECONDS = 30, 2


class Forker:
    """The parent: threads that call and send, a handler that counts, children four at a time."""

    def __init__(self, root: str, peer: str, *, mutated: bool) -> None:
        self.root, self.peer, self.mutated = root, peer, mutated
        self.node = speed.Node(NAME, root=root, allow=[peer], engine="python")
        self.came: list[int] = []
        self.failures: list[str] = []
        self.stop = threading.Event()
        self.node.on_message(lambda message: self.came.append(message.payload["n"]))

    def run(self, forks: int) -> None:
        threads = [threading.Thread(target=self.work) for _ in range(2)]
        for thread in threads:
            thread.start()
        children: list[int] = []
        for number in range(forks):
            children.append(self.fork(number))
            if len(children) == ABREAST:
                self.wait(children.pop(0))
        for child in children:
            self.wait(child)
        self.stop.set()
        for thread in threads:
            thread.join()
        ends = Counter(target for _, target in descriptors() if target.endswith("/bell"))
        self.failures += [f"{held} descriptors of one bell: {bell}" for bell, held in ends.items() if held > 1]

    def work(self) -> None:
        """Calls that hold locks of all kinds whenever a fork comes."""
        while not self.stop.is_set():
            if self.node.call(self.peer, "add", {"a": 1, "b": 2}, timeout=60) != 3:
                self.failures.append("a wrong answer")
            time.sleep(0.001)

    def fork(self, number: int) -> int:
        pid: int = ctypes.PyDLL(None).fork() if self.mutated else os.fork()
        if pid == 0:
            signal.alarm(MUTATED_SECONDS if self.mutated else CHILD_SECONDS)
            try:
                failure = held(self.root) or ("" if self.mutated else self.be_child(number))
                if failure:
                    os.write(1, f"{failure}\n".encode())
                os._exit(bool(failure))
            finally:
                os._exit(9)
        return pid

    def wait(self, child: int) -> None:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status == -signal.SIGALRM:
            self.failures.append("a child did not end in time: a deadlock")
        elif status not in (0, 1):
            self.failures.append(f"a child ended with {status}")

    def be_child(self, number: int) -> str:
        """What is wrong; each second one forks as well."""
        try:
            self.node.call(self.peer, "add", {"a": 1, "b": 2})
        except speed.ForkedNodeError:
            pass
        else:
            return "a child used its parent's node"
        with speed.Node(f"worker.{number % (2 * ABREAST)}", root=self.root, engine="python") as node:
            if node.call(self.peer, "add", {"a": number, "b": 1}, timeout=30) != number + 1:
                return "a child got a wrong answer"
            if number % 2:
                grandchild = os.fork()
                if grandchild == 0:
                    os._exit(bool(held(self.root)))
                if os.waitpid(grandchild, 0)[1]:
                    return "a grandchild holds descriptors of its parent"
        return ""


def held(root: str) -> str:
    """Which descriptor of its parent's node a child still has that steals wake-ups or hides a death.

    Another may be one that a thread had in its hands as the fork came, such as the end of a bell to ring.
    """
    for fd, target in descriptors():
        reads_bell = target.startswith(f"{root}/") and target.endswith("/bell") and not is_write_only(fd)
        if reads_bell or "inotify" in target or "eventpoll" in target:
            return f"a child holds {os.path.relpath(target, root)} of its parent"
    return ""


def descriptors() -> Iterator[tuple[str, str]]:
    """Those of this process, and what they lead to."""
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # that of the listing
            yield fd, os.readlink(f"/proc/self/fd/{fd}")


def is_write_only(fd: str) -> bool:
    lines = Path(f"/proc/self/fdinfo/{fd}").read_text().splitlines()
    flags = next(line for line in lines if line.startswith("flags:"))
    return int(flags.split()[1], 8) & os.O_ACCMODE == os.O_WRONLY


def main() -> None:
    root, peer, forks, *mutated = sys.argv[1:]
    forker = Forker(root, peer, mutated=bool(mutated))
    print("ready", flush=True)
    forker.run(int(forks))
    for failure in forker.failures:
        print(failure)
    print("done", flush=True)
    sys.stdin.readline()  # all messages are sent
    mark = int(sys.stdin.readline())
    while len(forker.came) < mark:
        time.sleep(0.001)
    forker.node.close()  # commits, so that nothing comes again to the next of this name
    wrong = next((at for at, number in enumerate(forker.came) if at != number), mark)
    print(
        "True" if wrong == len(forker.came) else f"after {wrong} of {mark} came {forker.came[wrong:][:5]}", flush=True
    )


if __name__ == "__main__":
    main()
