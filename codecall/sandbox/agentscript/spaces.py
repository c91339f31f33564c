"""Namespaces in a script: names that nobody declares, and behind which the server has tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

import msgspec

About: TypeAlias = Literal["tool", "space", "member"]
"""What a question is about; as in `wire.Ask`."""


class Ask(Protocol):
    """Asks whoever knows the tools; may block."""

    def __call__(self, name: str, about: About = "tool", member: str = "", /) -> str | None:
        """The answer as JSON text; None where there is no such tool."""
        ...


class Space(msgspec.Struct, frozen=True):
    """What there is behind a name."""

    members: dict[str, str] | None = None
    """Of a namespace: its first members, and the tools they stand for. None: there is no such namespace."""
    near: tuple[str, ...] = ()
    """Namespaces it may have been meant for."""
    tools: tuple[str, ...] = ()
    """Tools whose names begin with it, although it is no namespace."""
    listed: bool = True
    """Whether somebody knows all its tools. Otherwise any member does."""


FindSpaces: TypeAlias = Callable[[Sequence[str]], Mapping[str, Space]]
"""What there is behind each of some names."""

MAX_ASKED = 20
"""Most unknown names of one script that are looked for among the namespaces."""

_decode = msgspec.json.Decoder(Space).decode


def nobody(name: str, about: About = "tool", member: str = "", /) -> None:
    """Knows no tools."""
    del name, about, member


def spaces_of(ask: Ask) -> FindSpaces:
    """Finds namespaces by asking for one after the other."""

    def find(names: Sequence[str]) -> dict[str, Space]:
        return {name: Space() if (told := ask(name, "space")) is None else _decode(told) for name in names}

    return find


def no_spaces(names: Sequence[str]) -> dict[str, Space]:
    """Finds none."""
    del names
    return {}
