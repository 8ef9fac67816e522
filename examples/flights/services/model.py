"""Node ``model``: linear least squares over columns, with numpy.

The service keeps nothing: ``fit`` returns the whole model as a plain map and ``predict`` takes it back, so it
can be restarted, or run twice, between any two calls. A column is the bytes of little-endian float64 values,
or a list of numbers or strings. Missing numbers (NaN) become the column's training mean; a level of a
category that training never saw contributes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import speed

CHUNK_ROWS = 16_384
"""Rows of the design matrix held at a time: the memory used does not grow with the data."""

Vector = NDArray[np.float64]


def fit(columns: dict[str, Any], target: Any, categories: list[str]) -> dict[str, Any]:
    """Fit ``target`` to the columns by least squares; ``categories`` are coded one column per level.

    Returns ``{"model": …, "rows": n, "rmse": error on these rows}``. Raises ValueError for columns of unequal
    length, a category that is no column, no rows, or a target with missing values.
    """
    wanted = _numbers(target, "target")
    arrays = _columns(columns, len(wanted))
    unknown = sorted(set(categories) - set(arrays))
    if unknown:
        raise ValueError(f"categories that are no columns: {', '.join(unknown)}")
    if not len(wanted) or not np.isfinite(wanted).all():
        raise ValueError("the target needs at least one row and no missing values")
    model: dict[str, Any] = {
        "levels": {name: np.unique(arrays[name]).tolist() for name in categories},
        "numbers": {name: _centre(arrays[name]) for name in arrays if name not in categories},
    }
    model["coefficients"] = _solve(model, arrays, wanted).tolist()
    error = wanted - _evaluate(model, arrays, len(wanted))
    return {"model": model, "rows": len(wanted), "rmse": float(np.sqrt(np.mean(error**2)))}


def predict(model: dict[str, Any], columns: dict[str, Any]) -> bytes:
    """Predictions, as little-endian float64 bytes, for each row of the columns that the model knows.

    Raises ValueError for missing columns or columns of unequal length.
    """
    names = [*model["numbers"], *model["levels"]]
    missing = sorted(set(names) - set(columns))
    if missing:
        raise ValueError(f"columns that the model needs: {', '.join(missing)}")
    arrays = _columns({name: columns[name] for name in names}, None)
    rows = len(next(iter(arrays.values()))) if arrays else 0
    return _evaluate(model, arrays, rows).astype("<f8").tobytes()


def _numbers(column: Any, name: str) -> Vector:
    """A column of numbers as float64."""
    if isinstance(column, bytes) and len(column) % 8:
        raise ValueError(f"column {name} has {len(column)} bytes, not a multiple of 8")
    values = np.frombuffer(column, "<f8") if isinstance(column, bytes) else np.asarray(column, np.float64)
    return values.astype(np.float64, copy=False)


def _columns(columns: dict[str, Any], rows: int | None) -> dict[str, NDArray[Any]]:
    """All columns as arrays of one length; text stays text, for it can only be a category."""
    arrays: dict[str, NDArray[Any]] = {}
    for name, column in columns.items():
        text = isinstance(column, list) and any(isinstance(value, str) for value in column)
        arrays[name] = np.asarray(column, np.str_) if text else _numbers(column, name)
        rows = len(arrays[name]) if rows is None else rows
        if len(arrays[name]) != rows:
            raise ValueError(f"column {name} has {len(arrays[name])} rows, not {rows}")
    return arrays


def _centre(values: Vector) -> list[float]:
    """Mean and spread of the values present, so that the normal equations stay well conditioned."""
    present = values[np.isfinite(values)]
    if not len(present):
        return [0.0, 1.0]
    return [float(present.mean()), float(present.std()) or 1.0]


def _design(model: dict[str, Any], arrays: dict[str, NDArray[Any]], part: slice, rows: int) -> Vector:
    """The design matrix of some rows: a one, the standardised numbers, a 0/1 column for each level."""
    blocks = [np.ones((len(range(rows)[part]), 1))]
    for name, (mean, spread) in model["numbers"].items():
        values = (arrays[name][part] - mean) / spread
        blocks.append(np.where(np.isfinite(values), values, 0.0)[:, None])
    for name, levels in model["levels"].items():
        blocks.append((arrays[name][part][:, None] == np.asarray(levels)[None, :]).astype(np.float64))
    return np.hstack(blocks)


def _solve(model: dict[str, Any], arrays: dict[str, NDArray[Any]], wanted: Vector) -> Vector:
    """Coefficients of least norm (the levels of a category sum to one, so the equations are singular)."""
    gram: Any = 0.0
    moment: Any = 0.0
    for start in range(0, len(wanted), CHUNK_ROWS):
        part = slice(start, start + CHUNK_ROWS)
        design = _design(model, arrays, part, len(wanted))
        gram = gram + design.T @ design
        moment = moment + design.T @ wanted[part]
    return np.asarray(np.linalg.lstsq(gram, moment, rcond=1e-10)[0], np.float64)


def _evaluate(model: dict[str, Any], arrays: dict[str, NDArray[Any]], rows: int) -> Vector:
    """The model's value at each row."""
    coefficients = np.asarray(model["coefficients"], np.float64)
    parts = [
        _design(model, arrays, slice(start, start + CHUNK_ROWS), rows) @ coefficients
        for start in range(0, rows, CHUNK_ROWS)
    ]
    return np.concatenate(parts) if parts else np.empty(0)


def register(node: speed.Node) -> None:
    """Entry point: offer ``fit`` and ``predict`` on this node."""
    node.register("fit", fit)
    node.register("predict", predict)
