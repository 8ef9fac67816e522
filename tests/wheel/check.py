"""``scripts/wheel --check``: each wheel in ``dist/`` is installed where there is nothing but Python, and tried.

Arguments are the interpreters to try with, as ``3.11=/path/to/python``. Needs binutils (``nm``).
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"
MAX_MEGABYTES = 6.0
"""Beside the jars for Spark, of which there is one for each minor version."""
MAX_JAR_MEGABYTES = 16.0
MAX_SECONDS = 20.0
"""From ``pip install`` of the built wheel to the first answer of a service, in processor time, which is what a quiet
machine takes. A busy one takes longer: that is told, and not judged.
"""

FIRST_CALL = """
import speed

root = speed.init_root()
with speed.Node("billing", root=root, allow=["analytics"]) as billing, speed.Node("analytics", root=root) as analytics:
    billing.register("tax", lambda amount: amount * 0.18)
    assert analytics.call("billing", "tax", {"amount": 1000}) == 180.0
    print(billing.engine)
"""

NEIGHBOURS = """
import sqlite3, sys
import cryptography.hazmat.primitives.ciphers.aead as aead, nacl.secret, nacl.utils, zmq
import speed

def others():
    box = nacl.secret.SecretBox(nacl.utils.random(32))
    assert box.decrypt(box.encrypt(b"x")) == b"x"
    chacha = aead.ChaCha20Poly1305(bytes(32))
    assert chacha.decrypt(bytes(12), chacha.encrypt(bytes(12), b"x", None), None) == b"x"
    public, secret = zmq.curve_keypair()
    assert zmq.curve_public(secret) == public
    database = sqlite3.connect(":memory:")
    assert database.execute("select 6 * 7").fetchone() == (42,)

others()
root = speed.init_root()
with speed.Node("one", root=root, allow=["two"]) as one, speed.Node("two", root=root) as two:
    one.register("whole", lambda: others())
    two.call("one", "whole")
    two.send("one", bytes(80 << 20))  # in segments: the engine's own sqlite keeps them
    assert one.receive(timeout=60).payload.size == 80 << 20
    others()
others()
print(one.engine, "beside sqlite", sqlite3.sqlite_version)
"""

IN_SPARK = """
import speed
from pyspark.sql import SparkSession
from speed.column_services import by_array
from speed.spark import Speed

root = speed.init_root()
with speed.Node("geo", root=root, allow=["etl.*"]) as geo:
    geo.register("twice", by_array(lambda a: 2 * a))
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    sp = Speed(spark, root=root, path="jvm")
    numbers = spark.range(9).withColumnRenamed("id", "a")
    asked = sp.enrich(numbers, node="geo", service="twice", columns=["a"], returns="b long")
    assert [row.b for row in asked.collect()] == [2 * number for number in range(9)]
    asked.explain()
    mapped = sp.map(asked.select("a"), node="geo", service="twice", schema="b long", path="python")
    assert [row.b for row in mapped.collect()] == [2 * number for number in range(9)]
    spark.stop()
"""

USERS_PROGRAM = """
import speed

def tax(node: speed.Node, amount: float) -> float:
    return float(node.call("billing", "tax", {"amount": amount}))

root: str = speed.init_root()
"""

USERS_MISTAKE = """
import speed

speed.Node("billing", workers="four")
"""


def look_into(wheel: Path, python_tag: str) -> None:
    """The name, the size, and what it shows to others."""
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as work:
        names = archive.namelist()
        (engine,) = (name for name in names if name.startswith("speed/_native"))
        assert f".cpython-{python_tag[2:]}-" in engine, f"{wheel.name} holds {engine}"
        assert "speed/py.typed" in names
        assert not [name for name in names if name.endswith((".cpp", ".hpp", ".a"))]
        jars = [name for name in names if name.startswith("speed/spark/jars/")]
        assert len(jars) >= 3, f"{wheel.name} holds the jars {jars}"
        megabytes = wheel.stat().st_size / 1e6
        sizes = {one.filename: one.compress_size / 1e6 for one in archive.infolist()}
        large = {jar: sizes.pop(jar) for jar in jars}
        assert max(large.values()) <= MAX_JAR_MEGABYTES, large
        assert sum(sizes.values()) <= MAX_MEGABYTES, f"{wheel.name} has {sum(sizes.values()):.1f} MB beside its jars"
        library = archive.extract(engine, work)
        shown = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True)
        exported = [line.split()[-1] for line in shown.stdout.splitlines()]
        assert exported == ["PyInit__native"], f"{engine} exports {exported}"
        said = f"{megabytes:.1f} MB, the engine {Path(library).stat().st_size / 1e6:.1f} MB, it exports {exported[0]}"
    print(f"check: {wheel.name}: {said}", flush=True)


class Place:
    """A virtual environment in which nothing but Python is found."""

    def __init__(self, work: Path, python: str) -> None:
        subprocess.run([python, "-m", "venv", str(work / "venv")], check=True)
        self.bin = work / "venv" / "bin"
        self._work = work
        pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}  # where packages come from
        self._environment = pip | {"PATH": str(self.bin), "HOME": str(work), "SPEED_ROOT": str(work / "root")}

    def find_all(self) -> None:
        """Find what the machine has too: Spark needs Java and a shell."""
        java = {name: value for name, value in os.environ.items() if name == "JAVA_HOME"}
        self._environment |= java | {"PATH": os.pathsep.join([str(self.bin), os.environ["PATH"]])}

    def install(self, *what: str) -> None:
        self.run("python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *what)

    def run(self, *command: str, status: int = 0) -> str:
        ended = subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            cwd=self._work,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert ended.returncode == status, f"{command}: {ended.returncode}\n{ended.stdout}{ended.stderr}"
        return ended.stdout.strip()

    def program(self, name: str, text: str) -> str:
        path = self._work / name
        path.write_text(text, encoding="utf-8")
        return str(path)


def processor_seconds() -> float:
    """What all programs that were started here and have ended took."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def try_out(wheel: Path, version: str, python: str) -> None:
    """Installed, called, and looked at by a type checker."""
    with tempfile.TemporaryDirectory() as work:
        place = Place(Path(work), python)
        began, spent = time.monotonic(), processor_seconds()
        place.install(str(wheel))
        engine = place.run("python", place.program("first_call.py", FIRST_CALL))
        waited, spent = time.monotonic() - began, processor_seconds() - spent
        assert engine == "native", f"Python {version}: nodes run on {engine}"
        load = f"{spent:.1f} s of processor time, load {os.getloadavg()[0]:.0f}"
        print(f"check: Python {version}: from pip install to the first call {waited:.1f} s ({load})", flush=True)
        assert spent <= MAX_SECONDS, f"{spent:.1f} s of processor time are too much"
        example = (ROOT / "examples" / "billing.py").read_text(encoding="utf-8")
        assert "tax" in place.run("python", place.program("billing.py", example))
        for command in ("speed", "speedd"):
            assert re.search(r"Usage|usage", place.run(command, "--help")), command
        place.install("mypy", "pyzmq")
        neighbours = place.run("python", place.program("neighbours.py", NEIGHBOURS))
        mypy = ("python", "-m", "mypy", "--strict")
        place.run(*mypy, place.program("right.py", USERS_PROGRAM))
        assert "arg-type" in place.run(*mypy, place.program("wrong.py", USERS_MISTAKE), status=1)
        print(f"check: Python {version}: example, commands, types; {neighbours}", flush=True)
        if shutil.which("java"):
            try_in_spark(place, wheel)


def try_in_spark(place: Place, wheel: Path) -> None:
    """The extra ``spark`` is all that a job on either path needs, beside Java."""
    place.find_all()
    place.install(f"{wheel}[spark]")
    assert "/speed/spark/jars/speed-spark_" in place.run("speed", "spark", "jar")
    assert "SpeedCall geo.twice" in place.run("python", place.program("in_spark.py", IN_SPARK))
    print("check: in Spark, by the executors' JVMs and by Python workers", flush=True)


def main(interpreters: list[str]) -> int:
    for version, _, python in (one.partition("=") for one in interpreters):
        tag = f"cp{version.replace('.', '')}"
        (wheel,) = DIST.glob(f"*-{tag}-{tag}-manylinux*.whl")
        look_into(wheel, tag)
        try_out(wheel, version, python)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
