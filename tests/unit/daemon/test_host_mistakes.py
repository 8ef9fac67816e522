"""Mistakes in what a configuration says of other hosts, with their lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from speed.daemon.config_check import check_text
from speed.daemon.surroundings_check import sound_config
from speed.errors import ConfigurationError
from speed.fs.keyfile import write_key_file
from speed.hosts import HostGrantSettings, HostSettings, HostsSettings

FILE = Path("/etc/speed/speedd.toml")
GOOD = """\
[hosts]
name = "hosta"
address = "nats://me:s3cret@10.0.0.5:4222?tls=true"
allow = ["cli.*"]
max_calls = 8
[[host]]
name = "hostb"
key = "pair.key"
[[host_grant]]
callers = ["analytics@hosta", "etl.*@hosta"]
nodes = ["*@hostb"]
services = ["charge"]
[[host_grant]]
callers = ["*@hostb"]
nodes = ["geo@hosta"]
[[process]]
name = "geo"
entry = "geo:register"
allow = ["local", "*@hostb"]
"""


def told(text: str) -> list[str]:
    return [str(mistake) for mistake in check_text(text, FILE)[1]]


def test_a_good_file_says_hosts_keys_and_grants() -> None:
    config, mistakes = check_text(GOOD, FILE)
    assert config is not None and not mistakes
    assert config.hosts == HostsSettings("hosta", "nats://me:s3cret@10.0.0.5:4222?tls=true", ("cli.*",), 8)
    assert config.each_host == (HostSettings("hostb", Path("/etc/speed/pair.key")),)
    assert config.host_grants == (
        HostGrantSettings(("analytics@hosta", "etl.*@hosta"), ("*@hostb",), ("charge",)),
        HostGrantSettings(("*@hostb",), ("geo@hosta",)),
    )
    assert config.processes[0].allow == ("local", "at.hostb.*")
    assert "s3cret" not in repr(config)


@pytest.mark.parametrize(
    ("old", "new", "line", "what"),
    [
        ('[hosts]\nname = "hosta"\n', "[hosts]\n", 1, "[hosts] has no name"),
        ('address = "nats://me:s3cret@10.0.0.5:4222?tls=true"\n', "", 1, "[hosts] has no address"),
        ("nats://me:s3cret@10.0.0.5:4222?tls=true", "redis://me:s3cret@10.0.0.5", 3, "do not meet over redis"),
        ("nats://me:s3cret@10.0.0.5:4222?tls=true", "10.0.0.5:s3cret", 3, "begins with none"),
        ("max_calls = 8", "max_calls = 0", 5, "max_calls"),
        ('name = "hosta"', 'name = "host.a"', 2, "no name of a host"),
        ('name = "hostb"', 'name = "hosta"', 7, "is this host itself"),
        ('key = "pair.key"\n', "", 6, "has no key"),
        ('[[host]]\nname = "hostb"\nkey = "pair.key"\n', "", 1, "knows no other host"),
        ("[[process]]", '[[host]]\nname = "hostb"\nkey = "b"\n[[process]]', 17, "already defined"),
        ('nodes = ["*@hostb"]', 'nodes = ["*@hostc"]', 11, "there is no host 'hostc'"),
        ('"etl.*@hosta"', '"*@hosta"', 10, "everyone of this host"),
        ('nodes = ["geo@hosta"]', 'nodes = ["geo@hostb"]', 13, "names both"),
        ('nodes = ["geo@hosta"]', "", 13, "has no nodes"),
        ('nodes = ["geo@hosta"]', 'nodes = ["geo"]', 15, "no name of a host"),
        ('nodes = ["geo@hosta"]', 'nodes = ["*"]', 15, "no name of a host"),
        ('services = ["charge"]', 'services = ["char ge"]', 12, "service name"),
    ],
)
def test_a_mistake_is_told_with_its_line(old: str, new: str, line: int, what: str) -> None:
    assert GOOD.count(old) == 1
    mistakes = told(GOOD.replace(old, new))
    assert any(one.startswith(f"line {line}: ") and what in one for one in mistakes), mistakes
    assert not any("s3cret" in one for one in mistakes)


def test_hosts_and_grants_need_the_table_that_names_this_one() -> None:
    without = GOOD[GOOD.index("[[host]]") :]
    assert [one.partition(";")[0] for one in told(without)] == [
        "line 1: [[host]] without [hosts]",
        "line 4: [[host_grant]] without [hosts]",
    ]


def test_key_files_and_certificates_are_looked_at(tmp_path: Path) -> None:
    file = tmp_path / "speedd.toml"
    write_key_file(str(tmp_path / "speed.key"), (bytes(32),))
    text = GOOD[: GOOD.index("[[process]]")].replace("me:s3cret@", "")
    file.write_text(f'[node]\nkey = "speed.key"\n{text}'.replace("tls=true", "tls=true&trusted=/nowhere"))
    with pytest.raises(ConfigurationError) as caught:
        sound_config(file)
    shown = str(caught.value)
    assert "line 10: there is no key file" in shown
    assert "line 5: trusted '/nowhere'" in shown
    write_key_file(str(tmp_path / "pair.key"), (bytes(range(32)),))
    file.write_text(f'[node]\nkey = "speed.key"\n{text}')
    assert sound_config(file).hosts is not None
