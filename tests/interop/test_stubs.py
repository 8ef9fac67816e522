"""Clients that ``speed stub`` writes: they compile in each language, and call nodes of each (S-26)."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from datetime import date
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import speed
from speed.cli.stub import stub_of
from speed.core.signatures import Description
from tests.interop.languages import CHOSEN, LANGUAGES, ROOT, pairs
from tests.interop.pool import Agents

CPP, JAVA = ROOT / "build/cpp", ROOT / "bindings/java"
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror")
COMPILE_SECONDS = 300.0
CALLED = ("due", "numbers", "total", "double")
PRINTED = ["[2026-12-02, 2026-12-09]", "[2026-12-02]", "[0, 1, 2]", "6", "[2, 4, 6]"]
EXPECTED = [date(2026, 12, 2), date(2026, 12, 9)]

JAVA_PROGRAM = """
import java.time.Duration;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import speed.Node;
import speed.Stream;
import speed.options.StreamOptions;

public final class Program {
    public static void main(String[] arguments) {
        try (Node node = Node.builder("caller.stub.java").open()) {
            for (String target : arguments) {
                Agent agent = new Agent(node, target, Duration.ofSeconds(30));
                System.out.println(agent.due(LocalDate.of(2026, 11, 25), 7, Optional.of(2L)));
                System.out.println(agent.due(LocalDate.of(2026, 11, 25), 7, Optional.empty()));
                StreamOptions sent = StreamOptions.DEFAULT.withItems(List.of(1, 2, 3));
                System.out.println(all(agent.numbers(3, StreamOptions.DEFAULT)));
                System.out.println(agent.total(sent));
                System.out.println(all(agent.double_(sent)));
            }
        }
    }

    private static List<Long> all(Stream<Long> stream) {
        List<Long> items = new ArrayList<>();
        stream.forEachRemaining(items::add);
        return items;
    }
}
"""
CPP_PROGRAM = """
#include <iostream>
#include "agent.hpp"

speed::Stream sent(speed::Stream stream) {
  for (int item = 1; item <= 3; ++item) stream.write(item);
  stream.finish();
  return stream;
}

void print(speed::Stream stream) {
  const char* between = "[";
  while (const std::optional<speed::Value> item = stream.next()) {
    std::cout << std::exchange(between, ", ") << item->as<std::int64_t>();
  }
  std::cout << "]\\n";
}

int main(int count, char** arguments) {
  using namespace std::chrono;
  speed::Node node("caller.stub.cpp");
  for (int place = 1; place < count; ++place) {
    const agent_services::Agent agent(node, arguments[place]);
    for (const auto& days : {agent.due(2026y / 11 / 25, 7, 2), agent.due(2026y / 11 / 25, 7)}) {
      std::cout << "[";
      for (const auto& day : days) {
        if (day != days.front()) std::cout << ", ";
        std::cout << speed::Value(day).as<std::string>();
      }
      std::cout << "]\\n";
    }
    print(agent.numbers(3));
    std::cout << sent(agent.total()).result().as<std::int64_t>() << "\\n";
    print(sent(agent.double_()));
  }
}
"""


def described(agents: Agents, language: str) -> list[Description]:
    """What the agent of a language says of its services."""
    server = agents.shared("server", language)
    with speed.Node(f"caller.asks.{language}", root=agents.root, key=f"{agents.root}/speed.key") as node:
        return node.describe(server.name)


def compiled(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=COMPILE_SECONDS)
    assert done.returncode == 0, done.stderr[-6000:]


def loaded(path: Path) -> ModuleType:
    """The module of a stub."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def write(folder: Path, name: str, services: list[Description]) -> dict[str, Path]:
    """The stubs of all languages."""
    files = {"python": f"{name.lower()}_stub.py", "java": f"{name}.java", "cpp": f"{name.lower()}.hpp"}
    for language, file in files.items():
        (folder / file).write_text(stub_of(name.lower(), services, language), encoding="utf-8")
    return {language: folder / file for language, file in files.items()}


def checked_by_mypy(path: Path) -> None:
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(ROOT / ".mypy_cache/stubs"), str(path)]
    done = subprocess.run(command, env=environment, cwd=path.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]


def compile_java(folder: Path, *files: Path) -> Path:
    out = folder / "classes"
    jars = f"{JAVA}/target/classes:{JAVA}/target/lib/*"
    compiled("javac", "-Xlint:all", "-Werror", "-cp", jars, "-d", out, *files)
    return out


def compile_cpp(source: Path, *link: str | Path) -> None:
    includes = ("-I", ROOT / "bindings/cpp/include", "-I", source.parent)
    compiled("g++", "-std=c++20", "-O0", *WARNINGS, *includes, source, *link)


@pytest.fixture(scope="module")
def programs(shared_agents: Agents, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Commands that call nodes by a stub; the stub is that of one agent, and serves for all."""
    folder = tmp_path_factory.mktemp("stubs")
    services = [one for one in described(shared_agents, CHOSEN[0]) if one.name in CALLED]
    stubs = write(folder, "Agent", services)
    made = {"python": [str(stubs["python"])]}
    if "java" in CHOSEN:
        (folder / "Program.java").write_text(JAVA_PROGRAM)
        out = compile_java(folder, stubs["java"], folder / "Program.java")
        made["java"] = ["java", "-cp", f"{out}:{JAVA}/target/classes:{JAVA}/target/lib/*", "Program"]
    if "cpp" in CHOSEN:
        (folder / "program.cpp").write_text(CPP_PROGRAM)
        link = ("-L", str(CPP), "-lspeed", f"-Wl,-rpath,{CPP}")
        compile_cpp(folder / "program.cpp", *link, "-o", folder / "program")
        made["cpp"] = [str(folder / "program")]
    return made


@pairs("calls")
def test_a_client_calls_what_the_node_of_any_language_described(
    agents: Agents, programs: dict[str, list[str]], source: str, target: str
) -> None:
    server = agents.shared("server", target)
    place = {"root": agents.root, "key": f"{agents.root}/speed.key"}
    if source == "python":
        with speed.Node("caller.stub.python", **place) as node:
            client: Any = node.client(loaded(Path(programs["python"][0])).Agent, server.name, timeout=30)
            assert client.due(date(2026, 11, 25), 7, times=2) == EXPECTED
            assert client.due(date(2026, 11, 25), 7) == EXPECTED[:1]
            assert list(client.numbers(3)) == [0, 1, 2]
            assert client.total(iter([1, 2, 3])) == 6
            assert list(client.double(iter([1, 2, 3]))) == [2, 4, 6]
        return
    environment = {**os.environ, "SPEED_ROOT": place["root"], "SPEED_KEY": place["key"]}
    done = subprocess.run(
        [*programs[source], server.name], env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.splitlines() == PRINTED


@pytest.mark.parametrize("language", CHOSEN)
def test_what_each_language_declares_makes_the_same_client(agents: Agents, language: str) -> None:
    def due(which: str) -> list[str]:
        services = [one for one in described(agents, which) if one.name == "due"]
        return [stub_of("agent", services, one) for one in LANGUAGES]

    assert due(language) == due(CHOSEN[0])


@pytest.mark.parametrize("language", CHOSEN)
def test_each_language_says_whose_items_a_stream_has(agents: Agents, language: str) -> None:
    told = {one.name: one.items for one in described(agents, language) if one.name in CALLED}
    assert told == {"due": None, "numbers": "service", "total": "caller", "double": "both"}


ITEM = {
    "type": "object",
    "properties": {
        "class": {"type": "integer"},
        "date": {"type": "string", "format": "date"},
        "map": {"type": "object", "additionalProperties": {"type": "string", "format": "decimal"}},
        'in-put \u202e"\\u0022\n': {"type": "string"},
        "within": {"anyOf": [{"$ref": "#/$defs/Item"}, {"type": "null"}]},
        "others": {"type": "array", "items": {"$ref": "#/$defs/list"}},
    },
    "required": ["class", "map"],
}
OTHER = {
    "type": "object",
    "properties": {
        "items": {"type": "array", "items": {"$ref": "#/$defs/Item"}},
        "blob": {"type": "string", "contentEncoding": "base64"},
        "choice": {"enum": ["a", 'b"\\', None]},
        "Item": {"$ref": "#/$defs/Item"},
    },
}
DEFINITIONS = {"Item": ITEM, "list": OTHER}
HOSTILE = '*/ """ \\ \\u002a/ \x1b[2J\u202e\n#include <x> {@code} ?\\'


def service(name: str, properties: dict[str, Any], result: Any = None, **more: Any) -> Description:
    schema = {"type": "object", "properties": properties, "$defs": DEFINITIONS, "additionalProperties": False, **more}
    return Description(name, HOSTILE, "1", schema, result)


AWKWARD = [
    *(service(name, {"x": {"type": "integer"}}) for name in ("import", "class", "list", "wait", "int", "Value", "_x")),
    service("prices.total", {"self": {}, "node_": {"type": "string"}, "given": {"type": "number"}, "delete": {}}),
    service(
        "prices_total", {"result": {"type": "null"}, "arguments": {}, "value": {}, "9 \u202e": {"type": "boolean"}}
    ),
    service("tree", {"of": {"$ref": "#/$defs/Item"}}, {"$ref": "#/$defs/list", "$defs": DEFINITIONS}, required=["of"]),
    service("opt", {}, {"anyOf": [{"type": "string", "format": "uuid"}, {"type": "null"}]}, additionalProperties={}),
    service("set", {"of": {"type": "array", "items": {"type": "string"}, "uniqueItems": True}}, {"type": "null"}),
    service("pair", {"of": {"type": "array", "prefixItems": [{"type": "integer"}, {}], "minItems": 1}}),
    service("array", {"of": {"type": "object", "format": "ndarray of float32"}, "at": {"format": "date-time"}}),
    service("wide", {f"p{number}": {"type": "integer"} for number in range(400)}),
    service("inline", {"of": {"type": "object", "properties": {"deep": {"type": "object", "properties": {"x": {}}}}}}),
    service("anything", {"of": {"enum": [1, "a"]}, "or": {"enum": [1.5]}, "bad": 5, "ref": {"$ref": "#/$defs/gone"}}),
    Description("undeclared", "", "", None, {"type": "string", "format": "decimal"}),
    *(
        service(f"{items}.of", {"items": {"type": "integer"}, "options": {}, "stream": {}}, result)._replace(
            streaming=True, items=items
        )
        for items in ("service", "caller", "both", None)
        for result in (
            {"type": "null"},
            {"type": "array", "items": {"type": "integer"}},
            {"$ref": "#/$defs/Item", "$defs": DEFINITIONS},
        )
    ),
]


def test_names_that_no_language_has_and_texts_that_would_act_make_stubs_that_compile(tmp_path: Path) -> None:
    stubs = write(tmp_path, "Awkward", AWKWARD)
    client = loaded(stubs["python"]).Awkward
    assert {"import_", "list_", "prices_total", "prices_total_", "x"} <= vars(client).keys()
    for path in stubs.values():
        assert "\x1b" not in path.read_text(encoding="utf-8")
        assert "\u202e" not in path.read_text(encoding="utf-8")
    checked_by_mypy(stubs["python"])
    if "java" in CHOSEN:
        compile_java(tmp_path, stubs["java"])
    if "cpp" in CHOSEN:
        (tmp_path / "all.cpp").write_text('#include "awkward.hpp"\nint main() {}\n')
        compile_cpp(tmp_path / "all.cpp", "-fsyntax-only")


def doubling(depth: int) -> dict[str, Any]:
    """Each definition holds the next one twice."""
    made: dict[str, Any] = {f"d{depth}": {"type": "integer"}}
    for number in range(depth):
        held = {"$ref": f"#/$defs/d{number + 1}"}
        made[f"d{number}"] = {"type": "array", "prefixItems": [held, held]}
    return made


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/d0", "$defs": doubling(60)},
        {
            "$ref": "#/$defs/a",
            "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "array", "items": {"$ref": "#/$defs/a"}}]}},
        },
        nested(31),
        {"enum": list(range(5000))},
        {"type": ["integer", "string", "null", 5]},
        {"type": 5, "properties": 7, "anyOf": "x", "$defs": []},
    ],
    ids=["doubling", "recursive", "deep", "many choices", "several types", "no schema"],
)
def test_descriptions_that_are_huge_deep_or_recursive_are_read_to_a_bound(schema: Any, language: str) -> None:
    text = stub_of("server", [Description("one", "", "", None, schema)], language)
    assert len(text) < 1_000_000
