"""Which calls code may make without a person, as `tools_to_auto_execute` says: what it names is read from its tree in a
worker, and held to by the broker while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

from codecall.calls.broker import Broker
from codecall.catalog.entries import CatalogEntry
from codecall.envelopes import ExecutionResult
from codecall.errors import AccessDeniedError, ApprovalRequiredError, CodeCallError, SelfReferenceError
from codecall.meta_tools.runs import Run, StartedRun
from codecall.meta_tools.starlark.options import EXECUTE_CODE
from codecall.meta_tools.starlark.servers import ToolServer

MAX_LISTED_CALLS: Final = 50
"""Most tools that a refusal lists."""

ANY_TOOL: Final = "any tool: names are computed, or a server is used as a value"
"""Stands in a list of calls for those that nobody can know before the code runs."""


class ScriptBroker(Broker):
    """Performs the calls of a Starlark script: a tool that may not be called reads as one that does not exist."""

    async def call(self, name: str, arguments: dict[str, object], *, max_bytes: int | None = None) -> str:
        """See `Broker.call`."""
        try:
            return await super().call(name, arguments, max_bytes=max_bytes)
        except (AccessDeniedError, SelfReferenceError):
            raise await self._access.not_found("tool", name) from None


class CodeBroker(ScriptBroker):
    """Performs the calls of code: those of tools that it may call at all, and of them those that were allowed."""

    files: frozenset[str] = frozenset()
    """The tools that are in files."""
    allowed: frozenset[str] = frozenset()
    """Those of them that it may call now."""

    async def call(self, name: str, arguments: dict[str, object], *, max_bytes: int | None = None) -> str:
        """See `Broker.call`."""
        if name not in self.files:
            raise await self._access.not_found("tool", name)
        if name not in self.allowed:
            raise AccessDeniedError(
                f"Tool '{name}' may not be called without a person",
                tool_name=name,
                hint="Name the tool in the code as server.tool(…), so that a person can be asked.",
            )
        return await super().call(name, arguments, max_bytes=max_bytes)


async def check_code(
    run: StartedRun, look: Run, start: Run, *, servers: Sequence[ToolServer], code: str, automatic: bool
) -> ExecutionResult:
    """Run code that calls nothing but what it may call without a person; hand any other to one, or refuse it.

    Args:
        run: What it runs with.
        look: Looks at it without running it.
        start: Runs it.
        servers: What it may call at all.
        code: Its text.
        automatic: Whether there are lists of what it may call without a person.
    """
    broker = cast("CodeBroker", run.broker)
    labels = {entry.name: f"{server.key}.{function}" for server in servers for function, entry in server.tools.items()}
    broker.files = frozenset(labels)
    if not automatic:
        broker.allowed = broker.files
        return await start()
    broker.allowed = frozenset(
        entry.name for server in servers for function, entry in server.tools.items() if server.automatic[function]
    )
    report = await look()
    if report.error is not None:
        return report
    manifest = cast("dict[str, Any]", cast("dict[str, Any]", report.value)["manifest"])
    named = {str(tool["name"]) for tool in manifest.get("tools", ())} & broker.files
    computed = bool(manifest.get("computedNames") or manifest.get("more", {}).get("calls"))
    needed = [label for name, label in labels.items() if name in named and name not in broker.allowed]
    if needed or computed:
        calls = [*needed, *([ANY_TOOL] if computed else [])]
        try:
            await _ask(run, calls, code)
        except CodeCallError as refused:
            listed = _listed(calls, [labels[name] for name in labels if name in broker.allowed])
            refused.hint = f"{listed}\n{refused.hint}" if refused.hint else listed
            return ExecutionResult(refused.status, error=refused)
        broker.allowed = broker.files if computed else broker.allowed | named
    return await start()


async def _ask(run: StartedRun, calls: list[str], code: str) -> None:
    """Return if a person allows the code.

    Raises:
        CodeCallError: nobody does.
    """
    if run.gate is None:
        raise ApprovalRequiredError(
            "The code was not run: it calls what a person has to allow, and there is nobody to ask",
            tool_name=EXECUTE_CODE,
            details={"calls": calls},
        )
    entry = CatalogEntry(EXECUTE_CODE, app_id="CodeCall", description="", input_schema={})
    await run.gate.ask(entry, {"calls": calls, "code": code.split("\n")})


def _listed(calls: Sequence[str], allowed: Sequence[str]) -> str:
    return f"A person has to allow: {_names(calls)}\nWithout a person code may call: {_names(allowed) or 'nothing'}"


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_LISTED_CALLS} more" if len(names) > MAX_LISTED_CALLS else ""
    return f"{', '.join(names[:MAX_LISTED_CALLS])}{more}"
