"""docs/production.md and the Prometheus example say what the code tells."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from codecall.telemetry import semconv as names
from tests.telemetry import production

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs" / "production.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("\n## Traces and metrics\n")[2].partition("\n## ")[0]


def rows_of(head: str) -> list[list[str]]:
    """The cells of the table with that first cell in its head."""
    table = re.search(rf"^\| {head} \|.*\n\|[-|]+\n((?:^\|.*\n)+)", SECTION, re.MULTILINE)
    assert table is not None, head
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table[1].splitlines()]


def test_the_table_of_spans() -> None:
    assert rows_of("span") == production.span_rows()


def test_the_table_of_metrics() -> None:
    assert rows_of("metric") == production.metric_rows()


def test_the_table_of_attributes() -> None:
    assert rows_of("attribute") == production.attribute_rows()


def test_the_page_has_the_alerts_of_the_example() -> None:
    assert "\n".join(production.alert_lines()) in SECTION


@pytest.mark.parametrize("rule", production.alerts(), ids=lambda rule: rule["alert"])
def test_alerts_ask_for_what_there_is(rule: dict[str, Any]) -> None:
    families = {family.name: family.labels for family in production.families().values()}
    asked = re.findall(r"(codecall_\w+?)(?:_bucket)?(?:\{([^}]*)\})?[\[)]", rule["expr"])
    assert asked
    grouped = {label for labels in re.findall(r"by \(([^)]*)\)", rule["expr"]) for label in labels.split(", ")} - {"le"}
    for name, labels in asked:
        assert {*re.findall(r"(\w+)\s*(?:=~|!=|=)", labels), *grouped} <= families[name]
    assert rule["annotations"]["summary"]


def test_prometheus_reads_the_rules_that_are_there() -> None:
    folder = REPOSITORY / "examples" / "prometheus"
    config = yaml.safe_load((folder / "prometheus.yml").read_text(encoding="utf-8"))
    assert config["rule_files"] == [production.ALERTS.name]
    (job,) = config["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["127.0.0.1:9464"]}]


def test_names_begin_with_whose_they_are() -> None:
    ours = re.compile(r"codecall\.[a-z_.]+|execute_tool|read_resource|get_prompt|get_result")
    assert [span.name for span in names.SPANS if not ours.fullmatch(span.name)] == []
    assert [metric.name for metric in names.METRICS if not ours.fullmatch(metric.name)] == []
    # The words of the conventions for GenAI, which FastMCP uses as well.
    assert {name for name in names.ATTRIBUTES if not ours.fullmatch(name)} == {
        "error.type",
        "gen_ai.operation.name",
        "gen_ai.tool.name",
        "gen_ai.prompt.name",
    }
