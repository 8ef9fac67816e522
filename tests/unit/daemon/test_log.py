"""The log of speedd: what services print acts on no terminal that shows it (W-19)."""

from __future__ import annotations

import json
from pathlib import Path

from speed.daemon.config import LogSettings
from speed.daemon.log import LogFile, open_log


def test_what_a_service_prints_is_escaped_and_kept(tmp_path: Path) -> None:
    text = "\x1b[31mred\x9b2J\u202e\u2028\x7f größe"
    open_log(LogFile(LogSettings(file=tmp_path / "log")), "info").info("output", text=text)
    (line,) = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
    assert not {"\x1b", "\x9b", "\u202e", "\u2028", "\x7f"} & set(line)
    assert json.loads(line)["text"] == text
    assert "größe" in line
