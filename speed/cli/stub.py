"""Clients with types in Python, Java and C++, written from what a node describes (S-26).

All text of a description is another program's: it is quoted where it is a name on the wire, and shown as
comments have it.
"""

from __future__ import annotations

import html
import keyword
import re
from collections.abc import Callable, Iterable, Iterator

from speed.cli.interface import (
    ANY,
    NULL,
    Interface,
    Names,
    Operation,
    RecordType,
    Type,
    TypedMember,
    placed,
    read,
    type_name,
    vocabulary,
    wrapped,
    written_by,
)
from speed.core.signatures import Description
from speed.wire.text import harmless
from speed.wire.value import ARRAY_TYPES

# Python: a Protocol for ``node.client``, and a TypedDict for each record.

_PYTHON = {
    "any": "Any",
    "null": "None",
    "boolean": "bool",
    "integer": "int",
    "number": "float",
    "string": "str",
    "bytes": "bytes",
    "date-time": "datetime.datetime",
    "date": "datetime.date",
    "time": "datetime.time",
    "microseconds": "datetime.timedelta",
    "decimal": "decimal.Decimal",
    "uuid": "uuid.UUID",
    "path": "pathlib.Path",
    "local-date-time": "str",
    "column": "speed.Column",
    "table": "pyarrow.Table",
}
_PYTHON_OWN = ("datetime", "decimal", "pathlib", "uuid")
_PYTHON_MODULES = (*_PYTHON_OWN, "numpy", "numpy.typing", "pyarrow", "speed")
_PYTHON_WORDS = frozenset(
    {*keyword.kwlist, *_PYTHON_MODULES}
    | vocabulary("self bool int float str bytes list set tuple dict Any Iterator Literal Protocol TypedDict")
)


def python_type(type_: Type) -> str:
    parts = [python_type(part) for part in type_.parts]
    match type_.kind:
        case "union":
            return " | ".join(parts)
        case "choice":
            return f"Literal[{', '.join(map(python_quoted, type_.choices))}]"
        case "list" | "set" as kind:
            return f"{kind if _is_hashable(type_.parts[0]) else 'list'}[{parts[0]}]"
        case "tuple":
            return f"tuple[{', '.join(parts) or '()'}]"
        case "map":
            return f"dict[str, {parts[0]}]"
        case "record":
            return type_.name
        case "ndarray":
            item = {"bool": "numpy.bool_"}.get(type_.name, f"numpy.{type_.name}")
            return f"numpy.typing.NDArray[{item if type_.name in ARRAY_TYPES else 'Any'}]"
    return _PYTHON[type_.kind]


def _is_hashable(item: Type) -> bool:
    if item.kind in ("union", "tuple"):
        return all(map(_is_hashable, item.parts))
    return item.kind not in ("any", "record", "map", "list", "set", "ndarray", "column", "table")


def python_quoted(choice: str | int) -> str:
    """As a value in the code."""
    text = ascii(choice)
    return f'"{text[1:-1]}"' if text[0] == "'" and '"' not in text else text


def python_text(text: str) -> str:
    """As a docstring."""
    shown = harmless(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"""{shown}"""'


def write_python(node: str, described: Iterable[Description], name: str) -> str:
    types = Names({*_PYTHON_WORDS, name})
    interface = read(node, described, types)
    body = "\n\n\n".join([*map(_python_record, interface.records.values()), _python_client(interface, name)])
    modules = [one for one in _PYTHON_MODULES if re.search(rf"\b{one}\.(?!typing)|\b{one}\.\w", body)]
    names = [one for one in ("Any", "Literal", "Protocol", "TypedDict") if re.search(rf"\b{one}\b", body)]
    streams = "from collections.abc import Iterator\n" if any(one.streams for one in interface.methods) else ""
    own, others = ([f"import {one}\n" for one in modules if (one in _PYTHON_OWN) is is_own] for is_own in (True, False))
    head = f"{python_text(written_by(node, 'python'))}\n\nfrom __future__ import annotations\n\n"
    imports = "".join([streams, *own, f"from typing import {', '.join(names)}\n", *(["\n", *others] if others else [])])
    return f"{head}{imports}\n\n{body}\n"


def _python_record(record: RecordType) -> str:
    """In two parts where fields may be missing, which Python 3.10 has no other form for."""
    must = [one for one in record.fields if one.is_required]
    may = [one for one in record.fields if not one.is_required]
    if not may:
        return _python_map(record.name, must, "")
    if not must:
        return _python_map(record.name, may, "total=False")
    base = f"Required_{record.name}"
    return f"{_python_map(base, must, '')}\n\n\n{_python_map(record.name, may, f'{base}, total=False', base)}"


def _python_map(name: str, fields: list[TypedMember], how: str, base: str = "") -> str:
    if all(_is_python_field(one.key) for one in fields):
        lines = [f"    {one.key}: {python_type(one.type)}" for one in fields] or ["    pass"]
        return "\n".join([f"class {name}({how if base else ', '.join(filter(None, ('TypedDict', how)))}):", *lines])
    # Keys that are no names stand in a call, which has no base: all fields of the base are repeated as a class would.
    items = ", ".join(f"{python_quoted(one.key)}: {python_quoted(python_type(one.type))}" for one in fields)
    made = f"Fields_{name}" if base else name
    call = f'{made} = TypedDict("{made}", {{{items}}}{", total=False" if "total" in how else ""})'
    return f"{call}\n\n\nclass {name}({base}, {made}):\n    pass" if base else call


def _is_python_field(key: str) -> bool:
    return bool(re.fullmatch("[A-Za-z][A-Za-z0-9_]*", key, re.ASCII)) and key not in _PYTHON_WORDS


def _python_client(interface: Interface, name: str) -> str:
    names = Names({*_PYTHON_WORDS, *interface.records, name})
    methods = [_python_method(one, names.take(one.service, "service")) for one in interface.methods]
    head = [f"class {name}(Protocol):", f"    {python_text(f'The services of {interface.node}.')}"]
    return "\n\n".join(["\n".join(head), *methods])


def _python_method(method: Operation, name: str) -> str:
    names = Names({*keyword.kwlist, "self"})
    listed, renamed, optional = ["self"], list[str](), list[str]()
    for one in method.parameters or ():
        own = names.take(one.key, "argument")
        (listed if one.is_required else optional).append(
            f"{own}: {python_type(one.type)}" + " = ..." * (not one.is_required)
        )
        if own != one.key:
            renamed.append(f"{own}={python_quoted(one.key)}")
    if method.takes:
        listed.append(f"{names.take('items', 'items')}: Iterator[Any]")
    elif method.takes is None:
        optional.append(f"{names.take('items', 'items')}: Iterator[Any] | None = None")
    listed += optional
    if method.others is not None:
        listed.append(f"**{names.take('others', 'others')}: {python_type(method.others)}")
    lines = [f"    @speed.named({', '.join([python_quoted(method.service), *renamed])})"] * (
        name != method.service or bool(renamed)
    )
    result = python_type(method.result)
    end = f") -> {f'Iterator[{result}]' if method.gives else result}:" + ("" if method.summary else " ...")
    lines.append(wrapped(f"    def {name}(", listed, end, "        ", "    "))
    return "\n".join([*lines, *([f"        {python_text(method.summary)}"] if method.summary else [])])


# Java: a class with a method for each service, and a record for each record.

_JAVA = {
    "any": "Object",
    "null": "Object",
    "boolean": "Boolean",
    "integer": "Long",
    "number": "Double",
    "string": "String",
    "path": "String",
    "bytes": "byte[]",
    "date-time": "Instant",
    "date": "LocalDate",
    "time": "LocalTime",
    "local-date-time": "LocalDateTime",
    "microseconds": "Duration",
    "decimal": "BigDecimal",
    "uuid": "UUID",
    "column": "Column",
    "union": "Object",
    "tuple": "List<Object>",
    **dict.fromkeys(("ndarray", "table"), "Map<String, Object>"),
}
_PRIMITIVES = {"Boolean": "boolean", "Long": "long", "Double": "double"}
_JAVA_IMPORTS = {
    **{one: f"java.util.{one}" for one in ("Collections", "LinkedHashMap", "List", "Map", "Optional", "Set", "UUID")},
    **{one: f"java.time.{one}" for one in ("Duration", "Instant", "LocalDate", "LocalDateTime", "LocalTime")},
    "BigDecimal": "java.math.BigDecimal",
    "Column": "speed.columns.Column",
    "Caller": "speed.Caller",
    "Stream": "speed.Stream",
    "StreamOptions": "speed.options.StreamOptions",
    "Member": "speed.values.Member",
    "Value": "speed.Value",
}
_JAVA_WORDS = vocabulary(
    """abstract assert boolean break byte case catch char class const continue default do double else enum extends
    final finally float for goto if implements import instanceof int interface long native new package private
    protected public return short static strictfp super switch synchronized this throw throws transient try
    void volatile while true false null record sealed permits yield var _"""
)
_JAVA_METHODS = vocabulary("clone equals finalize getClass hashCode notify notifyAll toString wait")
_JAVA_TYPES = frozenset({*_JAVA_IMPORTS, *_PRIMITIVES, "Object", "String", "Record", "Override"})


def java_type(type_: Type) -> str:
    """As it stands in brackets."""
    if type_.is_optional:
        return f"Optional<{java_type(type_.present)}>"
    match type_.kind:
        case "choice":
            kinds = {type(one) for one in type_.choices}
            return {str: "String", int: "Long", bool: "Boolean"}[kinds.pop()] if len(kinds) == 1 else "Object"
        case "list":
            return f"List<{java_type(type_.parts[0])}>"
        case "set":
            return f"Set<{java_type(type_.parts[0])}>"
        case "map":
            return f"Map<String, {java_type(type_.parts[0])}>"
        case "record":
            return type_.name
    return _JAVA[type_.kind]


def _java_field(field: TypedMember) -> str:
    found = java_type(field.type)
    if not field.is_required and not field.type.is_optional:
        return f"Optional<{found}>"
    return _PRIMITIVES.get(found, found)


def java_text(text: str) -> str:
    """As a comment of Javadoc, where ``\\u`` is read before all else, and HTML is."""
    shown = html.escape(harmless(text), quote=False)
    return shown.replace("\\", "&#92;").replace("*/", "*&#47;").replace("@", "&#64;").replace("{", "&#123;")


def java_quoted(text: str) -> str:
    made = "".join(_java_escape(unit) for unit in _utf16(text))
    return f'"{made}"'


def _utf16(text: str) -> Iterator[int]:
    data = text.encode("utf-16-be", "surrogatepass")
    return (int.from_bytes(data[place : place + 2], "big") for place in range(0, len(data), 2))


def _java_escape(unit: int) -> str:
    """Octal where ``\\u`` would be read as the character that it is."""
    if unit in (0x22, 0x5C):
        return "\\" + chr(unit)
    if 0x20 <= unit < 0x7F:
        return chr(unit)
    return f"\\{unit:03o}" if unit < 0x80 else f"\\u{unit:04x}"


def write_java(node: str, described: Iterable[Description], name: str) -> str:
    package, _, own = name.rpartition(".")
    types = Names({*_JAVA_TYPES, *_JAVA_WORDS, own})
    interface = read(node, described, types)
    records = [_java_record(one) for one in interface.records.values()]
    names = Names({*_JAVA_WORDS, *_JAVA_METHODS})
    methods = [_java_method(one, names.take(one.service, "service"), types) for one in interface.methods]
    body = "\n\n".join([_java_head(node, own), *records, *methods])
    used = [place for one, place in _JAVA_IMPORTS.items() if re.search(rf"\b{one}\b", body)]
    imports = "".join(f"import {place};\n" for place in sorted(used))
    head = f"package {package};\n\n" if package else ""
    return f"{head}{imports}\n/** {java_text(written_by(node, 'java'))} Thread-safe. */\n{body}\n}}\n"


def _java_head(node: str, name: str) -> str:
    return f"""public final class {name} {{
    private final Caller node;
    private final String target;
    private final Duration timeout;

    /**
     * The services of {java_text(node)}, called with the usual deadline.
     *
     * @param node calls them
     */
    public {name}(Caller node) {{
        this(node, {java_quoted(node)}, Caller.CALL_TIMEOUT);
    }}

    /**
     * The services of a node.
     *
     * @param node calls them
     * @param target name of the node that is called
     * @param timeout deadline of each call
     */
    public {name}(Caller node, String target, Duration timeout) {{
        this.node = node;
        this.target = target;
        this.timeout = timeout;
    }}"""


def _java_record(record: RecordType) -> str:
    names = Names({*_JAVA_WORDS, *_JAVA_METHODS})
    listed, notes = [], []
    for one in record.fields:
        own = names.take(one.key, "field")
        marks = [f"name = {java_quoted(one.key)}"] * (own != one.key)
        marks += ["leftOut = true"] * (not one.is_required)
        listed.append((f"@Member({', '.join(marks)}) " if marks else "") + f"{_java_field(one)} {own}")
        notes.append(f"     * @param {own} {java_text(one.key)}{_java_choices(one.type)}")
    comment = "\n".join(
        [f"    /**\n     * A record, {record.name}.", *(["     *"] if notes else []), *notes, "     */"]
    )
    return f"{comment}\n" + wrapped(f"    public record {record.name}(", listed, ") {}", "            ")


def _java_choices(type_: Type) -> str:
    """What text cannot say that stands for one of several."""
    listed = [java_text(ascii(one)) for one in type_.present.choices[:20]]
    return f": one of {', '.join(listed)}" if listed else ""


def _java_method(method: Operation, name: str, types: Names) -> str:
    names = Names({*_JAVA_WORDS, *_JAVA_TYPES, "arguments", "given", "options", "result"})
    listed, notes, set_ = [], [], []
    for one in method.parameters or ():
        own = names.take(one.key, "argument")
        listed.append(f"{_java_field(one)} {own}")
        notes.append(f"     * @param {own} {java_text(one.key)}{_java_choices(one.type)}")
        key = java_quoted(one.key)
        left_out = f"{own}.ifPresent(given -> arguments.put({key}, given));"
        set_.append(f"        {f'arguments.put({key}, {own});' if one.is_required else left_out}")
    if method.others is not None:
        own = names.take("others", "others")
        listed.append(f"Map<String, {java_type(method.others)}> {own}")
        notes.append(f"     * @param {own} further arguments by name")
        set_.append(f"        arguments.putAll({own});")
    if method.streams:
        listed.append("StreamOptions options")
        sent = "" if method.takes is False else ", and the items that are sent"
        notes.append(f"     * @param options deadlines, the window{sent}")
    result, lines = _java_call(method, types)
    if result != "void":
        notes.append(
            f"     * @return its {'items, to be closed unless they are read to the end' if method.gives else 'result'}"
        )
    comment = [
        "    /**",
        f"     * {java_text(method.summary or method.service)}",
        *(["     *"] if notes else []),
        *notes,
    ]
    signature = wrapped(f"    public {result} {name}(", listed, ") {", "            ")
    begin = "        Map<String, Object> arguments = new LinkedHashMap<>();"
    return "\n".join([*comment, "     */", signature, begin, *set_, *lines[:1], "    }", *lines[1:]])


def _java_call(method: Operation, types: Names) -> tuple[str, list[str]]:
    """The type of the result; the line that calls, and what else that needs."""
    address = f"this.target, {java_quoted(method.service)}, arguments"
    result = java_type(method.result)
    if method.gives:
        item = "Object" if "<" in result else result  # a class alone says no more
        return f"Stream<{item}>", [f"        return this.node.stream({address}, {item}.class, options);"]
    call = (
        f"this.node.stream({address}, options).result()"
        if method.streams
        else f"this.node.call({address}, this.timeout)"
    )
    if method.result == NULL:
        return "void", [f"        {call};"]
    if result == "Object":
        return result, [f"        return {call};"]
    if "<" not in result and not method.streams:
        return result, [f"        return this.node.call({address}, {result}.class, this.timeout);"]
    if "<" not in result:
        return result, [f"        return Value.as({call}, {result}.class);"]
    own = types.take(f"{type_name(method.service, 'Service')}Answer", "Answer")
    value = f"Object result = {call};"
    made = f'Value.as(Collections.singletonMap("result", result), {own}.class).result()'
    line = f"        {value}\n        return {made};"
    return result, [line, f"\n    private record {own}({result} result) {{}}"]


# C++: a header with a class that has a method for each service, and a struct for each record.

_CPP = {
    "any": "speed::Value",
    "null": "speed::Value",
    "boolean": "bool",
    "integer": "std::int64_t",
    "number": "double",
    "bytes": "speed::Bytes",
    "date-time": "speed::Instant",
    "column": "speed::Column",
    **dict.fromkeys(("string", "path", "decimal", "uuid"), "std::string"),
    "date": "std::chrono::year_month_day",
    "microseconds": "std::chrono::microseconds",
    "time": "std::chrono::hh_mm_ss<std::chrono::microseconds>",
    "union": "speed::Value",
    "local-date-time": "std::chrono::local_time<std::chrono::microseconds>",
    "tuple": "speed::Array",
    **dict.fromkeys(("ndarray", "table"), "speed::Map"),
}
_CPP_MEMBERS = ("node_", "target_", "options_")
_CPP_SMALL = frozenset({"bool", "std::int64_t", "double"})
_CPP_WORDS = vocabulary(
    """alignas alignof and and_eq asm atomic_cancel atomic_commit atomic_noexcept auto bitand bitor bool break case
    catch char char8_t char16_t char32_t class compl concept const consteval constexpr constinit const_cast
    continue co_await co_return co_yield decltype default delete do double dynamic_cast else enum explicit
    export extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq
    nullptr operator or or_eq private protected public reflexpr register reinterpret_cast requires return
    short signed sizeof static static_assert static_cast struct switch synchronized template this thread_local
    throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq
    std speed linux unix i386 errno stdin stdout stderr major minor NULL EOF assert INFINITY NAN"""
)


class _Cpp:
    """Writes the types of one interface: which structs stand where."""

    def __init__(self, interface: Interface) -> None:
        self.ordered, self._cut = placed(interface)

    def type(self, type_: Type, within: str = "") -> str:
        if type_.is_optional:
            return f"std::optional<{self.type(type_.present, within)}>"
        match type_.kind:
            case "choice":
                kinds = {type(one) for one in type_.choices}
                kind = {str: "std::string", int: "std::int64_t", bool: "bool"}
                return kind[kinds.pop()] if len(kinds) == 1 else "speed::Value"
            case "list" | "set":
                item = self.type(type_.parts[0])
                return "speed::Array" if item == "speed::Value" else f"std::vector<{item}>"
            case "map":
                item = self.type(type_.parts[0], within)
                return "speed::Map" if item == "speed::Value" else f"std::map<std::string, {item}>"
            case "record":
                return "speed::Value" if (within, type_.name) in self._cut else type_.name
        return _CPP[type_.kind]

    def field(self, field: TypedMember, within: str = "") -> str:
        found = self.type(field.type, within)
        return found if field.is_required or field.type.is_optional else f"std::optional<{found}>"


def cpp_text(text: str) -> str:
    """As a comment to the end of its line, which a backslash would go on behind."""
    shown = harmless(text)
    return f"{shown}." if shown.endswith("\\") else shown


def cpp_quoted(text: str) -> str:
    made = "".join(_cpp_escape(one) for one in text.encode(errors="surrogatepass"))
    return f'"{made}"'


def _cpp_escape(byte: int) -> str:
    if byte in b'"\\?':
        return "\\" + chr(byte)
    return chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03o}"


def write_cpp(node: str, described: Iterable[Description], name: str) -> str:
    namespace, _, own = name.rpartition("::")
    types = Names({*_CPP_WORDS, own, *namespace.split("::")})
    interface = read(node, described, types)
    cpp = _Cpp(interface)
    inside = "\n\n".join(_cpp_struct(one, cpp) for one in cpp.ordered)
    outside = "\n\n".join(
        part for place in (0, 1) for one in cpp.ordered for part in [_cpp_conversion(one, cpp, namespace)[place]]
    )
    head = f"// {cpp_text(written_by(node, 'cpp'))}\n#pragma once\n\n" + "".join(
        f"#include <{one}>\n" for one in ("chrono", "cstdint", "map", "optional", "string", "utility", "vector")
    )
    open_, close = f"namespace {namespace} {{", f"}}  // namespace {namespace}"
    ahead = "\n".join(f"struct {one.name};" for one in cpp.ordered)
    structs = f"{open_}\n\n{ahead}\n\n{inside}\n\n{close}\n\n{outside}\n\n" if inside else ""
    body = _cpp_class(interface, own, cpp, types)
    return f"{head}\n#include <speed/speed.hpp>\n\n{structs}{open_}\n\n{body}\n\n{close}\n"


def _cpp_names(record: RecordType, cpp: _Cpp) -> list[str]:
    names = Names({*_CPP_WORDS, *(one.name for one in cpp.ordered), "map"})
    return [names.take(one.key, "field") for one in record.fields]


def _cpp_struct(record: RecordType, cpp: _Cpp) -> str:
    lines = [f"struct {record.name} {{"]
    for one, own in zip(record.fields, _cpp_names(record, cpp), strict=True):
        lines.append(f"  {cpp.field(one, record.name)} {own}{{}};{_cpp_note(one.type)}")
    return "\n".join([*lines, "", "  operator speed::Value() const;", "};"])


def _cpp_note(type_: Type) -> str:
    """What a text is that has no type of its own."""
    kind = type_.present
    if kind.kind in ("decimal", "uuid"):
        return f"  // {kind.kind}"
    listed = ", ".join(ascii(one) for one in kind.choices[:20])
    return f"  // one of {cpp_text(listed)}" if listed else ""


def _cpp_conversion(record: RecordType, cpp: _Cpp, namespace: str) -> tuple[str, str]:
    """Declared before any is used, since records may hold each other, and then defined."""
    whole = f"{namespace}::{record.name}"
    written, taken = [], []
    for one, own in zip(record.fields, _cpp_names(record, cpp), strict=True):
        key, kind = cpp_quoted(one.key), _qualified(cpp.field(one, record.name), cpp, namespace)
        written.append(f"  {'' if one.is_required else f'if ({own}) '}map.set({key}, {own});")
        given = "" if one.is_required else f"if (value.contains({key})) "
        taken.append(f"  {given}made.{own} = value.at({key}).as<{kind}>();")
    from_ = f"{whole} from(const speed::Value& value)"
    conversion = f"speed::Conversion<{whole}>"
    declared = f"template <>\nstruct {conversion} {{\n  static {from_};\n}};"
    writes = [f"inline {whole}::operator speed::Value() const {{", "  speed::Map map;", *written, "  return map;", "}"]
    reads = [f"inline {whole} {conversion}::from(const speed::Value& value) {{", "  (void)value.members();"]
    return declared, "\n".join([*writes, "", *reads, f"  {whole} made;", *taken, "  return made;", "}"])


def _qualified(kind: str, cpp: _Cpp, namespace: str) -> str:
    for record in cpp.ordered:
        kind = re.sub(rf"(?<![\w:]){record.name}\b", f"{namespace}::{record.name}", kind)
    return kind


def _cpp_class(interface: Interface, own: str, cpp: _Cpp, types: Names) -> str:
    names = Names({*_CPP_WORDS, own, *interface.records})
    methods = [_cpp_method(one, names.take(one.service, "service"), cpp) for one in interface.methods]
    target = f"std::string target = {cpp_quoted(interface.node)}"
    head = f"""// The services of one node; `node` outlives it. Thread-safe. Each method throws what
// `Node::call` does, and ConversionError for a result that is not what was described.
class {own} {{
 public:
  explicit {own}(speed::Node& node, {target}, speed::CallOptions options = {{}})
      : node_(&node), target_(std::move(target)), options_(std::move(options)) {{}}"""
    tail = " private:\n  speed::Node* node_;\n  std::string target_;\n  speed::CallOptions options_;\n};"
    return "\n\n".join([head, *methods, tail])


def _cpp_method(method: Operation, name: str, cpp: _Cpp) -> str:
    names = Names({*_CPP_WORDS, *(one.name for one in cpp.ordered), "arguments", "member", "stream", *_CPP_MEMBERS})
    listed, set_ = [], []
    for one in method.parameters or ():
        own, key, kind = names.take(one.key, "argument"), cpp_quoted(one.key), cpp.field(one)
        by = kind if kind in _CPP_SMALL else f"const {kind}&"
        listed.append(f"{by} {own}" + ("" if one.is_required else " = {}"))
        set_.append(f"    {'' if one.is_required else f'if ({own}) '}arguments.set({key}, {own});")
    if method.others is not None:
        own = names.take("others", "others")
        listed.append(f"const {cpp.type(Type('map', (method.others,)))}& {own} = {{}}")
        each = "member.key, member.value" if method.others == ANY else "member.first, member.second"
        set_.append(f"    for (const auto& member : {own}) arguments.set({each});")
    result = "void" if method.result == NULL else cpp.type(method.result)
    call = f"node_->call(target_, {cpp_quoted(method.service)}, arguments, options_)"
    notes = [f"  // {cpp_text(method.summary or method.service)}"]
    if method.streams:
        notes.append(f"  // {'Each item' if method.gives else 'Its result'}: {result}")
        listed.append("speed::StreamOptions stream = {}")
        set_ += ["    stream.sends = true;"] if method.takes else []
        call, result = f"node_->stream(target_, {cpp_quoted(method.service)}, arguments, stream)", "speed::Stream"
    whole = f"return {call}"
    given = {"void": f"{call};", "speed::Value": f"{whole};", "speed::Stream": f"{whole};"}.get(
        result, f"{whole}.as<{result}>();"
    )
    signature = wrapped(f"  {result} {name}(", listed, ") const {", "      ")
    return "\n".join([*notes, signature, "    speed::Map arguments;", *set_, f"    {given}", "  }"])


# All languages.

WRITERS: dict[str, tuple[Callable[[str, Iterable[Description], str], str], Callable[[str], str]]] = {
    "python": (write_python, lambda own: own),
    "java": (write_java, lambda own: own),
    "cpp": (write_cpp, lambda own: f"{own.lower()}_services::{own}"),
}
CLASS_NAME = re.compile(r"[A-Za-z]\w*((\.|::)[A-Za-z]\w*)*", re.ASCII)
"""Of a class, maybe with a package or namespace before it."""


def stub_of(node: str, described: Iterable[Description], language: str, name: str | None = None) -> str:
    """The text of a client in ``language`` for what ``node`` described, under the name of a class."""
    write, whole = WRITERS[language]
    return write(node, described, name or whole(type_name(node, "Node")))
