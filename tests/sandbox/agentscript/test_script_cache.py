"""What a worker remembers of scripts: whose they are, and how much room they take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from codecall.presets import load_preset
from codecall.sandbox import wire
from codecall.sandbox.agentscript import dialect
from codecall.sandbox.agentscript.dialect import ScriptCache
from codecall.sandbox.agentscript.validator.names import NamespaceInfo, no_namespaces
from codecall.sandbox.enclave import LimitsCache

LIMITS = LimitsCache(0).limits(load_preset("secure"))


def test_a_script_is_remembered_for_its_reader_alone() -> None:
    cache = ScriptCache()
    scripts = {
        reader: cache.prepare(wire.Start("return 1", LIMITS, reader=reader), no_namespaces) for reader in ("a", "b")
    }
    assert scripts["a"] is not scripts["b"]
    for reader, script in scripts.items():
        assert cache.prepare(wire.Start("return 1", LIMITS, reader=reader), no_namespaces) is script


def test_what_the_host_knew_about_names_counts() -> None:
    members = {f"tool_{number}": f"shop_tool_{number}" for number in range(500)}
    asked: list[str] = []

    def find(names: Sequence[str]) -> Mapping[str, NamespaceInfo]:
        asked.extend(names)
        return {name: NamespaceInfo(members) for name in names}

    cache = ScriptCache()
    first = cache.prepare(wire.Start("return await shop.tool_1({})", LIMITS), find)
    room = sum(len(member) + len(tool) for member, tool in members.items())
    for number in range(dialect.MAX_CHARS // room):
        assert number < dialect.MAX_SCRIPTS
        cache.prepare(wire.Start(f"return await shop.tool_1({{ n: {number} }})", LIMITS), find)
    assert cache.prepare(wire.Start("return await shop.tool_1({})", LIMITS), find) is not first


def test_a_script_that_is_read_anew_counts_once() -> None:
    cache, answers = ScriptCache(), iter(range(1_000))

    def find(names: Sequence[str]) -> Mapping[str, NamespaceInfo]:
        members = {"tool": "shop_tool", f"other_{next(answers)}": "shop_other"}
        return {name: NamespaceInfo(members) for name in names}

    start, other = (
        wire.Start("return await shop.tool({})", LIMITS),
        wire.Start("// comment\n" * 5_000 + "return 1", LIMITS),
    )
    remembered = cache.prepare(other, no_namespaces)
    for _ in range(100):
        cache.prepare(start, find)
    assert cache.prepare(other, no_namespaces) is remembered
