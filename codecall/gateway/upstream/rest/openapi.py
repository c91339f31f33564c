"""A REST API as a server: its OpenAPI document becomes a FastMCP server in memory, whose tools are the operations.

The document is fetched when the server is started, bounded in size and time. An operation's HTTP method decides the
annotations that access rules read: GET and HEAD change nothing, DELETE destroys something.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Set
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack, cast
from urllib.parse import urljoin, urlsplit

import httpx2
import yaml
from fastmcp import FastMCP
from fastmcp.client.transports.base import ClientTransport, SessionKwargs, TransportOptions
from fastmcp.client.transports.memory import FastMCPTransport
from fastmcp.exceptions import ToolError
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from mcp import ClientSession
from mcp_types import CallToolRequestParams, ToolAnnotations

from codecall.concurrency import StoppableThreads
from codecall.errors import OptionsError
from codecall.gateway.config.options import OpenApiServer
from codecall.gateway.upstream.addresses import is_allowed_target
from codecall.gateway.upstream.rest.client import CALL_HEADERS, create_client
from codecall.gateway.upstream.rest.components import drop_unreached
from codecall.gateway.upstream.rest.schemas import PublishedSchemas, trim_schemas
from codecall.gateway.upstream.rest.validity import InvalidDocumentError, as_models
from codecall.gateway.upstream.rest.work import MAX_DEPTH, TooMuchWorkError
from codecall.jsonio.core_yaml import FAST_LOADER, FastCoreLoader
from codecall.jsonio.decode import read_json
from codecall.jsonio.documents import is_harmless_yaml

if TYPE_CHECKING:
    from fastmcp.tools import Tool
    from fastmcp.utilities.openapi import HTTPRoute

logger = logging.getLogger("codecall")

MAX_BYTES: Final = 16 * 1024 * 1024
"""Largest document."""

MAX_BRACKETS: Final = 1_000_000
"""Lists and objects of a document, used or not: GitHub's has 91,000. To decode so many holds the interpreter for half a
second; 16 MiB of empty lists, which are 5,600,000, for three."""

MAX_URL: Final = 2_048
"""Characters of the URL at which a document says that the API is."""

_THREADS: Final = StoppableThreads("documents", 2)
"""A document may take all of the time that its server has to start, and be fetched anew at each call: the other servers
keep one of these threads, and all of those in which the event loop looks up addresses."""

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_REPEATABLE: Final = _SAFE | {"PUT", "DELETE"}
_URL: Final = re.compile(r"https?://", re.IGNORECASE)
_VARIABLE: Final = re.compile(r"\{([^{}]*)\}")
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


class OpenApiTransport(ClientTransport):
    """Builds the server for each session, and ends it with the session.

    Args:
        name: of the server.
        options: with all references replaced.
        session: makes a session of two streams.
    """

    def __init__(self, name: str, options: OpenApiServer, session: Callable[..., ClientSession]) -> None:
        self._name = name
        self._options = options
        self._session = session

    @asynccontextmanager
    async def connect_session(
        self, *, transport_options: TransportOptions | None = None, **session_kwargs: Unpack[SessionKwargs]
    ) -> AsyncGenerator[ClientSession]:
        """A session with it.

        Raises:
            OptionsError: as `build_openapi_server`.
        """
        _ = transport_options
        server = await build_openapi_server(self._name, self._options)

        def session(read_stream: object, write_stream: object, **options: object) -> ClientSession:
            return self._session(read_stream, write_stream, **options)

        options = TransportOptions(session_class=cast("type[ClientSession]", session))
        async with FastMCPTransport(server).connect_session(transport_options=options, **session_kwargs) as connected:
            yield connected

    async def describe_end(self) -> str:
        """Say how the server ended."""
        return "was stopped"


async def build_openapi_server(name: str, options: OpenApiServer) -> FastMCP[Any]:
    """Build the server, ready to be connected to; its HTTP client lives as long as its lifespan.

    Args:
        name: of the server.
        options: with all references replaced.

    Raises:
        OptionsError: the document cannot be fetched, is no OpenAPI document, or does not say where the API is.
    """
    text, url = await _fetch_document(name, options)
    document = await _THREADS.run(name, lambda: _parse(name, text))
    base_url = options.base_url or await _THREADS.run(name, lambda: _base_url(name, document, url))
    if options.headers and options.base_url is None and (url is None or _origin(base_url) != _origin(url)):
        # A document is data: its author must not decide who gets the headers.
        raise OptionsError(
            f"servers.{name}.base_url: headers are configured, and only the document says where the API is"
            + ("" if url is None else ": on another host than the document"),
            hint="Set base_url to the API's URL, if it is to get the headers.",
        )
    stranger = options.base_url is None and url is not None and urlsplit(url).hostname
    if stranger and not await is_allowed_target(base_url, [stranger]):
        raise OptionsError(
            f"servers.{name}.base_url: the document says that the API is at {urlsplit(base_url).hostname}, which is no"
            " public address",
            hint="Set base_url to the API's URL, if that is meant.",
        )
    return await _THREADS.run(name, lambda: _build_server(name, document, base_url, options, stranger or None))


async def _fetch_document(name: str, options: OpenApiServer) -> tuple[bytes, str | None]:
    """The text of the document, and the URL it was fetched from; None: it is a file."""
    if not _URL.match(options.openapi):
        try:
            return await _THREADS.run(name, lambda: _read_file(options.openapi)), None
        except OSError as failure:
            raise OptionsError(
                f"servers.{name}.openapi: the file {_full_path(options.openapi)} cannot be read"
                f" ({failure.strerror or type(failure).__name__})",
                hint="A path in a configuration file is looked for in the folder of that file.",
            ) from None
    try:
        return await _download(name, options), options.openapi
    except OptionsError:
        raise
    except Exception as failure:  # not only those of httpx2: what is below it is not always translated
        raise _fetch_error(name, type(failure).__name__) from None


async def _download(name: str, options: OpenApiServer) -> bytes:
    """The document at a URL."""
    timeout = httpx2.Timeout(options.start_timeout_s)
    async with (
        # Headers are for the API, and for its document only if that is where the API is: else they might be
        # shown to somebody else.
        httpx2.AsyncClient(timeout=timeout, follow_redirects=False, headers=_document_headers(options)) as client,
        asyncio.timeout(options.start_timeout_s),
        client.stream("GET", options.openapi) as response,
    ):
        if response.status_code != 200:
            raise _fetch_error(name, f"the server answered {response.status_code}")
        text = bytearray()
        async for part in response.aiter_bytes():
            text += part
            if len(text) > MAX_BYTES:
                raise _fetch_error(name, f"it is larger than {MAX_BYTES} bytes")
        return bytes(text)


def _document_headers(options: OpenApiServer) -> Mapping[str, str]:
    api = options.base_url or options.openapi
    return options.headers if _origin(api) == _origin(options.openapi) else {}


def _origin(url: str) -> tuple[str, str | None, int | None] | None:
    """Scheme, host and port; None: it is no URL."""
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None


def _fetch_error(name: str, reason: str) -> OptionsError:
    return OptionsError(
        f"servers.{name}.openapi: the document could not be fetched: {reason}",
        hint="Open its URL in a browser, or save it and give the path of the file.",
    )


def _full_path(path: str) -> Path:
    return Path(path).expanduser().absolute()


def _read_file(path: str) -> bytes:
    with _full_path(path).open("rb") as file:
        text = file.read(MAX_BYTES + 1)
    if len(text) > MAX_BYTES:
        raise OSError(0, f"it is larger than {MAX_BYTES} bytes")
    return text


def _parse(name: str, text: bytes) -> dict[str, Any]:
    """Parse a document, JSON or YAML."""
    if text.count(b"[") + text.count(b"{") > MAX_BRACKETS:
        raise _too_much_error(name, f"it has more than {MAX_BRACKETS:,} lists and objects")
    value: object = None
    try:
        value = read_json(text)
    except (ValueError, RecursionError):
        try:
            decoded = text.decode("utf-8-sig")
            if is_harmless_yaml(decoded, depth=MAX_DEPTH, loader=FAST_LOADER):
                value = _read_yaml(decoded)
        except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError):
            value = None
    if not isinstance(value, dict) or not isinstance(cast("dict[str, object]", value).get("paths"), dict):
        raise OptionsError(
            f"servers.{name}.openapi: this is no OpenAPI document",
            hint="It must be JSON or YAML, with `openapi` and `paths` at its top.",
        )
    document = cast("dict[str, Any]", value)
    if "openapi" not in document and "swagger" in document:
        raise OptionsError(
            f"servers.{name}.openapi: this document is of Swagger, which came before OpenAPI 3",
            hint="Convert it to OpenAPI 3, such as by `npx swagger2openapi FILE`, and give the path of that.",
        )
    return document


def _read_yaml(text: str) -> object:
    """What a YAML document holds; the version of its API is a text as it is written, as `1.0` is."""
    loader = cast("Any", FastCoreLoader)(text)
    if (document := loader.get_single_node()) is None:
        return None
    version = _yaml_member(_yaml_member(document, "info"), "version")
    if isinstance(version, yaml.ScalarNode) and not version.tag.endswith(":null"):
        version.tag = "tag:yaml.org,2002:str"
    return cast("object", loader.construct_document(document))


def _yaml_member(node: Any, name: str) -> Any:
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return next((value for key, value in pairs if key.value == name), None)


def _base_url(name: str, document: Mapping[str, Any], url: str | None) -> str:
    """The URL of the first server that the document names; a relative one is relative to the document's URL."""
    servers = cast("object", document.get("servers"))
    first: object = cast("list[object]", servers)[0] if isinstance(servers, list) and servers else None
    server = cast("dict[str, object]", first) if isinstance(first, dict) else {}
    base: object = _without_variables(name, server) or "/"
    try:
        base = urljoin(url, str(base)) if url is not None else base
        is_url = urlsplit(str(base)).hostname is not None and _URL.match(str(base)) is not None
    except ValueError:
        is_url = False
    if not is_url:
        raise _base_url_error(name, "the document does not say where the API is")
    return str(base)


def _without_variables(name: str, server: Mapping[str, object]) -> str:
    """The URL that a document says, with the defaults of its variables, which have no variables themselves; empty:
    none."""
    said = server.get("url")
    if not isinstance(said, str):
        return ""
    variables: object = server.get("variables") or {}
    # What is no object of variables has one without a default.
    defined = cast("dict[str, object]", variables) if isinstance(variables, dict) else {"": None}
    defaults: dict[str, str] = {}
    for variable, definition in defined.items():
        default = cast("dict[str, object]", definition).get("default", "") if isinstance(definition, dict) else None
        if not isinstance(default, str | int | float):
            raise _base_url_error(name, "the document has `variables` of its server without a `default` that is a text")
        defaults[variable] = str(default)[: MAX_URL + 1]
    if len(said) <= MAX_URL:
        said = _VARIABLE.sub(lambda match: defaults.get(match[1], match[0]), said)
    if len(said) > MAX_URL:
        raise _base_url_error(name, f"the document says a URL of more than {MAX_URL:,} characters")
    return said


def _base_url_error(name: str, reason: str) -> OptionsError:
    return OptionsError(f"servers.{name}.base_url: {reason}", hint="Set base_url to the API's URL.")


def _too_much_error(name: str, reason: str) -> OptionsError:
    return OptionsError(
        f"servers.{name}.openapi: the document is too much: {reason}",
        hint="Save it without the paths that are not needed, and give the path of the file.",
    )


def _build_server(
    name: str, document: dict[str, Any], base_url: str, options: OpenApiServer, public_but: str | None
) -> FastMCP[Any]:
    # These load jsonschema and more, and only those need them who have a REST API.
    from fastmcp.server.providers.openapi import MCPType, OpenAPIProvider, OpenAPITool, RouteMap

    client = create_client(base_url, options, public_but)

    @asynccontextmanager
    async def lifespan(_: FastMCP[Any]) -> AsyncGenerator[dict[str, Any]]:
        async with client:
            yield {}

    checks = _ParameterChecks({name.lower() for name in options.headers})
    published = PublishedSchemas()

    def annotate(route: HTTPRoute, component: object) -> None:
        if isinstance(component, OpenAPITool):
            component.annotations = _annotations(route.method.upper(), route.summary)
            checks.add(route, component)
            component.parameters = published.parameters(component.parameters)
            component.output_schema = published.result(component.output_schema)

    try:
        trim_schemas(document)
        drop_unreached(document)
        models = as_models(document)
        provider = OpenAPIProvider(
            models,
            client,
            route_maps=[RouteMap(mcp_type=MCPType.TOOL)],
            mcp_component_fn=annotate,
        )
    except TooMuchWorkError as failure:
        raise _too_much_error(name, str(failure)) from None
    except InvalidDocumentError as failure:
        raise OptionsError(
            f"servers.{name}.openapi: FastMCP cannot make tools of this document: {failure}",
            hint="Have it checked by an OpenAPI validator.",
        ) from None
    except Exception as failure:
        logger.debug("The OpenAPI document of %s cannot be used", name, exc_info=True)
        raise OptionsError(
            f"servers.{name}.openapi: FastMCP cannot make tools of this document ({type(failure).__name__})",
            hint="Have it checked by an OpenAPI validator.",
        ) from None
    # FastMCP keeps it, and reads nothing of it once there are tools.
    models.clear()
    info = cast("object", document.get("info"))
    version = cast("dict[str, object]", info).get("version") if isinstance(info, dict) else None
    server: FastMCP[Any] = FastMCP(
        name,
        version=str(version or "") or None,
        lifespan=lifespan,
        middleware=[checks],
        # The gateway does that, for the tools that it shows.
        dereference_schemas=False,
    )
    server.add_provider(provider)
    return server


class _ParameterChecks(Middleware):
    """Refuses calls that would reach another operation than the tool's, or speak for somebody else than the operator.

    An empty part of a path leaves the path of another operation, as a rule that of all the items. A header that the
    operator has configured is none that a caller may set, whatever the document says; nor is one of the transport or of
    the method. A
    cookie would replace the operator's `Cookie`, and a value of one may hold no other. FastMCP leaves out an argument
    that the operation does not have: the call would do something else than it says.

    Args:
        headers: names of the configured headers, in lower case.
    """

    def __init__(self, headers: Set[str]) -> None:
        self._reserved = {_as_hyphens(name) for name in headers} | _TRANSPORT_HEADERS | _METHOD_HEADERS
        self._headers: dict[str, Mapping[str, str]] = {}
        self._in_path: dict[str, Collection[str]] = {}
        self._known: dict[str, Collection[str]] = {}
        self._not_for_callers: dict[str, Collection[str]] = {}
        self._cookies: dict[str, Collection[str]] = {}

    def add(self, route: HTTPRoute, tool: Tool) -> None:
        """Check the calls of a tool from now on, have its schema say that there are no other parameters, and take from
        it what a caller may not set."""
        places = route.parameter_map.items()
        self._in_path[tool.name] = [name for name, place in places if place["location"] == "path"]
        self._cookies[tool.name] = [name for name, place in places if place["location"] == "cookie"]
        not_for_callers = {
            name
            for name, place in places
            if _as_hyphens(_header(place["location"], place["openapi_name"])) in self._reserved
        }
        self._not_for_callers[tool.name] = not_for_callers
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
            self._known[tool.name] = list(route.parameter_map)

    async def on_call_tool(
        self, context: MiddlewareContext[CallToolRequestParams], call_next: CallNext[CallToolRequestParams, Any]
    ) -> Any:
        """See `Middleware.on_call_tool`.

        Raises:
            ToolError: the input is refused.
        """
        tool, arguments = context.message.name, context.message.arguments or {}
        for name in self._in_path.get(tool, ()):
            if arguments.get(name) in ("", []):
                raise ToolError(f"'{name}' is a part of the path of this operation: it must not be empty.")
        for name in self._not_for_callers.get(tool, ()):
            if name in arguments:
                raise ToolError(f"'{name}' is a header that the gateway sets: leave it out.")
        for name in self._cookies.get(tool, ()):
            if _NO_COOKIE_VALUE.search(str(arguments.get(name, ""))) is not None:
                raise ToolError(f"'{name}' is a cookie: it must have no semicolon, comma or control character.")
        known = self._known.get(tool, arguments)
        if unknown := [name for name in arguments if name not in known]:
            hidden = self._not_for_callers.get(tool, ())
            names = ", ".join(name for name in known if name not in hidden) or "none"
            raise ToolError(f"Unknown parameter '{unknown[0]}'. The parameters of this operation: {names}.")
        headers = self._headers.get(tool, {})
        token = CALL_HEADERS.set({headers[name] for name in headers if arguments.get(name) is not None})
        try:
            return await call_next(context)
        finally:
            CALL_HEADERS.reset(token)


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


def _annotations(method: str, title: str | None) -> ToolAnnotations:
    return ToolAnnotations(
        title=title or None,
        read_only_hint=method in _SAFE,
        destructive_hint=method == "DELETE",
        idempotent_hint=method in _REPEATABLE,
        open_world_hint=True,
    )
