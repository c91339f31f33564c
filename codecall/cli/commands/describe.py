"""`codecall describe`: schemas and examples of tools, as a model reads them."""

from __future__ import annotations

from textwrap import indent
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from codecall.cli import exit_codes as exits
from codecall.cli.arguments import DEFAULT_SERVERS, AsJson, ServerArguments

if TYPE_CHECKING:
    from codecall.cli.output import Output

JsonObject = dict[str, Any]


async def describe(
    names: Annotated[tuple[str, ...], Parameter(help="Exact names, as search gives them; URIs and prompts, too.")],
    /,
    *,
    typescript: Annotated[bool, Parameter(negative="", help="Declarations in place of schemas.")] = False,
    server_args: ServerArguments = DEFAULT_SERVERS,
    as_json: AsJson = False,
) -> int:
    """Show what tools take and give, with examples. The answer is the one that a model gets from codecall_describe,
    if its client can ask a person."""
    from codecall.cli.arguments import gateway_options
    from codecall.cli.gateway import open_gateway, servers_of
    from codecall.cli.layout import format_typescript
    from codecall.cli.output import Output

    output = Output(as_json=as_json)
    arguments = {"toolNames": list(dict.fromkeys(names)), "format": "typescript" if typescript else "json"}
    with output.progress("asking servers"):
        options = gateway_options(server_args, output)
        async with open_gateway(options, needed=servers_of(names, options.servers)) as gateway:
            result = await gateway.call("describe", arguments)
            ask_first = gateway.asked_tools()
    if as_json:
        output.document(result)
    else:
        if result.get("types"):
            output.code(format_typescript(result["types"]))
        for number, tool in enumerate(result["tools"]):
            if number or result.get("types"):
                output.text("")
            _print_tool(output, tool, is_asked=tool["name"] in ask_first)
        for warning in result.get("warnings", ()):
            output.note(warning)
        for name in result["notFound"]:
            near = result.get("suggestions", {}).get(name)
            suggestion = f"; did you mean {' or '.join(near)}?" if near else ""
            output.note(f"there is no {name}{suggestion}", "bold red")
    return exits.FAILED if result["notFound"] else exits.OK


def _print_tool(output: Output, tool: JsonObject, *, is_asked: bool) -> None:
    from codecall.cli.layout import HANGING, format_typescript

    kind = f" ({tool['kind']})" if "kind" in tool else ""
    output.line(f"{tool['name']}{kind}", "bold cyan")
    if "typescript" in tool:
        output.code(format_typescript(tool["typescript"]))
    elif tool["description"]:
        output.line(HANGING + tool["description"].strip())
    for title, key in (("input", "inputSchema"), ("output", "outputSchema"), ("seen output", "observedOutput")):
        if tool.get(key) is not None:
            output.line(f"{title}:", "bold")
            output.document(tool[key])
    annotations: JsonObject = tool.get("annotations") or {}
    hints = [name for name, value in annotations.items() if value is True]
    if hints:
        output.line(f"hints: {', '.join(hints)}", "dim")
    if is_asked:
        output.line("asked for: a person has to allow each call", "dim")
    for example in tool.get("usageExamples", ()):
        output.line(f"// {example['description']}", "dim")
        output.code(indent(example["code"], HANGING))
