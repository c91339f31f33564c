"""The meta-tools in the formats of model providers, tool calls read from those formats, and the replies to them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, cast, get_args

from mcp_types import AudioContent, ContentBlock, ImageContent, ResourceLink, TextContent

from codecall.errors import CodeCallError, Location, OptionsError

if TYPE_CHECKING:
    from mcp_types import Tool

Definitions = Literal["openai", "openai-responses", "anthropic", "langchain"]
"""`openai`: Chat Completions, and everything that speaks it; `openai-responses`: the Responses API; `anthropic`: the
Messages API; `langchain`: tools of `langchain-core` (extra `langchain`), which call by themselves."""

JsonObject = dict[str, Any]

CallTool = Callable[[str, Mapping[str, Any]], Awaitable["Envelope"]]

AZURE_DESCRIPTION_LIMIT: Final = 1_024
"""Most characters of a description that some OpenAI deployments accept, Azure among them; otherwise they answer
`string_above_max_length`, as in https://github.com/langchain-ai/open_deep_research/issues/80."""

_REST = "The rest is in your instructions, under {name}."


class Envelope(dict[str, Any]):
    """The JSON object that a meta-tool answered with, as docs/guide/client.md has it; a `dict` like any other.

    Args:
        body: the object.
        blocks: the content blocks behind it.

    Attributes:
        blocks: pictures, sounds, files and links that a tool has returned, or a script shown.
    """

    def __init__(self, body: Mapping[str, Any], blocks: Sequence[ContentBlock] = ()) -> None:
        super().__init__(body)
        self.blocks: list[ContentBlock] = [*blocks]

    @property
    def ok(self) -> bool:
        """Whether nothing failed. Results of search and describe have no status, and count as ok."""
        return self.get("status", "ok") == "ok"

    @property
    def error(self) -> CodeCallError | None:
        """The error with its code, message and hint; None if nothing failed."""
        if self.ok:
            return None
        data: dict[str, Any] = self["error"]
        error = CodeCallError(data["message"], code=data["code"], hint=data.get("hint"))
        if place := data.get("location"):
            error.location, error.excerpt = Location(place["line"], place["column"]), place.get("text")
        return error

    @property
    def value(self) -> Any:
        """The result of the script or the tool.

        Raises:
            CodeCallError: the call failed; or its result is too large for an answer, and `read_result` reads it.
        """
        if (error := self.error) is not None:
            raise error
        if (large := self.large) is not None:
            raise CodeCallError(
                f"The result has {large['bytes']} bytes: too many for an answer, so that it is kept",
                code="OUTPUT_LIMIT",
                hint="`await codecall.read_result(answer)` reads it whole; a script reads parts of it with "
                f"`getResult('{large['handle']}', …)`.",
            )
        return self.get("result")

    @property
    def large(self) -> dict[str, Any] | None:
        """Where a result is kept that is too large for an answer: its `handle`, size, preview and shape."""
        return self.get("largeResult")


def definitions(
    tools: Sequence[Tool], style: Definitions, call: CallTool, *, description_limit: int | None = None
) -> list[Any]:
    """Give the definitions of `tools` in a style. The parts of descriptions beyond the limit are in `instructions`.

    Raises:
        OptionsError: there is no such style, or its library is not installed.
    """
    if style not in get_args(Definitions):
        raise OptionsError(f"No tool definitions for {style!r}; known: {', '.join(get_args(Definitions))}")
    result: list[Any] = []
    for tool in tools:
        description = _split_description(tool, description_limit)[0]
        parameters = tool.input_schema
        if style == "anthropic":
            result.append({"name": tool.name, "description": description, "input_schema": parameters})
        elif style == "openai-responses":
            result.append(_function(tool, description, parameters, type="function"))
        elif style == "openai":
            result.append({"type": "function", "function": _function(tool, description, parameters)})
        else:
            result.append(_langchain(tool, description, parameters, call))
    return result


def instructions(tools: Sequence[Tool], description_limit: int) -> str:
    """Give the parts of descriptions beyond the limit, for the system prompt; empty if there are none."""
    rests = [(tool.name, _split_description(tool, description_limit)[1]) for tool in tools]
    return "\n\n".join(f"{name}:\n{rest}" for name, rest in rests if rest)


def tool_reply(style: Definitions, call: object, envelope: Envelope) -> JsonObject:
    """Build the message that answers a model's tool call, with the blocks of the envelope as far as the provider takes
    them there; of the others the text says that they are left out.

    Args:
        style: The format of the provider; tools of `langchain` answer by themselves.
        call: The tool call as it came: a mapping, or an object of the provider's library.
        envelope: The result of the call.

    Raises:
        OptionsError: there is no such style.
    """
    parts = [_part(style, block) for block in envelope.blocks]
    text = json.dumps(envelope, ensure_ascii=False, separators=(",", ":"))
    if left_out := [_title(block) for block, part in zip(envelope.blocks, parts, strict=True) if part is None]:
        text += f"\n[left out of this message: {', '.join(left_out)}]"
    shown = [part for part in parts if part is not None]
    if style == "openai":
        return {"role": "tool", "tool_call_id": _member(call, "id"), "content": text}
    if style == "openai-responses":
        output = [{"type": "input_text", "text": text}, *shown] if shown else text
        return {"type": "function_call_output", "call_id": _member(call, "call_id"), "output": output}
    if style == "anthropic":
        content = [{"type": "text", "text": text}, *shown] if shown else text
        block: JsonObject = {"type": "tool_result", "tool_use_id": _member(call, "id"), "content": content}
        return block if envelope.ok else {**block, "is_error": True}
    raise OptionsError(f"No replies for {style!r}; known: openai, openai-responses, anthropic")


_PICTURES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Types of pictures that providers take."""


def _part(style: Definitions, block: ContentBlock) -> JsonObject | None:
    """A content block as a part of a provider's message; None for one that cannot be one."""
    if style == "openai":
        return None
    anthropic = style == "anthropic"
    if isinstance(block, TextContent):
        return {"type": "text" if anthropic else "input_text", "text": block.text}
    if isinstance(block, ImageContent) and block.mime_type in _PICTURES:
        if not anthropic:
            return {"type": "input_image", "image_url": f"data:{block.mime_type};base64,{block.data}"}
        return {"type": "image", "source": {"type": "base64", "media_type": block.mime_type, "data": block.data}}
    return None


def _title(block: ContentBlock) -> str:
    """What a block is, in a few words."""
    if isinstance(block, TextContent):
        return block.text
    if isinstance(block, ImageContent | AudioContent):
        return f"{block.type} ({block.mime_type})"
    return f"{block.type} {block.uri if isinstance(block, ResourceLink) else block.resource.uri}"


def parse_tool_call(style: Definitions, call: object) -> tuple[str, Mapping[str, Any]]:
    """Read the tool and the arguments of a model's tool call.

    Raises:
        OptionsError: it is no tool call of that style.
        ValueError: its arguments are no JSON object, a mistake of models that should be reported to them.
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


def _split_description(tool: Tool, limit: int | None) -> tuple[str, str]:
    """Split a description between lines where it is longer than the limit: the part that fits, and the rest."""
    description = tool.description or ""
    if limit is None or len(description) <= limit:
        return description, ""
    pointer = _REST.format(name=tool.name)
    fitting: list[str] = []
    lines = description.split("\n")
    for line in lines:
        if len("\n".join([*fitting, line, pointer])) > limit:
            break
        fitting.append(line)
    return "\n".join([*fitting, pointer]), "\n".join(lines[len(fitting) :])


def _langchain(tool: Tool, description: str, parameters: JsonObject, call: CallTool) -> Any:
    try:
        from langchain_core.tools import StructuredTool
    except ImportError:
        raise OptionsError(
            "LangChain tools need langchain-core, which is not installed", hint="pip install 'codecall[langchain]'"
        ) from None

    async def call_tool(**arguments: Any) -> Envelope:
        return await call(tool.name, arguments)

    return StructuredTool(name=tool.name, description=description, args_schema=parameters, coroutine=call_tool)


def _member(value: object, name: str) -> Any:
    """Read a member of a mapping, or of an object of a provider's library.

    Raises:
        OptionsError: there is no such member.
    """
    member = cast("Mapping[str, Any]", value).get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    if member is None:
        raise OptionsError(f"A tool call of another style: it has no {name!r}")
    return member
