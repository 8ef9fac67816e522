"""How a Spark application's id becomes a node name, and when its node closes."""

from __future__ import annotations

import os

import pytest

from speed.errors import ConfigurationError
from speed.spark import nodes as spark


class Context:
    """A Spark context as far as ``speed.spark`` sees one."""

    applicationId = "local-1700000000000"  # noqa: N815

    def __init__(self, log: list[str]) -> None:
        self.log = log

    def stop(self) -> None:
        self.log.append("spark stopped")


class Closing:
    """What closes, and notes it."""

    def __init__(self, log: list[str], error: Exception | None = None) -> None:
        self.log, self.error = log, error

    def close(self) -> None:
        self.log.append("node closed")
        if self.error:
            raise self.error


@pytest.mark.parametrize(
    ("application", "name"),
    [
        ("local-1700000000000", "etl.local-1700000000000"),
        ("application_1700000000000_0001", "etl.application_1700000000000_0001"),
        ("spark-4f0a/driver one", "etl.spark-4f0a-driver-one"),
        ("a..b.", "etl.a.b"),
    ],
)
def test_the_name_is_the_application_id_within_the_naming_rule(application, name):
    assert spark.node_name(application) == name


def test_a_long_id_is_cut_to_what_a_name_may_hold():
    assert len(spark.node_name("x" * 500).encode()) == spark.MAX_NAME_BYTES


def test_an_id_that_leaves_nothing_is_refused():
    with pytest.raises(ConfigurationError, match="name="):
        spark.node_name("...")


def test_the_node_closes_before_the_context_stops_and_once():
    log: list[str] = []
    context = Context(log)
    spark._close_with(context, Closing(log))
    context.stop()
    context.stop()
    assert log == ["node closed", "spark stopped", "spark stopped"]


def test_spark_stops_also_when_the_node_cannot_close():
    log: list[str] = []
    context = Context(log)
    spark._close_with(context, Closing(log, RuntimeError("root is gone")))
    with pytest.raises(RuntimeError):
        context.stop()
    assert log == ["node closed", "spark stopped"]


def test_two_nodes_of_one_session_both_close():
    log: list[str] = []
    context = Context(log)
    spark._close_with(context, Closing(log))
    spark._close_with(context, Closing(log))
    context.stop()
    assert log == ["node closed", "node closed", "spark stopped"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_does_not_close_its_parents_node():
    log: list[str] = []
    close = spark._once(Closing(log).close)
    child = os.fork()
    if child == 0:
        close()
        os._exit(len(log))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    close()
    assert log == ["node closed"]


def test_a_session_without_a_context_is_a_clear_error():
    class Remote:
        @property
        def sparkContext(self):
            raise NotImplementedError("JVM_ATTRIBUTE_NOT_SUPPORTED")

    with pytest.raises(ConfigurationError, match="Spark Connect"):
        spark.driver_node(Remote())
