"""What fails a test and how it is reported: the calls of the test, the reasons, the wording of messages about stubs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from itertools import count
from typing import Final, Literal, ParamSpec, TypeVar

from codecall.errors import CallKind
from codecall.testing.calls import Call, Calls
from codecall.wording import nearest

__tracebackhide__ = True  # pytest: tracebacks of tests end in the tests

P = ParamSpec("P")

R = TypeVar("R")

FailureKind = Literal["undeclared", "invalid_input", "unused", "answer", "recording", "failed"]
"""What fails a test: a call without a stub; input the schema refuses; a stub used too rarely; a stub that could not
answer; a call that differs from the recording; a script that failed while the test did not look. The first three and
the last can be allowed."""

MAX_LISTED: Final = 10
"""Most names that one line lists."""


@dataclass(frozen=True, slots=True)
class FailureReason:
    """One reason why the test fails."""

    kind: FailureKind
    text: str
    """What happened."""
    advice: str = ""
    """What to do about it, or how to allow it; whole lines."""
    cause: BaseException | None = None
    """What a callable of the test raised, to be raised again."""


class CallHistory:
    """The calls of one test, and what is wrong with them."""

    def __init__(self) -> None:
        self.allowed: set[FailureKind] = set()
        """The kinds of failure that do not fail the test."""
        self._reasons: list[FailureReason] = []
        self._reported = 0
        self._calls: list[Call] = []
        self._clock = count(1)

    @property
    def calls(self) -> Calls:
        """The calls so far."""
        return Calls(tuple(self._calls))

    def begin(self, kind: CallKind, name: str, arguments: dict[str, object]) -> Call:
        """Record that a call starts."""
        call = Call(len(self._calls) + 1, kind, name, arguments, next(self._clock))
        self._calls.append(call)
        return call

    def end(self, call: Call, outcome: str) -> None:
        """Record that a call has ended."""
        call.outcome = outcome
        call.ended = next(self._clock)

    def note(self, kind: FailureKind, text: str, advice: str = "", *, cause: BaseException | None = None) -> None:
        """Record a reason for which the test fails, and what to do about it."""
        self._reasons.append(FailureReason(kind, text, advice, cause))

    def failures(self) -> list[FailureReason]:
        """The reasons so far that are not allowed."""
        return [reason for reason in self._reasons if reason.kind not in self.allowed]

    def new_failures(self) -> list[FailureReason]:
        """The reasons of `failures` that this method has not returned before."""
        first, self._reported = self._reported, len(self._reasons)
        return [reason for reason in self._reasons[first:] if reason.kind not in self.allowed]


def format_reasons(reasons: Sequence[FailureReason]) -> str:
    """Reasons for a person to read; advice that repeats is given once."""
    lines: list[str] = []
    for reason, following in zip(reasons, [*reasons[1:], None], strict=False):
        lines.append(reason.text)
        if reason.advice and (following is None or following.advice != reason.advice):
            lines.append(reason.advice)
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Wording:
    """The wording of messages about stubs of one kind of place. `{kind}`, `{name}` and `{code}` are filled in."""

    stub: str
    """How a stub is written."""
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

_OTHER_NAMES: Final[Mapping[str, str]] = {
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
"""Names of arguments in other libraries, and the argument of a stub that does the same."""


def refuse_unknown(
    function: str, names: Iterable[str], known: Sequence[str], replacements: Mapping[str, str] | None = None
) -> None:
    """Refuse keyword arguments that a function does not take.

    Args:
        function: The name of the function in messages.
        names: The keywords that were given.
        known: The keywords that the function takes.
        replacements: What to write instead of a keyword, if it is not a misspelling of a known one.

    Raises:
        TypeError: a keyword is unknown; the message suggests another.
    """
    for name in names:
        if name not in known:
            near = nearest(name, known)
            replacement = (replacements or {}).get(name) or (near[0] if near else "")
            suggestion = f"; did you mean {replacement}?" if replacement else "."
            raise TypeError(f"{function} has no argument {name!r}{suggestion} It takes {', '.join(known)}")


def suggest_arguments(function: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a method that declares stubs: its error for an unknown argument suggests the right one."""

    def decorate(method: Callable[P, R]) -> Callable[P, R]:
        _, first, *rest = inspect.signature(method).parameters

        @wraps(method)
        def checked(*args: P.args, **named: P.kwargs) -> R:
            if len(args) > 2:
                raise TypeError(f"{function} takes a {first} and keywords: {function}({args[1]!r}, returns=…)")
            refuse_unknown(function, named, [first, *rest], _OTHER_NAMES)
            return method(*args, **named)

        return checked

    return decorate
