"""The configuration file of speedd and all that it refers to: entry points, programs, key and root."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from speed.backends.address import parse_address, tls_context
from speed.bridges import TOPICS
from speed.daemon.config import Config, ConfigFileError, Mistake
from speed.daemon.config_check import check_text
from speed.daemon.host import find_problem
from speed.daemon.hosting import console_problems, gateway_problems
from speed.daemon.toml import KeyPath
from speed.errors import ConfigurationError, SpeedError
from speed.fs.claim import newest_of_all
from speed.fs.identity import try_lock
from speed.fs.keyfile import default_key, default_root, load_key_file
from speed.fs.open import opened
from speed.fs.registration import FEATURES
from speed.fs.root import check_root
from speed.observe.root import MAX_NAMES, near_name
from speed.wire import names
from speed.wire.entry import Entry, encode_entry
from speed.wire.limits import GENERATION_BITS, KEY_BYTES
from speed.wire.names import journal_node, topics_dir

# Reading the configuration file of speedd.

MAX_CONFIG_BYTES = 1 << 18
"""Some hundred processes need less; a file that was confused with this one is not read to its end."""


def load_config(path: str | Path) -> Config:
    """The configuration in the file ``path``. Raises ConfigFileError with every mistake in it."""
    file = Path(path).absolute()
    config, mistakes = check_text(text_of(file), file)
    if config is None or mistakes:
        raise ConfigFileError(file, mistakes)
    return config


def text_of(file: Path) -> str:
    """The text of a configuration. Raises ConfigFileError."""
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


# Whether each node of a configuration can publish its grants: they stand in its entry, which has a bound.

_LARGE = (1 << 63) - 1
_LONG = "x" * 255
"""No host or namespace has a longer name."""


def unpublishable(config: Config) -> Iterator[tuple[KeyPath, str, str]]:
    """Where the grants of a node are too many, with what is wrong and what to do."""
    for path, entry in _entries(config):
        try:
            encode_entry(entry, bytes(KEY_BYTES))
        except ConfigurationError as error:
            what, _, todo = str(error).partition(": ")
            yield path, what, todo


def _entries(config: Config) -> Iterator[tuple[KeyPath, Entry]]:
    node, journal = config.node, config.journal
    yield ("node", "allow"), _largest(node.name, node.fabrics, node.allow)
    if journal is not None:
        yield ("journal", "allow"), _largest(journal_node(node.name), (), journal.allow, journal.topics)
        for inbox in journal.inboxes:
            yield ("journal", "allow"), _largest(inbox, (), journal.allow)
    for number, process in enumerate(config.processes):
        yield ("process", number, "allow"), _largest(process.name, process.fabrics, process.allow)


def _largest(name: str, fabrics: tuple[str, ...], allow: tuple[str, ...], topics: tuple[str, ...] = ()) -> Entry:
    """The entry of a node when all that it does not choose takes the most room."""
    return Entry(
        name=name,
        generation=(1 << GENERATION_BITS) - 1,
        pid=_LARGE,
        pid_start=_LARGE,
        pid_namespace=_LONG,
        host=_LONG,
        boot_id=_LONG,
        startup_timestamp=_LARGE,
        last_heartbeat=_LARGE,
        heartbeat_monotonic_ms=_LARGE,
        lease=_LARGE,
        heartbeat_interval=_LARGE,
        fabrics=fabrics,
        allow=allow,
        subscriptions=topics,
        language=_LONG,
        version=_LONG,
        features=FEATURES,
    )


def sound_config(path: str | Path) -> Config:
    """The configuration in the file ``path`` if it can run: what ``check``, ``run`` and a reload judge by.

    Raises ConfigFileError with every mistake.
    """
    config = load_config(path)
    mistakes = [Mistake(config.lines.get(path, 0), what, todo) for path, what, todo in _problems(config)]
    if mistakes:
        raise ConfigFileError(config.path, mistakes)
    return config


def key_path(config: Config) -> str:
    """The key file of all nodes of a configuration."""
    return os.path.abspath(config.node.key or default_key(str(config.node.root or default_root())))


def _problems(config: Config) -> Iterator[tuple[KeyPath, str, str]]:
    yield from _node_problems(config)
    yield from unpublishable(config)
    yield from _backend_problems(config)
    yield from _encryption_problems(config)
    yield from _host_problems(config)
    yield from _bridge_problems(config)
    yield from _metrics_problems(config)
    yield from _gateway_problems(config)
    for what, todo in console_problems(config):
        yield ("console",), what, todo
    for number, directory in enumerate(config.python_path):
        if not directory.is_dir():
            yield ("python", "path"), f"path {number + 1}, {directory}, is no directory", "correct or remove it"
    search = [*map(str, config.python_path), str(config.directory), *sys.path]
    entries = [("service", number, one.name, one.entry) for number, one in enumerate(config.services)]
    entries += [("process", number, one.name, one.entry) for number, one in enumerate(config.processes) if one.entry]
    for kind, number, name, entry in entries:
        if entry and (problem := find_problem(entry, search)):
            yield (kind, number, "entry"), f"{name!r}: {problem}", "correct entry, or add to [python] path"
    for number, process in enumerate(config.processes):
        if process.command and not _program_exists(process.command[0], config.directory):
            what = f"{process.name!r}: there is no program {process.command[0]!r}"
            yield ("process", number, "command"), what, "build or install it, or correct the path"


def _node_problems(config: Config) -> Iterator[tuple[KeyPath, str, str]]:
    try:
        load_key_file(key_path(config))
    except SpeedError as error:
        yield ("node", "key"), str(error), "`speed key new FILE` makes one"
    root = config.node.root
    if root is not None and root.is_dir():
        try:
            check_root(str(root))
        except SpeedError as error:
            yield ("node", "root"), str(error), "see `speed root doctor`"
    if root is not None and root.exists() and not (root.is_dir() and os.access(root, os.R_OK | os.W_OK | os.X_OK)):
        yield ("node", "root"), f"{root} is not a directory that you can write to", "choose another root"
    elif root is not None and not root.exists() and not root.parent.is_dir():
        yield ("node", "root"), f"there is no directory {root.parent}", "make it, or choose another root"


def _backend_problems(config: Config) -> Iterator[tuple[KeyPath, str, str]]:
    """What keeps topics from a cluster; it is not asked for anything."""
    if config.topics is None or config.topics.backend is None:
        return
    if importlib.util.find_spec("pulsar") is None:
        yield ("topics", "backend"), "a backend needs Pulsar's client", "install speed-ipc[pulsar-backend]"
    left = topics_dir(str(config.node.root or default_root()))
    if os.path.isdir(left) and os.listdir(left):
        what = f"{left} has topics, whose messages are not in the cluster"
        yield ("topics", "backend"), what, "move that directory away once nobody needs them"


def _host_problems(config: Config) -> Iterator[tuple[KeyPath, str, str]]:
    """What keeps speedd from other hosts; none is asked for anything."""
    for number, host in enumerate(config.each_host):
        try:
            load_key_file(str(host.key))
        except SpeedError as error:
            yield ("host", number, "key"), str(error), "`speed key new FILE` makes one; both hosts need the same"
    if config.hosts is None:
        return
    try:
        address = parse_address(config.hosts.address)
        address.password()
        tls_context(address)
    except ConfigurationError as error:
        yield ("hosts", "address"), str(error), "correct the address, or the file"


def _encryption_problems(config: Config) -> Iterator[tuple[KeyPath, str, str]]:
    """What keeps messages from being encrypted as declared; the providers are asked for their keys."""
    if config.encryption is None:
        return
    if importlib.util.find_spec("cryptography") is None:
        yield ("encryption",), "encryption needs the libraries for messages", "install speed-ipc[messages]"
        return
    from speed.message.declared import check_keys

    try:
        check_keys(config.encryption)
    except SpeedError as error:
        yield ("encryption",), str(error), "see `speed message keys`, and the provider"


def _bridge_problems(config: Config) -> Iterator[tuple[KeyPath, str, str]]:
    """What keeps a bridge from its backend, which is not asked for anything."""
    from speed.backends import open_backend

    for number, bridge in enumerate(config.bridges):
        try:
            open_backend(bridge.backend).close()
        except SpeedError as error:
            what, _, todo = str(error).partition(": ")
            key = "target" if bridge.backend == bridge.target else "source"
            yield ("bridge", number, key), f"bridge {bridge.name!r}: {what}", todo or "correct the address"


def _gateway_problems(config: Config) -> Iterator[tuple[KeyPath, str, str]]:
    """What keeps the gateway from starting. A port that a speedd of this root has is its own."""
    for what, todo in gateway_problems(config):
        yield ("gateway",), what, todo
    settings = config.gateway
    if settings is None or not settings.port or _is_served(config):
        return
    family = socket.AF_INET6 if ":" in settings.address else socket.AF_INET
    try:
        with socket.create_server((settings.address, settings.port), family=family):
            pass
    except OSError as error:
        what = f"the gateway cannot listen on {settings.address}:{settings.port}: {error.strerror}"
        yield ("gateway", "port"), what, "end who has it, which `ss -ltnp` names, or choose another"


def slips(config: Config) -> list[Mistake]:
    """What runs, and is likely not meant: grants and topics of bridges that are nearly the names of others."""
    found = [*_slips_of_grants(config), *_slips_of_bridges(config)]
    return sorted(Mistake(config.lines.get(path, 0), what, f"did you mean {near!r}?") for path, what, near in found)


def _slips_of_grants(config: Config) -> Iterator[tuple[KeyPath, str, str]]:
    known = {config.node.name, *(one.name for each in config.processes for one in each.instances())}
    with suppress(OSError):
        known.update(islice(newest_of_all(str(config.node.root or default_root())), MAX_NAMES))
    for path, grants in _every_grant(config):
        for grant in grants or ():
            if near := near_name(grant, known):
                yield path, f"{grant!r} is allowed, and no node is called so", near


def _every_grant(config: Config) -> Iterator[tuple[KeyPath, tuple[str, ...] | None]]:
    yield ("node", "allow"), config.node.allow
    if config.journal is not None:
        yield ("journal", "allow"), config.journal.allow
    for number, process in enumerate(config.processes):
        yield ("process", number, "allow"), process.allow
    for number, service in enumerate(config.services):
        yield ("service", number, "allow"), service.allow
    for right in ("publish", "consume", "manage"):
        if config.topics is not None:
            yield ("topics", right), getattr(config.topics, right)
        for number, topic in enumerate(config.each_topic):
            yield ("topic", number, right), getattr(topic, right)


def _slips_of_bridges(config: Config) -> Iterator[tuple[KeyPath, str, str]]:
    known = [one.name for one in config.each_topic]
    for number, bridge in enumerate(config.bridges):
        if bridge.source == TOPICS and (near := near_name(bridge.topics, known)):
            what = f"bridge {bridge.name!r}: no [[topic]] is called {bridge.topics!r}"
            yield ("bridge", number, "topics"), what, near


def _metrics_problems(config: Config) -> Iterator[tuple[KeyPath, str, str]]:
    """What keeps metrics from being read. A port that a speedd of this root has is its own."""
    if config.metrics is None:
        return
    from speed.observe.exposition import listen_problem, read_token

    for module in ("prometheus_client", "websockets"):
        if importlib.util.find_spec(module) is None:
            yield ("metrics",), f"[metrics] needs {module}", "install speed-ipc[metrics]"
    listen, token_file, textfile = config.metrics.listen, config.metrics.token_file, config.metrics.textfile
    if token_file is not None:
        try:
            read_token(token_file)
        except ConfigurationError as error:
            yield ("metrics", "token_file"), str(error), "`openssl rand -hex 32` makes a token"
    if textfile is not None and not (textfile.parent.is_dir() and os.access(textfile.parent, os.W_OK)):
        what = f"{textfile.parent} is no directory that you can write to"
        yield ("metrics", "textfile"), what, "make it, or choose another"
    if listen and not _is_served(config) and (problem := listen_problem(listen)):
        what, _, todo = problem.rpartition(": ")
        yield ("metrics", "listen"), what, todo


def _is_served(config: Config) -> bool:
    """Whether a speedd serves the root."""
    path = names.daemon_lock(str(config.node.root or default_root()))
    if not os.path.exists(path):
        return False
    try:
        lock = try_lock(path)
    except OSError:
        return True
    if lock is not None:
        lock.release()
    return lock is None


def _program_exists(program: str, directory: Path) -> bool:
    if os.sep in program:
        path = directory / program
        return path.is_file() and os.access(path, os.X_OK)
    return shutil.which(program) is not None
