"""Why a field of a call's input is missing: the script gives it a value that no answer, or the request, has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final, cast

import msgspec

from codecall.sandbox.agentscript.diagnosis.calls import CallEntry
from codecall.sandbox.agentscript.diagnosis.causes import missing_fields
from codecall.sandbox.agentscript.diagnosis.context import FailureContext, HintFields, member_text
from codecall.sandbox.agentscript.diagnosis.flow.dataflow import is_server_call
from codecall.sandbox.agentscript.diagnosis.request import brought_fields
from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.parser.parse import key_name, member_name

MAX_HINT: Final = 600
"""Most characters of a hint from here."""

_MAX_FIELDS: Final = 20
"""Fields that are looked at."""
_LAST_WORD: Final = re.compile(r"(?<=_)[a-z0-9]+$|(?<=[a-z0-9])[A-Z][a-z0-9]*$")
_MISSING: Final = re.compile(r"(?i)missing|required")
"""What is said of a field that was not given."""


def missing_input(context: FailureContext, entry: CallEntry) -> str | None:
    """The hint for a call that was refused because fields of its input are missing; None where the script gives none of
    them a value that is not there.

    Args:
        context: The place of the call.
        entry: The call.
    """
    for field in islice(_missing_names(entry), _MAX_FIELDS):
        for call in context.enclosing("CallExpression"):
            if context.dataflow is None or not is_server_call(context.dataflow, call.callee):
                continue
            for value in _values(context, call, field.split(".")):
                if (hint := _hint(context, value, field)) is not None:
                    return hint if len(hint) <= MAX_HINT else f"{hint[: MAX_HINT - 1]}…"
            break
    return None


def _hint(context: FailureContext, value: Node, field: str) -> str | None:
    fields: HintFields | None = missing_fields(context, value, "")
    if fields is not None and fields["nothing"] == "undefined":
        returned = f"{fields['tool']} returned {fields['shape']}.{fields['use'] or _by_last_word(context, value)}"
        return f"`{field}` is missing since `{fields['what']}` is undefined{fields['some']}: {returned}"
    if (fields := brought_fields(context, [(value, ())])) is not None and fields["kind"] == "undefined":
        brought = f"the request brought {fields['brought']}.{fields['use']}"
        return f"`{field}` is missing since `{fields['what']}` is undefined: {brought}"
    return None


def _by_last_word(context: FailureContext, value: Node) -> str:
    """The advice to use the property that is the last word of a name: `author.id` for `author.author_id`. A warning
    would not say so: `task.parentId` may be missing."""
    for source in context.sources(value):
        name = member_name(source) if source.type == "MemberExpression" else None
        word = _LAST_WORD.search(name) if isinstance(name, str) else None
        for observation in context.observations(source) if word is not None else ():
            key = "" if word is None else word[0].casefold()
            if any(isinstance(parent, dict) and key in parent for parent in observation.parents):
                meant = member_text(context.owner_text(source.object), key)
                return f" Did you mean `{meant}`?"
    return ""


def _missing_names(call: CallEntry) -> Iterator[str]:
    """The fields that the server says are missing."""
    error: object = msgspec.json.decode(call.payload or "null")
    details = cast("dict[str, object]", error).get("details") if isinstance(error, dict) else None
    for detail in cast("list[object]", details) if isinstance(details, list) else ():
        entry = cast("dict[str, object]", detail) if isinstance(detail, dict) else {}
        field, message = entry.get("field"), entry.get("message")
        if isinstance(field, str) and isinstance(message, str) and _MISSING.search(message):
            yield field


def _values(context: FailureContext, call: Node, path: list[str]) -> Iterator[Node]:
    """The expressions that the input of a call has for a field."""
    found: list[Node] = list(call.arguments)
    for name in path:
        owners = [made for value in found for made in context.sources(value) if made.type == "ObjectExpression"]
        properties = [item for owner in owners for item in owner.properties if item.type == "Property"]
        found = [item.value for item in properties if not item.computed and key_name(item.key) == name]
    yield from found
