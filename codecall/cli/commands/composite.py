"""`codecall composite`: the workflows and scripts that are served as tools, listed, checked and run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from cyclopts import Parameter

from codecall.cli import exit_codes as exits
from codecall.cli.arguments import DEFAULT_SERVERS, AllowedCalls, AsJson, ServerArguments
from codecall.errors import CodeCallError

if TYPE_CHECKING:
    from codecall.cli.output import Output
    from codecall.composite.definition import Definition, ScriptDefinition, Workflow
    from codecall.composite.reading import ReadDefinitions
    from codecall.gateway.config.options import GatewayOptions

JsonObject = dict[str, Any]


async def composite(
    action: Annotated[Literal["list", "check", "run"], Parameter(help="What to do: list, check or run.")],
    names: Annotated[
        tuple[str, ...], Parameter(help="check: files and folders, else those of the configuration. run: the tool.")
    ] = (),
    /,
    *,
    param: Annotated[
        tuple[str, ...], Parameter(negative="", help="An argument of run, key=value; a value may be JSON. Repeatable.")
    ] = (),
    dry_run: Annotated[bool, Parameter(negative="", help="Run nothing: show the order of the steps.")] = False,
    trace: Annotated[Path | None, Parameter(help="Write the run as a page to this file, for a browser.")] = None,
    allow: AllowedCalls = (),
    server_args: ServerArguments = DEFAULT_SERVERS,
    as_json: AsJson = False,
) -> int:
    """List, check or run composite tools: workflows over the servers' tools.

    `check` without names, `list` and `run` read the definitions that the configuration names. Where servers are named
    or configured, `check` compares steps with their tools as well.
    """
    from codecall.cli.arguments import gateway_options
    from codecall.cli.commands.definitions import check_definitions, configured_sources
    from codecall.cli.output import Output

    output = Output(as_json=as_json)
    if action == "check":
        return await check_definitions(names, server_args, output)
    from codecall.composite.reading import read_definitions

    options = gateway_options(server_args, output)
    read = read_definitions(configured_sources(options)).served(starlark=options.starlark is not None)
    if action == "list":
        return _list(read, output)
    if len(names) != 1:
        raise CodeCallError("run takes the name of one composite tool", code="USAGE")
    from codecall.composite.definition import ScriptDefinition

    tool = _find(read, names[0])
    arguments = _arguments(param, tool)
    if not dry_run:
        return await _run(tool, arguments, options, output, trace=trace, allow=allow)
    if isinstance(tool, ScriptDefinition):
        return await _show_manifest(tool, read, options, output)
    return _show_order(tool, arguments, await _schemas(tool, read, options, output), output)


def _list(read: ReadDefinitions, output: Output) -> int:
    from codecall.cli.output import count_of
    from codecall.composite.definition import Workflow

    if output.as_json:
        tools = [
            {
                "name": each.name,
                "description": each.description,
                **(
                    {"steps": [step.id for step in each.steps]}
                    if isinstance(each, Workflow)
                    else {"script": each.language}
                ),
                "calls": list(each.tools()),
                "parameters": each.parameters,
            }
            for each in read.tools
        ]
        output.document({"tools": tools, "findings": [str(finding) for finding in read.findings]})
    else:
        for tool in read.tools:
            made_of = count_of(len(tool.steps), "step") if isinstance(tool, Workflow) else f"{tool.language} script"
            if output.rich:
                output.line(f"{tool.name} ({made_of}): {tool.description}")
            else:
                output.row([tool.name, made_of, tool.description])
        for finding in read.findings:
            output.warn(f"not served: {finding}")
    return exits.FAILED if read.findings else exits.OK


def _find(read: ReadDefinitions, name: str) -> Definition:
    for tool in read.tools:
        if tool.name == name:
            return tool
    if name in read.invalid:
        problems = "; ".join(str(finding) for finding in read.findings if finding.tool == name)
        raise CodeCallError(f"The definition of {name} is wrong: {problems}", code="USAGE")
    hint = "`codecall composite list` shows those that there are."
    if near := read.near_names(name):
        hint = f"Did you mean {' or '.join(near)}?"
    raise CodeCallError(f"There is no composite tool {name!r:.80}", code="NOT_FOUND", hint=hint)


def _arguments(params: Sequence[str], tool: Definition) -> JsonObject:
    """The arguments of a run: a value is a text where its parameter takes texts, else JSON where it is some."""
    from codecall.composite.arguments import coerce

    properties = cast("Mapping[str, JsonObject]", tool.parameters.get("properties") or {})
    arguments: JsonObject = {}
    for word in params:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise CodeCallError(f"--param {word!r:.80}: key=value is needed", code="USAGE")
        arguments[key] = coerce(value, properties.get(key, {}), tool.parameters)
    return arguments


async def _schemas(
    workflow: Workflow, read: ReadDefinitions, options: GatewayOptions, output: Output
) -> dict[str, JsonObject]:
    """The input schemas of the tools that the steps of a workflow call, by which texts become numbers."""
    from codecall.cli.commands.definitions import server_tools
    from codecall.cli.gateway import select_servers, servers_of

    own = {tool.name: tool.parameters for tool in read.tools}
    of_servers = [name for name in workflow.tools() if name not in own]
    if not of_servers:
        return own
    needed = servers_of(of_servers, options.servers)
    known = await server_tools(select_servers(options, sorted(needed or ())), output)
    for failure in known.failures:
        output.warn(f"{failure}; the values of its arguments are shown as texts")
    return {**{name: tool.input_schema for name, tool in known.tools.items()}, **own}


def _show_order(workflow: Workflow, arguments: JsonObject, schemas: Mapping[str, JsonObject], output: Output) -> int:
    """Show what runs after what, with the arguments that are known before, as they would be sent."""
    from codecall.composite.arguments import render_arguments, with_defaults
    from codecall.composite.budgets import TemplateBudget
    from codecall.composite.definition import ForEachStep, ToolStep
    from codecall.composite.templates.references import references

    params = with_defaults(arguments, workflow.parameters)
    levels: dict[str, int] = {}
    waiting = list(workflow.steps)
    while waiting:
        for step in [each for each in waiting if all(name in levels for name in each.depends_on)]:
            levels[step.id] = 1 + max((levels[name] for name in step.depends_on), default=-1)
            waiting.remove(step)
    rows: list[JsonObject] = []
    for step in sorted(workflow.steps, key=lambda each: levels[each.id]):
        row: JsonObject = {"id": step.id, "level": levels[step.id], "dependsOn": list(step.depends_on)}
        inner = step.step if isinstance(step, ForEachStep) else step
        if isinstance(inner, ToolStep):
            known = {
                name: value
                for name, value in inner.arguments.items()
                if all(each.fields[:1] == ("params",) for each in references(json.dumps(value, ensure_ascii=False)))
            }
            row["tool"] = inner.tool
            rendered = render_arguments(known, schemas.get(inner.tool), {"params": params}, TemplateBudget())
            row["arguments"] = {
                name: rendered.get(name, value)
                for name, value in inner.arguments.items()
                if name in rendered or name not in known
            }
        if step.condition is not None:
            row["condition"] = step.condition
        rows.append(row)
    if output.as_json:
        output.document({"name": workflow.name, "steps": rows})
        return exits.OK
    for row in rows:
        after = f", after {', '.join(row['dependsOn'])}" if row["dependsOn"] else ""
        called = f" {row['tool']} {json.dumps(row['arguments'], ensure_ascii=False)}" if "tool" in row else " asks"
        condition = f" if {row['condition']}" if "condition" in row else ""
        output.line(f"{'  ' * row['level']}{row['id']}:{called}{condition}{after}")
    return exits.OK


async def _show_manifest(tool: ScriptDefinition, read: ReadDefinitions, options: GatewayOptions, output: Output) -> int:
    """Show what a script is known to call."""
    from codecall.cli.commands.definitions import checking_enclave, server_tools
    from codecall.composite.checks import KnownTool
    from codecall.composite.scripts.checking import script_verdict

    known = await server_tools(options, output)
    tools = {**known.tools, **{each.name: KnownTool(each.parameters) for each in read.tools}}
    async with checking_enclave([tool], options) as enclave:
        verdict = await script_verdict(tool, enclave, None if known.failures else tools)
    output.document({"name": tool.name, **verdict})
    return exits.OK if verdict["valid"] else exits.FAILED


async def _run(
    tool: Definition,
    arguments: JsonObject,
    options: GatewayOptions,
    output: Output,
    *,
    trace: Path | None,
    allow: Sequence[str],
) -> int:
    import anyio.to_thread

    from codecall.cli.content import check_page_path, write_page
    from codecall.cli.gateway import name_commands, open_gateway
    from codecall.cli.output import reporting_calls_on_interrupt
    from codecall.cli.terminal_prompts import TerminalPerson, explain_unasked
    from codecall.traces.records import TraceRecorder

    check_page_path(trace)
    recorder = TraceRecorder()
    with (
        output.progress(tool.name) as progress,
        reporting_calls_on_interrupt(recorder, (person := TerminalPerson(allow, output, progress)).undecided),
    ):
        async with open_gateway(options, observers=(recorder,), person=person) as gateway:
            result = await gateway.call_tool(tool.name, arguments)
    page_error = await write_page(recorded := await anyio.to_thread.run_sync(recorder.trace), trace)
    if page_error is not None:
        output.failure(page_error)
    elif trace is not None and recorded is not None:
        output.note(f"trace: {trace}")
    body = result.structured_content
    if result.is_error and body is None:
        raise CodeCallError(" ".join(getattr(block, "text", "") for block in result.content), code="USAGE")
    if result.is_error and body is not None:
        if steps := body.get("steps"):
            output.note(f"steps: {json.dumps(steps)}")
        body = explain_unasked(name_commands(body), output, person)
        if body.get("code") == "TOOL_NOT_FOUND":
            body["hint"] = "`codecall composite check` names the tool that may be meant."
        error = CodeCallError(str(body.get("message")), code=str(body.get("code")), hint=body.get("hint"))
        output.failure(error)
        return exits.exit_for(error.code)
    # As it was sent: `result.data` holds objects of Python that stand for it.
    output.document(body["result"] if body and (result.meta or {}).get("fastmcp") else body)
    return exits.exit_for(page_error.code if page_error is not None else None)
