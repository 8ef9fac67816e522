"""Who may look at all nodes of a root (A-7)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from scripts.vectors.files import ENTRY
from speed.core.access import AccessPolicy, granted, observed, parse_observers
from speed.errors import ConfigurationError
from speed.wire.limits import MAX_OBSERVERS, MAX_OBSERVERS_BYTES

_FINGERPRINT = "0123456789abcdef0123456789abcdef01234567"


def observers() -> dict[str, Any]:
    """Texts of the file, who may ask, and what is published."""
    return {
        "about": "A-7. `texts`: what is in `.observers`, and whom it names, sorted; null where it is refused. "
        "`askers`: what `asker`, who has no identity, may do by what an entry publishes; `looks`: it may write "
        "HEARTBEAT and DISCOVERY with op STATS, `writes`: it may write everything. `published`: a node has granted "
        "`allow` and then denied `deny`, where `granted_last` the other way round, and its root has these `observers`. "
        "Its entry then has `published_deny`; `observes` and `allows` are what it decides of `asker`.",
        "texts": list(_texts()),
        "askers": list(_askers()),
        "published": list(_published()),
    }


def _texts() -> Iterator[dict[str, Any]]:
    many = "".join(f"node{number}\n" for number in range(MAX_OBSERVERS))
    for name, bug, text in (
        ("two", "basic form", b"speedd\ncli.*\n"),
        ("empty", "a file without names refused", b""),
        ("no last line feed", "the last line lost", b"speedd\ncli.*"),
        ("comments", "a comment read as a name", b"# who looks\nspeedd # the guardian\n#cli.*\n"),
        ("spaces", "a name with its spaces", b"\t speedd \t\n \t\n\n"),
        ("carriage returns", "a name that ends with CR", b"speedd\r\n\r\ncli.*\r\n"),
        ("twice, unsorted", "a name twice in the entry", b"speedd\ncli.*\nspeedd\n"),
        ("as many as may be", "off by one", many.encode()),
        ("one too many", "a list without an end", many.encode() + b"one.more\n"),
        ("as long as may be", "off by one", b"speedd\n".ljust(MAX_OBSERVERS_BYTES, b"#")),
        ("too long", "a file without an end", b"speedd\n".ljust(MAX_OBSERVERS_BYTES + 1, b"#")),
        ("everyone", "deny by default undone", b"*\n"),
        ("one wrong of two", "the rest of a wrong file believed", b"speedd\n../x\n"),
        ("two in a line", "split at spaces", b"speedd cli.*\n"),
        ("an identity", "a grant of an identity taken", f"speedd@{_FINGERPRINT}\n".encode()),
        ("not ASCII", "broken text replaced", b"sp\xc3\xa9edd\n"),
        ("byte order mark", "encoding guessed", b"\xef\xbb\xbfspeedd\n"),
        ("zero byte", "a text that ends at a zero byte", b"speedd\0\n"),
        ("form feed", "all white space stripped", b"speedd\f\n"),
        ("a reserved name", "names unchecked", b"speed_registry\n"),
    ):
        try:
            named: list[str] | None = list(parse_observers(text))
        except ConfigurationError:
            named = None
        yield {"name": name, "bug": bug, "hex": text.hex(), "names": named}


def _askers() -> Iterator[dict[str, Any]]:
    of_speedd = (f"speedd@{_FINGERPRINT}",)
    rows: tuple[tuple[str, str, dict[str, tuple[str, ...]], str], ...] = (
        ("nobody", "everyone by default", {}, "speedd"),
        ("a name", "observers not read", {"observers": ("cli.*", "speedd")}, "speedd"),
        ("a family", "families not known", {"observers": ("cli.*",)}, "cli.1"),
        ("the family's own name", "a family that has its own head", {"observers": ("cli.*",)}, "cli"),
        ("granted too", "an observer is no more than that", {"observers": ("cli.*",), "allow": ("cli.*",)}, "cli.1"),
        ("denied by name", "denials not asked", {"observers": ("cli.*",), "deny": ("cli.1",)}, "cli.1"),
        ("another is denied", "a denial for all", {"observers": ("cli.*",), "deny": ("cli.1",)}, "cli.2"),
        ("its family is denied", "the most specific decides", {"observers": ("cli.1",), "deny": ("cli.*",)}, "cli.1"),
        (
            "granted in a denied family",
            "who is granted is refused",
            {"observers": ("cli.*",), "allow": ("cli.1",), "deny": ("cli.*",)},
            "cli.1",
        ),
        (
            "granted as an identity",
            "an observer needs none",
            {"observers": ("speedd",), "identities": of_speedd},
            "speedd",
        ),
        ("another is granted so", "for all", {"observers": ("cli.*",), "identities": of_speedd}, "cli.1"),
    )
    for name, bug, published, asker in rows:
        entry = replace(ENTRY, **{"allow": (), **published})
        writes = granted(entry, asker, "")
        yield {
            "name": name,
            "bug": bug,
            **{field: list(published.get(field, ())) for field in ("allow", "deny", "identities", "observers")},
            "asker": asker,
            "looks": writes or observed(entry, asker),
            "writes": writes,
        }


def _published() -> Iterator[dict[str, Any]]:
    for name, bug, allow, deny, named, asker in (
        ("an observer", "basic form", (), (), ("cli.*", "speedd"), "cli.1"),
        ("a family denied", "a denial that only grants publish", (), ("cli.*",), ("cli.*",), "cli.1"),
        ("one denied", "a denial that only grants publish", (), ("cli.1",), ("cli.*",), "cli.1"),
        ("a wider family denied", "covered one way only", (), ("ops.*",), ("ops.eu.*",), "ops.eu.1"),
        ("a stranger denied", "every denial published", (), ("web",), ("cli.*",), "web"),
        ("granted again", "a denial for ever", ("cli.1",), ("cli.*",), ("cli.*",), "cli.1"),
        ("granted, one denied", "both lists, each once", ("cli.*",), ("cli.1",), ("cli.*",), "cli.1"),
    ):
        policy = AccessPolicy()
        last = name == "granted again"
        policy.allow(*(() if last else allow))
        policy.deny(*deny)
        policy.allow(*(allow if last else ()))
        policy.observe(named)
        yield {
            "name": name,
            "bug": bug,
            "allow": list(allow),
            "deny": list(deny),
            "granted_last": last,
            "observers": list(named),
            "published_deny": list(policy.denied()),
            "asker": asker,
            "observes": policy.observes(asker),
            "allows": policy.allows(asker),
        }
