"""CodeCall's tools as the interfaces of model providers want them, and answers as they want those."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, cast, get_args

from codecall.errors import OptionsError

if TYPE_CHECKING:
    from mcp_types import Tool

    pass
from codecall.errors import CodeCallError, Location

# ----------------------------------------------------------------------------------------------------
# CodeCall's tools as the interfaces of model providers want them, and answers as they want those.

Definitions = Literal["openai", "openai-responses", "anthropic", "langchain"]
"""`openai`: Chat Completions, and everything that speaks it; `openai-responses`: the Responses API; `anthropic`: the
Messages API; `langchain`: tools of `langchain-core` (extra `langchain`), which call by themselves."""

JsonObject = dict[str, Any]
CallTool = Callable[[str, Mapping[str, Any]], Awaitable["Envelope"]]

AZURE_DESCRIPTION_LIMIT: Final = 1_024
"""Most characters of a description with some OpenAI deployments, Azure among them: they answer
`string_above_max_length`, as in https://github.com/langchain-ai/open_deep_research/issues/80."""

_REST = "The rest is in your instructions, under {name}."


def definitions(
    tools: Sequence[Tool], style: Definitions, call: CallTool, *, description_limit: int | None = None
) -> list[Any]:
    """`tools` in that style. What of a description is beyond the limit is in `instructions`.

    Raises:
        OptionsError: there is no such style, or its library is not installed.
    """
    if style not in get_args(Definitions):
        raise OptionsError(f"No tool definitions for {style!r}; known: {', '.join(get_args(Definitions))}")
    made: list[Any] = []
    for tool in tools:
        description = _parts(tool, description_limit)[0]
        parameters = tool.input_schema
        if style == "anthropic":
            made.append({"name": tool.name, "description": description, "input_schema": parameters})
        elif style == "openai-responses":
            made.append(_function(tool, description, parameters, type="function"))
        elif style == "openai":
            made.append({"type": "function", "function": _function(tool, description, parameters)})
        else:
            made.append(_langchain(tool, description, parameters, call))
    return made


def instructions(tools: Sequence[Tool], description_limit: int) -> str:
    """What of the tools' descriptions is beyond the limit, for the system prompt; empty where nothing is."""
    beyond = [(tool.name, _parts(tool, description_limit)[1]) for tool in tools]
    return "\n\n".join(f"{name}:\n{rest}" for name, rest in beyond if rest)


def tool_reply(style: Definitions, call: object, envelope: Envelope) -> JsonObject:
    """The message that answers a model's tool call.

    Args:
        style: Whose interface it is; `langchain` answers by itself.
        call: The tool call as it came: a mapping, or an object of the provider's library.
        envelope: The answer.

    Raises:
        OptionsError: there is no such style.
    """
    text = json.dumps(envelope, ensure_ascii=False, separators=(",", ":"))
    if style == "openai":
        return {"role": "tool", "tool_call_id": _member(call, "id"), "content": text}
    if style == "openai-responses":
        return {"type": "function_call_output", "call_id": _member(call, "call_id"), "output": text}
    if style == "anthropic":
        block: JsonObject = {"type": "tool_result", "tool_use_id": _member(call, "id"), "content": text}
        return block if envelope.ok else {**block, "is_error": True}
    raise OptionsError(f"No replies for {style!r}; known: openai, openai-responses, anthropic")


def parse_tool_call(style: Definitions, call: object) -> tuple[str, Mapping[str, Any]]:
    """The tool and the arguments of a model's tool call.

    Raises:
        OptionsError: it is no tool call of that style.
        ValueError: its arguments are no JSON object. Models make such mistakes: tell them.
    """
    if style == "openai":
        function = _member(call, "function")
        name, arguments = _member(function, "name"), _member(function, "arguments")
    elif style == "openai-responses":
        name, arguments = _member(call, "name"), _member(call, "arguments")
    elif style == "anthropic":
        name, arguments = _member(call, "name"), _member(call, "input")
    else:
        raise OptionsError(f"No tool calls of {style!r} to read; known: openai, openai-responses, anthropic")
    if isinstance(arguments, str):
        arguments = json.loads(arguments or "{}")
    if not isinstance(arguments, Mapping):
        raise ValueError(  # noqa: TRY004 - what a model wrote, as with text that is no JSON
            f"The arguments of a call are a JSON object, not {type(arguments).__name__}"
        )
    return str(name), cast("Mapping[str, Any]", arguments)


def _function(tool: Tool, description: str, parameters: JsonObject, **more: str) -> JsonObject:
    # Not strict: that demands every argument of every call.
    return {**more, "name": tool.name, "description": description, "parameters": parameters}


def _parts(tool: Tool, limit: int | None) -> tuple[str, str]:
    """A description, cut between lines where it is longer than the limit, and what is beyond."""
    description = tool.description or ""
    if limit is None or len(description) <= limit:
        return description, ""
    pointer = _REST.format(name=tool.name)
    kept: list[str] = []
    lines = description.split("\n")
    for line in lines:
        if len("\n".join([*kept, line, pointer])) > limit:
            break
        kept.append(line)
    return "\n".join([*kept, pointer]), "\n".join(lines[len(kept) :])


def _langchain(tool: Tool, description: str, parameters: JsonObject, call: CallTool) -> Any:
    try:
        from langchain_core.tools import StructuredTool
    except ImportError:
        raise OptionsError(
            "LangChain tools need langchain-core, which is not installed", hint="pip install 'codecall[langchain]'"
        ) from None

    async def answer(**arguments: Any) -> Envelope:
        return await call(tool.name, arguments)

    return StructuredTool(name=tool.name, description=description, args_schema=parameters, coroutine=answer)


def _member(value: object, name: str) -> Any:
    """A member of a mapping or of an object of a provider's library.

    Raises:
        OptionsError: it has none of that name.
    """
    found = cast("Mapping[str, Any]", value).get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    if found is None:
        raise OptionsError(f"A tool call of another style: it has no {name!r}")
    return found


# ----------------------------------------------------------------------------------------------------
# What a call of CodeCall answered.


class Envelope(dict[str, Any]):
    """The JSON object that a meta-tool answered with, as docs/guide/client.md has it; a `dict` like any other."""

    @property
    def ok(self) -> bool:
        """Whether nothing failed. The answers of search and describe have no status: they did not."""
        return self.get("status", "ok") == "ok"

    @property
    def error(self) -> CodeCallError | None:
        """What failed, with its code, message and hint; None where nothing did."""
        if self.ok:
            return None
        told: dict[str, Any] = self["error"]
        error = CodeCallError(told["message"], code=told["code"], hint=told.get("hint"))
        if place := told.get("location"):
            error.location, error.excerpt = Location(place["line"], place["column"]), place.get("text")
        return error

    @property
    def value(self) -> Any:
        """What the script or the tool gave. None for a result that is kept instead: `largeResult` says where.

        Raises:
            CodeCallError: it failed.
        """
        if (error := self.error) is not None:
            raise error
        return self.get("result")
