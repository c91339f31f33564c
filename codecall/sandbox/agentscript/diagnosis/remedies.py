"""What to write instead of what an answer does not have: looked up in the answer, for hints and for warnings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple, cast

import msgspec

from codecall.sandbox.agentscript.diagnosis.calls import MAX_SHOWN, shorten
from codecall.sandbox.agentscript.diagnosis.context import Observation, kind_of, member_text, shape_of
from codecall.sandbox.agentscript.diagnosis.flow.paths import UNDEFINED, Step
from codecall.sandbox.agentscript.foreign_words import (
    CONTENT_MEMBERS,
    LIST_MEMBERS,
    LIST_WRAPPERS,
    SUCCEEDED,
    SUCCESS,
    WRAPPERS,
)
from codecall.sandbox.agentscript.policy import PROTOTYPES
from codecall.sandbox.agentscript.ruleset import closest_key

MAX_KEYS: Final = 100
"""Keys of one object among which a similar one is looked for."""

NOTHING_FOUND: Final = " Nothing was found:"
"""How advice begins about what `find` and its kin gave."""

_COUNTS: Final = frozenset({"total", "count", "size", "total_count", "totalCount"})
"""Members by which scripts ask how many items there are."""

_ERRORS: Final = ("error", "errors")
"""Members in which an answer says what has gone wrong."""

_CERTAIN: Final = (" Did you mean", " The list is", " It is a list", " The content stays", " With `throwOnError")
"""How advice begins that leaves no doubt that a property was meant to have a value."""


class Advice(NamedTuple):
    """What a script may have meant instead of a property that is not there."""

    text: str = ""
    """For a hint or a warning; begins with a blank where it is not empty."""
    key: str | None = None
    """The property of the same owner that it names."""
    deeper: bool = False
    """Whether it names a property of that one's value."""
    owner: bool = False
    """Whether it says that the owner itself is the value."""


def is_certain(text: str) -> bool:
    """Whether advice leaves no doubt that the property was meant to have a value."""
    return text.startswith(_CERTAIN)


def answer_fields(observation: Observation, what: str, missing: Sequence[object] = ()) -> dict[str, str]:
    """The fields of a hint about `what`, which an answer gave; `missing` are those of its values that are not there."""
    return {
        "what": what,
        "nothing": "null" if missing and missing[0] is None else "undefined",
        "some": " for some items"
        if len(missing) < len(observation.values) and observation.path[-1:] != (Step.FOUND,)
        else "",
        "tool": shorten(observation.tool),
        "shape": _answer_shape(observation.answer),
    }


def _answer_shape(answer: object) -> str:
    """The shape of an answer, and of what is in it where it is a text of JSON."""
    if (data := json_in(answer)) is not UNDEFINED:
        return f"a text that is JSON: `JSON.parse` it first, to get {shape_of([data])}"
    return shape_of([answer])


def json_in(answer: object) -> object:
    """The data in an answer that is a text of JSON; `UNDEFINED` where it is none."""
    if isinstance(answer, str) and answer.lstrip().startswith(("{", "[")):
        try:
            return msgspec.json.decode(answer)
        except (msgspec.MsgspecError, RecursionError):
            pass
    return UNDEFINED


def advise(owner: str, observation: Observation, member: str, *, had: bool = False) -> Advice:
    """What the script may have meant instead of a missing value.

    Args:
        owner: What the value is read from, with the dot, as a hint shows it; empty where it is destructured.
        observation: The value, and what it was read from.
        member: What is read from the value in turn: one of a list says that a list is meant.
        had: Whether another answer of the tool had a property of that name.
    """
    step = observation.path[-1] if observation.path else None
    if step is Step.FOUND:
        return Advice(f"{NOTHING_FOUND} test for it first, or write `?.` behind it.")
    if isinstance(step, int) and all(map(_is_dict, observation.parents)):
        return _object_advice(owner, observation.parents)
    if not all(map(is_missing, observation.values)) or not isinstance(step, str):
        return _null_advice(observation, member)
    parents = [cast("dict[str, object]", parent) for parent in observation.parents if isinstance(parent, dict)]
    if observation.of_wrapper:
        return _wrapper_advice(owner, step, parents[0])
    if any(step in parent for parent in parents):
        return _null_advice(observation, member)  # the property is there, and is null
    return (
        _content_advice(owner, step, observation.parents)
        or _length_advice(owner, step, observation.parents)
        or _primitive_advice(owner, observation.parents)
        or _name_advice(owner, step, member, observation, parents)
        or _failure_advice(owner, observation, parents)
        or _unwrapped_advice(step, observation, member, had=had)
        or _list_value_advice(owner, observation.parents, member)
        or _list_advice(owner, step, member, observation, parents)
    )


def _object_advice(owner: str, parents: Sequence[object]) -> Advice:
    """The advice where an item is read from an object: the only list in it, unless it is one thing by itself."""
    objects = [cast("dict[str, object]", parent) for parent in parents]
    advice = list_advice(owner, objects) if not any("id" in each for each in objects) else Advice()
    if advice.text:
        return advice
    what = f"`{owner.removesuffix('.')}`" if owner else "It"
    return Advice(f" {what} is an object, no list: use it as it is.", owner=True)


def _list_advice(
    owner: str, step: str, member: str, observation: Observation, parents: Sequence[Mapping[str, object]]
) -> Advice:
    """The advice where a list was meant: the only one of an object, or its number of keys."""
    if observation.of_answer and step in WRAPPERS and member == "0" and all("id" in parent for parent in parents):
        return _object_advice(owner, parents)
    advice = list_advice(owner, parents if _is_list_meant(step, member, observation) else ())
    if advice.text or step != "length" or not owner or _has_lists(parents):
        return advice
    return Advice(f" Its number of keys is `Object.keys({owner.removesuffix('.')}).length`.")


def _primitive_advice(owner: str, parents: Sequence[object]) -> Advice | None:
    """The advice for a property of a text, a number or a boolean."""
    if (kind := primitive_kind(parents)) is None:
        return None
    what = f"`{owner.removesuffix('.')}`" if owner else "It"
    # Of a text of JSON the shape says what to do.
    return Advice(f" {what} is a {kind}: use it as it is." if json_in(parents[0]) is UNDEFINED else "", owner=True)


def _is_list_meant(step: str, member: str, observation: Observation) -> bool:
    """Whether a list was meant by a property; of an item, such as a person with tags, a text is as likely."""
    if observation.of_answer or step in LIST_WRAPPERS or step == "length":
        return bool({member, step} & LIST_MEMBERS)
    return member in LIST_MEMBERS - PROTOTYPES["String.prototype"].allowed - {"length", "0"}


def _list_value_advice(owner: str, parents: Sequence[object], member: str) -> Advice | None:
    """The advice for a property of a list, which its items do not have either."""
    if not parents or not all(isinstance(parent, list) for parent in parents):
        return None
    name = owner.removesuffix(".")
    item = f", or an item, `{name}[0]`" if name and member not in LIST_MEMBERS else ""
    return Advice(f" {f'`{name}`' if name else 'It'} is a list: use it as it is{item}.", owner=True)


def _name_advice(
    owner: str, step: str, member: str, observation: Observation, parents: Sequence[Mapping[str, object]]
) -> Advice | None:
    """The advice to use a property with a similar name, unless it has no list where one was meant and is there; or the
    property of that name one level below."""
    keys = {key: text for parent in parents for key in islice(parent, MAX_KEYS) if (text := member_text(owner, key))}
    key = closest_key(step[:MAX_SHOWN], islice(keys, MAX_KEYS))
    if key is not None:
        values = [value for parent in parents if (value := parent.get(key)) is not None]
        is_other = member and values and not any(isinstance(each, list) or may_have(each, member) for each in values)
        advice = list_advice(owner, parents if is_other and _is_list_meant(step, member, observation) else ())
        return advice if advice.text else Advice(f" Did you mean `{keys[key]}`?", key)
    holder = _holder(step, parents)
    inner = None if holder is None else member_text(owner, holder)
    meant = inner and (member_text(f"{inner}.", step) if owner else f"{{ {inner}: {{ {step} }} }}")
    return Advice(f" Did you mean `{meant}`?", holder, deeper=True) if meant else None


def _failure_advice(owner: str, observation: Observation, parents: Sequence[Mapping[str, object]]) -> Advice | None:
    """The advice for an answer that says that the tool has failed."""
    if not observation.of_answer:
        return None
    for parent in parents:
        error = next((key for key in _ERRORS if parent.get(key) and isinstance(parent[key], (str, dict, list))), None)
        if error is not None:
            return Advice(f" The answer reports a failure: look at `{owner}{error}`.", error)
        if any(parent.get(key) is False for key in SUCCEEDED):
            return Advice(" The answer reports a failure: look at the whole of it.")
    return None


def _unwrapped_advice(step: str, observation: Observation, member: str, *, had: bool) -> Advice | None:
    """The advice to use the answer itself."""
    is_object = any(isinstance(parent, dict) for parent in observation.parents)
    # Of an object a list is not had by leaving something out; only `content[0]` is another client's wrapper as a whole.
    lists = is_object and member in LIST_MEMBERS and (step, member) != ("content", "0")
    is_wrapper = step in (WRAPPERS if is_object else LIST_WRAPPERS)
    if not is_wrapper or not observation.of_answer or lists:
        return None
    if had:
        return _null_advice(observation, member)
    return Advice(f" The value is not wrapped: leave `.{step}` out.", owner=True)


def _holder(name: str, parents: Sequence[Mapping[str, object]]) -> str | None:
    """The only property of these objects whose value has a property of that name itself."""
    having = {
        key
        for parent in parents[:MAX_KEYS]
        for key in islice(parent, MAX_KEYS)
        if isinstance(inner := parent[key], dict) and name in inner
    }
    return having.pop() if len(having) == 1 else None


def primitive_kind(values: Sequence[object]) -> str | None:
    """What all of these values are, if they are texts, numbers or booleans; as words say it."""
    kinds = {kind_of(value) for value in values}
    kind = kinds.pop() if len(kinds) == 1 else ""
    return {"string": "text", "number": "number", "boolean": "boolean"}.get(kind)


def may_have(value: object, name: str) -> bool:
    """Whether a value of an answer may have this method, or a property of that name."""
    kinds = ("Object", kind_of(value).capitalize())
    rows = [row for kind in kinds if (row := PROTOTYPES.get(f"{kind}.prototype"))]
    return any(name in row.allowed | row.regex for row in rows) or (isinstance(value, dict) and name in value)


def _wrapper_advice(owner: str, step: str, wrapper: Mapping[str, object]) -> Advice:
    """The advice for a property of `{success, data}`, of which it is none."""
    data = wrapper.get("data")
    is_field = isinstance(data, dict) and step in data
    if step in SUCCESS and not is_field:
        return Advice(f" With `throwOnError: false` it is `{owner}success`, not `{step}`.", "success")
    if step == "error":
        return Advice()
    field = member_text(f"{owner}data.", step) if is_field else None
    what = f": `{field}`" if field else ""
    return Advice(f" With `throwOnError: false` the value is `{owner}data`{what}.", "data")


def _null_advice(observation: Observation, member: str) -> Advice:
    """The advice for a value that is null or undefined as the answer has it."""
    if observation.answer is None and member in LIST_MEMBERS:
        return Advice(" An empty list arrives as null where a tool declares no list: write `?? []` behind it.")
    return Advice(" Test it first, or write `?.` behind it." if observation.path else "")


def _content_advice(owner: str, step: str, parents: Sequence[object]) -> Advice | None:
    """The advice for a member that is read from a list of objects that have it, or from a content block, such as a
    picture, whose bytes no script has."""
    for parent in parents:
        is_list = isinstance(parent, list)
        items = cast("list[object]", parent)[:MAX_KEYS] if is_list else [parent]
        objects = {number: cast("dict[str, object]", item) for number, item in enumerate(items) if _is_dict(item)}
        having = next((number for number, item in objects.items() if is_list and step in item), None)
        block = next((number for number, item in objects.items() if _is_block(item)), None)
        number = block if having is None else having
        if number is None:
            continue
        what = owner.removesuffix(".") or "value"
        what = f"{what}[{number}]" if is_list else what
        if having is not None and (member := member_text(f"{what}.", step)) is not None:
            return Advice(f" It is a list: write `{member}`.", owner=True)
        if step in CONTENT_MEMBERS:
            return Advice(
                f" The content stays outside of the script: `return {what}` or `emit({what})` shows it, and a tool "
                f"gets it for `{what}` or `{what}.ref` in its input.",
                owner=True,
            )
    return None


def _length_advice(owner: str, step: str, parents: Sequence[object]) -> Advice | None:
    """The advice for what a list has as its `length`: `total`, `lenght`."""
    if not owner or not all(isinstance(parent, list) for parent in parents):
        return None
    if step not in _COUNTS and closest_key(step[:MAX_SHOWN], ("length",)) is None:
        return None
    return Advice(f" It is a list: write `{owner}length`.", owner=True)


def _is_dict(value: object) -> bool:
    return isinstance(value, dict)


def _is_block(value: Mapping[str, object]) -> bool:
    """Whether an object of an answer stands for a picture, a sound or a file."""
    return "type" in value and "bytes" in value and str(value.get("ref")).startswith("block:")


def list_advice(owner: str, values: Iterable[object]) -> Advice:
    """The advice to use the only list among the properties of objects."""
    objects = [cast("dict[str, object]", value) for value in values if isinstance(value, dict)]
    lists = {key for value in objects for key, item in value.items() if isinstance(item, list)}
    key = lists.pop() if len(lists) == 1 else None
    only_list = None if key is None else member_text(owner, key)
    return Advice(f" The list is `{only_list}`.", key) if only_list else Advice()


def items_advice(owner: str, what: str, values: Sequence[object]) -> str:
    """The advice for a script that takes an object, `what`, for a list: the only list in it, or its entries where it
    has none."""
    if text := list_advice(owner, values).text:
        return text
    objects = [cast("dict[str, object]", value) for value in values if isinstance(value, dict)]
    return "" if not objects or _has_lists(objects) else f" For its keys and values write `Object.entries({what})`."


def _has_lists(objects: Sequence[Mapping[str, object]]) -> bool:
    return any(isinstance(item, list) for value in objects for item in value.values())


def is_missing(value: object) -> bool:
    """Whether a value is undefined or null."""
    return value is UNDEFINED or value is None
