"""What a client asks before it calls anything: the questions that can be answered from a record, and how one tells that
two of them are the same.

An answer depends on the method, the parameters and, in the handshake era, on what was said at `initialize`. It does not
depend on who asks (`clientInfo`), on tokens for progress, on the wish for logs or on trace headers. Standard library
only.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple, TypeAlias, cast

Json: TypeAlias = dict[str, Any]

LISTS: Final = {
    "tools/list": "notifications/tools/list_changed",
    "resources/list": "notifications/resources/list_changed",
    "resources/templates/list": "notifications/resources/list_changed",
    "prompts/list": "notifications/prompts/list_changed",
}
"""Each list, and the notification that it has changed."""
OPENINGS: Final = ("initialize", "server/discover")
ASKED: Final = (*OPENINGS, "ping", *LISTS)
MAX_BYTES: Final = 64 * 1024
"""Bytes of a message that is looked at."""

_PREFIX: Final = "io.modelcontextprotocol/"
_VERSION: Final = f"{_PREFIX}protocolVersion"
_OF_THE_ASKER: Final = (
    *(f"{_PREFIX}clientInfo", f"{_PREFIX}logLevel"),
    *("progressToken", "traceparent", "tracestate", "baggage"),
)


class Question(NamedTuple):
    """One that may be in a record."""

    id: str
    """The request's id as JSON."""
    method: str
    key: str
    """The same for the same question."""
    modern: bool
    """Of the era without a handshake."""


class Listener:
    """Hears what one client says, message by message, and tells which are such questions.

    The first request decides the era, as it does for the server; a message of the other era is no question, and is
    left to the server to refuse. With the first call the questions end: what is listed then may come of the call.
    """

    def __init__(self) -> None:
        self.over = False
        self._modern: bool | None = None
        self._greeting: str | None = None

    def hear(self, line: bytes) -> Question | None:
        """The question in this line, if it is one."""
        message = None if self.over or len(line) > MAX_BYTES else request_in(line)
        if message is None:
            return None
        method, params = message["method"], message.get("params")
        modern = method != "initialize" and _enveloped(params)
        opens = self._modern is None
        if self._modern is None:
            self._modern = modern
        self.over = method == "tools/call"
        if method not in ASKED or modern is not self._modern:
            return None
        said = json.dumps([method, _plain(params)], sort_keys=True)
        if method == "initialize" and opens:
            self._greeting = said
        elif not modern:
            if self._greeting is None or method in OPENINGS:
                return None
            said += self._greeting
        return Question(json.dumps(message["id"]), method, said, modern)


def request_in(line: bytes) -> Json | None:
    """The request in this line, if there is one: it has an id, a method, and an object for parameters or none."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict):
        return None
    message = cast("Json", said)
    number, params = message.get("id"), message.get("params")
    numbered = isinstance(number, (str, int)) and not isinstance(number, bool)
    right = numbered and isinstance(message.get("method"), str) and (params is None or isinstance(params, dict))
    return message if right and message.get("jsonrpc") == "2.0" else None


def _enveloped(params: Json | None) -> bool:
    """Whether a request carries its protocol version, as those of the era without a handshake do."""
    meta = (params or {}).get("_meta")
    return isinstance(meta, dict) and _VERSION in meta


def _plain(params: Json | None) -> Json:
    """Parameters without what is about the asker."""
    plain = {name: value for name, value in (params or {}).items() if name != "clientInfo"}
    meta = plain.pop("_meta", None)
    if isinstance(meta, dict):
        about = {name: value for name, value in cast("Json", meta).items() if name not in _OF_THE_ASKER}
        plain |= {"_meta": about} if about else {}
    return plain
