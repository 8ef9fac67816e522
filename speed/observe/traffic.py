"""Who writes to whom, and who is refused where, from what both ends count; and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from speed.core.access import granted
from speed.observe.figures import Answers
from speed.wire.entry import Entry

OTHERS = "*"
"""Under this a node counts what goes beyond the names that it keeps."""


class Refusal(NamedTuple):
    """A node that writes to one which does not allow it.

    ``refused`` counts what arrived and was refused there, ``unsent`` what its sender did not write, since it knows.
    """

    sender: str
    receiver: str
    refused: int
    unsent: int
    cure: str

    def described(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        return self._asdict()


def refusals(answers: Answers, entries: Iterable[Entry], before: Answers | None = None) -> list[Refusal]:
    """All that nodes tell of, most first; with ``before`` what was counted since that look.

    A node that has come since then counts from its start, and one that did not answer then is left out.
    """
    counted: dict[tuple[str, str], list[int]] = {}
    for (sender, receiver), place, number in _counts(answers, before or {}):
        counted.setdefault((sender, receiver), [0, 0])[place] += number
    known = {entry.name: entry for entry in entries}
    found = [
        Refusal(sender, receiver, refused, unsent, cure(sender, receiver, known))
        for (sender, receiver), (refused, unsent) in counted.items()
    ]
    return sorted(found, key=lambda one: (-one.refused - one.unsent, one.receiver, one.sender))


def _counts(answers: Answers, before: Answers) -> Iterator[tuple[tuple[str, str], int, int]]:
    """(sender, receiver), which of the two counts, how many."""
    for node, answer in answers.items():
        past = before.get(node, {})
        if past is None:
            continue  # what it had counted by then is not known
        for peer, number in _since(answer, past, "refusedSenders"):
            yield (peer, node), 0, number
        for peer, number in _since(answer, past, "refusedBy"):
            yield (node, peer), 1, number


def _since(answer: Mapping[str, Any] | None, past: Mapping[str, Any], key: str) -> Iterator[tuple[str, int]]:
    """What was counted of each peer since then; of a node that was started anew, from its start."""
    earlier = past.get(key) or {}
    for peer, number in ((answer or {}).get(key) or {}).items():
        counted_before = earlier.get(peer, 0)
        more = number - counted_before if number >= counted_before else number
        if more > 0:
            yield peer, more


def cure(sender: str, receiver: str, known: Mapping[str, Entry]) -> str:
    """What to do, as far as the entries of the two tell."""
    if OTHERS in (sender, receiver):
        return "more names than are counted one by one: see the logs of both"
    entry = known.get(receiver)
    if entry is None:
        return f"{receiver} is not live: see what it allows where it is configured"
    if granted(entry, sender):
        return f"{receiver} allows it now; if it goes on, a service has a grant of its own: allow it there"
    if any(one.rpartition("@")[0] == sender for one in entry.identities):
        return f"{receiver} allows another identity of that name: see `speed key id`, or end who sends"
    if granted(replace(entry, deny=()), sender):
        return f"{receiver} denies it: take the denial away there, or end who sends"
    if sender in known:
        return f"allow {sender} in {receiver}, or end who sends"
    return f"{sender} is not live any more; if it is to come back, allow it in {receiver}"


# Who writes to whom.


class Flow(NamedTuple):
    """What one node wrote to another between two looks: envelopes, so calls one way and their answers the other.

    ``refused`` counts what the receiver refused, or the sender did not write, for lack of a grant.
    """

    sender: str
    receiver: str
    messages_per_second: float
    bytes_per_second: float
    refused: int

    def described(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        return {
            "sender": self.sender,
            "receiver": self.receiver,
            "messagesPerSecond": self.messages_per_second,
            "bytesPerSecond": self.bytes_per_second,
            "refused": self.refused,
        }


FLOWS_BY: dict[str, Callable[[Flow], float]] = {
    "messages": lambda flow: flow.messages_per_second,
    "bytes": lambda flow: flow.bytes_per_second,
    "refused": lambda flow: flow.refused,
}
_RECEIVED, _SENT = ("received", "receivedBytes"), ("sent", "sentBytes")


def flows(before: Answers, now: Answers, seconds: float) -> list[Flow]:
    """All pairs between which something went. What either end counts tells it: the one that counted more."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for node, answer in now.items():
        past = (before.get(node) or {}).get("peers") or {}
        for peer, row in ((answer or {}).get("peers") or {}).items():
            if row == past.get(peer):
                continue
            for pair, keys in (((peer, node), _RECEIVED), ((node, peer), _SENT)):
                more = _exchanged(past.get(peer) or {}, row, keys)
                if any(more):
                    found[pair] = max(more, found.get(pair, (0, 0)))
    refused = {(one.sender, one.receiver): one.refused + one.unsent for one in refusals(now, (), before)}
    return [
        Flow(sender, receiver, messages / seconds, size / seconds, refused.get((sender, receiver), 0))
        for sender, receiver in sorted(found.keys() | refused.keys())
        for messages, size in [found.get((sender, receiver), (0, 0))]
    ]


def _exchanged(past: Mapping[str, int], row: Mapping[str, int], keys: tuple[str, str]) -> tuple[int, int]:
    """Envelopes and bytes since then; of a node that was started anew, from its start."""
    messages, size = (row.get(key, 0) for key in keys)
    messages_before, size_before = (past.get(key, 0) for key in keys)
    if messages < messages_before:
        return messages, size
    return messages - messages_before, max(0, size - size_before)
