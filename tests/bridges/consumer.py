"""A consumer that is killed: takes messages, finishes some, says so and waits.

python -m tests.bridges.consumer ADDRESS PATTERN GROUP FINISHED
"""

from __future__ import annotations

import sys
import threading

import speed.messages


def main(address: str, pattern: str, group: str, finished: int) -> None:
    """Finishes so many, one at a time, and holds the next."""
    connection = speed.messages.connect(address)
    subscription = connection.subscribe(pattern, group=group, start="earliest", prefetch=1)
    for _ in range(finished):
        message = subscription.receive(60)
        assert message is not None
        message.done()
        subscription.flush()
    held = subscription.receive(60)
    assert held is not None
    print(held.payload, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]))
