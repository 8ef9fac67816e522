"""Every mistake in a configuration of speedd is reported, with its line and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from speed.daemon.config import Config, JournalSettings, Mistake, TopicSettings, TopicsSettings
from speed.daemon.config_check import check_text
from speed.gateway.settings import GatewaySettings, TokenKeySettings

GOOD = """\
[node]
name = "host"
root = "run"
allow = ["cli.*", "analytics"]
lease_seconds = 12
heartbeat_seconds = 3.5

[log]
file = "log/speedd.log"
level = "warning"
max_bytes = 65536
kept_files = 0

[python]
path = ["../.."]

[journal]
directory = "kept"
topics = ["flights.*"]
inboxes = ["orders"]
allow = ["etl.*"]
max_bytes = 1_073_741_824
max_age_seconds = 604800
calls = true
durability = "disk"
refuse = ["flights.debug.*"]

[[service]]
name = "status"
entry = "status:Status"
allow = ["analytics"]

[[process]]
name = "geo"
entry = "geo.service:register"
allow = ["etl.*"]
env = { A = "1" }

[[process]]
name = "rules"
command = ["java", "-jar", "rules.jar"]
restart = "on-failure"
stop_timeout_seconds = 3
"""
FILE = Path("/etc/speed/speedd.toml")


def mistakes_in(text: str) -> list[Mistake]:
    return check_text(text, FILE)[1]


def config_of(text: str) -> Config:
    config, mistakes = check_text(text, FILE)
    assert not mistakes
    assert config is not None
    return config


def test_a_good_file_becomes_a_config_with_all_its_settings() -> None:
    config = config_of(GOOD)
    assert (config.node.name, config.node.allow, config.node.lease_seconds) == ("host", ("cli.*", "analytics"), 12.0)
    assert config.journal == JournalSettings(
        Path("/etc/speed/kept"),
        ("flights.*",),
        ("orders",),
        ("etl.*",),
        True,
        "disk",
        1 << 30,
        604800.0,
        ("flights.debug.*",),
    )
    assert (config.log.level, config.services[0].allow) == ("warning", ("analytics",))
    assert [process.name for process in config.processes] == ["geo", "rules"]
    assert config.processes[0].env == {"A": "1"}
    assert config.processes[1].command == ("java", "-jar", "rules.jar")
    assert (config.processes[1].restart, config.processes[1].stop_timeout_seconds) == ("on-failure", 3.0)


def test_relative_paths_are_relative_to_the_file() -> None:
    config = config_of(GOOD)
    assert config.node.root == Path("/etc/speed/run")
    assert (config.log.max_bytes, config.log.kept_files) == (65536, 0)
    assert config.log.file == Path("/etc/speed/log/speedd.log")
    assert config.python_path == (Path("/etc/speed/../.."),)


def test_an_empty_file_is_a_node_without_services() -> None:
    config = config_of("")
    assert (config.node.name, config.services, config.processes) == ("speedd", (), ())


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ('[node]\nname = "speedd', 2, "not TOML"),
        ("[node]\nname = 5", 2, "expected text"),
        ('[node]\nname = "a/b"', 2, "a/b"),
        ('[node]\n\nname = ""', 3, "expected text"),
        ('[node]\nallow = ["*"]', 2, "allow"),
        ('[node]\nallow = "cli.*"', 2, "expected a list"),
        ('[node]\nnmae = "x"', 2, "did you mean name?"),
        ("[nodes]\n", 1, "did you mean node?"),
        ("[node]\nworkers = 0", 2, "use 1 to 256"),
        ("[node]\nworkers = true", 2, "whole number"),
        ("[node]\nlease_seconds = nan", 2, "expected seconds"),
        ("[node]\nlease_seconds = 3\nheartbeat_seconds = 1", 2, "exceed three heartbeats"),
        ("[node]\nheartbeat_seconds = 20", 2, "exceed three heartbeats"),
        ('[log]\nlevel = "loud"', 2, "debug, info, warning, error"),
        ("[log]\nmax_bytes = 1000", 2, "use 65536 to"),
        ("[log]\nkept_files = -1", 2, "use 0 to 1000"),
        ('[service]\nname = "a"', 1, "[[service]]"),
        ("process = 5", 1, "[[process]]"),
        ('[[service]]\nname = "a"', 1, "has no entry"),
        ('[[service]]\nentry = "m:f"', 1, "has no name"),
        ('[[service]]\nname = "a"\nentry = "m.f"', 3, "package.module:name"),
        ('[[process]]\nname = "a"', 1, "has no program"),
        ('[[process]]\nname = "a"\nentry = "m:f"\ncommand = ["x"]', 4, "both entry and command"),
        ('[[process]]\nname = "a"\ncommand = "x y"', 3, "list of texts"),
        ('[[process]]\nname = "a"\ncommand = []', 3, "list of texts"),
        ('[[process]]\nname = "a"\nentry = "m:f"\nrestart = "sometimes"', 4, "always, on-failure, never"),
        ('[[process]]\nname = "a"\nentry = "m:f"\nenv = { A = 1 }', 4, "text value"),
        ('[[process]]\nname = "speedd"\nentry = "m:f"', 2, "speedd itself"),
        ('[[process]]\nname = "a"\nentry = "m:f"\n[[process]]\nname = "a"\nentry = "m:f"', 5, "line 2"),
        ('[[process]]\nname = "a"\nentry = "m:f"\nstop_timeout_seconds = -1', 4, "expected seconds"),
        ("[journal]\n", 1, "records nothing"),
        ('[journal]\ntopics = ["a.*"]', 1, "allows nobody"),
        ('[journal]\ninboxes = ["orders"]\nallow = []', 1, "allows nobody"),
        ('[journal]\ntopics = ["a..b"]\nallow = ["x"]', 2, "a..b"),
        ('[journal]\ntopics = ["a"]\nallow = ["x"]\nrefuse = ["a..b"]', 4, "a..b"),
        ('[journal]\ntopics = ["a.b", "c"]\nallow = ["x"]\nrefuse = ["a.*"]', 4, "nothing of topic 'a.b'"),
        ('[journal]\ninboxes = ["a/b"]\nallow = ["x"]', 2, "a/b"),
        ('[journal]\ncalls = "yes"', 2, "true or false"),
        ("[journal]\ncalls = true\nmax_bytes = 1000", 3, "use 1048576 to"),
        ("[journal]\ncalls = true\nmax_bytes = 1e9", 3, "whole number"),
        ("[journal]\ncalls = true\nmax_age_seconds = 0", 3, "expected seconds"),
        ('[journal]\ncalls = true\ndurability = "both"', 3, "process, disk"),
        ("[journal]\ncalls = true\nmax_age = 5", 3, "did you mean max_age_seconds?"),
        ("journal = true", 1, "[journal]"),
        ('[journal]\ninboxes = ["speedd"]\nallow = ["x"]', 2, "speedd itself"),
        ('[journal]\ninboxes = ["a", "a"]\nallow = ["x"]', 2, "an inbox of the journal"),
        ('[journal]\ninboxes = ["speedd.journal"]\nallow = ["x"]', 2, "records topics"),
        (
            '[journal]\ninboxes = ["a"]\nallow = ["x"]\n[[process]]\nname = "a"\nentry = "m:f"',
            5,
            "an inbox of the journal",
        ),
    ],
)
def test_each_mistake_names_its_line_and_what_to_do(text: str, line: int, says: str) -> None:
    mistakes = mistakes_in(text)
    assert [mistake.line for mistake in mistakes] == [line]
    assert says in str(mistakes[0])


def test_all_mistakes_are_reported_at_once_in_the_order_of_their_lines() -> None:
    text = '[log]\nlevel = "x"\n[[process]]\nnam = "a"\n[node]\nworkers = 1000\n'
    assert [mistake.line for mistake in mistakes_in(text)] == [2, 3, 3, 4, 6]


def test_lines_are_right_after_values_that_span_lines() -> None:
    text = '[node]\nallow = [\n  "a", # name = "]"\n  "b",\n]\nname = """\n[node]\nname = "x"\n"""\nworkers = 0\n'
    assert [mistake.line for mistake in mistakes_in(text)] == [6, 10]


def test_topics_are_read_with_what_single_ones_narrow() -> None:
    text = '[topics]\npublish = ["shop.*"]\nkeep = "unacknowledged"\n[[topic]]\nname = "orders"\npublish = ["shop.1"]\n'
    config = config_of(text)
    assert config.topics == TopicsSettings(publish=("shop.*",), keep="unacknowledged")
    assert config.each_topic == (TopicSettings("orders", publish=("shop.1",)),)


def test_a_topic_keeps_the_latest_of_each_key_and_tombstones_for_a_time() -> None:
    config = config_of('[topics]\npublish = ["a"]\n[[topic]]\nname = "b"\nkeep = "latest"\ntombstone_seconds = 60\n')
    assert config.topics is not None
    assert (config.topics.keep, config.topics.tombstone_seconds) == ("all", 86400.0)
    assert config.each_topic == (TopicSettings("b", keep="latest", tombstone_seconds=60.0),)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[topics]\n", "[topics] allows nobody anything"),
        ('[[topic]]\nname = "orders"\n', "[[topic]] without [topics]"),
        ('[topics]\npublish = ["a"]\n[[topic]]\n', "[[topic]] has no name"),
        ('[topics]\npublish = ["*"]\n', "'*' would allow everyone"),
        ('[topics]\npublish = ["a"]\nbacklog = "block"\n', "'block' is not possible"),
        ('[topics]\npublish = ["a"]\nkeep = "newest"\n', "'newest' is not possible"),
        ('[topics]\npublish = ["a"]\ntombstone_seconds = 0\n', "expected seconds"),
        ('[topics]\npublish = ["a"]\nmax_bytes = 5\n', "expected a whole number"),
        ('[topics]\npublish = ["a"]\n[[topic]]\nname = "../x"\n', "../x"),
        ('[topics]\npublish = ["a"]\n[[topic]]\nname = "x"\n[[topic]]\nname = "x"\n', "already defined on line 4"),
        ('[topics]\npublish = ["a"]\n[[process]]\nname = "speedd.topics"\nentry = "a:b"\n', "hosts topics"),
    ],
)
def test_mistakes_about_topics_are_named(text: str, what: str) -> None:
    assert [mistake for mistake in mistakes_in(text) if what in mistake.what], mistakes_in(text)


BACKEND = '[topics]\npublish = ["a"]\nbackend = "pulsar://one:6650,two:6650/"\nadmin = "http://[::1]:8080"\n'


def test_topics_in_a_cluster_are_as_they_were_written() -> None:
    """D-20."""
    more = 'namespace = "shop/orders"\ntoken = "t"\ntrusted = "/etc/ca.pem"\n'
    config, mistakes = check_text(BACKEND + more, Path("/etc/speedd.toml"))
    assert mistakes == []
    assert config is not None
    assert config.topics == TopicsSettings(
        backend="pulsar://one:6650,two:6650",
        admin="http://[::1]:8080",
        namespace="shop/orders",
        publish=("a",),
        token=Path("/etc/t"),
        trusted=Path("/etc/ca.pem"),
    )


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('[topics]\npublish = ["a"]\nbackend = "kafka://a:1"\n', "'kafka://a:1' is no address"),
        ('[topics]\npublish = ["a"]\nbackend = "pulsar://a:1/b?c"\n', "is no address"),
        ('[topics]\npublish = ["a"]\nbackend = "pulsar://a:1"\n', "needs the admin API"),
        ('[topics]\npublish = ["a"]\ntoken = "t"\n', "token is given without a backend"),
        (BACKEND + 'namespace = "public"\n', "no tenant and namespace"),
        (BACKEND + 'namespace = "public/a b"\n', "characters that no namespace has"),
        (BACKEND + "max_bytes = 10_000_000\n", "[topics] max_bytes is not for a backend"),
        (BACKEND + '[[topic]]\nname = "x"\nkeep = "all"\n', "[[topic]] keep is not for a backend"),
        (BACKEND + '[gateway]\nname = "web"\n', "does not serve topics that lie in Pulsar"),
    ],
)
def test_topics_in_a_cluster_that_cannot_be_are_told(text: str, what: str) -> None:
    """D-20."""
    assert [mistake for mistake in mistakes_in(text) if what in mistake.what], mistakes_in(text)


GATEWAY = '[topics]\npublish = ["a"]\n[gateway]\n'
TOKENS = 'issuer = "i"\naudience = "a"\n[[token_key]]\nid = "k"\nalgorithm = "ES256"\nfile = "k.pem"\n'


def test_a_gateway_is_as_it_was_written() -> None:
    keys = '[gateway.keys]\napp = "pem:///a.pem"\n'
    text = GATEWAY + 'port = 0\norigins = ["https://a"]\n' + TOKENS.replace("[[", f"{keys}[[")
    config, mistakes = check_text(text, Path("/etc/speedd.toml"))
    assert mistakes == []
    assert config is not None
    assert config.gateway == GatewaySettings(
        port=0, origins=("https://a",), issuer="i", audience="a", keys={"app": "pem:///a.pem"}
    )
    assert config.token_keys == (TokenKeySettings("k", "ES256", Path("/etc/k.pem")),)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('[gateway]\nname = "web"\n', "[gateway] without [topics]"),
        (GATEWAY, "whose grants"),
        (GATEWAY + 'name = "web"\n' + TOKENS, "both name and issuer"),
        (GATEWAY + 'issuer = "i"\n', "tokens need an audience and a [[token_key]]"),
        (GATEWAY + 'name = "web"\n' + TOKENS.partition("\n[[")[1] + TOKENS.partition("\n[[")[2], "without an issuer"),
        (GATEWAY + 'name = "web"\nnamespace = "public"\n', "no tenant and namespace"),
        (GATEWAY + 'name = "web"\nport = 70000\n', "70000"),
        (GATEWAY + 'name = "web"\nkeys = "file:///a"\n', "expected a table"),
        (GATEWAY + 'name = "web"\nkeys = {"a/b" = "file:///a"}\n', "a/b"),
        (GATEWAY + 'name = "web"\nkeys = {a = 5}\n', "expected text"),
        (GATEWAY + 'name = "web"\n[gateway.keys]\n' + "".join(f'k{n} = "pem:///a"\n' for n in range(65)), "too many"),
        (GATEWAY + 'name = "web"\ncertificate = "a"\n', "both certificate and private_key"),
        (GATEWAY + TOKENS.replace("ES256", "none"), "'none'"),
        (GATEWAY + TOKENS.replace('id = "k"\n', ""), "[[token_key]] has no id"),
        (GATEWAY + TOKENS + TOKENS.partition('a"\n')[2], "already defined"),
        ("[gateway]\nprot = 1\n", "did you mean port?"),
        ("gateway = 1\n", "gateway must be one table"),
    ],
)
def test_a_gateway_that_cannot_be_is_told(text: str, what: str) -> None:
    _, mistakes = check_text(text, Path("speedd.toml"))
    assert any(what in f"{one.what}; {one.todo}" for one in mistakes), mistakes
