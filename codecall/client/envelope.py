"""What a call of CodeCall answered."""

from __future__ import annotations

from typing import Any

from codecall.errors import CodeCallError, Location


class Envelope(dict[str, Any]):
    """The JSON object that a meta-tool answered with, as docs/agentscript.md has it; a `dict` like any other."""

    @property
    def ok(self) -> bool:
        """Whether nothing failed. The answers of search and describe have no status: they did not."""
        return self.get("status", "ok") == "ok"

    @property
    def error(self) -> CodeCallError | None:
        """What failed, with its code, message and hint; None where nothing did."""
        if self.ok:
            return None
        told: dict[str, Any] = self["error"]
        error = CodeCallError(told["message"], code=told["code"], hint=told.get("hint"))
        if place := told.get("location"):
            error.location, error.excerpt = Location(place["line"], place["column"]), place.get("text")
        return error

    @property
    def value(self) -> Any:
        """What the script or the tool gave. None for a result that is kept instead: `largeResult` says where.

        Raises:
            CodeCallError: it failed.
        """
        if (error := self.error) is not None:
            raise error
        return self.get("result")
