"""The unit for systemd: what it lets speedd do is little, and enough."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.daemon.speedds import PATIENCE

pytestmark = [pytest.mark.system, pytest.mark.linux]

REPOSITORY = Path(__file__).resolve().parents[3]
UNIT = REPOSITORY / "scripts" / "speedd.service"
MOST_EXPOSED = 25
"""Tenths: 2.5 of 10."""


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    assert shutil.which("systemd-analyze"), "systemd-analyze is missing: scripts/setup installs it, or says how"
    return subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, check=False)


def settings(name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", UNIT.read_text(), re.MULTILINE)


def test_what_an_intruder_could_do_is_little() -> None:
    judged = analyze("security", "--offline=true", f"--threshold={MOST_EXPOSED}", str(UNIT))
    assert judged.returncode == 0, judged.stdout[-200:] + judged.stderr
    assert "Overall exposure level" in judged.stdout


def test_each_setting_of_the_unit_is_one_that_systemd_knows(tmp_path: Path) -> None:
    """With programs that are here: it also looks whether they are."""
    unit = tmp_path / "speedd.service"
    unit.write_text(re.sub(r"/usr/local/bin/speedd?\b", "/bin/true", UNIT.read_text()))
    verified = analyze("verify", "--man=no", str(unit))
    assert [line for line in verified.stderr.splitlines() if "speedd.service" in line] == []


def test_root_and_key_are_there_before_the_start_and_stay_after_a_stop() -> None:
    assert settings("ExecStartPre")[0].endswith("/speed root init")
    assert settings("RuntimeDirectoryPreserve") == ["yes"]
    assert settings("Environment") == ["SPEED_ROOT=%t/speed"]


@pytest.mark.parametrize("is_credential", [False, True], ids=["a key of its own", "a credential"])
def test_the_commands_of_the_unit_work_in_the_order_it_runs_them(tmp_path: Path, is_credential: bool) -> None:
    """As systemd would: with the environment that the unit gives, and the directory that it makes."""
    (tmp_path / "run" / "speed").mkdir(parents=True, mode=0o700)
    (tmp_path / "speedd.toml").write_text("")
    credentials = tmp_path / "credentials"
    kept = ("PATH", "PYTHONPATH", "SPEED_ENGINE")
    environment = {"PYTHONPATH": str(REPOSITORY)} | {name: os.environ[name] for name in kept if name in os.environ}
    for setting in settings("Environment"):
        name, _, value = setting.partition("=")
        environment[name] = value.replace("%t", str(tmp_path / "run"))
    if is_credential:
        credentials.mkdir()
        subprocess.run([*program("speed"), "key", "new", f"{credentials}/speed.key"], env=environment, check=True)
        os.chmod(credentials / "speed.key", 0o440)
        os.chmod(credentials, 0o550)
        environment["CREDENTIALS_DIRECTORY"] = str(credentials)
    for command in settings("ExecStartPre"):
        done = subprocess.run(spelled(command, tmp_path), env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "speed" / "speed.key").exists() is not is_credential
    runs = [*spelled(settings("ExecStart")[0], tmp_path), "--ready-fd", "1"]
    with subprocess.Popen(runs, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as speedd:
        assert speedd.stdout is not None
        try:
            assert speedd.stdout.read(6) == b"READY\n"
        finally:
            speedd.terminate()
            log = speedd.communicate(timeout=PATIENCE)[1].splitlines()
    assert speedd.returncode == 0
    assert json.loads(log[-1])["event"] == "stopped"


def program(name: str) -> list[str]:
    return [sys.executable, "-m", {"speed": "speed.cli", "speedd": "speed.daemon"}[name]]


def spelled(command: str, place: Path) -> list[str]:
    """A command of the unit with this interpreter's programs and a configuration that is here."""
    name, *arguments = command.replace("/etc/speed/", f"{place}/").split()
    return [*program(Path(name).name), *arguments]
