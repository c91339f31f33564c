"""Keyword arguments that a function of a test does not take: refused, with what was meant."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Final, ParamSpec, TypeVar

__tracebackhide__ = True  # pytest: tracebacks of tests end in the tests

P = ParamSpec("P")
R = TypeVar("R")

_ANSWERS: Final[Mapping[str, str]] = {
    "return_value": "returns",
    "return_values": "side_effect",
    "value": "returns",
    "result": "returns",
    "response": "returns",
    "answer": "returns",
    "error": "raises",
    "exception": "raises",
    "fails": "raises",
    "delay": "delay_ms",
    "count": "times",
    "input": "when",
    "args": "when",
}
"""What other libraries call what a stub takes."""


def refuse_unknown(
    function: str, given: Iterable[str], known: Sequence[str], meant: Mapping[str, str] | None = None
) -> None:
    """Refuse names that `function` does not take.

    Args:
        function: What messages call it.
        given: The names it was given.
        known: Those it takes.
        meant: What to write instead of a name that is not near to any.

    Raises:
        TypeError: the first that is unknown; the message says what was meant.
    """
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            instead = (meant or {}).get(name) or (near[0] if near else "")
            asked = f"; did you mean {instead}?" if instead else "."
            raise TypeError(f"{function} has no argument {name!r}{asked} It takes {', '.join(known)}")


def naming(function: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a method that declares stubs say what was meant by an argument that it does not take."""

    def decorate(method: Callable[P, R]) -> Callable[P, R]:
        _, first, *rest = inspect.signature(method).parameters

        @wraps(method)
        def checked(*args: P.args, **named: P.kwargs) -> R:
            if len(args) > 2:
                raise TypeError(f"{function} takes a {first} and keywords: {function}({args[1]!r}, returns=…)")
            refuse_unknown(function, named, [first, *rest], _ANSWERS)
            return method(*args, **named)

        return checked

    return decorate
