"""Hostile and friendly scripts in one stream, drawn with a fixed seed, and what may become of each."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args

from codecall.envelopes import ExecutionResult
from codecall.errors import CodeCallError, LimitCode
from codecall.testing import read_programs

FOLDER: Final = Path(__file__).parent.parent
HEAVY: Final = tuple(FOLDER / "process" / name for name in ("memory.script.js", "time.script.js", "stuck.programs.js"))
"""Files whose programs use all the memory or time there is."""


@dataclass(frozen=True, slots=True)
class Script:
    """One script of the stream."""

    title: str
    source: str
    value: object = None
    """What a friendly one returns."""
    hostile: bool = False


# Each answers with the number it was given, so that an answer that belongs to another script is noticed. None needs
# more than the strictest preset allows.
_FRIENDLY: Final[tuple[tuple[str, Callable[[int], object]], ...]] = (
    ("return {n}", lambda n: n),
    ("const x = await callTool('echo', {{ n: {n} }}); return [x.n, codecallContext.n]", lambda n: [n, n]),
    (
        "const all = await __safe_parallel([1, 2, 3].map((k) => () => callTool('echo', {{ k, n: {n} }}))); "
        "return all.map((x) => x.k * x.n)",
        lambda n: [n, 2 * n, 3 * n],
    ),
    ("let sum = 0; for (let i = 0; i < 1000; i++) sum += i; return sum + {n}", lambda n: 499500 + n),
    (
        "try {{ await callTool('fail', {{}}) }} catch (error) {{ return `{n} ${{error.code}}` }}",
        lambda n: f"{n} TOOL_EXECUTION_ERROR",
    ),
    (
        "const users = await callTool('users', {{}}); return [users.filter((u) => u.age > 30).length, {n}]",
        lambda n: [2, n],
    ),
    ("return Object.entries(Object.groupBy([1, 2, 3], (x) => x % 2 ? 'odd' : 'even')).length + {n}", lambda n: 2 + n),
    (
        "class A {{ #n = {n}; get n() {{ return this.#n }} }} return JSON.parse(JSON.stringify({{ n: new A().n }})).n",
        lambda n: n,
    ),
)


def friendly(number: int) -> Script:
    """The friendly script of that number; it must end `ok` with its value, whatever runs beside it."""
    text, value = _FRIENDLY[number % len(_FRIENDLY)]
    return Script(f"friendly {number}", text.format(n=number), value(number))


def hostile() -> list[Script]:
    """Every attack program that ends within a blink."""
    files = [file for file in sorted(FOLDER.rglob("*.script.js")) if file not in HEAVY and "honest" not in file.parts]
    return [Script(program.title, program.source, hostile=True) for file in files for program in read_programs(file)]


def bombs() -> list[Script]:
    """The programs that fill the memory, and those that use all their time, counted or stuck in the engine."""
    return [Script(program.title, program.source, hostile=True) for file in HEAVY for program in read_programs(file)]


def stream(count: int, seed: int, *, bombs_in_100: int = 4) -> Iterator[Script]:
    """`count` scripts in mixed order, half of them friendly; the same ones for the same seed."""
    draw = random.Random(seed)
    attacks, heavy = hostile(), bombs()
    for number in range(count):
        chance = draw.random() * 100
        if chance < bombs_in_100:
            yield draw.choice(heavy)
        elif chance < 50:
            yield draw.choice(attacks)
        else:
            yield friendly(number)


def tools(name: str, arguments: dict[str, Any]) -> Any:
    """The tools of the stream."""
    match name:
        case "echo":
            return arguments
        case "users" | "users:list":
            return [{"age": 20}, {"age": 40}, {"age": 60}]
        case "big":
            return "b" * 200_000
        case _:
            raise RuntimeError("it failed")


def _codes() -> frozenset[str]:
    codes: set[str] = set(get_args(LimitCode))
    classes: list[type[CodeCallError]] = [CodeCallError]
    while classes:
        cls = classes.pop()
        codes.add(cls.code)
        classes += cls.__subclasses__()
    return frozenset(codes - {CodeCallError.code})


DOCUMENTED: Final = _codes()
"""Every code that a run may end with."""

UNWANTED: Final = frozenset(
    {"WORKER_CRASHED", "MESSAGE_INVALID", "MESSAGE_FLOOD", "MESSAGE_TOO_LARGE", "QUEUE_TIMEOUT"}
)
"""Codes that no script may bring about, however hostile; but for programs of the corpus that are there to show one."""


def complaint(script: Script, result: ExecutionResult) -> str | None:
    """What is wrong with how `script` ended, in words; None when nothing is."""
    error = result.error
    if not script.hostile:
        good = error is None and result.value == script.value
        return None if good else f"{script.title}: {result.value!r} {error!r}\n{script.source}"
    expected = f"//~ {error.code}" if error is not None else ""
    if error is not None and (
        error.code not in DOCUMENTED or (error.code in UNWANTED and expected not in script.source)
    ):
        return f"{script.title}: {error.code} {error.message}\n{script.source}"
    return None
