"""The OpenAPI document of a REST API: fetched or read, and decoded, with bounds of its size and of its values."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlsplit

import httpx2
import yaml

from codecall.concurrency import StoppableThreads
from codecall.errors import OptionsError
from codecall.gateway.config.options import OpenApiServer
from codecall.gateway.upstream.bounds.http_client import create_http_client
from codecall.gateway.upstream.messages import find_long_number, is_within_value_limit
from codecall.gateway.upstream.responses import COMPRESSED, ResponseBody
from codecall.gateway.upstream.rest.work import MAX_DEPTH
from codecall.jsonio.check import NotJsonError
from codecall.jsonio.core_yaml import FAST_LOADER, read_quickly
from codecall.jsonio.documents import is_harmless_yaml
from codecall.jsonio.incremental import read_in_thread

MAX_BYTES: Final = 16 * 1024 * 1024
"""Largest document."""

MAX_VALUES: Final = 1_000_000
"""Values and names of a document, used or not; of YAML its lines, and every mark that may separate two. The largest of
GitHub's has 515,000, and 610,000 as YAML. 16 MiB may be 5,600,000 empty lists, which take seconds and a gigabyte."""

HTTP_URL: Final = re.compile(r"https?://", re.IGNORECASE)
"""The beginning of what is a URL, and no path of a file."""

DOCUMENT_THREADS: Final = StoppableThreads("documents", 2)
"""A document may take all of the time that its server has to start, and be fetched anew at each call: the other servers
keep one of these threads, and all of those in which the event loop looks up addresses."""

_API_VERSION: Final = ("info", "version")
"""What is a text in YAML, too, where it is written as `1.0` is."""

_YAML_BREAKS: Final = ("\n", "\r", "\x85", "\u2028", "\u2029")
_YAML_MARKS: Final = [mark.encode() for mark in (*_YAML_BREAKS, ",", ":", "[", "{", "- ", "-\t", "? ", "?\t")]
"""What stands between two values of YAML, or begins one."""


async def read_document(name: str, options: OpenApiServer) -> tuple[dict[str, Any], str | None]:
    """The document, and the URL it was fetched from; None: it is a file.

    Args:
        name: of the server.
        options: with all references replaced.

    Raises:
        OptionsError: it cannot be fetched, is too much, or no OpenAPI document.
    """
    text, url = await _fetch_document(name, options)
    return await DOCUMENT_THREADS.run(name, lambda: _parse(name, text)), url


def too_much_error(name: str, reason: str) -> OptionsError:
    """The error for a document that would take too much to use."""
    return OptionsError(
        f"servers.{name}.openapi: the document is too much: {reason}",
        hint="Save it without the paths that are not needed, and give the path of the file.",
    )


def origin(url: str) -> tuple[str, str | None, int | None] | None:
    """Scheme, host and port; None: it is no URL."""
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None


async def _fetch_document(name: str, options: OpenApiServer) -> tuple[bytes, str | None]:
    """The text of the document, and the URL it was fetched from; None: it is a file."""
    if not HTTP_URL.match(options.openapi):
        try:
            return await DOCUMENT_THREADS.run(name, lambda: _read_file(options.openapi)), None
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
    # Headers are for the API, and for its document only if that is where the API is: else they might be shown to
    # somebody else.
    headers = dict(_document_headers(options))
    timeout = httpx2.Timeout(options.start_timeout_s)
    async with (
        create_http_client(timeout=timeout, follow_redirects=False, headers=headers) as client,
        asyncio.timeout(options.start_timeout_s),
        client.stream("GET", options.openapi) as response,
    ):
        if response.status_code != 200:
            raise _fetch_error(name, f"the server answered {response.status_code}")
        text, body = bytearray(), _DocumentBody(response)
        if body.is_compressed:
            raise _fetch_error(name, COMPRESSED)
        async for chunk in body:
            text += chunk
            if len(text) > MAX_BYTES:
                raise _fetch_error(name, f"it is larger than {MAX_BYTES} bytes")
        return bytes(text)


class _DocumentBody(ResponseBody):
    """The body of a document, which nothing decompresses: a few hundred bytes may be gigabytes, or nothing at all that
    takes as long."""

    @property
    def is_compressed(self) -> bool:
        return self._encoded

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            await self._pace(chunk)
            yield chunk


def _document_headers(options: OpenApiServer) -> Mapping[str, str]:
    api = options.base_url or options.openapi
    return options.headers if origin(api) == origin(options.openapi) else {}


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
    if not is_within_value_limit(text, MAX_VALUES):
        raise too_much_error(name, f"it has more than {MAX_VALUES:,} values and names")
    value: object = None
    try:
        # What is nested too deeply is refused by that name, unless it is far more.
        value = read_in_thread(text, 2 * MAX_DEPTH)
    except NotJsonError:
        if sum(map(text.count, _YAML_MARKS)) > MAX_VALUES:
            raise too_much_error(name, f"it has more than {MAX_VALUES:,} lines, values and names") from None
        try:
            decoded = text.decode("utf-8-sig")
            if is_harmless_yaml(decoded, depth=MAX_DEPTH, loader=FAST_LOADER):
                value = read_quickly(decoded, as_text=_API_VERSION)
        except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError):
            value = None
    else:
        if (excess := find_long_number(text)) is not None:
            raise too_much_error(name, f"it has more than {excess}")
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
