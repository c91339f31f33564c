"""`codecall check`: what is wrong with scripts, without running them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, cast

from cyclopts import Parameter

from codecall.cli import exit_codes as exits
from codecall.cli.arguments import DEFAULT_SERVERS, AsJson, PresetName, ServerArguments
from codecall.errors import CodeCallError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from codecall.cli.output import Output, ProgressLine
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeAlias

from codecall.sandbox.enclave import Enclave

# ----------------------------------------------------------------------------------------------------
# `codecall check`: what is wrong with scripts, without running them.

JsonObject = dict[str, Any]

SUFFIXES: Final = frozenset({".js", ".mjs", ".ts"})
"""What in a folder is a script."""

TESTS: Final = ".script.js"
"""Files of several scripts with what they should give: pytest runs those."""

STDIN: Final = "-"


class ScriptSource(NamedTuple):
    """One script to look at."""

    name: str
    text: str | None
    """None of a file that cannot be read."""
    failure: str = ""
    """Why it cannot."""


async def check(
    scripts: Annotated[
        tuple[str, ...], Parameter(help="Files, folders, globs; - is standard input.", allow_leading_hyphen=True)
    ],
    /,
    *,
    preset: PresetName = None,
    chosen: ServerArguments = DEFAULT_SERVERS,
    as_json: AsJson = False,
) -> int:
    """Say what is wrong with scripts, without running them.

    Where servers are named, calls are checked against their tools as well: whether there is such a tool, and whether
    it would take the input as far as that is written in the script.
    """
    from codecall.cli.output import Output

    output = Output(as_json=as_json)
    found, left_out = find_scripts(scripts)
    checked: list[JsonObject] = []
    with output.progress("checking") as working:
        async for script, verdict in _verdicts(found, preset, chosen, working):
            checked.append({"path": script.name, **verdict})
            if not as_json:
                with working.paused():
                    _show(output, script, verdict)
    bad = [item for item in checked if not item["valid"]]
    if as_json:
        output.document({"valid": not bad, "files": checked, "leftOut": left_out})
    else:
        _sum_up(output, checked, left_out)
    return exits.FAILED if bad else exits.OK


def find_scripts(words: Sequence[str]) -> tuple[list[ScriptSource], list[str]]:
    """The scripts that files, folders and globs stand for, each once; and files in folders that are left out.

    Raises:
        CodeCallError: a word stands for nothing.
    """
    names: dict[str, None] = {}
    left_out: list[str] = []
    for word in words:
        refuse_option(word)
        path = Path(word)
        if word == STDIN or path.is_file():
            names[word] = None
        elif path.is_dir():
            inside = [file for file in _walk(path) if file.suffix in SUFFIXES]
            left_out += [str(file) for file in inside if file.name.endswith(TESTS)]
            names.update(dict.fromkeys(str(file) for file in inside if not file.name.endswith(TESTS)))
        else:
            matching = sorted(str(file) for file in _glob(word) if file.is_file())
            if not matching:
                raise CodeCallError(
                    f"There is no file, folder or match of {word!r}",
                    code="CANNOT_READ",
                    hint="Name files, folders, or globs such as 'scripts/**/*.js'; - reads standard input.",
                )
            names.update(dict.fromkeys(matching))
    if not names:
        raise CodeCallError(
            f"There is no script in {', '.join(words)}",
            code="CANNOT_READ",
            hint=f"In folders, files that end in {', '.join(sorted(SUFFIXES))} are looked for; not in hidden ones, and "
            f"not {TESTS}, which pytest runs.",
        )
    return [read_script(name) for name in names], left_out


def refuse_option(word: str) -> None:
    """Nothing that begins like an option is taken for a file.

    Raises:
        CodeCallError: it does.
    """
    if word.startswith("-") and word != STDIN:
        hint = f"--help shows what there is; a file of that name is ./{word}"
        raise CodeCallError(f"Unknown option: {word}", code="USAGE", hint=hint)


def read_script(name: str) -> ScriptSource:
    """The script in that file, or from standard input."""
    try:
        data = sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
        return ScriptSource("<stdin>" if name == STDIN else name, data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return ScriptSource(name, None, "It is not text in UTF-8")
    except OSError as failure:
        return ScriptSource(name, None, f"Cannot read it: {failure.strerror}")


def _walk(folder: Path) -> Iterable[Path]:
    """Files below a folder in order; nothing hidden, and no installed packages."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name == "node_modules":
            continue
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path)
        elif path.is_file():
            yield path


def _glob(word: str) -> Iterable[Path]:
    path = Path(word)
    try:
        return Path(path.anchor).glob(str(path.relative_to(path.anchor)))
    except (ValueError, NotImplementedError):
        return ()


async def _verdicts(
    scripts: Sequence[ScriptSource], preset: str | None, chosen: ServerArguments, working: ProgressLine
) -> AsyncGenerator[tuple[ScriptSource, JsonObject]]:
    """Each script with `{valid, findings, manifest}`."""
    pass

    async with checker(preset, chosen) as look:
        for number, script in enumerate(scripts):
            working.update(number, len(scripts), script.name)
            if script.text is None:
                yield script, _failed({"code": "CANNOT_READ", "message": script.failure})
                continue
            envelope = await look(script.text)
            error = cast("JsonObject | None", envelope.get("error"))
            yield script, _failed(error) if error is not None else cast("JsonObject", envelope["result"])


def _failed(error: Mapping[str, object]) -> JsonObject:
    """The verdict on a script that could not even be looked at."""
    return {"valid": False, "findings": [dict(error)]}


def _show(output: Output, script: ScriptSource, verdict: JsonObject) -> None:
    from codecall.cli.render import render_finding

    for found in verdict["findings"]:
        output.out.print(render_finding(script.name, script.text or "", found), soft_wrap=True)


def _sum_up(output: Output, checked: Sequence[JsonObject], left_out: Sequence[str]) -> None:
    from codecall.cli.output import count_of

    findings = sum(len(item["findings"]) for item in checked)
    bad = sum(not item["valid"] for item in checked)
    scripts = count_of(len(checked), "script")
    if left_out:
        output.note(f"{len(left_out)} files of tests (*{TESTS}) left out: pytest runs those")
    if bad:
        output.note(f"{scripts} checked, {bad} with {count_of(findings, 'finding')}", "bold red")
    elif output.err.is_terminal:
        output.note(f"{scripts} checked, nothing found", "green")


# ----------------------------------------------------------------------------------------------------
# Looking at scripts without running them: alone, or against the tools of servers.

Look: TypeAlias = Callable[[str], Awaitable[JsonObject]]
"""Gives the envelope of a dry run of a script."""


def checker(preset: str | None, chosen: ServerArguments) -> AbstractAsyncContextManager[Look]:
    """What looks at scripts: against the tools of `chosen` where servers are named, else at the language alone."""
    return _among(preset, chosen) if chosen.any_named else _alone(preset)


@asynccontextmanager
async def _alone(preset: str | None) -> AsyncGenerator[Look]:
    async with Enclave(preset, pool={"min_workers": 0, "max_workers": 1}) as enclave:

        async def look(script: str) -> JsonObject:
            # With tools of which no names are known: whatever is called could be there.
            result = await enclave.execute(script, tool_handler=_never, dry_run=True)
            return result.envelope()

        yield look


def _never(name: str, _: JsonObject) -> object:
    raise AssertionError(f"a dry run called {name}")


@asynccontextmanager
async def _among(preset: str | None, chosen: ServerArguments) -> AsyncGenerator[Look]:
    from codecall.cli.gateway import open_gateway, with_preset

    async with open_gateway(with_preset(chosen.configuration().options, preset)) as gateway:

        async def look(script: str) -> JsonObject:
            return await gateway.call("execute", {"script": script, "dryRun": True})

        yield look
