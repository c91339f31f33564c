"""What a script finds in namespaces: the tools that its caller may call, and none else."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from codecall.calls.access import AccessPolicy, View
from codecall.calls.names import shown
from codecall.errors import CodeCallError, ToolNotFoundError
from codecall.namespaces import Lookup


class Spaces:
    """The namespaces of one request.

    Args:
        view: the tools this caller can see.
        access: which of them may be called.
    """

    def __init__(self, view: View, access: AccessPolicy) -> None:
        self._view = view
        self._lookup = Lookup(access.permits, _near, shown)

    async def space(self, path: str) -> dict[str, object]:
        """Whether there is a namespace. See `ToolBroker.space`."""
        spaces = await self._view.namespaces()
        # Globs are compared with up to a thousand names.
        return await asyncio.to_thread(self._lookup.space, spaces, path)

    async def member(self, path: str, member: str) -> dict[str, object]:
        """What `path.member` is. See `ToolBroker.member`."""
        exists = not path and await self._view.find(member) is not None
        if exists:
            return {"tool": member}
        spaces = await self._view.namespaces()
        found = await asyncio.to_thread(self._lookup.member, spaces, path, member)
        return found.told()

    def missing(self, name: str) -> CodeCallError | None:
        """The error for a name that a namespace gave out for a tool it does not have."""
        found = self._lookup.missing(name)
        if found is None:
            return None
        hint = found.hint or "codecall:search finds tools by what they do."
        return ToolNotFoundError(found.message, tool_name=shown(name), hint=hint)


def _near(name: str, names: Sequence[str]) -> list[str]:
    from codecall.catalog.near import near_names  # loaded when a name is wrong

    return near_names(name, names)
