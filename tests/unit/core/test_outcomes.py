"""What an answer means for its caller: which error, whether the service ran, what to do (S-8)."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from speed.core.calls import (
    RequestVerdict,
    Unread,
    call_error,
    checked_answer,
    execution_of,
    node_left,
    not_begun,
    perhaps_run_before,
    raised,
)
from speed.core.scheduler import TIME_BOUNDS_SECONDS, TIMES, time_place, time_quantile
from speed.core.services import Response
from speed.errors import (
    CALL_ERRORS,
    ApplicationError,
    ConfigurationError,
    Execution,
    InternalError,
    NodeClosedError,
    NodeLeftError,
    WireError,
    fresh,
)

CODES = json.loads((Path(__file__).parents[3] / "registry_spec" / "codes.json").read_text())["spc"]


@pytest.mark.parametrize(
    ("code", "details", "execution"),
    [
        ("SERVICE_NOT_FOUND", {}, Execution.NOT_BEGUN),
        ("ACCESS_DENIED", {}, Execution.NOT_BEGUN),
        ("INVALID_ARGUMENTS", {}, Execution.NOT_BEGUN),
        ("SEGMENTS_LOST", {}, Execution.NOT_BEGUN),
        ("LEAVING", {}, Execution.NOT_BEGUN),
        ("TIMEOUT", {"phase": "queued"}, Execution.NOT_BEGUN),
        ("WITHDRAWN", {"phase": "queued"}, Execution.NOT_BEGUN),
        ("WITHDRAWN", {"phase": "running"}, Execution.MAY_HAVE_RUN),
        ("TIMEOUT", {"phase": "running"}, Execution.MAY_HAVE_RUN),
        ("TIMEOUT", {"phase": "unanswered"}, Execution.MAY_HAVE_RUN),
        ("INTERNAL_ERROR", {}, Execution.MAY_HAVE_RUN),
        ("INTERNAL_ERROR", {"phase": "queued"}, Execution.NOT_BEGUN),
        ("EXECUTION_FAILED", {}, Execution.RAN),
        ("OUT_OF_TEA", {}, Execution.MAY_HAVE_RUN),
        ("app/out of tea", {}, Execution.MAY_HAVE_RUN),
    ],
)
def test_an_answer_tells_whether_the_service_ran(code: str, details: dict[str, Any], execution: Execution) -> None:
    assert execution_of(code, details) is execution
    error = call_error("billing", code, "why", details)
    assert error.execution is execution
    assert type(error) is CALL_ERRORS.get(code, InternalError)
    assert str(error).startswith("billing: why")


@pytest.mark.parametrize("code", ["LEAVING", "REPLACED"])
def test_what_a_node_says_of_itself_is_no_answer_of_a_service(code: str) -> None:
    """S-19."""
    with pytest.raises(ConfigurationError):
        Response.error(code, "")


@pytest.mark.parametrize("code", ["OUT_OF_STOCK", "X", "LEAVING_2", "TIMEOUT", "A" * 64])
def test_a_code_of_the_service_is_an_application_error_with_that_code(code: str) -> None:
    error = call_error("stock", f"app/{code}", "none left", {"phase": "queued"})
    assert (type(error), error.code, error.details) == (ApplicationError, code, {"phase": "queued"})
    assert error.execution is Execution.RAN
    copy = fresh(error)
    assert (type(copy), copy.code, str(copy)) == (ApplicationError, code, "stock: none left")


@pytest.mark.parametrize("rest", ["", "x", "1A", "A-B", "A\n", "A" * 65, "ÄRGER", "app/A", "\uff21"])
def test_a_code_with_another_rest_behind_the_prefix_reads_as_unknown(rest: str) -> None:
    assert type(call_error("stock", f"app/{rest}", "odd", {})) is InternalError


def test_every_code_of_the_contract_has_an_error_of_its_own() -> None:
    assert set(CODES) == set(CALL_ERRORS)
    assert isinstance(call_error("billing", "LEAVING", "", {}), NodeLeftError)


def test_advice_fits_what_is_known() -> None:
    assert "call again" in str(call_error("billing", "LEAVING", "is leaving", {}))
    assert "look before you repeat it" in str(call_error("billing", "TIMEOUT", "late", {"phase": "running"}))
    assert "repeat" not in str(call_error("billing", "EXECUTION_FAILED", "no such account", {}))


def test_an_error_that_many_wait_for_is_raised_as_a_copy_for_each() -> None:
    shared = NodeClosedError("closed")
    copies = [raised(shared, Execution.MAY_HAVE_RUN) for _ in range(2)]
    assert [type(one) for one in copies] == [NodeClosedError, NodeClosedError]
    assert [str(one) for one in copies] == ["closed", "closed"]
    assert copies[0] is not copies[1]
    assert shared.execution is None


@pytest.mark.parametrize("code", CODES)
def test_a_copy_says_what_the_error_said(code: str) -> None:
    error = call_error("billing", code, "why", {"phase": "running"})
    copy = fresh(error)
    assert (type(copy), str(copy), copy.__dict__) == (type(error), str(error), error.__dict__)


def test_a_sound_answer_to_a_question_passes() -> None:
    row = {"numRequests": 1, "numErrors": 0, "lastError": "", "processingSeconds": 0.5, "averageSeconds": 0.5}
    stats = {
        "name": "billing",
        "uptimeSeconds": 1.5,
        "pendingCalls": 0,
        "lanes": 1,
        "counters": {"gaps": 1},
        "services": {"add": row},
    }
    assert checked_answer("STATS", stats, "evil") is stats
    for change in ({"services": {"add": {**row, "lastError": None}}}, {"counters": {"gaps": "1"}}, {"lanes": True}):
        with pytest.raises(WireError):
            checked_answer("STATS", {**stats, **change}, "evil")


def test_counts_of_spans_are_checked_where_a_node_tells_them() -> None:
    row = {"numRequests": 1, "numErrors": 0, "lastError": "", "processingSeconds": 0.5, "averageSeconds": 0.5}
    stats = {"name": "b", "uptimeSeconds": 1.5, "pendingCalls": 0, "lanes": 1, "counters": {}}
    sound = {"numTimedOut": 0, "queueTimes": [0] * TIMES, "runTimes": [1] * TIMES}
    assert checked_answer("STATS", {**stats, "services": {"tax": {**row, **sound}}}, "b")
    for odd in ({"runTimes": [1]}, {"queueTimes": [-1] * TIMES}, {"runTimes": [True] * TIMES}, {"numTimedOut": -1}):
        with pytest.raises(WireError):
            checked_answer("STATS", {**stats, "services": {"tax": {**row, **odd}}}, "b")


@pytest.mark.parametrize(
    ("seconds", "place"),
    [(-1.0, 0), (0.0, 0), (63e-6, 0), (64.5e-6, 1), (127e-6, 1), (128.5e-6, 2), (0.2, 12), (1e9, TIMES - 1)],
)
def test_a_span_is_counted_among_those_of_its_length(seconds: float, place: int) -> None:
    assert time_place(seconds) == place


def test_a_quantile_is_the_end_of_the_spans_that_hold_it() -> None:
    counts = [0] * TIMES
    assert time_quantile(counts, 0.5) == 0.0
    counts[3], counts[10] = 98, 2
    assert time_quantile(counts, 0.5) == 512e-6
    assert time_quantile(counts, 0.99) == TIME_BOUNDS_SECONDS[10]
    counts[-1] = 1000
    assert time_quantile(counts, 0.99) == math.inf


def test_a_local_error_says_that_nothing_was_written_and_keeps_saying_it() -> None:
    error = NodeClosedError("closed")
    not_begun(error)
    assert raised(error, Execution.MAY_HAVE_RUN).execution is Execution.NOT_BEGUN


def test_the_counters_of_a_peer_are_checked_before_a_program_sees_them() -> None:
    row = {"numRequests": 1, "numErrors": 0, "lastError": "", "processingSeconds": 0.5, "averageSeconds": 0.5}
    stats = {"name": "b", "uptimeSeconds": 1.5, "pendingCalls": 0, "lanes": 1, "counters": {"gaps": 1}}
    assert checked_answer("STATS", {**stats, "services": {"tax": row}}, "evil")["services"] == {"tax": row}
    wrong = ({"numErrors": "0"}, {"numErrors": -1}, {"averageSeconds": float("nan")}, {"processingSeconds": 1 << 63})
    for odd in ([], {"tax": []}, {1: row}, *({"tax": {**row, **one}} for one in wrong)):
        with pytest.raises(WireError, match="answer of evil to STATS has no services"):
            checked_answer("STATS", {**stats, "services": odd}, "evil")
    with pytest.raises(WireError, match="no map"):
        checked_answer("STATS", [stats], "evil")


@pytest.mark.parametrize("odd", [None, "tax", [1], {"tax": 1}])
def test_names_of_services_are_a_list_of_texts(odd: Any) -> None:
    assert checked_answer("SERVICES", {"services": ["tax"]}, "evil") == {"services": ["tax"]}
    with pytest.raises(WireError, match="services"):
        checked_answer("SERVICES", {"services": odd}, "evil")


def test_no_error_of_a_call_that_was_sent_again_says_that_it_was_not_begun() -> None:
    """S-21: an earlier process may have run it."""
    told: list[Any] = []
    complete = perhaps_run_before(told.append)
    refused = call_error("billing", "SERVICE_NOT_FOUND", "none", {})
    complete(refused)
    complete(call_error("billing", "EXECUTION_FAILED", "failed", {}))
    complete(7)
    complete(unread := Unread())
    assert [getattr(one, "execution", None) for one in told[:2]] == [Execution.MAY_HAVE_RUN, Execution.RAN]
    assert refused.execution is Execution.NOT_BEGUN
    assert told[2:] == [7, unread]
    assert unread.may_have_run


def test_who_left_before_it_began_is_told_from_who_may_have_run_it() -> None:
    """S-21."""
    assert node_left("billing", RequestVerdict.NOT_BEGUN).execution is Execution.NOT_BEGUN
    assert node_left("billing", RequestVerdict.REPEATABLE).execution is Execution.MAY_HAVE_RUN
    assert "look before you repeat it" in str(node_left("billing"))
