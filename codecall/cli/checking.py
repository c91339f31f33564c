"""Looking at scripts without running them: alone, or against the tools of servers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

from codecall.cli.choosing import Chosen
from codecall.sandbox.enclave import Enclave

JsonObject = dict[str, Any]
Look: TypeAlias = Callable[[str], Awaitable[JsonObject]]
"""Gives the envelope of a dry run of a script."""


def checker(preset: str | None, chosen: Chosen) -> AbstractAsyncContextManager[Look]:
    """What looks at scripts: against the tools of `chosen` where servers are named, else at the language alone."""
    return _among(preset, chosen) if chosen.named else _alone(preset)


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
async def _among(preset: str | None, chosen: Chosen) -> AsyncGenerator[Look]:
    from codecall.cli.gateways import opened, under_preset

    async with opened(under_preset(chosen.configuration().options, preset)) as gateway:

        async def look(script: str) -> JsonObject:
            return await gateway.ask("execute", {"script": script, "dryRun": True})

        yield look
