"""Code mode for agents that bring their own MCP clients: no server to run.

from codecall.client import CodeCallClient
"""

from codecall.client.client import CodeCallClient
from codecall.client.formats import AZURE_DESCRIPTION_LIMIT, Definitions, Envelope

__all__ = ["AZURE_DESCRIPTION_LIMIT", "CodeCallClient", "Definitions", "Envelope"]
