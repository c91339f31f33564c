"""What a call may ask of a REST API, looked at before FastMCP makes a request of it.

FastMCP writes out whatever it is given, on the event loop: a value for each time that its name stands in the path, the
name of a list for each of its values, and a text in any encoding that the document names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Set
from email.message import Message
from typing import TYPE_CHECKING, Any, Final, cast

from fastmcp.exceptions import ToolError
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from mcp_types import CallToolRequestParams

from codecall.gateway.upstream.responses import MAX_CONTENT_TYPE, QUICK_CHARSETS
from codecall.gateway.upstream.rest.client import CALL_HEADERS
from codecall.schema.comparison import BudgetSpentError
from codecall.schema.shapes import Shapes, TooManyReadingsError, kind_of, kinds_of

if TYPE_CHECKING:
    from fastmcp.tools import Tool
    from fastmcp.utilities.openapi import HTTPRoute

MAX_PARAMETERS: Final = 64 * 1024
"""Characters of all parameters of a request but for its body: as many as httpx2 takes for a URL (`MAX_URL_LENGTH`).
Few servers take more than 8 KiB, for which RFC 9110 (4.1) asks."""

MAX_FORM_VALUES: Final = 10_000
"""Values in a form: ten times as many as Django (`DATA_UPLOAD_MAX_NUMBER_FIELDS`) and PHP (`max_input_vars`) take."""

MAX_FORM: Final = 4 * 1024 * 1024
"""Characters of a form, with the name before each value: as much as the gateway takes of a call over HTTP."""

_FORMS: Final = ("multipart/form-data", "application/x-www-form-urlencoded")

_TRANSPORT_HEADERS: Final = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that say how a request or its answer travels: they would make another request of it, or send it elsewhere."""

_METHOD_HEADERS: Final = frozenset({"x-http-method", "x-http-method-override", "x-method-override"})
"""Headers by which a request is one of another method: a tool that reads would delete."""

_NO_COOKIE_VALUE: Final = re.compile(r"[;,\x00-\x1f\x7f]")
"""What ends a cookie's value: behind it, another cookie could stand."""


class RequestChecks(Middleware):
    """Refuses calls that would reach another operation than the tool's, speak for somebody else than the operator, or
    take long to make a request of; writes what stands in a path, a header or a cookie.

    An empty part of a path leaves the path of another operation, as a rule that of all the items. A header that the
    operator has configured is none that a caller may set, whatever the document says; nor is one of the transport or of
    the method. A cookie would replace the operator's `Cookie`, and a value of one may hold no other. FastMCP leaves out
    an argument that the operation does not have: the call would do something else than it says. Of an object in a query
    it makes parameters of any name.

    Args:
        headers: names of the configured headers, in lower case.
    """

    def __init__(self, headers: Set[str]) -> None:
        self._reserved = {_as_hyphens(name) for name in headers} | _TRANSPORT_HEADERS | _METHOD_HEADERS
        self._headers: dict[str, Mapping[str, str]] = {}
        self._in_path: dict[str, Collection[str]] = {}
        self._not_for_callers: dict[str, Collection[str]] = {}
        self._cookies: dict[str, Collection[str]] = {}
        self._as_text: dict[str, Mapping[str, str]] = {}
        """Of each tool the parameters that are one text of the request, and where it stands."""
        self._routes: dict[str, HTTPRoute] = {}
        self._unwritable: dict[str, str] = {}
        """Why a tool's body cannot be written, where it cannot."""

    def add(self, route: HTTPRoute, tool: Tool) -> None:
        """Check the calls of a tool from now on, have its schema say that there are no other parameters, and take from
        it what a caller may not set."""
        self._routes[tool.name] = route
        if problem := _body_problem(_content_type(route)):
            self._unwritable[tool.name] = problem
        places = route.parameter_map.items()
        # In tuples of texts, which garbage collection does not look at.
        self._in_path[tool.name] = tuple(name for name, place in places if place["location"] == "path")
        self._cookies[tool.name] = tuple(name for name, place in places if place["location"] == "cookie")
        self._as_text[tool.name] = {
            name: place["location"] for name, place in places if place["location"] in ("path", "header", "cookie")
        }
        not_for_callers = self._not_for_callers[tool.name] = tuple(
            name
            for name, place in places
            if _as_hyphens(_header(place["location"], place["openapi_name"])) in self._reserved
        )
        headers = {name: _header(place["location"], place["openapi_name"]) for name, place in places}
        self._headers[tool.name] = {name: header for name, header in headers.items() if header}
        if not_for_callers:
            properties, required = tool.parameters.get("properties", {}), tool.parameters.get("required", [])
            remaining = {name: schema for name, schema in properties.items() if name not in not_for_callers}
            required_names = [name for name in required if name not in not_for_callers]
            tool.parameters = {**tool.parameters, "properties": remaining, "required": required_names}
        if _has_open_body(route):
            route.parameter_map = _OpenBody(route.parameter_map)
        else:
            tool.parameters = {**tool.parameters, "additionalProperties": False}

    async def on_call_tool(
        self, context: MiddlewareContext[CallToolRequestParams], call_next: CallNext[CallToolRequestParams, Any]
    ) -> Any:
        """See `Middleware.on_call_tool`.

        Raises:
            ToolError: the input is refused.
        """
        tool, arguments = context.message.name, context.message.arguments or {}
        if (route := self._routes.get(tool)) is None:
            return await call_next(context)  # which has no such tool
        hidden = self._not_for_callers[tool]
        if (unknown := next((name for name in arguments if name not in route.parameter_map), None)) is not None:
            names = ", ".join(name for name in route.parameter_map if name not in hidden) or "none"
            raise ToolError(f"Unknown parameter '{unknown}'. The parameters of this operation: {names}.")
        for name in hidden:
            if name in arguments:
                raise ToolError(f"'{name}' is a header that the gateway sets: leave it out.")
        self._check_values(tool, route, {name: value for name, value in arguments.items() if value is not None})
        as_text = self._as_text[tool].items()
        texts = {name: _text(name, arguments[name], place) for name, place in as_text if name in arguments}
        arguments = {**arguments, **texts}
        context = context.copy(message=context.message.model_copy(update={"arguments": arguments}))
        for name in self._in_path[tool]:
            if arguments.get(name) == "":
                raise ToolError(f"'{name}' is a part of the path of this operation: it must not be empty.")
        for name in self._cookies[tool]:
            if _NO_COOKIE_VALUE.search(str(arguments.get(name, ""))) is not None:
                raise ToolError(f"'{name}' is a cookie: it must have no semicolon, comma or control character.")
        headers = self._headers[tool]
        token = CALL_HEADERS.set({headers[name] for name in headers if arguments.get(name) is not None})
        try:
            return await call_next(context)
        finally:
            CALL_HEADERS.reset(token)

    def _check_values(self, tool: str, route: HTTPRoute, arguments: Mapping[str, object]) -> None:
        body: dict[str, object] = {}
        containers: dict[str, object] = {}
        left = MAX_PARAMETERS
        for name, value in arguments.items():
            place = route.parameter_map[name]
            location, sent_as = place["location"], place["openapi_name"]
            if location == "body":
                body[sent_as] = value
                continue
            left -= _length(sent_as, value) * (route.path.count(f"{{{sent_as}}}") if location == "path" else 1)
            if left < 0:
                raise ToolError(
                    f"The path, query, headers and cookies of a request may have {MAX_PARAMETERS:,} characters of"
                    f" parameters: '{name}' is too long."
                )
            if isinstance(value, dict | list):
                containers[name] = cast("object", value)
        if containers:
            _check_types(route, containers)
        if body and tool in self._unwritable:
            raise ToolError(f"The body of this operation cannot be written: {self._unwritable[tool]}.")
        if body and _media_type(_content_type(route)) in _FORMS:
            sole = next(iter(body.values()))
            _check_form(cast("dict[str, object]", sole) if len(body) == 1 and isinstance(sole, dict) else body)


def _header(location: str, name: str) -> str:
    """The header that a parameter at this place sets, in lower case; empty: none."""
    return {"header": name.strip().lower(), "cookie": "cookie"}.get(location, "")


def _as_hyphens(header: str) -> str:
    """A header's name as CGI and what descends from it tell names apart, which read `X_Key` as `X-Key`."""
    return header.replace("_", "-")


class _OpenBody(dict[str, dict[str, str]]):
    """Where the parameters of an operation go: those that it does not name into its body."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> dict[str, str]:
        return {"location": "body", "openapi_name": name}


def _has_open_body(route: HTTPRoute) -> bool:
    """Whether the document says that the body, whose members are parameters of the tool, may have others."""
    content = route.request_body.content_schema if route.request_body is not None else {}
    body: object = next(iter(content.values()), None)
    if not isinstance(body, dict) or not (schema := cast("dict[str, object]", body)).get("properties"):
        return False
    return schema.get("additionalProperties", False) is not False or "patternProperties" in schema


def _content_type(route: HTTPRoute) -> str:
    """What FastMCP says that the body of a request is; empty: there is none."""
    return next(iter(route.request_body.content_schema), "") if route.request_body is not None else ""


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _body_problem(content_type: str) -> str:
    """Why FastMCP is not to write a body of this type; empty: it may."""
    if len(content_type) > MAX_CONTENT_TYPE:
        return f"the document gives it a type of more than {MAX_CONTENT_TYPE} characters"
    kind = _media_type(content_type)
    if kind == "application/json" or kind.endswith("+json"):
        return ""  # in UTF-8, whatever else is named
    message = Message()
    message["Content-Type"] = content_type
    charset = message.get_content_charset()
    if charset in (None, "utf-8", "utf8") or charset in QUICK_CHARSETS:
        return ""
    return f"the document says that it is in {charset}, not in UTF-8, ASCII, ISO 8859-1 or Windows-1252"


def _count(value: object) -> int:
    """How many values are sent for one."""
    return len(cast("list[object]", value)) if isinstance(value, dict | list) else 1


def _length(name: str, value: object) -> int:
    """Characters of a parameter, whose name stands before each value."""
    try:
        return _count(value) * len(name) + len(str(value))
    except ValueError:
        raise ToolError(f"'{name}' has a number of more digits than can be written.") from None


def _text(name: str, value: object, place: str) -> str | None:
    """A parameter as it stands in a path, a header or a cookie: the values of a list with commas between them, as
    OpenAPI's `simple` style writes them. FastMCP would write them as Python does, or fail.

    Raises:
        ToolError: it cannot be written so that it is read as it was.
    """
    match value:
        case None | str():
            return value
        case bool():
            return "true" if value else "false"
        case list():
            items = cast("list[object]", value)
            texts = [None if isinstance(item, (list, dict)) else _text(name, item, place) for item in items]
            if any(text is None or "," in text for text in texts):
                raise ToolError(
                    f"'{name}' is a list that no {place} can hold: its items must be texts without a comma, numbers, "
                    "or true and false."
                )
            return ",".join(cast("list[str]", texts))
        case dict():
            raise ToolError(f"'{name}' is an object, which no {place} can hold.")
        case _:
            return str(value)


def _check_types(route: HTTPRoute, arguments: Mapping[str, object]) -> None:
    """Refuse objects and lists that the document does not declare. All else is a text in a URL, whatever its type."""
    shapes = Shapes(route.flat_param_schema)
    properties = route.flat_param_schema.get("properties", {})
    deep = {parameter.name for parameter in route.parameters if parameter.style == "deepObject"}
    for name, value in arguments.items():
        try:
            found = shapes.of(properties.get(name))
        except (TooManyReadingsError, BudgetSpentError):
            found = []
        kind, kinds = kind_of(value), {str(each) for shape in found for each in kinds_of(shape)}
        if route.parameter_map[name]["openapi_name"] in deep or any("properties" in shape for shape in found):
            kinds.add("object")
        # A list of nobody knows what is texts; an object is parameters of any name.
        if kind not in kinds and (kind == "object" or kinds - {"any"}):
            declared = " or ".join(sorted(kinds - {"any"})) or "a value without a type"
            raise ToolError(f"'{name}' is declared as {declared}: it must not be an {kind}.")


def _check_form(fields: Mapping[str, object]) -> None:
    values = sum(map(_count, fields.values()))
    if values > MAX_FORM_VALUES:
        raise ToolError(f"A form may have {MAX_FORM_VALUES:,} values: this one has {values:,}.")
    if sum(_length(name, value) for name, value in fields.items()) > MAX_FORM:
        raise ToolError(f"A form may have {MAX_FORM:,} characters: this one has more.")
