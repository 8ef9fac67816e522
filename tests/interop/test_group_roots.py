"""A root that a group shares: nodes of different users meet there, in all languages (R-29)."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from speed.fs.keyfile import load_key_file, write_key_file
from speed.fs.registry import Registry
from speed.fs.root import prepare_root, share_root
from tests.interop.harness import Agent, AgentError, until
from tests.interop.languages import CHOSEN, ROOT, pairs

GROUP, STRANGERS = 54000, 54999
ALICE, BOB = 54001, 54002

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")


class Members:
    """Agents of several users in one root."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._started: list[Agent] = []

    def start(self, language: str, user: int, name: str, *, group: int = GROUP, **options: str) -> Agent:
        under = _as_user(user, group)
        agent = Agent(language, name, self.root, under=under, allow=["m.*"], lease=2, heartbeat=0.5, **options)
        self._started.append(agent)
        return agent

    def clean(self, user: int) -> str:
        """`speed root gc` of a user; what it says that was left behind."""
        command = [
            *_as_user(user, GROUP),
            sys.executable,
            "-m",
            "speed.cli",
            "root",
            "gc",
            "--json",
            "--root",
            self.root,
        ]
        command += ["--key", f"{self.root}/speed.key"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def end(self) -> None:
        for agent in self._started:
            print(agent, agent.stderr())
            agent.end()


def _as_user(user: int, group: int) -> tuple[str, ...]:
    return (sys.executable, "-m", "tests.interop.member", str(user), str(group))


@pytest.fixture
def members() -> Iterator[Members]:
    place = tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    os.chmod(place, 0o755)
    root = f"{place}/root"
    prepare_root(root)
    share_root(root, GROUP)
    write_key_file(f"{root}/speed.key", (os.urandom(32),))
    found = Members(root)
    yield found
    found.end()
    shutil.rmtree(place)


def what_the_group_lacks(root: str) -> list[str]:
    """Directories and files in a root that its members cannot use as their maker can."""
    found = []
    for path in Path(root).rglob("*"):
        status = path.lstat()
        kind, mode = stat.S_IFMT(status.st_mode), stat.S_IMODE(status.st_mode)
        right = {stat.S_IFDIR: (0o2770,)}.get(kind, (0o660, 0o440))
        if path.name != "speed.key" and (mode not in right or status.st_gid != GROUP):
            found.append(f"{path} {mode:o} {status.st_gid}")
    return found


@pairs("shares a root with")
def test_members_of_a_group_exchange_messages_and_calls(members: Members, source: str, target: str) -> None:
    """R-29: also payloads in segments, whatever the umask; all that they make is the group's."""
    alice = members.start(source, ALICE, f"m.alice.{source}")
    bob = members.start(target, BOB, f"m.bob.{target}").ready()
    alice.ready()
    for one, other in ((alice, bob), (bob, alice)):
        one.ask("send", target=other.name, payload={"n": 1}, ack=True, timeout=20)
        assert other.ask("receive", timeout=20)["payload"] == {"n": 1}
        other.ask("finish")
        assert one.call(other, "echo", {"data": "x"}) == "x"
        assert one.ask("large", target=other.name, bytes=3_000_000)
    assert what_the_group_lacks(members.root) == []
    assert (alice.close(), bob.close()) == (0, 0)


@pairs("takes over from")
def test_a_member_takes_over_the_name_of_a_killed_node_of_another(members: Members, source: str, target: str) -> None:
    """R-29: claim, fences, lanes and bell of another user; what it had not received comes to the successor."""
    sender = members.start("python", ALICE, "m.sender").ready()
    first = members.start(target, ALICE, "m.worker").ready()
    first.call(sender, "echo", {"data": 1})  # a lane that the successor must fence
    first.kill()
    successor = members.start(source, BOB, "m.worker").ready()
    assert successor.generation == 2
    sender.ask("send", target="m.worker", payload={"n": 2}, ack=True, timeout=20)
    assert successor.ask("receive", timeout=20)["payload"] == {"n": 2}
    successor.ask("finish")
    assert successor.call(sender, "echo", {"data": 3}) == 3
    assert successor.close() == 0
    assert members.start(target, ALICE, "m.worker").ready().generation == 3


@pytest.mark.parametrize("language", CHOSEN)
def test_what_an_ephemeral_node_left_is_cleaned_by_its_own_user_and_nobody_fails_at_it(
    members: Members, language: str
) -> None:
    """R-29: the root is sticky, so that others cannot remove its directory."""
    members.start(language, ALICE, "m.worker", ephemeral="true").ready().kill()
    members.clean(BOB)
    observer = Registry(members.root, load_key_file(f"{members.root}/speed.key"))
    assert until(lambda: observer.live("m.worker") is None)  # its lease has ended, whoever looks
    members.clean(BOB)
    assert until(lambda: members.clean(ALICE) and not (Path(members.root) / "m.worker").exists(), 20)
    assert members.start(language, BOB, "m.worker").ready().generation > 1


@pytest.mark.parametrize("language", CHOSEN)
def test_who_is_no_member_is_refused(members: Members, language: str) -> None:
    """R-28."""
    with pytest.raises(AgentError, match=f"ROOT: .*gid {GROUP}.*no member"):
        members.start(language, BOB, "stranger", group=STRANGERS).ready()


@pytest.mark.parametrize("language", CHOSEN)
def test_an_ordinary_root_of_another_user_is_refused(members: Members, language: str) -> None:
    """R-28."""
    for path in (members.root, f"{members.root}/speed_registry"):
        os.chown(path, ALICE, GROUP)
        os.chmod(path, 0o755)
    with pytest.raises(AgentError, match=f"ROOT: .*uid {ALICE}"):
        members.start(language, BOB, "bob").ready()
