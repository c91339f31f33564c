"""What the gateway tells clients about itself when they connect: its servers, and what these say in turn.

Clients put this before their model, as they do with what any server says. So what servers say is shortened, and stands
as a quotation below the name of the server that says it: no heading in it can pass for the name of another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from codecall.sanitizing import well_formed

MAX_CHARS_EACH: Final = 1_500
"""Of what one server says that are passed on."""

MAX_CHARS: Final = 12_000
"""Of all of it."""


class About(NamedTuple):
    """One server."""

    name: str
    description: str | None
    """What the configuration says of it."""
    instructions: str | None
    """What it says itself."""


def instructions(servers: Sequence[About], *, search: str | None) -> str:
    """The text.

    Args:
        servers: those behind the gateway.
        search: name of the meta-tool that finds tools; None where the tools themselves are listed.
    """
    names = ", ".join(server.name for server in servers) or "none yet"
    text = f"Tools of these servers are at hand, named after them: {names}."
    if search is not None:
        text += f" They are not listed one by one; {search} finds them."
    for number, server in enumerate(servers):
        said = "\n\n".join(part for part in (_shortened(server.description), _quoted(server.instructions)) if part)
        if not said:
            continue
        section = f"\n\n## {server.name}\n\n{said}"
        if len(text) + len(section) > MAX_CHARS:
            return f"{text}\n\n[what {len(servers) - number} more servers say of themselves is left out]"
        text += section
    return text


def _quoted(text: str | None) -> str:
    """Each line with a mark before it, whatever separates lines. The marks count as its own characters."""
    lines = well_formed(text or "").strip().splitlines()
    return _shortened("\n".join(f"> {line}".rstrip() for line in lines))


def _shortened(text: str | None) -> str:
    text = well_formed(text or "").strip()
    if len(text) <= MAX_CHARS_EACH:
        return text
    return f"{text[:MAX_CHARS_EACH]}… [shortened by {len(text) - MAX_CHARS_EACH} characters]"
