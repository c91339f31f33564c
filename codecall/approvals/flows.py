"""Flows between servers: which calls carry what other tools have returned in the same run.

What a tool returned is followed as fingerprints: of its texts, cut into blocks of `BLOCK` characters, and of its arrays
and objects. The input of a later call is searched for them, its texts at every character. So a text of `BLOCK`
characters or more is found wherever it is passed on whole, and a part of one wherever the part is at least
`2 * BLOCK - 1` characters long; letter case and blanks do not count. `fingerprints.py` says what counts as the same.
What a script computes from a value is not found.

Of a picture, a sound or a file a value has the reference alone; its data is followed as well: by a fingerprint of all
of it, which a block with the same data has, too, and by samples of its base64, all of which a text has that has it.
Data that a call is given in place of a reference is no word of the script's, whoever has written the reference.

The value of a call counts as from all that was called within it, too (`CallRecord.made_of`), which is recorded with it:
answered from its record, it is from the same. Where that is not known it counts as from anything.

Nothing is compared with what the script or the tool's own schema says: that did not come from a tool. All of it is
bounded. Where a bound is reached, a call counts as carrying what can be followed no longer.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from anyio import to_thread

from codecall.approvals.fingerprints import Content, JsonContent, TooMuchError, blocks, content_of, windows
from codecall.approvals.options import ApprovalAction, FlowRule
from codecall.catalog.entries import CatalogEntry
from codecall.concurrency import ThreadLimit
from codecall.envelopes import CallRecord, Sources
from codecall.globs import Patterns
from codecall.jsonio.decode import read_json
from codecall.sandbox.interfaces import BLOCK_REFERENCE

MAX_FOLLOWED_CHARS: Final = 1024 * 1024
"""Most characters of values, as JSON, that one run follows: some 10 MB of fingerprints at worst."""

MAX_COMPARED_CHARS: Final = 4 * 1024 * 1024
"""Most characters of inputs that one run compares with them: half a second of a thread."""

MAX_FINGERPRINTS: Final = 200_000
"""Most fingerprints of one run."""

MAX_FOLLOWED_SOURCES: Final = 1_000
"""Most sources of one run that are told apart."""

MAX_COMPARING_THREADS: Final = 2
"""Threads of one event loop that compare at a time, apart from those in which tools run: these may hold all theirs."""

_COMPARING: Final = ThreadLimit("codecall_comparisons", MAX_COMPARING_THREADS)

_STRICTNESS: Final[Mapping[ApprovalAction, int]] = {"allow": 0, "ask": 1, "deny": 2}


class Source(NamedTuple):
    """What has given a value."""

    name: str
    is_known: bool = True
    """False: the value may be of anything else, too."""


_OTHERS: Final = Source("other tools", is_known=False)


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

    def follows(self, source: Source) -> bool:
        """Whether a rule is about what this tool returns."""
        return not source.is_known or any(given.matches(source.name) for _, given, _, _ in self._rules)

    def concern(self, target: str) -> bool:
        """Whether a rule is about what this tool is given."""
        return any(taken.matches(target) for _, _, taken, _ in self._rules)

    def ruling(self, sources: Sequence[Source], target: str) -> FlowRuling:
        """What the rules say of a call that carries values of these tools: for each the first rule that applies, all
        of them where the source is not known, and of those the strictest."""
        strictest = NO_FLOW
        for name, is_known in sources:
            for number, given, taken, action in self._rules:
                if taken.matches(target) and (not is_known or given.matches(name)):
                    if action == strictest.action and strictest.rule and name not in strictest.sources:
                        strictest = strictest._replace(sources=(*strictest.sources, name))
                    elif _STRICTNESS[action] > _STRICTNESS[strictest.action]:
                        strictest = FlowRuling(action, number, (name,))
                    if is_known:
                        break
        return strictest


class ValueFlow:
    """Follows the values of one run.

    Args:
        rules: Which values are followed, and to where; those of the run outside hold besides. None: only those.
        script: The script of the run; empty if it has none.
        outer: Follows the values of the run inside of which this one is, and the call that it is made by.
        server: The server whose names the run has for what it calls.
        composite: Name of the composite tool whose run it is; empty if it is none's.
    """

    def __init__(
        self,
        rules: FlowRules | None,
        script: str,
        outer: tuple[ValueFlow, CallRecord] | None = None,
        *,
        server: object = None,
        composite: str = "",
    ) -> None:
        self._outer, call = outer or (None, None)
        self._server = server
        self._prefixes = [""] if self._outer is None else self._outer._prefixes
        """What stands before the names of this run in those of the runs outside, where a mounted server has others."""
        self._has_other_names = False
        """Whether the runs outside have other names, of which that is not known."""
        if self._outer is not None and call is not None and server is not self._outer._server:
            self._has_other_names = not composite or not call.name.endswith(composite)
            prefix = call.name.removesuffix(composite) if not self._has_other_names else ""
            self._prefixes = [*dict.fromkeys(("", *(f"{before}{prefix}" for before in self._outer._prefixes)))]
        every = (rules, *(self._outer._rules if self._outer is not None else ()))
        self._rules = [each for each in dict.fromkeys(every) if each is not None]
        self._returned = Sources()
        """All that has given values to this run."""
        if call is not None:
            call.made_of = self._returned = call.made_of or self._returned
        self.data: Callable[[str], str | None] = lambda _: None
        """Gives the base64 of a picture, a sound or a file that this run has got, by its reference."""
        self._contents: dict[str, Content] = {}
        """The data of each reference, once it was needed: some 20 KB of fingerprints each."""
        self._marks: dict[frozenset[int], int] = {}
        """The sources of the data that is followed, by what a text has that has it."""
        self._script = script
        self._written: frozenset[int] | None = None
        """The windows of the script, once they are needed."""
        self._sources: dict[Source, int] = {}
        """What has given values that a rule is about; a set of them is an integer, with the bit that each has here."""
        self._pending: deque[tuple[str, int]] = deque()
        """Values of which no fingerprints have been taken yet, as JSON, with their sources."""
        self._chars = 0
        self._seen: dict[int, int] = {}
        """The sources of each fingerprint."""
        self._lost = 0
        """Sources of values that are not followed, since there are too many."""
        self._unread = 0
        """The same, of values of which a thread could not take the fingerprints."""
        self._compared = 0
        self._turn = asyncio.Lock()
        self._in_thread = threading.Lock()
        """Held by the thread that compares: it may go on after the call that it does so for was given up."""

    def begin(self, record: CallRecord) -> None:
        """A call begins, of whatever that its value will be made of."""
        record.made_of = Sources()
        flow = self if record.called == "extract" else None
        while flow is not None:
            # A model makes it of what it is given, which may be anything that the script has, or was given.
            record.made_of.add(flow._returned)
            flow = flow._outer

    def note(self, record: CallRecord, value: str) -> None:
        """Follow the value of a call from now on, which a script is about to get."""
        names = [record.read_as or record.name] if record.called != "extract" else []
        own = {f"{prefix}{name}" for prefix in self._prefixes for name in names}
        is_uri = record.called == "resource" and len(self._prefixes) > 1
        self._returned.add(Sources(own, not is_uri and not self._has_other_names))
        self._returned.add(record.made_of)
        found = {Source(name) for name in (own if record.made_of is None else own | record.made_of.names)}
        if record.made_of is None or not record.made_of.is_complete:
            found.add(Source(record.name, is_known=False))
        sources = 0
        for source in found:
            sources |= self._bit(source)
        if not sources:
            return
        if self._chars + len(value) > MAX_FOLLOWED_CHARS:
            self._lost |= sources
            return
        self._chars += len(value)
        self._pending.append((value, sources))

    def _bit(self, source: Source) -> int:
        """The bit of a source; 0 if no rule is about it."""
        if source not in self._sources:
            if not any(rules.follows(source) for rules in self._rules):
                return 0
            if len(self._sources) >= MAX_FOLLOWED_SOURCES:
                source = _OTHERS
            self._sources.setdefault(source, 1 << len(self._sources))
        return self._sources[source]

    async def ruling(
        self, entry: CatalogEntry, arguments: Mapping[str, object], references: Sequence[str] = ()
    ) -> FlowRuling:
        """What the rules say of a call with these arguments, and with the data of these references in them."""
        names = [f"{prefix}{entry.name}" for prefix in self._prefixes]
        concerned = [(rules, name) for rules in self._rules for name in names if rules.concern(name)]
        if not concerned:
            return NO_FLOW
        carried = await self._carried(entry, arguments, partial(self._contents_of, references))
        rulings = (rules.ruling(carried, name) for rules, name in concerned)
        return max(rulings, key=lambda ruling: _STRICTNESS[ruling.action])

    async def _carried(
        self, entry: CatalogEntry, arguments: Mapping[str, object], contents: Callable[[], list[Content]]
    ) -> list[Source]:
        """The sources of what a call carries, those of the runs outside of this one included."""
        carried: list[Source] = []
        if self._sources:
            async with self._turn:
                compare = partial(self._compare, entry, arguments, contents)
                found = self._lost | await to_thread.run_sync(compare, limiter=_COMPARING.limiter())
            carried = [source for source, bit in self._sources.items() if found & bit]
        if self._outer is not None:
            outside = await self._outer._carried(entry, arguments, contents)
            carried += [source for source in outside if source not in carried]
        return carried

    # ------------------------------------------------------------------------------------------- in a thread

    def _contents_of(self, references: Sequence[str]) -> list[Content]:
        """The data of these references."""
        with self._in_thread:
            return [content for reference in references if (content := self._content(reference)) is not None]

    def _content(self, reference: str) -> Content | None:
        """The data of a reference; None where it has none."""
        if reference not in self._contents and (data := self.data(reference)) is not None:
            self._contents[reference] = content_of(data)
        return self._contents.get(reference)

    def _compare(
        self, entry: CatalogEntry, arguments: Mapping[str, object], contents: Callable[[], list[Content]]
    ) -> int:
        data = contents()
        with self._in_thread:
            # A value waits until its fingerprints have been taken: the call may be given up before this begins.
            while self._pending:
                self._take_fingerprints(*self._pending[0])
                self._pending.popleft()
            return self._found(entry, arguments, data)

    def _found(self, entry: CatalogEntry, arguments: Mapping[str, object], data: Sequence[Content]) -> int:
        """The sources of what these arguments carry, and of this data."""
        everything = (1 << len(self._sources)) - 1
        try:
            texts = JsonContent(dict(arguments), is_input=True, max_chars=MAX_COMPARED_CHARS - self._compared)
        except TooMuchError:
            self._compared = MAX_COMPARED_CHARS
            return everything
        except RecursionError:
            return everything
        self._compared += texts.chars
        found = self._unread
        for fingerprint in texts.containers:
            found |= self._seen.get(fingerprint, 0)
        for content in data:
            found |= self._seen.get(content.fingerprint, 0) | self._sources_of_text(content)
        said: frozenset[int] | None = None
        looked_for = frozenset[int]().union(*self._marks)
        marked: set[int] = set()
        for text in texts.texts:
            for part in windows(text):
                marked |= looked_for & part
                for window in self._seen.keys() & part:
                    if self._seen[window] | found == found:
                        continue
                    if said is None:
                        said = self._said(entry)
                    if window not in said:
                        found |= self._seen[window]
        for marks, sources in self._marks.items():
            if marks <= marked and not marks <= (said := self._said(entry) if said is None else said):
                found |= sources
        return found

    def _sources_of_text(self, content: Content) -> int:
        """The sources of which each has given a text with this data."""
        cuts = content.cuts
        found = -1 if cuts else 0
        for cut in cuts:
            either = 0
            for window in cut:
                either |= self._seen.get(window, 0)
            found &= either
        return found

    def _take_fingerprints(self, value: str, sources: int) -> None:
        try:
            texts = JsonContent(read_json(value), is_input=False, max_chars=2 * MAX_FOLLOWED_CHARS)
        except (ValueError, RecursionError, TooMuchError):
            self._unread |= sources
            return
        for fingerprint in texts.containers:
            self._see(fingerprint, sources)
        for text in texts.texts:
            for fingerprint in blocks(text):
                self._see(fingerprint, sources)
            if BLOCK_REFERENCE.fullmatch(text) and (content := self._content(text)) is not None:
                self._see(content.fingerprint, sources)
                if marks := content.marks:
                    self._marks[marks] = self._marks.get(marks, 0) | sources

    def _see(self, fingerprint: int, sources: int) -> None:
        if len(self._seen) >= MAX_FINGERPRINTS and fingerprint not in self._seen:
            self._unread |= sources
        else:
            self._seen[fingerprint] = self._seen.get(fingerprint, 0) | sources

    def _said(self, entry: CatalogEntry) -> frozenset[int]:
        """The windows of what the script and the schema of a tool say."""
        if self._written is None:
            self._written = _all_windows(self._script)
        return self._written | _all_windows(_schema_text(entry))


def _schema_text(entry: CatalogEntry) -> str:
    return json.dumps(entry.input_schema, ensure_ascii=False, default=str)


def _all_windows(text: str) -> frozenset[int]:
    return frozenset(window for part in windows(text) for window in part)
