"""Reading the configuration file of speedd."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from speed.daemon.config import Config, ConfigFileError, Mistake
from speed.daemon.config_check import check_text
from speed.fs.open import opened

MAX_CONFIG_BYTES = 1 << 18
"""Some hundred processes need less; a file that was confused with this one is not read to its end."""


def load_config(path: str | Path) -> Config:
    """The configuration in the file ``path``. Raises ConfigFileError with every mistake in it."""
    file = Path(path).absolute()
    config, mistakes = check_text(_text_of(file), file)
    if config is None or mistakes:
        raise ConfigFileError(file, mistakes)
    return config


def _text_of(file: Path) -> str:
    try:
        return _bytes_of(file).decode("utf-8")
    except FileNotFoundError:
        raise ConfigFileError(file, [Mistake(0, "the file does not exist", "name one with -c FILE")]) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigFileError(file, [Mistake(line, "not UTF-8 text", "save the file as UTF-8")]) from None
    except OSError as error:
        raise ConfigFileError(file, [Mistake(0, f"cannot be read: {error.strerror}", "check it")]) from None


def _bytes_of(file: Path) -> bytes:
    """What stands in the file, whatever has its name: nothing is waited for, and no more is read than can be right."""
    fd = opened(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ConfigFileError(file, [Mistake(0, "it is no regular file", "put the configuration in its place")])
        data = os.read(fd, MAX_CONFIG_BYTES + 1)
    finally:
        os.close(fd)
    if len(data) > MAX_CONFIG_BYTES:
        todo = f"a configuration has at most {MAX_CONFIG_BYTES} bytes"
        raise ConfigFileError(file, [Mistake(0, "it is too large", todo)])
    return data
