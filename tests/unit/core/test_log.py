"""What others wrote, in the lines of a log (W-19)."""

from __future__ import annotations

import ast
import logging
from pathlib import Path

import pytest

import speed
from speed.core.log import logger

HOSTILE = "x\x1b[31m\n2026-11-24 INFO forged\u202e\x9b\udc80"
PACKAGE = Path(speed.__file__).parent


def written(caplog: pytest.LogCaptureFixture) -> str:
    formatter = logging.Formatter("%(levelname)s %(message)s")
    return "\n".join(formatter.format(record) for record in caplog.records)


def test_values_are_harmless_and_the_text_around_them_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    logger("speed.test").warning("%s failed %d times: %s", HOSTILE, 3, ValueError(HOSTILE))
    shown = "x\\x1b[31m\\n2026-11-24 INFO forged\\u202e\\x9b\\udc80"
    assert written(caplog) == f"WARNING {shown} failed 3 times: {shown}"
    assert caplog.records[0].msg == "%s failed %d times: %s"


def test_values_that_are_named_are_harmless_too(caplog: pytest.LogCaptureFixture) -> None:
    logger("speed.test").warning("%(who)s failed", {"who": HOSTILE})
    assert written(caplog) == "WARNING x\\x1b[31m\\n2026-11-24 INFO forged\\u202e\\x9b\\udc80 failed"


def test_a_value_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    logger("speed.test").warning("%s", "a" * 1_000_000)
    assert len(written(caplog)) < 10_000


def test_a_traceback_forges_no_line(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError(HOSTILE) from OSError(HOSTILE)
    except ValueError:
        logger("speed.test").exception("it failed")
    first, *others = written(caplog).split("\n")
    assert first == "ERROR it failed"
    assert all(line.startswith("  ") for line in others)
    assert not {"\x1b", "\u202e", "\x9b", "\udc80"} & set("".join(others))
    assert any("2026-11-24 INFO forged" in line for line in others)


def test_an_error_that_cannot_be_told_costs_no_line(caplog: pytest.LogCaptureFixture) -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    logger("speed.test").warning("failed: %s", MuteError())
    assert written(caplog) == "WARNING failed: <MuteError without a text>"


def test_every_logger_that_the_package_writes_to_is_made_so() -> None:
    """The root's is not written to: speedd puts what libraries say into its own log."""
    asking = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if "getLogger" in (text := path.read_text("utf-8"))
        for one in ast.walk(ast.parse(text))
        if isinstance(one, ast.Call) and ast.unparse(one.func).endswith("getLogger") and one.args
    }
    assert asking == {"core/log.py"}
