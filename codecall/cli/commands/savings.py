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
"""How the numbers are computed, for the reader."""

_NOT_LISTED: Final = ("not listed", "", "")
"""Cells for a server that could not be listed."""


async def savings(
    names: Annotated[tuple[str, ...], Parameter(help="Only these servers, by name.")] = (),
    /,
    *,
    server_args: ServerArguments = DEFAULT_SERVERS,
    as_json: AsJson = False,
) -> int:
    """Count the tokens of listing all tools against those of CodeCall, for this configuration.

    A model that is shown tools reads their definitions in each of its turns. With CodeCall it reads four instead.
    """
    from codecall.cli.arguments import gateway_options
    from codecall.cli.gateway import list_servers, select_servers
    from codecall.cli.hidden import hidden_tools, print_hidden
    from codecall.cli.output import Output
    from codecall.gateway.gateway import Gateway

    output = Output(as_json=as_json)
    options = select_servers(gateway_options(server_args, output), names)
    gateway = Gateway(options)
    with output.progress("servers", reports_servers=True) as progress:
        async with gateway:
            servers = await list_servers(gateway, progress)
            exposure = gateway.exposure
    document = count_tokens(servers, _meta_tools(gateway), options.expose.context_tokens)
    hidden = hidden_tools(servers)
    document["hidden"] = [each.as_dict() for each in hidden]
    document["exposure"] = {"mode": exposure.mode, "why": exposure.reason}
    if as_json:
        output.document(document)
    else:
        _print_table(output, document)
        print_hidden(output, hidden)
    for server in servers:
        if server.failure is not None and not as_json:
            output.failure(server.failure)
    return exits.UNAVAILABLE if any(server.failure for server in servers) else exits.OK


def _meta_tools(gateway: Gateway) -> list[Any]:
    """The meta-tools of the gateway."""
    from codecall.plugin import CodeCallPlugin

    return [
        tool
        for transform in gateway.server.transforms
        if isinstance(transform, CodeCallPlugin)
        for tool in transform.meta_tools
    ]


def count_tokens(servers: Sequence[ServerInventory], meta_tools: Sequence[Any], context_tokens: int) -> JsonObject:
    """Count what listing all tools costs a model, and what the meta-tools cost; shares are of the context.

    Args:
        servers: The servers with their tools.
        meta_tools: The tools that CodeCall lists instead.
        context_tokens: The size of a model's context, in tokens.
    """
    from codecall.telemetry.tokens import estimate_characters, estimate_tokens

    def cost(amount: int, count: int) -> JsonObject:
        return {"tools": count, "tokens": amount, "share": round(amount / context_tokens, 4)}

    # The tokens are of all that clients may list.
    counts = {server.name: len(server.tools) + len(server.asked) for server in servers}
    total = sum(server.tokens for server in servers)
    meta_cost = estimate_tokens(estimate_characters(meta_tools))
    document: JsonObject = {"estimate": ESTIMATE, "contextTokens": context_tokens}
    document["servers"] = [
        {
            "name": server.name,
            **cost(server.tokens, counts[server.name]),
            **({"error": server.failure.as_dict()} if server.failure is not None else {}),
        }
        for server in servers
    ]
    document["listingAll"] = cost(total, sum(counts.values()))
    document["codecall"] = cost(meta_cost, len(meta_tools))
    document["saved"] = {
        "tokens": total - meta_cost,
        "percent": round(100 * (total - meta_cost) / total, 1) if total else 0.0,
    }
    return document


def _print_table(output: Output, document: JsonObject) -> None:
    from codecall.cli.output import Column

    rows = [(item["name"], item) for item in (*document["servers"],)]
    rows += [("listing all of them", document["listingAll"]), ("with CodeCall", document["codecall"])]
    if not output.rich:
        for name, item in rows:
            cells = [str(item["tools"]), str(item["tokens"]), f"{item['share']:.4f}"]
            output.row([name, *(_NOT_LISTED if _not_listed(item) else cells)])
        output.row(["saved", "", str(document["saved"]["tokens"]), f"{document['saved']['percent'] / 100:.4f}"])
        return
    columns = [
        Column("", "bold"),
        Column("tools", right=True),
        Column("tokens", "yellow", right=True),
        Column(f"of {document['contextTokens']:,}", right=True),
    ]
    output.table(
        columns,
        (
            [name, f"{item['tools']:,}", f"{item['tokens']:,}", f"{item['share']:.2%}"]
            for name, item in rows
            if not _not_listed(item)  # its error is printed
        ),
    )
    saved = document["saved"]
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
    output.line(f"With this configuration clients list {_exposed(document)}: {document['exposure']['why']}.")
    output.note(document["estimate"])


def _not_listed(item: JsonObject) -> bool:
    """Whether a server could not be listed, and no earlier listing is cached."""
    return "error" in item and not item["tools"]


def _exposed(document: JsonObject) -> str:
    return "the tools themselves" if document["exposure"]["mode"] == "tools" else "CodeCall's tools"
