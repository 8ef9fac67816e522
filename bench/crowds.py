"""Many senders, many receivers, much to read: throughput of crowds, backlogs, large registries and disks.

The crowd around a server is Python's; the server is of the language that the row names. Where the crowd is all there
is, it runs on the engine that the row names.
"""

from __future__ import annotations

from case import Row, Rows, Scale, crowd, p50_us, stopped
from contender import Contender
from kinds import KIB, MIB, SMALL

SENDERS = RECEIVERS = 64
QUICKER = 4
LANE_BYTES = 1 << 30


def engine_of(pair: Contender) -> str:
    return "native" if pair.name == "speed.native" else "python"


def fan_in(pair: Contender, scale: Scale) -> Rows:
    """Lanes are filled while the receiver stands still; what is timed is how long it takes to catch up.

    A quick receiver gets more of them, or the acknowledgements of the last ones would count for too much.
    """
    count = scale.messages * (QUICKER if pair.name in {"speed.native", "speed.cpp"} else 1)
    rates, spent = {}, {}
    for senders in (1, SENDERS):
        with crowd(pair.work) as program:
            program.ask("open", count=senders, prefix=f"crowd.of-{senders}", max_lane_bytes=LANE_BYTES)
            program.ask("flush")
            with stopped(pair.server):
                program.ask("fill", size=SMALL, count=count)
            before = pair.server.cpu_ns(), program.cpu_ns()
            rates[senders] = count / program.ask("flush")["seconds"]
            after = pair.server.cpu_ns(), program.cpu_ns()
        spent[senders] = [(end - begin) / 1e3 / count for begin, end in zip(before, after, strict=True)]
        yield Row(f"messages of {senders} senders drained", rates[senders], "messages/s")
    yield Row(f"{SENDERS} senders / 1 sender", rates[SENDERS] / rates[1], "", 2, "fan_in", _spent(spent))


def _spent(micros: dict[int, list[float]]) -> str:
    one, many = ("{:.1f} µs of the receiver, {:.1f} of the senders".format(*micros[key]) for key in (1, SENDERS))
    return f"processor time a message: {many}; with 1 sender {one}"


def fairness(pair: Contender, scale: Scale) -> Rows:
    """Of 64 lanes that are equally full: the least that was handled of one when half of all was.

    Lanes are read in turns of 64 envelopes, so there must be several turns' worth.
    """
    with crowd(pair.work) as receiver, crowd(pair.work) as senders:
        receiver.ask("open", count=1, prefix="crowd.receiver", engine=engine_of(pair), lease_seconds=300)
        receiver.ask("tally")
        senders.ask("open", count=SENDERS)
        senders.ask("flush", target="crowd.receiver.0")
        with stopped(receiver):
            senders.ask("fill", size=SMALL, count=scale.fair_messages, target="crowd.receiver.0")
        least = receiver.ask("least_share", senders=SENDERS, messages=scale.fair_messages // 2)["share"]
        yield Row(f"least share of {SENDERS} senders / fair share", least, "", 2, "least_share")


def backlog(pair: Contender, scale: Scale) -> Rows:
    size = scale.backlog_mib * MIB
    with crowd(pair.work) as sender:
        sender.ask("open", count=1, max_lane_bytes=2 * size)
        sender.ask("flush")
        with stopped(pair.server):
            sender.ask("fill", size=64 * KIB, count=size // (64 * KIB))
        seconds = sender.ask("flush")["seconds"]
        yield Row(f"a backlog of {scale.backlog_mib:,} MiB drained", scale.backlog_mib / seconds, "MiB/s")


def fan_out(pair: Contender, scale: Scale) -> Rows:
    with crowd(pair.work) as subscribers, crowd(pair.work) as publisher:
        subscribers.ask("open", count=RECEIVERS, prefix="crowd.subscriber", engine=engine_of(pair))
        subscribers.ask("subscribe")
        publisher.ask("open", count=1, prefix="crowd.publisher", engine=engine_of(pair))
        published = publisher.ask("publish", size=SMALL, count=scale.events)
        handled = subscribers.ask("handled", events=published["delivered"])
        seconds = (handled["ended_ns"] - published["began_ns"]) / 1e9
        yield Row(f"events from 1 to {RECEIVERS}", handled["handled"] / seconds, "deliveries/s")


def large_registry(pair: Contender, scale: Scale) -> Rows:
    entries = f"registry of {scale.entries:,} entries"
    with crowd(pair.work) as many, crowd(pair.work) as late:
        yield Row(f"{entries}: one more", many.ask("register", count=scale.entries)["seconds"] * 1e3, "ms", 2)
        started = late.ask("open", count=1, engine=engine_of(pair))
        yield Row(f"{entries}: a node starts", started["seconds"] * 1e3, "ms", 1)
        yield Row(f"{entries}: listing it first", late.ask("list", times=1)["seconds"] * 1e3, "ms", 1)
        yield Row(f"{entries}: listing it again", late.ask("list", times=5)["seconds"] * 1e3, "ms", 1)
        yield Row(f"{entries}: round trip", p50_us(pair, scale.calls), "µs", 1)


def to_disk(pair: Contender, scale: Scale) -> Rows:
    """Each message is flushed before ``send`` returns; a flush takes 2 ms (``slow_flush.c``)."""
    rates = {}
    for threads in (1, SENDERS):
        count = scale.disk_messages * (threads if threads == 1 else 4)
        rates[threads] = pair.ask("send", SMALL, count, 8, threads=threads)["per_second"]
        yield Row(f'one way, durability="disk", {threads} threads', rates[threads], "messages/s")
    alone_ms, shared_ms = (1e3 / rates[threads] for threads in (1, SENDERS))
    why = f"a message and its flush take one thread {alone_ms:.2f} ms here; shared by {SENDERS} threads {shared_ms:.2f}"
    yield Row(f'durability="disk": {SENDERS} threads / 1', rates[SENDERS] / rates[1], "", 1, "group_commit", why)
