"""Templates: Go's functions and ours, what is read of them, and that none takes more than it may."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from codecall.composite.budgets import MAX_RUN_CHARS, HeldData, TemplateBudget
from codecall.composite.failures import TemplateError, WorkflowError
from codecall.composite.outputs import StepOutput
from codecall.composite.templates.references import only_field, references
from codecall.composite.templates.rendering import render, syntax_error

DATA: dict[str, Any] = {
    "params": {
        "n": 5,
        "one": 1.0,
        "half": 12.5,
        "twelve": 12,
        "huge": 2**53 + 1,
        "yes": True,
        "bad": "a %!d(int=3)",
        "text": 'a "b"',
        "none": None,
        "big": "x" * 50_000,
        "long": [0] * 50_000,
        "mark": "<no value>",
    },
    "steps": {"a": {"status": "completed", "output": StepOutput({"items": [1, {"k": "v"}], "on": True})}},
}


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("plain }} text", "plain }} text"),
        ("{{.params.n}}", "5"),
        ("{{.params.mark}}{{with .params.nope}}{{.}}{{end}}", "<no value>"),
        ("{{json .steps.a.output}}", '{"items":[1,{"k":"v"}],"on":true}'),
        ("{{json .params.nope}} {{json nil}}", "null null"),
        ("{{.steps.a.output.text}}", '{"items":[1,{"k":"v"}],"on":true}'),
        ("{{.steps.a.output}}", "map[items:[1 map[k:v]] on:true]"),
        ("{{quote .params.text}} {{quote .params.n}}", '"a \\"b\\"" "5"'),
        ('{{(index (fromJson "{\\"papers\\":[{\\"id\\":7}]}").papers 0).id}}', "7"),
        ('{{index .steps "a" "status"}} {{len .steps.a.output.items}}', "completed 2"),
        ("{{if and (eq .params.n 5) (not .params.none)}}yes{{else}}no{{end}}", "yes"),
        (
            '{{range $i, $e := .steps.a.output.items}}{{$i}}={{$e}} {{end}}{{printf "%03d" .params.n}}',
            "0=1 1=map[k:v] 005",
        ),
    ],
)
def test_what_templates_give(text: str, result: str):
    assert render(text, DATA, TemplateBudget()) == result


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ('{{printf "%.2f %d" .params.twelve .params.one}}', "12.00 1"),
        ('{{.params.twelve | printf "%8.1f|"}}', "    12.0|"),
        ('{{printf "%[1].1f %[1]d %[1]v" .params.one}}', "1.0 1 1"),
        ('{{printf "%+d %-6.1f|%06.2f" .params.one .params.half .params.n}}', "+1 12.5  |005.00"),
        ('{{printf "%d" .params.huge}}', "9007199254740993"),
        ("{{gt .params.twelve 10.0}} {{lt .params.twelve .params.half}} {{ge .params.half 12}}", "true true true"),
        ("{{le .params.huge 9007199254740992.0}}", "false"),
        ("{{eq .params.one 1}} {{ne .params.one 1}} {{eq .params.half 1 2 12.5}}", "true false true"),
        ('{{eq .params.none "x"}} {{ne .params.none "x"}} {{eq .params.none nil}}', "false true true"),
        (
            '{{printf "%s: 100%%! %v" .params.bad .steps.a.output}}',
            "a %!d(int=3): 100%! map[items:[1 map[k:v]] on:true]",
        ),
    ],
)
def test_whole_numbers_and_fractions_are_numbers(text: str, result: str):
    assert render(text, DATA, TemplateBudget()) == result


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{{printf "%d EUR" .params.half}}', "printf '%d EUR' does not fit its values, it gives %!d(float64)"),
        ('{{printf "%s" .params.n}}', "%!s(int): %d writes whole numbers"),
        ('{{printf "%s %d" .params.bad .params.bad}}', "%!d(string)"),
        ('{{printf "%d" .params.yes}}', "%!d(bool)"),
        ('{{printf "%d" .steps.a.output}}', "%!d(map[string]interface {})"),
        ('{{printf "%d %d" .params.n}}', "%!d(MISSING)"),
        ('{{printf "sum" .params.n}}', "%!(EXTRA int)"),
        ('{{printf "50%"}}', "%!(NOVERB)"),
        ('{{printf "%.2f" .params.huge}}', "%f cannot write 9007199254740993 exactly"),
        ("{{lt .params.text 1}} {{eq .params.yes 1}}", "incompatible types"),
    ],
)
def test_a_format_that_does_not_fit_is_no_text(text: str, message: str):
    with pytest.raises(TemplateError, match=re.escape(message)):
        render(text, DATA, TemplateBudget())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a {{.params.nope}} {{.params.none}}", ".params.nope and .params.none that are not there, or null"),
        ("{{.params.mark}} {{.steps.b.output.x}}", "writes .steps.b.output.x that is not there"),
        ("{{range .steps.a.output.items}}{{print nil}}{{end}}{{or .params.nope}}", "not there"),
        ("{{len .params.nope}}", "value of type nothing has no length"),
        ('{{fromJson "{"}}', "the text is not JSON"),
        ("{{fromJson .params.nope}}", "expected str, got nothing"),
        ("{{index .steps.a.output.items 9}}", "out of range"),
        ("{{.params.text.upper}}", "not allowed"),
        ('{{printf "%1000000000d" 1}}', "a width in a format may be 10,000"),
        ('{{printf "%*d" 1000000000 1}}', "a width in a format may be 10,000"),
        ("{{range 100000}}{{end}}", "iteration budget exceeded"),
        ("{{range 9000}}{{$.params.big}}{{end}}", "output character budget exceeded"),
        ('{{define "x"}}{{template "x"}}{{end}}{{template "x"}}', "budget exceeded"),
        ('{{$x := "ab"}}{{range 60}}{{$x = printf "%s%s" $x $x}}{{end}}', "may give 10,000,000 characters together"),
        ('{{$x := "<"}}{{range 60}}{{$x = js $x}}{{end}}', "may give 10,000,000 characters together"),
        ("{{range 9000}}{{if json $.params.big}}{{end}}{{end}}", "may give 10,000,000 characters together"),
        ("{{range 9000}}{{if slice $.params.big 1}}{{end}}{{end}}", "may give 10,000,000 characters together"),
        ("{{range 9000}}{{if slice $.params.long 1}}{{end}}{{end}}", "may give 10,000,000 characters together"),
        ("{{range 9000}}{{if len $.params.big}}{{end}}{{end}}", "may give 10,000,000 characters together"),
        ("{{range 9000}}{{if index $.params.big 1}}{{end}}{{end}}", "may give 10,000,000 characters together"),
    ],
)
def test_what_fails(text: str, message: str):
    with pytest.raises(TemplateError) as failed:
        render(text, DATA, TemplateBudget())
    assert message in failed.value.message
    assert failed.value.hint


def test_a_text_that_says_no_value_makes_nothing_longer_and_is_replaced_once_in_a_run():
    output = StepOutput({"mark": "<no value>", "rows": ["x" * 100] * 600})
    data = {"params": {}, "steps": {"a": {"output": output}}}
    budget = TemplateBudget()
    for _ in range(3):
        assert len(render("{{json .steps.a.output}}{{.steps.a.output.mark}}", data, budget)) > 60_000
        assert render("{{.steps.a.output.mark}}{{/* */}}", data, budget) == "<no value>"
    assert [kept[0] for kept in budget.without_marks.values()] == [output]


def test_a_template_that_gives_too_much_costs_what_it_takes():
    budget = TemplateBudget()
    with pytest.raises(TemplateError, match="output character budget exceeded"):
        render("{{.params.big}}{{.params.big}}{{.params.big}}{{/* */}}", DATA, budget)
    assert budget.left == MAX_RUN_CHARS - 1_000_000


@pytest.mark.parametrize("text", ["{{.x", "{{nope}}", "{{if}}", "{{end}}", "{{" + "(" * 5_000, "{{.a}}" * 100_000])
def test_what_is_no_template(text: str):
    assert syntax_error(text) is not None


@pytest.mark.parametrize(
    "value", ["", "a b", "<&>", "ü", "{{.x}}", 0, -7, 2**62, 2**70, True, False, 1.5, 1e21, None, [1], {"a": 1}]
)
@pytest.mark.parametrize(
    "text", ["{{.params.v}}", "a {{ .params.v }}{{.params.v}} b", "{{.params.nope}}", "{{.params.v.x}}"]
)
def test_a_template_of_fields_alone_gives_what_the_engine_gives(text: str, value: object):
    data = {"params": {"v": value}}

    def rendered(template: str) -> str:
        try:
            return render(template, data, TemplateBudget())
        except TemplateError:
            return "failed"

    assert rendered(text) == rendered(f"{text}{{{{/* for the engine */}}}}")


def test_a_budget_is_shared_by_the_templates_of_a_run():
    budget = TemplateBudget(6)
    render("{{.params.text}}", DATA, budget)
    with pytest.raises(TemplateError, match="characters together"):
        render("{{.params.text}}", DATA, budget)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("{{.steps.a.output.x}}", {("steps", "a", "output", "x")}),
        ('{{index .steps "a" "output" .params.n}}', {("steps", "a", "output"), ("params", "n")}),
        ("{{with .steps.a}}{{.status}}{{$.params.n}}{{end}}", {("steps", "a"), ("params", "n")}),
        ("{{range .steps.a.output}}{{.name}}{{else}}{{.params.n}}{{end}}", {("steps", "a", "output"), ("params", "n")}),
        ("{{(fromJson .steps.a.output.text).papers}}", {("steps", "a", "output", "text")}),
        ('{{if eq .params.n 1}}{{.steps.b.status | printf "%s"}}{{end}}', {("params", "n"), ("steps", "b", "status")}),
        ("no template", set()),
    ],
)
def test_what_a_template_reads(text: str, fields: set[tuple[str, ...]]):
    assert {reference.fields for reference in references(text)} == fields


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (" {{- .params.n -}} ", ("params", "n")),
        ("{{json .params.n}}", ("params", "n")),
        ('{{index .params "an-id"}}', ("params", "an-id")),
        ("{{.params.n}}{{.params.n}}", None),
        ("a {{.params.n}}", None),
        ("{{quote .params.n}}", None),
        ("{{if .params.n}}{{.params.n}}{{end}}", None),
        ("{{.x", None),
        ("text", None),
    ],
)
def test_a_template_that_is_nothing_but_one_field(text: str, field: tuple[str, ...] | None):
    assert only_field(text) == field


def test_a_json_text_is_read_once_and_counted_once():
    held = HeldData()
    budget, text = TemplateBudget(held=held), json.dumps([{"a": ["[{"]}] * 40_000)
    with ThreadPoolExecutor(4) as threads:
        values = list(threads.map(budget.decode, [text, f"{text[:-1]}]"] * 4))
    assert values[0] == json.loads(text)
    assert all(value is values[0] for value in values)
    assert held.chars == len(text)


def test_a_json_text_that_is_too_much_leaves_the_rest_of_the_run_as_it_was():
    held = HeldData(max_value_bytes=1_000)
    budget = TemplateBudget(held=held)
    for text in ("x" * 10_000, "\u20ac" * 5_000, f"[{'[],' * 60_000}0]", f"[{'1,' * 300}1]"):
        with pytest.raises(WorkflowError, match="a run may hold"):
            budget.decode(text)
    assert budget.decode("[1]") == [1]
    assert budget.decode(json.dumps([",,," * 90])) == [",,," * 90]
    assert held.chars == 3 + 274


def test_the_runs_of_a_caller_hold_as_much_as_one_and_leave_others_room():
    text = json.dumps(["x" * 8_000_000])
    with HeldData.of_run(16 * 1024 * 1024, "ada") as first, HeldData.of_run(16 * 1024 * 1024, "ada") as second:
        for held in [first, second] * 8:
            held.add_in_thread(text)
        for held in (first, second):
            with pytest.raises(WorkflowError, match="workflows that run now hold so much"):
                held.add_in_thread(text)
        with HeldData.of_run(16 * 1024 * 1024, "bob") as other:
            for _ in range(8):
                other.add_in_thread(text)
    with HeldData.of_run(16 * 1024 * 1024, "ada") as held:
        for _ in range(16):
            held.add_in_thread(text)
