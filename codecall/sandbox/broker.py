"""The side of a broker that the sandbox sees. `calls/broker.py` implements it over FastMCP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from codecall.sandbox.known import Mistake


class ToolBroker(Protocol):
    """Performs the calls of one script, after checking each of them."""

    async def prepare(self) -> None:
        """Read ahead what the first call will need. Runs while the worker checks the script; may be cancelled."""
        ...

    async def call(self, name: str, arguments: dict[str, object], *, max_bytes: int | None = None) -> str:
        """Perform one call and give the tool's value as JSON text.

        Args:
            name: of the tool.
            arguments: its input.
            max_bytes: how long that text may be, where the script is not given it; None: as the broker has it.

        Raises:
            ToolCallError: every outcome that is not a success, under its own code.
            SelfReferenceError: `name` is a meta-tool; ends the script.
        """
        ...

    async def read(self, uri: str, *, max_bytes: int | None = None) -> str:
        """Read one resource and give its value as JSON text. `max_bytes`: as for `call`.

        Raises:
            ToolCallError: every outcome that is not a success, under its own code.
            SelfReferenceError: as for `call`.
        """
        ...

    async def prompt(self, name: str, arguments: dict[str, object], *, max_bytes: int | None = None) -> str:
        """Render one prompt and give `{description, messages}` as JSON text. `max_bytes`: as for `call`.

        Raises:
            ToolCallError: every outcome that is not a success, under its own code.
            SelfReferenceError: as for `call`.
        """
        ...

    async def foresee(self, name: str, known: Mapping[str, object]) -> Mistake | None:
        """What is sure to be wrong with a call, found out before it is made and without making it; None where nothing
        is, and for a name that may not be called or is none.

        Args:
            name: of the tool.
            known: what is known of its input, with gaps as `known.py` has them.
        """
        ...

    async def unreachable(self, name: str) -> Mistake | None:
        """Why no call of that name would reach a tool; None where it would."""
        ...

    async def describe(self, name: str) -> dict[str, object] | None:
        """What `getTool(name)` sees: name, description, inputSchema, outputSchema; None when it may not be called."""
        ...

    async def space(self, path: str) -> dict[str, object]:
        """Whether there is a namespace: `{"members": {"list": "users:list", …}}` with the first members and the tools
        they stand for, and `"listed": false` where any member would do. Else `{"near": [namespaces], "tools": [names]}`
        with what may have been meant, and what begins so all the same.

        Raises:
            ToolCallError: the server could not be asked.
        """
        ...

    async def member(self, path: str, member: str) -> dict[str, object]:
        """What `path.member` is: `{"tool": name}`, or `{"space": path}` of a namespace inside; else
        `{"missing": name}`, a name under which a call fails and says what there is. The empty path has every tool under
        its own name.

        Raises:
            ToolCallError: the server could not be asked.
        """
        ...
