"""The rules of ``registry_spec/``: each has one definition, whatever cites one cites a rule that is there, and none is
cited where users read.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CONTRACT = ROOT / "registry_spec"
READ = frozenset({".md", ".py", ".cpp", ".hpp", ".java", ".proto", ".json", ".sh"})
WHERE = ("README.md", "registry_spec", "speed", "pyspark_speed", "tests", "scripts", "examples", "bindings")
MADE = frozenset({"target", "build", "__pycache__"})
DEFINED = re.compile(r"^\*\*([A-Z]-\d+)\b", re.MULTILINE)
CITED = re.compile(r"(?<![\w.-])[A-Z]-\d+\b")
PUBLIC = (
    "speed",
    "speed.aio",
    "speed.aio",
    "speed.spark",
    "speed.columns",
    "speed.column_services",
    "speed.journal",
    "speed.segment",
    "speed.messages",
)
LITERAL = re.compile(r'"(?:[^"\\\n]|\\.)*"')
COMMENT = re.compile(r"//.*|/\*.*?\*/", re.DOTALL)


def definitions() -> Counter[str]:
    return Counter(rule for page in CONTRACT.glob("*.md") for rule in DEFINED.findall(page.read_text("utf-8")))


def sources() -> Iterator[Path]:
    """All text files of the project that people write."""
    for place in WHERE:
        path = ROOT / place
        for each in [path] if path.is_file() else path.rglob("*"):
            if each.suffix in READ and each.is_file() and not MADE & set(each.relative_to(ROOT).parts):
                yield each


def cited(text: str) -> set[str]:
    return set(CITED.findall(text))


def test_each_rule_is_defined_once() -> None:
    assert [rule for rule, times in definitions().items() if times > 1] == []


def test_who_writes_a_node_is_told_of_each_rule_once_whether_it_is_needed() -> None:
    guide = (CONTRACT / "implementers.md").read_text("utf-8")
    rows = [line for line in guide.splitlines() if line.endswith(("| core |", "| full |", "| optional |"))]
    marked = [rule for row in rows for rule in row.split("|")[2].split()]
    assert sorted(marked) == sorted(definitions())


def test_each_rule_that_is_cited_is_defined() -> None:
    known = definitions()
    unknown = {
        f"{path.relative_to(ROOT)}: {rule}"
        for path in sources()
        for rule in cited(path.read_text("utf-8", "replace"))
        if rule not in known
    }
    assert sorted(unknown) == []


def test_what_looks_like_a_rule_is_told_from_other_names() -> None:
    assert cited("as L-15 says (W-3, R-5); UTF-8, ISO-8601, a-1, A-b_c.D-2") == {"L-15", "W-3", "R-5"}


def test_no_rule_is_cited_in_readme_and_docs() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    found = [f"{page.relative_to(ROOT)}: {rule}" for page in pages for rule in sorted(cited(page.read_text("utf-8")))]
    assert found == []


def public_things() -> Iterator[tuple[str, Any]]:
    """All that a program can import, with the public members of classes."""
    for place in PUBLIC:
        module = import_module(place)
        yield place, module
        own = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == place]
        for name in getattr(module, "__all__", own):
            value = getattr(module, name)
            yield f"{place}.{name}", value
            members = vars(value).items() if inspect.isclass(value) else ()
            yield from ((f"{place}.{name}.{member}", one) for member, one in members if not member.startswith("_"))


def test_no_rule_is_cited_in_public_docstrings() -> None:
    said = {name: cited(inspect.getdoc(value) or "") for name, value in public_things()}
    assert len(said) > 100
    assert {name: rules for name, rules in said.items() if rules} == {}


def texts_of_python(source: str) -> Iterator[str]:
    """Literals that are no docstrings."""
    nodes = list(ast.walk(ast.parse(source)))
    alone = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.value


def messages(path: Path) -> Iterator[str]:
    source = path.read_text("utf-8")
    yield from texts_of_python(source) if path.suffix == ".py" else LITERAL.findall(COMMENT.sub("", source))


def test_no_rule_is_cited_in_messages_to_users() -> None:
    files = [path for path in sources() if path.suffix in {".py", ".cpp", ".hpp", ".java"}]
    products = [path for path in files if path.is_relative_to(ROOT / "speed") or path.is_relative_to(ROOT / "bindings")]
    found = {
        f"{path.relative_to(ROOT)}: {text}"
        for path in products
        if not {"test", "tests", "fuzz"} & set(path.relative_to(ROOT).parts)
        for text in messages(path)
        if cited(text)
    }
    assert len(products) > 300
    assert sorted(found) == []


def test_what_is_said_to_users_is_told_from_what_is_written_for_developers() -> None:
    source = '''"""As L-15 says."""\nraise ValueError(f"{1}: too late (T-3)")\n'''
    assert [cited(text) for text in texts_of_python(source) if cited(text)] == [{"T-3"}]


CORE_PAGES = ("implementers", "wire", "registry", "access", "lanes", "spc")
MOST_CORE_WORDS = 9000
MOST_WORDS_WITHOUT_STEPS = 200
RULE = re.compile(r"^\*\*([A-Z]-\d+)\b.*?(?=^\*\*[A-Z]-\d+\b|^#|\Z)", re.MULTILINE | re.DOTALL)
STEP = re.compile(r"^(\d+\.|- |\|)", re.MULTILINE)


def words_in(text: str) -> int:
    """Words that say something: no frames of tables."""
    return sum(any(letter.isalnum() for letter in word) for word in text.split())


def marked(mark: str) -> set[str]:
    guide = (CONTRACT / "implementers.md").read_text("utf-8")
    rows = [line for line in guide.splitlines() if line.endswith(f"| {mark} |")]
    return {rule for row in rows for rule in row.split("|")[2].split()}


def test_a_minimal_node_is_told_all_it_needs_on_a_few_pages() -> None:
    pages = [(CONTRACT / f"{name}.md").read_text("utf-8") for name in CORE_PAGES]
    defined = {rule for page in pages for rule in DEFINED.findall(page)}
    assert marked("core") <= defined
    assert defined - marked("core") == {"A-4", "A-5"}  # two short ones that explain the others
    counted = {name: words_in(page) for name, page in zip(CORE_PAGES, pages, strict=True)}
    assert sum(counted.values()) <= MOST_CORE_WORDS, counted


def test_a_long_rule_is_in_steps() -> None:
    """So that it can be followed, and cited by the number of a step."""
    rules = (found for page in CONTRACT.glob("*.md") for found in RULE.finditer(page.read_text("utf-8")))
    long = {found[1]: words_in(found[0]) for found in rules if not STEP.search(found[0])}
    assert {rule: words for rule, words in long.items() if words > MOST_WORDS_WITHOUT_STEPS} == {}


def test_words_are_counted_without_the_frames_of_tables() -> None:
    assert words_in("| a | 1 |\n|---|---|\n**R-1** it is ... so.") == 6
