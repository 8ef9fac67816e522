"""``speed root init``, ``speed key new|id|status|rotate|identity``."""

from __future__ import annotations

import os
import secrets
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click

from speed.cli.options import Settings, common_options, echo, print_rows, print_value
from speed.errors import ConfigurationError, KeyFileError
from speed.wire import names
from speed.wire.limits import KEY_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from speed.wire.identities import NodeIdentity


from speed.observe.holders import Holder, holders, lost_with, recorded_with


@click.command("init")
@click.argument("directory", required=False, metavar="[DIR]")
@click.option("--group", metavar="NAME", help="Share the root with this group: its members' nodes meet there.")
@common_options
def init_command(settings: Settings, group: str | None, directory: str | None) -> None:
    """Prepare a root: make the directory, its registry and a key where they are missing.

    DIR is the root, as --root is.
    """
    from speed.fs.keyfile import make_root

    if directory is not None:
        if settings.root_option is not None:
            raise click.UsageError("give the root once: as DIR, or with --root")
        settings = replace(settings, root_option=directory)
    root, key = settings.root, os.path.abspath(settings.key)
    key_id, made_key = make_root(root, key, None if group is None else _group_id(group))
    answer = {"root": root, "key": key, "keyId": key_id, "madeKey": made_key}
    if settings.as_json:
        print_value(answer, True)
        return
    echo(f"Root {root} is ready. Key {key} ({'new' if made_key else 'kept'}, id {key_id}).")
    echo(f"export SPEED_ROOT={root}" + ("" if key == os.path.join(root, "speed.key") else f" SPEED_KEY={key}"))


def _group_id(name: str) -> int:
    """The number of a group that a root may be shared with; ConfigurationError."""
    import grp

    if os.geteuid() != 0:
        raise ConfigurationError(
            "only the user root makes a root that others trust: run `sudo speed root init --root DIR --group NAME`"
        )
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise ConfigurationError(f"there is no group {name!r}: make it with `groupadd`, and add its members") from None


@click.group("key")
def key_command() -> None:
    """Make, identify and rotate keys. A key itself is never printed."""


@key_command.command("new")
@click.argument("file", required=False, metavar="[FILE]")
@common_options
def new(settings: Settings, file: str | None) -> None:
    """Write a new key file that only you can read; an existing file is never overwritten."""
    from speed.fs.keyfile import write_key_file

    path = os.path.abspath(file or settings.key)
    write_key_file(path, (secrets.token_bytes(KEY_BYTES),))
    _show(settings, path)


@key_command.command("id")
@click.argument("file", required=False, metavar="[FILE]")
@common_options
def key_id(settings: Settings, file: str | None) -> None:
    """Show the ids of the keys in a file: equal ids mean equal keys."""
    _show(settings, os.path.abspath(file or settings.key))


@key_command.command("status")
@common_options
def status(settings: Settings) -> int:
    """Show which nodes have the keys of the file. Ends with status 1 while one has not: wait before the next step."""

    registry = settings.registry()
    found = holders(registry)
    is_done = all(one.state == "current" for one in found)
    if settings.as_json:
        accepted = [one.hex() for one in registry.keyring.key_ids]
        nodes = [{"name": one.name, "keyIds": list(one.ids), "state": one.state} for one in found]
        print_value({"done": is_done, "accepted": accepted, "nodes": nodes}, True)
    else:
        rows = [_status_row(one) for one in found]
        print_rows(("node", "keys", "state", "what to do"), rows, empty=f"No live nodes in {settings.root}.")
    return int(not is_done)


def _status_row(one: Holder) -> list[str]:
    return [one.name, " ".join(one.ids) or "-", one.state, "" if one.state == "current" else one.todo]


@key_command.command("rotate")
@click.argument("file", required=False, metavar="[FILE]")
@click.option(
    "--step",
    type=click.Choice(["add", "promote", "retire", "now"]),
    default="now",
    show_default=True,
    help="add: accept a new key. promote: seal with it. retire: drop the older keys. now: add and promote at once.",
)
@click.option("--force", is_flag=True, help="Retire keys even if something can be read with them only.")
@click.option(
    "--directory",
    "directories",
    metavar="DIR",
    multiple=True,
    help="A journal, or durable topics, that lie outside of the root: retire looks there as well. May be repeated.",
)
@common_options
def rotate(settings: Settings, file: str | None, step: str, force: bool, directories: tuple[str, ...]) -> None:
    """Change the key while nodes run: `add`, `promote`, `retire`.

    Nodes take the changed file with their next heartbeat, without a restart. After each step wait until `speed key
    status` ends with status 0: then every node has the file. Where each node has a file of its own, change them all.

    `retire` makes unreadable what only the old keys open: unread messages, dead letters, what came in segments and is
    not whole, and what was not sealed anew of the root's journal and durable topics, or of those in DIR. It says what
    there is, and refuses without --force. speedd seals anew by itself, `speed journal reseal` where none runs.

    `now` is for a root whose nodes do not run, or all restart together.
    """
    from speed.fs.keyfile import change_key_file

    path = os.path.abspath(file or settings.key)
    before = partial(_prepare_retiring, settings.root, force, directories) if step == "retire" else None
    change_key_file(path, lambda keys: rotated(keys, step, secrets.token_bytes(KEY_BYTES), before))
    _show(settings, path)
    if step in ("add", "promote") and not settings.as_json:
        after = "promote" if step == "add" else "retire"
        echo(f"When `speed key status` says that all nodes have it: speed key rotate --step {after}")


def _prepare_retiring(root: str, force: bool, directories: tuple[str, ...], keys: tuple[bytes, ...]) -> None:
    """Have the floor of generations made by the first key, or no node could start.

    KeyFileError names what else in the root needs the other keys, unless ``force`` is said.
    """
    from speed.fs.claim import seal_anew
    from speed.fs.registry import Registry
    from speed.wire.names import claims_dir, journal_dir, topics_dir
    from speed.wire.seal import Keyring

    ring, is_root = Keyring(keys), os.path.isdir(claims_dir(root))
    if not force:
        lost = list(lost_with(Registry(root, ring), ring.key_ids[1:])) if is_root else []
        lost += recorded_with((journal_dir(root), topics_dir(root), *directories), ring, ring.key_ids[1:])
        if lost:
            raise KeyFileError(f"only the older keys open this: {'; '.join(lost)}. Wait, or retire them with --force")
    if is_root:
        seal_anew(root, ring)


def rotated(
    keys: tuple[bytes, ...], step: str, fresh: bytes, before: Callable[[tuple[bytes, ...]], None] | None = None
) -> tuple[bytes, ...]:
    """The keys of a file after one step of a rotation; the first key seals, all are accepted. ``before`` may refuse."""
    from speed.wire.limits import MAX_KEYS

    if before is not None:
        before(keys)
    if step in ("add", "now") and len(keys) == MAX_KEYS:
        raise KeyFileError(f"the file already has {MAX_KEYS} keys; finish with --step retire")
    if step == "add":
        return (*keys, fresh)
    if step == "promote":
        if len(keys) < 2:
            raise KeyFileError("there is no added key to promote; begin with --step add")
        return (keys[-1], *keys[:-1])
    return keys[:1] if step == "retire" else (fresh, *keys)


def _show(settings: Settings, path: str) -> None:
    from speed.fs.keyfile import read_keys
    from speed.wire.seal import key_id_of

    ids = [key_id_of(key).hex() for key in read_keys(path)]
    if settings.as_json:
        print_value({"file": path, "keyId": ids[0], "accepted": ids}, True)
        return
    echo(f"{path}: seals with {ids[0]}" + (f", accepts {', '.join(ids[1:])}" if ids[1:] else ""))


# --- identities of nodes (I-1 to I-7) ---


@key_command.group("identity")
def identity_command() -> None:
    """Make identities of nodes, and say whose name is whose. A secret is never printed."""


def _show_identity(settings: Settings, path: str, identity: NodeIdentity) -> None:
    if settings.as_json:
        about = {"exchangeKeys": len(identity.exchanges), "owners": list(identity.owners)}
        print_value({"file": path, "fingerprint": identity.fingerprint, **about}, True)
        return
    echo(f"{path}: {identity.fingerprint}")


@identity_command.command("new")
@click.argument("file")
@click.option(
    "--owner", "owners", metavar="FINGERPRINT", multiple=True, help="Whose statements count. May be repeated."
)
@common_options
def identity_new(settings: Settings, file: str, owners: tuple[str, ...]) -> None:
    """Write a new identity that only you can read, and show its fingerprint.

    With --owner only identities that an owner vouches for are accepted. Without, whoever comes first under a name is
    remembered, in FILE.known.
    """
    from speed.fs.keyfile import write_identity
    from speed.wire.identities import NodeIdentity, format_identity_file, parse_identity_file

    path, identity = os.path.abspath(file), NodeIdentity.new(owners)
    parse_identity_file(format_identity_file(identity))  # says what is wrong with an owner
    write_identity(path, identity)
    _show_identity(settings, path, identity)


@identity_command.command("show")
@click.argument("file")
@common_options
def identity_show(settings: Settings, file: str) -> None:
    """Show the fingerprint of an identity."""
    from speed.fs.keyfile import read_identity

    path = os.path.abspath(file)
    _show_identity(settings, path, read_identity(path))


@identity_command.command("renew")
@click.argument("file")
@click.option("--keep", type=click.IntRange(0, 3), default=1, show_default=True, help="Older exchange keys to keep.")
@common_options
def identity_renew(settings: Settings, file: str, keep: int) -> None:
    """Give an identity a new exchange key; its fingerprint stays. The node takes it with its next heartbeat.

    What was sealed for a key that is dropped opens no more: not for a thief of this file, and not for its node. So
    renew first, and drop the old key with `--keep 0` once the entry of the node says so and it has read all its lanes.
    """
    from speed.fs.keyfile import change_identity

    path = os.path.abspath(file)
    _show_identity(settings, path, change_identity(path, lambda identity: identity.renewed(keep)))


@identity_command.command("vouch")
@click.argument("node")
@click.argument("fingerprint")
@click.option("--owner", "file", metavar="FILE", required=True, help="The identity of the owner.")
@click.option("--days", type=click.IntRange(1), help="For how long; without it there is no end.")
@common_options
def identity_vouch(settings: Settings, node: str, fingerprint: str, file: str, days: int | None) -> None:
    """State as an owner that NODE is who has FINGERPRINT."""
    from speed.wire.identities import VOUCHED

    _state(settings, node, fingerprint, file, VOUCHED, days)


@identity_command.command("revoke")
@click.argument("node")
@click.argument("fingerprint")
@click.option("--owner", "file", metavar="FILE", required=True, help="The identity of the owner.")
@common_options
def identity_revoke(settings: Settings, node: str, fingerprint: str, file: str) -> None:
    """State as an owner that NODE no longer is who has FINGERPRINT."""
    from speed.wire.identities import REVOKED

    _state(settings, node, fingerprint, file, REVOKED, None)


def _state(settings: Settings, node: str, fingerprint: str, file: str, kind: int, days: int | None) -> None:
    from speed.fs.keyfile import read_identity, statement_of, write_statement
    from speed.wire.identities import VOUCHED, Statement, make_statement

    names.check_node_name(node)
    if not names.is_fingerprint(fingerprint):
        raise ConfigurationError(f"{fingerprint!r} is no fingerprint: `speed key identity show FILE` prints one")
    owner, now = read_identity(os.path.abspath(file)), int(time.time())
    before = statement_of(settings.root, node, (owner.fingerprint,))
    issued = now if before is None else max(now, before.issued + 1)  # the newer one counts
    until = 0 if days is None else now + days * 86400
    made = make_statement(owner, Statement(kind, names.node_id(node), fingerprint, issued, until))
    write_statement(settings.root, node, made)
    what = "vouched for" if kind == VOUCHED else "revoked"
    if settings.as_json:
        print_value({"node": node, "fingerprint": fingerprint, "state": what, "until": until}, True)
    else:
        echo(f"{node}: {fingerprint} is {what} by {owner.fingerprint}")


@identity_command.command("known")
@click.argument("file")
@common_options
def identity_known(settings: Settings, file: str) -> None:
    """Show whom the node of this identity remembers."""
    from speed.fs.keyfile import KnownIdentities

    found = sorted(KnownIdentities(os.path.abspath(file)).all().items())
    if settings.as_json:
        print_value(
            [{"node": name, "fingerprint": one.fingerprint, "revoked": one.is_revoked} for name, one in found], True
        )
    else:
        rows = [[name, one.fingerprint, "revoked" if one.is_revoked else ""] for name, one in found]
        print_rows(("node", "fingerprint", ""), rows, empty="Nobody is known.")


@identity_command.command("forget")
@click.argument("file")
@click.argument("node")
@common_options
def identity_forget(settings: Settings, file: str, node: str) -> None:
    """Forget the identity of NODE: whoever comes next under its name is remembered. Stop the node of FILE first."""
    from speed.fs.keyfile import KnownIdentities

    if not KnownIdentities(os.path.abspath(file)).forget(node):
        raise ConfigurationError(f"{node!r} is not known to the node of {file}")
    if not settings.as_json:
        echo(f"{node} is forgotten.")
