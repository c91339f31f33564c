"""YAML 1.2 by its core schema: what is a number, what a text, and that both are written so."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from functools import partial

import pytest
import yaml

from codecall.jsonio.core_yaml import MAX_DIGITS, CoreDumper, CoreLoader, FastCoreLoader, read_quickly

LONG = "1" * (MAX_DIGITS + 1)

LOADS: list[Callable[[str], object]] = [
    partial(yaml.load, Loader=CoreLoader),
    partial(yaml.load, Loader=FastCoreLoader),
    read_quickly,
]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[true, True, FALSE]", [True, True, False]),
        ("[yes, No, on, OFF, y, n, tRUE]", ["yes", "No", "on", "OFF", "y", "n", "tRUE"]),
        ("[null, Null, ~, nULL]", [None, None, None, "nULL"]),
        ("a:\n", {"a": None}),
        ("[12, -3, +4, 0777, 0o17, 0x1F]", [12, -3, 4, 777, 15, 31]),
        ("[1_000, 1:30, 190:20:30, 0b11, -0x1F]", ["1_000", "1:30", "190:20:30", "0b11", "-0x1F"]),
        ("[1., .5, 1e3, -1.5E-3]", [1.0, 0.5, 1000.0, -0.0015]),
        ("[.inf, -.INF, .nan, 1e999, 1.2.3, ., +, =]", [".inf", "-.INF", ".nan", "1e999", "1.2.3", ".", "+", "="]),
        ("[2020-01-01, '1', \"true\"]", ["2020-01-01", "1", "true"]),
        (f"[{LONG}, 0x{LONG}, 1.{LONG}]", [LONG, f"0x{LONG}", f"1.{LONG}"]),
        ("{on: 1, 200: 2, ~: 3, 1.0: 4, '5': 5}", {"on": 1, "200": 2, "~": 3, "1.0": 4, "5": 5}),
        ("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\n", {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 3}}),
        ("a: &a 5\n*a : *a\n", {"a": 5, "5": 5}),
        ("- &a {x: 1}\n- {<<: *a, '<<': 2}\n- {<<: [*a, {y: 2}]}\n", [{"x": 1}, {"x": 1, "<<": 2}, {"x": 1, "y": 2}]),
        ("- !!str 5\n- !!int '5'\n- !!seq [a]\n- !!map {a: b}\n", ["5", 5, ["a"], {"a": "b"}]),
        ("", None),
    ],
)
def test_data_is_that_of_the_core_schema(text: str, value: object):
    for load in LOADS:
        assert repr(load(text)) == repr(value)


@pytest.mark.parametrize(
    "text",
    [
        *("!!timestamp 2020-01-01", "!!binary aGk=", "!!set {a}", "!!map [1]", "!!map a", "!!python/name:os ''"),
        *("[<<]", "{<<: 1}", "{<<: [1]}", "{[a]: 1}", "{a: !!x 1}", "*a", "&a [&a b]", "a\n---\nb", "a: b: c", "["),
    ],
)
def test_what_json_does_not_have_is_refused(text: str):
    for load in LOADS:
        with pytest.raises(yaml.YAMLError):
            load(text)


def test_a_member_may_be_a_text_as_it_is_written():
    said = "info: {version: 1.0, title: 1.0, more: {version: 1.0}}\nversion: 1.0"
    more = {"version": 1.0}
    read = read_quickly(said, as_text=("info", "version"))
    assert read == {"info": {"version": "1.0", "title": 1.0, "more": more}, "version": 1.0}
    assert read_quickly("info: {version: ~}", as_text=("info", "version")) == {"info": {"version": None}}


def test_what_holds_itself_is_refused():
    with pytest.raises(yaml.YAMLError):
        read_quickly("&a [*a]")


def test_data_is_made_without_what_is_many_times_as_much():
    text = "- 1\n" * 100_000
    tracemalloc.start()
    try:
        assert read_quickly(text) == [1] * 100_000
        assert tracemalloc.get_traced_memory()[1] < 10 * len(text)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("text", ["no", "0o17", "1e3", "1:30", "0777", "~", "", "<<", "1.", "2020-01-01", "TRUE"])
def test_a_text_is_written_as_one_for_every_version(text: str):
    written = yaml.dump({text: text}, Dumper=CoreDumper)
    assert yaml.load(written, Loader=CoreLoader) == yaml.safe_load(written) == {text: text}
