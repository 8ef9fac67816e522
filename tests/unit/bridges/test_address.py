"""Addresses of backends: what they say, and that their credentials are in no text."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

import speed.messages
from speed.backends import open_backend
from speed.backends.address import Address, is_untrusted, parse_address, tls_context
from speed.errors import ConfigurationError

SECRET = "hunter2%2Fx"


def test_an_address_says_where_and_how() -> None:
    one = parse_address(f"kafka://me:{SECRET}@a.example:1,b.example?lease_seconds=5&tls=true")
    assert (one.backend, one.hosts, one.tls) == ("kafka", (("a.example", 1), ("b.example", 9092)), True)
    assert (one.user, one.password(), one.options["lease_seconds"]) == ("me", "hunter2/x", 5.0)


@pytest.mark.parametrize(
    ("text", "backend", "hosts", "place"),
    [
        ("nats://h", "nats", (("h", 4222),), ""),
        ("redis://h:1/3", "redis", (("h", 1),), "3"),
        ("postgres://h/shop", "postgres", (("h", 5432),), "shop"),
        ("postgresql://[::1]:7/shop", "postgres", (("::1", 7),), "shop"),
        ("s3://bucket?endpoint=http://h:5000", "s3", (), "bucket"),
        ("sqs://queue.fifo?region=eu-west-1&bucket=large", "sqs", (), "queue.fifo"),
    ],
)
def test_each_backend_has_its_form(text: str, backend: str, hosts: object, place: str) -> None:
    one = parse_address(text)
    assert (one.backend, one.hosts, one.place) == (backend, hosts, place)


def test_who_gives_no_password_has_none() -> None:
    assert parse_address("redis://h").password() == ""


@pytest.mark.parametrize(
    ("text", "option", "value"),
    [
        ("postgres://h/d?table=orders_2", "table", "orders_2"),
        ("postgres://h/d", "table", "prism_events"),
        ("redis://h?form=pubsub", "form", "pubsub"),
        ("redis://h", "form", "streams"),
        ("postgres://h/d", "form", "messages"),
        ("sqs://q?lease_seconds=5", "lease_seconds", 5.0),
        ("postgres://h/d?table=events&form=rows", "form", "rows"),
        ("kafka://h?transactional_id=shop-1", "transactional_id", "shop-1"),
    ],
)
def test_an_option_is_read_and_has_a_default(text: str, option: str, value: object) -> None:
    assert parse_address(text).options[option] == value


def test_rediss_is_redis_with_tls() -> None:
    assert parse_address("rediss://h").tls
    assert not parse_address("redis://h").tls


@pytest.mark.parametrize(
    "text",
    [
        f"http://me:{SECRET}@h",
        f"//me:{SECRET}@h",
        f"kafka://me:{SECRET}@",
        f"kafka://me:{SECRET}@h:port",
        f"kafka://me:{SECRET}@h/orders",
        f"kafka://me:{SECRET}@h#x",
        f"kafka://me:{SECRET}@h?table=x",
        f"kafka://me:{SECRET}@h?lease_seconds=0.1",
        f"kafka://me:{SECRET}@h?lease_seconds=x",
        f"sqs://me:{SECRET}@q?lease_seconds=1.5",
        f"sqs://me:{SECRET}@q/x",
        f"kafka://me:{SECRET}@h?tls=yes",
        f"kafka://me:{SECRET}@h?tls",
        f"kafka://me:{SECRET}@h?password_file=x",
        f"kafka://me:{SECRET}@[h",
        f"nats://me:{SECRET}@h/x",
        f"redis://me:{SECRET}@h/name",
        f"redis://me:{SECRET}@h?form=lists",
        f"postgres://me:{SECRET}@h/d?table=a;drop",
        f"s3://me:{SECRET}@",
        f"s3://me:{SECRET}@bucket/folder",
        f"s3://me:{SECRET}@bucket?endpoint=file:///tmp",
        f"s3://me:{SECRET}@bucket?endpoint=https://",
        f"s3://me:{SECRET}@bucket?endpoint=https://h:port",
        f"s3://me:{SECRET}@bucket?endpoint=minio:9000",
        f"s3://me:{SECRET}@bucket?region=not a region",
        f"sqs://me:{SECRET}@queue?endpoint=file:///tmp",
    ],
)
def test_what_is_no_address_is_refused_without_its_credentials(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_address(text)
    assert "hunter2" not in str(caught.value) and "me:" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_an_address_and_a_connection_are_shown_without_credentials() -> None:
    text = f"redis://me:{SECRET}@h:1/2"
    shown = f"{parse_address(text)!r} {parse_address(text)} {speed.messages.connect(text)!r}"
    assert "redis://h:1" in shown
    assert "hunter2" not in shown and "me" not in shown.replace("messages", "").replace("name", "")


def test_a_password_may_lie_in_a_file_that_is_read_each_time(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("first\n")
    one = parse_address(f"redis://me@h?password_file={file}")
    assert one.password() == "first"
    file.write_text("second")
    assert one.password() == "second"
    file.unlink()
    with pytest.raises(ConfigurationError, match="cannot be read"):
        one.password()
    file.write_bytes(b"\xff")
    with pytest.raises(ConfigurationError, match="no UTF-8"):
        one.password()


def test_tls_trusts_what_the_address_names(tmp_path: Path) -> None:
    assert tls_context(parse_address("nats://h")) is None
    context = tls_context(parse_address("nats://h?tls=true"))
    assert context is not None and context.check_hostname
    with pytest.raises(ConfigurationError, match="no file of certificates"):
        tls_context(parse_address(f"nats://h?tls=true&trusted={tmp_path}/none.pem"))


def test_a_certificate_that_is_not_trusted_is_told_from_other_errors() -> None:
    error = OSError("no connection")
    error.__cause__ = ssl.SSLCertVerificationError("unknown authority")
    assert is_untrusted(error)
    assert not is_untrusted(OSError("no connection"))
    circle = OSError("again")
    circle.__cause__ = circle
    assert not is_untrusted(circle)


@pytest.mark.parametrize("backend", ["kafka", "nats", "redis", "postgres", "s3", "sqs"])
def test_a_library_that_is_missing_is_named_with_its_extra(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr("speed.backends.import_module", absent)
    address = Address(backend, (("h", 1),), "", False, {})
    with pytest.raises(ConfigurationError, match=rf"speed-ipc\[{backend}\]"):
        open_backend(address)


@pytest.mark.parametrize("address", ["kafka://h", "nats://h", "redis://h", "postgres://h/d", "s3://bucket"])
def test_a_backend_connects_when_it_is_first_used(address: str) -> None:
    open_backend(address).close()
