"""Which way a service is called: from the executors' JVMs, or by Spark's Python workers.

The plan is the same for both: a function of Python, which carries a description of its use of the service. Where the
jar of ``bindings/spark`` is in the driver's JVM, it plans such a function as calls from the executors' JVMs; whatever
it does not know, Spark plans as it always does.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from speed.core.log import logger
from speed.errors import ConfigurationError
from speed.spark.calls import Counts

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType

    from speed.spark.functions import ServiceUse

AUTO, JVM, PYTHON = "auto", "jvm", "python"
PATHS = (AUTO, JVM, PYTHON)
SETTING = "spark.speed.path"
"""Of the session: what holds where neither ``Speed`` nor a use of a service says a path."""
_PACKAGED = Path(__file__).with_name("jars")
_BUILT = Path(__file__).resolve().parents[2] / "bindings" / "spark" / "target"
_BRIDGE = "speed.spark.Bridge"
_MARK = "speed/spark/spark-minor"
"""In each jar: the version of Spark that it is for."""
_TYPES = frozenset(
    {"byte", "short", "integer", "long", "float", "double", "decimal", "boolean", "string", "binary", "timestamp"}
    | {"date", "timestamp_ntz", "daytimeinterval", "time", "variant"}
)
_log = logger(__name__)
_lock = threading.Lock()
_bridges: weakref.WeakKeyDictionary[SparkSession, Any] = weakref.WeakKeyDictionary()


def checked(path: str) -> str:
    """The word itself. Raises ConfigurationError for one that is none of the three."""
    if path not in PATHS:
        raise ConfigurationError(f"path is {path!r}: use {', '.join(PATHS[:-1])} or {PATHS[-1]}")
    return path


def minor_of(spark_version: str) -> str:
    """``4.3`` of ``4.3.0``: what a jar is built for."""
    return ".".join(spark_version.split(".")[:2])


def jar(spark_version: str | None = None) -> Path | None:
    """The jar for a version of Spark, by default that of pyspark here; None where there is none."""
    wanted = f"speed-spark_{minor_of(spark_version or version('pyspark'))}-*.jar"
    return next((path for place in (_BUILT, _PACKAGED) for path in sorted(place.glob(wanted))), None)


def _minors() -> set[str]:
    """The versions of Spark that there is a jar for."""
    names = (path.name for place in (_BUILT, _PACKAGED) for path in place.glob("speed-spark_*.jar"))
    return {name.removeprefix("speed-spark_").partition("-")[0] for name in names}


def here() -> Path:
    """The jar for the pyspark that is installed here. Raises ConfigurationError where one of the two is missing."""
    try:
        found, installed = jar(), version("pyspark")
    except PackageNotFoundError:
        raise ConfigurationError("pyspark is not installed here: a jar is for one version of it") from None
    if found is None:
        there = ", ".join(sorted(_minors())) or "none"
        raise ConfigurationError(
            f"there is no jar for Spark {minor_of(installed)} here (there are those for: {there}): in a checkout "
            "scripts/spark-jar builds it; without one, Python workers call (path='python')"
        )
    return found


def why_python(*, is_connect: bool, types: Iterable[DataType]) -> str | None:
    """Why services cannot be called from the JVM, as far as session and types tell; None if nothing is against it."""
    if is_connect:
        return "the plan of a session of Spark Connect is made elsewhere"
    unknown = next((kind for kind in types if not is_known(kind)), None)
    return None if unknown is None else f"type {unknown.simpleString()} is not known there"


def why_workers(use: ServiceUse) -> str | None:
    """Why this use is for Python workers alone, whatever session and types are; None if it is not."""
    if use.by_row:
        return "a call for each row is made by Python workers"
    if use.make_provider is not None:
        return "spans of tasks are recorded by Python workers"
    return None if use.call.error_column is None else "a column of errors is written by Python workers"


def is_known(kind: DataType) -> bool:
    """Whether the JVM path takes and gives values of this type; strings, those that are compared byte by byte."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, ArrayType):
        return is_known(kind.elementType)
    if isinstance(kind, MapType):
        return is_known(kind.keyType) and is_known(kind.valueType)
    if isinstance(kind, StructType):
        are_names = bool(kind.names) and len(set(kind.names)) == len(kind.names)
        return are_names and all(is_known(field.dataType) for field in kind.fields)
    return kind.typeName() in _TYPES and kind.simpleString() != "void" and not _is_collated(kind)


def _is_collated(kind: DataType) -> bool:
    collation: str = getattr(kind, "collation", "UTF8_BINARY")
    return kind.typeName() == "string" and collation != "UTF8_BINARY"


def join(spark: SparkSession) -> Any | str:
    """What this library has in the driver's JVM, which plans for this session from now on; or why it is not there."""
    with _lock:
        found = _bridges.get(spark)
        if found is None:
            found = _bridge(spark)
            if not isinstance(found, str):
                found.install(spark._jsparkSession)
                _bridges[spark] = found
        return found


def _bridge(spark: SparkSession) -> Any | str:
    """An object of the driver's JVM: of its class path, else of the jar, which executors get too."""
    minor = minor_of(spark.version)
    made = _made(spark)
    if made is None:
        path = jar(spark.version)
        if path is None:
            return f"there is no jar for Spark {minor}"
        try:
            spark.sql(f"ADD JAR '{path}'")
        except Exception as error:  # pyspark has several; a site may forbid it
            return f"this session does not take {path}: {str(error).splitlines()[0]}"
        made = _made(spark)
        if made is None:
            return f"this session does not find the classes of {path}"
    else:
        _ship(spark, made)
    if len(places := _places(spark)) > 1:
        return f"{len(places)} jars of it are on the class path, leave one: {', '.join(places)}"
    built_for = made.sparkMinor()
    return made if built_for == minor else f"the jar on its class path is for Spark {built_for}, not {minor}"


def _ship(spark: SparkSession, made: Any) -> None:
    """Give executors the jar whose classes the driver has, for it may have them of an application before this one."""
    place = made.getClass().getProtectionDomain().getCodeSource().getLocation().getPath()
    context = spark.sparkContext._jsc.sc()
    if os.path.basename(place) not in context.listJars().mkString("\n"):
        context.addJar(place)


def _places(spark: SparkSession) -> list[str]:
    """The jars of this library that driver and executors have, one of each name: of several, chance says which runs."""
    found = spark._jsparkSession.sharedState().jarClassLoader().getResources(_MARK)
    places = []
    while found.hasMoreElements():
        places.append(str(found.nextElement().getPath()).removeprefix("file:").partition("!")[0])
    given = spark.sparkContext._jsc.sc().listJars().mkString("\n").splitlines()
    places += [place for place in given if os.path.basename(place).startswith("speed-spark_")]
    return sorted({os.path.basename(place): place for place in reversed(places)}.values())


def _made(spark: SparkSession) -> Any | None:
    from py4j.protocol import Py4JJavaError

    loader = spark._jsparkSession.sharedState().jarClassLoader()
    try:
        return loader.loadClass(_BRIDGE).newInstance()
    except Py4JJavaError as error:
        if "ClassNotFoundException" in str(error):
            return None
        raise


def say_why_python(path: str, use: str, why: str) -> None:
    """Raises ConfigurationError where the program asked for the JVM; else tells it to the log."""
    if path == JVM:
        raise ConfigurationError(f"path='jvm' cannot be taken for {use}: {why}")
    _log.debug("%s is called by Python workers: %s", use, why)


def described(use: ServiceUse, family: str) -> str:
    """What a function carries for the JVM: settings alone, and where the key lies, if that was given; never a key."""
    call, node = use.call, use.node
    description = {
        "root": node.root,
        "own": use.driver is None,
        "key": node.key,
        "family": family,
        "lease_seconds": node.lease_seconds,
        "node": call.node,
        "fallback": call.fallback,
        "service": call.service,
        "timeout_seconds": call.timeout_seconds,
        "wait_seconds": call.wait_seconds,
        "in_flight": call.in_flight,
        "batch_bytes": call.batch_bytes,
        "idempotent": call.idempotent,
        "retries": call.retries,
        "on_error": call.on_error,
        "columns": use.columns,
        "promised": [_promise(one, one.name) for one in use.promised],
        "same_rows": use.same_rows,
        "named": use.named,
        "use": use.topic,
        "traceparent": use.traceparent,
    }
    return f"speed-call:{json.dumps(description)}:speed-call"


def _promise(field: pa.Field, name: str) -> dict[str, Any]:
    """A promised column, and what is promised to lie in it, by the names that errors have for these."""
    import pyarrow.types as is_type

    kind = field.type
    names = ("[key]", "[]") if is_type.is_map(kind) else ("[]",) if is_type.is_list(kind) else None
    fields = [kind.key_field, kind.item_field] if is_type.is_map(kind) else map(kind.field, range(kind.num_fields))
    inner = [_promise(one, one.name if names is None else names[at]) for at, one in enumerate(fields)]
    return {"name": name, "said": str(kind), "nullable": field.nullable, "inner": inner}


def counted(bridge: Any, spark: SparkSession, use: str) -> Counts:
    """What the tasks of a use counted in the executors' JVMs."""
    figures = {str(name): int(count) for name, count in bridge.figures(spark.sparkContext._jsc.sc(), use).items()}
    latency = Counter({int(name): count for name, count in figures.items() if name.lstrip("-").isdigit()})
    numbers = ("calls", "rows", "bytes", "retries", "failed_rows")
    return Counts(**{name: figures.get(name, 0) for name in numbers}, latency=latency)


# The Python of Spark's workers, where they run on the driver's machine.

_IMPORT_SECONDS = 60.0
"""For an interpreter to start and import pyarrow; one that takes longer is left to Spark."""


def check_interpreter(master: str, python: str) -> None:
    """Say before a job what the workers of a local master lack: Spark's own error does not say where, nor what to do.

    Workers run ``python``, by default the ``python3`` of the PATH. In a program that was started by its environment's
    interpreter without activating it, that is another one.

    Raises ConfigurationError.
    """
    found = shutil.which(python)
    if not master.startswith("local") or found is None or _is_this(found):
        return
    try:
        run = subprocess.run([found, "-c", "import pyarrow"], check=False, capture_output=True, timeout=_IMPORT_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return
    if run.returncode != 0:
        raise ConfigurationError(
            f"the Python of Spark's workers, {found}, cannot import pyarrow: set PYSPARK_PYTHON to one that can, "
            f"such as {sys.executable}, before the session starts"
        )


def _is_this(python: str) -> bool:
    """Whether it lies beside the interpreter that runs: links of a virtual environment are not followed."""
    return os.path.dirname(os.path.abspath(python)) == os.path.dirname(os.path.abspath(sys.executable))
