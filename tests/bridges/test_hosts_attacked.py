"""Who has the NATS server can neither read, nor forge, nor repeat what passes between two hosts."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence

import nats
import pytest

from scripts.servers.nats import Nats
from speed.hosts.link import LIFE_BYTES, PairSeal
from speed.wire.envelope import EnvelopeType
from speed.wire.seal import Keyring
from speed.wire.value import pack
from tests.bridges.joined import WAIT_SECONDS, Pair, eventually

pytestmark = [pytest.mark.system, pytest.mark.slow]
Captured = list[tuple[str, bytes]]
SECRET = b"the-amount-that-nobody-may-read"


class Shop:
    """Counts what it is asked."""

    def __init__(self, pair: Pair) -> None:
        self.calls, self.messages = 0, 0
        self.node = pair.b.node("billing")
        self.node.register("charge", self.charge)
        self.node.on_message(self.got)
        self.node.allow("*@hosta")

    def charge(self, note: bytes) -> bytes:
        self.calls += 1
        return note

    def got(self, _: object) -> None:
        self.messages += 1


def captured(pair: Pair, address: str, calls: int) -> Captured:
    """All that passes while so many calls are made, and a message is sent."""
    analytics = pair.a.node("analytics")

    async def listen() -> Captured:
        heard: Captured = []
        client = await nats.connect(address)

        async def hear(message: object) -> None:
            heard.append((message.subject, message.data))  # type: ignore[attr-defined]

        await client.subscribe("speed.hosts.>", cb=hear)
        await client.flush()
        for _ in range(calls):
            arguments = {"note": SECRET}
            await asyncio.to_thread(analytics.call, "billing@hostb", "charge", arguments, timeout=WAIT_SECONDS)
        await asyncio.to_thread(analytics.send, "billing@hostb", SECRET, ack=True, timeout=WAIT_SECONDS)
        await client.flush()
        await client.close()
        return heard

    found = asyncio.run(listen())
    analytics.close()
    return found


def published(address: str, envelopes: Sequence[tuple[str, bytes]]) -> None:
    """Somebody else publishes these."""

    async def publish() -> None:
        client = await nats.connect(address)
        for subject, data in envelopes:
            await client.publish(subject, data)
        await client.flush()
        await client.close()

    asyncio.run(publish())


def answers_still(pair: Pair, shop: Shop) -> None:
    before = shop.calls
    with pair.a.node("analytics") as analytics:
        assert analytics.call("billing@hostb", "charge", {"note": b"1"}, timeout=WAIT_SECONDS) == b"1"
    assert shop.calls == before + 1


def test_nothing_of_a_call_or_message_can_be_read(pair: Pair, broker: Nats) -> None:
    Shop(pair)
    heard = captured(pair, broker.address, 3)
    assert {subject for subject, _ in heard} == {"speed.hosts.hosta", "speed.hosts.hostb"}
    everything = b"".join(data for _, data in heard)
    assert len(heard) >= 8
    for word in (SECRET, b"billing", b"charge", b"analytics"):
        assert word not in everything


def test_what_is_replayed_is_refused(pair: Pair, broker: Nats) -> None:
    shop = Shop(pair)
    heard = captured(pair, broker.address, 3)
    assert (shop.calls, shop.messages) == (3, 1)
    before = [host.counter("hosts_refused_replayed") for host in (pair.a, pair.b)]
    published(broker.address, heard * 3)
    for host, count in zip((pair.a, pair.b), before, strict=True):
        eventually(lambda host=host, count=count: host.counter("hosts_refused_replayed") >= count + 12)  # type: ignore[misc]
    answers_still(pair, shop)
    assert (shop.calls, shop.messages) == (4, 1)


def test_what_is_replayed_after_a_restart_is_refused(pair: Pair, broker: Nats) -> None:
    shop = Shop(pair)
    heard = captured(pair, broker.address, 3)
    for host in (pair.b, pair.a):
        host.end()
        host.start()
        published(broker.address, heard)
    pair.meet()
    published(broker.address, heard)
    eventually(lambda: pair.b.counter("hosts_refused") >= 4)
    answers_still(pair, shop)
    assert (shop.calls, shop.messages) == (4, 1)


def test_what_is_altered_is_refused(pair: Pair, broker: Nats) -> None:
    shop = Shop(pair)
    heard = [one for one in captured(pair, broker.address, 1) if one[0] == "speed.hosts.hostb"]
    altered = []
    for subject, data in heard:
        for place in (0, 1, 3, 8, 20, 31, 33, 50, 66, 80, 90, len(data) - 1):
            changed = bytearray(data)
            changed[place] ^= 1
            altered.append((subject, bytes(changed)))
        altered += [(subject, data[:size]) for size in (0, 1, 87, 88, len(data) - 1)]
        altered.append((subject, data + b"x"))
    refused = pair.b.counter("hosts_refused") + pair.b.counter("hosts_refused_replayed")
    published(broker.address, altered)
    eventually(
        lambda: pair.b.counter("hosts_refused") + pair.b.counter("hosts_refused_replayed") >= refused + len(altered)
    )
    answers_still(pair, shop)
    assert (shop.calls, shop.messages) == (2, 1)


def test_what_others_forge_is_refused(pair: Pair, broker: Nats) -> None:
    shop = Shop(pair)
    forged = PairSeal(Keyring((secrets.token_bytes(32),)), "hosta", "hostb")
    lives = secrets.token_bytes(LIFE_BYTES), secrets.token_bytes(LIFE_BYTES)
    question = pack({"requestId": "1", "operation": "call", "caller": "analytics", "node": "billing"})
    greeting = pack({"nonce": lives[0], "life": lives[1]})
    before = pair.b.counter("hosts_refused")
    written = [
        forged.seal(EnvelopeType.SPC_REQUEST, 1 << 30, question, *lives),
        forged.seal(EnvelopeType.SPC_RESPONSE, 1 << 30, question, *lives),
        forged.seal(EnvelopeType.EVENT, 1 << 30, question, *lives),
        forged.seal_hello(greeting, reply=False),
        forged.seal_hello(greeting, reply=True),
        PairSeal(Keyring((secrets.token_bytes(32),)), "hostx", "hostb").seal_hello(greeting, reply=False),
        PairSeal(Keyring((secrets.token_bytes(32),)), "hosta", "hostx").seal_hello(greeting, reply=False),
        b"not an envelope at all" * 20,
        bytes(200_000),
    ]
    published(broker.address, [("speed.hosts.hostb", one) for one in written])
    eventually(lambda: pair.b.counter("hosts_refused") >= before + len(written))
    answers_still(pair, shop)
    assert (shop.calls, shop.messages) == (1, 0)


def test_a_holder_of_the_key_in_another_life_is_not_believed_either(pair: Pair, broker: Nats) -> None:
    shop = Shop(pair)
    from speed.fs.keyfile import load_key_file

    seal = PairSeal(load_key_file(str(pair.a.pair)), "hosta", "hostb")
    lives = secrets.token_bytes(LIFE_BYTES), secrets.token_bytes(LIFE_BYTES)
    unasked = pack({"nonce": lives[0], "life": lives[1], "knows": b"", "clock": 1})
    before = pair.b.counter("hosts_refused")
    written = [
        seal.seal(EnvelopeType.SPC_REQUEST, 1 << 30, unasked, *lives),
        seal.seal_hello(unasked, reply=True),
        seal.seal_hello(pack({"nonce": 1}), reply=False),
        seal.seal_hello(b"\xc1", reply=False),
        seal.seal_hello(pack({"nonce": lives[0], "life": lives[1]}), reply=True),
    ]
    published(broker.address, [("speed.hosts.hostb", one) for one in written])
    eventually(lambda: pair.b.counter("hosts_refused") >= before + len(written))
    answers_still(pair, shop)


def test_a_flood_of_old_greetings_keeps_no_host_from_being_heard(pair: Pair, broker: Nats) -> None:
    shop = Shop(pair)
    heard = [greeting_of(broker.address)]
    published(broker.address, heard * 20_000)
    pair.b.end()
    pair.b.start()
    pair.meet()
    published(broker.address, heard * 20_000)
    answers_still(pair, shop)
    assert all(one["up"] for host in (pair.a, pair.b) for one in host.told()["hosts"])


def greeting_of(address: str) -> tuple[str, bytes]:
    """The next greeting to `hostb`."""

    async def listen() -> tuple[str, bytes]:
        client = await nats.connect(address)
        subscription = await client.subscribe("speed.hosts.hostb")
        while True:
            message = await subscription.next_msg(WAIT_SECONDS)
            if message.data[1] == EnvelopeType.DISCOVERY and not message.data[3]:
                await client.close()
                return message.subject, message.data

    return asyncio.run(listen())
