"""Usage examples of a tool: its author's own, and scripts made from its schemas and its intent.

Made scripts use neither console, clock, regular expressions nor `while`, so they are valid under every preset, and they
name only fields that the output schema names: where the shape of the answer is unknown they do not guess.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import chain

from codecall.catalog.entries import CatalogEntry, Example
from codecall.catalog.examples.hints import (
    Intent,
    filter_expression,
    find_list,
    find_paging,
    input_schema,
    intent_of,
    max_page_size,
    output_schema,
    page_size_parameter,
    query_parameter,
    summary_fields,
    varying_parameter,
)
from codecall.catalog.examples.samples import Sampler
from codecall.catalog.javascript import literal, member_access, object_literal, property_list, string_literal
from codecall.schema.model import SchemaNode

MAX_GENERATED = 4
"""Examples made for one tool at most; usually two or three."""

MAX_CODE = 4_000
"""Characters of a made example. A tool whose required input alone is longer gets none."""

_MAX_PAGES = 10
"""Pages a paging example reads: a bound in the loop, since `while` is not everywhere."""

_LINE = 90
"""Characters up to which an object stands on one line, and to which its lines are filled when it does not."""

_CALL = "Call it and return its answer"
_CHECK = "Call it and handle a failure instead of throwing"
_GENERAL = frozenset({_CALL, _CHECK})

_UNCHECKED = "{ throwOnError: false }"

_VARIABLE = re.compile(r"\{([^{}]+)\}")


def usage_examples(entry: CatalogEntry, *, limit: int = 5) -> list[Example]:
    """Up to `limit` examples of a tool: the author's as they are, then made ones in the places left.

    At most `MAX_GENERATED` are made, no two with the same code, each valid AgentScript under every preset whatever the
    tool's name and schemas hold. Takes about 0.3 ms a tool: do many in a thread.
    """
    found = list(entry.examples[: max(0, limit)])
    if len(found) >= limit:
        return found
    known = {example.code for example in found}
    made: list[Example] = []
    tool = _Tool(entry)
    for example in chain(_MAKERS[tool.intent](tool), _any(tool)):
        if example.code not in known and len(example.code) <= MAX_CODE:
            known.add(example.code)
            made.append(example)
    # What fits every tool only fills up: two are enough where nothing more telling could be made.
    general = [example for example in made if example.description in _GENERAL]
    special = [example for example in made if example.description not in _GENERAL]
    made = [*special, *general[: max(0, 2 - len(special))]]
    return [*found, *made[: min(MAX_GENERATED, limit - len(found))]]


def component_examples(entry: CatalogEntry, *, limit: int = 5) -> list[Example]:
    """Up to `limit` examples of what is no tool: the author's as they are, then a made one if there is a place left."""
    found = list(entry.examples[: max(0, limit)])
    if len(found) < limit:
        found.append(_COMPONENT_MAKERS[entry.kind](entry))
    return found


class _Tool:
    """A tool as the makers see it: what its schemas say, and the arguments of a plain call."""

    def __init__(self, entry: CatalogEntry) -> None:
        self.name = entry.name
        self.intent: Intent = intent_of(entry)
        self.input = input_schema(entry)
        self.output = output_schema(entry)
        self.size = page_size_parameter(self.input)
        self.query = query_parameter(self.input)
        wanted = [*self.input.required]
        wanted += [name for name in (self.query, self.size) if name is not None and name not in wanted]
        if not wanted and self.intent in {"create", "update"}:
            wanted += list(self.input.properties)[:2]
        self.arguments = Sampler().object(self.input, wanted)
        self.list = find_list(self.output)

    def call(self, *, options: str = "", **expressions: str) -> str:
        """`callTool(…)` with the plain arguments, some of them replaced by expressions."""
        return self.call_with(expressions, options)

    def call_with(self, expressions: Mapping[str, str], options: str = "") -> str:
        """The same, for parameters whose names are no Python names."""
        given = {name: literal(value) for name, value in self.arguments.items()} | dict(expressions)
        tail = f", {options}" if options else ""
        return f"callTool({string_literal(self.name)}, {_laid_out(given)}{tail})"


def _laid_out(expressions: Mapping[str, str]) -> str:
    """An object literal, over several filled lines when one would be too long."""
    line = object_literal(expressions)
    if len(line) <= _LINE:
        return line
    lines: list[str] = []
    for pair in property_list(expressions):
        if lines and len(lines[-1]) + len(pair) + 2 <= _LINE:
            lines[-1] += f" {pair},"
        else:
            lines.append(f"  {pair},")
    return "{\n" + "\n".join(lines) + "\n}"


def _script(*lines: str) -> str:
    return "\n".join(lines)


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")


def _plain(tool: _Tool, description: str) -> Example:
    return Example(description, _script(f"const result = await {tool.call()};", "return result;"))


def _checked(tool: _Tool, description: str) -> Example:
    return Example(
        description,
        _script(
            f"const result = await {tool.call(options=_UNCHECKED)};",
            "if (!result.success) return { error: result.error.message };",
            "return result.data;",
        ),
    )


def _any(tool: _Tool) -> Iterator[Example]:
    """What can be made for every tool; fills up where an intent gives less than two."""
    yield _plain(tool, _CALL)
    yield _checked(tool, _CHECK)


def _lists(tool: _Tool) -> Iterator[Example]:
    yield _plain(tool, "List, in one call")
    yield from _pages(tool)
    yield from _digest(tool)


def _searches(tool: _Tool) -> Iterator[Example]:
    yield _plain(tool, "Search, in one call")
    yield from _digest(tool)
    if tool.query is not None:
        yield Example(
            "Run several searches at once",
            _script(
                'const queries = ["first example", "second example"];',
                "return await __safe_parallel(",
                f"  queries.map((query) => () => {_indented(tool.call_with({tool.query: 'query'}))})",
                ");",
            ),
        )
    yield from _pages(tool)


def _pages(tool: _Tool) -> Iterator[Example]:
    """All pages, one after the other, in a bounded loop."""
    plan = find_paging(tool.input, tool.output)
    if plan is None or tool.list is None:
        return
    full = max_page_size(tool.input, tool.size) if tool.size is not None else None
    asked = {} if tool.size is None else {tool.size: str(full)}
    keep = [f"  const items = {tool.list.expression};", "  found.push(...items);"]
    if plan.style == "cursor":
        asked[plan.parameter] = "cursor"
        begin = ["const found = [];", "let cursor;"]
        turn = f"for (let page = 0; page < {_MAX_PAGES}; page++) {{"
        end = [f"  cursor = {plan.next_cursor};", "  if (!cursor) break;"]
    elif plan.style == "offset":
        asked[plan.parameter] = "found.length"
        begin = ["const found = [];"]
        turn = f"for (let page = 0; page < {_MAX_PAGES}; page++) {{"
        end = [f"  if (items.length < {full or 1}) break;"]
    else:
        asked[plan.parameter] = "page"
        begin = ["const found = [];"]
        turn = f"for (let page = {plan.first}; page < {plan.first + _MAX_PAGES}; page++) {{"
        end = [f"  if (items.length < {full or 1}) break;"]
    call = f"  const result = await {_indented(tool.call_with(asked))};"
    yield Example(f"Read up to {_MAX_PAGES} pages", _script(*begin, turn, call, *keep, *end, "}", "return found;"))


def _digest(tool: _Tool) -> Iterator[Example]:
    """The answer cut down to what is needed, before it reaches the model."""
    found = tool.list
    if found is None:
        return
    call = f"const result = await {tool.call()};"
    fields = summary_fields(found.item)
    shown = _laid_out({name: member_access("item", name) for name in fields})
    kept = filter_expression(found.item) if found.item is not None else None
    if found.item is None or not fields:
        yield Example(
            "Return only the number of items and the first three",
            _script(
                call, f"const items = {found.expression};", "return { count: items.length, first: items.slice(0, 3) };"
            ),
        )
        return
    mapped = f".map((item) => ({shown}))"
    if kept is None:
        yield Example(f"Return only {_spoken(fields)}", _script(call, f"return {found.expression}{mapped};"))
    else:
        lines = [f"return {found.expression}", f"  .filter((item) => {kept})", f"  {_indented(mapped)};"]
        yield Example(f"Filter the answer, and return only {_spoken(fields)}", _script(call, *lines))


def _spoken(fields: list[str]) -> str:
    """Field names for a one-line description: printable, bounded."""
    return ", ".join(string_literal(name)[1:-1][:40] for name in fields)


def _gets(tool: _Tool) -> Iterator[Example]:
    yield _plain(tool, "Get one")
    yield _checked(tool, "Get one that may not exist")
    several = varying_parameter(tool.input, tool.arguments)
    if several is None:
        return
    name, values = several
    yield Example(
        "Get several at once",
        _script(
            f"const wanted = [{', '.join(values)}];",
            "return await __safe_parallel(",
            f"  wanted.map((value) => () => {_indented(tool.call_with({name: 'value'}))})",
            ");",
        ),
    )


def _creates(tool: _Tool) -> Iterator[Example]:
    yield _plain(tool, "Create one")
    yield _checked(tool, "Create one, and return the reason if it is refused")
    fields = summary_fields(tool.output)
    if fields and tool.output is not None and tool.output.kind == "object":
        shown = _laid_out({name: member_access("result", name) for name in fields})
        yield Example(
            f"Create one, and return only {_spoken(fields)}",
            _script(f"const result = await {tool.call()};", f"return {shown};"),
        )


def _updates(tool: _Tool) -> Iterator[Example]:
    yield _plain(tool, "Change one")
    yield _checked(tool, "Change one, and return the reason if it is refused")
    yield from _one_after_another(tool, "Change several, and keep what failed")


def _deletes(tool: _Tool) -> Iterator[Example]:
    yield Example(
        "Delete one, and say whether it worked",
        _script(
            f"const result = await {tool.call(options=_UNCHECKED)};",
            "return result.success ? { deleted: true } : { deleted: false, reason: result.error.message };",
        ),
    )
    yield from _one_after_another(tool, "Delete several, and keep what failed")


def _one_after_another(tool: _Tool, description: str) -> Iterator[Example]:
    several = varying_parameter(tool.input, tool.arguments)
    if several is None:
        return
    name, values = several
    yield Example(
        description,
        _script(
            "const failed = [];",
            f"for (const value of [{', '.join(values)}]) {{",
            f"  const result = await {_indented(tool.call_with({name: 'value'}, _UNCHECKED))};",
            "  if (!result.success) failed.push({ value, reason: result.error.message });",
            "}",
            "return { failed };",
        ),
    )


def _others(tool: _Tool) -> Iterator[Example]:
    yield from _any(tool)
    if tool.output is not None and tool.output.kind == "array":
        yield from _digest(tool)


_MAKERS: dict[Intent, Callable[[_Tool], Iterator[Example]]] = {
    "create": _creates,
    "list": _lists,
    "get": _gets,
    "update": _updates,
    "delete": _deletes,
    "search": _searches,
    "other": _others,
}


def _resource(entry: CatalogEntry) -> Example:
    return Example("Read it", f"return await readResource({string_literal(entry.name)});")


def _template(entry: CatalogEntry) -> Example:
    arguments = _sampled(entry)
    uri: list[str] = []
    for place, part in enumerate(_VARIABLE.split(entry.name)):
        if place % 2 == 0:
            uri += [string_literal(part)] if part else []
        elif not part.startswith("?"):  # what stands in the query may be left out
            name = part.removesuffix("*").replace("-", "_")
            arguments.setdefault(name, "example")
            encode = "encodeURI" if part.endswith("*") else "encodeURIComponent"
            uri.append(f"{encode}({member_access('values', name)})")
    lines = (f"const values = {literal(arguments)};", f"return await readResource({' + '.join(uri)});")
    return Example("Spell a URI that fits, and read it", "\n".join(lines))


def _prompt(entry: CatalogEntry) -> Example:
    lines = (
        f"const {{ messages }} = await getPrompt({string_literal(entry.name)}, {literal(_sampled(entry))});",
        "return messages.map((message) => message.content);",
    )
    return Example("Get the texts of its messages", "\n".join(lines))


_COMPONENT_MAKERS = {"resource": _resource, "template": _template, "prompt": _prompt}


def _sampled(entry: CatalogEntry) -> dict[str, object]:
    schema = SchemaNode(entry.input_schema)
    return dict(Sampler().object(schema, schema.required))
