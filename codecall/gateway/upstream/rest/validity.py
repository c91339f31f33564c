"""Whether a document is valid, asked part by part.

FastMCP asks for all of it at once, and writes down each mistake with all that is around it: a document of a megabyte
would take all memory. So it gets only what is valid.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from codecall.gateway.upstream.rest.work import MAX_DEPTH, TooMuchWorkError, as_object, inner_values

if TYPE_CHECKING:
    from pydantic import BaseModel

MAX_NESTED: Final = 500_000
"""Values of one part, each as often as it is nested: for so many pydantic may write down mistakes, of 300 bytes each.
GitHub's largest part has 52,000."""

_LEVELS: Final = {"paths": 1, "webhooks": 1, "components": 2}
"""At how many levels the members of a document are mappings of parts."""
_HEAD: Final = {"info": {"title": "", "version": ""}, "paths": {}}


def check_validity(document: Mapping[str, Any]) -> None:
    """Refuse a document with mistakes.

    Raises:
        ValidationError: it has some.
        TooMuchWorkError: a part of it is too large.
    """
    model = _model(document)
    fields = {field.alias or name for name, field in model.model_fields.items()}
    for name in document.keys() & fields - {"openapi"}:
        for part in _split(document[name], _LEVELS.get(name, 0)):
            _check_size(part)
            model.model_validate({**_HEAD, "openapi": document.get("openapi"), name: part})


def _model(document: Mapping[str, Any]) -> type[BaseModel]:
    """The model that FastMCP has for a document."""
    if str(document.get("openapi")).startswith("3.0"):
        from openapi_pydantic.v3.v3_0 import OpenAPI as OpenAPI30

        return OpenAPI30
    from openapi_pydantic import OpenAPI

    return OpenAPI


def _split(value: object, levels: int) -> Iterator[object]:
    """A value as values with one member each, at so many levels."""
    if not levels or not isinstance(value, dict):
        yield value
        return
    for key, member in as_object(cast("object", value)).items():
        yield from ({key: part} for part in _split(member, levels - 1))


def _check_size(part: object) -> None:
    left, level = MAX_NESTED, [part]
    for depth in range(1, MAX_DEPTH + 3):
        left -= depth * len(level)
        if left < 0:
            raise TooMuchWorkError("a path or a component of it is too large")
        level = [inner for each in level for inner in inner_values(each)]
