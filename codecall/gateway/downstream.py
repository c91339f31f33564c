"""What the gateway sends to its clients besides answers: that a list has changed, and instructions at the beginning."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

from codecall.gateway.upstream.bounds.initialize_result import MAX_TEXT_CHARS
from codecall.redaction.clean import well_formed

logger = logging.getLogger("codecall")

MAX_CHARS_EACH: Final = 1_500
"""Characters of one server's description, and of its instructions, that are passed on."""

MAX_CHARS: Final = 12_000
"""Characters of all instructions together."""


class ServerBlurb(NamedTuple):
    """What the instructions contain about one server."""

    name: str
    description: str | None
    """From the configuration."""
    instructions: str | None
    """From the server itself."""


def build_instructions(servers: Sequence[ServerBlurb], *, search: str | None) -> str:
    """The gateway's instructions: its servers, and what these say in turn, each within its own section.

    Args:
        servers: those behind the gateway.
        search: name of the meta-tool that finds tools; None where the tools themselves are listed.
    """
    names = ", ".join(server.name for server in servers) or "none yet"
    text = f"Tools of these servers are at hand, named after them: {names}."
    if search is not None:
        text += f" They are not listed one by one; {search} finds them."
    for index, server in enumerate(servers):
        parts = _shorten(server.description), _quote(server.instructions)
        body = "\n\n".join(part for part in parts if part)
        if not body:
            continue
        section = f"\n\n## {server.name}\n\n{body}"
        if len(text) + len(section) > MAX_CHARS:
            return f"{text}\n\n[what {len(servers) - index} more servers say of themselves is left out]"
        text += section
    return text


def _quote(text: str | None) -> str:
    """Each line with a mark before it, whatever separates lines. The marks count as the server's own characters."""
    lines = well_formed(text or "").strip().splitlines()
    # What was cut before is not counted: it has left the mark of that at the end.
    was_cut = text is not None and len(text) > MAX_TEXT_CHARS
    return _shorten("\n".join(f"> {line}".rstrip() for line in lines), was_cut=was_cut)


def _shorten(text: str | None, *, was_cut: bool = False) -> str:
    text = well_formed(text or "").strip()
    left_out = len(text) - MAX_CHARS_EACH
    if left_out <= 0:
        return text
    count = f"more than {left_out // 1000 * 1000:,}" if was_cut else left_out
    return f"{text[:MAX_CHARS_EACH]}… [shortened by {count} characters]"
