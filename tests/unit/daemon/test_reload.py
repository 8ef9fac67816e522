"""What a reload takes over of a changed file, and what waits for a restart, by the names that the file has."""

from __future__ import annotations

from pathlib import Path

import pytest

from speed.daemon.config import Config
from speed.daemon.config_check import check_text
from speed.daemon.reload import differences, taken_over

BASE = """
[node]
allow = ["a"]
lease_seconds = 30
[journal]
topics = ["t.*"]
allow = ["a"]
max_bytes = 2000000
[topics]
publish = ["a"]
max_bytes = 3000000
[[topic]]
name = "orders"
[gateway]
name = "web"
port = 1234
[hosts]
name = "here"
address = "nats://localhost:4222"
[[host]]
name = "there"
key = "there.key"
"""


def config(text: str) -> Config:
    found, mistakes = check_text(text, Path("/etc/speedd.toml"))
    assert found is not None, mistakes
    return found


def waiting(changed: str) -> list[str]:
    """What of a changed file is not as it runs after a reload."""
    new = config(changed)
    return list(differences(taken_over(config(BASE), new, with_bridges=True), new))


TAKEN = {
    "grants": BASE.replace('allow = ["a"]', 'allow = ["b"]'),
    "retention of the journal": BASE.replace("2000000", "4000000"),
    "inboxes of the journal": BASE.replace('topics = ["t.*"]', 'topics = ["t.*"]\ninboxes = ["post"]'),
    "retention of topics": BASE.replace("3000000", "4000000"),
    "another topic": BASE + '[[topic]]\nname = "invoices"\n',
    "a topic less": BASE.replace('[[topic]]\nname = "orders"\n', ""),
    "another port": BASE.replace("1234", "4321"),
    "no gateway": BASE.replace('[gateway]\nname = "web"\nport = 1234\n', ""),
    "another host": BASE + '[[host]]\nname = "elsewhere"\nkey = "elsewhere.key"\n',
    "no hosts": BASE[: BASE.index("[hosts]")],
    "another log": BASE + '[log]\nfile = "log"\nmax_bytes = 70000\n',
    "processes": BASE + '[[process]]\nname = "p"\nentry = "m:f"\n',
}

WAITING = {
    "[node] lease_seconds": BASE.replace("lease_seconds = 30", "lease_seconds = 40"),
    "[journal] topics": BASE.replace("t.*", "u.*"),
    "[journal] durability": BASE.replace("2000000", '2000000\ndurability = "disk"'),
    "[topics] directory": BASE.replace("3000000", '3000000\ndirectory = "/elsewhere"'),
    "[[service]]": BASE + '[[service]]\nname = "s"\nentry = "m:f"\n',
    "[python] path": BASE + '[python]\npath = ["lib"]\n',
}


@pytest.mark.parametrize("what", TAKEN)
def test_a_reload_takes_over(what: str) -> None:
    assert config(TAKEN[what]) != config(BASE)
    assert waiting(TAKEN[what]) == []


@pytest.mark.parametrize("what", WAITING)
def test_waiting_for_a_restart_is(what: str) -> None:
    assert waiting(WAITING[what]) == [what]


def test_a_section_that_is_new_waits_as_a_whole() -> None:
    without = config("[node]\n")
    new = config(BASE)
    assert set(differences(taken_over(without, new, with_bridges=True), new)) == {
        "[journal]",
        "[topics]",
        "[[topic]]",
        "[gateway]",
    }
