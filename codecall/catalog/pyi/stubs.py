"""The texts of virtual `.pyi` files: the functions of one server, of one tool, and the documentation of one tool."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from codecall.catalog.entries import CatalogEntry
from codecall.catalog.examples.samples import Sampler
from codecall.catalog.javascript import string_literal
from codecall.catalog.pyi.types import FileTypes, Parameter, is_name, parameters
from codecall.catalog.typescript.comments import shorten
from codecall.schema.model import SchemaNode, is_uninformative

JsonObject = Mapping[str, object]

SUMMARY_CHARACTERS: Final = 80
"""Characters of the description that stands behind a function; `getToolDocs` has the whole one."""

_RULE: Final = f"# {'=' * 76}"
_NAMES: Final = re.compile(r"\w+")
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"')


@dataclass(frozen=True, slots=True)
class ToolStub:
    """A tool as a function of its server."""

    function: str
    """Its name in code."""
    entry: CatalogEntry
    observed: JsonObject | None = None
    """The schema learned from its results, where it declares none."""

    @property
    def output(self) -> JsonObject | None:
        """What is known of its results."""
        declared = self.entry.output_schema
        return (self.observed or declared) if is_uninformative(declared) else declared

    @property
    def remark(self) -> str:
        """How what is known of its results is known."""
        return "observed, not declared" if is_uninformative(self.entry.output_schema) and self.observed else ""


def server_file(server: str, stubs: Sequence[ToolStub]) -> str:
    """The file of a server: a line for each of its tools."""
    head = [
        f"# {server} server tools",
        f"# Usage: {server}.tool_name(param=value)",
        f'# For detailed docs: use getToolDocs(server="{server}", tool="tool_name")',
    ]
    return _file(head, stubs)


def tool_file(server: str, stub: ToolStub) -> str:
    """The file of one tool."""
    head = [
        f"# {server}.{stub.function} tool",
        f"# Usage: {server}.{stub.function}(param=value)",
        f'# For detailed docs: use getToolDocs(server="{server}", tool="{stub.function}")',
    ]
    return _file(head, [stub])


def _file(head: list[str], stubs: Sequence[ToolStub]) -> str:
    types = FileTypes(len(stubs))
    lines = [_compact(stub, types) for stub in stubs]
    classes = [line for declared in types.classes.values() for line in declared]
    notes = (
        ["# Some types are longer than is shown here: use getToolDocs, and print results."] if types.shortened else []
    )
    return "\n".join([*head, *notes, *classes, *lines])


def _compact(stub: ToolStub, types: FileTypes) -> str:
    known, others = _divided(parameters(stub.entry.input_schema, types, stub.function))
    about = _summary(stub.entry.description or stub.entry.title or "")
    if others:
        listed = ", ".join(f"{string_literal(each.name)}: {each.type}" for each in others)
        about = f"{about} (in **{{…}}: {listed})".lstrip()
    head = f"def {stub.function}({_signature(known, others)}) -> {_result(stub, types)}:"
    return f"{head} # {about}" if about else f"{head} ..."


def tool_docs(server: str, stub: ToolStub) -> str:
    """The documentation of one tool."""
    types = FileTypes()
    known, others = _divided(parameters(stub.entry.input_schema, types, stub.function))
    arguments = list(_arguments([*known, *others], types))
    types.shortened = False
    result = _result(stub, types)
    classes = [line for declared in types.classes.values() for line in declared]
    head = [
        _RULE,
        f"# Documentation for {server}.{stub.function} tool",
        _RULE,
        "#",
        "# USAGE INSTRUCTIONS:",
        f"# Call tools using: result = {server}.tool_name(param=value)",
        "# No async/await needed - calls are synchronous.",
        "#",
        *_handling(result, types),
        _RULE,
    ]
    docstring = [*_description(stub), *arguments, *_returns(stub, result, types)]
    example = [f"result = {server}.{stub.function}({_given(stub, known, others)})"]
    example.append("print(result) # Always inspect response first!")
    if result == "dict":
        example.append('value = result.get("key", default) # Safe access')
    elif result in types.classes:
        example.append(f"value = result.get({string_literal(types.fields[result][0].name)}) # Safe access")
    docstring += ["Example:", *(f"    {_in_docstring(line)}" for line in example)]
    body = [f"    {line}" if line else "" for line in ('"""', *docstring, '"""', "...")]
    return "\n".join([*head, "", *classes, f"def {stub.function}({_signature(known, others)}) -> {result}:", *body])


def _handling(result: str, types: FileTypes) -> list[str]:
    """How a response of this type is read."""
    inspect = "# 1. Use print(result) to inspect the response structure first"
    if result == "dict" or result.startswith("dict[") or result in types.classes:
        return [
            "# CRITICAL - HANDLING RESPONSES:",
            "# Tool responses are dicts. To avoid runtime errors:",
            inspect,
            '# 2. Access dict values with brackets: result["key"] NOT result.key',
            '# 3. Use .get() for safe access: result.get("key", default)',
        ]
    lines = ["# HANDLING RESPONSES:", "# The response is what Returns says. To avoid runtime errors:", inspect]
    names = set(_NAMES.findall(_QUOTED.sub("", result)))
    if names & {"dict", "Any", *types.fields}:
        lines.append('# 2. Access dicts in it with brackets: item["key"] NOT item.key, or item.get("key", default)')
    return lines


def _divided(found: list[Parameter] | None) -> tuple[list[Parameter], list[Parameter]]:
    """The parameters that can be named in code, and those that cannot; a tool that lists none takes any."""
    if found is None:
        return [], [Parameter("*", "Any", required=False)]
    return [each for each in found if is_name(each.name)], [each for each in found if not is_name(each.name)]


def _signature(known: Sequence[Parameter], others: Sequence[Parameter]) -> str:
    defaults = ("" if each.required else f" = {each.default or '...'}" for each in known)
    parts = [f"{each.name}: {each.type}{default}" for each, default in zip(known, defaults, strict=True)]
    return ", ".join([*parts, "**more: Any"] if others else parts)


def _result(stub: ToolStub, types: FileTypes) -> str:
    return "dict" if stub.output is None else types.add(stub.function, stub.output, stub.remark)


def _summary(description: str) -> str:
    """The first sentence of a description, on one line."""
    line = shorten(next(iter(description.strip().splitlines()), ""), 10 * SUMMARY_CHARACTERS)
    sentence, stop, _ = line.partition(". ")
    return shorten(f"{sentence}." if stop else line, SUMMARY_CHARACTERS)


def _description(stub: ToolStub) -> Iterator[str]:
    for line in (stub.entry.description or stub.entry.title or "").strip().splitlines():
        yield _in_docstring(line.rstrip())
    if stub.entry.description or stub.entry.title:
        yield ""


def _arguments(listed: Sequence[Parameter], types: FileTypes) -> Iterator[str]:
    if not listed:
        return
    yield "Args:"
    yield from _fields(listed, types, "parameter", set())
    if types.shortened:
        yield "    Some types are too long to be shown, and read Any."
    yield ""


def _fields(listed: Sequence[Parameter], types: FileTypes, kind: str, told: set[str], depth: int = 1) -> Iterator[str]:
    """A line for each parameter or field, with the fields of its objects below it, each class once."""
    for each in listed:
        name = each.name if is_name(each.name) else string_literal(each.name)
        need = "required" if each.required else "optional"
        about = each.description or f"{name} {kind}"
        yield _in_docstring(f"{'    ' * depth}{name} ({each.type}): {about} ({need})")
        # What stands in quotes is a literal.
        names = [found for found in _NAMES.findall(_QUOTED.sub("", each.type)) if found in types.fields]
        for owner in dict.fromkeys(names):
            if owner in told:
                continue
            told.add(owner)
            if len(set(names)) > 1:
                yield f"{'    ' * (depth + 1)}{owner}:"
            yield from _fields(types.fields[owner], types, "field", told, depth + 1 + (len(set(names)) > 1))


def _returns(stub: ToolStub, result: str, types: FileTypes) -> Iterator[str]:
    yield "Returns:"
    if result == "dict":
        yield "    dict: Response from the tool. Structure varies by tool."
        yield "          Use print(result) to inspect the actual structure."
    else:
        remark = f" ({stub.remark})" if stub.remark else ""
        more = " Some of it is not shown: use print(result)." if types.shortened else ""
        yield f"    {result}: Response from the tool{remark}.{more}"
    yield ""


def _given(stub: ToolStub, known: Sequence[Parameter], others: Sequence[Parameter]) -> str:
    """What an example gives: all that is required."""
    schema = SchemaNode(stub.entry.input_schema)
    names = [each.name for each in (*known, *others) if each.required]
    values = Sampler().object(schema, names)
    texts = {
        name: _literal(values[name]) if name in values and not _is_any_text(schema.properties.get(name)) else '"..."'
        for name in names
    }
    required = [f"{each.name}={texts[each.name]}" for each in known if each.required]
    needed = [f"{string_literal(each.name)}: {texts[each.name]}" for each in others if each.required]
    return ", ".join([*required, f"**{{{', '.join(needed)}}}"] if needed else required)


def _is_any_text(schema: SchemaNode | None) -> bool:
    """Whether any text is taken."""
    return schema is not None and schema.kind == "string" and schema.body.keys() <= {"type", "title", "description"}


def _literal(value: object) -> str:
    """JSON as Python and Starlark write it."""
    match value:
        case str():
            return string_literal(value)
        case Mapping():
            pairs = cast("Mapping[str, object]", value).items()
            return f"{{{', '.join(f'{string_literal(name)}: {_literal(item)}' for name, item in pairs)}}}"
        case list():
            return f"[{', '.join(map(_literal, cast('list[object]', value)))}]"
        case _:
            return repr(value)


def _in_docstring(text: str) -> str:
    """`text` within one line of a docstring, which it cannot end."""
    return _CONTROLS.sub(" ", text).replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
