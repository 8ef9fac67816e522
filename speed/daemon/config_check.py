"""From TOML text to a Config: one table of settings, and one mistake per thing that breaks it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from speed.bridges import EVENTS, MAX_BRIDGES, SERVICE, TOPICS, BridgeSettings, bridge_mistakes, too_many
from speed.console import ConsoleSettings
from speed.daemon.config import (
    BACKLOGS,
    DURABILITIES,
    KEEPS,
    LOG_LEVELS,
    MOST_INSTANCES,
    RESTART_POLICIES,
    Config,
    DaemonNodeSettings,
    JournalSettings,
    LogSettings,
    MetricsSettings,
    Mistake,
    ProcessSettings,
    ServiceSettings,
    TopicSettings,
    TopicsSettings,
)
from speed.daemon.toml import (
    BRIDGE,
    ENCRYPTION,
    HOSTS,
    Convert,
    KeyPath,
    TomlSyntaxError,
    ValueRefusedError,
    as_age,
    as_command,
    as_entry,
    as_environment,
    as_grant,
    as_key_sources,
    as_list_of,
    as_listen,
    as_name,
    as_namespace,
    as_one_of,
    as_patience,
    as_seconds,
    as_tenant_namespace,
    as_text,
    as_url,
    as_whole,
    as_yes_or_no,
    found_value,
    parse,
)
from speed.engine.node_options import COUNTS
from speed.errors import ConfigurationError
from speed.gateway.settings import TOKEN_ALGORITHMS, GatewaySettings, TokenKeySettings
from speed.hosts import HostGrantSettings, HostSettings, HostsSettings
from speed.message.declared import EncryptionSettings, declared
from speed.message.errors import MessageError
from speed.observe.metrics import is_loopback, listens_here
from speed.wire import names
from speed.wire.names import check_host_name, host_of

# What does not fit together in the tables about other hosts.

Found = Mapping[str, list[dict[str, Any]]]
Problem = tuple[KeyPath, str, str]


def host_mistakes(found: Found, lines: Mapping[KeyPath, int]) -> Iterator[Problem]:
    """Where, what is wrong, and what to do."""
    hosts, others, grants = found["hosts"][0], found["host"], found["host_grant"]
    if ("hosts",) not in lines:
        for name in [name for name, tables in (("host", others), ("host_grant", grants)) if tables]:
            yield (name, 0), f"[[{name}]] without [hosts]", "add [hosts]"
        return
    for key, todo in (("name", 'add name = "…"'), ("address", 'add address = "nats://…"')):
        if ("hosts", key) not in lines:
            yield ("hosts",), f"[hosts] has no {key}", todo
    own = hosts.get("name")
    if own is None:
        return
    for number, host in enumerate(others):
        if host.get("name") == own:
            yield ("host", number, "name"), f"host {own!r} is this host itself", "name the other one"
    if not others:
        yield ("hosts",), "[hosts] knows no other host", "add a [[host]]"
    known = {own, *(host.get("name") for host in others)}
    for number, grant in enumerate(grants):
        yield from _grant_mistakes(number, grant, own, known)


def _grant_mistakes(number: int, grant: Mapping[str, Any], own: str, known: set[Any]) -> Iterator[Problem]:
    """A grant is about this host and others, and names who calls out of this one."""
    for key in ("callers", "nodes"):
        for pattern in grant.get(key, ()):
            if host_of(pattern) not in known:
                yield (
                    ("host_grant", number, key),
                    f"there is no host {host_of(pattern)!r}",
                    "add a [[host]], or correct it",
                )
    callers, nodes = grant.get("callers", ()), grant.get("nodes", ())
    if f"*@{own}" in callers:
        what = f"'*@{own}' would let everyone of this host call out"
        yield ("host_grant", number, "callers"), what, "name each node, or a family such as 'etl.*'"
    here = {one == own for one in map(host_of, (*callers, *nodes))}
    if callers and nodes and here != {True, False}:
        yield ("host_grant", number), f"a [[host_grant]] between {own!r} and others names both", "name nodes of both"


def as_count(option: str) -> Convert:
    """As an option of a node, within its bounds."""
    least, most = COUNTS[option]
    return as_whole(least, 1 << 50 if most is None else most)


REQUIRED = {
    "service": ("name", "entry"),
    "process": ("name",),
    "topic": ("name",),
    "token_key": ("id", "algorithm", "file"),
    "host": ("name", "key"),
    "host_grant": ("callers", "nodes"),
    "bridge": ("name", "source", "target", "topics"),
}
"""Tables of which there may be several, and what each must say."""
OF_FILES = ("directory", "durability", "max_bytes", "max_age_seconds", "keep", "tombstone_seconds", "backlog")
"""Settings of topics whose messages lie in files."""
MIN_JOURNAL_BYTES = 1 << 20
"""Less would hold a few volumes only."""
MIN_LOG_BYTES = 1 << 16
"""A file of the log holds some lines of every length."""


def check_text(text: str, path: Path) -> tuple[Config | None, list[Mistake]]:
    """The Config that ``text`` describes, or None, and every mistake found in it."""
    try:
        document, lines = parse(text)
    except TomlSyntaxError as error:
        return None, [Mistake(error.line, f"not TOML: {error}", "correct the syntax of this line")]
    reader = _Reader(path.parent, lines)
    config = reader.config(path, document)
    return (None if reader.mistakes else config), sorted(reader.mistakes)


class _Reader:
    """Walks one document and collects settings and mistakes."""

    def __init__(self, directory: Path, lines: dict[KeyPath, int]) -> None:
        self.mistakes: list[Mistake] = []
        self._directory = directory
        self._lines = lines

    def config(self, path: Path, document: dict[str, Any]) -> Config | None:
        tables = self._tables()
        self._refuse_unknown((), document, tables)
        found = {name: self._section(name, document, spec) for name, spec in tables.items()}
        has_journal = isinstance(document.get("journal"), dict)
        self._cross_check(found, has_journal=has_journal)
        encryption = self._encryption(document, found["encryption"][0])
        if self.mistakes:
            return None
        return Config(
            path=path,
            node=DaemonNodeSettings(**found["node"][0]),
            log=LogSettings(**found["log"][0]),
            python_path=found["python"][0].get("path", ()),
            journal=JournalSettings(**found["journal"][0]) if has_journal else None,
            topics=TopicsSettings(**found["topics"][0]) if isinstance(document.get("topics"), dict) else None,
            each_topic=tuple(TopicSettings(**one) for one in found["topic"]),
            gateway=GatewaySettings(**found["gateway"][0]) if isinstance(document.get("gateway"), dict) else None,
            console=ConsoleSettings(**found["console"][0]) if isinstance(document.get("console"), dict) else None,
            token_keys=tuple(TokenKeySettings(**one) for one in found["token_key"]),
            bridges=tuple(BridgeSettings(**one) for one in found["bridge"]),
            encryption=encryption,
            metrics=MetricsSettings(**found["metrics"][0]) if isinstance(document.get("metrics"), dict) else None,
            hosts=HostsSettings(**found["hosts"][0]) if isinstance(document.get("hosts"), dict) else None,
            each_host=tuple(HostSettings(**one) for one in found["host"]),
            host_grants=tuple(HostGrantSettings(**one) for one in found["host_grant"]),
            services=tuple(ServiceSettings(**one) for one in found["service"]),
            processes=tuple(ProcessSettings(**one) for one in found["process"]),
            lines=self._lines,
        )

    def _tables(self) -> dict[str, dict[str, Convert]]:
        """Every table and setting there is."""
        grants, fabrics, path = as_list_of(as_grant), as_list_of(as_text), self._path
        return {
            **self._topic_tables(),
            "console": self._console_table(),
            "node": {
                "name": as_name(names.check_node_name),
                "root": path,
                "key": path,
                "fabrics": fabrics,
                "allow": grants,
                "workers": as_count("workers"),
                "lease_seconds": as_seconds,
                "heartbeat_seconds": as_seconds,
            },
            "log": {
                "file": path,
                "level": as_one_of(LOG_LEVELS),
                "max_bytes": as_whole(MIN_LOG_BYTES, 1 << 50),
                "kept_files": as_whole(0, 1000),
            },
            "python": {"path": as_list_of(path)},
            "journal": {
                "directory": path,
                "topics": as_list_of(as_name(names.check_topic_pattern)),
                "inboxes": as_list_of(as_name(names.check_node_name)),
                "allow": grants,
                "refuse": as_list_of(as_name(names.check_topic_pattern)),
                "calls": as_yes_or_no,
                "durability": as_one_of(DURABILITIES),
                "max_bytes": as_whole(MIN_JOURNAL_BYTES, 1 << 50),
                "max_age_seconds": as_age,
            },
            "gateway": {
                "name": as_name(names.check_node_name),
                "address": as_text,
                "port": as_whole(0, 65_535),
                "namespace": as_namespace,
                "certificate": path,
                "private_key": path,
                "hosts": as_list_of(as_text),
                "origins": as_list_of(as_text),
                "issuer": as_text,
                "audience": as_text,
                "keys": as_key_sources,
                "max_connections": as_whole(1, 100_000),
                "max_connections_per_client": as_whole(1, 100_000),
                "max_frames_per_second": as_whole(1, 1_000_000),
                "handshake_seconds": as_seconds,
                "ping_seconds": as_seconds,
            },
            "bridge": BRIDGE,
            "metrics": {
                "listen": as_listen,
                "token_file": path,
                "textfile": path,
                "every_seconds": as_seconds,
                "timeout_seconds": as_seconds,
            },
            "encryption": ENCRYPTION,
            **HOSTS,
            "host": {"name": as_name(check_host_name), "key": path},
            "token_key": {"id": as_text, "algorithm": as_one_of(TOKEN_ALGORITHMS), "file": path},
            "service": {"name": as_name(names.check_service_name), "entry": as_entry, "allow": grants},
            "process": {
                "name": as_name(names.check_node_name),
                "count": as_whole(0, MOST_INSTANCES),
                "entry": as_entry,
                "command": as_command,
                "allow": grants,
                "fabrics": fabrics,
                "workers": as_count("workers"),
                "env": as_environment,
                "restart": as_one_of(RESTART_POLICIES),
                "start_timeout_seconds": as_seconds,
                "stop_timeout_seconds": as_seconds,
                "ping_timeout_seconds": as_patience,
            },
        }

    def _topic_tables(self) -> dict[str, dict[str, Convert]]:
        grants, path = as_list_of(as_grant), self._path
        topic: dict[str, Convert] = {
            "publish": grants,
            "consume": grants,
            "manage": grants,
            "max_bytes": as_whole(MIN_JOURNAL_BYTES, 1 << 50),
            "max_age_seconds": as_age,
            "keep": as_one_of(KEEPS),
            "backlog": as_one_of(BACKLOGS),
            "tombstone_seconds": as_age,
        }
        topics: dict[str, Convert] = {
            "backend": as_url("pulsar", "pulsar+ssl"),
            "admin": as_url("http", "https"),
            "namespace": as_tenant_namespace,
            "token": path,
            "trusted": path,
            "directory": path,
            "durability": as_one_of(DURABILITIES),
        }
        return {"topics": {**topics, **topic}, "topic": {"name": as_name(names.check_topic), **topic}}

    def _console_table(self) -> dict[str, Convert]:
        return {
            "address": as_text,
            "port": as_whole(0, 65_535),
            "hosts": as_list_of(as_text),
            "certificate": self._path,
            "private_key": self._path,
            "actions": as_yes_or_no,
            "session_seconds": as_age,
            "history": self._path,
        }

    def _path(self, value: Any) -> Path:
        try:
            return self._directory / Path(as_text(value)).expanduser()
        except RuntimeError:
            raise ValueRefusedError(f"{found_value(value)} is in the home of nobody", "write the whole path") from None

    def _section(self, name: str, document: dict[str, Any], spec: dict[str, Convert]) -> list[dict[str, Any]]:
        value = document.get(name)
        if name in REQUIRED:
            if value is not None and not (isinstance(value, list) and all(isinstance(v, dict) for v in value)):
                self._report((name,), f"{name} must be a list of tables", f"write [[{name}]]")
                value = None
            return [self._table((name, n), table, spec) for n, table in enumerate(value or [])]
        if value is not None and not isinstance(value, dict):
            self._report((name,), f"{name} must be one table", f"write [{name}]")
            value = None
        return [self._table((name,), value or {}, spec)]

    def _table(self, path: KeyPath, table: dict[str, Any], spec: dict[str, Convert]) -> dict[str, Any]:
        self._refuse_unknown(path, table, spec)
        settings: dict[str, Any] = {}
        for key, convert in spec.items():
            if key in table:
                try:
                    settings[key] = convert(table[key])
                except ValueRefusedError as refused:
                    self._report((*path, key), f"{_shown(path)} {key}: {refused.what}", refused.todo)
        for key in REQUIRED.get(str(path[0]), ()):
            if key not in table:
                self._report(path, f"{_shown(path)} has no {key}", f'add {key} = "…"')
        return settings

    def _refuse_unknown(self, path: KeyPath, table: dict[str, Any], known: dict[str, Any]) -> None:
        for key in table.keys() - known.keys():
            near = difflib.get_close_matches(key, known, 1)
            todo = f"did you mean {near[0]}?" if near else f"known here: {', '.join(known)}"
            self._report((*path, key), f"{_shown(path)} does not know {found_value(key)}", todo)

    def _cross_check(self, found: dict[str, list[dict[str, Any]]], *, has_journal: bool) -> None:
        node = found["node"][0]
        settings = DaemonNodeSettings(**node)
        if settings.lease_seconds <= 3 * settings.heartbeat_seconds:
            key = "lease_seconds" if "lease_seconds" in node else "heartbeat_seconds"
            what = f"the lease ({settings.lease_seconds:g} s) must exceed three heartbeats"
            self._report(("node", key), what, f"use more than {3 * settings.heartbeat_seconds:g}")
        self._refuse_repeated("service", found["service"], {SERVICE: "of speedd itself"} if found["bridge"] else {})
        taken = {settings.name: "the node of speedd itself"}
        if has_journal:
            self._check_journal(found["journal"][0], taken)
        self._check_topics(found["topics"][0], found["topic"], taken)
        self._check_backend(found["topics"][0], found["topic"])
        self._check_gateway(found["gateway"][0], found["token_key"])
        self._check_metrics(found["metrics"][0])
        self._check_console(found["console"][0])
        self._refuse_repeated("host", found["host"], {})
        for path, what, todo in host_mistakes(found, self._lines):
            self._report(path, what, todo)
        self._check_bridges(found, taken)
        self._refuse_repeated("process", found["process"], taken)
        for number, process in enumerate(found["process"]):
            self._check_program(number, process)
            self._check_instances(number, process, taken)

    def _check_instances(self, number: int, process: dict[str, Any], taken: dict[str, str]) -> None:
        """The nodes of a process that is counted have names of their own."""
        for instance in range(1, 1 + (process.get("count") or 0)):
            name = f"{process.get('name', '')}.{instance}"
            if name in taken or not names.is_node_name(name):
                what = f"the node {name!r} of the process has the name of another one, or too long a name"
                self._report(("process", number, "count"), what, "choose another name for one of them")
                return

    def _check_journal(self, journal: dict[str, Any], taken: dict[str, str]) -> None:
        """The journal's nodes need names of their own, and senders."""
        # A list with a mistake in it was reported already: it counts as something.
        listens = self._is_given(journal, "topics") or self._is_given(journal, "inboxes")
        if not listens and not self._is_given(journal, "calls"):
            todo = 'add topics = ["…"], inboxes = ["…"] or calls = true'
            self._report(("journal",), "[journal] records nothing", todo)
        if listens and not self._is_given(journal, "allow"):
            self._report(("journal",), "[journal] allows nobody to write", 'add allow = ["…"], the senders\' names')
        for topic in journal.get("topics", ()):
            if any(names.matches(one, topic) for one in journal.get("refuse", ())):
                what = f"nothing of topic {topic!r} is recorded: refuse covers it"
                self._report(("journal", "refuse"), what, "refuse less, or take it out of topics")
        daemon = next(iter(taken))
        if journal.get("topics") and not names.is_node_name(names.journal_node(daemon)):
            todo = "shorten the name of [node]"
            self._report(("journal", "topics"), f"the node {names.journal_node(daemon)!r} has too long a name", todo)
        taken[names.journal_node(daemon)] = "the node that records topics"
        for inbox in journal.get("inboxes", ()):
            if inbox in taken:
                self._report(("journal", "inboxes"), f"inbox {inbox!r} is {taken[inbox]}", "use another name")
            taken[inbox] = "an inbox of the journal"

    def _check_topics(self, topics: dict[str, Any], each: list[dict[str, Any]], taken: dict[str, str]) -> None:
        """Topics need a host with a name of its own."""
        self._refuse_repeated("topic", each, {})
        if ("topics",) not in self._lines:
            if each:
                self._report(("topic", 0), "[[topic]] without [topics]", "add [topics]")
            return
        node = names.topics_node(next(iter(taken)))
        if not names.is_node_name(node):
            self._report(("topics",), f"the node {node!r} has too long a name", "shorten the name of [node]")
        taken[node] = "the node that hosts topics"
        if not any(table.get(right) for table in (topics, *each) for right in ("publish", "consume", "manage")):
            self._report(("topics",), "[topics] allows nobody anything", 'add publish = ["…"] and consume = ["…"]')

    def _check_backend(self, topics: dict[str, Any], each: list[dict[str, Any]]) -> None:
        """A cluster needs its admin API, and has its own word for how long messages are kept."""
        if ("topics", "backend") not in self._lines:
            for key in [key for key in ("admin", "namespace", "token", "trusted") if ("topics", key) in self._lines]:
                self._report(
                    ("topics", key), f"[topics] {key} is given without a backend", 'add backend = "pulsar://…"'
                )
            return
        if ("topics", "admin") not in self._lines:
            todo = 'add admin = "http://…:8080", of the same cluster'
            self._report(("topics", "backend"), "[topics] backend needs the admin API of its cluster", todo)
        for path, table in [(("topics",), topics), *((("topic", number), one) for number, one in enumerate(each))]:
            for key in [key for key in OF_FILES if key in table]:
                todo = "take it out, and set policies of the namespace or topic in Pulsar"
                self._report((*path, key), f"{_shown(path)} {key} is not for a backend", todo)
        if ("gateway",) in self._lines:
            what = "[gateway] does not serve topics that lie in Pulsar"
            self._report(("gateway",), what, "take it out, and use Pulsar's own WebSocket service")

    def _check_gateway(self, gateway: dict[str, Any], keys: list[dict[str, Any]]) -> None:
        """A gateway needs topics, and to know whose grants its clients have."""
        self._refuse_repeated("token_key", keys, {}, "id")
        given = ("gateway",) in self._lines
        if keys and not (given and gateway.get("issuer")):
            self._report(("token_key", 0), "[[token_key]] without an issuer", 'add issuer = "…" to [gateway]')
        if not given:
            return
        if ("topics",) not in self._lines:
            self._report(("gateway",), "[gateway] without [topics]", "add [topics]")
        if ("gateway", "name") in self._lines and ("gateway", "issuer") in self._lines:
            what = "both name and issuer are given: with tokens, their subject is the name"
            self._report(("gateway", "name"), what, "keep one of them")
        elif not self._names_clients(gateway):
            self._report(("gateway",), "[gateway] does not say whose grants clients have", 'add name = "…"')
        if gateway.get("issuer") and not (keys and gateway.get("audience")):
            self._report(("gateway", "issuer"), "tokens need an audience and a [[token_key]]", "add what is missing")
        if ("certificate" in gateway) != ("private_key" in gateway):
            self._report(("gateway",), "TLS needs both certificate and private_key", "add the other one")

    def _check_metrics(self, metrics: dict[str, Any]) -> None:
        """Metrics are read somewhere, and by nobody unknown from elsewhere."""
        if ("metrics",) not in self._lines:
            return
        listens, keeps = (self._is_written("metrics", key) for key in ("listen", "textfile"))
        if not listens and not keeps:
            self._report(("metrics",), "[metrics] is read nowhere", 'add listen = "127.0.0.1:9464", or textfile')
        for key, is_used, by in (("token_file", listens, "listen"), ("every_seconds", keeps, "textfile")):
            if self._is_written("metrics", key) and not is_used:
                self._report(("metrics", key), f"[metrics] {key} is for {by}", f"add {by}, or take it out")
        listen = metrics.get("listen")
        if listen and not listens_here(listen) and not self._is_written("metrics", "token_file"):
            what = f"[metrics] listen: {found_value(listen)} is reached from elsewhere, and there is no token"
            self._report(("metrics", "listen"), what, 'add token_file = "…", or listen on 127.0.0.1')

    def _is_written(self, table: str, key: str) -> bool:
        return (table, key) in self._lines

    def _check_console(self, console: dict[str, Any]) -> None:
        """What other machines reach is encrypted: who reads an address on its way would be let in."""
        if ("certificate" in console) != ("private_key" in console):
            self._report(("console",), "TLS needs both certificate and private_key", "add the other one")
        address = console.get("address", ConsoleSettings.address)
        if not is_loopback(address) and "certificate" not in console:
            what = f"[console] is reached by other machines at {found_value(address)}, and has no certificate"
            self._report(("console", "address"), what, "add certificate and private_key, or use 127.0.0.1")

    def _check_bridges(self, found: dict[str, list[dict[str, Any]]], taken: dict[str, str]) -> None:
        """Bridges need what their ends lie in."""
        bridges = found["bridge"]
        self._refuse_repeated("bridge", bridges, {})
        if wrong := too_many(len(bridges)):
            self._report(("bridge", 0), wrong, f"use at most {MAX_BRIDGES}")
        if any(one.get("target") == EVENTS for one in bridges):
            taken[names.bridges_node(next(iter(taken)))] = "the node that publishes events for bridges"
        sections = [str(path[0]) for path in self._lines]
        for number, bridge in enumerate(bridges):
            for key, what, todo in bridge_mistakes(bridge, sections, found["journal"][0]):
                self._report(("bridge", number, key), f"[[bridge]] {what}", todo)
            if TOPICS in (bridge.get("source"), bridge.get("target")) and ("topics", "backend") in self._lines:
                what = "[[bridge]] does not carry topics that lie in Pulsar"
                self._report(("bridge", number), what, "take it out, and use Pulsar's own connectors")

    def _names_clients(self, gateway: dict[str, Any]) -> bool:
        return any(gateway.get(key) or ("gateway", key) in self._lines for key in ("name", "issuer"))

    def _is_given(self, journal: dict[str, Any], key: str) -> bool:
        return bool(journal.get(key, ("journal", key) in self._lines))

    def _refuse_repeated(
        self, kind: str, tables: list[dict[str, Any]], taken: dict[str, str], key: str = "name"
    ) -> None:
        for number, table in enumerate(tables):
            name = table.get(key)
            if name in taken:
                self._report((kind, number, key), f"{kind} {name!r} is {taken[name]}", "use another name")
            elif name is not None:
                taken[name] = f"already defined on line {self._line((kind, number, key))}"

    def _encryption(self, document: dict[str, Any], table: dict[str, Any]) -> EncryptionSettings | None:
        """What is declared of encryption, if anything is: as a whole, since its settings depend on each other."""
        if not isinstance(document.get("encryption"), dict) or self.mistakes:
            return None
        try:
            return declared(table)
        except (ConfigurationError, MessageError) as error:
            what, _, todo = str(error).partition(": ")
            self._report(("encryption",), f"[encryption] {what}", todo or "correct it")
        return None

    def _check_program(self, number: int, process: dict[str, Any]) -> None:
        path: KeyPath = ("process", number)
        given = [key for key in ("entry", "command") if (*path, key) in self._lines]
        if len(given) == 2:
            self._report((*path, "command"), "both entry and command are given", "keep one of them")
        elif not given:
            what = f"process {process.get('name', number + 1)!r} has no program"
            self._report(path, what, 'add entry = "module:function" or command = ["program"]')

    def _report(self, path: KeyPath, what: str, todo: str) -> None:
        self.mistakes.append(Mistake(self._line(path), what, todo))

    def _line(self, path: KeyPath) -> int:
        """Line of ``path``, else of the nearest table around it."""
        return next((self._lines[tried] for tried in _outwards(path) if tried in self._lines), 0)


def _outwards(path: KeyPath) -> Iterator[KeyPath]:
    return (path[:length] for length in range(len(path), 0, -1))


def _shown(path: KeyPath) -> str:
    if not path:
        return "the file"
    return f"[{path[0]}]" if len(path) == 1 else f"[[{path[0]}]]"
