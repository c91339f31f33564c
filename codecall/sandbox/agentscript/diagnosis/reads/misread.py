"""Properties that a script reads of answers that have none of that name: warnings about scripts that end well.

While a script runs, only the names that it reads are looked for in the text of each answer. The script is parsed again
where one was in no answer, and may be a misspelling or was needed; what a warning says has been looked up in an answer.

A read is warned of where it is certain that a value was meant, and the script has no other way to it: it neither reads
what the warning would name, nor uses the value that the property is read from (`AnswerUses`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from itertools import chain, islice
from time import monotonic
from typing import Final, cast

from codecall.sandbox.agentscript.diagnosis.calls import SETTLED, CallEntry, CallHistory
from codecall.sandbox.agentscript.diagnosis.context import FailureContext, HintFields, Observation, member_text
from codecall.sandbox.agentscript.diagnosis.flow.dataflow import DataFlow
from codecall.sandbox.agentscript.diagnosis.flow.paths import UNDEFINED, ValuePath
from codecall.sandbox.agentscript.diagnosis.reads import joins
from codecall.sandbox.agentscript.diagnosis.reads.meant import MAX_KEYS, is_list_meant, is_misspelt, is_page
from codecall.sandbox.agentscript.diagnosis.reads.needs import FLAGS, Needs
from codecall.sandbox.agentscript.diagnosis.reads.uses import AnswerUses
from codecall.sandbox.agentscript.diagnosis.reads.writes import written_names
from codecall.sandbox.agentscript.diagnosis.remedies import (
    Advice,
    advise,
    answer_fields,
    is_missing,
    may_have,
    primitive_kind,
)
from codecall.sandbox.agentscript.foreign_words import LIST_WRAPPERS, SUCCEEDED, SUCCESS, WRAPPERS
from codecall.sandbox.agentscript.instrument import InstrumentedScript
from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.parser.parse import key_name, member_name
from codecall.sandbox.agentscript.ruleset import closest_key

MAX_MISREAD: Final = 3
"""Properties that are warned of in one run."""

_SHARE_OF_ROOM: Final = 4
_MAX_READS: Final = 400
"""Reads of properties that are looked at."""
_MAX_OBSERVATIONS: Final = 32
"""Answers that one read is looked up in."""

_KEY = re.compile(r'"([\w$-]{1,60})":')
_AWAITED = re.compile(r"\b(\w++)\s*=\s*await\b")
_MEMBER = re.compile(r"\b(\w++)\s*(?:\?\s*)?\.\s*(\w++)")
_COMPARED = re.compile(r"\.\s*(\w++)\s*(?:[!=]==?|[<>]=?)\s*['\"\d]")
_SWITCHED = re.compile(r"\bswitch\s*\([^{}()]{0,200}\.\s*(\w++)\s*\)")
_KEYS = re.compile(r"\[\s*(?:\w++\s*\??\.\s*)++(\w++)\s*\]")
_DEFAULTED = re.compile(r"\.\s*(\w++)\s*(?:\?\?|\|\|)\s*\[")
_UNPACKED = re.compile(r"\{([^{}]*+)\}\s*=\s*await\b")

_OF_WRAPPER: Final = frozenset({"success", "data", "error"})
_OF_SETTLED: Final = frozenset({"status", "value", "reason"})
_NOTHING_TO_TEST: Final = " A call that fails throws: there is nothing to test."

_PAGING: Final = re.compile(
    r"(?i)^(?:has_?)?(?:more|next)(?:_?(?:page|cursor|token|offset|url|link|items|results|page_?token|page_?url))?$"
    r"|cursor|page_?token|continuation|^pagina|^paging$|^page_?info$|^is_?last|^last_?page$|^(?:total|num)_?pages$"
    r"|^page_?count$"
)
"""Names by which scripts ask whether there is another page."""
_MORE: Final = re.compile(r"(?i)next|more|continuation")
_MAPS: Final = re.compile(
    r"(?i)^(?:labels|annotations|metadata|metrics?|env|environment|tags|params|headers|attributes|properties|extras?"
    r"|custom_?(?:fields|attributes|properties)|settings|config|options)$"
)
"""Names of objects whose keys people choose, so that any may be missing."""
_SYNC: Final = re.compile(r"(?i)sync|delta")
"""What the last page has in place of a next one: where to go on another day."""
_PAGES: Final = re.compile(r"(?i)^(?:page_?count|(?:total|num)_?pages|pages|last_?page)$")
_TOTAL: Final = re.compile(r"(?i)^(?:total|total_?(?:count|items|results|size)|count)$")

Declares = Callable[[str, ValuePath, str], bool]
"""Whether a tool says that its answers may have a property of a name at the end of a path."""


def suspects(
    program: InstrumentedScript, calls: CallHistory, elsewhere: Mapping[str, Set[str]], *, shows_undefined: bool
) -> frozenset[str]:
    """Names that the script reads and that some answers should have had, perhaps; empty for nearly every script.

    Args:
        program: What ran.
        calls: Its calls.
        elsewhere: What `names_elsewhere` gives of them.
        shows_undefined: Whether a text in its value has the word `undefined`.
    """
    misplaced = set[str]().union(*elsewhere.values()) - program.ending.writes
    misplaced = {name for name in misplaced if not FLAGS.search(name)}
    if not calls.may_lack(program.script, shows_undefined=shows_undefined):
        return frozenset(misplaced)
    entries = list(calls.last_answers.values())
    found = set[str].intersection(*calls.unseen.values()) - program.ending.writes - {"length"}
    awaited = set(_AWAITED.findall(program.script))
    reads = {name for owner, name in _MEMBER.findall(program.script) if owner in awaited}
    reads |= {name for text in _UNPACKED.findall(program.script) for name in re.findall(r"\w++", text)}
    compared = {*joins.names(program.script), *_SWITCHED.findall(program.script)} - program.ending.writes
    for pattern in (_COMPARED, _KEYS, _DEFAULTED):
        compared |= set(pattern.findall(program.script))
    for tool, unseen in calls.unseen.items():
        names = unseen - found - {"length"}
        payloads = [entry.payload or "" for entry in entries if entry.name == tool]
        keys = list(dict.fromkeys(key for text in payloads for key in _KEY.findall(text[:16_384])))[:MAX_KEYS]
        found |= {name for name in names if closest_key(name, keys) is not None}
        found |= names & (LIST_WRAPPERS | SUCCEEDED | compared) | {name for name in names if _PAGING.search(name)}
        if not any(text.startswith("{") for text in payloads):
            is_list = any(text.startswith("[") for text in payloads)
            found |= names & (reads if is_list else reads | SUCCESS)
    of_answer = "length" in reads and any((entry.payload or "").startswith("{") for entry in entries)
    if of_answer or calls.measures_others(program.script):
        found.add("length")
    if shows_undefined or any(map(_is_wrapped, entries)) or SETTLED in program.script:
        found |= calls.reads - _OF_WRAPPER
    return frozenset(found | misplaced)


def _is_wrapped(entry: CallEntry) -> bool:
    return entry.wrapped


class MisreadSearch:
    """Looks in one script for reads of properties that no answer has.

    Args:
        dataflow: The script.
        context: Its answers.
        calls: Its calls.
        missing: Keys that are left out of its value.
        declares: What the tools say of their answers.
        elsewhere: What `names_elsewhere` gives of them.
    """

    def __init__(
        self,
        dataflow: DataFlow,
        context: FailureContext,
        calls: CallHistory,
        missing: Sequence[str],
        *,
        declares: Declares,
        elsewhere: Mapping[str, Set[str]],
    ) -> None:
        self._dataflow = dataflow
        self._context = context
        self._calls = calls
        self._elsewhere = elsewhere
        self._missing = missing
        self._declares = declares
        self._uses = AnswerUses(dataflow)
        self._needs = Needs(dataflow, self._uses, missing, shows_undefined=False)
        self._joins = joins.Joins(dataflow, context, self._uses)

    def find(
        self, names: frozenset[str], room_ms: float, *, shows_undefined: bool
    ) -> Iterator[tuple[Node, HintFields]]:
        """The reads to warn of, one of each tool and name, with the fields of a hint; those that are found in a part of
        the milliseconds that are left."""
        self._needs = Needs(self._dataflow, self._uses, self._missing, shows_undefined=shows_undefined)
        if (written := written_names(self._dataflow, self._context)) is None:
            return
        names -= written
        until = monotonic() + room_ms / _SHARE_OF_ROOM / 1000
        told = set[tuple[str, str]]()
        wholes = set[tuple[str, int, object]]()
        count = 0
        for node, name in islice(self._reads(names), _MAX_READS):
            if (found := self._misread(node, name, shows_undefined=shows_undefined)) is not None:
                observation, advice = found
                # What is said of `a.items` in `a.items ?? a.data` goes for `a.data`.
                expression = 0 if advice.owner else id(self._uses.whole_of(node))
                whole = (observation.tool, expression, advice.key or advice.text or name)
                is_told = (observation.tool, name) in told or whole in wholes
                told.add((observation.tool, name))
                wholes.add(whole)
                if is_told:
                    continue
                count += 1
                fields = answer_fields(observation, "", observation.values)
                # Where it is not known what was meant, the script may be right, too.
                items = "" if advice.text or len(observation.values) < 2 else "no item has it. "
                read = node.left if node.type == "AssignmentPattern" else node
                yield read, {**fields, "use": advice.text, "items": items}
            if count == MAX_MISREAD or monotonic() > until:
                return

    def _reads(self, names: frozenset[str]) -> Iterator[tuple[Node, str]]:
        for node in self._dataflow.nodes:
            if node.type == "MemberExpression" and member_name(node) in names:
                parent = self._uses.parent(node)
                if parent is None or parent.type != "AssignmentExpression" or parent.left is not node:
                    yield node, str(member_name(node))
            elif node.type == "ObjectPattern":
                for item in node.properties:
                    plain = item.type == "Property" and not item.computed
                    if plain and (name := key_name(item.key)) in names:
                        yield item.value, name
            elif node.type == "Property" and node.value.type == "Identifier" and node.value.name in names:
                yield node.value, node.value.name

    def _misread(self, node: Node, name: str, *, shows_undefined: bool) -> tuple[Observation, Advice] | None:
        """The answer that lacks what is read here, and what may have been meant; None where that is not certain."""
        observations = list(islice(self._context.observations(node), _MAX_OBSERVATIONS))
        observations = [item for item in observations if item.path[-1:] == (name,)]
        if not observations:
            return self._misread_settled(node, name) or self._misread_nothing(node, name)
        if any(value is not UNDEFINED for item in observations for value in item.values):
            return None
        if not self._context.sees_all(node):
            return None
        parent = self._uses.parent(node)
        shown = shows_undefined and parent is not None and parent.type == "TemplateLiteral"
        for observation in observations:
            of_wrapper = observation.of_wrapper
            elsewhere = name in self._elsewhere.get(observation.tool, ())
            unseen = name == "length" or elsewhere or name in self._calls.unseen.get(observation.tool, ())
            if name in _OF_WRAPPER if of_wrapper else not (unseen or shown):
                return None
            advice = self._advice(node, name, observation)
            if advice is None or self._has_other_way(node, observation, advice):
                continue
            if self._has_another(node, observation.tool):
                continue
            path = observation.path[observation.wrapped : -1]
            is_declared = not of_wrapper and self._declares(observation.tool, path, name)
            return None if is_declared else (observation, advice)
        return None

    def _misread_nothing(self, node: Node, name: str) -> tuple[Observation, Advice] | None:
        """The same for what is asked of the answer of a tool that gives none: `(await callTool('send'))?.success`."""
        if node.type != "MemberExpression" or name not in SUCCEEDED or self._needs.is_ready(node, name):
            return None
        if self._uses.are_tested(self._uses.owners_of(node)):
            return None
        for observation in islice(self._context.observations(node.object), _MAX_OBSERVATIONS):
            if observation.path or observation.answer is not None or self._declares(observation.tool, (), name):
                return None
            return observation, Advice(_NOTHING_TO_TEST)
        return None

    def _misread_settled(self, node: Node, name: str) -> tuple[Observation, Advice] | None:
        """The same for what is read of an item that `Promise.allSettled` gives, and is in its value."""
        if SETTLED not in self._dataflow.script or node.type != "MemberExpression" or name in _OF_SETTLED:
            return None
        owner = self._context.owner_text(node.object)
        for observation in islice(self._context.observations(node.object, ("value", name)), _MAX_OBSERVATIONS):
            if f"{owner}value" not in self._dataflow.script and UNDEFINED not in observation.values:
                return observation, Advice(f" With `{SETTLED}` it is `{owner}value.{name}`.", "value")
        return None

    def _has_another(self, node: Node, tool: str) -> bool:
        """Whether another operand of `??` or `||` had a value: `answer.issues ?? answer.results` of issues."""
        observations = chain.from_iterable(map(self._context.observations, self._uses.alternatives(node)))
        same = (item for item in islice(observations, _MAX_OBSERVATIONS) if item.tool == tool)
        return any(not is_missing(value) for item in same for value in item.values)

    def _has_other_way(self, node: Node, observation: Observation, advice: Advice) -> bool:
        """Whether the script has another way to what the advice names."""
        owners = self._uses.owners_of(node)
        if advice.owner:
            return self._uses.may_use(owners, observation.parents[0])
        if advice.deeper and advice.key is not None:
            return self._uses.may_read_deeper(owners, advice.key, str(observation.path[-1]))
        return advice.key is not None and self._uses.may_read(owners, advice.key)

    def _advice(self, node: Node, name: str, observation: Observation) -> Advice | None:
        """What may have been meant by a property that is not there; None where it may as well be missing."""
        owner = self._context.owner_text(node.object) if node.type == "MemberExpression" else ""
        parents = observation.parents
        objects = [cast("dict[str, object]", parent) for parent in parents if isinstance(parent, dict)]
        if any(objects) and not observation.of_wrapper:
            if name in SUCCEEDED and observation.of_answer and self._uses.asks(node):
                return Advice(_NOTHING_TO_TEST)
            lists = is_list_meant(
                name,
                observation.tool,
                of_answer=observation.of_answer,
                is_page=all(is_page(each, observation.tool) for each in objects),
                means_list=self._uses.means_list(node),
            )
            advice = advise(owner, observation, "map" if lists else "")
            meant = self._is_meant(node, name, observation, advice, lists=lists or name == "length")
            once = self._calls.answered[observation.tool] == 1
            paging = _paging_advice(owner, name, objects[0], once=once)
            return advice if meant and (advice.text or paging is None) else paging
        primitive = primitive_kind(parents) is not None
        ready = any(may_have(parent, name) for parent in parents) or self._needs.is_ready(node, name)
        meant = not ready and (primitive or all(isinstance(parent, list) for parent in parents))
        return advise(owner, observation, "") if meant or observation.of_wrapper else None

    def _is_meant(self, node: Node, name: str, observation: Observation, advice: Advice, *, lists: bool) -> bool:
        """Whether a property of objects that none of them has was meant to have a value. `lists`: a list was meant."""
        if advice.text.startswith(" The list is"):
            if lists and not FLAGS.search(advice.key or ""):
                return True
        elif advice.text.startswith(" Did you mean"):
            # What stands deeper may be there for some: `issue.user.email` and `issue.email`.
            return self._is_misspelling(node, name, observation, advice)
        return self._is_needed(node, name, observation)

    def _is_needed(self, node: Node, name: str, observation: Observation) -> bool:
        """Whether what is done with a property that none of these objects has needs a value."""
        is_map = any(isinstance(step, str) and _MAPS.search(step) for step in observation.path[-2:-1])
        if is_map or _leaves_out_keys(observation.parents) or self._needs.is_discriminated(node):
            return False
        needed = self._needs.is_needed(node, name, observation) or self._joins.is_joined(node, name, observation)
        return (needed and not self._uses.is_tested(node, name)) or self._is_in_owner(node, name, observation)

    def _is_misspelling(self, node: Node, name: str, observation: Observation, advice: Advice) -> bool:
        """Whether a similar name, or one deeper, was meant, rather than a property that these objects do not have."""
        is_tested = self._uses.is_tested(node, name)
        if advice.deeper:
            return not is_tested
        if _SYNC.search(advice.key or "") is not None and _SYNC.search(name) is None:
            return False
        parents = [cast("dict[str, object]", parent) for parent in observation.parents if isinstance(parent, dict)]
        values = [parent[advice.key] for parent in parents if advice.key in parent and parent[advice.key] is not None]
        parent = self._uses.parent(node)
        taken = member_name(parent) if parent is not None and parent.type == "MemberExpression" else None
        if self._uses.means_list(node) and not any(isinstance(value, list) for value in values):
            return False
        if isinstance(taken, str) and values and not any(may_have(value, taken) for value in values):
            return False
        is_asked = is_tested or self._uses.is_guarded(node) or self._needs.is_predicate(node)
        if is_misspelt(name, advice.key or "", is_optional=is_asked):
            return True
        is_similar = is_misspelt(name, advice.key or "", is_optional=False)
        return is_similar and self._is_needed(node, name, observation)

    def _is_in_owner(self, node: Node, name: str, observation: Observation) -> bool:
        """Whether what is read of a wrapper that is not there stands in the answer itself: `answer.data?.total`."""
        parent = self._uses.parent(node)
        answer = observation.parents[0]
        if name not in WRAPPERS or not observation.of_answer or not isinstance(answer, dict):
            return False
        return parent is not None and parent.type == "MemberExpression" and member_name(parent) in answer


def _leaves_out_keys(parents: Sequence[object]) -> bool:
    """Whether some of these objects lack keys that others have, so that the tool may leave out any."""
    keys = {frozenset(cast("dict[str, object]", parent)) for parent in parents if isinstance(parent, dict)}
    return len(keys) > 1


def _paging_advice(owner: str, name: str, answer: dict[str, object], *, once: bool) -> Advice | None:
    """The advice for a name that asks whether there is another page, of an answer that says so under another one."""
    key = _more_key(answer, once=once) if _PAGING.search(name) else None
    member = None if key is None else member_text(owner, key)
    return Advice(f" Whether there is more is said by `{member}`.", key) if member else None


def _more_key(answer: dict[str, object], *, once: bool) -> str | None:
    """The property by which an answer says that there is another page; `once`: it is the only answer of its tool."""
    lists = [cast("list[object]", value) for value in islice(answer.values(), MAX_KEYS) if isinstance(value, list)]
    items = len(lists[0]) if once and len(lists) == 1 else 0
    page = answer.get("page")
    for key, value in islice(answer.items(), MAX_KEYS):
        is_next = _MORE.search(key) and _PAGING.search(key) and not _SYNC.search(key)
        if is_next and (value is True or (isinstance(value, str) and value)):
            return key
    for key, value in islice(answer.items(), MAX_KEYS):
        number = value if isinstance(value, int) and not isinstance(value, bool) else None
        if number is not None and _PAGES.search(key) and number > (page if isinstance(page, int) else 1):
            return key
        if number is not None and _TOTAL.search(key) and 0 < items < number:
            return key
    return None
