"""What the four meta-tools share: `Runtime` (their services), `Arguments` and `MetaTool`, their base classes."""

from __future__ import annotations

import functools
import json
import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeVar

from fastmcp.exceptions import ToolError, ValidationError
from fastmcp.server.context import Context
from fastmcp.server.dependencies import get_access_token, get_context
from fastmcp.tools import Tool
from fastmcp.tools.base import InputRequiredToolResult, ToolResult
from mcp_types import ContentBlock, TextContent, ToolAnnotations
from pydantic import BaseModel, BeforeValidator, ConfigDict, PrivateAttr, model_validator
from pydantic import ValidationError as PydanticValidationError
from pydantic.alias_generators import to_camel

from codecall.audit.recorder import Audit
from codecall.catalog.entries import META_KEY, CatalogEntry, ToolMetadata
from codecall.catalog.inference.output_schemas import OutputObserver
from codecall.catalog.search.lazy import LazySearchIndex
from codecall.catalog.view import CatalogView
from codecall.errors import CodeCallError
from codecall.fastmcp_errors import client_message, log_unexpected
from codecall.identity import client_key, client_name
from codecall.jsonio.decode import encode_exactly, read_json
from codecall.meta_tools.naming import NAMES
from codecall.options import PluginOptions, Separator
from codecall.redaction.clean import well_formed
from codecall.results.service import ResultService
from codecall.server.lifespan import EnclavePool
from codecall.telemetry.spans import Operation, Telemetry

if TYPE_CHECKING:
    from codecall.approvals.service import ApprovalService
    from codecall.meta_tools.approval_source import PluginApprovals

JsonObject = dict[str, Any]

MAX_UNKNOWN: Final = 100
"""Most unknown arguments that are looked at: pydantic makes an error of each."""

UNION_TAGS = frozenset({"text", "list"})
"""Tags of discriminated unions in argument models; they are no part of a field's path."""

_CANONICAL: Final = re.compile(r"\bcodecall:(?=(?:search|describe|invoke|execute)\b)")


@dataclass(frozen=True, slots=True)
class Runtime:
    """The services of the plugin that its meta-tools use."""

    options: PluginOptions
    view: Callable[[Context], CatalogView]
    """Returns the tools of the caller of a request."""
    current: Callable[[], Runtime]
    """Returns the runtime in force, which is another one after a reload."""
    enclaves: EnclavePool
    index: LazySearchIndex
    telemetry: Telemetry
    audit: Audit
    """The record of runs."""
    observations: OutputObserver | None = None
    """Learns output schemas from results; None where nothing does. Only the functions below use it."""
    results: ResultService | None = None
    """Keeps results that are too large for an answer; None where nothing does."""
    asking: PluginApprovals | None = None

    @property
    def approvals(self) -> ApprovalService | None:
        """Asks persons for calls; None where nothing does."""
        return self.asking.service() if self.asking is not None else None

    def relay(self, context: Context) -> ApprovalService | None:
        """Passes on what is asked in the middle of a request; None where nothing asks. See `PluginApprovals.relay`."""
        return self.asking.relay(context) if self.asking is not None else None

    @property
    def separator(self) -> Separator:
        """The separator of the names in what meta-tools of this runtime say."""
        return separator_for(self.options, None)

    def with_separator(self, separator: Separator) -> Runtime:
        """The same for meta-tools with that separator in their names."""
        return replace(self, options=self.options.model_copy(update={"tool_name_separator": separator}))


def separator_for(options: PluginOptions, context: Context | None) -> Separator:
    """The separator in the names that the client of a request reads. Without a request, and with `auto` for a client
    that is not known, that is the colon of the canonical names."""
    chosen = options.tool_name_separator
    if chosen != "auto":
        return chosen
    return "_" if NAMES.match(client_name(context).strip().casefold().replace(" ", "-")) else ":"


class Arguments(BaseModel):
    """Base of the argument models: exact types, nothing unknown, wire names. Null stands for left out. What
    means the same in another form is converted when it has been refused (`argument_conversions`)."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, alias_generator=to_camel, defer_build=True)
    OTHER_NAMES: ClassVar[Mapping[str, str]] = {}
    """What another meta-tool calls an argument that this one has too, and its name here."""


def _well_formed(value: object) -> object:
    return well_formed(value) if isinstance(value, str) else value


WELL_FORMED = BeforeValidator(_well_formed)
"""For texts that an answer may repeat: half a surrogate pair, which no answer can hold, is read as U+FFFD."""

ArgumentsT = TypeVar("ArgumentsT", bound=Arguments)


class ArgumentsError(ValidationError):
    """Arguments are not of the form that the schema asks for. It reaches the caller as an error result."""


def parse_arguments(model: type[ArgumentsT], tool_name: str, arguments: Mapping[str, object]) -> ArgumentsT:
    """Read `arguments` as `model`.

    Raises:
        ArgumentsError: they are wrong; the message names each bad field. (ValidationError: they are far too many.)
    """
    if len(arguments) > len(known := model.model_fields) + MAX_UNKNOWN:
        raise ValidationError(f"{tool_name}: {len(arguments):,} arguments were given; there are {len(known)}")
    try:
        return model.model_validate(arguments)
    except PydanticValidationError as failure:
        raise ArgumentsError(f"{tool_name}: {_explain(model, failure)}") from None


_JSON_TYPES: Final = {
    "dict_type": "Input should be an object",
    "model_type": "Input should be an object",
    "list_type": "Input should be an array",
    "string_type": "Input should be a string",
    "int_type": "Input should be a whole number",
    "float_type": "Input should be a number",
    "bool_type": "Input should be true or false",
}
"""What to say of a value of the wrong type, in the words of JSON, by pydantic's name for it."""


def _in_json_words(message: str) -> str:
    """What pydantic says, of arrays and not of lists."""
    message = message.removeprefix("Value error, ").replace(" after validation", "")
    return f"Array{message.removeprefix('List')}" if message.startswith("List should") else message


def _explain(model: type[Arguments], failure: PydanticValidationError) -> str:
    lines: list[str] = []
    items = failure.errors(include_url=False, include_context=False, include_input=False)
    missing = [str(item["loc"][0]) for item in items if item["type"] == "missing" and len(item["loc"]) == 1]
    unknown = [str(item["loc"][0]) for item in items if item["type"] == "extra_forbidden" and len(item["loc"]) == 1]
    meant = {name: model.OTHER_NAMES[name] for name in unknown if name in model.OTHER_NAMES}
    if not meant and len(missing) == len(unknown) == 1:  # there is nothing else that it can mean
        meant = {unknown[0]: missing[0]}
    for item in items:
        # An argument is what it is called; only below it are there unions, whose tags no caller has written.
        path = ".".join([str(item["loc"][0]), *(str(part) for part in item["loc"][1:] if part not in UNION_TAGS)])
        if item["type"] == "extra_forbidden":
            hint = f"; did you mean {meant[path]}?" if path in meant else ""
            lines.append(f"{path}: unknown argument{hint}")
        elif item["type"] != "missing" or path not in meant.values():
            problem = _JSON_TYPES.get(item["type"]) or _in_json_words(item["msg"])
            lines.append(f"{path}: {problem}")
    text = "; ".join(lines[:10]) + (f"; and {len(lines) - 10} more" if len(lines) > 10 else "")
    if len(meant) < len(unknown):
        text += f"; known: {', '.join(field.alias or name for name, field in model.model_fields.items())}"
    return text


def tool_result(
    body: JsonObject, *, text: str | None = None, blocks: Sequence[ContentBlock] = (), is_error: bool = False
) -> ToolResult:
    """Answer with `body` as structured content and, as compact JSON, as the first block; both are well-formed. `blocks`
    follow as they are.

    `body` must be plain JSON data: it is not validated again. `text` is its JSON where the caller has it already.
    """
    if text is None:
        body, encoded = _encode(body)
        text = encoded.decode()
    block = TextContent(type="text", text=text)
    # model_construct: ToolResult's own constructor would walk and copy the whole body once more.
    return ToolResult.model_construct(content=[block, *blocks], structured_content=body, meta=None, is_error=is_error)


def with_warnings(result: ToolResult, warnings: Sequence[str]) -> ToolResult:
    """An answer of `tool_result` with these warnings before its own; one of text alone with them behind it."""
    body = result.structured_content
    if body is None:
        if result.content and isinstance(first := result.content[0], TextContent):
            text = "\n".join([first.text, *(f"# {warning}" for warning in warnings)])
            result.content[0] = TextContent(type="text", text=text)
        return result
    body = {**body, "warnings": [*warnings, *body.get("warnings", ())]}
    return tool_result(body, blocks=result.content[1:], is_error=result.is_error)


def tool_result_from_catalog(body: JsonObject) -> ToolResult:
    """Answer as `tool_result` does, for a `body` that holds schemas of the server's tools: the answer holds a copy."""
    _, encoded = _encode(body)
    return tool_result(read_json(encoded), text=encoded.decode())


def _encode(body: JsonObject) -> tuple[JsonObject, bytes]:
    """Return `body` and its JSON. What is no Unicode text in it, which has no UTF-8 form, is replaced in both."""
    try:
        return body, encode_exactly(body)
    except UnicodeEncodeError:
        body = json.loads(well_formed(json.dumps(body, ensure_ascii=False)))
        return body, encode_exactly(body)


class MetaTool(Tool):
    """A tool that CodeCall adds to a server. It knows its server only through the request it answers."""

    calls_tools: ClassVar[bool] = False
    """Whether it calls tools of the server, which a person may have to allow."""
    _runtime: Runtime = PrivateAttr()
    _operation: Operation = PrivateAttr()
    _own_name: str | None = PrivateAttr(default=None)

    @classmethod
    def build(
        cls,
        runtime: Runtime,
        *,
        verb: Operation,
        title: str,
        description: str,
        parameters: JsonObject,
        output_schema: JsonObject | None,
        annotations: ToolAnnotations,
    ) -> Self:
        """Create the tool under the name that the options advertise."""
        tool = cls(
            name=f"codecall{runtime.separator}{verb}",
            title=title,
            description=description,
            parameters=parameters,
            output_schema=output_schema,
            annotations=annotations,
            meta={META_KEY: ToolMetadata(meta_tool=True).model_dump(by_alias=True, exclude_defaults=True)},
        )
        tool._runtime = runtime
        tool._operation = verb
        return tool

    def name_with(self, separator: Separator) -> str:
        """Its name with that separator; a name of its own has none."""
        return f"codecall{separator}{self._operation}" if self._own_name is None else self._own_name

    def called(self, name: str) -> Self:
        """The same tool under a name of its own."""
        tool = self.model_copy(update={"name": name})
        tool._own_name = name
        return tool

    @property
    def asks_client(self) -> bool:
        """Whether it may ask the client something before it answers."""
        return self.calls_tools

    @model_validator(mode="after")
    def _validate_tool_name(self) -> Self:
        """Accept the colon, which is the contract's; clients that refuse it list another tool."""
        return self

    def spell_hint(self, error: CodeCallError) -> None:
        """Name the meta-tools in the hint of `error` as this tool is named."""
        if error.hint:
            error.hint = self.respell(error.hint)

    def respell(self, hint: str) -> str:
        """`hint` with the meta-tools named as this tool is named."""
        separator = self._runtime.separator
        return hint if separator == ":" else _CANONICAL.sub(f"codecall{separator}", hint)

    def _view(self) -> tuple[Context, CatalogView]:
        """Return the context of the current request, and its caller's tools."""
        context = get_context()
        return context, self._runtime.view(context)

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Answer the call; FastMCP calls this.

        Raises:
            ValidationError: the arguments are wrong.
            CodeCallError: CodeCall itself cannot work on this server.
            ToolError: the server failed to list its tools. FastMCP would send the text of any other exception
                as it is, whatever it holds.
        """
        request = self._runtime.telemetry.request(self._operation)
        if request is None:
            return await self._respond_safely(arguments)
        with request:
            result = await self._respond_safely(arguments)
            text = result.content[0] if result.content else None
            body = result.structured_content
            if isinstance(result, InputRequiredToolResult):
                body = {"status": "input_required"}
            elif body is None and result.is_error:  # the text says what; the rest is beside it
                body = (result.meta or {}).get(META_KEY, {"status": "error"})
            request.on_answer(body, text.text if isinstance(text, TextContent) else "")
            return result

    async def _respond_safely(self, arguments: dict[str, Any]) -> ToolResult:
        sanitization = self._runtime.options.sanitization
        try:
            return await self._respond(arguments)
        except CodeCallError:
            raise
        except ValidationError as failure:
            raise ValidationError(client_message(failure, sanitization)) from None
        except Exception as failure:
            log_unexpected(self.name, failure)
            raise ToolError(f"{self.name}: {client_message(failure, sanitization)}") from None

    async def _respond(self, arguments: dict[str, Any]) -> ToolResult:
        """Answer with the arguments as they are, or else as they are meant; in several requests where the client is
        asked something in between."""
        relay = self._runtime.relay(get_context()) if self.asks_client else None
        if relay is None:
            return await self._respond_as_meant(arguments)
        start = functools.partial(self._respond_as_meant, arguments)
        watch = self._runtime.options.shutdown.end_abandoned
        return await relay.respond(get_context(), self.name, arguments, start, watch=watch)

    async def _respond_as_meant(self, arguments: dict[str, Any]) -> ToolResult:
        try:
            return await self.respond(arguments)
        except ArgumentsError:
            from codecall.meta_tools.argument_conversions import convert_arguments  # few calls need it

            converted, notes = convert_arguments(arguments)
            if not notes:
                raise
        return with_warnings(await self.respond(converted), notes)

    @abstractmethod
    async def respond(self, arguments: dict[str, Any]) -> ToolResult:
        """Answer a call with these arguments.

        Raises:
            ValidationError: FastMCP's; the arguments are wrong, and the message says which and why. Nothing was done
                where it is an `ArgumentsError`.
        """
        ...


def result_observer(runtime: Runtime, context: Context) -> Callable[[CatalogEntry, str], None] | None:
    """Create the callback to which a broker passes the tool and the JSON text of each result of this request."""
    observations = runtime.observations
    if observations is None or not runtime.options.observed_output.enabled:
        return None
    return functools.partial(observations.observe, owner=_observation_owner(runtime, context))


async def observed_output_schema(runtime: Runtime, context: Context, entry: CatalogEntry) -> JsonObject | None:
    """Return the JSON Schema learned from a tool's results, as the caller of this request may see it; do not change it.

    None for tools that declare an output schema, while nothing is known, and where the option is off.
    """
    observations = runtime.observations
    if observations is None:
        return None
    return await observations.output_schema(entry, _observation_owner(runtime, context))


def _observation_owner(runtime: Runtime, context: Context) -> str:
    """The key of the caller of this request. A server reached over stdio, or in its own process, serves one party."""
    if not runtime.options.observed_output.per_caller:
        request = context.request_context.request if context.request_context is not None else None
        if request is None and get_access_token() is None and not context.is_background_task:
            return ""
    return client_key(context)
