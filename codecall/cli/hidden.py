"""What access rules hide of servers' tools, and the lines of a configuration that allow it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from codecall.cli.output import Output, count_of
from codecall.globs import escape_glob
from codecall.wording import join_names

if TYPE_CHECKING:
    from codecall.cli.gateway import ServerInventory
    from codecall.gateway.tools.access import HideCode

MAX_NAMED: Final = 12
"""Most tools of one server that are named."""


class Rule(NamedTuple):
    """An access rule that hides tools."""

    reason: str
    """What is said of its tools."""
    line: str
    """The line that allows them, with their names for `{names}`."""


RULES: Final[Mapping[HideCode, Rule]] = MappingProxyType(
    {
        "asked": Rule("which may destroy something by what the server says", "destructive = {names}"),
        "destructive": Rule("which may destroy something by what the server says", "destructive = {names}"),
        "not_read_only": Rule("not said by the server to change nothing", "read_only = false"),
        "denied": Rule("named by `deny`", "deny = []"),
        "not_allowed": Rule("not named by `allow`", "allow = {names}  # and those that are there"),
    }
)
"""The rules by the code of what they hide. What else hides tools, no rule gets around."""


class HiddenTools(NamedTuple):
    """Tools of one server that one rule hides."""

    server: str
    code: HideCode
    tools: tuple[str, ...]

    @property
    def allow(self) -> str:
        """The lines that allow them, for `codecall.toml`."""
        names = json.dumps(list(map(escape_glob, self.tools)), ensure_ascii=False)
        return f"[servers.{self.server}.access]\n{RULES[self.code].line.format(names=names)}"

    def as_dict(self) -> dict[str, object]:
        """Returns it for an answer in JSON."""
        return {**self._asdict(), "tools": list(self.tools), "allow": self.allow}


def hidden_tools(servers: Iterable[ServerInventory]) -> list[HiddenTools]:
    """The tools that access rules hide, by server and rule."""
    return [
        HiddenTools(server.name, code, names)
        for server in servers
        for code in RULES
        if (names := tuple(item.name for item in server.hidden if item.kind == "tool" and item.code == code))
    ]


def print_hidden(output: Output, hidden: Sequence[HiddenTools]) -> None:
    """Say on stderr which tools access rules hide, and which lines allow them; nothing if there are none."""
    for each in hidden:
        count = count_of(len(each.tools), "tool")
        reason = RULES[each.code].reason
        verb = "Asked for, and hidden where nobody can be asked" if each.code == "asked" else "Hidden from models"
        output.note(f"{verb}: {count} of {each.server}, {reason}: {join_names(each.tools, MAX_NAMED)}.", "")
    if hidden:
        what = "What allows them, in the configuration (`codecall tools --all` has each reason):"
        output.note(what.replace("allows", "allows all calls of") if hidden[0].code == "asked" else what, "")
        for each in hidden:
            for line in each.allow.split("\n"):
                output.note(line, "cyan")
