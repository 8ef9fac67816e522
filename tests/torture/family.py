"""A process that sends from many threads while it forks again and again; every child sends as well.

``python -m tests.torture.family ROOT OUT SEED FORKS DRAWS [mutated]`` writes all nonces drawn from sources to OUT, 12
bytes each. The envelopes lie in the lanes of ``t.python``, which must run. Prints what a child was allowed and must not
be. ``mutated``: children go on with the copies of their parent's sources.
"""

from __future__ import annotations

import os
import sys
import threading

import speed
from speed.wire.seal import NonceSource

THREADS = 4
TARGET = "t.python"
SENDS = 3


class Family:
    """The parent, its threads, its children one after the other; these take turns with a few names."""

    def __init__(self, root: str, out: str, seed: str, draws: int, *, mutated: bool) -> None:
        self.root, self.seed, self.mutated = root, seed, mutated
        self.each = draws // THREADS
        self.node = speed.Node(f"t.family.{seed}", root=root, allow=["t.*"], engine="python")
        self.sources = [NonceSource(os.urandom) for _ in range(THREADS)]
        self.fd = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def run(self, forks: int) -> int:
        """How many children did what they must not."""
        threads = [threading.Thread(target=self.draw, args=(source,)) for source in self.sources]
        for thread in threads:
            thread.start()
        failed = sum(self.fork(number) for number in range(forks))
        for thread in threads:
            thread.join()
        self.node.close()
        return failed

    def draw(self, source: NonceSource) -> None:
        """As a link does: one source each; now and then a real envelope."""
        left = self.each
        while left > 0:
            count = min(left, 10_000)
            os.write(self.fd, b"".join(source.draw() for _ in range(count)))
            left -= count
            self.node.send(TARGET, {"n": 0})

    def fork(self, number: int) -> bool:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                status = self.be_child(number)
            finally:
                os._exit(status)
        return os.waitpid(pid, 0)[1] != 0

    def be_child(self, number: int) -> int:
        try:
            self.node.send(TARGET, {"n": 1})
        except speed.ForkedNodeError:
            pass
        else:
            return 2
        sources = self.sources if self.mutated else [NonceSource(os.urandom)]
        os.write(self.fd, b"".join(source.draw() for source in sources for _ in range(100)))
        with speed.Node(f"t.child.{number % 10}", root=self.root, engine="python") as node:
            for _ in range(SENDS):
                node.send(TARGET, {"n": 2})
        return 0


def main() -> None:
    root, out, seed, forks, draws, *mutated = sys.argv[1:]
    print(Family(root, out, seed, int(draws), mutated=bool(mutated)).run(int(forks)))


if __name__ == "__main__":
    main()
