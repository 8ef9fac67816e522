"""Many WebSocket consumers of many topics: what is lost, what comes twice, what the speedd holds."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from base64 import b64decode
from collections import Counter
from pathlib import Path

from bench.topics.speedd import Speedd

TOPICS = 100
EACH = 200
"""Messages of a topic."""
MOST_MB = 250
QUIET_SECONDS = 15
"""Nothing more comes when nothing came for so long."""


def measure(path: Path, consumers: int) -> dict[str, float]:
    """``consumers`` connections, as many of each topic, share a subscription of it."""
    speedd = Speedd(path)
    node = speedd.node("bench.1")
    topics = [node.topic(f"crowd.{number}") for number in range(TOPICS)]
    for topic in topics:
        topic.create()
    words = [sys.executable, "-m", "bench.topics.crowd", speedd.websocket, str(consumers)]
    crowd = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert crowd.stdout is not None
    assert crowd.stdout.readline() == "all listen\n"
    for topic in topics:
        topic.publish_batch([f"{topic.name} {number}".encode() for number in range(EACH)])
    came = Counter(json.loads(crowd.stdout.read()))
    crowd.wait()
    held = speedd.memory_mb()
    node.close()
    speedd.close()
    wanted = {f"{topic.name} {number}" for topic in topics for number in range(EACH)}
    return {
        f"{consumers} WebSocket consumers, {TOPICS} topics: messages": len(wanted),
        "lost": len(wanted - came.keys()),
        "came twice": sum(came.values()) - len(came),
        f"memory of speedd, MB (<= {MOST_MB})": held,
    }


async def consume(base: str, consumers: int) -> list[str]:
    """What all consumers got, each acknowledged."""
    from websockets.asyncio.client import connect

    came: list[str] = []
    ready = asyncio.Semaphore(0)

    async def one(number: int) -> None:
        topic = f"persistent/public/default/crowd.{number % TOPICS}"
        address = f"{base}/consumer/{topic}/all?subscriptionType=Shared&receiverQueueSize=10"
        async with connect(address, proxy=None, compression=None, open_timeout=60) as socket:
            ready.release()
            while True:
                try:
                    told = json.loads(await asyncio.wait_for(socket.recv(), QUIET_SECONDS))
                except asyncio.TimeoutError:
                    return
                came.append(b64decode(told["payload"]).decode())
                await socket.send(json.dumps({"messageId": told["messageId"]}))

    running = [asyncio.create_task(one(number)) for number in range(consumers)]
    for _ in running:
        await ready.acquire()
    print("all listen", flush=True)
    await asyncio.gather(*running)
    return came


if __name__ == "__main__":
    print(json.dumps(asyncio.run(consume(sys.argv[1], int(sys.argv[2])))))
