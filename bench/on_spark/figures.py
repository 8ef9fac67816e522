"""What is promised of SPEED in Spark, whether it is met, and its section of docs/figures.md."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

from section import write_section
from targets import Target, judged

BEGIN, END = "<!-- spark-bench:begin -->", "<!-- spark-bench:end -->"
SAID = {"PASS": "reached", "FAIL": "NOT reached"}

RATIOS = "Beside the worker itself, the larger of two ratios counts: of time, and of processors' time."
BUSY = " The machine was busy with other work."


TARGETS = {
    "enrich": [
        Target("all flights, C++ service / mapInArrow in process", "<=", 1.3, "cpp/flights"),
        Target("all flights, Python service / mapInArrow in process", "<=", 1.5, "python/flights"),
        Target("5 million rows, C++ service / mapInArrow in process", "<=", 1.3, "cpp/many"),
        Target("5 million rows, Python service / mapInArrow in process", "<=", 1.5, "python/many"),
        Target("one SPEED call a row / enrich of the flights, time of a row", ">=", 20.0, "call/flights"),
        Target("one SPEED call a row / enrich of 5 million rows, time of a row", ">=", 20.0, "call/many"),
        Target("pandas UDF, gRPC row by row / enrich of the flights, time of a row", ">=", 10.0, "grpc/flights"),
        Target("5 million rows, Python service from the JVM / Flight, time", "<=", 0.7, "python_jvm/flight/many"),
        Target(
            "5 million rows, Python service from the JVM / Flight, processors",
            "<=",
            0.45,
            "python_jvm/flight_cpu/many",
        ),
        Target("5 million rows, C++ service from the JVM / Flight, processors", "<=", 0.4, "cpp_jvm/flight_cpu/many"),
        Target("places in a cache, Python service from the JVM / Flight, time", "<=", 0.7, "python_jvm/flight/places"),
        Target(
            "places in a cache, Python service from the JVM / Flight, processors",
            "<=",
            0.45,
            "python_jvm/flight_cpu/places",
        ),
        Target("places in Parquet, Python service from the JVM / Flight, time", "<=", 0.7, "python_jvm/flight/parquet"),
        Target(
            "places in Parquet, Python service from the JVM / Flight, processors",
            "<=",
            0.55,
            "python_jvm/flight_cpu/parquet",
        ),
        Target(
            "5 million rows, Python service from the JVM / Flight's Java client, processors",
            "<=",
            1.0,
            "python_jvm/java_flight_cpu/many",
        ),
        Target(
            "places in a cache, Python service from the JVM / Flight's Java client, processors",
            "<=",
            1.0,
            "python_jvm/java_flight_cpu/places",
        ),
    ],
    "shapes": [
        Target("strings in rows, from the JVM / Flight, processors", "<=", 0.5, "strings/flight_cpu"),
        Target("strings in rows, from the JVM / Flight, time", "<=", 0.7, "strings/flight"),
        Target(
            "strings in rows, from the JVM / Flight's Java client, processors", "<=", 1.0, "strings/java_flight_cpu"
        ),
        Target("structs and lists in rows, from the JVM / Flight, processors", "<=", 0.6, "nested/flight_cpu"),
        Target("structs and lists in rows, from the JVM / Flight, time", "<=", 0.7, "nested/flight"),
        Target(
            "structs and lists in rows, from the JVM / Flight's Java client, processors",
            "<=",
            1.0,
            "nested/java_flight_cpu",
        ),
    ],
    "first": [
        Target("warm session: first result of a worker that has no node yet, ms", "<=", 300.0, "first_ms"),
        Target("warm session: first result after a worker's first call, ms", "<=", 300.0, "next_ms"),
    ],
    "streams": [
        Target("streaming read, thousand messages/s", ">=", 100.0, "read_thousand"),
        Target("streaming write, thousand messages/s", ">=", 50.0, "write_thousand"),
    ],
    "executors": [
        Target("first batch of a fresh executor, ms", "<=", 400.0, "executor_first_ms"),
        Target("memory of an executor's calls, MB a core", "<=", 64.0, "executor_mb_a_core"),
    ],
    "flat": [Target("memory of an executor, last tenth / second tenth of the rows", "<=", 1.05, "executor_growth")],
    "memory": [Target("memory of a worker, last fifth / second fifth", "<=", 1.05, "memory_growth")],
}


def verdicts(figures: dict[str, float], parts: list[str]) -> list[dict[str, Any]]:
    """Each target with what was measured."""
    rows = [judged(target, figures) for part in parts for target in TARGETS[part]]
    return [{**row, "verdict": SAID.get(row["verdict"], row["verdict"])} for row in rows]


def text(found: dict[str, Any]) -> str:
    """The table for people."""
    rows = [(row["what"], row["target"], _value(row["measured"]), row["verdict"]) for row in found["verdicts"]]
    wide = max((len(row[0]) for row in rows), default=0)
    lines = [_where(found), ""]
    lines += [f"{what:{wide}}  {target:>7}  {measured:>8}  {verdict}" for what, target, measured, verdict in rows]
    return "\n".join([*lines, *(f"left out: {part}: {why}" for part, why in found["left_out"].items())])


def markdown(found: dict[str, Any], command: str) -> str:
    """What stands in docs/figures.md."""
    today = datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat()
    rows = found["verdicts"]
    reached = sum(row["verdict"] == "reached" for row in rows)
    lines = [
        f"`{command}`, {today}: {_where(found)}. {reached} of {len(rows)} targets reached. {RATIOS}{_busy(found)}",
        "",
    ]
    lines += ["| | target | measured | |", "|---|---:|---:|---|"]
    for row in rows:
        verdict = row["verdict"] if row["verdict"] == "reached" else f"**{row['verdict']}**"
        lines.append(f"| {row['what']} | {row['target']} | {_value(row['measured'])} | {verdict} |")
    return "\n".join([*lines, *_seconds(found)])


def _busy(found: dict[str, Any]) -> str:
    """A bench of two tasks and their services loads a machine by a few processes for each processor, no more."""
    return BUSY if found["machine"]["load"] > 3 * found["machine"]["cpus"] else ""


def _seconds(found: dict[str, Any]) -> list[str]:
    """The medians behind the ratios."""
    return [line for part in ("enrich", "shapes") for line in _table(found.get(part, {}).get("medians", {}))]


def _table(medians: dict[str, dict[str, tuple[float, float]]]) -> list[str]:
    if not medians:
        return []
    names = list(next(iter(medians.values())))
    lines = ["", f"| median seconds (of processors) | {' | '.join(names)} |", "|---|" + "---:|" * len(names)]
    for frame, by_name in medians.items():
        cells = (f"{seconds:.2f} ({cpu:.2f})" for seconds, cpu in by_name.values())
        lines.append(f"| {frame} | {' | '.join(cells)} |")
    return lines


def _where(found: dict[str, Any]) -> str:
    machine = found["machine"]
    return (
        f"local[2] on {machine['cpus']} CPUs, {machine['system']}, Python {machine['python']}, "
        f"pyspark {machine['pyspark']}, {machine['engine']} engine, load {machine['load']:g}"
    )


def _value(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}" if value >= 100 else f"{value:.2f}"


def write_page(found: dict[str, Any], command: str, path: Path) -> None:
    """Write the section; ValueError when its markers are not there."""
    write_section(path, BEGIN, END, markdown(found, command))
