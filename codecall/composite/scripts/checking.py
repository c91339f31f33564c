"""What is wrong with a script that is a composite tool, as far as that is known without running it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from codecall.composite.checks import KnownTool, WhyMissing
from codecall.composite.definition import Finding, JsonObject, ScriptDefinition
from codecall.composite.fields import Findings
from codecall.errors import ToolNotFoundError
from codecall.sandbox.enclave import Enclave

_NAMES: Final = "DisallowedGlobal"
"""The kind of findings about names that nothing declares."""


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
    known: list[JsonObject] | None = None
    if tools is not None:
        known = [{"name": name, "inputSchema": each.input_schema, "appId": each.server} for name, each in tools.items()]
    elif guesses and tool.language == "starlark" and tool.names_its_tools:
        known = [{"name": name} for name in tool.tools()]
    allowed = tool.allowed_tools if tools is not None else None
    result = await enclave.check(
        tool.script, tools=known, allowed_tools=allowed, context=context, language=tool.language, guesses=guesses
    )
    if (error := result.error) is None:
        verdict = cast("JsonObject", result.value)
        if tools is None and not guesses and tool.language == "starlark":
            # A name that is not called may be a tool as well: `parallel` and the like take functions.
            findings = [each for each in cast("list[JsonObject]", verdict["findings"]) if each.get("kind") != _NAMES]
            verdict = {**verdict, "valid": not findings, "findings": findings}
        return verdict
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
    why_missing: WhyMissing | None = None,
) -> list[Finding]:
    """Add what is wrong with a script to `findings`, and return it; see `script_verdict` and `WhyMissing`.

    Raises:
        CodeCallError: it could not be checked.
    """
    verdict, before = await script_verdict(tool, enclave, tools, guesses=guesses), len(findings.found)
    for problem in cast("list[JsonObject]", verdict["findings"]):
        location = cast("Mapping[str, int]", problem.get("location") or {})
        # A member of a namespace has a dot in its name, where the tool has an underscore.
        name = str(problem.get("toolName", "")).replace(".", "_")
        why = why_missing(name) if why_missing is not None and problem["code"] == ToolNotFoundError.code else None
        findings.add("", why or str(problem["message"]), line=location.get("line"), by_server=why is not None)
    return findings.found[before:]
