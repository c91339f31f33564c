"""How scripts write the names of tools: `users.list` for `users:list`.

A namespace is what stands before a `:`, `.` or `/` in a tool's name; or the tool's app. What follows is the member:
`create_issue` for `github_create_issue` of a server that is mounted as `github`, the whole name where it does not begin
with the app. A path leads to a namespace: `github`, or `github.issues` for what begins `github/issues/`. Characters
that no JavaScript name may have are written as `_`; a member also goes by its own spelling, in brackets. A tool whose
name is a JavaScript name is a function of that name.

A namespace that is called as a server is called belongs to that server, whatever separators the two are written with:
tools of others are not in it, whatever they are called. Which server a tool is of is its `owner`, which follows from
how the servers are mounted and never from what one of them says of itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import islice
from typing import Final, NamedTuple

from codecall.sandbox.agentscript.policy import NEVER_MEMBERS, is_meta_tool

SEPARATORS: Final = (":", ".", "/", "-", "_")
"""What may stand between a namespace and a member, best first: where two tools could be meant, the first decides."""

MAX_NAME_CHARS: Final = 256
"""Longest name of a tool that is written so, in characters; no script may use longer ones."""

MAX_DEPTH: Final = 4
"""Most namespaces one name is in, each inside the one before."""

MAX_CANDIDATES: Final = 20
"""Most tools of one spelling that are looked at."""

MAX_LISTED: Final = 10
"""Most members that a message lists."""

MAX_TABLE: Final = 100
"""Most members of a namespace that a script receives in advance."""

MAX_NAMES: Final = 200
"""Most names of tools that a script receives when it lists those of `tools`."""

MAX_MISSING: Final = 100
"""Most missing members of one script that are explained one by one."""

_BY_APP: Final = len(SEPARATORS)
"""Rank of a tool whose name does not begin with its app: after those whose names do."""

_SPLIT = re.compile(r"[:./]")
_NO_LETTER = re.compile(r"[\W_]+")
_NO_NAME = re.compile(r"[^\w$]")

Permits = Callable[[str], bool]
"""Whether the tool of a name may be called."""


class Ambiguous(NamedTuple):
    """Several tools that one spelling stands for, none before the others."""

    tools: tuple[str, ...]


class _Tool(NamedTuple):
    rank: int
    """By its separator."""
    name: str
    owner: str


@dataclass(slots=True)
class _Namespace:
    """One namespace."""

    own: dict[str, list[_Tool]] = field(default_factory=dict[str, list[_Tool]])
    """By member, in the tool's own spelling."""
    written: dict[str, list[_Tool]] = field(default_factory=dict[str, list[_Tool]])
    """By member, as a script writes it."""


def javascript_name(text: str) -> str:
    """`text` as a JavaScript name: other characters are `_`."""
    name = _NO_NAME.sub("_", text)
    return f"_{name}" if name[:1].isdigit() else name


def _is_readable(member: str) -> bool:
    """Whether a script can read it of a namespace."""
    return member not in NEVER_MEMBERS


def namespace_path(text: str) -> str:
    """The path to what is called `text`: its parts as JavaScript names, with dots between them."""
    return ".".join(javascript_name(part) for part in _SPLIT.split(text))


@lru_cache(maxsize=1_000)
def fold_name(text: str) -> str:
    """`text` in the form in which names of servers and namespaces are compared: separators and letter case are one."""
    return _NO_LETTER.sub("_", text).strip("_").casefold()


class Namespaces:
    """The namespaces of some tools. About 6 microseconds and half a kilobyte for each tool.

    Args:
        owners: the servers by which tools may be owned: namespaces of mounts and names of servers.
        home: the one of them that the others are mounted on. Its own tools may say which app they belong to.
    """

    def __init__(self, owners: Iterable[str] = (), home: str = "") -> None:
        self._namespaces: dict[str, _Namespace] = {}
        self._names: dict[str, tuple[str, str]] = {}
        """The names of the tools, with owner and app."""
        self._home = home
        self._owners: dict[str, dict[str, set[str]]] = {}
        """By folded name: the servers and apps of that name, and which owners' tools are in their namespaces."""
        for owner in (*owners, home):
            self._add_owner(owner, owner)

    @classmethod
    def from_tools(cls, tools: Iterable[tuple[str, str]]) -> Namespaces:
        """The namespaces of tools given as name and app."""
        namespaces = cls()
        for name, app_id in tools:
            namespaces.add(name, app_id)
        return namespaces

    def add(self, name: str, app_id: str = "", owner: str | None = None) -> None:
        """Put in one tool; a meta-tool of CodeCall is left out.

        Args:
            name: its name.
            app_id: its app.
            owner: the server it is of; None: its app.
        """
        if len(name) > MAX_NAME_CHARS or is_meta_tool(name):
            return
        owner = app_id if owner is None else owner
        self._names[name] = owner, app_id
        self._add_owner(owner, owner)
        if owner == self._home:
            self._add_owner(app_id, owner)
        for before, separator, member in _split_name(name, app_id, owner):
            path = namespace_path(before)
            if path.partition(".")[0].casefold() == "codecall":
                continue
            entry = self._namespaces.setdefault(path, _Namespace())
            tool = _Tool(SEPARATORS.index(separator) if separator else _BY_APP, name, owner)
            entry.own.setdefault(member, []).append(tool)
            entry.written.setdefault(javascript_name(member), []).append(tool)

    def _add_owner(self, name: str, owner: str) -> None:
        if name:
            self._owners.setdefault(fold_name(name), {}).setdefault(name, set()).add(owner)

    def _owners_of(self, path: str) -> set[str] | None:
        """The owners whose tools may be in a namespace; None where it has no owner."""
        parts = path.split(".")
        for end in range(len(parts), 0, -1):
            before = ".".join(parts[:end])
            named = self._owners.get(fold_name(before))
            if named is not None:
                exact = named.get(before)
                if exact is not None:
                    return exact
                written = [name for name in named if namespace_path(name) == before] or list(named)
                # Where two servers are written alike, the name is ambiguous.
                return named[written[0]] if len(written) == 1 else set()
        return None

    def _tools(self, path: str, member: str) -> list[_Tool]:
        """The tools that `path.member` may stand for: in the member's own spelling, else written so."""
        entry = self._namespaces.get(path)
        if entry is None:
            return []
        found = entry.own.get(member) or entry.written.get(member) or []
        if not found and member in self._names:
            # `github.github_create_issue`, as search shows name and app
            owner, app_id = self._names[member]
            found = [_Tool(_BY_APP, member, owner)] if path in map(namespace_path, (app_id, owner)) else []
        owners = self._owners_of(path)
        return found if owners is None else [tool for tool in found if tool.owner in owners]

    def is_function(self, name: str) -> bool:
        """Whether a tool is a function of that name: it is its whole name, and does not read as a tool of another
        server."""
        return name in self._names and javascript_name(name) == name and not self.reads_as_another(name)

    def reads_as_another(self, name: str) -> bool:
        """Whether one of the tools is named as those of another server are; tools of the server itself never are."""
        owner, _ = self._names.get(name, (self._home, ""))
        return owner != self._home and self.is_foreign(name, owner)

    @cached_property
    def foreign(self) -> frozenset[str]:
        """The tools that read as another server's, of those there are when it is first read: 3 microseconds each."""
        return frozenset(filter(self.reads_as_another, self._names))

    def is_foreign(self, name: str, owner: str) -> bool:
        """Whether the name of a tool of `owner` begins like the name of another server."""
        parts = fold_name(name).split("_")
        for end in range(len(parts) - 1, 0, -1):
            if (named := self._owners.get("_".join(parts[:end]))) is not None:
                exact = [other for other in named if name.startswith(other)] or list(named)
                return not any(owner in named[other] for other in exact)
        return False

    def is_misread(self, name: str) -> bool:
        """Whether `name` is that of a server, and the path to it leads to another one: `my-bank` where there is a
        `my_bank`, too."""
        named = self._owners.get(fold_name(name), {})
        return name in named and self._owners_of(namespace_path(name)) != named[name]

    def __contains__(self, path: str) -> bool:
        entry = self._namespaces.get(path)
        if entry is None:
            return False
        owners = self._owners_of(path)
        return owners is None or any(tool.owner in owners for tools in entry.own.values() for tool in tools)

    def roots(self) -> list[str]:
        """The namespaces that are in no other, in the order in which they came."""
        return [path for path in self._namespaces if "." not in path and path in self]

    def tools_with_prefix(self, word: str) -> Iterator[str]:
        """The tools whose names begin with `word` and a separator, in the order in which they came, without those that
        read as another server's."""
        heads = tuple(f"{word}{separator}" for separator in SEPARATORS)
        return (name for name in self._names if name.startswith(heads) and not self.reads_as_another(name))

    def members(self, path: str) -> list[str]:
        """What a script may write behind `path` and a dot, in the order in which it came."""
        entry = self._namespaces.get(path)
        own = [member for member in entry.own if self._tools(path, member)] if entry else ()
        names = dict.fromkeys(self._display_path(path, member) for member in own)
        return [name for name in names if _is_readable(name)]

    def _display_path(self, path: str, member: str) -> str:
        """How a message writes a member: by way of the namespaces inside, where there are any."""
        inner = namespace_path(member)
        return inner if f"{path}.{inner}".rpartition(".")[0] in self else javascript_name(member)

    def resolve(self, path: str, member: str, permits: Permits) -> str | Ambiguous | None:
        """The name of the tool that `path.member` stands for; None when there is none.

        A member in its own spelling comes before one that is only written so, a tool that may be called before one that
        may not, and then the separator decides.
        """
        found = self._tools(path, member)[:MAX_CANDIDATES]
        if not found:
            return None
        if len(found) == 1:
            return found[0].name
        usable = [tool for tool in found if permits(tool.name)] or found
        first = min(tool.rank for tool in usable)
        names = tuple(dict.fromkeys(tool.name for tool in usable if tool.rank == first))
        return names[0] if len(names) == 1 else Ambiguous(names)

    def names(self, permits: Permits) -> list[str]:
        """The names of the tools that may be called, in the order in which they came."""
        return [name for name in self._names if permits(name)]

    def table(self, path: str, permits: Permits) -> dict[str, str]:
        """The first `MAX_TABLE` members of a namespace that are one tool each, which may be called; with its name."""
        table: dict[str, str] = {}
        entry = self._namespaces.get(path)
        for member in entry.written if entry else ():
            tool = self.resolve(path, member, permits)
            if isinstance(tool, str) and permits(tool) and _is_readable(member):
                table[member] = tool
                if len(table) == MAX_TABLE:
                    break
        return table


class NamespaceMember(NamedTuple):
    """A member of a namespace: exactly one of the three fields is set."""

    tool: str = ""
    """The name of a tool."""
    namespace: str = ""
    """The path of a namespace inside."""
    missing: str = ""
    """A name that no tool has. A call under it fails, and `NamespaceLookup.missing` says why."""

    def as_dict(self) -> dict[str, object]:
        """What `ToolBroker.member` answers."""
        answer = {"tool": self.tool, "space": self.namespace, "missing": self.missing}
        return {key: value for key, value in answer.items() if value}


class MissingMember(NamedTuple):
    """Why a call of a missing member of a namespace fails."""

    message: str
    hint: str | None


class NamespaceLookup:
    """Looks up members of namespaces for one script.

    Args:
        permits: Returns whether the tool of a name may be called.
        suggest: Returns those of some names that a misspelled one may stand for, best first.
        display: Returns the form in which a message repeats a text of the script.
    """

    def __init__(
        self,
        permits: Permits,
        suggest: Callable[[str, Sequence[str]], list[str]],
        display: Callable[[str], str] = str,
    ) -> None:
        self._permits = permits
        self._suggest = suggest
        self._display = display
        self._missing: dict[str, MissingMember] = {}

    def namespace(self, namespaces: Namespaces, path: str) -> dict[str, object]:
        """What `ToolBroker.namespace` answers; the empty path is `tools`, whose members are the tools' names."""
        if not path:
            names = namespaces.names(self._permits)
            more = [f"… and {len(names) - MAX_NAMES} more"] if len(names) > MAX_NAMES else []
            return {"members": {name: name for name in (*names[:MAX_NAMES], *more)}}
        itself = {"": path} if namespaces.is_function(path) else {}
        if itself or path in namespaces:
            return {"members": itself | namespaces.table(path, self._permits)}
        tools = [name for name in islice(namespaces.tools_with_prefix(path), MAX_CANDIDATES) if self._permits(name)]
        return {"near": self._suggest(path, namespaces.roots()), "tools": tools[:1]}

    def member(self, namespaces: Namespaces, path: str, member: str, *, exists: bool = False) -> NamespaceMember:
        """What `path.member` is. A member of the empty path is a tool of that very name, if that `exists`."""
        inside = f"{path}.{namespace_path(member)}" if path else namespace_path(member)
        if not path:
            if exists:
                return NamespaceMember(tool=member)
            found = inside in namespaces and not namespaces.is_misread(member)
            return NamespaceMember(namespace=inside) if found else NamespaceMember(missing=member)
        tool = namespaces.resolve(path, member, self._permits)
        if isinstance(tool, str):
            return NamespaceMember(tool=tool)
        if inside in namespaces:
            return NamespaceMember(namespace=inside)
        name = f"{path}.{member}"
        if name not in self._missing and len(self._missing) < MAX_MISSING:
            self._missing[name] = (
                self._explain_missing(namespaces, path, member) if tool is None else self._explain_ambiguous(name, tool)
            )
        return NamespaceMember(missing=name)

    def missing(self, name: str) -> MissingMember | None:
        """Why a call under `name` fails, if that is a name a namespace gave out for a tool it does not have."""
        return self._missing.get(name)

    def _explain_missing(self, namespaces: Namespaces, path: str, member: str) -> MissingMember:
        message = f"{self._display(path)} has no tool '{self._display(member)}'"
        owner, meant = path, member
        while owner not in namespaces and "." in owner:
            # `github.issues.list` may be meant for `github.issues_list`.
            owner, _, last = owner.rpartition(".")
            meant = f"{last}_{meant}"
        members = namespaces.members(owner)
        similar = [meant] if meant in members else self._suggest(meant, members)
        near = [name for name in similar if self._callable(namespaces, owner, name)]
        first = [name for name in members[:MAX_TABLE] if name not in near]
        others = near + [name for name in first if self._callable(namespaces, owner, name)]
        if others:
            listed = others[:MAX_LISTED]
            more = len(others) - len(listed) + max(0, len(members) - MAX_TABLE)
            rest = f" and {more} more" if more else ""
            has = "it has" if owner == path else f"{self._display(owner)} has"
            message += f"; {has}: {', '.join(map(self._display, listed))}{rest}"
        hint = f"Did you mean {self._display(owner)}.{self._display(near[0])}?" if near else None
        return MissingMember(message, hint)

    def _callable(self, namespaces: Namespaces, path: str, member: str) -> bool:
        """Whether a member, as a message writes it, leads to a tool that may be called."""
        inner, _, last = f"{path}.{member}".rpartition(".")
        tool = namespaces.resolve(inner, last, self._permits)
        return isinstance(tool, str) and self._permits(tool)

    def _explain_ambiguous(self, name: str, found: Ambiguous) -> MissingMember:
        listed = ", ".join(f"'{self._display(tool)}'" for tool in found.tools[:MAX_LISTED])
        hint = f"Call the one you mean by its own name: tools['{self._display(found.tools[0])}'](…)."
        return MissingMember(f"{self._display(name)} may be any of the tools {listed}", hint)


def _split_name(name: str, app_id: str, owner: str) -> Iterator[tuple[str, str, str]]:
    """The ways to divide a name: what is before, the separator (none: the name does not begin so), and the member."""
    heads = set[str]()
    for depth, found in enumerate(_SPLIT.finditer(name)):
        before, member = name[: found.start()], name[found.end() :]
        if depth < MAX_DEPTH and member and all(_SPLIT.split(before)):
            heads.add(before)
            yield before, found[0], member
    for app in dict.fromkeys((app_id, owner)):
        size = len(app)
        head, separator, member = name[:size], name[size : size + 1], name[size + 1 :]
        if separator in {"_", "-"} and member and head.casefold() == app.casefold():
            for before in dict.fromkeys((head, app)):
                heads.add(before)
                yield before, separator, member
    if app_id and app_id not in heads and all(_SPLIT.split(app_id)):
        yield app_id, "", name
