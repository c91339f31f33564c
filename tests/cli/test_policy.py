"""`codecall policy` and `codecall presets`: printed from the data."""

from __future__ import annotations

import pytest

from codecall.cli import exit_codes as exits
from codecall.cli.commands.policy import TABLES
from codecall.cli.commands.presets import field_descriptions
from codecall.presets import PRESET_NAMES, Preset, load_preset, presets_folder
from tests.cli.conftest import CommandLine
from tests.policy_rows import all_rows


def test_every_row_of_the_policy_is_printed(cli: CommandLine):
    assert sum(map(len, TABLES.values())) == len(all_rows())
    document = cli("policy", "--json").json
    assert (len(document["rules"]), document["preset"]) == (len(all_rows()), "secure")
    assert document["limits"] == load_preset("secure").model_dump()
    rules = {(rule["table"], rule["name"]): rule for rule in document["rules"]}
    assert rules["globals", "eval"].keys() == {"table", "name", "allowed", "kind", "reason", "instead"}
    assert rules["syntax", "while"]["decidedBy"] == "allow_loops"
    assert "now" in rules["globals", "Date"]["members"]


def test_the_preset_decides_what_is_allowed(cli: CommandLine):
    def allowed(preset: str) -> list[bool]:
        return [rule["allowed"] for rule in cli("policy", "while", "--preset", preset, "--json").json["rules"][:2]]

    assert (allowed("secure"), allowed("balanced")) == ([False, False], [True, True])
    path = cli.write("own.toml", (presets_folder() / "balanced.toml").read_text())
    assert allowed(str(path)) == [True, True]


def test_in_a_pipe_a_rule_is_a_line(cli: CommandLine):
    result = cli("policy", "eval")
    assert [row[:3] for row in result.rows] == [["allowed", "globals", "EvalError"], ["refused", "globals", "eval"]]
    assert ["limit", "allow_loops", "false"] in cli("policy").rows
    nothing = cli("policy", "nosuchthing")
    assert (nothing.code, nothing.out) == (exits.FAILED, "")
    assert "no rule is about nosuchthing" in nothing.err.lower()


def test_on_a_terminal_it_is_tables(cli: CommandLine):
    result = cli("policy", terminal=True)
    assert result.code == 0
    for text in ("globals", "It makes code of strings", "while (allow_loops)", "Limits", "max_tool_calls"):
        assert text in result.out


def test_every_field_of_a_preset_says_what_it_limits():
    text = field_descriptions()
    assert list(text) == list(Preset.model_fields)
    assert all(text.values())


def test_presets_side_by_side(cli: CommandLine):
    document = cli("presets", "--json").json
    assert tuple(document["presets"]) == PRESET_NAMES
    assert document["presets"]["balanced"] == load_preset("balanced").model_dump()
    assert "timeout_ms" in document["differ"]
    assert "reference_min_bytes" not in document["differ"]
    assert ["reference_min_bytes", *["1024"] * 4] in cli("presets").rows
    assert "reference_min_bytes" not in cli("presets", "--differing").out


def test_presets_of_ones_own(cli: CommandLine):
    path = cli.write("own.toml", (presets_folder() / "secure.toml").read_text().replace("= 3500", "= 1234"))
    document = cli("presets", "secure", str(path), "--json").json
    assert document["differ"] == ["timeout_ms"]
    result = cli("presets", "secure", "nosuch")
    assert (result.code, result.out) == (exits.USAGE, "")
    assert "unknown preset 'nosuch'" in result.err


@pytest.mark.parametrize("words", [("presets",), ("presets", "secure")])
def test_presets_on_a_terminal(cli: CommandLine, words: tuple[str, ...]):
    result = cli(*words, terminal=True)
    assert result.code == 0
    assert "timeout_ms" in result.out
    assert "3,500" in result.out
