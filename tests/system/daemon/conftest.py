"""A directory with services and a key, speedds that are ended after the test, and a node that calls."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import speed
from speed.fs.keyfile import write_key_file
from tests.system.daemon.speedds import HEAD, SERVICES, Speedd


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "svc.py").write_text(SERVICES)
    write_key_file(str(tmp_path / "speed.key"), (secrets.token_bytes(32),))
    return tmp_path


@pytest.fixture
def start(directory: Path) -> Iterator[Callable[..., Speedd]]:
    started: list[Speedd] = []

    def run(config: str, environment: dict[str, str] | None = None, head: str = HEAD, **options: Any) -> Speedd:
        started.append(Speedd(directory, config, environment, head, **options))
        return started[-1]

    yield run
    for speedd in started:
        speedd.limit.cancel()
        speedd.process.kill()
        speedd.process.wait()
        if speedd.process.stderr:
            speedd.process.stderr.close()


@pytest.fixture
def client(directory: Path) -> Iterator[speed.Node]:
    with speed.Node("test", root=directory / "root", key=directory / "speed.key") as node:
        yield node
