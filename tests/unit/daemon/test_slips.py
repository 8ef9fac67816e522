"""What a configuration says and likely does not mean; it runs all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from speed.daemon.config_check import check_text
from speed.daemon.surroundings_check import slips
from speed.observe.root import near_name

KNOWN = ("analytics", "etl.eu.1", "worker.2", "billing")


@pytest.mark.parametrize(
    ("grant", "near"),
    [
        ("analytcis", "analytics"),
        ("bilings", "billing"),
        ("etl.ue.*", "etl.eu.*"),
        ("analytics", ""),
        ("etl.*", ""),
        ("worker.3", ""),  # another one of the same kind
        ("shop", ""),
        ("analytcis@" + "a" * 64, ""),
    ],
)
def test_a_grant_that_names_nobody_is_held_against_names_that_are_near(grant: str, near: str) -> None:
    assert near_name(grant, KNOWN) == near


def test_slips_of_a_file_are_told_with_their_lines(tmp_path: Path) -> None:
    text = f"""[node]
root = "{tmp_path}"
allow = ["prcing"]
[[process]]
name = "pricing"
entry = "m:f"
[topics]
publish = ["pricing"]
[[topic]]
name = "orders"
[[bridge]]
name = "out"
source = "topics"
target = "redis://localhost"
topics = "ordres"
"""
    config, mistakes = check_text(text, tmp_path / "speedd.toml")
    assert config is not None, mistakes
    assert [str(one) for one in slips(config)] == [
        "line 3: 'prcing' is allowed, and no node is called so; did you mean 'pricing'?",
        "line 15: bridge 'out': no [[topic]] is called 'ordres'; did you mean 'orders'?",
    ]
