"""CodeCall in 30 lines: a server with two tools, and one script that uses both. Run: python examples/quickstart.py"""

import asyncio

from fastmcp import Client, FastMCP

from codecall import CodeCallPlugin

mcp = FastMCP("shop")


@mcp.tool
def list_products() -> dict[str, str]:
    """List the products: the name of each SKU."""
    return {"P1": "Lamp", "P2": "Desk", "P3": "Chair", "P4": "Shelf"}


@mcp.tool
def get_stock(sku: str) -> int:
    """Get how many units of a product are in stock."""
    return {"P1": 12, "P2": 0, "P3": 7, "P4": 2}[sku]


CodeCallPlugin.init().install(mcp)

SCRIPT = """
const products = Object.entries(await callTool('list_products', {}));
const stock = await __safe_parallel(products.map(([sku]) => () => callTool('get_stock', { sku })));
return products.map(([sku, name], i) => ({ name, units: stock[i] })).filter(({ units }) => units < 5);
"""


async def main() -> None:
    async with Client(mcp) as client:
        answer = await client.call_tool("codecall:execute", {"script": SCRIPT})
        print((answer.structured_content or {})["result"])


if __name__ == "__main__":
    asyncio.run(main())
