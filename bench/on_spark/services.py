"""The service processes: ``python -m on_spark.services (python|grpc|flight|sink) WORK``; they end with their input."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from contenders.root import make_root

from on_spark.distance import ANSWER, GRPC_METHOD, ROW
from on_spark.distance import distance as distances
from on_spark.shapes import SHAPES

WORKERS = 4


def serve_speed(work: Path) -> None:
    """A node with ``distance`` on arrays, in Python."""
    import speed
    from speed.column_services import by_array, by_arrow

    root, key = make_root(work)
    with speed.Node("geo.python", root=root, key=key, workers=WORKERS) as node:
        node.register("distance", by_array(distances))
        for shape in SHAPES.values():
            node.register(shape.name, by_arrow(shape.function))
        node.allow("etl.*")
        ready()


def serve_grpc(work: Path) -> None:
    """One row a call, as bytes; plain floats, which are faster than arrays of one."""
    import grpc

    from examples.flights.services.geo import distance

    def answer(row: bytes, _context: Any) -> bytes:
        return ANSWER.pack(distance(*ROW.unpack(row)))

    service, method = GRPC_METHOD.strip("/").split("/")
    server = grpc.server(ThreadPoolExecutor(max_workers=WORKERS))
    handler = grpc.unary_unary_rpc_method_handler(answer)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
    server.add_insecure_port(f"unix:{work}/grpc")
    server.start()
    ready()
    server.stop(1).wait()


def serve_flight(work: Path) -> None:
    """Batches both ways on one exchange a partition, in the clear."""
    import pyarrow as pa
    from pyarrow import flight

    def miles(rows: pa.RecordBatch) -> pa.Array:
        return pa.array(distances(*(column.to_numpy(zero_copy_only=False) for column in rows.columns)))

    functions = {shape.name: (shape.function, shape.arrow) for shape in SHAPES.values()}
    functions["distance"] = (miles, pa.float64())

    class Geo(flight.FlightServerBase):  # type: ignore[misc, unused-ignore]
        def do_exchange(self, _context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
            compute, kind = functions[descriptor.command.decode()]
            writer.begin(pa.schema([("answer", kind)]))
            for chunk in reader:
                writer.write_batch(pa.RecordBatch.from_arrays([compute(chunk.data)], names=["answer"]))

    # Java's client takes no Unix socket with the Netty of Spark.
    with Geo(f"grpc+unix://{work}/flight"), Geo("grpc+tcp://127.0.0.1:0") as by_tcp:
        (work / "flight.address").write_text(f"grpc+tcp://127.0.0.1:{by_tcp.port}")
        ready()


def serve_sink(work: Path) -> None:
    """A node that takes every message."""
    import speed

    root, key = make_root(work)
    with speed.Node("sink", root=root, key=key, workers=WORKERS) as node:
        node.on_batch(lambda messages: None)
        node.allow("etl.*")
        ready()


def ready() -> None:
    """Say so, then wait until the parent is gone."""
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    serve = {"python": serve_speed, "grpc": serve_grpc, "flight": serve_flight, "sink": serve_sink}
    serve[sys.argv[1]](Path(sys.argv[2]))
