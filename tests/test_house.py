"""The rules of the house, held by reading the source: who imports whom, what loads where, what is documented."""

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

MAX_LINES = 300
"""Soft ceiling of one file; only those below may exceed it."""
LONGER = {
    "codecall.errors": "the whole exception tree, one class after the other",
    "codecall.options": "every option of the project with its meaning and range",
    "codecall.sandbox.agentscript.policy": "the allow-list as data",
    "codecall.sandbox.agentscript.diagnosis.hints": "the hints for scripts that throw, as data",
    "codecall.sandbox.wire": "every message of the protocol and its bounds, as data",
    "codecall.redaction.patterns": "the patterns that are removed from error texts, as data",
}


class Area(NamedTuple):
    """One row of the table: a part of the package, its layer, and what it may import."""

    prefix: str
    """The longest prefix that fits a module decides."""
    layer: int
    inside: tuple[str, ...]
    """Prefixes inside codecall it may import; its own area always."""
    outside: tuple[str, ...] = ()
    """Third-party packages."""


SANDBOX = "codecall.sandbox"
POLICY = f"{SANDBOX}.agentscript.policy"
WIRE = f"{SANDBOX}.wire"
FATE = f"{SANDBOX}.fate"
KNOWN = f"{SANDBOX}.known"
SERVICES = f"{SANDBOX}.services"
SHARED = (
    "codecall.errors",
    "codecall.jsonio.decode",
    "codecall.errors",
    "codecall.options",
    "codecall.options",
    "codecall.options",
    "codecall.envelopes",
    "codecall.envelopes",
    "codecall.concurrency",
    "codecall.files",
    SERVICES,
    "codecall.namespaces",
    "codecall.redaction.patterns",
    "codecall.redaction.masking",
    "codecall.schema.validation",
    "codecall.schema.validation",
    KNOWN,
    POLICY,
)
BROKER_SIDE = f"{SANDBOX}.broker"

CATALOG_SIDE = (
    "codecall.calls",
    "codecall.catalog.entries",
    "codecall.catalog.suggestions",
    "codecall.catalog.uris",
    "codecall.catalog.view",
    "codecall.catalog.visibility",
    "codecall.telemetry",
    BROKER_SIDE,
    *SHARED,
)
MCP = ("fastmcp", "mcp", "mcp_types")

# The table of docs/architecture.md. A module belongs to the row with the longest prefix that fits its name.
HOUSE = [
    Area(WIRE, 0, (), ("msgspec",)),
    Area(POLICY, 0, ()),
    Area(KNOWN, 0, ()),
    Area(BROKER_SIDE, 0, (KNOWN,)),
    Area(f"{SANDBOX}.agentscript", 1, (POLICY, WIRE)),
    Area(f"{SANDBOX}.agentscript.grammar", 1, (f"{SANDBOX}.agentscript",), ("esprima",)),
    Area(
        f"{SANDBOX}.agentscript.typescript",
        1,
        (f"{SANDBOX}.agentscript",),
        ("tree_sitter", "tree_sitter_typescript"),
    ),
    Area(f"{SANDBOX}.agentscript.literals", 1, (f"{SANDBOX}.agentscript", KNOWN)),
    Area(f"{SANDBOX}.agentscript.realm", 1, (f"{SANDBOX}.agentscript", WIRE), ("_quickjs", "msgspec")),
    Area(f"{SANDBOX}.agentscript.configuration", 1, (f"{SANDBOX}.agentscript", WIRE), ("msgspec",)),
    Area(f"{SANDBOX}.agentscript.spaces", 1, (f"{SANDBOX}.agentscript", WIRE), ("msgspec",)),
    Area(f"{SANDBOX}.agentscript.stops", 1, (f"{SANDBOX}.agentscript", WIRE), ("msgspec",)),
    Area(f"{SANDBOX}.agentscript.failing", 1, (f"{SANDBOX}.agentscript", WIRE), ("msgspec",)),
    Area(f"{SANDBOX}.agentscript.journal", 1, (f"{SANDBOX}.agentscript", WIRE), ("msgspec",)),
    Area(f"{SANDBOX}.agentscript.evidence", 1, (f"{SANDBOX}.agentscript", WIRE), ("msgspec",)),
    Area(FATE, 0, ()),
    Area(f"{SANDBOX}.worker", 2, (WIRE, FATE, f"{SANDBOX}.agentscript"), ("pyseccomp", "landlock")),
    Area("codecall.errors", 2, ("codecall.errors",)),
    Area("codecall.jsonio.decode", 2, (), ("msgspec",)),
    Area("codecall.schema.validation", 2, ()),
    Area("codecall.schema.validation", 2, ("codecall.schema.validation", KNOWN)),
    Area("codecall.errors", 2, (POLICY,)),
    Area("codecall.namespaces", 2, (POLICY,)),
    Area("codecall.envelopes", 2, ("codecall.errors",)),
    Area("codecall.concurrency", 2, ()),
    Area("codecall.files", 2, ()),
    Area("codecall.envelopes", 2, (POLICY, "codecall.errors", "codecall.envelopes")),
    Area("codecall.options", 2, ("codecall.errors",), ("pydantic",)),
    Area("codecall.options", 2, ("codecall.options",), ("pydantic",)),
    Area(
        "codecall.options",
        2,
        (POLICY, "codecall.options", "codecall.errors", "codecall.options"),
        ("pydantic",),
    ),
    Area(SERVICES, 2, ("codecall.envelopes", "codecall.errors", "codecall.envelopes")),
    Area(
        "codecall.telemetry",
        2,
        ("codecall.envelopes", "codecall.errors", "codecall.envelopes"),
        ("fastmcp", "opentelemetry"),
    ),
    Area("codecall.redaction.masking", 2, ("codecall.envelopes", "codecall.redaction.patterns")),
    Area("codecall.redaction.patterns", 2, (POLICY, "codecall.errors", "codecall.options"), ("anyio",)),
    Area(f"{SANDBOX}.host", 2, (WIRE, FATE, BROKER_SIDE, *SHARED), ("anyio", "msgspec")),
    Area(
        f"{SANDBOX}.enclave",
        2,
        (WIRE, BROKER_SIDE, f"{SANDBOX}.handlers", f"{SANDBOX}.host", f"{SANDBOX}.report", *SHARED),
        ("anyio", "msgspec"),
    ),
    Area(f"{SANDBOX}.handlers", 2, SHARED, ("anyio", "msgspec")),
    Area(f"{SANDBOX}.report", 2, (WIRE, f"{SANDBOX}.enclave", *SHARED), ("anyio",)),
    Area("codecall.catalog", 3, SHARED, ("anyio", "numpy")),
    Area("codecall.catalog.search.inverted_index", 3, ("codecall.catalog",), ("sklearn", "scipy", "numpy")),
    Area("codecall.catalog.search.models", 3, ("codecall.catalog", *SHARED)),
    Area("codecall.catalog.search.embedding", 3, ("codecall.catalog", *SHARED), ("numpy", "platformdirs")),
    Area("codecall.catalog.entries", 3, SHARED, ("pydantic",)),
    Area("codecall.catalog.apps", 3, ("codecall.catalog", *SHARED), ("fastmcp",)),
    Area("codecall.catalog.cache.middleware", 3, ("codecall.catalog", *SHARED), ("fastmcp",)),
    Area("codecall.catalog.view", 3, ("codecall.catalog", *SHARED), ("fastmcp",)),
    Area("codecall.catalog.cache.fingerprint", 3, ("codecall.catalog", *SHARED), ("fastmcp",)),
    Area("codecall.catalog.cache.fingerprint", 3, ("codecall.catalog", *SHARED), ("fastmcp",)),
    Area("codecall.catalog.cache.fingerprint", 3, (), ("fastmcp",)),
    Area("codecall.catalog.cache.fingerprint", 3, ("codecall.catalog", *SHARED), ("fastmcp",)),
    Area("codecall.catalog.cache.cache", 3, ("codecall.catalog", *SHARED), ("fastmcp",)),
    Area("codecall.catalog.components", 3, ("codecall.catalog", *SHARED), ("fastmcp",)),
    Area("codecall.catalog.uris", 3, ("codecall.catalog", *SHARED), ("fastmcp", "pydantic")),
    Area("codecall.calls", 3, CATALOG_SIDE, ("anyio", "msgspec", "pydantic")),
    Area("codecall.calls.broker", 3, CATALOG_SIDE, MCP),
    Area("codecall.calls.partial_validation", 3, CATALOG_SIDE, ("pydantic_core",)),
    Area("codecall.calls.partial_validation", 3, CATALOG_SIDE, ("pydantic_core",)),
    Area("codecall.calls.preflight", 3, CATALOG_SIDE, (*MCP, "pydantic_core")),
    Area("codecall.calls.failures", 3, CATALOG_SIDE, MCP),
    Area("codecall.calls.conversion", 3, CATALOG_SIDE, (*MCP, "anyio")),
    Area("codecall.calls.failures", 3, CATALOG_SIDE, (*MCP, "msgspec", "pydantic")),
    Area("codecall.fastmcp_errors", 3, CATALOG_SIDE, (*MCP, "pydantic")),
    Area("codecall.calls.conversion", 3, CATALOG_SIDE, (*MCP, "anyio", "msgspec")),
    Area("codecall.identity", 3, CATALOG_SIDE, MCP),
    Area("codecall.ratelimit.middleware", 3, CATALOG_SIDE, (*MCP, "limits", "msgspec", "pydantic")),
    Area("codecall.ratelimit.rules", 3, CATALOG_SIDE, ("limits", "pydantic")),
    Area("codecall.ratelimit.counting", 3, CATALOG_SIDE, ("limits",)),
    Area("codecall.ratelimit.memory", 3, CATALOG_SIDE, ("limits",)),
    Area("codecall.ratelimit.redis", 3, CATALOG_SIDE, ("anyio", "limits", "redis")),
    Area("codecall.audit.recorder", 3, CATALOG_SIDE, ("opentelemetry",)),
    Area("codecall.audit.sinks", 3, CATALOG_SIDE, ("opentelemetry",)),
    Area("codecall.ratelimit.storage", 3, CATALOG_SIDE, ("anyio", "uncalled_for")),
    Area(
        "codecall.meta_tools",
        4,
        ("codecall.catalog", "codecall.calls", "codecall.telemetry", f"{SANDBOX}.enclave", POLICY, *SHARED),
        (*MCP, "anyio", "msgspec", "pydantic", "uncalled_for"),
    ),
    Area(
        "codecall.meta_tools.tasks",
        4,
        ("codecall.meta_tools", "codecall.calls", *SHARED),
        (*MCP, "docket", "fastmcp_tasks", "pydantic"),
    ),
    Area(
        "codecall.meta_tools.tasks",
        4,
        ("codecall.meta_tools", "codecall.calls", *SHARED),
        (*MCP, "docket", "fastmcp_tasks", "msgspec"),
    ),
    Area(
        "codecall.plugin",
        5,
        (
            "codecall.meta_tools",
            "codecall.catalog",
            "codecall.calls",
            "codecall.telemetry",
            f"{SANDBOX}.enclave",
            *SHARED,
        ),
        MCP,
    ),
    Area("codecall", 6, ("codecall",)),
    Area(
        "codecall.testing",
        6,
        ("codecall",),
        ("pytest", "anyio", "fastmcp", "jsonschema", "msgspec", "pydantic_core", "referencing"),
    ),
    Area("codecall.testing.coverage", 6, ("codecall",), ("coverage",)),
    Area("codecall.testing.coverage_data", 6, ("codecall",), ("coverage",)),
    Area("codecall.traces", 6, ("codecall",)),
    Area("codecall.client", 8, ("codecall",), (*MCP, "langchain_core")),
    Area(
        "codecall.gateway", 7, ("codecall",), (*MCP, "anyio", "httpx2", "msgspec", "platformdirs", "pydantic", "yaml")
    ),
    Area("codecall.gateway.upstream.http", 7, (), ("fastmcp", "key_value")),
    Area("codecall.gateway.downstream", 7, (), ("key_value",)),
    Area("codecall.cli", 8, ("codecall",), ("cyclopts", "rich", "anyio", "fastmcp", "platformdirs")),
]

KNOWS_FASTMCP = (
    "codecall.plugin",
    "codecall.meta_tools",
    "codecall.catalog.view",
    "codecall.catalog.apps",
    "codecall.catalog.cache.middleware",
    "codecall.catalog.cache.fingerprint",
    "codecall.catalog.cache.fingerprint",
    "codecall.catalog.cache.fingerprint",
    "codecall.catalog.cache.fingerprint",
    "codecall.catalog.cache.cache",
    "codecall.catalog.components",
    "codecall.catalog.uris",
    "codecall.calls.failures",
    "codecall.calls.broker",
    "codecall.calls.conversion",
    "codecall.calls.failures",
    "codecall.calls.preflight",
    "codecall.fastmcp_errors",
    "codecall.calls.conversion",
    "codecall.identity",
    "codecall.ratelimit.middleware",
    "codecall.telemetry",
    "codecall.testing",
    "codecall.client",
    "codecall.gateway",
    "codecall.cli",
)


COMES_WITH = {
    "esprima": "esprima2",
    "_quickjs": "quickjs-ng",
    "sklearn": "scikit-learn",
    "numpy": "scikit-learn",
    "scipy": "scikit-learn",
    "mcp": "fastmcp",
    "mcp_types": "fastmcp",
    "fastmcp_tasks": "fastmcp",
    "docket": "fastmcp",
    "uncalled_for": "fastmcp",
    "jsonschema": "fastmcp",
    "key_value": "fastmcp",
    "httpx2": "fastmcp",
    "yaml": "pyyaml",
    "referencing": "fastmcp",
    "pydantic_core": "pydantic",
    "opentelemetry": "opentelemetry-api",
}
"""Modules whose package has another name, or that arrive with another package (docs/dependencies.md says so)."""


def module_name(file: Path) -> str:
    """Dotted name of a source file."""
    parts = file.relative_to(REPOSITORY).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def within(name: str, prefix: str) -> bool:
    """Whether a dotted name is `prefix` or below it."""
    return name == prefix or name.startswith(f"{prefix}.")


def area_of(name: str) -> Area:
    """The row a module belongs to."""
    return max((area for area in HOUSE if within(name, area.prefix)), key=lambda area: len(area.prefix))


SOURCES = {module_name(file): ast.parse(file.read_text(encoding="utf-8")) for file in MODULES}


def imports_of(name: str, *, when_loaded: bool = False) -> Iterator[str]:
    """Every module the source of `name` imports: wherever the import stands, or only what loading it imports."""
    for node in SOURCES[name].body if when_loaded else ast.walk(SOURCES[name]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: relative import"
            assert node.module is not None
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in SOURCES else node.module


@pytest.mark.parametrize("name", SOURCES)
def test_imports_point_down_the_table(name: str):
    area = area_of(name)
    wrong: list[str] = []
    for imported in imports_of(name):
        top = imported.partition(".")[0]
        if top == "codecall":
            allowed = within(imported, area.prefix) or any(within(imported, prefix) for prefix in area.inside)
            upward = area.prefix != "codecall" and area_of(imported).layer > area.layer
            if not allowed or upward:
                wrong.append(imported)
        elif top not in sys.stdlib_module_names and top not in area.outside:
            wrong.append(imported)
    assert wrong == [], f"{name} (layer {area.layer}) may not import these"


def test_every_third_party_import_is_a_declared_dependency():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [*project["dependencies"], *chain.from_iterable(project["optional-dependencies"].values())]
    declared = {re.split(r"[\[<>=~]", name)[0].replace("-", "_") for name in named}
    imported = {top for name in SOURCES for top in (item.partition(".")[0] for item in imports_of(name))}
    third_party = imported - sys.stdlib_module_names - {"codecall"}
    assert {COMES_WITH.get(name, name).replace("-", "_") for name in third_party} <= declared


def test_the_modules_do_not_import_each_other_in_a_circle():
    graph = {name: {*imports_of(name, when_loaded=True)} & SOURCES.keys() - {name} for name in SOURCES}
    while leaves := {name for name, imported in graph.items() if not imported}:
        graph = {name: imported - leaves for name, imported in graph.items() if name not in leaves}
    assert graph == {}


def test_only_the_named_modules_know_fastmcp():
    knowing = {
        name
        for name in SOURCES
        if any(imported.partition(".")[0] in ("fastmcp", "mcp", "mcp_types") for imported in imports_of(name))
    }
    assert {name for name in knowing if not any(within(name, known) for known in KNOWS_FASTMCP)} == set()


def test_every_row_of_the_table_is_used_or_planned():
    planned = {"codecall.testing", "codecall.cli", "codecall.client", "codecall.traces"}
    used = {area_of(name).prefix for name in SOURCES}
    assert {area.prefix for area in HOUSE} - used == planned - used


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


@pytest.mark.parametrize("name", SOURCES)
def test_everything_public_says_what_it_is(name: str):
    assert ast.get_docstring(SOURCES[name]), f"{name} has no docstring"
    silent = [path for path, node in public_definitions(name) if not ast.get_docstring(node)]  # type: ignore[arg-type]
    assert silent == []


@pytest.mark.parametrize("file", MODULES, ids=module_name)
def test_a_file_is_short(file: Path):
    lines = len(file.read_text(encoding="utf-8").splitlines())
    if module_name(file) not in LONGER:
        assert lines <= MAX_LINES


def test_the_list_of_longer_files_is_current():
    assert [name for name in LONGER if name not in SOURCES] == []


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
    *(f"{SANDBOX}.agentscript.{module}" for module in ("realm", "guard", "sources")),
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


def test_the_worker_loads_neither_fastmcp_nor_pydantic_nor_scikit_learn():
    loaded = loaded_by(
        f"import sys; sys.path.insert(0, {str(REPOSITORY)!r}); import codecall.sandbox.worker.serve", "-I"
    )
    heavy = {"fastmcp", "mcp", "mcp_types", "pydantic", "sklearn", "numpy", "anyio", "asyncio", "limits"}
    assert loaded.isdisjoint(heavy)
    assert {"codecall.errors", "codecall.options"}.isdisjoint(loaded)
    assert loaded & {"quickjs", "_quickjs"}
