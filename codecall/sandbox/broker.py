"""The side of a broker that the sandbox sees. `calls/broker.py` implements it over FastMCP."""

from __future__ import annotations

from typing import Protocol


class ToolBroker(Protocol):
    """Performs the calls of one script, after checking each of them."""

    async def prepare(self) -> None:
        """Read ahead what the first call will need. Runs while the worker checks the script; may be cancelled."""
        ...

    async def call(self, name: str, arguments: dict[str, object]) -> str:
        """Perform one call and give the tool's value as JSON text.

        Raises:
            ToolCallError: every outcome that is not a success, under its own code.
            SelfReferenceError: `name` is a meta-tool; ends the script.
        """
        ...

    async def read(self, uri: str) -> str:
        """Read one resource and give its value as JSON text.

        Raises:
            ToolCallError: every outcome that is not a success, under its own code.
            SelfReferenceError: as for `call`.
        """
        ...

    async def prompt(self, name: str, arguments: dict[str, object]) -> str:
        """Render one prompt and give `{description, messages}` as JSON text.

        Raises:
            ToolCallError: every outcome that is not a success, under its own code.
            SelfReferenceError: as for `call`.
        """
        ...

    async def describe(self, name: str) -> dict[str, object] | None:
        """What `getTool(name)` sees: name, description, inputSchema, outputSchema; None when it may not be called."""
        ...
