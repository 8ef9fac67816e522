"""Whether each node of a configuration can publish its grants: they stand in its entry, which has a bound."""

from __future__ import annotations

from collections.abc import Iterator

from speed.daemon.config import Config
from speed.daemon.toml_lines import KeyPath
from speed.errors import ConfigurationError
from speed.fs.registration import FEATURES
from speed.wire.entry import Entry, encode_entry
from speed.wire.limits import GENERATION_BITS, KEY_BYTES
from speed.wire.names import journal_node

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
