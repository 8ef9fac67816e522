"""What the three services of the flights example promise, without a node."""

from __future__ import annotations

import math

import numpy as np
import pytest

from examples.flights import routes
from examples.flights.services import geo, model, rules

JFK, LAX = (40.639751, -73.778925), (33.942536, -118.408075)


class Recorder:
    """Stands where a node stands at registration, and keeps what is offered."""

    def __init__(self) -> None:
        self.services: dict[str, object] = {}

    def register(self, name: str, service: object) -> None:
        self.services[name] = service


@pytest.mark.parametrize(
    ("module", "names"),
    [(geo, {"distance"}), (rules, {"compensation"}), (model, {"fit", "predict"})],
)
def test_each_entry_point_offers_its_services(module, names):
    node = Recorder()
    module.register(node)
    assert set(node.services) == names


class TestDistance:
    def test_between_two_known_airports_is_the_published_one(self):
        assert geo.distance(*JFK, *LAX) == pytest.approx(2475, rel=routes.FLATTENING)

    def test_is_the_same_in_both_directions(self):
        assert geo.distance(*JFK, *LAX) == pytest.approx(geo.distance(*LAX, *JFK), rel=1e-14)

    def test_of_a_place_to_itself_is_zero(self):
        assert geo.distance(*JFK, *JFK) == 0

    def test_to_the_other_side_of_the_earth_is_half_its_girth(self):
        assert geo.distance(0, 0, 0, 180) == pytest.approx(math.pi * geo.EARTH_RADIUS_MILES)
        assert geo.distance(90, 0, -90, 17) == pytest.approx(math.pi * geo.EARTH_RADIUS_MILES)

    def test_keeps_its_digits_for_places_a_foot_apart(self):
        foot = 1 / 5280
        degrees = math.degrees(foot / geo.EARTH_RADIUS_MILES)
        assert geo.distance(40, -74, 40 + degrees, -74) == pytest.approx(foot, rel=1e-6)

    def test_takes_the_short_way_over_the_date_line(self):
        assert geo.distance(0, 179, 0, -179) == pytest.approx(geo.distance(0, 0, 0, 2))

    @pytest.mark.parametrize("place", [(90.1, 0), (0, -180.5), (math.nan, 0), (0, math.inf)])
    def test_of_what_is_no_place_is_refused(self, place):
        with pytest.raises(ValueError, match="degrees"):
            geo.distance(*JFK, *place)

    def test_on_the_ellipsoid_differs_by_less_than_the_flattening(self):
        sphere, ellipsoid = geo.distance(*JFK, *LAX), routes.ellipsoid_miles(*JFK, *LAX)
        assert ellipsoid == pytest.approx(2475, abs=1)
        assert 0 < abs(sphere - ellipsoid) / ellipsoid < routes.FLATTENING


class TestCompensation:
    @pytest.mark.parametrize(
        ("minutes", "miles", "amount"),
        [
            (179, 500, 0),
            (180, 500, 250),
            (180, rules.SHORT_HAUL_MILES, 250),
            (180, rules.SHORT_HAUL_MILES + 0.1, 400),
            (1000, rules.MEDIUM_HAUL_MILES, 400),
            (180, 2475, 300),
            (239, 2475, 300),
            (240, 2475, 600),
            (179, 2475, 0),
        ],
    )
    def test_of_a_delay_follows_the_limits_of_the_regulation(self, minutes, miles, amount):
        assert rules.compensation(minutes, miles, False)["amount"] == amount

    @pytest.mark.parametrize(("miles", "amount"), [(500, 250), (1500, 400), (2475, 600)])
    def test_of_a_cancellation_depends_on_the_distance_alone(self, miles, amount):
        assert rules.compensation(0, miles, True) == rules.compensation(500, miles, True)
        assert rules.compensation(0, miles, True)["amount"] == amount

    def test_tells_a_late_flight_from_one_on_time(self):
        assert rules.compensation(14, 500, False)["category"] == "on time"
        assert rules.compensation(15, 500, False)["category"] == "late, nothing due"
        assert rules.compensation(-20, 500, False)["category"] == "on time"

    def test_never_falls_with_a_longer_delay(self):
        for miles in (100, 1500, 2475):
            amounts = [rules.compensation(minutes, miles, False)["amount"] for minutes in range(0, 600, 5)]
            assert amounts == sorted(amounts)

    @pytest.mark.parametrize(("minutes", "miles"), [(10, 0), (10, -5), (10, math.nan), (math.nan, 500)])
    def test_of_nonsense_is_refused(self, minutes, miles):
        with pytest.raises(ValueError, match=r"distance_miles must be|not a number"):
            rules.compensation(minutes, miles, False)


def column(values) -> bytes:
    """A column as a caller sends it."""
    return np.asarray(values, "<f8").tobytes()


def plane(rows: int = 500):
    """Rows of a target that is linear in a number and a category: 3 + 2·x + (0, 10 or -5)."""
    random = np.random.default_rng(7)
    x, kind = random.normal(100, 20, rows), random.integers(0, 3, rows)
    return x, kind, 3 + 2 * x + np.array([0, 10, -5])[kind]


class TestModel:
    def test_recovers_a_linear_relation_exactly(self):
        x, kind, y = plane()
        fitted = model.fit({"x": column(x), "kind": column(kind)}, column(y), ["kind"])
        predicted = np.frombuffer(model.predict(fitted["model"], {"x": column([50]), "kind": column([1])}), "<f8")
        assert fitted["rmse"] < 1e-6
        assert predicted == pytest.approx([113])

    def test_is_the_same_from_bytes_and_from_lists(self):
        x, kind, y = plane()
        words = [["low", "high", "none"][k] for k in kind]
        packed = model.fit({"x": column(x), "kind": column(kind)}, column(y), ["kind"])
        listed = model.fit({"x": x.tolist(), "kind": words}, y.tolist(), ["kind"])
        assert listed["rmse"] == pytest.approx(packed["rmse"], abs=1e-6)
        assert listed["model"]["levels"] == {"kind": ["high", "low", "none"]}

    def test_with_nothing_to_learn_from_predicts_the_mean(self):
        fitted = model.fit({"x": [1.0, 1.0, 1.0]}, [1.0, 2.0, 6.0], [])
        assert np.frombuffer(model.predict(fitted["model"], {"x": [1.0, 9.0]}), "<f8") == pytest.approx([3, 3])

    def test_does_not_depend_on_how_many_rows_it_holds_at_a_time(self, monkeypatch):
        x, kind, y = plane()
        columns = {"x": column(x), "kind": column(kind)}
        whole = model.fit(columns, column(y), ["kind"])["model"]["coefficients"]
        monkeypatch.setattr(model, "CHUNK_ROWS", 7)
        assert model.fit(columns, column(y), ["kind"])["model"]["coefficients"] == pytest.approx(whole)

    def test_takes_a_missing_number_for_the_mean(self):
        x, kind, y = plane()
        fitted = model.fit({"x": column(x), "kind": column(kind)}, column(y), ["kind"])["model"]
        missing = model.predict(fitted, {"x": column([math.nan]), "kind": column([0])})
        average = model.predict(fitted, {"x": column([x.mean()]), "kind": column([0])})
        assert np.frombuffer(missing) == pytest.approx(np.frombuffer(average))

    def test_survives_a_level_that_training_never_saw(self):
        x, kind, y = plane()
        fitted = model.fit({"x": column(x), "kind": column(kind)}, column(y), ["kind"])["model"]
        assert np.isfinite(np.frombuffer(model.predict(fitted, {"x": column([50]), "kind": column([99])}))).all()

    def test_is_made_of_plain_values_that_any_language_can_carry(self):
        x, kind, y = plane()

        def plain(value: object) -> bool:
            if isinstance(value, dict):
                return all(isinstance(key, str) and plain(item) for key, item in value.items())
            if isinstance(value, list):
                return all(map(plain, value))
            return type(value) in (int, float, str, bytes)

        assert plain(model.fit({"x": column(x), "kind": column(kind)}, column(y), ["kind"]))

    def test_of_no_rows_predicts_no_rows(self):
        x, kind, y = plane()
        fitted = model.fit({"x": column(x), "kind": column(kind)}, column(y), ["kind"])["model"]
        assert model.predict(fitted, {"x": b"", "kind": b""}) == b""

    @pytest.mark.parametrize(
        ("columns", "target", "categories", "reason"),
        [
            ({"x": [1.0, 2.0]}, [1.0], [], "rows"),
            ({"x": b"1234567"}, [1.0], [], "multiple of 8"),
            ({"x": [1.0]}, [1.0], ["z"], "no columns: z"),
            ({"x": []}, [], [], "at least one row"),
            ({"x": [1.0]}, [math.nan], [], "missing values"),
        ],
    )
    def test_refuses_columns_that_do_not_fit_together(self, columns, target, categories, reason):
        with pytest.raises(ValueError, match=reason):
            model.fit(columns, target, categories)

    def test_names_the_columns_that_a_prediction_lacks(self):
        x, kind, y = plane()
        fitted = model.fit({"x": column(x), "kind": column(kind)}, column(y), ["kind"])["model"]
        with pytest.raises(ValueError, match="kind"):
            model.predict(fitted, {"x": column([1])})


class TestRouteCheck:
    def route(self, listed: float) -> routes.Route:
        return routes.Route("JFK", "LAX", listed, (*JFK, *LAX))

    def test_accepts_rounding_and_flattening(self):
        assert routes.compare([self.route(2475)], [geo.distance(*JFK, *LAX)])[0].explained

    def test_does_not_explain_away_a_wrong_answer(self):
        assert not routes.compare([self.route(2475)], [geo.distance(*JFK, *LAX) * 1.01])[0].explained

    def test_does_not_explain_away_a_wrong_listing(self):
        assert not routes.compare([self.route(2479)], [geo.distance(*JFK, *LAX)])[0].explained

    def test_names_the_airports_that_have_no_place(self):
        lost = routes.Route("JFK", "SJU", 1598, (*JFK, None, None))
        assert not lost.located
        answers = routes.compare([self.route(2475)], [geo.distance(*JFK, *LAX)])
        assert "SJU" in routes.explain(answers, [lost])[-1]
