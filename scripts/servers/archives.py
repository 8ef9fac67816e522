"""Archives of Java from Maven Central, downloaded once, as a POM names them and with the checksums beside it."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from pathlib import Path

MAVEN = "3.9.11"


def provide(name: str, pom: Path, checksums: Path, home: Path, *more: str, newer_maven: bool = False) -> Path:
    """The directory below ``home`` that has them; SystemExit says what is wrong with it.

    ``more`` goes to Maven; with ``newer_maven`` that is one of its own, downloaded too.
    """
    home.mkdir(parents=True, exist_ok=True)
    library = home / "lib"
    with open(home / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two tests may come at once
        if not (home / "checked").exists():
            _download(name, pom, library, more, newer_maven)
            _check(library, checksums)
            (home / "checked").touch()
    return library


def _download(name: str, pom: Path, library: Path, more: tuple[str, ...], newer_maven: bool) -> None:
    if not shutil.which("mvn"):
        raise SystemExit("backends: Maven is missing (Debian: apt install maven)")
    print(f"backends: downloading {name}, once", flush=True)
    shutil.rmtree(library, ignore_errors=True)
    maven = _newer_maven(library.parent) if newer_maven else "mvn"
    words = [maven, "-q", "-B", "-f", str(pom), *more, "dependency:copy-dependencies"]
    subprocess.run([*words, f"-DoutputDirectory={library}", "-DincludeScope=runtime"], check=True)


def _newer_maven(home: Path) -> str:
    """Where its command is."""
    plugin = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
    archive = home / f"apache-maven-{MAVEN}-bin.tar.gz"
    wanted = f"-Dartifact=org.apache.maven:apache-maven:{MAVEN}:tar.gz:bin"
    subprocess.run(["mvn", "-q", "-B", plugin, f"-DoutputDirectory={home}", wanted], check=True)
    shutil.unpack_archive(archive, home)
    archive.unlink()
    return str(home / f"apache-maven-{MAVEN}" / "bin" / "mvn")


def _check(library: Path, checksums: Path) -> None:
    found = {one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in library.glob("*.jar")}
    lines = (line.split() for line in checksums.read_text().splitlines())
    if found != {name: digest for digest, name in lines}:
        raise SystemExit(f"backends: the archives in {library} are not those of {checksums}")
