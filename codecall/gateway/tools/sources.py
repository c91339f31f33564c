"""Tools that a caller misses: a server that has not listed yet is named, and one that has is listed anew."""

from __future__ import annotations

from collections.abc import Mapping

from codecall.gateway.tools.provider import ServerProvider

MAX_NAMED = 5
"""Most servers that one answer names."""


class MissingTools:
    """Says why a tool may be missing; a `codecall.catalog.view.ToolSources`.

    Args:
        providers: what is known of each server, by name.
        for_operator: whether who asks may know which tools are hidden.
    """

    def __init__(self, providers: Mapping[str, ServerProvider], *, for_operator: bool = False) -> None:
        self._providers = providers
        self._for_operator = for_operator

    async def retry_lookup(self, name: str) -> bool:
        """Whether there is a tool of that name after all, once its server was listed anew."""
        server = self._server_of(name)
        return server is not None and await self._providers[server].has_after_listing(name[len(server) + 1 :])

    def unlisted(self, name: str | None = None) -> list[str]:
        """A sentence for each server that has not listed its tools; with a name only those that may have the tool. An
        operator is told of a tool that is hidden, too."""
        server = self._server_of(name) if name is not None else None
        if self._for_operator and server is not None and name is not None and self._is_hidden(server, name):
            return [f"'{name}' is hidden: `codecall tools --all` says why."]
        names = [each for each, provider in self._providers.items() if provider.is_missing]
        if server is not None:
            names = [each for each in names if each == server]
        sentences = [self._sentence(each) for each in names[:MAX_NAMED]]
        more = len(names) - MAX_NAMED
        return [*sentences, *([f"{more} more servers have not listed their tools."] if more > 0 else [])]

    def _sentence(self, server: str) -> str:
        failure = self._providers[server].failure
        if failure is None:
            return f"Server '{server}' is still starting, and its tools are not known yet; try again."
        reason = failure.removeprefix(f"Server '{server}' is not available: ").rstrip(".")
        return f"Server '{server}' could not be listed, so its tools are missing: {reason}."

    def _is_hidden(self, server: str, name: str) -> bool:
        return any(each.kind == "tool" and f"{server}_{each.name}" == name for each in self._providers[server].hidden)

    def _server_of(self, name: str) -> str | None:
        """The server that a name reads as a tool of: the longest that it begins with."""
        return max((each for each in self._providers if name.startswith(f"{each}_")), key=len, default=None)
