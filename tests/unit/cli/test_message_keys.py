"""``speed message keys`` and what commands show of payloads (M-24, M-26, M-28)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from speed.cli.messages import message_keys_command
from speed.cli.options import registry_of, shown_payload
from speed.message.providers import provider_of
from tests.unit.message.keys import key, protected


def run(*words: str, status: int = 0) -> str:
    result = CliRunner().invoke(message_keys_command, words)
    assert result.exit_code == status, result.output
    return result.output


def test_a_key_is_made_shown_given_away_and_rotated(tmp_path: Path) -> None:
    file = str(tmp_path / "orders.json")
    run("new", file, "x-wing", "--id", "orders.1", "--topic", "orders.*")
    (made,) = provider_of(f"file://{file}").fetch()
    assert (made.id, made.topics) == ("orders.1", ("orders.*",))
    assert json.loads(run("show", file, "--json"))[0]["secret"] is True
    public = json.loads(run("public", file))[0]
    assert "secret" not in public
    assert "public" in public
    assert "not due" in run("rotate", file, "--period-days", "90000")
    run("rotate", file)
    assert len(provider_of(f"file://{file}").fetch()) == 2
    assert (tmp_path / "orders.json").stat().st_mode & 0o777 == 0o600


def test_rotations_one_after_the_other_and_at_once_all_last(tmp_path: Path) -> None:
    file = str(tmp_path / "orders.json")
    run("new", file, "x-wing", "--id", "orders.1")
    words = [sys.executable, "-m", "speed.cli", "message", "keys", "rotate", file]
    running = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    said = [process.communicate(timeout=60)[0].split()[1] for process in running]
    ids = {key.id for key in provider_of(f"file://{file}").fetch()}
    assert ids == {"orders.1", *said}
    assert len(ids) == 5


def test_a_key_file_is_not_overwritten_and_no_secret_is_printed(tmp_path: Path) -> None:
    file = str(tmp_path / "k.json")
    said = run("new", file, "ed25519", "--id", "k")
    said += run("new", file, "ed25519", "--id", "k", status=1) + run("show", file) + run("public", file)
    assert json.loads(Path(file).read_text())[0]["secret"] not in said


def test_the_report_on_fips_says_what_is_not_known() -> None:
    report = json.loads(run("algorithms", "--fips-mode", "strict", "--json"))
    assert "not known" in report["module_validated"]
    assert "chacha20-poly1305" not in report["allowed"]
    assert "x-wing" in run("algorithms")


def test_personal_data_is_masked_and_encrypted_payloads_are_named(tmp_path: Path) -> None:
    value: dict[str, Any] = {"id": 1, "card": "4111"}
    assert shown_payload(protected(value)) == value
    assert shown_payload(protected(value, contains_pii=True)) == "***"
    assert "x-wing-1" in shown_payload(protected(value, encrypt_to=(key("x-wing"),)))
    assert "gzip" in shown_payload(protected(value, compression="gzip"))
    (tmp_path / "Order").mkdir()
    (tmp_path / "Order" / "v1.json").write_text(json.dumps({"properties": {"card": {"x-pii": True}}}))
    schemas = registry_of(str(tmp_path))
    assert schemas is not None
    from speed.message.protect import Protection, protect_message
    from speed.message.view import MessageView
    from tests.unit.message.keys import BASE

    described = schemas.get("Order", "v1").describe(value)
    view = MessageView(protect_message(value, Protection(contains_pii=True), schema=described, **BASE))
    assert shown_payload(view, schemas) == {"id": 1, "card": "***"}
