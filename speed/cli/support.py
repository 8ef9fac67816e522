"""``speed support-bundle``: what somebody who helps has to know, in one file that holds no secret."""

from __future__ import annotations

import datetime
import io
import os
import platform
import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import click

from speed import __version__
from speed.cli.options import SECONDS, Settings, as_json, echo, node_options, print_value
from speed.errors import ConfigurationError, SpeedError, StorageError
from speed.observe import bytes_text
from speed.observe.figures import ask_all
from speed.observe.redaction import configuration, forms_of, log_tail, redacted
from speed.observe.root import examine
from speed.observe.speedd import ask
from speed.observe.traffic import refusals
from speed.observe.troubles import troubles

if TYPE_CHECKING:
    from speed import Node

MAX_BUNDLE_BYTES = 64 << 20
TOPICS, BRIDGES = "speedd.topics", "speedd"
LIBRARIES = ("cryptography", "PyNaCl", "msgpack", "protobuf", "psutil", "watchdog", "click", "rich", "pyspark")
README = """\
What `speed support-bundle` found on {host} at {at}.

Times, sizes, counters, names of nodes, services, topics and files; no key, no payload, no argument, no dead letter's
text, nothing that programs printed, no value of an environment. Secrets of the configuration read <redacted>.
Look at each file before you give it away.
"""

Part = Callable[[], Any]


@click.command("support-bundle")
@click.option("--output", type=click.Path(dir_okay=False), metavar="FILE", help="Default: speed-support-TIME.tar.gz.")
@click.option("--config", type=click.Path(dir_okay=False), metavar="FILE", help="The configuration of speedd.")
@click.option("--log", "logs", multiple=True, type=click.Path(), metavar="FILE", help="A log of speedd; repeatable.")
@click.option("--timeout", type=SECONDS, default=3.0, show_default=True, help="Seconds that a node may take.")
@node_options
def support_command(
    settings: Settings, output: str | None, config: str | None, logs: tuple[str, ...], timeout: float
) -> None:
    """Write what somebody who helps has to know into one file: status, doctor, nodes, counters, topics, bridges.

    With --config also that file, without its secrets, and the end of the log that it names. No key and no payload is in
    the bundle, and nothing that programs printed. It is yours to read alone (mode 0600); nothing is sent anywhere.
    """
    at = datetime.datetime.now(datetime.timezone.utc)
    path = output or f"speed-support-{at:%Y%m%dT%H%M%SZ}.tar.gz"
    members = {"README.txt": README.format(host=platform.node(), at=at.isoformat(timespec="seconds")).encode()}
    for name, value in _collected(settings, config, logs, timeout):
        text = value if isinstance(value, str) else as_json(value, indent=2) + "\n"
        members[name] = text.encode("utf-8", "backslashreplace")
    _check(members, settings)
    _write(path, members, at.timestamp())
    if settings.as_json:
        print_value({"file": os.path.abspath(path), "members": {name: len(one) for name, one in members.items()}}, True)
        return
    for name, data in members.items():
        echo(f"{bytes_text(len(data)):>10}  {name}")
    echo(f"{path} holds no key and no payload; look into it before you give it away.")


def _collected(
    settings: Settings, config: str | None, logs: tuple[str, ...], timeout: float
) -> Iterator[tuple[str, Any]]:
    """Names of members and what is in them: where something cannot be found out, why."""
    yield "machine.json", _tried(_machine)
    yield "doctor.json", _tried(lambda: [asdict(one) for one in examine(settings.root, settings.key)])
    yield "nodes.json", _tried(lambda: _nodes(settings))
    yield "speedd.json", _tried(lambda: redacted(ask(settings.root, {"do": "status"}, timeout)))
    yield "dead.json", _tried(lambda: _dead_letters(settings))
    yield from _of_nodes(settings, timeout)
    if config is not None:
        found = _tried(lambda: configuration(config))
        yield "config.json", found
        if named := _log_of(found, config):
            logs = (*logs, named)
    for number, path in enumerate(dict.fromkeys(logs), 1):
        yield f"log-{number}.txt", _tried(lambda path=path: "\n".join([f"({path})", *log_tail(path), ""]))  # type: ignore[misc]


def _tried(part: Part) -> Any:
    try:
        return part()
    except SpeedError as error:
        return {"error": error.code, "message": str(error)}
    except OSError as error:
        return {"error": "STORAGE", "message": f"{error.filename or 'system'}: {error.strerror or error}"}


def _machine() -> dict[str, Any]:
    return {
        "speed": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "libc": " ".join(platform.libc_ver()),
        "cpus": os.cpu_count(),
        "load": os.getloadavg(),
        "libraries": {name: found for name in LIBRARIES if (found := _version(name))},
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _nodes(settings: Settings) -> list[dict[str, Any]]:
    from speed.cli.directory import described

    return [described(entry) | {"verdict": verdict.name} for entry, verdict in settings.registry().entries()]


LETTER_FIELDS = ("node", "number", "state", "fileBytes", "type", "source", "deliveries", "errorCode", "diedAtMs")
MAX_LETTERS = 1000


def _dead_letters(settings: Settings) -> list[dict[str, Any]]:
    """Without their messages and texts of errors, which may quote them."""
    from speed.cli.directory import letters_of_all

    found = []
    for row in letters_of_all(settings):
        found.append({name: row[name] for name in LETTER_FIELDS if name in row})
        if len(found) == MAX_LETTERS:
            break
    return found


def _of_nodes(settings: Settings, timeout: float) -> Iterator[tuple[str, Any]]:
    """What a node of this command finds out."""
    try:
        node = settings.node()
        with node as own:
            before = ask_all(own, timeout)
            time.sleep(1.0)  # between two looks
            answers = ask_all(own, timeout)
            yield "status.json", _tried(lambda: [asdict(one) for one in troubles(own, before, answers)])
            yield "stats.json", answers
            yield "refused.json", _tried(lambda: [one.described() for one in refusals(answers, own.nodes())])
            yield "topics.json", _tried(lambda: _topics(own, timeout))
            yield "bridges.json", _tried(lambda: own.call(BRIDGES, "bridges.list", timeout=timeout))
    except SpeedError as error:
        yield "status.json", {"error": error.code, "message": str(error)}


def _topics(own: Node, timeout: float) -> list[dict[str, Any]]:
    listed = own.call(TOPICS, "topics.list", timeout=timeout)
    names = [one["topic"] for one in listed if isinstance(one, dict) and isinstance(one.get("topic"), str)]
    return [_tried(lambda name=name: own.topic(name).describe(timeout=timeout)) for name in names]  # type: ignore[misc]


def _log_of(config: Any, path: str) -> str | None:
    """The file that a configuration logs into."""
    log = config.get("log") if isinstance(config, dict) else None
    named = log.get("file") if isinstance(log, dict) else None
    return os.path.join(os.path.dirname(os.path.abspath(path)), named) if isinstance(named, str) and named else None


def _check(members: dict[str, bytes], settings: Settings) -> None:
    """StorageError for a bundle that is far too large, ConfigurationError for one that holds the root's key."""
    if sum(map(len, members.values())) > MAX_BUNDLE_BYTES:
        raise StorageError("the bundle would be larger than 64 MiB: leave logs out")
    try:
        keys = settings.registry().keyring.now.keys
    except SpeedError:
        return
    forms = forms_of(keys)
    for name, data in members.items():
        if any(form in data for form in forms):
            raise ConfigurationError(
                f"the key of this root would stand in {name}: nothing was written; mend its source"
            )


def _write(path: str, members: dict[str, bytes], at: float) -> None:
    """A new file that nobody else may read. StorageError where it is there, or cannot be written."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(fd, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
            for name, data in members.items():
                member = tarfile.TarInfo(f"speed-support/{name}")
                member.size, member.mtime, member.mode = len(data), int(at), 0o600
                archive.addfile(member, io.BytesIO(data))
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}") from None
