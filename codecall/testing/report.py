"""What happened in one test: the calls its scripts made, and what went wrong with them."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from itertools import count
from typing import Final, Literal, ParamSpec, TypeVar

from codecall.errors import CallKind
from codecall.testing.calls import Call, Calls

# ----------------------------------------------------------------------------------------------------
# What happened in one test: the calls its scripts made, and what went wrong with them.

FailureKind = Literal["undeclared", "invalid_input", "unused", "answer", "recording", "failed"]
"""What fails a test: a call without a stub; input the schema refuses; a stub used too rarely; a stub that could not
answer; a call that is not as recorded; a script that failed while nobody looked. The first three and the last can be
allowed."""

_MAX_LISTED: Final = 10
"""Names that one line lists."""


@dataclass(frozen=True, slots=True)
class FailureReason:
    """One thing that fails the test."""

    kind: FailureKind
    text: str
    """What happened."""
    advice: str = ""
    """What to do about it, or how to allow it; whole lines."""
    cause: BaseException | None = None
    """What a callable of the test raised, to be raised again."""


class CallHistory:
    """The calls of one test, and its problems."""

    def __init__(self) -> None:
        self.allowed: set[FailureKind] = set()
        """What does not fail the test."""
        self._problems: list[FailureReason] = []
        self._told = 0
        self._calls: list[Call] = []
        self._moments = count(1)

    @property
    def calls(self) -> Calls:
        """Every call so far."""
        return Calls(tuple(self._calls))

    def begin(self, kind: CallKind, name: str, given: dict[str, object]) -> Call:
        """A script calls."""
        call = Call(len(self._calls) + 1, kind, name, given, next(self._moments))
        self._calls.append(call)
        return call

    def end(self, call: Call, outcome: str) -> None:
        """It has its answer."""
        call.outcome = outcome
        call.ended = next(self._moments)

    def note(self, kind: FailureKind, text: str, advice: str = "", *, cause: BaseException | None = None) -> None:
        """Something went wrong: what, and what to do about it."""
        self._problems.append(FailureReason(kind, text, advice, cause))

    def failures(self) -> list[FailureReason]:
        """What fails the test so far."""
        return [problem for problem in self._problems if problem.kind not in self.allowed]

    def new_failures(self) -> list[FailureReason]:
        """Those of `failures` that were not asked for before."""
        told, self._told = self._told, len(self._problems)
        return [problem for problem in self._problems[told:] if problem.kind not in self.allowed]


def format_reasons(problems: Sequence[FailureReason]) -> str:
    """Problems for a person to read; the same advice is given once."""
    lines: list[str] = []
    for problem, following in zip(problems, [*problems[1:], None], strict=False):
        lines.append(problem.text)
        if problem.advice and (following is None or following.advice != problem.advice):
            lines.append(problem.advice)
    return "\n".join(lines)


def join_names(names: Sequence[str]) -> str:
    """Names in one line; it says how many more there are."""
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return f"{', '.join(names[:_MAX_LISTED])}{more}"


# ----------------------------------------------------------------------------------------------------
# What failing tests say about stubs: how to declare what is missing, and how to allow what is wrong.


@dataclass(frozen=True, slots=True)
class Wording:
    """The words for one kind of place. `{kind}`, `{name}` and `{code}` are filled in."""

    stub: str
    """A stub, as it is written."""
    declare: str
    """How to declare what a script called."""
    more: str
    """How to declare that a stub answers more calls than it does; `{times}` is how many there were."""
    undeclared: str
    """How to allow calls without a stub."""
    invalid_input: str
    """How to allow input that a schema refuses."""
    unused: str
    """How to allow that a stub is not used."""
    several: str
    """How to tell several stubs of one name apart."""


IN_TESTS: Final = Wording(
    stub='{kind}_stub("{name}"',
    declare='{kind}_stub("{name}", returns=…)',
    more="times={times}, or another answer in side_effect",
    undeclared="tool_stub.allow_undeclared(), or @pytest.mark.codecall(allow_undeclared=True); scripts then get {code}",
    invalid_input="tool_stub.allow_invalid_input(), or @pytest.mark.codecall(allow_invalid_input=True); scripts then "
    "get INVALID_INPUT",
    unused="optional=True for this stub; for all of them tool_stub.allow_unused(), or "
    "@pytest.mark.codecall(allow_unused=True)",
    several="when=… or times=… tells stubs of one name apart; side_effect=[…] gives several answers in turn",
)
"""Stubs declared in Python."""

IN_FILES: Final = Wording(
    stub="//@ {kind}: {name}",
    declare="//@ {kind}: {name} VALUE",
    more="another line `//@ {kind}: {name} VALUE`",
    undeclared="state the outcome `//~ {code}`",
    invalid_input="state the outcome `//~ INVALID_INPUT`",
    unused="`//@ {kind}?:` instead of `//@ {kind}:`",
    several="`//@ {kind}: {name} INPUT -> VALUE` tells stubs of one name apart",
)
"""Stubs declared in the comments of a script file."""


# ----------------------------------------------------------------------------------------------------
# Keyword arguments that a function of a test does not take: refused, with what was meant.

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


def suggest_arguments(function: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
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
