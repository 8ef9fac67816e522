"""Node ``geo``: distances between places on the Earth, as a sphere."""

from __future__ import annotations

from math import asin, cos, hypot, isfinite, radians, sin, sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import speed

EARTH_RADIUS_MILES = 3958.7613
"""Mean radius R1 of the WGS84 ellipsoid (6371.0088 km) in statute miles."""


def distance(lat1: float, lon1: float, lat2: float, lon2: float) -> float:
    """Great-circle distance in statute miles between two places given in degrees (north and east positive).

    Raises ValueError for a latitude beyond 90 or a longitude beyond 180 degrees, or one that is not finite.
    """
    _check_place(lat1, lon1)
    _check_place(lat2, lon2)
    half_lat, half_lon = radians(lat2 - lat1) / 2, radians(lon2 - lon1) / 2
    # The haversine form stays exact for near places, where the law of cosines loses all its digits.
    half_chord = hypot(sin(half_lat), sqrt(cos(radians(lat1)) * cos(radians(lat2))) * sin(half_lon))
    return 2 * EARTH_RADIUS_MILES * asin(min(1.0, half_chord))


def _check_place(lat: float, lon: float) -> None:
    """Refuse what is no place, naming the value."""
    if not (isfinite(lat) and abs(lat) <= 90):
        raise ValueError(f"latitude {lat} is not within -90..90 degrees")
    if not (isfinite(lon) and abs(lon) <= 180):
        raise ValueError(f"longitude {lon} is not within -180..180 degrees")


def register(node: speed.Node) -> None:
    """Entry point: offer ``distance`` on this node."""
    node.register("distance", distance)
