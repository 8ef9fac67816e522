"""The configuration of speedd as values, and the mistakes that a file may have.

Relative paths are relative to the directory of the configuration file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from speed.daemon.toml_lines import KeyPath
from speed.errors import ConfigurationError

RESTART_POLICIES = ("always", "on-failure", "never")
DURABILITIES = ("process", "disk")
LOG_LEVELS = ("debug", "info", "warning", "error")


@dataclass(frozen=True, order=True)
class Mistake:
    """One thing to correct: the line (from 1; 0 = the file as a whole), what is wrong, and what to do."""

    line: int
    what: str
    todo: str

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        return f"{where}{self.what}; {self.todo}"


class ConfigFileError(ConfigurationError):
    """The configuration has mistakes; ``mistakes`` lists all of them by line."""

    def __init__(self, path: Path, mistakes: list[Mistake]) -> None:
        self.mistakes = sorted(mistakes)
        super().__init__("\n".join(f"{path}: {mistake}" for mistake in self.mistakes))


@dataclass(frozen=True)
class NodeSettings:
    """``[node]``: the node of speedd itself; its root and key hold for the processes too."""

    name: str = "speedd"
    root: Path | None = None
    key: Path | None = None
    fabrics: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    workers: int = 4
    lease_seconds: float = 30.0
    heartbeat_seconds: float = 5.0


@dataclass(frozen=True)
class LogSettings:
    """``[log]``: one JSON object a line; without ``file`` it goes to stderr, else no file exceeds ``max_bytes``."""

    file: Path | None = None
    level: str = "info"
    max_bytes: int = 16 << 20
    kept_files: int = 4
    """Older files beside the one that is written: ``file.1`` is the newest of them."""


@dataclass(frozen=True)
class JournalSettings:
    """``[journal]``: what speedd records, where, and for how long; ``allow`` says whose messages.

    Events of topics in ``refuse`` are not recorded, whatever ``topics`` says.
    """

    directory: Path | None = None
    topics: tuple[str, ...] = ()
    inboxes: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    calls: bool = False
    durability: str = "process"
    max_bytes: int | None = None
    max_age_seconds: float | None = None
    refuse: tuple[str, ...] = ()


@dataclass(frozen=True)
class ServiceSettings:
    """``[[service]]``: a service in speedd's own process, from a Python entry point."""

    name: str
    entry: str
    allow: tuple[str, ...] | None = None


@dataclass(frozen=True)
class ProcessSettings:
    """``[[process]]``: a node in a process of its own; ``entry`` or ``command`` says which program."""

    name: str
    entry: str | None = None
    command: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    fabrics: tuple[str, ...] = ()
    workers: int = 4
    env: dict[str, str] = field(default_factory=dict)
    restart: str = "always"
    stop_timeout_seconds: float = 10.0


@dataclass(frozen=True)
class Config:
    """A whole valid configuration."""

    path: Path
    node: NodeSettings = NodeSettings()
    log: LogSettings = LogSettings()
    python_path: tuple[Path, ...] = ()
    journal: JournalSettings | None = None
    services: tuple[ServiceSettings, ...] = ()
    processes: tuple[ProcessSettings, ...] = ()
    lines: Mapping[KeyPath, int] = field(default_factory=dict, compare=False, repr=False)
    """Where each setting stands in the file."""

    @property
    def directory(self) -> Path:
        """Where relative paths and the processes start."""
        return self.path.parent
