"""The rules of the house, held by reading the source: who imports whom, what loads where, sizes, docstrings."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.loaded_python import LoadedPython

REPOSITORY = Path(__file__).parent.parent
PACKAGE = REPOSITORY / "codecall"
MODULES = sorted(PACKAGE.rglob("*.py"))

MAX_FILES = 15
"""Files of one folder, `__init__.py` not counted."""
MAX_LINES = 600
SOFT_LINES = 400
"""Above it a file says in `LONG` why it is one."""
LONG: dict[str, str] = {
    "codecall.sandbox.agentscript.diagnosis.causes": "the causes that hints are about, one after the other",
    "codecall.sandbox.enclave": "the enclave and the runs that it has in flight",
    "codecall.resume.replay": "the memory of one run: what it answers, what it writes, and what it refuses to repeat",
    "codecall.calls.blocks": "the blocks of one run: kept, looked up, and put into inputs for tools and for persons",
    "codecall.composite.run": "one run of a workflow: the order of its steps, what each kind does, and how it ends",
    "codecall.gateway.upstream.relay": "all that a server sends besides answers, and whom it may reach",
    "codecall.gateway.gateway": "the whole wiring of the gateway, from its options to the server that clients see",
    "codecall.calls.access": "every rule with its error, and the lookups of names by which scripts reach tools",
    "codecall.client.client": "the client, and the upstream that adapts a client its user brings",
    "codecall.namespaces": "the namespaces of the tools, and the lookup that says what a missing member may have meant",
    "codecall.plugin": "the whole wiring, and every option of `init` with what it means",
    "codecall.options": "every group of options, as a model and as the dictionary that `init` takes",
    "codecall.catalog.search.lexical": "one score: words, n-grams, names and servers read the same postings",
    "codecall.catalog.typescript.from_schema": "one recursive reader, and what single keywords of a schema mean to it",
    "codecall.catalog.typescript.types": "the types, and the printer that matches on each of them",
    "codecall.envelopes": "every envelope, with the JSON Schema of each",
    "codecall.errors": "the whole tree of errors, one class after the other, and the default hint of each code",
    "codecall.jsonio.incremental": "decoder and index share one grammar of nested JSON and the measure of a piece",
    "codecall.sandbox.agentscript.parser.esprima": "the parser, and the shortcuts through it that must read alike",
    "codecall.sandbox.agentscript.validator.names": "scopes, names and namespaces: one check needs them together",
    "codecall.sandbox.agentscript.validator.nodes": "what is done with each type of node, one after the other",
    "codecall.sandbox.starlark.read": "the reader, and the check of names, which walks the same tree",
    "codecall.sandbox.wire": "every message of the protocol with its bounds",
    "codecall.sandbox.host.pool": "the pool, its places for scripts inside of others, and its live workers",
    "codecall.sandbox.host.dispatch": "the calls of one script, from their admission to their answers, and their log",
    "codecall.sandbox.host.references": "the store of values and its two readers, which share the form of a token",
}
DATA = {
    "codecall.sandbox.agentscript.policy": "the allow-list",
    "codecall.redaction.patterns": "the patterns of what is removed from texts",
    "codecall.sandbox.agentscript.diagnosis.hints": "the hints, each with the script that it is for",
    "codecall.sandbox.starlark.policy": "the language table of Starlark",
    "codecall.sandbox.starlark.mistakes": "the hints of Starlark, each with the script that it is for",
}
"""Tables, which may be as long as they need to be."""


class Row(NamedTuple):
    """One row of the table: what a folder (or one of the few modules with a row of its own) may import."""

    inside: str
    """Modules and folders of codecall, without `codecall.`, each with all below it. A folder may import itself."""
    packages: str = ""
    """Third-party packages."""


POLICY = "sandbox.agentscript.policy"
WIRE = "sandbox.wire"
TOOL_FILES = "meta_tools.starlark.options"
STARLARK = "sandbox.starlark.policy sandbox.languages"
LEAVES = "errors envelopes option_base options presets concurrency files key_value quota namespaces wording " + POLICY
SHARED = f"{LEAVES} redaction jsonio schema globs identity fastmcp_errors sandbox.clock sandbox.interfaces"
LANGUAGE = f"sandbox.agentscript sandbox.lines {WIRE} schema.partial wording"
ENCLAVE = "sandbox.enclave"
MCP = "fastmcp mcp mcp_types"

HOUSE = {
    # What imports nothing of ours, or next to nothing.
    WIRE: Row("", "msgspec"),
    POLICY: Row(""),
    "wording": Row(""),
    "errors": Row(f"wording {POLICY}"),
    "envelopes": Row("errors"),
    "option_base": Row("errors wording", "pydantic"),
    "presets": Row("errors option_base wording", "pydantic"),
    "approvals.options": Row("errors option_base", "pydantic"),
    "audit.options": Row("errors option_base", "pydantic"),
    TOOL_FILES: Row("errors option_base", "pydantic"),
    "options": Row(
        f"errors {TOOL_FILES} approvals.options audit.options extraction.options key_value option_base presets",
        "fastmcp pydantic",
    ),
    "concurrency": Row("", "anyio"),
    "files": Row(""),
    "key_value": Row("concurrency"),
    "quota": Row(""),
    "namespaces": Row(POLICY),
    "redaction": Row(LEAVES, "anyio"),
    "jsonio": Row(f"concurrency errors files redaction {WIRE}", "anyio msgspec yaml"),
    "schema": Row(f"wording {POLICY}"),
    "schema.pattern_search": Row("", "pydantic_core"),
    "schema.patterns": Row("", "pydantic_core"),
    "schema.formats": Row("", "pydantic pydantic_core"),
    "schema.validator": Row("schema.formats schema.pattern_search", "jsonschema referencing"),
    "globs": Row("redaction"),
    "identity": Row("fastmcp_errors", "fastmcp mcp_types"),
    "fastmcp_errors": Row("globs options redaction", f"{MCP} pydantic"),
    # The sandbox: the language and the worker know the wire; the host never knows an engine.
    "sandbox.lines": Row(""),
    "sandbox.languages": Row(f"errors {WIRE} {POLICY} sandbox.starlark.policy"),
    "sandbox.starlark.policy": Row(""),
    "sandbox": Row(f"{SHARED} {WIRE} {STARLARK} sandbox.lines sandbox.host", "anyio msgspec"),
    "sandbox.host": Row(f"{SHARED} {WIRE} sandbox.lines sandbox.starlark.policy", "anyio msgspec"),
    "sandbox.worker": Row(f"{LANGUAGE} sandbox.starlark", "landlock pyseccomp"),
    "sandbox.agentscript": Row(LANGUAGE, "msgspec"),
    "sandbox.agentscript.parser": Row(LANGUAGE, "esprima"),
    "sandbox.agentscript.typescript": Row(LANGUAGE, "tree_sitter tree_sitter_typescript"),
    "sandbox.agentscript.engine": Row(LANGUAGE, "_quickjs msgspec"),
    "sandbox.starlark": Row(LANGUAGE, "greenlet starlark"),
    # What exists, and what happens to a call.
    "catalog": Row(SHARED, "fastmcp pydantic"),
    "catalog.cache": Row(f"{SHARED} catalog", "fastmcp"),
    "catalog.pyi": Row(f"{SHARED} catalog sandbox.starlark.policy"),
    "catalog.search": Row(f"{SHARED} catalog", "anyio numpy platformdirs scipy sklearn"),
    "telemetry": Row(SHARED, "fastmcp opentelemetry"),
    "ratelimit": Row(
        f"{SHARED} catalog.components catalog.entries telemetry",
        f"{MCP} anyio limits msgspec pydantic redis uncalled_for",
    ),
    "audit": Row(SHARED, "msgspec opentelemetry"),
    "resume": Row(SHARED, "anyio msgspec"),
    "results": Row(f"{SHARED} catalog.inference", "fastmcp msgspec"),
    "calls": Row(f"{SHARED} catalog ratelimit telemetry", f"{MCP} anyio msgspec pydantic pydantic_core"),
    "approvals": Row(
        f"{SHARED} approvals audit.recorder catalog.entries catalog.suggestions calls.clock"
        " calls.conversion calls.interfaces server.disconnect",
        f"{MCP} anyio msgspec platformdirs",
    ),
    "extraction.options": Row("option_base", "pydantic"),
    "extraction": Row(f"{SHARED} approvals.elicitation extraction telemetry", "anyio mcp_types"),
    # What joins them.
    "server": Row(f"{SHARED} {ENCLAVE} telemetry", f"{MCP} anyio uncalled_for"),
    "meta_tools": Row(
        f"{SHARED} {ENCLAVE} {STARLARK} {WIRE} approvals audit calls catalog extraction ratelimit results resume "
        "server telemetry",
        f"{MCP} anyio docket fastmcp_tasks msgspec pydantic uncalled_for",
    ),
    "composite": Row(
        f"{SHARED} {ENCLAVE} {STARLARK} approvals.elicitation approvals.gate audit calls catalog meta_tools "
        "resume server telemetry",
        f"{MCP} anyio gotpl jsonschema msgspec pydantic referencing",
    ),
    "plugin": Row(
        f"{SHARED} approvals audit catalog composite extraction.options meta_tools results server telemetry",
        f"{MCP} anyio",
    ),
    # What stands on top.
    "gateway": Row(
        f"{SHARED} {TOOL_FILES} approvals catalog composite plugin ratelimit server.list_changed telemetry",
        f"{MCP} key_value",
    ),
    "gateway.config": Row(f"{SHARED} {TOOL_FILES} approvals.options", "pydantic"),
    "gateway.upstream": Row(
        f"{SHARED} calls.clock gateway.config",
        f"{MCP} anyio httpx2 key_value openapi_pydantic pydantic pydantic_core yaml",
    ),
    "gateway.tools": Row(f"{SHARED} catalog gateway telemetry", f"{MCP} platformdirs pydantic"),
    "gateway.serve": Row(f"{SHARED} approvals.folder gateway server telemetry", f"{MCP} anyio pydantic"),
    "testing": Row(
        f"{SHARED} calls catalog extraction meta_tools plugin sandbox",
        "anyio coverage fastmcp jsonschema msgspec pydantic_core pytest referencing",
    ),
    "traces": Row(f"{SHARED} audit"),
    "client": Row(f"{SHARED} gateway plugin sandbox.languages", f"{MCP} langchain_core"),
    "__main__": Row("cli"),
    "cli": Row(
        f"{SHARED} approvals.elicitation approvals.folder approvals.request audit.sinks audit.values composite gateway "
        "plugin sandbox server telemetry testing.recording traces",
        f"{MCP} anyio cyclopts platformdirs rich yaml",
    ),
}
"""A module belongs to the row with the longest name that fits its own. At the root each module has a row, so that a new
one fails until it is placed; below it a folder has one, or shares that of the folder above."""


COMES_WITH = {
    "esprima": "esprima2",
    "_quickjs": "quickjs-ng",
    "sklearn": "scikit-learn",
    "numpy": "scikit-learn",
    "scipy": "scikit-learn",
    "mcp": "fastmcp",
    "openapi_pydantic": "fastmcp",
    "mcp_types": "fastmcp",
    "fastmcp_tasks": "fastmcp",
    "docket": "fastmcp",
    "uncalled_for": "fastmcp",
    "key_value": "fastmcp",
    "httpx2": "fastmcp",
    "yaml": "pyyaml",
    "referencing": "fastmcp",
    "pydantic_core": "pydantic",
    "opentelemetry": "opentelemetry-api",
}
"""Modules whose package has another name, or arrives with another; docs/internals/dependencies.md says so."""


def module_name(file: Path) -> str:
    """Dotted name of a source file."""
    parts = file.relative_to(REPOSITORY).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def within(name: str, prefix: str) -> bool:
    """Whether a dotted name is `prefix` or below it."""
    return name == prefix or name.startswith(f"{prefix}.")


def row_of(name: str) -> tuple[str, Row]:
    """The row a module belongs to, and its full name."""
    fitting = [row for row in HOUSE if within(name, f"codecall.{row}")]
    assert fitting, f"{name} has no row in HOUSE"
    row = max(fitting, key=len)
    return f"codecall.{row}", HOUSE[row]


SOURCES = {module_name(file): ast.parse(file.read_text(encoding="utf-8")) for file in MODULES}
FACADE = "codecall"
"""Imports each public name from where it lives, when it is first used."""


def imports_of(name: str) -> Iterator[str]:
    """Every module that the source of `name` imports, wherever the import stands."""
    for node in ast.walk(SOURCES[name]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: relative import"
            assert node.module is not None
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in SOURCES else node.module


def test_imports_follow_the_table():
    wrong: list[str] = []
    for name in SOURCES.keys() - {FACADE}:
        place, row = row_of(name)
        allowed = [place, *(f"codecall.{inside}" for inside in row.inside.split())]
        for imported in imports_of(name):
            top = imported.partition(".")[0]
            if top == "codecall":
                is_allowed = any(within(imported, prefix) for prefix in allowed)
            else:
                is_allowed = top in sys.stdlib_module_names or top in row.packages.split()
            if not is_allowed:
                wrong.append(f"{name} (row {place}) may not import {imported}")
    assert wrong == [], "\n".join(wrong)


def test_every_row_is_used_and_names_what_there_is():
    assert {row_of(name)[0] for name in SOURCES if name != FACADE} == {f"codecall.{row}" for row in HOUSE}
    for row in HOUSE.values():
        assert {f"codecall.{inside}" for inside in row.inside.split()} <= SOURCES.keys()


def test_every_third_party_import_is_a_declared_dependency():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [*project["dependencies"], *chain.from_iterable(project["optional-dependencies"].values())]
    declared = {re.split(r"[\[<>=~]", name)[0].replace("-", "_") for name in named}
    imported = {top for name in SOURCES for top in (item.partition(".")[0] for item in imports_of(name))}
    third_party = imported - sys.stdlib_module_names - {"codecall"}
    assert {COMES_WITH.get(name, name).replace("-", "_") for name in third_party} <= declared


def test_no_circle_of_imports_even_inside_functions():
    graph = {name: {*imports_of(name)} & SOURCES.keys() - {name} for name in SOURCES if name != FACADE}
    while leaves := {name for name, imported in graph.items() if not imported & graph.keys()}:
        graph = {name: imported for name, imported in graph.items() if name not in leaves}
    while ends := graph.keys() - set(chain.from_iterable(graph.values())):  # what only leads to a circle
        graph = {name: imported for name, imported in graph.items() if name not in ends}
    assert sorted(graph) == []


def public_definitions(name: str) -> Iterator[tuple[str, ast.AST]]:
    """Public functions, classes and their public methods, with their qualified names."""

    def walk(body: list[ast.stmt], path: str) -> Iterator[tuple[str, ast.AST]]:
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                if node.name.startswith("_"):
                    continue
                overload = any("overload" in ast.unparse(item) for item in node.decorator_list)
                if not overload:
                    yield f"{path}.{node.name}", node
                if isinstance(node, ast.ClassDef):
                    yield from walk(node.body, f"{path}.{node.name}")

    yield from walk(SOURCES[name].body, name)


def test_everything_public_says_what_it_is():
    silent = [name for name, source in SOURCES.items() if not ast.get_docstring(source)]
    for name in SOURCES:
        silent += [path for path, node in public_definitions(name) if not ast.get_docstring(node)]  # type: ignore[arg-type]
    assert silent == []


def test_a_file_is_short():
    lines = {module_name(file): len(file.read_text(encoding="utf-8").splitlines()) for file in MODULES}
    most = {name: MAX_LINES if name in LONG else SOFT_LINES for name in lines.keys() - DATA.keys()}
    assert {name: lines[name] for name in most if lines[name] > most[name]} == {}


def test_the_lists_of_long_files_are_current():
    lines = {module_name(file): len(file.read_text(encoding="utf-8").splitlines()) for file in MODULES}
    assert [name for name in (*LONG, *DATA) if lines.get(name, 0) <= SOFT_LINES] == []


def test_a_folder_holds_what_one_can_look_over():
    folders = {file.parent for file in MODULES}
    files = {folder: [file for file in folder.glob("*.py") if file.stem != "__init__"] for folder in folders}
    assert {str(folder): len(held) for folder, held in files.items() if len(held) > MAX_FILES} == {}


GONE = "advice configuring contracts decoding inputs made_calls masking operating own_files patience sanitizing"
"""Modules that stood at the root once; no other name looks like theirs."""
DOTTED = re.compile(r"(?<![\w./@-])codecall(?:\.[a-z_]\w*){2,}")
PATH = re.compile(
    r"(?<![\w./-])(?:codecall|benchmarks|docs/(?:guide|reference|operations|internals))/[\w./-]+\.(?:py|js|md)\b"
)
LOGGERS = ("codecall.gateway.git", "codecall.gateway.server")
"""Loggers of servers behind the gateway."""


def test_no_text_names_a_module_that_is_gone():
    listed = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    conventions = "".join(
        (PACKAGE / part).read_text(encoding="utf-8") for part in ("telemetry/semconv.py", "audit/events.py")
    )
    names = listed.stdout.splitlines()
    gone: list[str] = []
    for line in names:
        file = REPOSITORY / line
        if file.suffix not in (".py", ".md", ".toml", ".js", "") or not file.is_file() or file.name == "LICENSE":
            continue
        text = file.read_text(encoding="utf-8")
        for dotted in DOTTED.findall(text):
            module = max((name for name in SOURCES if within(dotted, name)), key=len)
            rest = dotted.removeprefix(module).split(".")[1:]
            package = dotted.split(".")[1]
            if not rest or dotted in LOGGERS or f'"{dotted}' in conventions or f"codecall.{package}" not in SOURCES:
                continue
            if not re.search(rf"\b{rest[0]}\b", source_text(module)):
                gone.append(f"{line}: {dotted}")
        gone += [
            f"{line}: {name}" for name in re.findall(rf"(?<![\w./@-])codecall\.(?:{'|'.join(GONE.split())})\b", text)
        ]
        gone += [
            f"{line}: {path}"
            for path in re.findall(r"`([\w./-]+\.py)`", text)
            if line.startswith("codecall/") and not any(f"/{name}".endswith(f"/{path}") for name in names)
        ]
        gone += [f"{line}: {path}" for path in PATH.findall(text) if not (REPOSITORY / path).exists()]
    assert gone == [], "\n".join(gone)


def source_text(name: str) -> str:
    """The source of a module."""
    return MODULES[list(SOURCES).index(name)].read_text(encoding="utf-8")


def test_no_module_is_a_drawer():
    drawers = {"utils", "util", "helpers", "helper", "misc", "common"}
    assert [file for file in MODULES if file.stem in drawers] == []


def loaded_by(code: str, *flags: str, python: str = sys.executable) -> set[str]:
    """Top-level and dotted names in `sys.modules` of `python`, fresh if not said otherwise, after `code`."""
    program = textwrap.dedent(code) + "\nimport sys\nprint('MODULES', *sorted(sys.modules))\n"
    ran = subprocess.run(
        [python, *flags, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    return set(ran.stdout.rpartition("MODULES")[2].split())


ENGINE = (
    *("quickjs", "_quickjs", "esprima", "tree_sitter", "tree_sitter_typescript"),
    *(f"codecall.sandbox.agentscript.{module}" for module in ("engine.realm", "validate", "parser.parse")),
)


def test_the_engine_and_the_parser_never_load_in_the_server_process(loaded_python: LoadedPython):
    loaded = loaded_by(
        """
        import asyncio
        from fastmcp import Client, FastMCP
        from codecall import CodeCallPlugin

        async def main():
            server = FastMCP("house")
            server.tool(lambda a, b: a + b, name="sum")
            CodeCallPlugin.init().install(server)
            async with Client(server) as client:
                script = "return await callTool('sum', { a: 1, b: 2 });"
                found = await client.call_tool("codecall:search", {"query": "sum"})
                known = await client.call_tool("codecall:describe", {"toolNames": ["sum"]})
                assert known.structured_content["tools"][0]["name"] == "sum", known
                ran = await client.call_tool("codecall:execute", {"script": script})
                assert ran.structured_content["result"] == 3, ran

        asyncio.run(main())
        """,
        python=loaded_python.executable,  # with more loaded than the program needs
    )
    assert loaded.isdisjoint(ENGINE)


SEARCH = ("numpy", "scipy", "sklearn", *(f"codecall.catalog.search.{part}" for part in ("index", "analysis")))
"""What only a search needs."""
RARE = (
    "codecall.catalog.typescript",
    "codecall.ratelimit.middleware",
    "limits",
    "redis",
    "cyclopts",
    "rich.table",
)
"""What only some servers, and only some requests, need."""
SERVE = """
    import asyncio
    from fastmcp import Client, FastMCP
    from codecall import CodeCallPlugin

    async def main():
        server = FastMCP("house")
        server.tool(lambda a, b: a + b, name="sum")
        CodeCallPlugin.init().install(server)
        async with Client(server) as client:
            assert await client.list_tools()
            script = "return await callTool('sum', { a: 1, b: 2 });"
            ran = await client.call_tool("codecall:execute", {"script": script})
            assert ran.structured_content["result"] == 3, ran
            for query in QUERIES:
                found = await client.call_tool("codecall:search", {"query": query})
                assert found.structured_content["tools"][0]["name"] == "sum", found

    asyncio.run(main())
"""
"""A server that lists its tools, runs a script, and searches."""


def test_a_server_loads_nothing_that_only_some_requests_need():
    loaded = loaded_by("QUERIES = []" + textwrap.dedent(SERVE))
    assert loaded & {*SEARCH, *RARE, *ENGINE} == set()


def test_a_search_by_words_loads_neither_scikit_learn_nor_a_model():
    loaded = loaded_by("QUERIES = ['sum']" + textwrap.dedent(SERVE))
    assert {"numpy", "codecall.catalog.search.index"} <= loaded
    assert loaded.isdisjoint({"sklearn", "torch", "transformers", "codecall.catalog.search.models", *ENGINE})


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["serve", "--help"]])
def test_help_loads_neither_fastmcp_nor_pydantic(arguments: list[str]):
    loaded = loaded_by(f"from codecall.cli.app import run; assert run({arguments!r}) == 0")
    assert loaded.isdisjoint({"fastmcp", "mcp", "pydantic", "asyncio", "codecall.options", *SEARCH})


def test_the_worker_loads_neither_fastmcp_nor_pydantic_nor_scikit_learn():
    loaded = loaded_by(
        f"import sys; sys.path.insert(0, {str(REPOSITORY)!r}); import codecall.sandbox.worker.serve", "-I"
    )
    heavy = {"fastmcp", "mcp", "mcp_types", "pydantic", "sklearn", "numpy", "anyio", "asyncio", "limits"}
    assert loaded.isdisjoint(heavy)
    assert {"codecall.errors", "codecall.options"}.isdisjoint(loaded)
    assert loaded & {"quickjs", "_quickjs"}
