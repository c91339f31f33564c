"""The session with a server: FastMCP's own, but that it relays results unjudged and tells when it has ended."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, cast

import mcp_types
from mcp import ClientSession
from mcp.shared.message import SessionMessage

from codecall.gateway.passing import Passing

_Item = SessionMessage | Exception


class RelayingSession(ClientSession):
    """A session that asks `passing` about whatever the server sends besides results.

    Args:
        read: messages of the server.
        write: messages to it.
        passing: who answers and is told.
        ended: called once, when no more messages come.
        options: as for `ClientSession`.
    """

    def __init__(self, read: Any, write: Any, *, passing: Passing, ended: Callable[[], None], **options: Any) -> None:
        answers: dict[str, Any] = {
            "sampling_callback": passing.sample,
            "elicitation_callback": passing.elicit,
            "list_roots_callback": passing.roots,
            "logging_callback": passing.log,
            "message_handler": passing.notified,
            # Which logs a client wants stands in its own requests.
            "log_level": None,
        }
        super().__init__(cast("Any", _Watched(read, ended)), write, **{**options, **answers})

    async def validate_tool_result(self, name: str, result: mcp_types.CallToolResult) -> None:
        """Nothing: whoever uses the result judges it."""


class _Watched:
    """A stream of messages that tells when it is read no more."""

    def __init__(self, inner: Any, ended: Callable[[], None]) -> None:
        self._inner = inner
        self._ended = ended

    @property
    def last_context(self) -> Any:
        """Of whoever sent the last message, for streams that know it."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> _Item:
        return await self._inner.receive()

    async def aclose(self) -> None:
        self._ended()
        await self._inner.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> _Item:
        return await self._inner.__anext__()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended()
        await self._inner.__aexit__(kind, value, trace)
