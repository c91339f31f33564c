"""A REST API as a server: its OpenAPI document becomes a FastMCP server in memory, whose tools are the operations.

The document is fetched when the server is started, bounded in size and time. An operation's HTTP method decides the
annotations that access rules read: GET and HEAD change nothing, DELETE destroys something.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Unpack, cast
from urllib.parse import urljoin, urlsplit

from fastmcp import FastMCP
from fastmcp.client.transports.base import ClientTransport, SessionKwargs, TransportOptions
from fastmcp.client.transports.memory import FastMCPTransport
from mcp import ClientSession
from mcp_types import ToolAnnotations

from codecall.errors import OptionsError
from codecall.gateway.config.options import OpenApiServer
from codecall.gateway.upstream.addresses import is_allowed_target
from codecall.gateway.upstream.rest.client import create_client
from codecall.gateway.upstream.rest.components import drop_unreached
from codecall.gateway.upstream.rest.documents import (
    DOCUMENT_THREADS,
    HTTP_URL,
    origin,
    read_document,
    too_much_error,
)
from codecall.gateway.upstream.rest.pages import in_pages, list_in_pages
from codecall.gateway.upstream.rest.request_checks import RequestChecks
from codecall.gateway.upstream.rest.schemas import PublishedSchemas, trim_schemas
from codecall.gateway.upstream.rest.validity import InvalidDocumentError, as_models
from codecall.gateway.upstream.rest.work import TooMuchWorkError

if TYPE_CHECKING:
    from fastmcp.tools import Tool
    from fastmcp.utilities.openapi import HTTPRoute

logger = logging.getLogger("codecall")

MAX_URL: Final = 2_048
"""Characters of the URL at which a document says that the API is."""

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_REPEATABLE: Final = _SAFE | {"PUT", "DELETE"}
_VARIABLE: Final = re.compile(r"\{([^{}]*)\}")


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
    document, url = await read_document(name, options)
    base_url = options.base_url or await DOCUMENT_THREADS.run(name, lambda: _base_url(name, document, url))
    if options.headers and options.base_url is None and (url is None or origin(base_url) != origin(url)):
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
    return await DOCUMENT_THREADS.run(name, lambda: _build_server(name, document, base_url, options, stranger or None))


def _base_url(name: str, document: Mapping[str, Any], url: str | None) -> str:
    """The URL of the first server that the document names; a relative one is relative to the document's URL."""
    servers = cast("object", document.get("servers"))
    first: object = cast("list[object]", servers)[0] if isinstance(servers, list) and servers else None
    server = cast("dict[str, object]", first) if isinstance(first, dict) else {}
    base: object = _without_variables(name, server) or "/"
    try:
        base = urljoin(url, str(base)) if url is not None else base
        is_url = urlsplit(str(base)).hostname is not None and HTTP_URL.match(str(base)) is not None
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

    checks = RequestChecks({name.lower() for name in options.headers})
    published = PublishedSchemas()
    tools: list[Tool] = []

    def annotate(route: HTTPRoute, component: object) -> None:
        if isinstance(component, OpenAPITool):
            component.annotations = _annotations(route.method.upper(), route.summary)
            checks.add(route, component)
            component.parameters = published.parameters(component.parameters)
            component.output_schema = published.result(component.output_schema)
            tools.append(component)
            # Read for the schema of results, and not again: of many operations they are most of what there is.
            route.responses, route.response_schemas = {}, {}

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
        pages = in_pages(tool.to_mcp_tool() for tool in tools)
    except TooMuchWorkError as failure:
        raise too_much_error(name, str(failure)) from None
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
    list_in_pages(server, pages)
    return server


def _annotations(method: str, title: str | None) -> ToolAnnotations:
    return ToolAnnotations(
        title=title or None,
        read_only_hint=method in _SAFE,
        destructive_hint=method == "DELETE",
        idempotent_hint=method in _REPEATABLE,
        open_world_hint=True,
    )
