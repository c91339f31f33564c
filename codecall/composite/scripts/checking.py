"""What is wrong with a script that is a composite tool, as far as that is known without running it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from codecall.composite.checks import KnownTool
from codecall.composite.definition import Finding, JsonObject, ScriptDefinition
from codecall.composite.fields import Findings
from codecall.sandbox.enclave import Enclave


async def script_verdict(
    tool: ScriptDefinition, enclave: Enclave, tools: Mapping[str, KnownTool] | None = None, *, guesses: bool = False
) -> JsonObject:
    """What a dry run of a script says: `{valid, findings, manifest}`.

    Args:
        tool: The script.
        enclave: Where it is checked.
        tools: All tools that there are; None: they are not known, and whatever it calls may be one.
        guesses: Whether, where they are not known, a name that is more likely misspelt than a server's is a finding.

    Raises:
        CodeCallError: it could not be checked.
    """
    context = dict.fromkeys(cast("JsonObject", tool.parameters.get("properties") or {}))
    if tools is None:
        named = guesses and tool.language == "starlark" and tool.names_its_tools
        result = await enclave.check(
            tool.script,
            functions=tool.tools() if named else None,
            context=context,
            language=tool.language,
            guesses=guesses,
        )
    else:
        result = await enclave.execute(
            tool.script,
            tool_handler=_never_called,
            tools=[
                {"name": name, "inputSchema": known.input_schema, "appId": known.server}
                for name, known in tools.items()
            ],
            allowed_tools=tool.allowed_tools,
            context=context,
            dry_run=True,
            language=tool.language,
        )
    if (error := result.error) is None:
        return cast("JsonObject", result.value)
    if result.status in ("syntax_error", "illegal_access"):
        return {"valid": False, "findings": [error.as_dict()]}
    raise error


async def check_script(
    tool: ScriptDefinition,
    findings: Findings,
    enclave: Enclave,
    tools: Mapping[str, KnownTool] | None = None,
    *,
    guesses: bool = False,
) -> list[Finding]:
    """Add what is wrong with a script to `findings`, and return it; see `script_verdict`.

    Raises:
        CodeCallError: it could not be checked.
    """
    verdict, before = await script_verdict(tool, enclave, tools, guesses=guesses), len(findings.found)
    for problem in cast("list[JsonObject]", verdict["findings"]):
        location = cast("Mapping[str, int]", problem.get("location") or {})
        findings.add("", str(problem["message"]), line=location.get("line"))
    return findings.found[before:]


def _never_called(name: str, _: JsonObject) -> object:
    raise AssertionError(f"a dry run called {name}")
