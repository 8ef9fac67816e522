"""Who runs what next (T-1 to T-13): steps that a Scheduler replays, and what each gives."""

from __future__ import annotations

from typing import Any

Step = dict[str, Any]


def request(sender: str, key: str, deadline: float = 30, gives: str = "waiting") -> Step:
    return {"do": "request", "sender": sender, "id": key, "deadline": deadline, "gives": gives}


def message(sender: str, key: str, **other: Any) -> Step:
    """Options: ``priority``, ``order``, ``event``, ``claimed``, ``now``, ``gives``."""
    defaults = {"priority": 5, "order": None, "event": False, "claimed": True, "now": 0}
    claimed = other.get("claimed", True)
    return {
        "do": "message",
        "sender": sender,
        "id": key,
        **defaults,
        **other,
        "gives": other.get("gives", "waiting" if claimed else "unclaimed"),
    }


def task(key: str) -> Step:
    return {"do": "task", "id": key}


def take(gives: str | None, now: float = 0) -> Step:
    return {"do": "take", "now": now, "gives": gives}


def done(*keys: str) -> list[Step]:
    return [{"do": "done", "id": key} for key in keys]


def again(key: str, at: float) -> Step:
    return {"do": "again", "id": key, "at": at}


def blocked(key: str, gives: bool = True) -> Step:
    return {"do": "blocked", "id": key, "gives": gives}


def resumed(key: str) -> Step:
    return {"do": "resumed", "id": key}


def claim(keys: list[str], gives: int | None = None) -> Step:
    return {"do": "claim", "takes": keys, "gives": len(keys) if gives is None else gives}


def receive(gives: str | None) -> Step:
    return {"do": "receive", "gives": gives}


def put_back(key: str) -> Step:
    return {"do": "put_back", "id": key}


def withdraw(sender: str, key: str, gives: str | None) -> Step:
    """``gives``: ``"waiting"`` (it never begins), ``"running"``, or None where it is unknown."""
    return {"do": "withdraw", "sender": sender, "id": key, "gives": gives}


def forget(sender: str, waiting: list[str], running: list[str]) -> Step:
    return {"do": "forget", "sender": sender, "gives": {"waiting": waiting, "running": running}}


def expire(now: float, waiting: list[str] = [], running: list[str] = [], unclaimed: list[str] = []) -> Step:  # noqa: B006
    return {"do": "expire", "now": now, "gives": {"waiting": waiting, "running": running, "unclaimed": unclaimed}}


def next_time(gives: float | None) -> Step:
    return {"do": "next_time", "gives": gives}


def leave() -> Step:
    return {"do": "leave"}


def close(*gives: str) -> Step:
    return {"do": "close", "gives": list(gives)}


def settled(gives: bool) -> Step:
    return {"do": "settled", "gives": gives}


def case(name: str, bug: str, workers: int, *steps: Step | list[Step]) -> dict[str, Any]:
    flat = [one for step in steps for one in (step if isinstance(step, list) else [step])]
    return {"name": name, "bug": bug, "workers": workers, "steps": flat}


def scheduling() -> dict[str, Any]:
    """All cases."""
    return {
        "about": "T-1 to T-13. Each step is done on one Scheduler of `workers`; `gives` is what it returns. Ids name "
        "requests, messages and tasks. `claim` takes those that it names. Times are seconds of any clock.",
        "cases": [*turns(), *places(), *order(), *unclaimed(), *withdrawal(), *time(), *life()],
    }


def turns() -> list[dict[str, Any]]:
    return [
        case(
            "requests of one sender start in order",
            "a pool that takes the newest",
            4,
            [request("a", "a1"), request("a", "a2"), request("a", "a3")],
            [take("a1"), take("a2"), take("a3"), take(None)],
        ),
        case(
            "senders take turns",
            "one queue for all: who sends most is served most",
            8,
            [request("a", "a1"), request("a", "a2"), request("a", "a3"), request("b", "b1"), request("c", "c1")],
            [take("a1"), take("b1"), take("c1"), take("a2"), take("a3")],
        ),
        case(
            "who comes late is not behind the queue of another",
            "turns given when a request arrives, not when one is taken",
            1,
            [request("a", "a1"), request("a", "a2"), request("a", "a3"), take("a1"), request("b", "b1")],
            [*done("a1"), take("a2"), *done("a2"), take("b1"), *done("b1"), take("a3")],
        ),
        case(
            "kinds take turns",
            "calls served before messages, or after them",
            3,
            [request("a", "a1"), request("a", "a2"), message("b", "m1"), message("c", "m2"), task("t1"), task("t2")],
            [take("a1"), take("m1"), take("t1"), take("a2"), *done("a1", "m1", "t1", "a2")],
            [take("m2"), take("t2"), take(None)],
        ),
        case(
            "the same id of two senders",
            "request ids taken as unique among all callers",
            2,
            [request("a", "1"), request("b", "1"), request("a", "1", gives="duplicate")],
        ),
        case(
            "an id is free once it is done",
            "ids remembered for ever",
            1,
            [request("a", "a1"), take("a1"), request("a", "a1", gives="duplicate"), *done("a1"), request("a", "a1")],
            take("a1"),
        ),
    ]


def places() -> list[dict[str, Any]]:
    return [
        case(
            "services leave a place to handlers",
            "four slow services hold up every message",
            2,
            [request("a", "a1"), request("a", "a2"), request("a", "a3"), take("a1"), take("a2"), take(None)],
            [message("b", "m1"), take("m1"), message("c", "m2"), take(None), *done("m1"), take("m2")],
        ),
        case(
            "handlers leave a place to services",
            "slow handlers hold up every call",
            2,
            [message("a", "m1"), message("b", "m2"), message("c", "m3"), take("m1"), take("m2"), take(None)],
            [request("d", "d1"), take("d1"), request("d", "d2"), take(None)],
        ),
        case(
            "one worker serves a call beside a handler",
            "with one worker a handler holds up every call",
            1,
            [message("a", "m1"), request("b", "b1"), take("b1"), take("m1"), task("t1"), take(None)],
            [*done("m1"), take("t1")],
        ),
        case(
            "a blocked worker gives up its place",
            "a calls b, b calls a: both wait until the deadline",
            1,
            [request("a", "a1"), request("a", "a2"), take("a1"), take(None), blocked("a1"), take("a2")],
            [blocked("a2"), request("b", "b1"), take("b1"), take(None)],
            [resumed("a1"), take(None), *done("b1"), take(None), *done("a1"), settled(False), resumed("a2")],
            [*done("a2"), settled(True)],
        ),
        case(
            "who goes on takes its place at once",
            "a worker that has its answer waits for a place",
            1,
            [request("a", "a1"), request("a", "a2"), take("a1"), blocked("a1"), take("a2"), resumed("a1")],
            [message("b", "m1"), take(None), *done("a1"), take("m1"), *done("a2"), settled(False), *done("m1")],
            settled(True),
        ),
        case(
            "sixty-four may be blocked",
            "a new thread for every nested call, without end",
            1,
            *[[request("a", f"a{n}"), take(f"a{n}"), blocked(f"a{n}")] for n in range(64)],
            [request("a", "a64"), take("a64"), blocked("a64", gives=False), take(None)],
        ),
        case(
            "done while blocked",
            "the place of a blocked worker counted twice",
            1,
            [request("a", "a1"), take("a1"), blocked("a1"), *done("a1"), settled(True)],
            [request("a", "a2"), take("a2"), request("a", "a3"), take(None)],
        ),
    ]


def order() -> list[dict[str, Any]]:
    urgent = [message("a", f"u{n}", priority=9, order=f"u{n}") for n in range(8)]
    return [
        case(
            "messages of one sender one after the other",
            "two handlers at once for one sender",
            4,
            [message("a", "m1"), message("a", "m2"), message("b", "m3"), take("m1"), take("m3"), take(None)],
            [*done("m1"), take("m2")],
        ),
        case(
            "the most urgent first",
            "first come, first served",
            1,
            [message("a", "m1", priority=1), message("b", "m2", priority=9), message("c", "m3", priority=9)],
            [take("m2"), *done("m2"), take("m3"), *done("m3"), take("m1")],
        ),
        case(
            "order comes before urgency",
            "an urgent message overtakes its sender's others",
            1,
            [message("a", "m1", priority=1), message("a", "m2", priority=9), message("b", "m3", priority=5)],
            [take("m3"), *done("m3"), take("m1"), *done("m1"), take("m2")],
        ),
        case(
            "every eighth is the one that waited longest",
            "what is not urgent waits for ever",
            1,
            [message("b", "m1", priority=0), *urgent],
            *[[take(f"u{n}"), *done(f"u{n}")] for n in range(7)],
            [take("m1"), *done("m1"), take("u7")],
        ),
        case(
            "another order",
            "a payload that need not be waited for is waited for",
            2,
            [message("a", "m1", order="large"), message("a", "m2"), take("m1"), take("m2")],
        ),
        case(
            "tried again in its place",
            "a message that failed is overtaken by the next",
            1,
            [message("a", "m1"), message("a", "m2"), message("b", "m3"), take("m1"), again("m1", 2), next_time(2)],
            [take("m3"), *done("m3"), take(None), settled(False), take("m1", now=2), *done("m1"), take("m2", now=2)],
        ),
    ]


def unclaimed() -> list[dict[str, Any]]:
    return [
        case(
            "what nothing takes waits, and comes first then",
            "a message that came before its handler is dropped",
            1,
            [message("a", "m1", claimed=False), message("a", "m2", claimed=False), take(None), settled(True)],
            [claim(["m1", "m2"]), message("a", "m3"), take("m1"), *done("m1"), take("m2"), *done("m2"), take("m3")],
        ),
        case(
            "claimed behind what came before it, before what came after it",
            "claimed messages put at the end",
            1,
            [message("a", "e1", event=True), message("a", "m2", claimed=False), message("a", "e3", event=True)],
            [claim(["m2"]), take("e1"), *done("e1"), take("m2"), *done("m2"), take("e3")],
        ),
        case(
            "claimed while another is handled",
            "two of one sender at once",
            2,
            [message("a", "m1", claimed=False), message("a", "e2", event=True), take("e2"), claim(["m1"]), take(None)],
            [*done("e2"), take("m1")],
        ),
        case(
            "urgency of what is claimed",
            "the priority of a queue is that of its old first",
            1,
            [message("a", "m1", claimed=False, priority=9), message("a", "e2", event=True, priority=1)],
            [message("b", "m3"), claim(["m1"]), take("m1"), *done("m1"), take("m3"), *done("m3"), take("e2")],
        ),
        case(
            "only what is taken is claimed",
            "a subscription takes events of other topics",
            1,
            [message("a", "e1", event=True, claimed=False), message("b", "e2", event=True, claimed=False)],
            [claim(["e2"], 1), take("e2"), *done("e2"), take(None), claim([]), claim(["e1"]), take("e1")],
        ),
        case(
            "an event that nothing takes",
            "it waits for ever, and its lane with it",
            1,
            [message("a", "e1", event=True, claimed=False, now=1), message("a", "m2", claimed=False, now=1)],
            [next_time(31), expire(30.5), expire(31, unclaimed=["e1"]), next_time(None), receive("m2")],
        ),
        case(
            "the program fetches the most urgent, then the oldest",
            "order of senders lost",
            1,
            [message("a", "m1", claimed=False), message("b", "m2", claimed=False, priority=9)],
            [message("a", "m3", claimed=False, priority=9), message("a", "e4", claimed=False, event=True)],
            [receive("m2"), receive("m1"), receive("m3"), receive(None), *done("m2", "m1", "m3"), settled(True)],
        ),
        case(
            "what was fetched is done while another is handled",
            "a fetched message lets the next of its sender overtake the one that runs",
            2,
            [message("a", "m1", claimed=False), receive("m1"), message("a", "m2"), message("a", "m3"), take("m2")],
            [*done("m1"), take(None), *done("m2"), take("m3")],
        ),
        case(
            "put back",
            "a cancelled fetch loses a message, or its place",
            1,
            [message("a", "m1", claimed=False), message("a", "m2", claimed=False), receive("m1"), put_back("m1")],
            [receive("m1"), put_back("m1"), claim(["m1", "m2"]), take("m1"), *done("m1"), take("m2")],
        ),
    ]


def withdrawal() -> list[dict[str, Any]]:
    return [
        case(
            "withdrawn while it waits",
            "a withdrawn call runs all the same",
            1,
            [request("a", "a1"), request("a", "a2"), take("a1"), withdraw("a", "a2", "waiting"), *done("a1")],
            [take(None), settled(True), next_time(None), request("a", "a2")],
        ),
        case(
            "withdrawn while it runs",
            "called never begun, though it began",
            1,
            [request("a", "a1"), take("a1"), withdraw("a", "a1", "running"), *done("a1"), withdraw("a", "a1", None)],
        ),
        case(
            "withdrawn by another",
            "anybody withdraws anybody's calls",
            1,
            [request("a", "1"), withdraw("b", "1", None), take("1")],
        ),
        case(
            "a caller that left",
            "work for callers that are gone feeds a storm of repeats",
            1,
            [request("a", "a1"), request("a", "a2"), request("b", "b1"), message("a", "m1"), take("a1")],
            [forget("a", ["a2"], ["a1"]), *done("a1"), take("m1"), take("b1"), forget("a", [], [])],
        ),
    ]


def time() -> list[dict[str, Any]]:
    return [
        case(
            "over its deadline while it waits",
            "a request runs after its caller gave up",
            1,
            [request("a", "a1", 5), request("a", "a2", 3), take("a1"), next_time(3), expire(2), expire(3, ["a2"])],
            [next_time(5), *done("a1"), take(None), settled(True), next_time(None)],
        ),
        case(
            "over its deadline while it runs is told once",
            "a late request answered twice",
            1,
            [request("a", "a1", 5), take("a1"), expire(6, running=["a1"]), expire(7), next_time(None)],
            [settled(False), *done("a1"), settled(True)],
        ),
        case(
            "over its deadline while its worker is blocked",
            "a blocked worker hides a deadline",
            1,
            [request("a", "a1", 5), take("a1"), blocked("a1"), expire(5, running=["a1"]), resumed("a1"), *done("a1")],
            settled(True),
        ),
        case(
            "many at once",
            "only the first of several deadlines is seen",
            2,
            [request("a", "a1", 5), request("b", "b1", 4), request("c", "c1", 6), take("a1")],
            expire(10, ["b1", "c1"], ["a1"]),
        ),
    ]


def life() -> list[dict[str, Any]]:
    return [
        case(
            "leaving works off what was accepted",
            "a node that leaves takes new work, or drops the old",
            1,
            [request("a", "a1"), request("a", "a2"), take("a1"), leave(), request("a", "a3", gives="leaving")],
            [message("b", "m1", gives="leaving"), *done("a1"), take("a2"), *done("a2"), settled(True), close()],
            [request("a", "a4", gives="leaving"), take(None)],
        ),
        case(
            "a duplicate is no new request",
            "the second copy of an accepted request is told that the node leaves",
            1,
            [request("a", "a1"), leave(), request("a", "a1", gives="duplicate")],
        ),
        case(
            "closed with requests that wait",
            "their callers wait for the deadline",
            1,
            [request("a", "a1"), request("a", "a2"), request("b", "b1"), take("a1"), leave(), close("b1", "a2")],
            [take(None), *done("a1"), settled(True)],
        ),
    ]
