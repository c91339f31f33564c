"""Which calls are allowed, asked for or denied: the rules of the option `approvals`, compiled once.

A condition on the input is read as a tool may read the input, in each of its readings (`schema.readings`): an `ask` or
`deny` rule applies if one of them meets its condition, an `allow` rule only if all of them do. An input of more
readings than are tried counts against the call, and so does a value that cannot be read as the tool's schema says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, cast

from anyio import to_thread

from codecall.approvals.options import ApprovalAction, ApprovalRule
from codecall.catalog.entries import CatalogEntry
from codecall.concurrency import ThreadLimit
from codecall.errors import OptionsError
from codecall.globs import Patterns
from codecall.schema.pattern_search import one_validation
from codecall.schema.readings import all_readings, restricting_readings

JsonObject = Mapping[str, object]

MAX_RULING_THREADS: Final = 2
"""Threads of one event loop that compare inputs with conditions at a time."""

_OPEN: Final = frozenset({"additionalProperties", "patternProperties", "unevaluatedProperties"})
"""Keys of a condition that reach properties it does not name."""

_HINTS: Final = {"read_only": "readOnlyHint", "destructive": "destructiveHint", "open_world": "openWorldHint"}
"""The annotation of a tool that each field of a rule compares."""

_RULING: Final = ThreadLimit("codecall_rulings", MAX_RULING_THREADS)


class Condition(Protocol):
    """A compiled JSON Schema."""

    def is_valid(self, instance: Any) -> bool:
        """Whether a value fits it."""
        ...


class Ruling(NamedTuple):
    """What the rules say of one call."""

    action: ApprovalAction
    rule: int
    """Number of the rule that says so, from 1; 0: no rule applies."""


NO_RULE: Final = Ruling("allow", 0)


class RuleSet:
    """The rules of a server; the first that applies to a call decides.

    Args:
        rules: The rules, in order.
        asks_within: Whether the tool of a name is a composite tool whose own calls these rules are held against: one
            question about each of them is enough, so only rules that name the tool itself ask for it.

    Raises:
        OptionsError: the condition of a rule is no JSON Schema.
    """

    def __init__(self, rules: Sequence[ApprovalRule], asks_within: Callable[[str], bool] = lambda _: False) -> None:
        self._asks_within = asks_within
        self._rules = [_CompiledRule(number, rule) for number, rule in enumerate(rules, 1)]

    async def ruling(self, entry: CatalogEntry, arguments: Mapping[str, object]) -> Ruling:
        """What the rules say of a call of `entry` with these arguments."""
        candidates: list[_CompiledRule] = []
        for rule in self._about(entry):
            candidates.append(rule)
            if rule.condition is None:
                break
        if not candidates:
            return NO_RULE
        if candidates[0].condition is None:
            return candidates[0].ruling
        # In a thread: what a script sends may have many values, each of which is compared in many readings.
        limiter = _RULING.limiter()
        return await to_thread.run_sync(_first_ruling, candidates, arguments, entry.input_schema, limiter=limiter)

    def may_ask(self, entry: CatalogEntry) -> int:
        """The number of the first rule that asks for calls of `entry`, with whatever input; 0 if none does."""
        for rule in self._about(entry):
            if rule.ruling.action == "ask":
                return rule.ruling.rule
            if rule.condition is None:
                break
        return 0

    def _about(self, entry: CatalogEntry) -> Iterator[_CompiledRule]:
        """The rules about this tool, whatever the arguments are."""
        for rule in self._rules:
            if rule.covers(entry) and (
                rule.ruling.action != "ask" or rule.names(entry) or not self._asks_within(entry.name)
            ):
                yield rule


class RuleSubject:
    """Which tools a rule is about."""

    def __init__(self, rule: ApprovalRule) -> None:
        self._tools, self._apps, self._servers = (
            None if patterns is None else Patterns(patterns) for patterns in (rule.tools, rule.apps, rule.servers)
        )
        self._hints = [(key, wanted) for name, key in _HINTS.items() if (wanted := getattr(rule, name)) is not None]

    def covers(self, entry: CatalogEntry) -> bool:
        """Whether the rule is about this tool, whatever the arguments are."""
        return (
            (self._tools is None or self._tools.matches(entry.name))
            and (self._apps is None or self._apps.matches(entry.app_id))
            and (self._servers is None or self._servers.matches(entry.server))
            and all((entry.annotations.get(key) is True) is wanted for key, wanted in self._hints)
        )

    def names(self, entry: CatalogEntry) -> bool:
        """Whether the rule is about this tool, its app or its server by name, and not about all that are of a kind."""
        subjects = ((self._tools, entry.name), (self._apps, entry.app_id), (self._servers, entry.server))
        return any(patterns is not None and patterns.matches(name) for patterns, name in subjects)


class _CompiledRule(RuleSubject):
    """One rule with its globs and its condition taken apart."""

    def __init__(self, number: int, rule: ApprovalRule) -> None:
        super().__init__(rule)
        self.ruling = Ruling(rule.action, number)
        self.condition = None if rule.input is None else _compile(rule.input, f"approvals.rules.{number - 1}.input")
        keys = set(_keys(rule.input))
        self._named = None if keys & _OPEN else keys

    def applies(self, arguments: JsonObject, schema: JsonObject) -> bool:
        """Whether the condition is met, for all readings or one of them; what cannot be compared counts against it."""
        condition = self.condition
        if condition is None:
            return True
        allows = self.ruling.action == "allow"
        try:
            with one_validation():
                if allows:
                    return all(map(condition.is_valid, all_readings(arguments, schema, self._named)))
                return any(map(condition.is_valid, restricting_readings(arguments, schema, self._named)))
        except Exception:
            # A reference that leads nowhere, a value that is nested too deeply, or one of too many readings or of none.
            return not allows


def _first_ruling(candidates: Sequence[_CompiledRule], arguments: JsonObject, schema: JsonObject) -> Ruling:
    return next((rule.ruling for rule in candidates if rule.applies(arguments, schema)), NO_RULE)


def _keys(value: object) -> Iterator[str]:
    """Every key in `value`, at any depth."""
    if isinstance(value, Mapping):
        for key, item in cast("JsonObject", value).items():
            yield key
            yield from _keys(item)
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from _keys(item)


def _compile(schema: Mapping[str, object], where: str) -> Condition:
    # Not above: few servers have conditions.
    from codecall.schema.validator import InvalidSchemaError, check_schema, create_validator

    try:
        check_schema(schema)
    except InvalidSchemaError as failure:
        raise OptionsError(f"{where}: {failure}") from None
    return create_validator(schema)
