"""Providers that know at each moment what they would list, as the gateway's do: `fingerprint` need not ask them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Protocol

from fastmcp.server.providers import Provider
from fastmcp.tools import Tool

_BOTH: Final = ("codecall_tools", "_list_tools")


class SaysItsTools(Protocol):
    """Such a provider. The class that has this attribute must have `_list_tools` too, so that no subclass lists
    anything else, and leave `list_tools` to FastMCP."""

    @property
    def codecall_tools(self) -> Sequence[Tool] | None:
        """The tools before any of its transforms: the same object, with nothing in it changed, for as long as it would
        list the same. None while that is not sure."""
        ...


def says_its_tools(provider: Provider) -> bool:
    """Whether this is such a provider."""
    return _says(type(provider))


@lru_cache(maxsize=1_000)
def _says(kind: type) -> bool:
    owners = [next((each for each in kind.__mro__ if name in vars(each)), None) for name in _BOTH]
    return owners[0] is not None and owners[0] is owners[1] and getattr(kind, "list_tools", None) is Provider.list_tools
