"""Whether a document is valid, asked part by part.

FastMCP asks for all of it at once. That holds the interpreter until it is done, and writes down each mistake with all
that is around it: a document of a megabyte would take all memory. So it gets only what is valid, and gets that as the
models that were made of it part by part: those it takes as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import ValidationError

from codecall.gateway.upstream.messages import shorten
from codecall.gateway.upstream.rest.work import MAX_DEPTH, TooMuchWorkError, as_list, as_object, inner_values
from codecall.redaction.clean import escape_invisible

if TYPE_CHECKING:
    from pydantic import BaseModel

MAX_NESTED: Final = 500_000
"""Values of one part, each as often as it is nested: for so many pydantic may write down mistakes, of 300 bytes each.
GitHub's largest part has 52,000."""

MAX_OBJECTS: Final = 200_000
"""Objects of a document. Most become a model of 2 KB, and take FastMCP 5 microseconds: all of them 400 MB and a second.
GitHub's document has 79,000."""

_MAX_MISTAKES: Final = 1_000
"""Mistakes of a part of which the first is looked for: pydantic tells all of them or none."""

_MAX_KEY: Final = 60
_MAX_MISTAKE: Final = 300

_LEVELS: Final = {"paths": 1, "webhooks": 1, "components": 2}
"""At how many levels the members of a document are mappings of parts."""
_HEAD: Final = {"info": {"title": "", "version": ""}, "paths": {}}


class InvalidDocumentError(Exception):
    """A document has a mistake; the text says where, and what is wrong there."""


def as_models(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with its parts as the models that FastMCP has for them.

    Raises:
        InvalidDocumentError: it has mistakes.
        TooMuchWorkError: it or a part of it is too large.
    """
    _check_objects(document)
    model = _model(document)
    head = {name: document[name] for name in ("openapi", "info") if name in document}
    _validate(model, {"paths": {}, **head}, ())

    def models(value: object, *path: str) -> object:
        """What stands at a path: a part, or a mapping of parts."""
        if isinstance(value, dict) and len(path) <= _LEVELS.get(path[0], 0):
            return {key: models(member, *path, key) for key, member in as_object(cast("object", value)).items()}
        within: dict[str, object] = {path[-1]: value}
        for key in reversed(path[:-1]):
            within = {key: within}
        found: Any = _validate(model, {**_HEAD, "openapi": document.get("openapi"), **within}, path)
        for key in path:
            found = dict(found)[key]
        return cast("object", found)

    fields = {field.alias or name for name, field in model.model_fields.items()} - head.keys()
    return {name: models(value, name) if name in fields else value for name, value in document.items()}


def _check_objects(document: Mapping[str, Any]) -> None:
    left, pending = MAX_OBJECTS, [cast("object", document)]
    while pending:
        value = pending.pop()
        left -= isinstance(value, dict)
        pending += inner_values(value)
    if left < 0:
        raise TooMuchWorkError(f"it has more than {MAX_OBJECTS:,} objects")


def _model(document: Mapping[str, Any]) -> type[BaseModel]:
    """The model that FastMCP has for a document."""
    if str(document.get("openapi")).startswith("3.0"):
        from openapi_pydantic.v3.v3_0 import OpenAPI as OpenAPI30

        return OpenAPI30
    from openapi_pydantic import OpenAPI

    return OpenAPI


def _validate(model: type[BaseModel], part: Mapping[str, Any], path: tuple[str, ...]) -> BaseModel:
    _check_size(part)
    try:
        return model.model_validate(part)
    except ValidationError as failure:
        raise InvalidDocumentError(_first_mistake(part, path, failure)) from None


def _first_mistake(part: object, path: tuple[str, ...], failure: ValidationError) -> str:
    """Where the first mistake of a part is, and what it is, without what stands there."""
    if failure.error_count() > _MAX_MISTAKES:
        return _mistake(path, f"more than {_MAX_MISTAKES:,} mistakes")
    mistakes = failure.errors(include_url=False, include_context=False, include_input=False)
    # Where a reference may stand, it is a mistake, too, that none does.
    mistake = next((each for each in mistakes if each["loc"][-2:] != ("Reference", "$ref")), mistakes[0])
    keys: list[str | int] = []
    for key in mistake["loc"]:  # of which some are names of models
        members: dict[Any, object] = as_object(part) if isinstance(key, str) else dict(enumerate(as_list(part)))
        if key in members:
            part = members[key]
            keys.append(key)
    return _mistake([*keys, mistake["loc"][-1]] if mistake["type"] == "missing" else keys, mistake["msg"])


def _mistake(path: Sequence[str | int], what: str) -> str:
    where = ".".join(shorten(str(key), _MAX_KEY) for key in path)
    return escape_invisible(f"{shorten(where, _MAX_MISTAKE)}: {shorten(what, _MAX_MISTAKE)}")


def _check_size(part: object) -> None:
    left, level = MAX_NESTED, [part]
    for depth in range(1, MAX_DEPTH + 3):
        left -= depth * len(level)
        if left < 0:
            raise TooMuchWorkError("a path or a component of it is too large")
        level = [inner for each in level for inner in inner_values(each)]
