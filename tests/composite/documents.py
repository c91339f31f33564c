"""The examples of the document that composite tools come from, and stub tools of the names that they call."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from fastmcp import Client, FastMCP
from fastmcp.client.client import CallToolResult
from fastmcp.exceptions import ToolError
from fastmcp.tools import Tool
from fastmcp.tools.base import ToolResult
from mcp_types import TextContent
from pydantic import PrivateAttr

from codecall import CodeCallPlugin
from codecall.composite.reading import read_definitions

EXAMPLES = Path(__file__).parents[3] / "shared" / "composite-tools"
"""They are not part of this repository."""


class StubTool(Tool):
    """A tool that takes whatever it gets."""

    _answer: Callable[[dict[str, Any]], object] = PrivateAttr()

    @classmethod
    def create(cls, name: str, properties: dict[str, Any], answer: Callable[[dict[str, Any]], object]) -> StubTool:
        """Create the tool of a name."""
        tool = cls(name=name, description=name, parameters={"type": "object", "properties": properties})
        tool._answer = answer
        return tool

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Answer with text, or with structured content."""
        result = self._answer(arguments)
        if isinstance(result, str):
            return ToolResult(content=[TextContent(type="text", text=result)])
        return ToolResult(structured_content=result)


PAPERS = json.dumps({"papers": [{"id": "2401.1", "title": "One"}]})

ANSWERS: dict[str, object] = {
    "arxiv_search_papers": PAPERS,
    "arxiv_download_paper": "downloaded",
    "arxiv_read_paper": "The whole paper.",
    "logging_search_logs": {"results": ["a", "b"]},
    "monitoring_get_metrics": {"series": []},
    "pagerduty_list_alerts": {"alerts": []},
    "docs_create_document": {"id": "doc-1"},
    "github_get_pull_request": {"head_sha": "abc123"},
    "deploy_trigger_deployment": {"deployment": "d-1"},
    "osv_query_vulnerability": {"vulns": [{"id": "CVE-1"}, {"id": "CVE-2"}]},
    "gitleaks_scan_repo": {"leaks": 0},
    "github_create_issue": {"number": 7, "url": "https://github.example/7"},
    "github_list_repos": {"repositories": [{"name": "one"}, {"name": "two"}, {"name": "three"}]},
    "github_list_security_advisories": {"advisories": []},
    "api_get_data": {"status": "ok", "data": {"rows": 3}},
    "processing_combine_data": {"combined": True},
    "oci-registry_get_image_info": {"digest": "sha256:1", "architecture": "amd64", "layers": 12},
    "oci-registry_list_referrers": {"referrers": [{"type": "sbom"}]},
    "oci-registry_list_tags": {"tags": ["1.0", "1.1"]},
    "logging_search": {"lines": ["one", "two"]},
    "pager_list": {"alerts": []},
    "docs_create": {"id": "doc-2"},
    "backend_fetch": {"metadata_json": '{"owner": "ops"}', "value": 1},
    "backend_scan": {"count": 3, "max_severity": "high"},
    "backend_process": {"count": 5, "status": "done"},
}


class Stubs:
    """A server with the tools of the examples, and the calls that it got."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.failing: set[str] = set()
        """Names of tools that fail."""
        self.server: FastMCP[Any] = FastMCP("stubs")
        for name in ANSWERS:
            self.add(name)

    def add(self, name: str, properties: dict[str, Any] | None = None, answer: object = None) -> None:
        """Add a tool, or replace it."""

        def call(arguments: dict[str, Any]) -> object:
            self.calls.append((name, arguments))
            if name in self.failing:
                raise ToolError("the backend is down")
            given = ANSWERS.get(name) if answer is None else answer
            return given(arguments) if callable(given) else given

        self.server.add_tool(StubTool.create(name, properties or {}, call))

    def names(self) -> list[str]:
        """The tools that were called, in order."""
        return [name for name, _ in self.calls]

    def arguments(self, name: str) -> list[dict[str, Any]]:
        """The arguments of each call of a tool."""
        return [arguments for called, arguments in self.calls if called == name]


async def run_with_samples(stubs: Stubs, file: Path) -> CallToolResult:
    """Run the one definition of a file, each text that it requires being `sample`."""
    read = read_definitions([file])
    assert read.findings == ()
    (workflow,) = read.workflows
    CodeCallPlugin.init(composite_tools=[file]).install(stubs.server)
    arguments: dict[str, Any] = dict.fromkeys(cast("list[str]", workflow.parameters.get("required", [])), "sample")
    async with Client(stubs.server) as client:
        return await client.call_tool(workflow.name, arguments, raise_on_error=False)
