"""Flows between servers: which calls carry what other tools have returned in the same run.

What a tool returned is followed as fingerprints: of its texts, cut into blocks of `BLOCK` characters, and of its arrays
and objects. The input of a later call is searched for them, its texts at every character. So a text of `BLOCK`
characters or more is found wherever it is passed on whole, and a part of one wherever the part is at least
`2 * BLOCK - 1` characters long; letter case and blanks do not count. `fingerprints.py` says what counts as the same.
What a script computes from a value is not found.

Nothing is compared with what the script or the tool's own schema says: that did not come from a tool. All of it is
bounded. Where a bound is reached, a call counts as carrying what can be followed no longer.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from anyio import to_thread

from codecall.approvals.fingerprints import JsonContent, TooMuch, blocks, windows
from codecall.approvals.options import ApprovalAction, FlowRule
from codecall.catalog.entries import CatalogEntry
from codecall.concurrency import ThreadLimit
from codecall.envelopes import CallRecord
from codecall.globs import Patterns
from codecall.jsonio.decode import read_json

MAX_FOLLOWED_CHARS: Final = 1024 * 1024
"""Most characters of values, as JSON, that one run follows: some 10 MB of fingerprints at worst."""

MAX_COMPARED_CHARS: Final = 4 * 1024 * 1024
"""Most characters of inputs that one run compares with them: half a second of a thread."""

MAX_FINGERPRINTS: Final = 200_000
"""Most fingerprints of one run."""

MAX_COMPARING_THREADS: Final = 2
"""Threads of one event loop that compare at a time, apart from those in which tools run: these may hold all theirs."""

_COMPARING: Final = ThreadLimit("codecall_comparisons", MAX_COMPARING_THREADS)

_STRICTNESS: Final[Mapping[ApprovalAction, int]] = {"allow": 0, "ask": 1, "deny": 2}


class FlowRuling(NamedTuple):
    """What the rules say of what one call carries."""

    action: ApprovalAction
    rule: int = 0
    """Number of the rule that says so, from 1; 0: no rule applies."""
    sources: tuple[str, ...] = ()
    """The tools, resources or prompts whose values it carries, of those that the action is for."""


NO_FLOW: Final = FlowRuling("allow")


class FlowRules:
    """The option `flows`, compiled once.

    Args:
        rules: The rules, in order.
    """

    def __init__(self, rules: Sequence[FlowRule]) -> None:
        self._rules: list[tuple[int, Patterns, Patterns, ApprovalAction]] = [
            (number, Patterns(rule.source), Patterns(rule.to), rule.action) for number, rule in enumerate(rules, 1)
        ]

    def follows(self, source: str) -> bool:
        """Whether a rule is about what this tool returns."""
        return any(given.matches(source) for _, given, _, _ in self._rules)

    def concern(self, target: str) -> bool:
        """Whether a rule is about what this tool is given."""
        return any(taken.matches(target) for _, _, taken, _ in self._rules)

    def ruling(self, sources: Sequence[str], target: str) -> FlowRuling:
        """What the rules say of a call that carries values of these tools: for each the first rule that applies, and
        of those the strictest."""
        strictest = NO_FLOW
        for source in sources:
            for number, given, taken, action in self._rules:
                if given.matches(source) and taken.matches(target):
                    if action == strictest.action and strictest.rule:
                        strictest = strictest._replace(sources=(*strictest.sources, source))
                    elif _STRICTNESS[action] > _STRICTNESS[strictest.action]:
                        strictest = FlowRuling(action, number, (source,))
                    break
        return strictest


class ValueFlow:
    """Follows the values of one run.

    Args:
        rules: Which values are followed, and to where.
        script: The script of the run; empty if it has none.
        outer: Follows the values of the run inside of which this one is, and the call that it is made by.
    """

    def __init__(self, rules: FlowRules, script: str, outer: tuple[ValueFlow, int] | None = None) -> None:
        self._rules = rules
        self._outer = outer
        self._script = script
        self._written: frozenset[int] | None = None
        """The windows of the script, once they are needed."""
        self._sources: list[str] = []
        """Names of what has given values; a set of them is an integer, with a bit for each."""
        self._pending: deque[tuple[str, int]] = deque()
        """Values of which no fingerprints have been taken yet, as JSON, with their sources."""
        self._chars = 0
        self._seen: dict[int, int] = {}
        """The sources of each fingerprint."""
        self._lost = 0
        """Sources of values that are not followed, since there are too many."""
        self._unread = 0
        """The same, of values of which a thread could not take the fingerprints."""
        self._inherited: dict[int, set[str]] = {}
        """The sources that runs inside of calls have followed, by the number of the call."""
        self._compared = 0
        self._turn = asyncio.Lock()
        self._in_thread = threading.Lock()
        """Held by the thread that compares: it may go on after the call that it does so for was given up."""

    def note(self, record: CallRecord, value: str) -> None:
        """Follow the value of a call from now on, which a script is about to get."""
        names = {record.read_as or record.name, *self._inherited.pop(record.number, ())}
        if record.called == "extract":
            # A model has made it of what it was given, which may be anything that the script has, or was given.
            names = self._all_sources()
        sources = 0
        for name in names:
            sources |= self._source(name)
        if not sources:
            return
        if self._chars + len(value) > MAX_FOLLOWED_CHARS:
            self._lost |= sources
            return
        self._chars += len(value)
        self._pending.append((value, sources))

    def _source(self, name: str) -> int:
        """The bit of a source; 0 if no rule is about it."""
        if name not in self._sources:
            if not self._rules.follows(name):
                return 0
            self._sources.append(name)
        if self._outer is not None:
            outer, call = self._outer
            outer._inherited.setdefault(call, set()).add(name)
        return 1 << self._sources.index(name)

    def _all_sources(self) -> set[str]:
        """What has given values to this run, and to those outside of it."""
        return {*self._sources, *(self._outer[0]._all_sources() if self._outer is not None else ())}

    async def ruling(self, entry: CatalogEntry, arguments: Mapping[str, object]) -> FlowRuling:
        """What the rules say of a call with these arguments."""
        if not self._rules.concern(entry.name):
            return NO_FLOW
        return self._rules.ruling(await self._carried(entry, arguments), entry.name)

    async def _carried(self, entry: CatalogEntry, arguments: Mapping[str, object]) -> list[str]:
        """The sources of what a call carries, those of the runs outside of this one included."""
        carried: list[str] = []
        if self._sources:
            async with self._turn:
                compare = partial(self._compare, entry, arguments)
                found = self._lost | await to_thread.run_sync(compare, limiter=_COMPARING.limiter())
            carried = [name for place, name in enumerate(self._sources) if found >> place & 1]
        if self._outer is not None:
            carried += [name for name in await self._outer[0]._carried(entry, arguments) if name not in carried]
        return carried

    # ------------------------------------------------------------------------------------------- in a thread

    def _compare(self, entry: CatalogEntry, arguments: Mapping[str, object]) -> int:
        with self._in_thread:
            # A value waits until its fingerprints have been taken: the call may be given up before this begins.
            while self._pending:
                self._take_fingerprints(*self._pending[0])
                self._pending.popleft()
            return self._found(entry, arguments)

    def _found(self, entry: CatalogEntry, arguments: Mapping[str, object]) -> int:
        """The sources of what these arguments carry."""
        everything = (1 << len(self._sources)) - 1
        try:
            texts = JsonContent(dict(arguments), is_input=True, max_chars=MAX_COMPARED_CHARS - self._compared)
        except TooMuch:
            self._compared = MAX_COMPARED_CHARS
            return everything
        except RecursionError:
            return everything
        self._compared += texts.chars
        found = self._unread
        for fingerprint in texts.containers:
            found |= self._seen.get(fingerprint, 0)
        said: frozenset[int] | None = None
        for text in texts.texts:
            for part in windows(text):
                for window in self._seen.keys() & part:
                    if self._seen[window] | found == found:
                        continue
                    if said is None:
                        said = self._script_windows() | _all_windows(_schema_text(entry))
                    if window not in said:
                        found |= self._seen[window]
        return found

    def _take_fingerprints(self, value: str, sources: int) -> None:
        try:
            texts = JsonContent(read_json(value), is_input=False, max_chars=2 * MAX_FOLLOWED_CHARS)
        except (ValueError, RecursionError, TooMuch):
            self._unread |= sources
            return
        for fingerprint in texts.containers:
            self._see(fingerprint, sources)
        for text in texts.texts:
            for fingerprint in blocks(text):
                self._see(fingerprint, sources)

    def _see(self, fingerprint: int, sources: int) -> None:
        if len(self._seen) >= MAX_FINGERPRINTS and fingerprint not in self._seen:
            self._unread |= sources
        else:
            self._seen[fingerprint] = self._seen.get(fingerprint, 0) | sources

    def _script_windows(self) -> frozenset[int]:
        if self._written is None:
            self._written = _all_windows(self._script)
        return self._written


def _schema_text(entry: CatalogEntry) -> str:
    return json.dumps(entry.input_schema, ensure_ascii=False, default=str)


def _all_windows(text: str) -> frozenset[int]:
    return frozenset(window for part in windows(text) for window in part)
