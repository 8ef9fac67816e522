"""What is computed of the events, the same for a stream and for a batch: enrichment, hours of carriers, alerts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from speed.spark import Speed

PLACES = ["lat1", "lon1", "lat2", "lon2"]
LATE_MINUTES = 60
ALERT_EUROS = 750
ALERT_TOPIC = "alerts.owed"
COUNTS = ("flights", "cancelled", "late", "diverted", "miles", "owed", "euros")
"""Of each carrier in each hour; whole numbers, so that sums do not depend on their order."""


def enriched(sp: Speed, events: DataFrame) -> DataFrame:
    """Each flight with its miles (``geo``, in C++) and with what its passengers are owed (``rules``, in Java)."""
    from pyspark.sql import functions as f

    flights = sp.enrich(events, node="geo", service="distance", columns=PLACES, returns="miles double")
    cancelled, delay = f.col("cancelled"), f.greatest("arrival_delay", f.lit(0.0))
    asked = flights.withColumns({
        "delay_minutes": f.when(cancelled, 0.0).otherwise(delay),
        "distance_miles": f.coalesce("miles", "miles_listed"),
    })  # fmt: skip
    names = ["delay_minutes", "distance_miles", "cancelled"]
    return sp.enrich(
        asked, node="rules", service="compensation", columns=names, returns="category string, amount bigint"
    )


def by_carrier_and_hour(flights: DataFrame) -> DataFrame:
    """The counts of each carrier in each hour. A diverted flight has no delay, so nothing is known to be owed."""
    from pyspark.sql import functions as f

    def count(condition: str) -> object:
        return f.coalesce(f.count_if(f.expr(condition)), f.lit(0))

    return flights.groupBy(f.window("event_time", "1 hour"), "carrier").agg(
        f.count("*").alias("flights"),
        count("cancelled").alias("cancelled"),
        count(f"arrival_delay >= {LATE_MINUTES}").alias("late"),
        count("NOT cancelled AND arrival_delay IS NULL").alias("diverted"),
        f.sum(f.round(f.coalesce("miles", "miles_listed")).cast("bigint")).alias("miles"),
        count("amount > 0").alias("owed"),
        f.coalesce(f.sum("amount"), f.lit(0)).alias("euros"),
    ).select(f.col("window.start").alias("hour"), "carrier", *COUNTS)  # fmt: skip


def alerts(hours: DataFrame) -> DataFrame:
    """The hours in which a carrier owes much, as the payloads of events."""
    from pyspark.sql import functions as f

    told = hours.where(f.col("euros") >= ALERT_EUROS)
    hour = f.date_format("hour", "yyyy-MM-dd HH:mm").alias("hour")
    return told.select(hour, "carrier", "flights", "late", "cancelled", "euros")
