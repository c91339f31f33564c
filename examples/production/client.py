"""Try the servers of docs/operations/deployment.md: sign a token, run scripts at one address after the other.

python client.py keys                   make private.pem and public.pem, for PUBLIC_KEY_FILE of the servers
python client.py http://HOST:PORT/mcp [http://…]
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from fastmcp import Client
from fastmcp.server.auth.providers.jwt import RSAKeyPair
from fastmcp_tasks import call_tool_task  # pyright: ignore[reportUnknownVariableType]
from pydantic import SecretStr

TOTALS = """
const orders = await callTool('list_orders', { limit: 100 });
return orders.reduce((sum, { total }) => sum + total, 0);
"""
"""What a model might write: one number instead of 100 orders."""


def make_keys() -> None:
    """What an identity provider has, for trying."""
    keys = RSAKeyPair.generate()
    Path("private.pem").write_text(keys.private_key.get_secret_value())
    Path("public.pem").write_text(keys.public_key)


def token() -> str:
    """A token as an identity provider would give it."""
    private, public = (Path(name).read_text() for name in ("private.pem", "public.pem"))
    keys = RSAKeyPair(private_key=SecretStr(private), public_key=public)
    return keys.create_token(subject="ann", issuer=os.environ["ISSUER"], audience=os.environ["AUDIENCE"])


async def ask(url: str, auth: str) -> dict[str, Any]:
    """The envelope of a script that runs as a background task; whichever instance or worker takes it."""
    async with Client(url, auth=auth) as client:
        task = await call_tool_task(client, "codecall:execute", {"script": TOTALS})
        return (await task.result()).structured_content or {}


async def main(urls: list[str]) -> None:
    """Ask each."""
    auth = token()
    for url in urls:
        envelope = await ask(url, auth)
        print(url, envelope["status"], envelope.get("result", envelope.get("error")))


if __name__ == "__main__":
    if sys.argv[1:] == ["keys"]:
        make_keys()
    else:
        asyncio.run(main(sys.argv[1:]))
