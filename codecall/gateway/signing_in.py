"""Signing in to a server in a browser, and keeping the tokens where FastMCP's own client keeps them."""

from __future__ import annotations

from pathlib import Path

import fastmcp
from fastmcp.client.auth.oauth import OAuth
from key_value.aio.stores.filetree import (
    FileTreeStore,
    FileTreeV1CollectionSanitizationStrategy,
    FileTreeV1KeySanitizationStrategy,
)


def oauth(url: str) -> OAuth:
    """OAuth with dynamic registration for the server at `url`. Opens a browser when there is no token that is good."""
    folder = Path(fastmcp.settings.home) / "oauth-tokens"
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    store = FileTreeStore(
        data_directory=folder,
        key_sanitization_strategy=FileTreeV1KeySanitizationStrategy(folder),
        collection_sanitization_strategy=FileTreeV1CollectionSanitizationStrategy(folder),
    )
    return OAuth(url, client_name="CodeCall", token_storage=store)
