"""The delay model of the job: which columns, which days, and how good it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

CATEGORIES = ["hour", "month", "weekday", "carrier_code", "origin_code"]
NUMBERS = [
    "recent_delay", "temp", "humid", "wind_speed", "precip", "pressure", "visib",
    "seats", "plane_age", "distance",
]  # fmt: skip
BATCH_ROWS = 4096


@dataclass(frozen=True)
class Error:
    """Root mean square error in minutes on the held-out flights."""

    model: float
    mean: float

    @property
    def gain(self) -> float:
        """How much smaller the model's error is, in proportion."""
        return 1 - self.model / self.mean


def collect(flights: DataFrame) -> pd.DataFrame:
    """The departed flights with the columns of the model, every fifth day marked as held out."""
    own = ["dep_delay", "held_out", "carrier", "origin", "hour", "month", "weekday"]
    frame = flights.where("dep_delay IS NOT NULL").select(*own, *NUMBERS).toPandas()
    # Codes keep the columns float64 all the way; the model codes them one column per level.
    frame["carrier_code"] = frame["carrier"].astype("category").cat.codes
    frame["origin_code"] = frame["origin"].astype("category").cat.codes
    return frame


def columns(frame: pd.DataFrame) -> dict[str, bytes]:
    """The columns as the service takes them."""
    return {name: column(frame, name) for name in [*CATEGORIES, *NUMBERS]}


def column(frame: pd.DataFrame, name: str) -> bytes:
    """One column as little-endian float64 bytes."""
    return np.ascontiguousarray(frame[name].to_numpy("<f8")).tobytes()


def fit_arguments(frame: pd.DataFrame) -> dict[str, Any]:
    """Arguments of the service ``fit``: all days but the held-out ones."""
    training = frame[~frame["held_out"]]
    return {"columns": columns(training), "target": column(training, "dep_delay"), "categories": CATEGORIES}


def predict_arguments(model: dict[str, Any], tested: pd.DataFrame) -> list[dict[str, Any]]:
    """Arguments of the service ``predict``, in batches."""
    starts = range(0, len(tested), BATCH_ROWS)
    return [{"model": model, "columns": columns(tested.iloc[start : start + BATCH_ROWS])} for start in starts]


def score(frame: pd.DataFrame, tested: pd.DataFrame) -> Error:
    """Error of the column ``predicted`` against that of the training mean, on the held-out flights."""
    mean = frame.loc[~frame["held_out"], "dep_delay"].mean()
    actual = tested["dep_delay"].to_numpy()
    return Error(_rmse(actual - tested["predicted"].to_numpy()), _rmse(actual - mean))


def _rmse(error: Any) -> float:
    """Root mean square."""
    return float(np.sqrt(np.mean(np.square(error))))
