"""The public names: a fixed list, imported only when used, each documented."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib import import_module

import pytest

import codecall
from codecall import errors

ERRORS = {name for name, kind in vars(errors).items() if inspect.isclass(kind) and issubclass(kind, Exception)}

SURFACE = {
    "ApprovalRequest",
    "AuditEvent",
    "CodeCallPlugin",
    "CompositeTools",
    "Decision",
    "ExtractionRequest",
    "Enclave",
    "ExecutionResult",
    "JsonLinesSink",
    "Location",
    "LoggingSink",
    "OpenTelemetrySink",
    "PoolOptions",
    "Preset",
    "RateLimitPlugin",
    "Stats",
    "load_preset",
    "tool_metadata",
} | {name for name in ERRORS if not name.startswith("_")}


PACKAGES = {
    "codecall.client": {"AZURE_DESCRIPTION_LIMIT", "CodeCallClient", "Definitions", "Envelope"},
    "codecall.testing": {
        *("Call", "Calls", "ExpectedFinding", "Failure", "Outcome", "Program", "ProgramStub", "Refusal", "Script"),
        *("ScriptEnclave", "ScriptFileError", "ScriptResult", "Stub", "Stubs", "Tape", "Value"),
        *("findings_mismatch", "mismatch", "parse_programs", "read_programs"),
    },
    "codecall.traces": {"Trace", "TraceRecorder", "TraceSink", "render", "traces_of", "write_page"},
}
"""The names of the other public packages."""


@pytest.mark.parametrize("package", PACKAGES)
def test_the_names_of_a_public_package_resolve(package: str) -> None:
    module = import_module(package)
    assert set(module.__all__) == PACKAGES[package]
    assert [name for name in PACKAGES[package] if getattr(module, name, None) is None] == []


def test_the_list_is_what_it_is_meant_to_be() -> None:
    assert set(codecall.__all__) == SURFACE
    assert len(set(codecall.__all__)) == len(codecall.__all__)


@pytest.mark.parametrize("name", sorted(SURFACE))
def test_every_name_resolves_to_something_documented(name: str) -> None:
    value = getattr(codecall, name)
    assert inspect.getdoc(value)
    assert getattr(codecall, name) is value


def test_every_name_is_imported_from_where_it_is_defined() -> None:
    for name in SURFACE:
        value = getattr(codecall, name)
        assert value.__module__.startswith("codecall.")
        assert value.__name__ == name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'codecall' has no attribute 'Nothing'"):
        _ = codecall.Nothing  # type: ignore[attr-defined]


def test_dir_lists_the_public_names() -> None:
    assert set(dir(codecall)) >= SURFACE


def test_importing_the_package_imports_nothing_else() -> None:
    code = """
import sys
import codecall
print(*sorted(name for name in sys.modules if name.split('.')[0] in ('codecall', 'fastmcp', 'pydantic', 'sklearn')))
from codecall import CodeCallError
print('fastmcp' in sys.modules)
from codecall import Enclave
print('fastmcp' in sys.modules)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["codecall", "False", "False"]


MAY_BE_LOADED = {"codecall", "msgspec", "opentelemetry"}
"""Packages that the plugin loads beside those of FastMCP, besides the standard library's."""

FASTMCP_LOADED = {
    "fastmcp.dependencies",
    "fastmcp.server.context",
    "fastmcp.server.elicitation",
    "fastmcp.server.middleware.dereference",
    "fastmcp.server.middleware.rate_limiting",
    "fastmcp.server.sessions",
    "fastmcp.server.transforms.catalog",
}
"""Parts of FastMCP that the plugin loads and FastMCP itself does not."""


def test_the_plugin_loads_little_beside_fastmcp() -> None:
    def loaded(code: str) -> set[str]:
        program = f"import sys; {code}; print(*sys.modules)"
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        return set(ran.stdout.split())

    fastmcp = loaded("from fastmcp import FastMCP")
    plugin = loaded("from codecall import CodeCallPlugin; CodeCallPlugin.init()")
    ours = {name for name in plugin - fastmcp if name.partition(".")[0] not in sys.stdlib_module_names}
    foreign = {name for name in ours if name.partition(".")[0] not in MAY_BE_LOADED}
    assert foreign <= FASTMCP_LOADED
    assert "sklearn" not in plugin
    # FastMCP has some 900 modules: the work of loading is that of the modules.
    assert len(plugin) <= 1.2 * len(fastmcp)
