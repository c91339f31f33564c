"""Go's `text/template`, by gotpl; no other module knows that engine.

A template reads plain data and calls nothing but Go's built-in functions and the four below. It may give so many
characters, make so many turns and calls, and all templates of a run share one budget of characters, which what its
functions return counts against, too: a text that a template doubles again and again ends it before it fills the memory.

Private names of gotpl 0.1 that this file reads: `_builtin_functions`, since the built-in functions whose results have
to be counted can be had in no other way; and the parser and the nodes of `gotpl.parse`, which are not documented.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple, cast

import msgspec
from gotpl import ExecutionBudget, SandboxPolicy, Template, TemplateExecutionError, TemplateSyntaxError
from gotpl import TemplateError as EngineError
from gotpl.parse.nodes import (
    ActionNode,
    CommandNode,
    DefinitionNode,
    FieldNode,
    IdentifierNode,
    RangeNode,
    StringNode,
    TextNode,
    VariableNode,
    WithNode,
)
from gotpl.parse.parser import parse_template
from gotpl.runtime.sync_vm import _builtin_functions  # pyright: ignore[reportPrivateUsage]

from codecall.composite.budgets import MAX_JSON_DEPTH, LargeObject, TemplateBudget
from codecall.composite.definition import MISSING
from codecall.composite.failures import TemplateError, WorkflowError
from codecall.jsonio.check import NotJsonError
from codecall.wording import cut

MAX_TEMPLATE_CHARS: Final = 100_000
"""Characters that one template may have, and that it may give."""
MAX_TURNS: Final = 10_000
"""Turns of all loops of one template, and calls of functions."""
MAX_DEPTH: Final = 100
"""Templates within each other."""
MAX_WIDTH: Final = 10_000
"""Largest width and precision in a format."""
NO_VALUE: Final = "<no value>"
"""What the engine writes for what is not there, and for null. No caller gets to see it, see `render`."""

_FIELD: Final = re.compile(r"\{\{[ \t]*((?:\.[A-Za-z_][A-Za-z0-9_]*)+)[ \t]*\}\}")
_MAX_PLAIN: Final = 2**63
_FORMAT_NUMBER: Final = re.compile(r"\d{5,}")
_REPEATS: Final = re.compile(r"\{\{-?\s*(range|template|block)\b")
_LOCATED: Final = re.compile(r'^template: template:\d+:\d+: executing "template": ')


_TOO_LONG: Final = "output character budget exceeded"
_COST_OF_TOO_LONG: Final = 10 * MAX_TEMPLATE_CHARS
"""Characters that a template costs which gives too many: the engine has written a value of megabytes by then."""

_budget: Final[ContextVar[TemplateBudget | None]] = ContextVar("codecall_template_budget", default=None)


def _counted(function: Callable[..., object]) -> Callable[..., object]:
    """`function`, whose texts count against the budget of the run: those it gets, since it may give as many, first."""

    def call(*arguments: object) -> object:
        budget = _budget.get()
        if budget is not None:
            budget.spend(sum(len(argument) for argument in arguments if isinstance(argument, str)))
        result = function(*arguments)
        if budget is not None and isinstance(result, str):
            budget.spend(len(result))
        return result

    return call


def _scanned(function: Callable[..., object], *types: type) -> Callable[..., object]:
    """`function`, which goes through arguments of such types: a tenth of their length counts against the budget of the
    run, since that takes less time than to write them out."""

    def call(*arguments: object) -> object:
        if (budget := _budget.get()) is not None:
            length = sum(len(cast("str", argument)) for argument in arguments if isinstance(argument, types))
            budget.spend(length // 10)
        return function(*arguments)

    return call


def _from_json(text: str) -> object:
    """The value of a JSON text."""
    try:
        return (_budget.get() or TemplateBudget()).decode(text)
    except NotJsonError:
        raise TemplateExecutionError(f"the text is not JSON, or is nested more than {MAX_JSON_DEPTH} deep") from None


def _to_json(value: object) -> str:
    """The JSON of a value; null for none."""
    plain = dict(cast("Mapping[str, object]", value)) if isinstance(value, Mapping) else value
    try:
        return msgspec.json.encode(plain).decode()
    except (TypeError, RecursionError):
        return "null"  # a field that is not there, or Go's nil: the data of templates is JSON


def _quote(value: object) -> str:
    """A value as a text in double quotes, as Go's %q."""
    return str(_BUILTINS["printf"]("%q", value if isinstance(value, str) else _BUILTINS["print"](value)))


def _printf(pattern: str, *values: object) -> object:
    """Go's printf, within `MAX_WIDTH`."""
    numbers = [int(number) for number in _FORMAT_NUMBER.findall(pattern)] if len(pattern) < MAX_TEMPLATE_CHARS else [0]
    if "*" in pattern:
        numbers += [value for value in values if isinstance(value, int)]
    if any(abs(number) > MAX_WIDTH for number in numbers):
        raise TemplateExecutionError(f"a width in a format may be {MAX_WIDTH:,}")
    return _BUILTINS["printf"](pattern, *values)


_BUILTINS: Final[Mapping[str, Callable[..., object]]] = _builtin_functions("go")

FUNCTIONS: Final[Mapping[str, Callable[..., object]]] = {
    "fromJson": _from_json,
    "json": _counted(_to_json),
    "quote": _counted(_quote),
    "printf": _counted(_printf),
    **{name: _counted(_BUILTINS[name]) for name in ("print", "println", "html", "js", "urlquery")},
    **{name: _scanned(_BUILTINS[name], str) for name in ("index", "len")},
    "slice": _scanned(_BUILTINS["slice"], str, list),
}
"""The functions that are added to Go's, and those of Go's that give or go through texts."""

_LIMITS: Final = ExecutionBudget(
    max_output_chars=MAX_TEMPLATE_CHARS,
    max_iterations=MAX_TURNS,
    max_template_depth=MAX_DEPTH,
    max_function_calls=MAX_TURNS,
)
_POLICY: Final = SandboxPolicy.strict(
    allow_functions=FUNCTIONS, max_template_chars=MAX_TEMPLATE_CHARS, default_budget=_LIMITS
)


@lru_cache(maxsize=4_096)
def _compiled(text: str) -> Template:
    return Template(text, functions=FUNCTIONS, sandbox=_POLICY)


def is_template(text: str) -> bool:
    """Whether a text has anything to render."""
    return "{{" in text


def syntax_error(text: str) -> str | None:
    """What is wrong with the syntax of a template; None if nothing is."""
    try:
        _compiled(text)
    except TemplateSyntaxError as failure:
        return str(failure).removeprefix("template:")
    except (EngineError, RecursionError) as failure:
        return str(failure) or "it is nested too deeply"
    return None


def render(text: str, data: Mapping[str, object], budget: TemplateBudget) -> str:
    """The text that a template gives for `data`, which is JSON data.

    Raises:
        TemplateError: it fails, writes what is not there or is null, or takes more than it may.
    """
    if not is_template(text):
        return text
    if (result := _plain(text, data)) is not None:
        budget.spend(len(result))
        return result
    result = _engine_text(text, data, budget)
    # A text of the data may read so, too: it does not where the data has another in its place.
    if NO_VALUE in result and NO_VALUE in _engine_text(text, _marked_apart(data, budget), budget):
        raise TemplateError(
            f"The template {_shown(text)} writes {_named_gaps(text, data)}",
            hint="Give the parameter a `default`, the step `defaultResults`, or write it under a condition, as in "
            "{{with .params.name}}{{.}}{{end}}.",
        )
    return result


def _engine_text(text: str, data: Mapping[str, object], budget: TemplateBudget) -> str:
    token = _budget.set(budget)
    try:
        result = _compiled(text).render(data)
    except WorkflowError:
        raise
    except EngineError as failure:
        cause = failure.__cause__
        if isinstance(cause, WorkflowError):
            raise cause from None
        if _TOO_LONG in str(failure):
            budget.spend(_COST_OF_TOO_LONG)
        message = _LOCATED.sub("", str(failure)).replace("_InvalidValue", "nothing").replace("_UntypedNil", "nil")
        raise TemplateError(f"The template {_shown(text)} failed: {message}") from None
    except RecursionError:
        raise TemplateError(f"The template {_shown(text)} is nested too deeply") from None
    finally:
        _budget.reset(token)
    budget.spend(len(result))
    return result


def _marked_apart(data: Mapping[str, object], budget: TemplateBudget) -> Mapping[str, object]:
    try:
        return _without_marks(dict(data), budget.without_marks)
    except RecursionError:
        raise TemplateError("The data of a template is nested too deeply") from None


def _without_marks(value: Any, outputs: dict[int, tuple[object, object]]) -> Any:
    """JSON data whose texts do not have the mark of what is not there, and are as long. Those of outputs are made once
    in a run, which may have megabytes of them and thousands of templates."""
    if isinstance(value, str):
        return value.replace(NO_VALUE, "-" * len(NO_VALUE))
    if isinstance(value, list):
        return [_without_marks(item, outputs) for item in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    value = cast("dict[str, object]", value)
    if (change := getattr(value, "changed", None)) is None:
        changed = {key: _without_marks(item, outputs) for key, item in value.items()}
        return LargeObject(changed) if isinstance(value, LargeObject) else changed
    if (known := outputs.get(id(value))) is None:
        known = outputs[id(value)] = value, change(partial(_without_marks, outputs=outputs))
    return known[1]


def _named_gaps(text: str, data: Mapping[str, object]) -> str:
    """The fields that a template reads and that have no value, for messages."""
    values = {f".{'.'.join(each.fields)}": find_field(data, each.fields) for each in references(text)}
    gaps = [name for name, value in values.items() if value is None or value is MISSING]
    return f"{' and '.join(gaps) or 'a value'} that {'are' if len(gaps) > 1 else 'is'} not there, or null"


def find_field(data: Mapping[str, object], fields: Iterable[str]) -> object:
    """The value of a field of the data; `MISSING` where it is not there."""
    value: object = data
    for name in fields:
        if not isinstance(value, Mapping) or name not in value:
            return MISSING
        value = value[name]  # pyright: ignore[reportUnknownVariableType]
    return value  # pyright: ignore[reportUnknownVariableType]


@lru_cache(maxsize=4_096)
def only_field(text: str) -> tuple[str, ...] | None:
    """The field that a template is and nothing else, as `{{.params.name}}` or `{{json .params.name}}`."""
    try:
        nodes = parse_template(text, functions=FUNCTIONS).root.nodes
    except (EngineError, RecursionError):
        return None
    actions = [node for node in nodes if not (isinstance(node, TextNode) and not node.text.strip())]
    if len(actions) != 1 or not isinstance(node := actions[0], ActionNode) or node.pipeline.declarations:
        return None
    match node.pipeline.commands:
        case (CommandNode(arguments=(FieldNode(fields=names),)),):
            return names
        case (CommandNode(arguments=(IdentifierNode(name="json"), FieldNode(fields=names))),):
            return names
        case (CommandNode(arguments=(IdentifierNode(name="index"), FieldNode(), *keys)) as command,) if all(
            isinstance(key, StringNode) for key in keys
        ):
            return next(_walk(command, _Scope())).fields
        case _:
            return None


@lru_cache(maxsize=4_096)
def _parts(text: str) -> tuple[str | tuple[str, ...], ...] | None:
    """The texts and the fields of a template that is nothing else; None where it is more."""
    parts: list[str | tuple[str, ...]] = []
    for number, part in enumerate(_FIELD.split(text)):
        if number % 2:
            parts.append(tuple(part[1:].split(".")))
        elif "{{" in part:
            return None
        else:
            parts.append(part)
    return tuple(parts)


def _plain(text: str, data: Mapping[str, object]) -> str | None:
    """What a template gives that only puts texts, whole numbers and truth values of the data into its text, which most
    do: a fraction of the engine's time. None where the engine has to say what it gives."""
    found: list[str] = []
    for part in _parts(text) or (None,):
        if isinstance(part, str):
            found.append(part)
            continue
        value: object = data if part is not None else None
        for name in part or ():
            if not isinstance(value, dict) or name not in value:
                return None
            value = value[name]  # pyright: ignore[reportUnknownVariableType]
        if isinstance(value, bool):
            found.append("true" if value else "false")
        elif isinstance(value, str) or (isinstance(value, int) and abs(value) < _MAX_PLAIN):
            found.append(str(value))
        else:
            return None
    result = "".join(found)
    return result if len(result) <= MAX_TEMPLATE_CHARS else None


@lru_cache(maxsize=4_096)
def may_be_slow(text: str) -> bool:
    """Whether a template repeats something, so that its own length does not say how long it takes."""
    return _REPEATS.search(text) is not None


class Reference(NamedTuple):
    """A field that a template reads."""

    fields: tuple[str, ...]
    """Such as `("steps", "fetch", "output", "data")`."""


@lru_cache(maxsize=4_096)
def references(text: str) -> tuple[Reference, ...]:
    """The fields of the data that a template reads, as far as they are written out; none where it is no template."""
    if not is_template(text):
        return ()
    try:
        parsed = parse_template(text, functions=FUNCTIONS)
    except (EngineError, RecursionError):
        return ()
    return tuple(dict.fromkeys(_walk(parsed, _Scope())))


@dataclass(frozen=True, slots=True)
class _Scope:
    """What the dot stands for at a place of a template."""

    at_root: bool = True


def _walk(node: object, scope: _Scope) -> Iterator[Reference]:
    match node:
        case FieldNode(fields=names) if scope.at_root:
            yield Reference(names)
        case VariableNode(name="$", fields=names):
            yield Reference(names)
        case CommandNode(arguments=(IdentifierNode(name="index"), first, *keys)):
            base = next(iter(_walk(first, scope)), None) if isinstance(first, (FieldNode, VariableNode)) else None
            if base is None:
                yield from _walk_all(node, scope)
                return
            names = list(base.fields)
            for key in keys:
                if not isinstance(key, StringNode):
                    break
                names.append(key.value)
            yield Reference(tuple(names))
            for key in keys:
                yield from _walk(key, scope)
        case WithNode() | RangeNode():
            yield from _walk(node.pipeline, scope)
            yield from _walk(node.body, _Scope(at_root=False))
            yield from _walk(node.else_body, scope)
        case DefinitionNode():
            yield from _walk(node.body, _Scope(at_root=False))
        case _:
            yield from _walk_all(node, scope)


def _walk_all(node: object, scope: _Scope) -> Iterator[Reference]:
    if isinstance(node, tuple):
        for item in cast("tuple[object, ...]", node):
            yield from _walk(item, scope)
    elif is_dataclass(node):
        for each in fields(node):
            value = getattr(node, each.name)
            if isinstance(value, tuple) or is_dataclass(value):
                yield from _walk(cast("object", value), scope)


def _shown(text: str) -> str:
    return repr(cut(text, 120))
