"""The text of a template, by gotpl.

A template reads plain data and calls nothing but Go's built-in functions and those of `functions.py`. It may give so
many characters, make so many turns and calls, and all templates of a run share one budget of characters, which what its
functions return counts against, too: a text that a template doubles again and again ends it before it fills the memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any, Final, cast

from gotpl import ExecutionBudget, SandboxPolicy, Template, TemplateSyntaxError
from gotpl import TemplateError as EngineError

from codecall.composite.budgets import LargeObject, TemplateBudget
from codecall.composite.definition import MISSING
from codecall.composite.failures import TemplateError, WorkflowError
from codecall.composite.templates.functions import FUNCTIONS, MAX_TEMPLATE_CHARS, template_budget
from codecall.composite.templates.references import find_field, is_template, references
from codecall.wording import cut

MAX_TURNS: Final = 10_000
"""Turns of all loops of one template, and calls of functions."""
MAX_DEPTH: Final = 100
"""Templates within each other."""
NO_VALUE: Final = "<no value>"
"""What the engine writes for what is not there, and for null. No caller gets to see it, see `render`."""

_FIELD: Final = re.compile(r"\{\{[ \t]*((?:\.[A-Za-z_][A-Za-z0-9_]*)+)[ \t]*\}\}")
_MAX_PLAIN: Final = 2**63
_REPEATS: Final = re.compile(r"\{\{-?\s*(range|template|block)\b")
_LOCATED: Final = re.compile(r'^template: template:\d+:\d+: executing "template": ')


_TOO_LONG: Final = "output character budget exceeded"
_COST_OF_TOO_LONG: Final = 10 * MAX_TEMPLATE_CHARS
"""Characters that a template costs which gives too many: the engine has written a value of megabytes by then."""

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
    token = template_budget.set(budget)
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
        template_budget.reset(token)
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


def _shown(text: str) -> str:
    return repr(cut(text, 120))
