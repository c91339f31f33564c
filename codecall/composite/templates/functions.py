"""The functions of templates: Go's, as gotpl has them, and ours, within the budget of a run.

Private name of gotpl 0.1 that this file reads: `_builtin_functions`, since the built-in functions whose results have to
be counted can be had in no other way.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final, cast

import msgspec
from gotpl import GoFormatSpec, TemplateExecutionError
from gotpl.runtime.sync_vm import _builtin_functions  # pyright: ignore[reportPrivateUsage]

from codecall.composite.budgets import MAX_JSON_DEPTH, TemplateBudget
from codecall.jsonio.check import NotJsonError
from codecall.wording import cut

MAX_TEMPLATE_CHARS: Final = 100_000
"""Characters that one template may have, and that it may give."""
MAX_WIDTH: Final = 10_000
"""Largest width and precision in a format."""
_FORMAT_NUMBER: Final = re.compile(r"\d{5,}")
_MARK: Final = re.compile(r"%!.?\([^=)]*")
"""What Go writes in place of a value that does not fit its verb, without the value."""

template_budget: Final[ContextVar[TemplateBudget | None]] = ContextVar("codecall_template_budget", default=None)


def _counted(function: Callable[..., object]) -> Callable[..., object]:
    """`function`, whose texts count against the budget of the run: those it gets, since it may give as many, first."""

    def call(*arguments: object) -> object:
        budget = template_budget.get()
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
        if (budget := template_budget.get()) is not None:
            length = sum(len(cast("str", argument)) for argument in arguments if isinstance(argument, types))
            budget.spend(length // 10)
        return function(*arguments)

    return call


def _from_json(text: str) -> object:
    """The value of a JSON text."""
    try:
        return (template_budget.get() or TemplateBudget()).decode(text)
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
    values = tuple(_NUMBER_TYPES.get(type(value), _same)(value) for value in values)
    result = str(_BUILTINS["printf"](pattern, *values))
    if "%!" in result and (mark := _MARK.search(_with_own_marks(pattern, values))):
        raise TemplateExecutionError(
            f"printf {cut(pattern, 40)!r} does not fit its values, it gives {mark[0]}): %d writes whole numbers, %.2f "
            "any number, %s texts, %v anything"
        )
    return result


def _same(value: object) -> object:
    return value


class _Number:
    """A number of JSON, which has one type of them, as a value of `printf`: of the type of Go's that its verb takes."""

    def __go_format__(self, spec: GoFormatSpec) -> str:
        value = int(self) if isinstance(self, int) else float(cast("float", self))
        if spec.verb in _FRACTION_VERBS and (value := float(value)) != self:
            raise TemplateExecutionError(f"%{spec.verb} cannot write {self} exactly: write it with %d")
        if spec.verb in _WHOLE_VERBS and isinstance(value, float) and value.is_integer():
            value = int(value)
        width = "" if spec.width is None else spec.width
        precision = "" if spec.precision is None else f".{spec.precision}"
        return str(_BUILTINS["printf"](f"%{spec.flags}{width}{precision}{spec.verb}", value))


class _WholeNumber(_Number, int):
    pass


class _Fraction(_Number, float):
    pass


_NUMBER_TYPES: Final[Mapping[type, Callable[[Any], object]]] = {int: _WholeNumber, float: _Fraction}
_FRACTION_VERBS: Final = frozenset("eEfFgG")
_WHOLE_VERBS: Final = frozenset("dcoOU")


def _with_own_marks(pattern: str, values: tuple[object, ...]) -> str:
    """What printf gives with the marks of Go alone: a text of the data may read as one does."""
    return str(_BUILTINS["printf"](pattern.replace("%%", "--"), *map(_without_texts, values)))


def _without_texts(value: object) -> object:
    match value:
        case str():
            return value.replace("%!", "--")
        case list():
            return []
        case Mapping():
            return {}
        case _:
            return value


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_null(value: object) -> bool:
    """Whether a value is null or not there."""
    return not isinstance(value, (bool, int, float, str, list, Mapping))


def _equal(first: object, *others: object) -> object:
    """Go's eq, in which whole numbers and fractions are one type, and null is equal to no other value."""
    return any(_equal_pair(first, other) for other in others) if others else _BUILTINS["eq"](first)


def _equal_pair(first: object, second: object) -> object:
    if _is_number(first) and _is_number(second):
        return first == second
    if _is_null(first) or _is_null(second):
        return _is_null(first) and _is_null(second)
    return _BUILTINS["eq"](first, second)


def _not_equal(first: object, second: object) -> bool:
    return not _equal_pair(first, second)


def _ordered(name: str, compare: Callable[[Any, Any], bool]) -> Callable[[object, object], object]:
    """Go's comparison of such a name, in which whole numbers and fractions are one type."""

    def call(first: object, second: object) -> object:
        if _is_number(first) and _is_number(second):
            return compare(first, second)
        return _BUILTINS[name](first, second)

    return call


_BUILTINS: Final[Mapping[str, Callable[..., object]]] = _builtin_functions("go")

FUNCTIONS: Final[Mapping[str, Callable[..., object]]] = {
    "fromJson": _from_json,
    "eq": _equal,
    "ne": _not_equal,
    **{name: _ordered(name, getattr(operator, name)) for name in ("lt", "le", "gt", "ge")},
    "json": _counted(_to_json),
    "quote": _counted(_quote),
    "printf": _counted(_printf),
    **{name: _counted(_BUILTINS[name]) for name in ("print", "println", "html", "js", "urlquery")},
    **{name: _scanned(_BUILTINS[name], str) for name in ("index", "len")},
    "slice": _scanned(_BUILTINS["slice"], str, list),
}
"""The functions that are added to Go's, and those of Go's that give or go through texts or compare numbers."""
