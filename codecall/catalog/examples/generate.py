"""Generates usage examples of tools, resources, templates and prompts, beside those that their authors give.

Generated scripts use neither console, clock, regular expressions nor `while`, so they are valid under every preset, and
they name only fields that the output schema names: where the shape of the answer is unknown they do not guess.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import chain

from codecall.catalog.entries import CatalogEntry, Example
from codecall.catalog.examples.hints import (
    Intent,
    filter_expression,
    find_list,
    find_paging,
    input_schema,
    intent_of,
    output_schema,
    page_size,
    page_size_parameter,
    query_parameter,
    summary_fields,
    varying_parameter,
)
from codecall.catalog.examples.samples import NoTextError, Sampler, text_fits
from codecall.catalog.javascript import literal, member_access, object_literal, property_list, string_literal
from codecall.schema.model import JsonObject, SchemaNode

MAX_GENERATED = 4
"""Examples generated for one tool at most; usually two or three."""

MAX_CODE = 4_000
"""Characters of a generated example. A tool whose required input alone is longer gets none."""

_MAX_PAGES = 50
"""Pages that a paging example reads: the bound of its loop, since not every preset allows `while`. With more the script
fails: what it has read so far would pass for everything."""

_LINE_CHARS = 90
"""Characters of a line: a longer object is written on several lines, which are filled up to it."""

_CALL = "Call it and return its answer"
_CHECK = "Call it and handle a failure instead of throwing"
_GENERAL = frozenset({_CALL, _CHECK})

_NO_THROW = "{ throwOnError: false }"

_VARIABLE = re.compile(r"\{([^{}]+)\}")


def usage_examples(entry: CatalogEntry, observed: JsonObject | None = None, *, limit: int = 5) -> list[Example]:
    """Returns up to `limit` examples of a tool: the author's as they are, then generated ones.

    At most `MAX_GENERATED` are generated, no two with the same code, each valid AgentScript under every preset whatever
    the tool's name and schemas hold. `observed` is the schema inferred from results, where the tool declares none.
    Takes about 0.3 ms a tool: do many in a thread.
    """
    examples = list(entry.examples[: max(0, limit)])
    if len(examples) >= limit:
        return examples
    codes = {example.code for example in examples}
    generated: list[Example] = []
    tool = _ToolHints(entry, observed)
    if not tool.is_callable:
        return examples
    for example in chain(_GENERATORS[tool.intent](tool), _general_examples(tool)):
        if example.code not in codes and len(example.code) <= MAX_CODE:
            codes.add(example.code)
            generated.append(example)
    # Examples that fit every tool only fill up: two are enough where nothing more specific could be generated.
    general = [example for example in generated if example.description in _GENERAL]
    special = [example for example in generated if example.description not in _GENERAL]
    generated = [*special, *general[: max(0, 2 - len(special))]]
    return [*examples, *generated[: min(MAX_GENERATED, limit - len(examples))]]


def component_examples(entry: CatalogEntry, *, limit: int = 5) -> list[Example]:
    """Returns up to `limit` examples of a component that is no tool: the author's as they are, then a generated one."""
    examples = list(entry.examples[: max(0, limit)])
    if len(examples) < limit:
        with suppress(NoTextError):
            examples.append(_COMPONENT_GENERATORS[entry.kind](entry))
    return examples


class _ToolHints:
    """What the generators know of a tool: hints from its schemas, and the arguments of a plain call."""

    def __init__(self, entry: CatalogEntry, observed: JsonObject | None) -> None:
        self.name = entry.name
        self.intent: Intent = intent_of(entry)
        self.input = input_schema(entry)
        self.output = output_schema(entry, observed)
        self.size = page_size_parameter(self.input)
        self.query = query_parameter(self.input)
        wanted = [*self.input.required]
        wanted += [name for name in (self.query, self.size) if name is not None and name not in wanted]
        if not wanted and self.intent in {"create", "update"}:
            wanted += list(self.input.properties)[:2]
        required = Sampler()
        self.arguments = required.object(self.input, wanted[: len(self.input.required)])
        self.is_callable = not required.lacks_texts
        """Whether all values are known that a call needs."""
        self.arguments |= Sampler().object(self.input, wanted[len(self.input.required) :])
        if self.size in self.arguments:
            # By its meaning: of `perPage` and `first` alone the sample would be 1.
            self.arguments[self.size] = Sampler().value("size", self.input.properties[self.size])
        self.list = find_list(self.output)
        self.paging = find_paging(self.input, self.output)
        self.is_paged = self.size is not None or self.paging is not None

    def call(self, *, options: str = "", **expressions: str) -> str:
        """Writes `callTool(…)` with the plain arguments, some of them replaced by expressions."""
        return self.call_with(expressions, options)

    def call_with(self, expressions: Mapping[str, str], options: str = "") -> str:
        """Writes `callTool(…)` like `call`, for parameters whose names are no Python names."""
        arguments = {name: literal(value) for name, value in self.arguments.items()} | dict(expressions)
        tail = f", {options}" if options else ""
        return f"callTool({string_literal(self.name)}, {_multiline_object(arguments)}{tail})"


def _multiline_object(expressions: Mapping[str, str]) -> str:
    """Writes an object literal, on several filled lines when one would be too long."""
    line = object_literal(expressions)
    if len(line) <= _LINE_CHARS:
        return line
    lines: list[str] = []
    for pair in property_list(expressions):
        if lines and len(lines[-1]) + len(pair) + 2 <= _LINE_CHARS:
            lines[-1] += f" {pair},"
        else:
            lines.append(f"  {pair},")
    return "{\n" + "\n".join(lines) + "\n}"


def _script(*lines: str) -> str:
    return "\n".join(lines)


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")


def _plain_call(tool: _ToolHints, description: str) -> Example:
    return Example(description, _script(f"const result = await {tool.call()};", "return result;"))


def _checked_call(tool: _ToolHints, description: str) -> Example:
    return Example(
        description,
        _script(
            f"const result = await {tool.call(options=_NO_THROW)};",
            "if (!result.success) return { error: result.error.message };",
            "return result.data;",
        ),
    )


def _general_examples(tool: _ToolHints) -> Iterator[Example]:
    """Examples that fit every tool; they fill up where an intent gives less than two."""
    yield _plain_call(tool, _CALL)
    yield _checked_call(tool, _CHECK)


def _list_examples(tool: _ToolHints) -> Iterator[Example]:
    yield _plain_call(tool, "List one page" if tool.is_paged else "List, in one call")
    yield from _paging_examples(tool)
    yield from _summary_examples(tool)


def _search_examples(tool: _ToolHints) -> Iterator[Example]:
    yield _plain_call(tool, "Search, one page" if tool.is_paged else "Search, in one call")
    yield from _summary_examples(tool)
    queries = ("first example", "second example")
    if tool.query is not None and all(text_fits(query, tool.input.properties[tool.query]) for query in queries):
        yield Example(
            "Run several searches at once",
            _script(
                f"const queries = {literal(queries)};",
                "return await __safe_parallel(",
                f"  queries.map((query) => () => {_indented(tool.call_with({tool.query: 'query'}))})",
                ");",
            ),
        )
    yield from _paging_examples(tool)


def _paging_examples(tool: _ToolHints) -> Iterator[Example]:
    """An example that reads all pages, one after the other, in a bounded loop.

    It goes on to a page without items: a tool may give fewer than it is asked for before the last one, whatever maximum
    it states.
    """
    plan = tool.paging
    if plan is None or tool.list is None:
        return
    arguments = {} if tool.size is None else {tool.size: str(page_size(tool.input, tool.size))}
    last = "  if (items.length === 0) return found;"
    keep = [f"  const items = {tool.list.expression};", "  found.push(...items);"]
    if plan.style == "cursor":
        arguments[plan.parameter] = "cursor"
        start = ["const found = [];", "let cursor;"]
        loop = f"for (let page = 0; page < {_MAX_PAGES}; page++) {{"
        end = [f"  cursor = {plan.next_cursor};", "  if (!cursor) return found;"]
    elif plan.style == "offset":
        arguments[plan.parameter] = "found.length"
        start = ["const found = [];"]
        loop = f"for (let page = 0; page < {_MAX_PAGES}; page++) {{"
        end = [last]
    else:
        arguments[plan.parameter] = "page"
        start = ["const found = [];"]
        loop = f"for (let page = {plan.first}; page < {plan.first + _MAX_PAGES}; page++) {{"
        end = [last]
    call = f"  const result = await {_indented(tool.call_with(arguments))};"
    more = f'throw new Error("There are more than {_MAX_PAGES} pages");'
    yield Example("Read all pages", _script(*start, loop, call, *keep, *end, "}", more))


def _summary_examples(tool: _ToolHints) -> Iterator[Example]:
    """Examples that reduce the answer to what is needed, before it reaches the model."""
    items = tool.list
    if items is None:
        return
    call = f"const result = await {tool.call()};"
    fields = summary_fields(items.item)
    summary = _multiline_object({name: member_access("item", name) for name in fields})
    condition = filter_expression(items.item) if items.item is not None else None
    if items.item is None or not fields:
        yield Example(
            "Return only the number of items and the first three",
            _script(
                call, f"const items = {items.expression};", "return { count: items.length, first: items.slice(0, 3) };"
            ),
        )
        return
    mapping = f".map((item) => ({summary}))"
    if condition is None:
        yield Example(f"Return only {_field_list(fields)}", _script(call, f"return {items.expression}{mapping};"))
    else:
        lines = [f"return {items.expression}", f"  .filter((item) => {condition})", f"  {_indented(mapping)};"]
        yield Example(f"Filter the answer, and return only {_field_list(fields)}", _script(call, *lines))


def _field_list(fields: list[str]) -> str:
    """Writes field names for a one-line description: printable, bounded."""
    return ", ".join(string_literal(name)[1:-1][:40] for name in fields)


def _get_examples(tool: _ToolHints) -> Iterator[Example]:
    yield _plain_call(tool, "Get one")
    yield _checked_call(tool, "Get one that may not exist")
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


def _create_examples(tool: _ToolHints) -> Iterator[Example]:
    yield _plain_call(tool, "Create one")
    yield _checked_call(tool, "Create one, and return the reason if it is refused")
    fields = summary_fields(tool.output)
    if fields and tool.output is not None and tool.output.kind == "object":
        summary = _multiline_object({name: member_access("result", name) for name in fields})
        yield Example(
            f"Create one, and return only {_field_list(fields)}",
            _script(f"const result = await {tool.call()};", f"return {summary};"),
        )


def _update_examples(tool: _ToolHints) -> Iterator[Example]:
    yield _plain_call(tool, "Change one")
    yield _checked_call(tool, "Change one, and return the reason if it is refused")
    yield from _sequence_examples(tool, "Change several, and keep what failed")


def _delete_examples(tool: _ToolHints) -> Iterator[Example]:
    yield Example(
        "Delete one, and say whether it worked",
        _script(
            f"const result = await {tool.call(options=_NO_THROW)};",
            "return result.success ? { deleted: true } : { deleted: false, reason: result.error.message };",
        ),
    )
    yield from _sequence_examples(tool, "Delete several, and keep what failed")


def _sequence_examples(tool: _ToolHints, description: str) -> Iterator[Example]:
    several = varying_parameter(tool.input, tool.arguments)
    if several is None:
        return
    name, values = several
    yield Example(
        description,
        _script(
            "const failed = [];",
            f"for (const value of [{', '.join(values)}]) {{",
            f"  const result = await {_indented(tool.call_with({name: 'value'}, _NO_THROW))};",
            "  if (!result.success) failed.push({ value, reason: result.error.message });",
            "}",
            "return { failed };",
        ),
    )


def _other_examples(tool: _ToolHints) -> Iterator[Example]:
    yield from _general_examples(tool)
    if tool.output is not None and tool.output.kind == "array":
        yield from _summary_examples(tool)


_GENERATORS: dict[Intent, Callable[[_ToolHints], Iterator[Example]]] = {
    "create": _create_examples,
    "list": _list_examples,
    "get": _get_examples,
    "update": _update_examples,
    "delete": _delete_examples,
    "search": _search_examples,
    "other": _other_examples,
}


def _resource_example(entry: CatalogEntry) -> Example:
    return Example("Read it", f"return await readResource({string_literal(entry.name)});")


def _template_example(entry: CatalogEntry) -> Example:
    arguments = _sample_arguments(entry)
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


def _prompt_example(entry: CatalogEntry) -> Example:
    lines = (
        f"const {{ messages }} = await getPrompt({string_literal(entry.name)}, {literal(_sample_arguments(entry))});",
        "return messages.map((message) => message.content);",
    )
    return Example("Get the texts of its messages", "\n".join(lines))


_COMPONENT_GENERATORS = {"resource": _resource_example, "template": _template_example, "prompt": _prompt_example}


def _sample_arguments(entry: CatalogEntry) -> dict[str, object]:
    schema = SchemaNode(entry.input_schema)
    sampler = Sampler()
    sample = sampler.object(schema, schema.required)
    if sampler.lacks_texts:
        raise NoTextError
    return sample
