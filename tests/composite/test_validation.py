"""What is wrong with a definition is found at once, when it is loaded, with file, line and path."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from codecall.composite.reading import read_definitions
from codecall.errors import OptionsError
from codecall.option_base import go_duration, parse_duration


def step(step_id: str = "a", **fields: Any) -> dict[str, Any]:
    """A step that is right."""
    return {"id": step_id, "tool": "fetch", **fields}


def workflow(*steps: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A definition that is right."""
    return {"name": "flow", "description": "A flow", "steps": list(steps) or [step()], **fields}


def found(definition: object) -> list[str]:
    """The findings of one definition."""
    return [str(finding) for finding in read_definitions([definition]).findings]  # type: ignore[list-item]


DAY = date(2026, 1, 1)
FOR_EACH = {"id": "each", "type": "forEach", "collection": "[1]", "step": {"tool": "fetch"}}
ASK = {"id": "ask", "type": "elicitation", "message": "Go?", "schema": {"properties": {"ok": {"type": "boolean"}}}}

WRONG: dict[str, tuple[object, str]] = {
    "a number": ([1], "a definition is a mapping"),
    "no name": ({"description": "d", "steps": [step()]}, "name: missing: a text is needed"),
    "name": (workflow(name="a b"), "name: 'a b' is no name of a tool"),
    "no description": ({"name": "n", "steps": [step()]}, "description: missing"),
    "unknown key": (workflow(descripton="x"), "descripton: unknown key; known here: name, description,"),
    "near key": (workflow(step(dependson=["x"])), "did you mean dependsOn?"),
    "no steps": ({"name": "n", "description": "d"}, "steps: missing: a list is needed"),
    "empty": (workflow() | {"steps": []}, "steps: is empty"),
    "many steps": (workflow(*(step(f"s{n}") for n in range(101))), "steps: 101 steps; a workflow may have 100"),
    "kind": (workflow(step(type="loop")), "steps[0].type: 'loop' is none of tool, elicitation, forEach"),
    "no tool": (workflow({"id": "a"}), "steps[0].tool: missing"),
    "twice": (workflow(step(), step()), "steps[1].id: the id 'a' is that of steps[0], too"),
    "id": (workflow(step("a b")), "steps[0].id: 'a b' is no id"),
    "dependsOn": (workflow(step("fetch"), step("b", dependsOn=["fetc"])), "no step 'fetc'; did you mean fetch?"),
    "self": (workflow(step(dependsOn=["a"])), "the steps wait for each other: a → a"),
    "cycle": (
        workflow(step("a", dependsOn=["c"]), step("b", dependsOn=["a"]), step("c", dependsOn=["b"])),
        "steps[0].dependsOn: the steps wait for each other: a → c → b → a",
    ),
    "syntax": (workflow(step(arguments={"q": "{{.params.x"})), "steps[0].arguments.q: the template is wrong"),
    "function": (workflow(step(arguments={"q": "{{nope 1}}"})), "function 'nope' not defined"),
    "no dot": (
        workflow(step(arguments={"q": "{{ params.ward }}"}), parameters={"properties": {"ward": {}}}),
        "unexpected '.ward'; a field begins with a dot: write `.params.ward`",
    ),
    "no dot, further on": (
        workflow(step(arguments={"q": '{{.workflow.id}}: {{eq "steps.x" steps.a.output.x}}'})),
        "a field begins with a dot: write `.steps.a.output.x`",
    ),
    "no dot in a step": (
        workflow({**FOR_EACH, "step": {"tool": "t", "arguments": {"q": "${{ forEach.item }}"}}}),
        "a field begins with a dot: write `.forEach.item`",
    ),
    "parameter alone": (
        workflow(step(arguments={"q": "{{ ward }}"}), parameters={"properties": {"ward": {}}}),
        "function 'ward' not defined; a field begins with a dot: write `.params.ward`",
    ),
    "template of JavaScript": (
        workflow(step(arguments={"q": "of ${params.ward}"}), parameters={"properties": {"ward": {}}}),
        "steps[0].arguments.q: `${params.ward}` is sent as it stands: write `{{.params.ward}}`, or, if that is meant,",
    ),
    "template of JavaScript beside one": (
        workflow(step(arguments={"q": "{{.params.ward}} ${ params.ward }"}), parameters={"properties": {"ward": {}}}),
        "is sent as it stands: write `{{.params.ward}}`",
    ),
    "parameter": (
        workflow(step(arguments={"q": "{{.params.pr}}"}), parameters={"properties": {"pr_number": {}}}),
        "{{.params.pr}}: there is no such parameter",
    ),
    "no ancestor": (
        workflow(step("a"), step("b", arguments={"q": "{{.steps.a.output.x}}"})),
        "steps[1].arguments.q: step 'a' is not among the steps that step 'b' depends on",
    ),
    "nested template": (
        workflow(step("a"), step("b", arguments={"list": [{"q": '{{index .steps "a" "output"}}'}]})),
        "steps[1].arguments.list[0].q: step 'a' is not among",
    ),
    "root": (workflow(step(arguments={"q": "{{.param.x}}"})), "{{.param}}: known are .params, .steps"),
    "step field": (
        workflow(step("a"), step("b", arguments={"q": "{{.steps.a.result}}"}, dependsOn=["a"])),
        "a step has output, status, error",
    ),
    "forEach outside": (workflow(step(arguments={"q": "{{.forEach.item}}"})), "in the inner step of a forEach step"),
    "forEach variable": (
        workflow({**FOR_EACH, "itemVar": "repo", "step": {"tool": "t", "arguments": {"q": "{{.forEach.item}}"}}}),
        "{{.forEach.item}}: known are repo and index",
    ),
    "retry in forEach": (
        workflow({**FOR_EACH, "onError": {"action": "retry"}}),
        "steps[0].onError.action: forEach does not support retry",
    ),
    "retry in the inner step": (
        workflow({**FOR_EACH, "step": {"tool": "t", "onError": {"action": "retry"}}}),
        "steps[0].step.onError: stands on the forEach step",
    ),
    "iterations": (workflow({**FOR_EACH, "maxIterations": 1001}), "1001 is not within 1 to 1,000"),
    "parallel": (workflow({**FOR_EACH, "maxParallel": 51}), "maxParallel: 51 is not within 1 to 50"),
    "retries": (workflow(step(onError={"action": "retry", "retryCount": 11})), "11 is not within 1 to 10"),
    "retry count": (workflow(step(onError={"action": "abort", "retryCount": 1})), "goes with action: retry"),
    "duration": (workflow(step(timeout="5 minutes")), "steps[0].timeout: '5 minutes' is no duration"),
    "elicitation timeout": (workflow({**ASK, "timeout": "11m"}), "steps[0].timeout: 11m is more than 10m"),
    "elicitation schema": (
        workflow({**ASK, "schema": {"properties": {"deep": {"type": "object"}}}}),
        "steps[0].schema.properties.deep.type: must be string, number",
    ),
    "parameters": (workflow(parameters={"type": "array"}), "parameters.type: must be object"),
    "parameters schema": (workflow(parameters={"properties": {"a": {"type": "text"}}}), "not a JSON Schema"),
    "date": (workflow(step(arguments={"when": DAY})), "what JSON has no form for"),
    "output value": (
        workflow(output={"properties": {"a": {"type": "object", "description": "d", "value": "1", "properties": {}}}}),
        "output.properties.a.value: value and properties exclude each other",
    ),
    "output neither": (
        workflow(output={"properties": {"a": {"type": "string", "description": "d"}}}),
        "output.properties.a.value: value or properties is needed",
    ),
    "output description": (
        workflow(output={"properties": {"a": {"type": "string", "value": "x"}}}),
        "output.properties.a.description: missing",
    ),
    "output type": (
        workflow(output={"properties": {"a": {"type": "text", "description": "d", "value": "x"}}}),
        "output.properties.a.type: 'text' is none of string,",
    ),
    "output nested": (
        workflow(output={"properties": {"a": {"type": "string", "description": "d", "properties": {}}}}),
        "output.properties.a.properties: are for objects",
    ),
    "output default": (
        workflow(output={"properties": {"a": {"type": "integer", "description": "d", "value": "1", "default": "x"}}}),
        "output.properties.a.default: a text is no integer",
    ),
    "output required": (
        workflow(output={"properties": {"a": {"type": "string", "description": "d", "value": "x"}}, "required": ["b"]}),
        "output.required: names 'b'",
    ),
    "defaults": (
        workflow(step("a", condition="true"), step("b", arguments={"q": "{{.steps.a.output.x}}"}, dependsOn=["a"])),
        "step 'a' can be skipped but is referenced by downstream steps without defaultResults defined",
    ),
    "defaults of continue": (
        workflow(step("a"), step("b", arguments={"q": "{{.steps.a.output}}"}, dependsOn=["a"]), failureMode="continue"),
        "step 'a' can be skipped but is referenced",
    ),
    "itself": (workflow(step(tool="flow")), "steps: the tool calls itself: flow → flow"),
    "kind of resource": ({"kind": "Deployment", "spec": {}}, "neither VirtualMCPServer nor"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said(name: str):
    definition, message = WRONG[name]
    findings = found(definition)
    assert any(message in finding for finding in findings), findings


def test_all_of_it_at_once():
    findings = found(workflow(step(timeout="x", tool=1), step("b", dependsOn="a"), timeout=3, extra=1))
    assert len(findings) == 5


def test_steps_are_compared_with_each_other_whatever_else_is_wrong():
    bad = workflow(
        step(timeout="x", arguments={"q": "{{.params.nope}}"}),
        step("b", arguments={"q": "{{.steps.a.output.x}}"}, dependsOn=["a", "c"]),
        step("d", arguments={"q": "{{.steps.a.output.x}}"}, dependsOn="a"),
        parameters={"type": "object", "properties": {}},
    )
    messages = found(bad)
    assert [" no duration" in messages[0], "a list is needed" in messages[1]] == [True, True]
    assert ["there is no step 'c'" in messages[2], "no such parameter" in messages[3]] == [True, True]
    assert len(messages) == 4


@pytest.mark.parametrize("wrong", [{"id": "!", "tool": "t"}, {"id": 1, "tool": "t"}, 7])
def test_a_step_without_an_id_may_be_the_one_that_others_name(wrong: Any):
    messages = found(workflow(wrong, step("b", dependsOn=["a"])))
    assert len(messages) == 1


def test_one_finding_for_each_field_without_a_default():
    findings = found(
        workflow(
            step("a", condition="true", defaultResults={"count": 0}),
            step("b", arguments={"q": "{{.steps.a.output.counts}} {{.steps.a.output.count}}"}, dependsOn=["a"]),
            step("c", arguments={"q": "{{.steps.a.output.url}} {{.steps.a.output.text}}"}, dependsOn=["b"]),
        )
    )
    assert ["'counts'" in findings[0], "did you mean count?" in findings[0], "'url'" in findings[1]] == [True] * 3
    assert len(findings) == 2


RIGHT = {
    "dynamic": workflow(
        step("a"), step("b", arguments={"q": "{{range .steps.a.output.items}}{{.name}}{{end}}"}, dependsOn=["a"])
    ),
    "through another": workflow(
        step("a"), step("b", dependsOn=["a"]), step("c", arguments={"q": "{{.steps.a.status}}"}, dependsOn=["b"])
    ),
    "a condition that is a truth value": workflow(step(condition=True)),
    "texts of other languages": workflow(
        step(arguments={"q": '${HOME} ${params.x} {{"$"}}{params.ward} $params.ward {params.ward}'}),
        parameters={"properties": {"ward": {}}},
    ),
    "free parameters": workflow(step(arguments={"q": "{{.params.x}}"}), parameters={"additionalProperties": True}),
    "elicitation": workflow({**ASK, "onDecline": "skip_remaining", "onCancel": {"action": "continue"}}),
    "one shape": {"compositeTools": [workflow()]},
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_kept(name: str):
    read = read_definitions([RIGHT[name]])
    assert read.findings == ()
    assert [each.name for each in read.workflows] == ["flow"]


def test_those_that_are_right_are_kept_beside_one_that_is_wrong():
    read = read_definitions([[workflow(), workflow(step(tool=1), name="wrong"), workflow(name="other")]])
    assert [each.name for each in read.workflows] == ["flow", "other"]
    assert read.invalid == ("wrong",)
    assert read.findings[0].tool == "wrong"


def test_a_name_is_given_once():
    assert "there are two composite tools of the name 'flow'" in found([workflow(), workflow()])[0]


def test_workflows_that_call_each_other():
    read = read_definitions([[workflow(step(tool="two"), name="one"), workflow(step(tool="one"), name="two")]])
    assert read.workflows == ()
    assert "one → two → one" in str(read.findings[0])


def test_files_of_every_format(tmp_path: Path):
    (tmp_path / "a.json").write_text(json.dumps(workflow(name="from_json")), encoding="utf-8")
    (tmp_path / "b.toml").write_text(
        '[[compositeTools]]\nname = "from_toml"\ndescription = "d"\n[[compositeTools.steps]]\nid = "a"\ntool = "t"\n',
        encoding="utf-8",
    )
    below = tmp_path / "below"
    below.mkdir()
    (below / "c.yaml").write_text(
        "name: one\ndescription: d\nsteps:\n- {id: a, tool: t}\n---\nname: two\ndescription: d\n"
        "steps:\n- id: a\n  tool: t\n  dependsOn: [b]\n",
        encoding="utf-8",
    )
    read = read_definitions([tmp_path])
    assert [each.name for each in read.workflows] == ["from_json", "from_toml", "one"]
    assert str(read.findings[0]) == f"{below / 'c.yaml'}:11: steps[0].dependsOn[0]: there is no step 'b'"


def test_a_file_that_is_not_there():
    with pytest.raises(OptionsError, match="there is no file or folder"):
        read_definitions(["nowhere.yaml"])


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{','.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(8)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, "is nested too deeply, or refers to itself too often"),
        ("a: " + "[" * 5_000 + "]" * 5_000, "nested too deeply"),
        ("name: x\nname: y\n", "a key stands twice"),
        ("x" * (10 * 1024 * 1024), "is larger than 1048576 bytes"),
        ("a: [", "not YAML"),
    ],
    ids=["aliases", "nesting", "twice", "10 MB", "broken"],
)
def test_hostile_files_are_findings(tmp_path: Path, text: str, message: str):
    (tmp_path / "bad.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "good.json").write_text(json.dumps(workflow()), encoding="utf-8")
    read = read_definitions([tmp_path])
    assert message in read.findings[0].message
    assert read.findings[0].place.file.endswith("bad.yaml")
    assert [each.name for each in read.workflows] == ["flow"]


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30.0), ("1h30m", 5400.0), ("500ms", 0.5), ("0s", None), ("5", None), ("", None)]
)
def test_durations(text: str, seconds: float | None):
    assert parse_duration(text) == seconds
    if seconds is not None:
        assert parse_duration(go_duration(seconds)) == seconds
