"""``speed message-key new|public|show|rotate|algorithms``: files for ``file://`` providers (M-26)."""

from __future__ import annotations

import os

import click

from speed.cli.options import span
from speed.cli.output import echo, print_rows, print_value
from speed.errors import ConfigurationError
from speed.fs.keyfile import alone_with
from speed.message.algorithms import ALGORITHMS, FIPS_MODES
from speed.message.fips import fips_report
from speed.message.keys import generate_key
from speed.trust.providers import FileProvider
from speed.trust.rotating import rotate_file, write_keys

_DAY_MS = 86_400_000
_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_many = {"multiple": True, "metavar": "PATTERN"}


@click.group("message-key")
def message_key_command() -> None:
    """Keys that sign and encrypt messages. A secret is never printed."""


@message_key_command.command("new")
@click.argument("file", type=click.Path())
@click.argument("algorithm")
@click.option("--id", "key_id", required=True, help="Such as orders.1: what stands in messages.")
@click.option("--topic", "topics", help="Topics it is for; repeatable, default all.", **_many)  # type: ignore[arg-type]
@click.option("--publisher", "publishers", help="Who signs with it; repeatable.", **_many)  # type: ignore[arg-type]
def new(file: str, algorithm: str, key_id: str, topics: tuple[str, ...], publishers: tuple[str, ...]) -> None:
    """Write a new key of ALGORITHM (x-wing, ed25519, aes-256-gcm, …) to FILE, which must not exist."""
    key = generate_key(key_id, algorithm, topics=topics or ("*",), publishers=publishers)
    with alone_with(file):
        if os.path.lexists(file):
            raise ConfigurationError(f"{file} exists: rotate it, or choose another name")
        write_keys(file, (key,))
    echo(f"{file}: {key.id} ({key.algorithm.name})")


@message_key_command.command("public")
@click.argument("file", type=click.Path())
def public(file: str) -> None:
    """Print the public parts of the keys in FILE, to be given to who encrypts or verifies."""
    print_value([key.public_part().to_record() for key in FileProvider(file).fetch()], False)


@message_key_command.command("show")
@click.argument("file", type=click.Path())
@_json_option
def show(file: str, as_json: bool) -> None:
    """List the keys in FILE: ids, algorithms and bounds."""
    keys = FileProvider(file).fetch()
    rows = [
        {"id": key.id, "algorithm": key.algorithm.name, "secret": key.secret is not None, "topics": list(key.topics)}
        | {"notBeforeMs": key.not_before_ms, "notAfterMs": key.not_after_ms}
        for key in keys
    ]
    if as_json:
        print_value(rows, True)
    else:
        print_rows(list(rows[0]), [list(row.values()) for row in rows])


@message_key_command.command("rotate")
@click.argument("file", type=click.Path())
@click.option("--period-days", type=span("days", 0), default=0.0, help="Only if the newest key is as old as that.")
@click.option(
    "--overlap-days", type=span("days", 0), default=7.0, show_default=True, help="How long older keys are still read."
)
def rotate(file: str, period_days: float, overlap_days: float) -> None:
    """Add a new key to FILE and let the others end; those that ended are removed."""
    fresh = rotate_file(file, int(period_days * _DAY_MS), int(overlap_days * _DAY_MS))
    if fresh is None:
        echo(f"{file}: not due")
        return
    echo(f"{file}: {fresh.id} from now on; give its public part to who needs it")


@message_key_command.command("algorithms")
@click.option("--fips-mode", type=click.Choice(FIPS_MODES), default="off", show_default=True)
@_json_option
def algorithms(fips_mode: str, as_json: bool) -> None:
    """List algorithms, and what is known of FIPS 140-3 here."""
    report = fips_report(fips_mode)
    if as_json:
        print_value(report._asdict(), True)
        return
    rows = [
        (name, "yes" if name in report.allowed else "no", "yes" if row.strict else "no")
        for name, row in ALGORITHMS.items()
    ]
    print_rows(["algorithm", f"allowed ({fips_mode})", "approved by NIST"], rows)
    echo(f"{report.openssl}; FIPS provider enabled: {report.provider_enabled}")
    echo(f"module validated: {report.module_validated}")
