"""Which calls code may make without a person, as `tools_to_auto_execute` says: what it names is read from its tree in a
worker, and held to by the broker while it runs."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, cast

from anyio import to_thread

from codecall.calls.broker import Broker
from codecall.catalog.entries import CatalogEntry
from codecall.envelopes import ExecutionResult
from codecall.errors import AccessDeniedError, ApprovalRequiredError, CodeCallError, SelfReferenceError
from codecall.globs import display_name
from codecall.jsonio.decode import sha256
from codecall.meta_tools.runs import Run, StartedRun
from codecall.meta_tools.starlark.options import EXECUTE_CODE
from codecall.meta_tools.starlark.servers import ToolServer
from codecall.wording import join_names

MAX_LISTED_CALLS: Final = 50
"""Most tools that a refusal lists."""

ANY_TOOL: Final = "any tool: names are computed, or a server is used as a value"
"""Stands in a list of calls for those that are not known before the code runs."""


class ScriptBroker(Broker):
    """Performs the calls of a Starlark script: a tool that may not be called reads as one that does not exist, and
    there are no resources and prompts, whatever a worker asks for."""

    reads_components = False

    async def call(self, name: str, arguments: dict[str, object], *, max_bytes: int | None = None) -> str:
        """See `Broker.call`."""
        try:
            return await super().call(name, arguments, max_bytes=max_bytes)
        except (AccessDeniedError, SelfReferenceError):
            raise await self._access.not_found("tool", name) from None


class CodeBroker(ScriptBroker):
    """Performs the calls of code: those that were allowed of the tools that its view has."""

    allowed: frozenset[str] | None = frozenset()
    """The tools that it may call now; None: all of its view."""

    async def call(self, name: str, arguments: dict[str, object], *, max_bytes: int | None = None) -> str:
        """See `Broker.call`."""
        if self.allowed is None or name in self.allowed:
            return await super().call(name, arguments, max_bytes=max_bytes)
        if await self.find(name) is None:
            raise await self._access.not_found("tool", name)
        raise AccessDeniedError(
            f"Tool '{display_name(name)}' may not be called without a person",
            tool_name=display_name(name),
            hint="Name the tool in the code as server.tool(…), so that a person can be asked.",
        )


async def check_code(
    run: StartedRun,
    look: Run,
    start: Run,
    *,
    servers: Sequence[ToolServer],
    list_servers: Callable[[], Awaitable[Mapping[str, ToolServer]]],
    code: str,
    automatic: bool,
) -> ExecutionResult:
    """Run code that calls nothing but what it may call without a person; hand any other to one, or refuse it.

    Args:
        run: What it runs with.
        look: Looks at it without running it.
        start: Runs it.
        servers: What it may call at all.
        list_servers: Lists that anew, after a person was asked.
        code: Its text.
        automatic: Whether there are lists of what it may call without a person.
    """
    broker = cast("CodeBroker", run.broker)
    if not automatic:
        broker.allowed = None
        return await start()
    alone = {
        f"{server.key}.{function}": entry.name
        for server in servers
        for function, entry in server.tools.items()
        if server.automatic[function]
    }
    broker.allowed = frozenset(alone.values())
    report = await look()
    if report.error is not None:
        return report
    manifest = cast("dict[str, Any]", cast("dict[str, Any]", report.value)["manifest"])
    named = {str(tool["name"]) for tool in manifest.get("tools", ())}
    computed = bool(manifest.get("computedNames") or manifest.get("more", {}).get("calls"))
    asked = _asked(servers)
    needed = {label: entry for label, entry in asked.items() if entry.name in named}
    if needed or computed:
        calls = [*needed, *([ANY_TOOL] if computed else [])]
        try:
            versions = await _versions(asked if computed else needed)
            await _ask(run, calls, code, versions)
            now = _asked(list((await list_servers()).values()))
            now = now if computed else {label: now[label] for label in needed if label in now}
            _check_unchanged(versions, await _versions(now))
        except CodeCallError as refused:
            listed = _listed(calls, list(alone))
            refused.hint = f"{listed}\n{refused.hint}" if refused.hint else listed
            return ExecutionResult(refused.status, error=refused)
        broker.allowed = None if computed else broker.allowed | {entry.name for entry in needed.values()}
    return await start()


def _asked(servers: Sequence[ToolServer]) -> dict[str, CatalogEntry]:
    """The tools that a person has to allow, as code writes them."""
    return {
        f"{server.key}.{function}": entry
        for server in servers
        for function, entry in server.tools.items()
        if not server.automatic[function]
    }


async def _versions(tools: Mapping[str, CatalogEntry]) -> dict[str, str]:
    """What an approval of code that calls these tools is bound to: whose they are, and what they say of themselves."""
    from codecall.approvals.request import entry_version  # loaded where somebody is asked

    def read() -> dict[str, str]:
        return {label: entry_version(tool) for label, tool in tools.items()}

    return await to_thread.run_sync(read)


async def _ask(run: StartedRun, calls: list[str], code: str, versions: Mapping[str, str]) -> None:
    """Return if a person allows the code, to call tools of these versions.

    Raises:
        CodeCallError: nobody does.
    """
    if run.gate is None:
        raise ApprovalRequiredError(
            "The code was not run: it calls what a person has to allow, and there is nobody to ask",
            tool_name=EXECUTE_CODE,
            details={"calls": calls},
        )
    version = sha256(json.dumps(versions, sort_keys=True))
    entry = CatalogEntry(EXECUTE_CODE, app_id="CodeCall", description="", input_schema={}, version=version)
    await run.gate.ask(entry, {"calls": calls, "code": code.split("\n")})


def _check_unchanged(asked: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Raise ApprovalRequiredError where tools are not what they were when a person was asked about them."""
    changed = sorted(label for label in asked.keys() | now.keys() if asked.get(label) != now.get(label))
    if changed:
        raise ApprovalRequiredError(
            f"The code was not run: tools have changed since a person was asked about it: {_names(changed)}",
            tool_name=EXECUTE_CODE,
            details={"calls": changed[:MAX_LISTED_CALLS]},
            hint="Read their files again, then send the code again: a person is asked about what they are now.",
        )


def _listed(calls: Sequence[str], allowed: Sequence[str]) -> str:
    return f"A person has to allow: {_names(calls)}\nWithout a person code may call: {_names(allowed) or 'nothing'}"


def _names(names: Sequence[str]) -> str:
    return join_names(names, MAX_LISTED_CALLS)
