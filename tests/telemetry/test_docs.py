"""docs/reference/telemetry.md, docs/operations/alerts.md and the Prometheus example say what the code does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from codecall.telemetry import semconv as names
from tests.telemetry import tables

REPOSITORY = Path(__file__).parents[2]
TABLES = (REPOSITORY / "docs" / "reference" / "telemetry.md").read_text(encoding="utf-8")
ALERTS_PAGE = (REPOSITORY / "docs" / "operations" / "alerts.md").read_text(encoding="utf-8")


def rows_of(head: str) -> list[list[str]]:
    """The cells of the table with that first cell in its head."""
    table = re.search(rf"^\| {head} \|.*\n\|[-|]+\n((?:^\|.*\n)+)", TABLES, re.MULTILINE)
    assert table is not None, head
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table[1].splitlines()]


def test_the_table_of_spans() -> None:
    assert rows_of("span") == tables.span_rows()


def test_the_table_of_metrics() -> None:
    assert rows_of("metric") == tables.metric_rows()


def test_the_table_of_attributes() -> None:
    assert rows_of("attribute") == tables.attribute_rows()


def test_the_page_has_the_alerts_of_the_example() -> None:
    assert "\n".join(tables.alert_lines()) in ALERTS_PAGE


@pytest.mark.parametrize("rule", tables.alerts(), ids=lambda rule: rule["alert"])
def test_alerts_use_existing_metrics(rule: dict[str, Any]) -> None:
    families = {family.name: family.labels for family in tables.families().values()}
    metrics = re.findall(r"(codecall_\w+?)(?:_bucket)?(?:\{([^}]*)\})?[\[)]", rule["expr"])
    assert metrics
    grouped = {label for labels in re.findall(r"by \(([^)]*)\)", rule["expr"]) for label in labels.split(", ")} - {"le"}
    for name, labels in metrics:
        assert {*re.findall(r"(\w+)\s*(?:=~|!=|=)", labels), *grouped} <= families[name]
    assert rule["annotations"]["summary"]


def test_prometheus_reads_the_existing_rules() -> None:
    folder = REPOSITORY / "examples" / "prometheus"
    config = yaml.safe_load((folder / "prometheus.yml").read_text(encoding="utf-8"))
    assert config["rule_files"] == [tables.ALERTS.name]
    (job,) = config["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["127.0.0.1:9464"]}]


def test_names_begin_with_whose_they_are() -> None:
    ours = re.compile(r"codecall\.[a-z_.]+|execute_tool|read_resource|get_prompt|get_result|extract")
    assert [span.name for span in names.SPANS if not ours.fullmatch(span.name)] == []
    assert [metric.name for metric in names.METRICS if not ours.fullmatch(metric.name)] == []
    # The words of the conventions for GenAI, which FastMCP uses as well.
    assert {name for name in names.ATTRIBUTES if not ours.fullmatch(name)} == {
        "error.type",
        "gen_ai.operation.name",
        "gen_ai.tool.name",
        "gen_ai.prompt.name",
    }
