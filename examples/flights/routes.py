"""Check of the distances: what the service says against what the data says, and why they differ.

The data has whole miles, measured on an ellipsoid; the service takes the Earth for a sphere. So two
differences are expected of every route, and ``explain`` shows that nothing else is left:

- rounding, at most half a mile: large only in proportion to a short route (Newark-LaGuardia, 17 miles);
- flattening: east to west at these latitudes, the Earth is up to 0.35 % longer than a sphere of its mean
  radius.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import acos, atan, cos, radians, sin, tan

ROUNDING_MILES = 0.5
FLATTENING = 1 / 298.257223563
EQUATOR_MILES = 6378.137 / 1.609344
SURVEY_MILES = 1.5
"""Left over on the ellipsoid: airports' reference points move (the data has two distances to Eagle, EGE)."""


@dataclass(frozen=True)
class Route:
    """One distinct route: ``listed`` miles of the data, places in degrees (None: not in the table)."""

    origin: str
    dest: str
    listed: float
    places: tuple[float | None, float | None, float | None, float | None]

    @property
    def located(self) -> bool:
        """Both ends are in the airports table."""
        return None not in self.places

    def arguments(self) -> dict[str, float]:
        """Arguments of the service ``distance``."""
        return {
            name: float(value or 0) for name, value in zip(("lat1", "lon1", "lat2", "lon2"), self.places, strict=True)
        }


@dataclass(frozen=True)
class Compared:
    """A route with the service's miles and the miles on the ellipsoid."""

    route: Route
    sphere: float
    ellipsoid: float

    @property
    def relative(self) -> float:
        """Difference of the service from the data, in proportion."""
        return abs(self.sphere - self.route.listed) / self.route.listed

    @property
    def explained(self) -> bool:
        """Rounding and flattening account for the difference, within the airports' own accuracy."""
        rounding_and_shape = ROUNDING_MILES + FLATTENING * self.route.listed
        on_sphere = abs(self.sphere - self.route.listed) <= rounding_and_shape
        return on_sphere and abs(self.ellipsoid - self.route.listed) <= SURVEY_MILES


def compare(routes: Sequence[Route], answers: Sequence[float]) -> list[Compared]:
    """Routes with their answers, the worst relative difference first."""
    pairs = [
        Compared(route, answer, ellipsoid_miles(**route.arguments()))
        for route, answer in zip(routes, answers, strict=True)
    ]
    return sorted(pairs, key=lambda pair: pair.relative, reverse=True)


def ellipsoid_miles(lat1: float, lon1: float, lat2: float, lon2: float) -> float:
    """Length of the geodesic on WGS84 in miles, by Lambert's formula (good to tens of metres), degrees in."""
    first, second = (atan((1 - FLATTENING) * tan(radians(lat))) for lat in (lat1, lat2))
    across = radians(lon2 - lon1)
    angle = acos(min(1.0, sin(first) * sin(second) + cos(first) * cos(second) * cos(across)))
    if angle == 0:
        return 0.0
    middle, half = (first + second) / 2, (second - first) / 2
    x = (angle - sin(angle)) * (sin(middle) * cos(half) / cos(angle / 2)) ** 2
    y = (angle + sin(angle)) * (cos(middle) * sin(half) / sin(angle / 2)) ** 2
    return EQUATOR_MILES * (angle - FLATTENING / 2 * (x + y))


def explain(compared: Sequence[Compared], unlocated: Sequence[Route]) -> list[str]:
    """What the comparison found, in lines for a reader."""
    if not compared:
        return ["no route has both ends in the airports table"]
    worst = compared[0]
    long_ones = [pair for pair in compared if pair.route.listed >= 200]
    lines = [
        f"worst relative difference {worst.relative:.2%}: {_named(worst.route)}",
        f"  {worst.route.listed:.0f} miles in the data (rounded), {worst.sphere:.2f} from geo",
    ]
    if long_ones:
        lines.append(
            f"from 200 miles on, the worst is {long_ones[0].relative:.2%} ({_named(long_ones[0].route)}): "
            "the service's sphere against the flattened Earth of the data"
        )
    near = sum(abs(pair.ellipsoid - pair.route.listed) <= 1 for pair in compared)
    lines.append(f"on the WGS84 ellipsoid {near} of {len(compared)} routes are within a mile of the data")
    far = sorted({_named(p.route) for p in compared if abs(p.ellipsoid - p.route.listed) > 1})
    if far:
        lines[-1] += f", all but {', '.join(far)}"
    if unlocated:
        missing = ", ".join(sorted({route.dest for route in unlocated}))
        lines.append(f"{len(unlocated)} routes are not checked: the airports table lacks {missing}")
    return lines


def _named(route: Route) -> str:
    """Both ends, as on a ticket."""
    return f"{route.origin}-{route.dest}"
