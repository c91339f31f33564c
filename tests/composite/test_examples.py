"""The document's examples, from the files themselves: each loads, is listed and runs with the result that it describes.

They are not part of this repository; elsewhere this test says that it cannot run.
"""

from __future__ import annotations

from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.client import CallToolResult
from fastmcp.client.elicitation import ElicitResult

from codecall import CodeCallPlugin
from codecall.composite.reading import read_definitions
from tests.composite.documents import EXAMPLES, PAPERS, Stubs

pytestmark = pytest.mark.skipif(not EXAMPLES.is_dir(), reason="../shared/composite-tools is not beside this checkout")


async def run(stubs: Stubs, name: str, arguments: dict[str, Any], **client: Any) -> CallToolResult:
    """Call the tool of an example through a server with all examples that are right."""
    CodeCallPlugin.init(composite_tools=[EXAMPLES]).install(stubs.server)
    async with Client(stubs.server, **client) as connected:
        return await connected.call_tool(name, arguments, raise_on_error=False)


def statuses(result: CallToolResult) -> dict[str, str]:
    """What became of the steps."""
    body = result.structured_content if result.is_error else (result.meta or {})["codecall"]
    assert body is not None
    return body["steps"]


def test_every_example_is_right_but_the_wrong_one():
    read = read_definitions([EXAMPLES])
    assert [workflow.name for workflow in read.workflows] == [
        *("audit_image_supply_chain", "create_github_issue", "deploy_with_approval", "investigate_incident"),
        *("multi_source_data", "scan_summary", "optional_security_check", "research_topic", "scan_repositories"),
        "security_scan_report",
    ]
    assert read.invalid == ("invalid_missing_default_results",)
    (finding,) = read.findings
    comment = (EXAMPLES / "invalid_missing_default_results.yaml").read_text(encoding="utf-8").splitlines()[0]
    assert finding.message == comment.removeprefix("# ")
    assert finding.place.path == "steps[0].defaultResults"
    assert finding.place.line == 13


def test_a_reference_needs_its_definition():
    alone = read_definitions([EXAMPLES / "refs.yaml"])
    assert "image-supply-chain-audit" in alone.findings[0].message
    both = read_definitions([EXAMPLES / "refs.yaml", EXAMPLES / "audit_image_supply_chain.yaml"])
    assert both.findings == ()


async def test_research_topic():
    stubs = Stubs()
    result = await run(stubs, "research_topic", {"query": "agents"})
    assert result.data == "The whole paper."
    assert stubs.calls == [
        ("arxiv_search_papers", {"query": "agents", "max_results": 1}),
        ("arxiv_download_paper", {"paper_id": "2401.1"}),
        ("arxiv_read_paper", {"paper_id": "2401.1"}),
    ]
    assert PAPERS not in str(result.content)


async def test_investigate_incident():
    stubs = Stubs()
    result = await run(stubs, "investigate_incident", {"incident_id": "I-9"})
    assert result.structured_content == {"id": "doc-1"}
    assert stubs.names()[3] == "docs_create_document"
    assert stubs.arguments("docs_create_document") == [{"title": "Incident I-9 Summary", "content": "Logs: [a b]"}]
    assert stubs.arguments("logging_search_logs") == [{"query": "incident_id=I-9", "timerange": "1h"}]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("approved", [True, False])
async def test_deploy_with_approval(approved: bool, mode: str):
    stubs, asked = Stubs(), list[str]()

    async def answer(message: str, *_: Any) -> ElicitResult[dict[str, bool]]:
        asked.append(message)
        return ElicitResult(action="accept", content={"approved": approved})

    result = await run(stubs, "deploy_with_approval", {"pr_number": "12"}, elicitation_handler=answer, mode=mode)
    assert asked == ["Deploy PR #12 to production?"]
    deployed = [{"ref": "abc123", "environment": "production"}]
    assert stubs.arguments("deploy_trigger_deployment") == (deployed if approved else [])
    assert statuses(result)["deploy"] == ("completed" if approved else "skipped")
    assert stubs.arguments("github_get_pull_request") == [{"pr": "12"}]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_deploy_with_approval_where_nobody_can_be_asked(mode: str):
    stubs = Stubs()
    result = await run(stubs, "deploy_with_approval", {"pr_number": "12"}, mode=mode)
    assert result.is_error
    assert result.structured_content is not None
    assert result.structured_content["code"] == "INPUT_REQUIRED"
    assert stubs.arguments("deploy_trigger_deployment") == []


async def test_security_scan_report_goes_on_without_its_issue():
    stubs = Stubs()
    stubs.failing = {"github_create_issue"}
    arguments = {"package_name": "lodash", "ecosystem": "npm", "repo": "org/app"}
    result = await run(stubs, "security_scan_report", arguments)
    assert not result.is_error
    assert statuses(result) == {"vulnerability_scan": "completed", "secret_scan": "completed", "create_issue": "failed"}


async def test_scan_repositories():
    stubs = Stubs()
    result = await run(stubs, "scan_repositories", {"org": "acme"})
    called = stubs.arguments("github_list_security_advisories")
    assert sorted(arguments["repo"] for arguments in called) == ["one", "three", "two"]
    assert result.structured_content is not None
    assert {key: result.structured_content[key] for key in ("count", "completed", "failed")} == {
        "count": 3,
        "completed": 3,
        "failed": 0,
    }
    assert result.structured_content["iterations"][1] == {
        "index": 1,
        "item": {"name": "two"},
        "status": "completed",
        "output": {"advisories": []},
    }


async def test_scan_repositories_where_calls_fail():
    stubs = Stubs()
    stubs.failing = {"github_list_security_advisories"}
    result = await run(stubs, "scan_repositories", {"org": "acme"})
    assert result.structured_content is not None
    assert result.structured_content["failed"] == 3
    assert result.structured_content["iterations"][0]["error"] == "the backend is down"


@pytest.mark.parametrize(("scan", "found"), [(True, 2), (False, 0)])
async def test_optional_security_check(scan: bool, found: int):
    stubs = Stubs()
    arguments = {"package_name": "lodash", "ecosystem": "npm", "run_vuln_scan": scan}
    result = await run(stubs, "optional_security_check", arguments)
    assert stubs.arguments("docs_create_document") == [
        {"title": "Security Report", "body": f"Found {found} vulnerabilities"}
    ]
    assert statuses(result)["vuln_scan"] == ("completed" if scan else "skipped")


async def test_multi_source_data():
    stubs = Stubs()
    stubs.failing = {"api_get_data"}
    result = await run(stubs, "multi_source_data", {})
    assert statuses(result) == {"fetch_primary": "failed", "aggregate": "completed"}
    assert stubs.arguments("processing_combine_data") == [{"primary": None}]
    well = Stubs()
    await run(well, "multi_source_data", {})
    assert well.arguments("processing_combine_data") == [{"primary": "map[rows:3]"}]


async def test_create_github_issue():
    result = await run(Stubs(), "create_github_issue", {"title": "t", "body": "b"})
    assert result.structured_content == {"issue_number": 7, "issue_url": "https://github.example/7"}


async def test_audit_image_supply_chain():
    stubs = Stubs()
    result = await run(stubs, "audit_image_supply_chain", {"image_ref": "acme/app:1.1", "repository": "acme/app"})
    assert result.structured_content == {
        "image_ref": "acme/app:1.1",
        "digest": "sha256:1",
        "architecture": "amd64",
        "layers": 12,
        "referrers": [{"type": "sbom"}],
        "recent_tags": ["1.0", "1.1"],
    }
    assert stubs.arguments("oci-registry_list_tags") == [{"repository": "acme/app", "limit": 10}]


@pytest.mark.parametrize(("runs", "processed"), [(True, (5, "done")), (False, (0, "not_run"))])
async def test_nested_output(runs: bool, processed: tuple[int, str]):
    result = await run(Stubs(), "scan_summary", {"run": runs})
    assert result.structured_content == {
        "metadata": {"owner": "ops"},
        "summary": {"issue_count": 3, "severity": "high"},
        "processed_count": processed[0],
        "status": processed[1],
    }
    warnings = (result.meta or {})["codecall"].get("warnings", [])
    assert len(warnings) == (0 if runs else 2)
