"""`codecall tools`: the servers and their tools, with what each costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from codecall.cli import exit_codes as exits
from codecall.cli.arguments import DEFAULT_SERVERS, AsJson, ServerArguments

if TYPE_CHECKING:
    from codecall.cli.gateway import ServerInventory
    from codecall.cli.output import Output
    from codecall.gateway.tools.filter import HiddenComponent

JsonObject = dict[str, Any]


_MAX_REASONS: Final = 3
"""Reasons for hiding tools that are named for one server."""

_GUIDES: Final = 8
"""Cells before the name of a tool in the tree."""


async def tools(
    names: Annotated[tuple[str, ...], Parameter(help="Only these servers, by name.")] = (),
    /,
    *,
    all_: Annotated[bool, Parameter(name=("--all", "-a"), negative="", help="Hidden tools as well, and why.")] = False,
    server_args: ServerArguments = DEFAULT_SERVERS,
    as_json: AsJson = False,
) -> int:
    """Show the servers and their tools, with what the definition of each costs a model in tokens.

    Servers whose tools are in the cache are not started. Sizes are estimates: four characters a token.
    """
    from codecall.cli.arguments import gateway_options
    from codecall.cli.gateway import list_servers, select_servers
    from codecall.cli.output import Output
    from codecall.gateway.gateway import Gateway

    output = Output(as_json=as_json)
    options = gateway_options(server_args, output)
    off = [name for name, server in options.servers.items() if not server.enabled]
    if off and not names:
        output.note(f"switched off: {', '.join(off)}")
    gateway = Gateway(select_servers(options, names))
    with output.progress("servers", reports_servers=True) as progress:
        async with gateway:
            servers = await list_servers(gateway, progress)
    if as_json:
        output.document({"servers": [_document(server, all_) for server in servers], "tokens": _total_tokens(servers)})
    elif output.rich:
        _print_tree(output, servers, all_)
    else:
        for server in servers:
            _print_rows(output, server, all_)
            if not all_:
                _note_hidden(output, server)
    for server in servers:
        if server.failure is not None and not as_json:
            output.failure(server.failure)
    return exits.UNAVAILABLE if any(server.failure for server in servers) else exits.OK


def _total_tokens(servers: Sequence[ServerInventory]) -> int:
    return sum(server.tokens for server in servers)


def _document(server: ServerInventory, with_hidden: bool) -> JsonObject:
    from codecall.cli.gateway import token_cost

    document: JsonObject = {"name": server.name, "server": server.version, "tokens": server.tokens}
    document["tools"] = [
        {"name": tool.name, "tokens": token_cost(tool), "description": tool.description or ""} for tool in server.tools
    ]
    hidden = [item for item in server.hidden if item.kind == "tool"]
    document["hidden"] = (
        [{"name": item.name, "code": item.code, "why": item.reason} for item in hidden] if with_hidden else len(hidden)
    )
    if server.failure is not None:
        document["error"] = server.failure.as_dict()
    return document


def _print_rows(output: Output, server: ServerInventory, with_hidden: bool) -> None:
    from codecall.cli.gateway import token_cost

    for tool in server.tools:
        output.row([f"{server.name}_{tool.name}", str(token_cost(tool)), first_line(tool.description)])
    if with_hidden:
        for item in server.hidden:
            if item.kind == "tool":
                output.row([f"{server.name}_{item.name}", _verb(item), item.reason])


def _note_hidden(output: Output, server: ServerInventory) -> None:
    """Say on stderr how many tools a pipe is not given, and why."""
    from codecall.wording import join_names

    reasons = Counter(
        f"{_verb(item)}, as {item.reason.partition(';')[0]}" for item in server.hidden if item.kind == "tool"
    )
    if reasons:
        counts = [f"{count} {reason}" for reason, count in reasons.most_common()]
        output.note(f"{server.name}: {join_names(counts, _MAX_REASONS)}; --all shows them", "")


def first_line(text: str | None) -> str:
    """The first line of a description."""
    return (text or "").strip().partition("\n")[0].strip()


def _print_tree(output: Output, servers: Sequence[ServerInventory], with_hidden: bool) -> None:
    from rich.text import Text
    from rich.tree import Tree

    from codecall.cli.gateway import token_cost
    from codecall.cli.layout import shorten_words
    from codecall.cli.output import count_of, escape_unprintable, one_line

    count = sum(len(server.tools) for server in servers)
    tree = Tree(
        Text(
            f"{count_of(len(servers), 'server')}, {count_of(count, 'tool')}, "
            f"about {_total_tokens(servers):,} tokens to list all",
            style="bold",
        ),
        guide_style="dim",
    )
    for server in servers:
        label = Text.assemble(
            (server.name, "bold cyan"),
            f"  {count_of(len(server.tools), 'tool')}",
            (f"  {server.tokens:,} tokens", "yellow"),
            (f"  {escape_unprintable(server.version)}", "dim"),
        )
        if server.failure is not None and not server.tools:
            continue  # its error says more
        branch = tree.add(label)
        width = max((len(escape_unprintable(tool.name)) for tool in server.tools), default=0)
        for tool in server.tools:
            room = output.out.width - _GUIDES - width - 9
            line = Text.assemble(
                (f"{escape_unprintable(tool.name):<{width}}", "bold"),
                (f" {token_cost(tool):>6,}  ", "yellow"),
                (shorten_words(one_line(first_line(tool.description)), room), "dim"),
            )
            branch.add(line)
        hidden = [item for item in server.hidden if item.kind == "tool"]
        if with_hidden:
            for item in hidden:
                branch.add(Text.assemble((item.name, "strike dim"), (f"  {_verb(item)}: {item.reason}", "dim red")))
        elif hidden:
            branch.add(Text(f"{len(hidden)} hidden; --all shows them", style="dim"))
    output.show(tree)


def _verb(item: HiddenComponent) -> str:
    """What becomes of a tool that not every client sees."""
    return "asked" if item.code == "asked" else "hidden"
