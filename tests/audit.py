"""``scripts/audit``: the libraries of an installation with their versions and licences; fails on a forbidden one.

Each must offer a licence that puts no conditions on programs that use it. What offers none, and whose licence cannot be
told, fails as well. Libraries are those of the core and of each extra, with all that they need in turn.
"""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = "speed-ipc"
EXTRAS = (
    "",
    "columns",
    "messages",
    "vault",
    "aws",
    "tokens",
    "tracing",
    "schemas",
    "gateway",
    "pulsar",
    "pulsar-backend",
    "kafka",
    "nats",
    "redis",
    "postgres",
    "s3",
    "sqs",
    "spark",
    "examples",
    "bench",
    "dev",
    "docs",
)
FORBIDDEN = re.compile(r"\b[AL]?GPL|General Public|SSPL|Commons Clause|non-?commercial|proprietary", re.IGNORECASE)
ALTERNATIVES = re.compile(r"\s+or\s+(?!later)|\s*/\s*|\s*;\s*", re.IGNORECASE)
DEBIAN = ("libsodium23", "libssl3", "nlohmann-json3-dev", "libmsgpack-cxx-dev", "libsqlite3-0")
"""What the C++ node is compiled with and linked to."""
REPOSITORY = Path.home() / ".m2" / "repository"


class Library(NamedTuple):
    """``licence`` is empty where it cannot be told."""

    used_by: str
    name: str
    version: str
    licence: str

    @property
    def is_allowed(self) -> bool:
        """Whether one of the licences it offers may be chosen."""
        return any(one and not FORBIDDEN.search(one) for one in ALTERNATIVES.split(self.licence.strip("() ")))


def python_libraries() -> Iterator[Library]:
    """Each once, under the first extra that needs it."""
    seen = {canonicalize_name(PROJECT)}
    for extra in EXTRAS:
        for name in sorted(needed(PROJECT, extra, set()) - seen):
            seen.add(name)
            yield Library(f"python {extra or 'core'}", name, metadata.version(name), python_licence(name))


def needed(name: str, extra: str, found: set[str]) -> set[str]:
    """What a distribution and this extra of it need, directly or not, and is installed."""
    for requirement in requirements(name):
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        child = canonicalize_name(requirement.name)
        for wanted in ("", *requirement.extras):
            if is_installed(child) and (child, wanted) not in found:
                found |= {(child, wanted)}
                needed(child, wanted, found)
    return {child for child, _ in found}


@cache
def requirements(name: str) -> list[Requirement]:
    """What a distribution says it needs, whatever its conditions."""
    return [Requirement(text) for text in metadata.requires(name) or ()]


@cache
def is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def python_licence(name: str) -> str:
    told = metadata.metadata(name)
    classifiers = [line.split(" :: ")[-1] for line in told.get_all("Classifier", ()) if line.startswith("License ::")]
    first_line = (told.get("License") or "").strip().partition("\n")[0]
    return told.get("License-Expression") or " OR ".join(classifiers) or first_line


def java_libraries() -> Iterator[Library]:
    """The archives that the build put beside the node, by what their project says in the local repository."""
    for archive in sorted((ROOT / "bindings" / "java" / "target" / "lib").glob("*.jar")):
        name, _, version = archive.stem.rpartition("-")
        poms = list(REPOSITORY.glob(f"*/**/{name}/{version}/{archive.stem}.pom"))
        yield Library("java", name, version, maven_licence(poms[0]) if poms else "")


def maven_licence(pom: Path) -> str:
    """Its own, or that of the nearest parent that names one."""
    project = ET.parse(pom).getroot()  # some are in the namespace of Maven, some in none
    names = [one.text or "" for one in project.findall("{*}licenses/{*}license/{*}name")]
    parent = project.find("{*}parent")
    if names or parent is None:
        return " OR ".join(names)
    group, name, version = (parent.findtext(f"{{*}}{part}", "") for part in ("groupId", "artifactId", "version"))
    path = REPOSITORY.joinpath(*group.split("."), name, version, f"{name}-{version}.pom")
    return maven_licence(path) if path.exists() else ""


def debian_libraries() -> Iterator[Library]:
    """By the copyright file of each package."""
    for name in DEBIAN:
        query = ["dpkg-query", "--show", "--showformat=${Version}", name]
        shown = subprocess.run(query, capture_output=True, text=True, check=False)
        if shown.returncode == 0:
            yield Library("c++", name, shown.stdout, debian_licence(name))


def debian_licence(name: str) -> str:
    """Of all files but those that Debian added."""
    text = Path("/usr/share/doc", name, "copyright").read_text(encoding="utf-8", errors="replace")
    found = re.search(r"^Files: ?\s*\*.*?^License: (.*?)$", text, re.MULTILINE | re.DOTALL)
    if found:
        return found[1]
    known = re.search(r"Apache License|BSD|MIT|Boost Software License|ISC", text)
    return known[0] if known else ""


def main() -> int:
    libraries = [*python_libraries(), *java_libraries(), *debian_libraries()]
    for library in libraries:
        print(f"{library.used_by:16} {library.name:28} {library.version:18} {library.licence or 'cannot be told'}")
    refused = [library for library in libraries if not library.is_allowed]
    print(f"audit: {len(libraries)} libraries, {len(refused)} with a licence that is forbidden or cannot be told")
    for library in refused:
        print(f"REFUSED {library.name} {library.version}: {library.licence or 'its licence cannot be told'}")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
