"""Names, patterns, file names (W-1 to W-3, A-2, L-1, R-4), key files and derived keys (W-9 to W-14)."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from scripts.vectors.fixed import KEY, OLD, SOURCE, TARGET
from speed.wire.names import node_id
from speed.wire.seal import Keyring, format_key_file, key_id_of, link_key


def names() -> dict[str, Any]:
    """Names, patterns, ids and file names."""
    good = ["a", "_", "7", "billing", "python_worker", "etl.1", "A-b_c.D-2", "a" * 128, "x.-"]
    bad = {
        "": "empty name",
        ".": "current directory",
        "..": "parent directory",
        ".hidden": "leading dot",
        "-flag": "a name that looks like an option",
        "a..b": "empty part",
        "a.": "trailing dot, which some filesystems drop",
        "a/b": "path separator",
        "a\\b": "path separator of another system",
        "a\x00b": "cut at the zero byte by C functions",
        "a b": "space",
        "a\n": "a pattern anchored by $ accepts a last newline",
        "é": "letters are ASCII only",
        "\uff11": "digits are ASCII only",
        "a" * 129: "length unchecked",
        "*": "a pattern is no name",
    }
    reserved = ["speed_registry", "bell", "inbox", "quarantine"]
    of_roots = ["speed.key", "speed.key.new", ".speed.key.lock", ".speedd.lock", "journal", "topics"]
    matching = [
        ("etl.*", "etl.1", True, "family"),
        ("etl.*", "etl.a.b", True, "a family covers further dots"),
        ("etl.*", "etl", False, "a family taken to cover its own stem"),
        ("etl.*", "etlx", False, "prefix compared without the dot"),
        ("etl.*", "etl.", False, "the part after the dot may not be empty"),
        ("billing", "billing", True, "exact name"),
        ("billing", "billing2", False, "prefix taken for equality"),
        ("a.b", "axb", False, "dot read as a regular expression"),
        ("billing", "Billing", False, "case folded"),
    ]
    files = [
        ("segment", "000007-00000001.lane", [7, 1]),
        ("segment", "16777215-4294967295.lane", [16777215, 4294967295]),
        ("segment", "0000007-00000001.lane", None),
        ("segment", "000007-000000001.lane", None),
        ("segment", "000000-00000001.lane", None),
        ("segment", "16777216-00000001.lane", None),
        ("segment", "000007-00000000.lane", None),
        ("segment", "000007-00000001.lane.tmp", None),
        ("slot", "000007-01.slot", [7, 1]),
        ("slot", "16777215-16.slot", [16777215, 16]),
        ("slot", "000007-17.slot", None),
        ("slot", "000007-00.slot", None),
        ("slot", "000007-1.slot", None),
        ("slot", "000007-001.slot", None),
        ("slot", "000000-01.slot", None),
        ("slot", "000007-01.slot.tmp", None),
        ("cursor", "cursor.000012", 12),
        ("cursor", "cursor.12", None),
        ("cursor", "cursor.0000012", None),
        ("start", "start.000012", 12),
        ("start", "start.1000000", 1000000),
        ("start", "start.12", None),
        ("start", "start.000000", None),
        ("start", "start.0000012", None),
        ("start", "start.000012.tmp", None),
        ("fence", "000003.fence", 3),
        ("fence", "3.fence", None),
        ("claim", "billing.000007", ["billing", 7]),
        ("claim", "etl.1.1000000", ["etl.1", 1000000]),
        ("claim", "billing.0000007", None),
        ("claim", ".000007", None),
        ("claim", "billing.000000", None),
        ("claim", "billing.99999999", None),
        ("entry", "etl.1.node", "etl.1"),
        ("entry", ".node", None),
        ("entry", ".tmp-billing.node", None),
    ]
    return {
        "about": "W-1 names, W-2 topics, A-2 grants, W-3 node ids, L-1 and R-4 file names.",
        "valid_names": [{"name": name, "node_id": node_id(name).hex()} for name in good],
        "invalid_names": [{"name": name, "bug": bug} for name, bug in bad.items()]
        + [{"name": name, "bug": "a reserved name would share a directory"} for name in reserved]
        + [{"name": name, "bug": "a node in the place of a file of the root"} for name in of_roots],
        "valid_topics": ["a", "orders.created", "-", "a" * 255],
        "invalid_topics": ["", ".", "a.", ".a", "a..b", "a b", "a/b", "a*", "a" * 256, "é", "a\n"],
        "valid_grants": ["billing", "etl.*", "a.b.*"],
        "invalid_grants": ["*", ".*", "*.etl", "etl*", "etl.*.x", "bell.*", "inbox", ""],
        "valid_topic_patterns": ["*", "orders", "orders.*"],
        "invalid_topic_patterns": ["", "*.created", "orders*", ".*", "orders.*.x"],
        "matching": [{"pattern": p, "name": n, "matches": m, "bug": b} for p, n, m, b in matching],
        "files": [{"kind": kind, "file": file, "parsed": parsed} for kind, file, parsed in files],
    }


def keys() -> dict[str, Any]:
    """Key files, key ids and derived keys."""
    text, older = b64encode(KEY).decode(), b64encode(OLD).decode()
    head = "SPEED-KEY-V1\n\n"

    def good(name: str, bug: str, content: str, *found: bytes) -> dict[str, Any]:
        return {"name": name, "bug": bug, "text": content, "keys": [key.hex() for key in found]}

    def bad(name: str, bug: str, content: str) -> dict[str, Any]:
        return {"name": name, "bug": bug, "text": content}

    ids = node_id(SOURCE), node_id(TARGET)
    derived = [
        {
            "key": key.hex(),
            "key_id": key_id_of(key).hex(),
            "registry_key": Keyring((key,)).registry_key.hex(),
            "source": SOURCE,
            "target": TARGET,
            "generation": generation,
            "target_life": life,
            "link_key": link_key(key, *ids, generation, life).hex(),
            "lane_key": Keyring((key,)).lane_key(*ids).hex(),
            "bug": bug,
        }
        for key, generation, life, bug in (
            (KEY, 1, 0, "HKDF without its extract step"),
            (KEY, 2, 0, "the generation left out of the link key"),
            (KEY, 16777215, 0, "the generation in 4 bytes instead of 8"),
            (OLD, 1, 0, "always the first key used"),
            (KEY, 1, 1, "no difference between a receiver that is ephemeral and one that is not"),
            (KEY, 1, 2, "the receiver's generation left out: what one life got opens in the next"),
            (KEY, 2, 16777215, "the two generations exchanged"),
        )
    ]
    return {
        "about": "W-14 key files, W-9 key ids, W-10 link keys, W-11 registry and lane keys. The first key seals.",
        "valid": [
            good("one key", "basic form", format_key_file((KEY,)).decode(), KEY),
            good("two keys", "later keys not accepted", format_key_file((KEY, OLD)).decode(), KEY, OLD),
            good("windows line ends", "CR taken for content", f"SPEED-KEY-V1\r\n\r\n{text}\r\n", KEY),
            good("no last newline", "last line dropped", head + text, KEY),
            good("spaces at line ends", "trailing spaces taken for content", f"{head}{text}  \n", KEY),
            good("blank lines between", "reading ends at a blank line", f"{head}{text}\n\n{older}\n\n", KEY, OLD),
        ],
        "invalid": [
            bad("empty", "empty file accepted", ""),
            bad("no first line", "first line unchecked", text + "\n"),
            bad("later version", "version ignored", f"SPEED-KEY-V2\n\n{text}\n"),
            bad("lower case", "case folded", f"speed-key-v1\n\n{text}\n"),
            bad("no blank line", "line 2 skipped unseen", f"SPEED-KEY-V1\n{text}\n"),
            bad("no key", "a keyring without key", head),
            bad("short key", "short key padded", f"{head}{b64encode(KEY[:31]).decode()}\n"),
            bad("long key", "long key cut", f"{head}{b64encode(KEY + b'x').decode()}\n"),
            bad("not base64", "foreign characters skipped", f"{head}{text[:20]}!{text[20:]}\n"),
            bad(
                "url alphabet",
                "the other Base64 alphabet",
                f"{head}{b64encode(bytes([251] * 32)).decode().replace('+', '-')}\n",
            ),
            bad("stray bits", "unused bits ignored: two texts for one key", f"{head}{text[:-2]}9=\n"),
            bad("leading space", "line not taken as it is", f"{head} {text}\n"),
            bad("key twice", "a rotation that does not rotate", f"{head}{text}\n{text}\n"),
            bad("17 keys", "unbounded", head + "".join(b64encode(bytes([i] * 32)).decode() + "\n" for i in range(17))),
        ],
        "derived": derived,
    }
