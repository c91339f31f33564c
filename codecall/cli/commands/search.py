"""`codecall search`: tools by what they do, as a model finds them."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from codecall.cli import exit_codes as exits
from codecall.cli.arguments import DEFAULT_SERVERS, AsJson, ServerArguments

if TYPE_CHECKING:
    from codecall.cli.output import Output

JsonObject = dict[str, Any]


async def search(
    queries: Annotated[
        tuple[str, ...], Parameter(help="What the tool should do, each in quotes; none: an overview.")
    ] = (),
    /,
    *,
    top: Annotated[int | None, Parameter(name=("--top", "-n"), help="Most to show.")] = None,
    min_score: Annotated[
        float | None, Parameter(help="Lowest score to show, 0 to 1; a search that finds nothing says what came near.")
    ] = None,
    app: Annotated[tuple[str, ...], Parameter(negative="", help="Only tools of these servers. Repeatable.")] = (),
    kind: Annotated[
        tuple[Literal["tool", "resource", "template", "prompt"], ...],
        Parameter(negative="", help="What to look for; tools, where it is left out. Repeatable."),
    ] = (),
    detail: Annotated[
        Literal["brief", "full", "typescript"],
        Parameter(help="How much to show of each; brief, if left out. full adds the schemas."),
    ] = "brief",
    server_args: ServerArguments = DEFAULT_SERVERS,
    as_json: AsJson = False,
) -> int:
    """Find tools by what they do. The answer is the one that a model gets from codecall_search whose client can ask a
    person; tools for each call of which the person is asked are marked."""
    from codecall.cli.arguments import gateway_options
    from codecall.cli.gateway import failure_advice, listing_failures, open_gateway, servers_of
    from codecall.cli.output import Output

    output = Output(as_json=as_json)
    arguments: JsonObject = {"query": [query for query in queries if query.strip()] or "", "detail": detail}
    if top is not None:
        arguments["topK"] = top
    if min_score is not None:
        arguments["minScore"] = min_score
    if app or kind:
        arguments["filter"] = {**({"appIds": list(app)} if app else {}), **({"kinds": list(kind)} if kind else {})}
    with output.progress("asking servers", reports_servers=True):
        options = gateway_options(server_args, output)
        needed = servers_of(app, options.servers) if app else None
        async with open_gateway(options, needed=needed) as gateway:
            result = await gateway.call("search", arguments)
            ask_first = gateway.asked_tools()
            failures = listing_failures(gateway.gateway)
            advice = [
                f"{name}: " * (len(failures) > 1) + failure_advice(gateway.gateway, name, failure)
                for name, failure in failures.items()
            ]
    if as_json:
        output.document(result)
    else:
        _print_hits(output, result, ask_first, overview=not any(query.strip() for query in queries))
        for text in advice:
            output.note(f"hint: {text}")
    return exits.OK if result["tools"] else exits.FAILED


def _print_hits(output: Output, result: JsonObject, asked: Collection[str], *, overview: bool) -> None:
    from codecall.cli.layout import Column, format_typescript

    hits: list[JsonObject] = result["tools"]
    if any("typescript" in hit for hit in hits):
        if result.get("types"):
            output.code(format_typescript(result["types"]))
        for hit in hits:
            output.code(format_typescript(hit["typescript"]))
    else:
        columns = [Column("score", "yellow", right=True), Column("name", "bold"), Column("what it does")]
        marks = ("(asked for) " if hit["name"] in asked else "" for hit in hits)
        rows = (
            [f"{hit['score']:.2f}", hit["name"], mark + hit.get("description", "")]
            for hit, mark in zip(hits, marks, strict=True)
        )
        if hits:
            output.table(columns, rows)
        for hit in hits:
            if "inputSchema" in hit:
                output.row([hit["name"]]) if not output.rich else output.line(hit["name"], "bold")
                output.document({key: hit.get(key) for key in ("inputSchema", "outputSchema", "annotations")})
    if output.rich and (overview or not hits):
        for app in result.get("apps", ()):
            output.line(f"{app['appId']}: {', '.join(app['central'])}", "dim")
    if result.get("suggestions") and not overview:
        output.note(f"try instead: {', '.join(result['suggestions'])}")
    for warning in result.get("warnings", ()):
        output.note(warning, "yellow")
