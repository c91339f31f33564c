"""The definition of a composite tool, as it is once it has been read: a workflow of steps, and every limit of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from codecall.globs import literal_name

JsonObject = dict[str, object]

MAX_STEPS: Final = 100
"""Steps of one workflow."""
MAX_PARALLEL_STEPS: Final = 10
"""Steps of one workflow that run at the same time."""
MAX_ITERATIONS: Final = 1_000
"""Most that `maxIterations` of a forEach step may be."""
MAX_PARALLEL_ITERATIONS: Final = 50
"""Most that `maxParallel` of a forEach step may be."""
MAX_RETRIES: Final = 10
"""Most that `retryCount` may be."""
MAX_DELAY_FACTOR: Final = 60
"""Longest delay between two attempts, in first delays."""
MAX_ELICITATION_S: Final = 600.0
"""Most seconds that an elicitation may wait."""
MAX_TIMEOUT_S: Final = 24 * 3600.0
"""Most seconds that a workflow or a step may take."""

NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The form of names of tools, as every client takes them."""
STEP_ID: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""The form of ids of steps."""

ErrorAction = Literal["abort", "continue", "retry"]
AnswerAction = Literal["abort", "continue", "skip_remaining"]
FailureMode = Literal["abort", "continue"]


class Missing:
    """The type of `MISSING`."""

    def __repr__(self) -> str:
        """Its name."""
        return "MISSING"


MISSING: Final = Missing()
"""Stands for a value that a definition does not give, since null is one that it may give."""


class Place(NamedTuple):
    """Where something stands in a definition."""

    file: str
    """Path of the file; empty for a Python value."""
    path: str
    """Such as `steps[2].dependsOn`; empty for the definition as a whole."""
    line: int | None = None
    """From 1, where it is known."""

    def __str__(self) -> str:
        """As a finding names it: `file:line: path`."""
        where = f"{self.file}:{self.line}" if self.file and self.line else self.file
        return ": ".join(filter(None, (where, self.path)))


class Finding(NamedTuple):
    """One thing that is wrong with a definition, which is not served then."""

    place: Place
    message: str
    tool: str = ""
    """Name of the composite tool, if it has one."""
    by_server: bool = False
    """It is about a tool that a server does not offer here, and may have."""

    def __str__(self) -> str:
        """Place and message in one line."""
        return f"{self.place}: {self.message}" if str(self.place) else self.message


@dataclass(frozen=True, slots=True)
class OnError:
    """What happens when a step fails."""

    action: ErrorAction = "abort"
    retry_count: int = 0
    """Further attempts after the first one, if `action` is retry."""
    retry_delay_s: float = 1.0
    """Seconds before the second attempt; each further delay is twice as long, up to `MAX_DELAY_FACTOR` of the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What all steps share."""

    id: str
    path: str
    """Where it stands in its definition."""
    depends_on: tuple[str, ...] = ()
    condition: str | None = None
    """A template that gives `true` or `false`; None: the step always runs."""
    timeout_s: float = 300.0
    on_error: OnError = OnError()
    default_results: object = MISSING
    """Its output when it is skipped, or fails and the workflow goes on."""

    def templates(self) -> Iterator[tuple[str, str]]:
        """Each template of the step, after the path at which it stands below the step."""
        if self.condition is not None:
            yield "condition", self.condition


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStep(Step):
    """Calls a tool."""

    tool: str
    arguments: JsonObject = field(default_factory=dict[str, object])

    def templates(self) -> Iterator[tuple[str, str]]:
        """See `Step.templates`."""
        yield from Step.templates(self)
        yield from texts_in(self.arguments, "arguments")


@dataclass(frozen=True, slots=True, kw_only=True)
class ElicitationStep(Step):
    """Asks a person."""

    message: str
    schema: JsonObject
    on_decline: AnswerAction = "abort"
    on_cancel: AnswerAction = "abort"

    def templates(self) -> Iterator[tuple[str, str]]:
        """See `Step.templates`."""
        yield from Step.templates(self)
        yield "message", self.message


@dataclass(frozen=True, slots=True, kw_only=True)
class ForEachStep(Step):
    """Calls a tool for each item of a collection."""

    collection: str
    """A template that gives a JSON array."""
    step: ToolStep
    item_var: str = "item"
    max_parallel: int = 10
    max_iterations: int = 100

    def templates(self) -> Iterator[tuple[str, str]]:
        """See `Step.templates`."""
        yield from Step.templates(self)
        yield "collection", self.collection
        for path, text in self.step.templates():
            yield f"step.{path}", text


AnyStep = ToolStep | ElicitationStep | ForEachStep


@dataclass(frozen=True, slots=True)
class OutputProperty:
    """One property of the `output` block."""

    type: str
    description: str
    value: str | None = None
    """A template; None where `properties` says what it is made of."""
    properties: Mapping[str, OutputProperty] = field(default_factory=dict[str, "OutputProperty"])
    default: object = MISSING


@dataclass(frozen=True, slots=True)
class Output:
    """The `output` block: the result of the workflow, property by property."""

    properties: Mapping[str, OutputProperty]
    required: tuple[str, ...] = ()

    def templates(self) -> Iterator[tuple[str, str]]:
        """Each template, after its path in the definition."""
        yield from _output_templates(self.properties, "output.properties")


@dataclass(frozen=True, slots=True)
class Workflow:
    """A composite tool."""

    name: str
    description: str
    steps: tuple[AnyStep, ...]
    parameters: JsonObject
    """JSON Schema of its arguments."""
    output: Output | None = None
    """None: the result is the raw output of the last step."""
    timeout_s: float = 1_800.0
    failure_mode: FailureMode = "abort"
    """`continue`: steps that do not say what happens when they fail have `onError: continue`."""
    source: str = ""
    """The definition as JSON, for records of its runs."""

    def tools(self) -> tuple[str, ...]:
        """Names of the tools that its steps call, each once."""
        inner = (step.step if isinstance(step, ForEachStep) else step for step in self.steps)
        return tuple(dict.fromkeys(step.tool for step in inner if isinstance(step, ToolStep)))

    def may_be_skipped(self, step: AnyStep) -> bool:
        """Whether a step may end without an output of its own while the workflow goes on."""
        return step.condition is not None or self.continues_after(step)

    def continues_after(self, step: AnyStep) -> bool:
        """Whether the workflow goes on when this step fails."""
        if isinstance(step, ForEachStep) or step.on_error.action == "retry":
            return self.failure_mode == "continue"
        return step.on_error.action == "continue"


@dataclass(frozen=True, slots=True)
class ScriptDefinition:
    """A composite tool that is a script."""

    name: str
    description: str
    script: str
    """The whole file: its header is a comment."""
    language: Literal["javascript", "starlark"]
    parameters: JsonObject
    """JSON Schema of its arguments."""
    output: JsonObject | None = None
    """JSON Schema of its result; None: any."""
    allowed_tools: tuple[str, ...] | None = None
    """Names, URIs and globs that it may use; None allows all that its caller may use."""
    annotations: Mapping[str, object] = field(default_factory=dict[str, object])
    """What its header says of its annotations; the others are those of its tools."""

    def tools(self) -> tuple[str, ...]:
        """Names of the tools that it may call, as far as they are written out."""
        names = map(literal_name, self.allowed_tools or ())
        return tuple(name for name in names if name is not None)

    @property
    def names_its_tools(self) -> bool:
        """Whether `tools` has all that it may call."""
        return self.allowed_tools is not None and len(self.tools()) == len(self.allowed_tools)


Definition = Workflow | ScriptDefinition
"""What a composite tool is made of."""


def texts_in(value: object, path: str) -> Iterator[tuple[str, str]]:
    """Each text in JSON data, after its path."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():  # pyright: ignore[reportUnknownVariableType]
            yield from texts_in(item, f"{path}.{key}")  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            yield from texts_in(item, f"{path}[{number}]")  # pyright: ignore[reportUnknownArgumentType]


def _output_templates(properties: Mapping[str, OutputProperty], path: str) -> Iterator[tuple[str, str]]:
    for name, entry in properties.items():
        if entry.value is not None:
            yield f"{path}.{name}.value", entry.value
        yield from _output_templates(entry.properties, f"{path}.{name}.properties")
