"""What others are told of a service, and what the command line makes of it (S-26)."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import speed
from speed.column_services import by_row
from speed.wire.limits import MAX_DESCRIPTION_BYTES
from tests.system.commands import Command
from tests.system.conftest import ENGINES

Make = Callable[..., speed.Node]
pytestmark = pytest.mark.system


@dataclass
class Item:
    price: Decimal
    day: date | None = None


def total(items: list[Item], currency: str = "EUR") -> Decimal:
    """Adds up what items cost.

    In one currency.
    """
    return sum((item.price for item in items), Decimal(0))


def undeclared(**anything: Any) -> None: ...


@by_row
def delay(minutes: int) -> float:
    return minutes * 2.0


class Plain:
    def invoke(self, request: speed.Request) -> int:
        return 1


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("asking", ENGINES)
def test_a_service_is_described_by_its_signature_and_its_docstring(node: Make, engine: str, asking: str) -> None:
    server, caller = node("server", engine=engine, allow=["caller"]), node("caller", engine=asking)
    server.register("total", total, idempotent=True, version="1.2")
    server.register("delay", delay)
    server.register("plain", Plain())
    server.register("undeclared", undeclared)
    described = {one.name: one for one in caller.describe("server")}
    assert list(described) == ["delay", "plain", "total", "undeclared"]
    one = described["total"]
    assert (one.summary, one.version, one.idempotent, one.columns) == ("Adds up what items cost.", "1.2", True, False)
    assert one.signature() == "(items: [Item], currency: string = …) -> decimal"
    assert one.parameters is not None
    assert one.parameters["required"] == ["items"]
    assert one.parameters["additionalProperties"] is False
    assert one.parameters["$defs"]["Item"]["properties"]["price"] == {"type": "string", "format": "decimal"}
    assert one.result == {"type": "string", "format": "decimal"}
    assert described["delay"].columns
    assert described["plain"].parameters is None
    assert described["undeclared"].signature() == "(**others) -> null"
    assert caller.describe("server", "total") == [one]
    with pytest.raises(speed.ServiceNotFoundError, match="no service 'gone' there"):
        caller.describe("server", "gone")


@pytest.mark.parametrize("engine", ENGINES)
def test_only_who_may_call_a_service_is_told_what_it_is(node: Make, engine: str) -> None:
    """A-5."""
    server = node("server", engine=engine, allow=["caller", "other"])
    server.register("secret", total, allow=["other"])
    server.register("open", undeclared)
    assert [one.name for one in node("caller", engine=engine).describe("server")] == ["open"]
    assert [one.name for one in node("other", engine=engine).describe("server")] == ["open", "secret"]


@pytest.mark.parametrize("engine", ENGINES)
def test_descriptions_are_bounded(node: Make, engine: str) -> None:
    server, caller = node("server", engine=engine, allow=["caller"]), node("caller", engine=engine)

    fields = {f"parameter_{number:05}_{'x' * 80}": int for number in range(MAX_DESCRIPTION_BYTES // 100)}
    for number in range(120):
        namespace: dict[str, Any] = {}
        listed = list(fields)[: 100 if number else None]
        exec(f"def service({', '.join(f'{name}: int = 0' for name in listed)}) -> int: return 1", namespace)
        server.register(f"s{number:03}", namespace["service"])
    described = caller.describe("server", timeout=60)
    assert len(described) == 120
    assert described[0].parameters is None  # more than one description may have
    assert described[1].parameters is not None
    assert described[-1].parameters is None  # more than an answer may have


def test_the_command_line_shows_them_and_reads_values_by_them(node: Make, root: str) -> None:
    run = Command(Path(root))
    server = node("server", allow=["cli.*"])

    def book(name: str, day: date, data: bytes, amount: int = 1) -> list[Any]:
        """Books it."""
        return [name, day, data, amount]

    server.register("book", book, version="2")
    shown = run("describe", "server")
    assert "(name: string, day: date, data: string, amount: integer = …) -> array" in " ".join(shown.out.split())
    assert "Books it." in shown.out
    (told,) = json.loads(run("describe", "server", "book", "--json").out)["services"]
    assert told["parameters"]["properties"]["day"] == {"type": "string", "format": "date"}
    called = run("call", "server", "book", "name=5", "day=2026-11-25", "data=aGk=", "amount=7", "--json")
    assert json.loads(called.out) == ["5", "2026-11-25", "aGk=", 7]
    quoted = run("call", "server", "book", 'name="5"', "day=2026-11-25", "data=", "--json")
    assert json.loads(quoted.out)[0] == "5"


def test_a_stub_is_written_from_the_command_line(
    node: Make, root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its client calls the node that it describes."""
    run = Command(Path(root))
    server = node("server", allow=["cli.*", "shop"])
    server.register("total", total, version="2")
    file = tmp_path / "server_services.py"
    assert run("stub", "server", "--name", "Shop", "--output", str(file)).status == 0
    written = run("stub", "server", "--name", "Shop")
    assert written.out == file.read_text("utf-8")
    module = types.ModuleType("server_services")
    monkeypatch.setitem(sys.modules, "server_services", module)
    exec(compile(written.out, str(file), "exec"), vars(module))
    client = node("shop").client(module.Shop, "server")
    assert client.total([{"price": Decimal("1.5")}, {"price": Decimal(2)}]) == Decimal("3.5")
    assert "public final class Shop" in run("stub", "server", "--language", "java", "--name", "com.shop.Shop").out
    assert "namespace shop {" in run("stub", "server", "--language", "cpp", "--name", "shop::Shop").out
    refused = run("stub", "server", "--name", "no class")
    assert (refused.status, "is no name of a class" in refused.err) == (2, True)


def test_a_description_is_a_document_of_openapi(node: Make, root: str) -> None:
    run = Command(Path(root))
    server = node("server", allow=["cli.*"])
    server.register("total", total)
    server.register("plain", Plain())
    document = json.loads(run("describe", "server", "--openapi").out)
    assert (document["openapi"], sorted(document["paths"])) == ("3.1.0", ["/server/plain", "/server/total"])
    posted = document["paths"]["/server/total"]["post"]
    schema = posted["requestBody"]["content"]["application/json"]["schema"]
    assert (posted["summary"], schema["required"]) == ("Adds up what items cost.", ["items"])
    assert schema["$id"] == "urn:speed:server:total:parameters"
    assert schema["$defs"]["Item"]["properties"]["price"] == {"type": "string", "format": "decimal"}
