"""The HTTP client of a REST API: what it sends is the operator's and the call's, and what it reads is bounded.

FastMCP adds the headers of the HTTP request that is being answered to those of the operation. So a request loses every
header that neither the configuration nor an argument of the call sets: a caller's own could have the API take it for
somebody else, or do something else than the operation says (`X-HTTP-Method-Override`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Set
from contextvars import ContextVar
from functools import partial
from typing import Final

import httpx2

from codecall.gateway.config.options import OpenApiServer
from codecall.gateway.upstream.addresses import guard_connection
from codecall.gateway.upstream.bounds.http_client import create_http_client
from codecall.gateway.upstream.messages import (
    MAX_ERROR_CHARS,
    find_excess,
    find_long_number,
)
from codecall.gateway.upstream.responses import BoundedBody, ErrorBody, take_charset, unread
from codecall.jsonio.check import replace_lone_surrogates

MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024
"""Largest answer of an API."""

CALL_HEADERS: ContextVar[Set[str]] = ContextVar("codecall_call_headers", default=frozenset())
"""The headers, in lower case, that the arguments of the call under way set."""

_REQUEST_HEADERS: Final = {"host", "content-length", "content-type", "transfer-encoding"}
"""Headers of the request itself, which say where it goes and what its body is."""

_JSON_VALUES: Final = re.compile(rb"[\s\0\xef\xbb\xbf]*+[\[{]")
"""How an answer begins that may have many values. In UTF-16 and UTF-32, which JSON may be in, too, there are zeros."""
_JSON_NUMBERS: Final = re.compile(rb"[\s\0\xef\xbb\xbf]*+[\[{\d-]")
_NO_TEXT: Final = "it is no text in UTF-8, and names no other encoding that is read"


def create_client(base_url: str, options: OpenApiServer, public_but: str | None) -> httpx2.AsyncClient:
    """Create the client of an API.

    Args:
        base_url: where the API is.
        options: with all references replaced.
        public_but: the only host at which the API need not be public; None: it may be anywhere.
    """
    own: set[str] = set()

    async def check_request(request: httpx2.Request) -> None:
        allowed = own | CALL_HEADERS.get()
        for name in [name for name in request.headers if name.lower() not in allowed]:
            del request.headers[name]
        if public_but is not None:
            refusal = f"the document says that the API is at {request.url.host}, which is no public address"
            guard_connection(request, [public_but], refusal)

    client = create_http_client(
        headers=dict(options.headers),
        on_request=[check_request],
        on_response=[_bound_response],
        keep_cookies=options.per_client,
        base_url=base_url,
        timeout=options.call_timeout_s,
        follow_redirects=False,
    )
    own.update(map(str.lower, client.headers.keys()), _REQUEST_HEADERS, ("cookie",) if options.per_client else ())
    return client


async def _bound_response(response: httpx2.Response) -> None:
    charset = take_charset(response)
    if response.is_success:
        response.stream = BoundedBody(response, MAX_ANSWER_BYTES, partial(_checked_answer, charset=charset))
    else:
        response.stream = ErrorBody(response, MAX_ERROR_CHARS)


def _checked_answer(body: bytes, charset: str) -> bytes:
    """The repaired answer, in UTF-8.

    Raises:
        httpx2.StreamError: it is no text, or has too many values or too long numbers, as far as anybody would look for
            some in it.
    """
    try:
        text = body.decode(charset, "strict" if charset == "utf-8" else "replace")
    except UnicodeDecodeError:
        raise unread(_NO_TEXT) from None
    if charset != "utf-8":
        body = text.encode()
    if _JSON_NUMBERS.match(body) is None:
        return body
    excess = None
    if _JSON_VALUES.match(body) is not None:
        if json.detect_encoding(body) not in ("utf-8", "utf-8-sig"):
            raise unread(_NO_TEXT)
        excess = find_excess(body)
    if (excess := excess or find_long_number(body)) is not None:
        raise unread(f"it has more than {excess}")
    return replace_lone_surrogates(body)
