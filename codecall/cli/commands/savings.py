"""`codecall savings`: the tokens of listing all tools against those of CodeCall's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from codecall.cli import exit_codes as exits
from codecall.cli.arguments import DEFAULT_SERVERS, AsJson, ServerArguments

if TYPE_CHECKING:
    from codecall.cli.gateway import ServerInventory
    from codecall.cli.output import Output
    from codecall.gateway.gateway import Gateway

JsonObject = dict[str, Any]

ESTIMATE: Final = (
    "Estimated: name, description and input schema of each tool as JSON, at four characters a token. Tokenizers differ "
    "by some 20 %. What a model then searches for and describes comes on top, as it needs it."
)
"""How the numbers are made."""

_UNKNOWN: Final = ("not listed", "", "")
"""In place of the numbers of a server that could not be listed."""


async def savings(
    names: Annotated[tuple[str, ...], Parameter(help="Only these servers, by name.")] = (),
    /,
    *,
    chosen: ServerArguments = DEFAULT_SERVERS,
    as_json: AsJson = False,
) -> int:
    """Count the tokens of listing all tools against those of CodeCall, for this configuration.

    A model that is shown tools reads their definitions in each of its turns. With CodeCall it reads four instead.
    """
    from codecall.cli.arguments import gateway_options
    from codecall.cli.gateway import list_servers, select_servers
    from codecall.cli.output import Output
    from codecall.gateway.gateway import Gateway

    output = Output(as_json=as_json)
    options = select_servers(gateway_options(chosen, output), names)
    gateway = Gateway(options)
    with output.progress("servers") as working:
        async with gateway:
            servers = await list_servers(gateway, working)
            exposure = gateway.exposure
    told = count_tokens(servers, _own(gateway), options.expose.context_tokens)
    told["exposure"] = {"mode": exposure.mode, "why": exposure.reason}
    if as_json:
        output.document(told)
    else:
        _show(output, told)
    for server in servers:
        if server.failure is not None and not as_json:
            output.failure(server.failure)
    return exits.UNAVAILABLE if any(server.failure for server in servers) else exits.OK


def _own(gateway: Gateway) -> list[Any]:
    """CodeCall's own tools."""
    from codecall.plugin import CodeCallPlugin

    return [
        tool
        for transform in gateway.server.transforms
        if isinstance(transform, CodeCallPlugin)
        for tool in transform.meta_tools
    ]


def count_tokens(servers: Sequence[ServerInventory], own: Sequence[Any], context_tokens: int) -> JsonObject:
    """What all of it costs; the shares are of the context.

    Args:
        servers: With their tools.
        own: CodeCall's tools.
        context_tokens: The size of a model's context.
    """
    from codecall.telemetry.tokens import estimate_characters, estimate_tokens

    def cost(amount: int, count: int) -> JsonObject:
        return {"tools": count, "tokens": amount, "share": round(amount / context_tokens, 4)}

    everything = sum(server.tokens for server in servers)
    mine = estimate_tokens(estimate_characters(own))
    told: JsonObject = {"estimate": ESTIMATE, "contextTokens": context_tokens}
    told["servers"] = [
        {
            "name": server.name,
            **cost(server.tokens, len(server.tools)),
            **({"error": server.failure.as_dict()} if server.failure is not None else {}),
        }
        for server in servers
    ]
    told["listingAll"] = cost(everything, sum(len(server.tools) for server in servers))
    told["codecall"] = cost(mine, len(own))
    told["saved"] = {
        "tokens": everything - mine,
        "percent": round(100 * (everything - mine) / everything, 1) if everything else 0.0,
    }
    return told


def _show(output: Output, told: JsonObject) -> None:
    from codecall.cli.output import Column

    rows = [(item["name"], item) for item in (*told["servers"],)]
    rows += [("listing all of them", told["listingAll"]), ("with CodeCall", told["codecall"])]
    if not output.rich:
        for name, item in rows:
            cells = [str(item["tools"]), str(item["tokens"]), f"{item['share']:.4f}"]
            output.row([name, *(_UNKNOWN if _unknown(item) else cells)])
        output.row(["saved", "", str(told["saved"]["tokens"]), f"{told['saved']['percent'] / 100:.4f}"])
        return
    columns = [
        Column("", "bold"),
        Column("tools", right=True),
        Column("tokens", "yellow", right=True),
        Column(f"of {told['contextTokens']:,}", right=True),
    ]
    output.table(
        columns,
        (
            [
                name,
                *(
                    _UNKNOWN
                    if _unknown(item)
                    else (f"{item['tools']:,}", f"{item['tokens']:,}", f"{item['share']:.2%}")
                ),
            ]
            for name, item in rows
        ),
    )
    saved = told["saved"]
    if saved["tokens"] > 0:
        output.line(
            f"A model reads {saved['tokens']:,} tokens less in each turn: {saved['percent']:.0f} % of what all "
            "definitions cost.",
            "bold green",
        )
    else:
        output.line(
            f"Listing these tools themselves costs {-saved['tokens']:,} tokens less than CodeCall's own in each turn.",
            "bold yellow",
        )
    output.line(f"With this configuration clients list {_listed(told)}: {told['exposure']['why']}.")
    output.note(told["estimate"])


def _unknown(item: JsonObject) -> bool:
    """Whether a server could not be listed, and was not earlier."""
    return "error" in item and not item["tools"]


def _listed(told: JsonObject) -> str:
    return "the tools themselves" if told["exposure"]["mode"] == "tools" else "CodeCall's tools"
