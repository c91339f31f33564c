"""The spelling of the meta-tools' names that a client reads: `codecall:search`, which is canonical, or
`codecall_search`. Calls work under either.

Many clients refuse a colon, or hand names to a model API that does. MCP itself advises against it (SEP-986, which the
SDK's `mcp.shared.tool_name_validation` holds: `[A-Za-z0-9._-]{1,128}`); Anthropic takes `[a-zA-Z0-9_-]{1,128}`, OpenAI
`[a-zA-Z0-9_-]{1,64}`, and Gemini did not take colons until 2025. A client's name proves nothing, so nothing but the
spelling depends on it.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_GITHUB: Final = "https://github.com/"


class KnownClient(NamedTuple):
    """A client that lists the meta-tools with `_`."""

    name: str
    """What it calls itself, in lower case and with `-` for blanks; it may go on behind a `-` or a blank."""
    reason: str
    """What it does with a name that holds a colon."""
    source: str
    """Where that is reported."""


UNDERSCORE_CLIENTS: Final = (
    KnownClient("claude-ai", "offers none of the server's tools", f"{_GITHUB}evoila/meho/issues/2745"),
    KnownClient("claude-code", "the Anthropic API refuses it", f"{_GITHUB}microsoft/wassette/issues/56"),
    KnownClient("codex-mcp-client", "renames it for the OpenAI API", f"{_GITHUB}openai/codex/pull/8694"),
    KnownClient("continue-client", "renames it", f"{_GITHUB}continuedev/continue/pull/7468"),
    KnownClient("copilot-cli", "the model's API refuses it", f"{_GITHUB}github/copilot-cli/issues/1879"),
    KnownClient("cursor", "leaves the tool out", f"{_GITHUB}bavix/gripmock/issues/875"),
    KnownClient("gemini-cli-mcp-client", "renames it", f"{_GITHUB}google-gemini/gemini-cli/pull/20987"),
    KnownClient("github-copilot-developer", "the model's API refuses it", f"{_GITHUB}github/copilot-cli/issues/1879"),
    KnownClient("openai-mcp", "the OpenAI API refuses it", f"{_GITHUB}openai/codex/issues/8174"),
    KnownClient("visual-studio-code", "warns of it and renames it", f"{_GITHUB}microsoft/vscode/issues/308463"),
)

NAMES: Final = re.compile("(?:" + "|".join(re.escape(client.name) for client in UNDERSCORE_CLIENTS) + r")(?![a-z0-9_])")
"""Begins what such a client calls itself."""
