"""`codecall check`: what is wrong with scripts, without running them; and with definitions of composite tools."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, TypeAlias, cast

from cyclopts import Parameter

from codecall.cli import exit_codes as exits
from codecall.cli.arguments import DEFAULT_SERVERS, AsJson, LanguageName, PresetName, ServerArguments
from codecall.errors import CodeCallError

if TYPE_CHECKING:
    from codecall.cli.output import Output, ProgressLine
    from codecall.gateway.config.options import GatewayOptions
    from codecall.sandbox.languages import Language

JsonObject = dict[str, Any]

DryRun: TypeAlias = Callable[["ScriptSource"], Awaitable[JsonObject]]
"""Runs a script dry and gives the envelope."""

DEFINITION_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json", ".toml"})
"""Suffixes of the files that hold definitions of composite tools."""

_DEFINITION: Final = re.compile(r"""[cC]ompositeTool|^[\s{-]*["']?steps["']?\s*:""", re.MULTILINE)
"""What a file of definitions has and other data has not: their kind, or the steps of one."""

TESTS_SUFFIX: Final = ".script.js"
"""Suffix of files that hold several scripts with their expected outcomes; pytest runs those."""

STDIN: Final = "-"

_UNLISTED: Final = "No names of tools are known here: --config names a file with servers."
"""What hints add that are about unknown names, where there are no servers."""


class ScriptSource(NamedTuple):
    """One script to check."""

    name: str
    text: str | None
    """None if the file cannot be read."""
    failure: str = ""
    """Why the file cannot be read."""
    language: Language = "javascript"
    """What it is written in."""


async def check(
    scripts: Annotated[
        tuple[str, ...], Parameter(help="Files, folders, globs; - is standard input.", allow_leading_hyphen=True)
    ],
    /,
    *,
    context: Annotated[
        str | None, Parameter(help="What they will have as variables in Starlark: a JSON object, or @file.")
    ] = None,
    language: LanguageName = None,
    preset: PresetName = None,
    server_args: ServerArguments = DEFAULT_SERVERS,
    as_json: AsJson = False,
) -> int:
    """Say what is wrong with scripts, or with definitions of composite tools, without running them.

    Where servers are named or configured, calls are checked against their tools as well: whether there is such a tool,
    and whether it would take the input as far as that is written in the script.
    """
    import anyio.to_thread

    from codecall.cli.arguments import configured_servers
    from codecall.cli.output import Output

    output = Output(as_json=as_json)
    if all(Path(name).suffix in DEFINITION_SUFFIXES for name in scripts):
        from codecall.cli.commands.definitions import check_definitions

        return await check_definitions(scripts, server_args, output)
    # In a thread, so that Ctrl-C ends it: somebody may be typing a script.
    sources, skipped_tests, definitions = await anyio.to_thread.run_sync(
        find_scripts, scripts, language, abandon_on_cancel=True
    )
    verdicts: list[JsonObject] = []
    variables = parse_context(context) if context else None
    options = configured_servers(server_args, output)
    with output.progress("checking") as progress:
        async for script, verdict in _check_all(sources, variables, preset, options, progress):
            verdicts.append({"path": script.name, **verdict})
            if not as_json:
                with progress.paused():
                    _print_findings(output, script, verdict)
    valid = all(verdict["valid"] for verdict in verdicts)
    if not as_json and verdicts:
        _print_summary(output, verdicts, skipped_tests)
    body: JsonObject = {"files": verdicts, "leftOut": skipped_tests}
    if definitions:
        from codecall.cli.commands.definitions import definitions_verdict
        from codecall.cli.gateway import with_preset
        from codecall.gateway.config.options import GatewayOptions

        limited = with_preset(options or GatewayOptions(), preset)
        body["definitions"] = await definitions_verdict(definitions, limited, output)
        valid = valid and body["definitions"]["valid"]
    if as_json:
        output.document({"valid": valid, **body})
    return exits.OK if valid else exits.FAILED


class FoundFiles(NamedTuple):
    """What there is to check."""

    scripts: list[ScriptSource]
    tests: list[str]
    """Files of tests that are left out."""
    definitions: list[str]
    """Files of composite tools, those of scripts among them."""


def find_scripts(patterns: Sequence[str], language: Language | None = None) -> FoundFiles:
    """Find what files, folders and globs stand for, each once.

    Raises:
        CodeCallError: a pattern matches nothing, or there is no script.
    """
    from codecall.sandbox.languages import SCRIPT_LANGUAGES

    names: dict[str, None] = {}
    skipped_tests: list[str] = []
    for pattern in patterns:
        refuse_option(pattern)
        path = Path(pattern)
        if pattern == STDIN or path.is_file():
            names[pattern] = None
        elif path.is_dir():
            files = [file for file in _walk(path) if file.suffix.lower() in SCRIPT_LANGUAGES]
            skipped_tests += [str(file) for file in files if file.name.endswith(TESTS_SUFFIX)]
            names.update(dict.fromkeys(str(file) for file in files if not file.name.endswith(TESTS_SUFFIX)))
            names.update(dict.fromkeys(str(file) for file in _walk(path) if _holds_definitions(file)))
        else:
            matching = sorted(str(file) for file in _glob(pattern) if file.is_file())
            if not matching:
                raise CodeCallError(
                    f"There is no file, folder or match of {pattern!r}",
                    code="CANNOT_READ",
                    hint="Name files, folders, or globs such as 'scripts/**/*.js'; - reads standard input.",
                )
            names.update(dict.fromkeys(matching))
    if not names:
        raise CodeCallError(
            f"There is no script in {', '.join(patterns)}",
            code="CANNOT_READ",
            hint=f"In folders, files that end in {', '.join(sorted(SCRIPT_LANGUAGES))} are looked for, and "
            f"definitions of composite tools; not in hidden ones, and not {TESTS_SUFFIX}, which pytest runs.",
        )
    definitions = [name for name in names if Path(name).suffix in DEFINITION_SUFFIXES]
    scripts = [read_script(name, language) for name in names if name not in definitions]
    tools = [script.name for script in scripts if _is_tool(script)]
    return FoundFiles([script for script in scripts if script.name not in tools], skipped_tests, [*definitions, *tools])


def _is_tool(script: ScriptSource) -> bool:
    """Whether a script is a composite tool, by the header that it begins with."""
    from codecall.composite.scripts.header import has_header
    from codecall.sandbox.languages import SCRIPT_LANGUAGES

    known = SCRIPT_LANGUAGES.get(Path(script.name).suffix.lower()) == script.language
    return known and script.text is not None and has_header(script.text, script.language)


def _holds_definitions(file: Path) -> bool:
    """Whether a file of a folder looks like definitions of composite tools: other data has the same suffixes."""
    if file.suffix not in DEFINITION_SUFFIXES:
        return False
    try:
        return _DEFINITION.search(file.read_text(encoding="utf-8-sig")) is not None
    except (OSError, UnicodeDecodeError):
        return False


def parse_context(argument: str) -> JsonObject:
    """Read the object that `--context` gives: JSON text, or `@` and the path of a JSON file.

    Raises:
        CodeCallError: the file cannot be read, the text is not JSON, or the JSON is no object.
    """
    path = argument[1:] if argument.startswith("@") else ""
    place = f" of {path}" if path else ""
    try:
        text = Path(path).read_text(encoding="utf-8-sig") if argument.startswith("@") else argument
        value: object = json.loads(text)
    except OSError as failure:
        raise CodeCallError(f"--context: cannot read {path}: {failure.strerror}", code="CANNOT_READ") from None
    except (ValueError, RecursionError) as failure:
        raise CodeCallError(
            f"--context: the text{place} is not JSON: {failure}",
            code="USAGE",
            hint="""Write an object, such as --context '{"user": "ann"}', or --context @file.json.""",
        ) from None
    if not isinstance(value, dict):
        raise CodeCallError(f"--context: the JSON{place} must be an object", code="USAGE")
    return cast("JsonObject", value)


def refuse_option(argument: str) -> None:
    """Refuse an argument that begins like an option, so that it is not taken for a file.

    Raises:
        CodeCallError: it begins like an option.
    """
    if argument.startswith("-") and argument != STDIN:
        hint = f"--help shows what there is; a file of that name is ./{argument}"
        raise CodeCallError(f"Unknown option: {argument}", code="USAGE", hint=hint)


def read_script(name: str, language: Language | None = None) -> ScriptSource:
    """Read the script in a file, or from standard input if the name is `-`."""
    from codecall.sandbox.languages import language_of

    language = language or language_of(name)
    try:
        data = sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
        return ScriptSource("<stdin>" if name == STDIN else name, data.decode("utf-8-sig"), language=language)
    except UnicodeDecodeError:
        return ScriptSource(name, None, "It is not text in UTF-8")
    except OSError as failure:
        return ScriptSource(name, None, f"Cannot read it: {failure.strerror}")


def _walk(folder: Path) -> Iterable[Path]:
    """List the files below a folder in order, without hidden files and installed packages."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name == "node_modules":
            continue
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path)
        elif path.is_file():
            yield path


def _glob(pattern: str) -> Iterable[Path]:
    path = Path(pattern)
    try:
        return Path(path.anchor).glob(str(path.relative_to(path.anchor)))
    except (ValueError, NotImplementedError):
        return ()


async def _check_all(
    scripts: Sequence[ScriptSource],
    context: JsonObject | None,
    preset: str | None,
    options: GatewayOptions | None,
    progress: ProgressLine,
) -> AsyncGenerator[tuple[ScriptSource, JsonObject]]:
    """Check each script: yields it with its verdict, `{valid, findings, manifest}`."""
    if not scripts:
        return
    starlark = any(script.language == "starlark" for script in scripts)
    async with _checker(preset, options, scripts, context, starlark=starlark) as dry_run:
        for number, script in enumerate(scripts):
            progress.update(number, len(scripts), script.name)
            if script.text is None:
                yield script, _invalid({"code": "CANNOT_READ", "message": script.failure})
                continue
            envelope = await dry_run(script)
            error = cast("JsonObject | None", envelope.get("error"))
            verdict = _invalid(error) if error is not None else cast("JsonObject", envelope["result"])
            told = envelope.get("warnings")
            yield script, {**verdict, "warnings": told} if told else verdict


def _invalid(error: Mapping[str, object]) -> JsonObject:
    """The verdict on a script that could not be checked."""
    return {"valid": False, "findings": [dict(error)]}


def _checker(
    preset: str | None,
    options: GatewayOptions | None,
    scripts: Sequence[ScriptSource],
    context: JsonObject | None,
    *,
    starlark: bool,
) -> AbstractAsyncContextManager[DryRun]:
    """Give what runs scripts dry: against the tools of servers if there are any, else against the language alone."""
    if options is None:
        return _check_language(preset, context, starlark=starlark)
    return _check_with_servers(preset, options, scripts, context, starlark=starlark)


@asynccontextmanager
async def _check_language(preset: str | None, context: JsonObject | None, *, starlark: bool) -> AsyncGenerator[DryRun]:
    from codecall.sandbox.enclave import Enclave

    async with Enclave(preset, pool={"min_workers": 0, "max_workers": 1}, starlark=starlark) as enclave:

        async def dry_run(script: ScriptSource) -> JsonObject:
            result = await enclave.check(
                script.text or "", context=context, language=script.language, unlisted=_UNLISTED
            )
            return result.envelope()

        yield dry_run


@asynccontextmanager
async def _check_with_servers(
    preset: str | None,
    options: GatewayOptions,
    scripts: Sequence[ScriptSource],
    context: JsonObject | None,
    *,
    starlark: bool,
) -> AsyncGenerator[DryRun]:
    from codecall.cli.gateway import open_gateway, with_preset, with_starlark
    from codecall.cli.literals import needed_servers

    options = with_starlark(options) if starlark else options
    needed = needed_servers([(script.text or "", script.language) for script in scripts], options)
    async with open_gateway(with_preset(options, preset), needed=needed) as gateway:

        async def dry_run(script: ScriptSource) -> JsonObject:
            language = {"language": "starlark"} if script.language == "starlark" else {}
            given = {} if context is None else {"context": context}
            return await gateway.call("execute", {"script": script.text, "dryRun": True, **language, **given})

        yield dry_run


def _print_findings(output: Output, script: ScriptSource, verdict: JsonObject) -> None:
    from codecall.cli.render import render_finding

    for finding in verdict["findings"]:
        output.show(render_finding(script.name, script.text or "", finding))
    for warning in verdict.get("warnings", ()):
        output.warn(f"{script.name}: {warning}")


def _print_summary(output: Output, verdicts: Sequence[JsonObject], skipped_tests: Sequence[str]) -> None:
    from codecall.cli.output import count_of

    findings = sum(len(verdict["findings"]) for verdict in verdicts)
    invalid = sum(not verdict["valid"] for verdict in verdicts)
    scripts = count_of(len(verdicts), "script")
    if skipped_tests:
        output.note(f"{len(skipped_tests)} files of tests (*{TESTS_SUFFIX}) left out: pytest runs those")
    if invalid:
        output.note(f"{scripts} checked, {invalid} with {count_of(findings, 'finding')}", "bold red")
    elif output.err.is_terminal:
        output.note(f"{scripts} checked, nothing found", "green")
