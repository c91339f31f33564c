"""The scripts that a worker has prepared: one that comes again under the same limits is not parsed, validated and
instrumented again.

A worker has one owner, so no caller finds another one's scripts here. What is remembered is what the validator and the
instrumentation gave for exactly this text; a script that they refused is not remembered.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from codecall.sandbox import wire
from codecall.sandbox.agentscript.analysis.calls import build_plan
from codecall.sandbox.agentscript.checked import ScriptForm
from codecall.sandbox.agentscript.instrument import InstrumentedScript, instrument
from codecall.sandbox.agentscript.policy import Rules
from codecall.sandbox.agentscript.validate import validate_script
from codecall.sandbox.agentscript.validator.names import FindNamespaces, NamespaceInfo

MAX_SCRIPTS: Final = 64
"""Scripts that are remembered; the one unused for longest goes first."""

MAX_CHARS: Final = 256 * 1024
"""Characters of all of them. What is remembered takes some ten times the room."""


class PreparedScript(NamedTuple):
    """A script that may run."""

    program: InstrumentedScript
    form: ScriptForm
    """What its value is; see `CheckedScript.form`."""
    namespaces: Mapping[str, Mapping[str, str]]
    """The namespaces it uses; see `CheckedScript.namespaces`."""
    plan: wire.Plan | None
    """The calls that it is certain to make."""


class _Entry(NamedTuple):
    script: PreparedScript
    found_namespaces: Mapping[str, NamespaceInfo]
    """What the host knew about the names that were looked up for it."""


class ScriptCache:
    """Prepares scripts, and remembers them."""

    def __init__(self) -> None:
        self._entries: OrderedDict[tuple[str, wire.Limits, bool], _Entry] = OrderedDict()
        self._chars = 0

    def prepare(self, start: wire.Start, find_namespaces: FindNamespaces) -> PreparedScript:
        """Prepare the script of `start`.

        Args:
            start: the script and its limits.
            find_namespaces: looks up namespaces. It is asked again about those of a remembered script, which is used
                only where the answers are the same.

        Raises:
            InvalidScript: the script must not run.
        """
        key = (start.script, start.limits, start.coverage)
        if (entry := self._entries.get(key)) is not None:
            names = list(entry.found_namespaces)
            if not names or find_namespaces(names) == entry.found_namespaces:
                self._entries.move_to_end(key)
                return entry.script
        found: dict[str, NamespaceInfo] = {}

        def find_and_note(names: Sequence[str]) -> Mapping[str, NamespaceInfo]:
            infos = find_namespaces(names)
            found.update(infos)
            return infos

        script = _prepare(start, find_and_note)
        self._add(key, _Entry(script, found))
        return script

    def _add(self, key: tuple[str, wire.Limits, bool], entry: _Entry) -> None:
        if key not in self._entries:
            self._chars += len(key[0])
        self._entries[key] = entry
        while len(self._entries) > MAX_SCRIPTS or self._chars > MAX_CHARS:
            (text, _, _), _ = self._entries.popitem(last=False)
            self._chars -= len(text)


def _prepare(start: wire.Start, find_namespaces: FindNamespaces) -> PreparedScript:
    limits = start.limits
    text, checked = validate_script(
        start.script, Rules.from_limits(limits), coverage=start.coverage, find_namespaces=find_namespaces
    )
    return PreparedScript(
        instrument(text, checked, max_iterations=limits.max_iterations),
        checked.form,
        checked.namespaces,
        build_plan(checked.outline),
    )
