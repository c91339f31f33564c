"""Finds what is wrong with a workflow as a whole: its graph, its templates, and the defaults that other steps need."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, cast

from codecall.composite.definition import (
    MISSING,
    AnyStep,
    Definition,
    ForEachStep,
    JsonObject,
    OutputProperty,
    ToolStep,
    Workflow,
)
from codecall.composite.fields import Findings
from codecall.composite.templates.references import Reference, is_template, only_field, references
from codecall.composite.templates.rendering import syntax_error
from codecall.schema.comparison import find_missing, find_violations
from codecall.schema.partial import Unknown
from codecall.wording import nearest

_ROOTS: Final = ("params", "steps", "forEach", "workflow")
_ONE_FIELD: Final = re.compile(
    r"\{\{-?\s*(?P<json>json )?\s*\.steps\.(?P<step>\w+)\.output(?P<fields>(\.\w+)+)\s*-?\}\}"
)
"""A template that is nothing but one field of a step's output."""
_NO_DOT: Final = re.compile(
    rf"""\{{\{{(?:[^{{}}"`]|"[^"]*")*?(?<![.$\w])(?P<field>(?:{"|".join(_ROOTS)})\b(?:\.\w+)*)"""
)
"""A template with a field that does not begin with a dot."""
_NO_FUNCTION: Final = re.compile(r".*function '(?P<name>\w+)' not defined")
_JAVASCRIPT: Final = re.compile(r"\$\{\s*params\.(?P<name>\w+)\s*\}")
_STEP_PATH: Final = re.compile(r"steps\[\d+\]")
_STEP_FIELDS: Final = ("output", "status", "error")
_WORKFLOW_FIELDS: Final = ("id", "name", "start")


def check_workflow(workflow: Workflow, findings: Findings) -> None:
    """Add all that is wrong with `workflow` to `findings`, which have what is wrong with its form; nothing that may be
    wrong only because of that."""
    steps: dict[str, AnyStep] = {}
    for step in workflow.steps:
        if step.id and step.id in steps:
            findings.add(f"{step.path}.id", f"the id {step.id!r} is that of {steps[step.id].path}, too")
        else:
            steps[step.id] = step
    if not _lacks_steps(workflow, findings):
        _check_dependencies(steps, findings)
    cycle = find_cycle({name: step.depends_on for name, step in steps.items()})
    if cycle:
        findings.add(f"{steps[cycle[0]].path}.dependsOn", f"the steps wait for each other: {' → '.join(cycle)}")
    ancestors = ancestors_of(steps)
    templates = _Templates(workflow, steps, findings)
    for step in workflow.steps:
        for path, text in step.templates():
            templates.check(text, f"{step.path}.{path}", step, ancestors[step.id])
    for path, text in workflow.output.templates() if workflow.output is not None else ():
        templates.check(text, path, None, steps.keys())
    _check_defaults(workflow, findings)


def _lacks_steps(workflow: Workflow, findings: Findings) -> bool:
    """Whether there are steps whose ids are not known, so that nothing can be said of names that no step has."""
    return any(not step.id or findings.has(f"{step.path}.id") for step in workflow.steps) or any(
        each.place.path == "steps" or _STEP_PATH.fullmatch(each.place.path) for each in findings.found
    )


def _check_dependencies(steps: Mapping[str, AnyStep], findings: Findings) -> None:
    for step in steps.values():
        for number, name in enumerate(step.depends_on):
            if name not in steps:
                findings.add(f"{step.path}.dependsOn[{number}]", f"there is no step {name!r:.80}{_near(name, steps)}")


def find_cycle(depends_on: Mapping[str, Iterable[str]]) -> list[str]:
    """The first circle in a graph, as `[a, b, a]`; empty if there is none."""
    done: set[str] = set()
    for start in depends_on:
        path: list[str] = []
        waiting: list[Iterator[str]] = [iter((start,))]
        while waiting:
            name = next(waiting[-1], None)
            if name is None:
                waiting.pop()
                if path:
                    done.add(path.pop())
            elif name in path:
                return [*path[path.index(name) :], name]
            elif name in depends_on and name not in done:
                path.append(name)
                waiting.append(iter(depends_on[name]))
    return []


def ancestors_of(steps: Mapping[str, AnyStep]) -> dict[str, set[str]]:
    """For each step those that have ended when it starts."""
    found: dict[str, set[str]] = {}
    for name in steps:
        seen: set[str] = set()
        waiting = [*steps[name].depends_on]
        while waiting:
            other = waiting.pop()
            if other in steps and other not in seen:
                seen.add(other)
                waiting.extend(steps[other].depends_on)
        found[name] = seen
    return found


class _Templates:
    """Checks the templates of one workflow."""

    def __init__(self, workflow: Workflow, steps: Mapping[str, AnyStep], findings: Findings) -> None:
        self._steps = steps
        self._findings = findings
        properties = workflow.parameters.get("properties")
        names = list(cast("Mapping[str, object]", properties)) if isinstance(properties, dict) else []
        unknown = bool(workflow.parameters.get("additionalProperties")) or findings.has("parameters")
        self._parameters = None if unknown else names
        self._lacks_steps = _lacks_steps(workflow, findings)

    def check(self, text: str, path: str, step: AnyStep | None, reachable: Iterable[str]) -> None:
        """Check one template of `step`, or of the output, which may read the steps of `reachable`."""
        if (problem := syntax_error(text)) is not None:
            self._findings.add(path, f"the template is wrong: {problem}{self._dot_hint(text, problem)}")
            return
        for found in _JAVASCRIPT.finditer(text):
            if found["name"] in (self._parameters or ()):
                field = f".params.{found['name']}"
                self._findings.add(
                    path,
                    f"`{found[0]}` is sent as it stands: write `{{{{{field}}}}}`, or, if that is meant, "
                    f'`{{{{"$"}}}}{found[0][1:]}`',
                )
        for reference in references(text):
            problem = self._problem(reference, path, step, reachable)
            if problem is not None:
                self._findings.add(path, problem)

    def _dot_hint(self, text: str, problem: str) -> str:
        """What to write for a field without a dot in front; empty if there is none."""
        name = _NO_FUNCTION.match(problem)
        if name is not None and name["name"] in (self._parameters or ()):
            field = f"params.{name['name']}"
        elif (found := _NO_DOT.search(text)) is not None:
            field = found["field"]
        else:
            return ""
        return f"; a field begins with a dot: write `.{field}`"

    def _problem(self, reference: Reference, path: str, step: AnyStep | None, reachable: Iterable[str]) -> str | None:
        root, name, field = (*reference.fields, None, None, None)[:3]
        match root:
            case "params" if name is not None and self._parameters is not None and name not in self._parameters:
                return f"{{{{.params.{name}}}}}: there is no such parameter{_near(name, self._parameters)}"
            case "workflow" if name is not None and name not in _WORKFLOW_FIELDS:
                return f"{{{{.workflow.{name}}}}}: known are {', '.join(_WORKFLOW_FIELDS)}"
            case "forEach":
                return self._for_each_problem(name, path, step)
            case "steps" if name is not None:
                return self._step_problem(name, field, step, reachable)
            case str() if root not in _ROOTS:
                return f"{{{{.{root}}}}}: known are {', '.join(f'.{known}' for known in _ROOTS)}"
            case _:
                return None

    def _for_each_problem(self, name: str | None, path: str, step: AnyStep | None) -> str | None:
        if not isinstance(step, ForEachStep) or f"{step.path}.step." not in path:
            return ".forEach is there in the inner step of a forEach step only"
        if name is not None and name not in (step.item_var, "index"):
            return f"{{{{.forEach.{name}}}}}: known are {step.item_var} and index"
        return None

    def _step_problem(self, name: str, field: str | None, step: AnyStep | None, reachable: Iterable[str]) -> str | None:
        if name not in self._steps:
            return None if self._lacks_steps else f"there is no step {name!r:.80}{_near(name, self._steps)}"
        if name not in reachable and not self._findings.has("steps" if step is None else f"{step.path}.dependsOn"):
            owner = f"step '{step.id}'" if step is not None else "the output"
            return f"step '{name}' is not among the steps that {owner} depends on; add it to dependsOn"
        if field is not None and field not in _STEP_FIELDS:
            return f"{{{{.steps.{name}.{field}}}}}: a step has {', '.join(_STEP_FIELDS)}"
        return None


def _check_defaults(workflow: Workflow, findings: Findings) -> None:
    """A step that may be skipped has defaults for what other steps read of its output."""
    for step in workflow.steps:
        if not workflow.may_be_skipped(step):
            continue
        used = list(dict.fromkeys(_fields_used(workflow, step.id)))
        if step.default_results is MISSING:
            if used:
                findings.add(
                    f"{step.path}.defaultResults",
                    f"step '{step.id}' can be skipped but is referenced by downstream steps "
                    "without defaultResults defined",
                )
            continue
        defaults = step.default_results
        known: Sequence[str] = (
            list(cast("Mapping[str, object]", defaults)) if isinstance(defaults, dict) else ["result"]
        )
        for field in used:
            if field and field not in known and field != "text":
                findings.add(
                    f"{step.path}.defaultResults",
                    f"step '{step.id}' can be skipped, and downstream steps read its output field '{field}', "
                    f"which defaultResults does not have{_near(field, known)}",
                )


def _fields_used(workflow: Workflow, step_id: str) -> Iterator[str]:
    """The fields of a step's output that templates of other steps read; empty for the output as a whole."""
    for other in workflow.steps:
        if other.id == step_id:
            continue
        for _, text in other.templates():
            for reference in references(text):
                if reference.fields[:3] == ("steps", step_id, "output"):
                    yield reference.fields[3] if len(reference.fields) > 3 else ""


def check_together(tools: Mapping[str, tuple[Definition, Findings]]) -> None:
    """Add what is wrong with composite tools that are served together: one that ends up calling itself."""
    calls = {name: tool.tools() for name, (tool, _) in tools.items()}
    for name, (tool, findings) in tools.items():
        cycle = find_cycle({name: calls[name], **calls})
        if cycle and name in cycle:
            start = cycle.index(name)
            ordered = [*cycle[start:-1], *cycle[:start], name]
            where = "steps" if isinstance(tool, Workflow) else "allowedTools"
            findings.add(where, f"the tool calls itself: {' → '.join(ordered)}")


def _near(name: str, known: Iterable[str]) -> str:
    near = nearest(name, tuple(known))
    return f"; did you mean {near[0]}?" if near else ""


class KnownTool(NamedTuple):
    """What is known of a tool that a server has."""

    input_schema: JsonObject
    output_schema: JsonObject | None = None
    server: str = ""
    """Its server, which is a namespace of scripts."""


WhyMissing = Callable[[str], str | None]
"""Says why a tool of that name is not offered that a server may have; None where no server has it."""


def check_tools(tool: Definition, findings: Findings, tools: Mapping[str, KnownTool], why_missing: WhyMissing) -> None:
    """Add what these tools contradict to `findings`: names of others, arguments that they refuse, and fields that they
    do not return."""

    def add_missing(path: str, name: str) -> None:
        why = why_missing(name)
        unknown = f"there is no tool {name!r:.80}{_near(name, tools)}"
        findings.add(path, why or unknown, by_server=why is not None)

    if isinstance(tool, Workflow):
        _check_steps(tool, findings, tools, add_missing)
        return
    for number, name in enumerate(tool.allowed_tools or ()):
        if name in tool.tools() and "://" not in name and name not in tools:
            add_missing(f"allowedTools[{number}]", name)


def _check_steps(
    workflow: Workflow,
    findings: Findings,
    tools: Mapping[str, KnownTool],
    add_missing: Callable[[str, str], None],
) -> None:
    for step in workflow.steps:
        inner = step.step if isinstance(step, ForEachStep) else step
        if not isinstance(inner, ToolStep):
            continue
        tool = tools.get(inner.tool)
        if not inner.tool:
            continue
        if tool is None:
            add_missing(f"{inner.path}.tool", inner.tool)
            continue
        if any(each.place.path == f"{inner.path}.arguments" for each in findings.found):
            continue
        known = cast("JsonObject", _known(inner.arguments))
        problems = find_violations(known, tool.input_schema) or find_missing(known, tool.input_schema)
        for path, message in problems:
            where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
            findings.add(f"{inner.path}.arguments{where}", f"'{inner.tool}' refuses it: {message}")
        for name, parameter in _left_out_with(workflow, inner, tool.input_schema):
            findings.add(
                f"{inner.path}.arguments.{name}",
                f"'{inner.tool}' requires it, and the parameter '{parameter}' may be left out: "
                "add it to `required`, or give it a `default`",
            )
    for path, entry in _output_entries(workflow):
        promised = _promised_type(entry.value or "", workflow, tools)
        if promised is not None and not _may_be(promised, entry.type):
            findings.add(f"{path}.type", f"is {entry.type}; the tool's output schema has {promised} there")


def _left_out_with(workflow: Workflow, step: ToolStep, schema: JsonObject) -> Iterator[tuple[str, str]]:
    """Arguments that a tool requires and that are left out where a parameter is; each with that parameter."""
    properties = cast("JsonObject", workflow.parameters.get("properties") or {})
    required = cast("Sequence[str]", workflow.parameters.get("required") or ())
    for name in cast("Sequence[str]", schema.get("required") or ()):
        template = step.arguments.get(name)
        field = only_field(template) if isinstance(template, str) else None
        if field is None or field[0] != "params" or len(field) != 2 or field[1] in required:
            continue
        declared = properties.get(field[1])
        if not (isinstance(declared, dict) and "default" in declared):
            yield name, field[1]


def _known(value: object) -> object:
    """Arguments with gaps in place of templates."""
    if isinstance(value, str):
        return Unknown.PRESENT if is_template(value) else value
    if isinstance(value, Mapping):
        return {key: _known(item) for key, item in cast("JsonObject", value).items()}
    if isinstance(value, (list, tuple)):
        return [_known(item) for item in cast("Sequence[object]", value)]
    return value


def _output_entries(workflow: Workflow) -> Iterator[tuple[str, OutputProperty]]:
    waiting = [] if workflow.output is None else [("output.properties", workflow.output.properties)]
    while waiting:
        path, properties = waiting.pop()
        for name, entry in properties.items():
            yield f"{path}.{name}", entry
            waiting.append((f"{path}.{name}.properties", entry.properties))


def _promised_type(text: str, workflow: Workflow, tools: Mapping[str, KnownTool]) -> str | None:
    """The type that output schemas give for the one field that a template is; None where they do not say."""
    field = _ONE_FIELD.fullmatch(text.strip())
    if field is None:
        return None
    step = next((step for step in workflow.steps if step.id == field["step"]), None)
    tool = tools.get(step.tool) if isinstance(step, ToolStep) else None
    place: object = tool.output_schema if tool is not None else None
    for name in field["fields"].split(".")[1:]:
        properties = cast("Mapping[str, object]", place).get("properties") if isinstance(place, dict) else None
        place = cast("JsonObject", properties).get(name) if isinstance(properties, dict) else None
    kind = cast("JsonObject", place).get("type") if isinstance(place, dict) else None
    if field["json"] and kind not in ("object", "array"):
        return None
    return kind if isinstance(kind, str) else None


def _may_be(promised: str, asked: str) -> bool:
    """Whether a value of one type, written as text, can be read as another."""
    return asked in ("string", promised) or promised == "string" or {promised, asked} <= {"integer", "number"}
