"""Completion of arguments (`completion/complete`): the server that a prompt or a template is of gives the values.

FastMCP lists for each client what it may see, and only what is listed is completed. A server that does not complete
arguments gives none, which is what a reference to nothing gives too.
"""

from __future__ import annotations

from typing import Any

import mcp_types
from fastmcp import FastMCP
from fastmcp.exceptions import FastMCPError
from fastmcp.server.completions import CompletionReference
from mcp import MCPError

from codecall.gateway.tools.components import GatewayPrompt, GatewayTemplate


def install_completions(server: FastMCP[Any]) -> None:
    """Have `server` complete arguments of the prompts and templates of the servers behind it."""

    async def complete(
        reference: CompletionReference,
        argument: mcp_types.CompletionArgument,
        context: mcp_types.CompletionContext | None,
    ) -> mcp_types.Completion | None:
        component = await _find(server, reference)
        if component is None:
            return None
        try:
            return await component.complete(argument, context)
        except MCPError as failure:
            if failure.error.code == mcp_types.METHOD_NOT_FOUND:
                return None
            raise
        except FastMCPError as failure:  # of which the SDK tells a client nothing
            raise MCPError(code=mcp_types.INTERNAL_ERROR, message=str(failure)) from failure

    server.add_completion_handler(complete)


async def _find(server: FastMCP[Any], reference: CompletionReference) -> GatewayPrompt | GatewayTemplate | None:
    """The component that a client means, by the name or the URI template that it lists."""
    if isinstance(reference, mcp_types.PromptReference):
        for prompt in await server.list_prompts():
            if isinstance(prompt, GatewayPrompt) and prompt.name == reference.name:
                return prompt
        return None
    for template in await server.list_resource_templates():
        if isinstance(template, GatewayTemplate) and template.uri_template == reference.uri:
            return template
    return None
