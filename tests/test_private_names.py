"""Every private name of a dependency that the code reads, by file: what a new release of one may break."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "codecall"

INTERNALS: dict[str, set[str]] = {
    "calls/fastmcp_internals.py": {"_dispatching_tool_call", "_extension_tool_call_scope", "_extensions", "_srctx"},
    "meta_tools/tasks.py": {"_srctx"},
    "server/fastmcp_internals.py": {"_client_log_levels", "_connection", "_mcp_server"},
    "catalog/cache/fastmcp_internals.py": {"_inner", "_list_tools", "_prefix", "_server"},
    "gateway/serve/sessions.py": {"_admit_session", "_server_instances"},
    "gateway/upstream/session.py": {"_mcp_server", "_srctx", "_x_mcp_header_maps"},
    "audit/sinks.py": {"_logs"},
    "composite/templates/functions.py": {"_builtin_functions"},
    "sandbox/starlark/evaluator_internals.py": {
        *("__code__", "_charge", "_charge_thread_alloc", "_data", "_encode_value", "_eval_expr", "_exec_stmt"),
        *("_format_impl", "_index_get", "_to_iter"),
    },
}
"""At most one file a folder; each says at its top what it reads, and why."""

OUR_OWN = {"_asdict", "_replace", "_exit", "_MISSING", "_quickjs"}
"""Underscored names that are public: of named tuples and `os`, and the module that `quickjs-ng` documents."""

DUNDERS = {"__closure__", "__code__", "__defaults__", "__globals__"}


def trees() -> dict[str, ast.Module]:
    """The parsed files of the package, by path in it."""
    return {
        file.relative_to(PACKAGE).as_posix(): ast.parse(file.read_text(encoding="utf-8"))
        for file in sorted(PACKAGE.rglob("*.py"))
    }


def names_of_ours(tree: ast.Module) -> Iterator[str]:
    """Names that a file of ours defines: functions, classes, variables and attributes of `self`."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                yield name
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case _:
                pass


def private(name: str) -> bool:
    """Whether a name is private by convention, or of the kind that opens a function up."""
    return name in DUNDERS or (name.startswith("_") and not name.startswith("__"))


def attributes_read(tree: ast.Module, inherited: set[str]) -> Iterator[str]:
    """Private names that a file reads as attributes, and does not define; of `self`, those that no file of ours does.

    Args:
        tree: The file.
        inherited: The names that some file of ours defines.
    """
    own = {*names_of_ours(tree), *OUR_OWN}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name) if name in inherited:
                pass
            case ast.Attribute(attr=name) if private(name) and name not in own:
                yield name
            case _:
                pass


def names_given(tree: ast.Module) -> Iterator[str]:
    """Private names that a file gives as texts, to `getattr`, or imports: nobody does that with names of their own."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Name(id="getattr" | "hasattr" | "setattr" | "attrgetter"),
                args=[_, ast.Constant(value=str(name)), *_] | [ast.Constant(value=str(name))],
            ) if private(name):
                yield name
            case ast.ImportFrom(module=str(module), names=aliases) if module.partition(".")[0] not in NO_DEPENDENCIES:
                yield from (alias.name for alias in aliases if private(alias.name))
                yield from (part for part in module.split(".") if private(part))
            case ast.Import(names=aliases):
                yield from (part for alias in aliases for part in alias.name.split(".") if private(part))
            case _:
                pass


NO_DEPENDENCIES = {"codecall", "__future__"}


def test_each_private_name_of_a_dependency_is_listed():
    files = trees()
    ours = OUR_OWN.union(*map(names_of_ours, files.values()))
    found = {path: {*names_given(tree), *attributes_read(tree, ours)} - OUR_OWN for path, tree in files.items()}
    assert {path: names for path, names in found.items() if names} == INTERNALS


def test_one_file_of_a_folder_at_most_reads_them():
    folders = Counter(str(Path(path).parent) for path in INTERNALS)
    assert [folder for folder, files in folders.items() if files > 1] == []
