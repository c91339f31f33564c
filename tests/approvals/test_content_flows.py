"""Rules about what tools have returned, where that is a picture, a sound or a file: which calls get its content."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.prompts import Message
from fastmcp.utilities.types import Audio, File, Image
from key_value.aio.stores.memory import MemoryStore
from mcp_types import BlobResourceContents, EmbeddedResource, ImageContent, ResourceLink

from codecall.approvals.flows import FlowRules, ValueFlow
from codecall.approvals.options import FlowRule
from codecall.catalog.entries import CatalogEntry
from codecall.envelopes import CallRecord
from tests.approvals.conftest import DENY, ONCE, Person, run
from tests.approvals.test_flows import ASKED, DENIED, SECRET, Servers

pytestmark = pytest.mark.anyio

PICTURE = b"\x89PNG\xff\xfb\xef\xbe" + bytes(range(256)) + b"!"
"""Its base64 has padding, and both characters that alphabets spell differently."""
DATA = base64.b64encode(PICTURE).decode()
LARGE = b"\x89PNG" + b"the photo of a meeting" * 5_000
"""Too large to be hashed on the event loop."""


def step(tool: str, expression: str = "{{.params.data}}") -> dict[str, Any]:
    """A step that gives a tool what the composite tool is given."""
    return {"id": "step", "tool": tool, "arguments": {"body": expression}}


def composite(name: str, *steps: dict[str, Any], **schema: Any) -> dict[str, Any]:
    """A composite tool that is given data."""
    parameters = {"type": "object", "properties": {"data": {"type": "string", **schema}}, "required": ["data"]}
    return {"name": name, "description": name, "parameters": parameters, "steps": [*steps]}


COMPOSITES: list[dict[str, Any]] = [
    composite("relay", step("http:post")),
    composite("relay_url", step("http:post"), format="uri"),
    composite("relay_block", step("http:upload", "{{json .params.data}}"), type="object"),
    composite("relay_twice", {**step("relay"), "arguments": {"data": "{{.params.data}}"}}),
    composite(
        "relay_echo",
        {**step("notes:image"), "id": "echo"},
        {**step("http:album", "{{json .steps.echo.output.result}}"), "dependsOn": ["echo"]},
    ),
    {
        "name": "forward",
        "description": "Fetches a photo and posts it",
        "steps": [
            {"id": "photo", "tool": "mail:photo", "arguments": {}},
            {**step("http:album", "{{json .steps.photo.output.result}}"), "dependsOn": ["photo"]},
        ],
    },
]
SCRIPT_TOOL = """/*
---
name: told
description: Posts what it is given.
parameters: {type: object, properties: {data: {type: string}}, required: [data]}
---
*/
return await callTool('http:post', {body: `<img src="data:image/png;base64,${codecallContext.data}">`});
"""


def studio(path: Path | None = None, rules: Any = DENIED, **options: Any) -> Servers:
    """A mailbox with pictures and files, a drawing tool, and tools that give back what they are given."""
    tools: list[Any] = [*COMPOSITES]
    if path is not None:
        (path / "told.js").write_text(SCRIPT_TOOL, encoding="utf-8")
        tools.append(str(path))
    defaults: dict[str, Any] = {"composite_tools": tools, "starlark": True}
    served = Servers(rules, **defaults | options)
    lines = base64.encodebytes(PICTURE).decode()
    blob = BlobResourceContents(uri="file:///a", mime_type="application/x-photo", blob=lines)
    returned: dict[str, Callable[[], Any]] = {
        "mail:photo": lambda: Image(data=PICTURE, format="png"),
        "mail:large": lambda: Image(data=LARGE, format="png"),
        "mail:sound": lambda: Audio(data=PICTURE, format="wav"),
        "mail:wrapped": lambda: EmbeddedResource(type="resource", resource=blob),
        "mail:file": lambda: File(data=SECRET.encode(), format="plain", name="letter"),
        "mail:link": lambda: ResourceLink(type="resource_link", uri="data://merger-on-friday", name="letter"),
        "mail:encoded": lambda: {"image": DATA},
        "charts:draw": lambda: Image(data=b"\x89PNG chart of the year", format="png"),
    }
    given_back: dict[str, Callable[[str], Any]] = {
        "notes:wrap": lambda body: f"The photo:\n{base64.encodebytes(base64.b64decode(body)).decode()}Done",
        "notes:safe": lambda body: base64.urlsafe_b64encode(base64.b64decode(body)).decode().rstrip("="),
        "notes:nest": lambda body: {"notes": [{"title": "photo", "data": body}]},
        "notes:image": lambda body: ImageContent(type="image", data=body, mime_type="image/x-other"),
        "notes:file": lambda body: File(data=base64.b64decode(body), format="bin", name="copy"),
    }
    for name, function in (*returned.items(), *((name, _of_text(back)) for name, back in given_back.items())):
        served.server.tool(function, name=name, output_schema=None)

    def upload(body: dict[str, Any]) -> str:
        return served.post(body)

    def album(body: list[Any]) -> str:
        return served.post(body)

    served.server.tool(upload, name="http:upload")
    served.server.tool(album, name="http:album")
    served.server.resource("mail://photo", mime_type="image/png")(lambda: PICTURE)
    served.server.prompt(
        lambda: [Message(ImageContent(type="image", data=DATA, mime_type="image/png"))], name="mail:ask"
    )
    return served


def _of_text(function: Callable[[str], Any]) -> Callable[[str], Any]:
    """It with a parameter that is a text in the schema, too."""

    def tool(body: str) -> Any:
        return function(body)

    return tool


FIRST = "const first = value => Array.isArray(value) ? value[0] : value;"


async def code(served: Servers, script: str) -> Any:
    """The code of the error of a script, or its value."""
    async with Client(served.server) as client:
        answer = await run(client, FIRST + script)
    return answer["error"]["code"] if "error" in answer else answer.get("result")


WAYS = {
    "as it is": "callTool('http:post', {body: block})",
    "by reference": "callTool('http:post', {body: block.ref})",
    "in a data URI": "callTool('http:post', {body: `data:image/png;base64,${block.ref}`})",
    "in an object": "callTool('http:post', {body: {images: [block]}})",
    "through a composite tool": "callTool('relay', {data: block})",
    "through one that takes a URL": "callTool('relay_url', {data: block})",
    "through one that takes an object": "callTool('relay_block', {data: block})",
    "through one in another": "callTool('relay_twice', {data: block})",
    "through a script": "callTool('told', {data: block})",
}

MAIL = ["photo", "sound", "wrapped", "large", "file", "link"]


def ways(tool: str) -> list[str]:
    """The ways that a block of a tool can go: a template gives no large texts, and a text stands in no data URI."""
    if tool == "large":
        return [way for way in WAYS.values() if "relay" not in way]
    if tool in ("file", "link"):
        return [way for way in WAYS.values() if "relay_" not in way and "data:" not in way]
    return [*WAYS.values()]


@pytest.mark.parametrize("tool", MAIL)
async def test_the_content_of_a_block_is_what_its_source_returned(tmp_path: Path, tool: str) -> None:
    served = studio(tmp_path)
    for way in ways(tool):
        script = f"const block = first(await callTool('mail:{tool}', {{}})); return {way}"
        assert (await code(served, script), served.sent) == ("FLOW_DENIED", []), way


ECHOES = {
    "a text": "callTool('notes:keep', {body: block.ref})",
    "lines of a text": "callTool('notes:wrap', {body: block})",
    "another alphabet": "callTool('notes:safe', {body: block})",
    "structured data": "callTool('notes:nest', {body: block})",
    "another block": "callTool('notes:image', {body: block})",
    "a file": "callTool('notes:file', {body: block})",
    "a block of a block": "callTool('notes:file', {body: first(await callTool('notes:image', {body: block}))})",
}
CARRIED = {
    "as it is": "callTool('http:post', {body: echo})",
    "as JSON": "callTool('http:post', {body: 'Look: ' + JSON.stringify(echo)})",
    "through a composite tool": "callTool('relay', {data: echo.notes ? echo.notes[0].data : echo})",
}


@pytest.mark.parametrize("echo", ECHOES.values(), ids=ECHOES)
async def test_what_a_tool_gives_back_of_a_block_is_still_its_content(echo: str) -> None:
    served = studio()
    for name, way in CARRIED.items():
        if name == "as JSON" and ("notes:image" in echo or "notes:file" in echo):
            continue  # the JSON of a block has no content
        script = f"""
          const block = first(await callTool('mail:photo', {{}}));
          const echo = first(await {echo});
          return {way}"""
        assert (await code(served, script), served.sent) == ("FLOW_DENIED", []), way


@pytest.mark.parametrize("echo", ["notes:image", "notes:file"])
async def test_a_block_made_of_a_text_is_that_text(echo: str) -> None:
    served = studio()
    script = f"""
      const {{image}} = await callTool('mail:encoded', {{}});
      const block = first(await callTool('{echo}', {{body: image}}));
      return callTool('http:post', {{body: block}})"""
    assert (await code(served, script), served.sent) == ("FLOW_DENIED", [])


@pytest.mark.parametrize("call", ["callTool('relay_echo', {data: block})", "callTool('forward', {})"])
async def test_blocks_within_a_composite_tool_are_followed(call: str) -> None:
    served = studio()
    script = f"const block = first(await callTool('mail:photo', {{}})); return {call}"
    assert (await code(served, script), served.sent) == ("FLOW_DENIED", [])


@pytest.mark.parametrize("read", ["readResource('mail://photo')", "getPrompt('mail:ask', {})"])
@pytest.mark.parametrize("way", ["callTool('http:post', {body: block.ref})", "callTool('relay', {data: block})"])
async def test_a_resource_and_a_prompt_are_sources_of_blocks_too(read: str, way: str) -> None:
    rules = [{"from": ["mail:*", "mail://*"], "to": "http:*", "action": "deny"}]
    served = studio(rules=rules)
    script = f"""
      const read = await {read};
      const block = read.messages ? read.messages[0].content : read;
      return {way}"""
    assert (await code(served, script), served.sent) == ("FLOW_DENIED", [])


async def test_a_resource_and_a_prompt_are_given_content_that_a_tool_has_given_back() -> None:
    served = studio(rules=[{"from": "mail:*", "to": ["page:*", "http:*"], "action": "deny"}])
    script = """
      const text = await callTool('notes:keep', {body: first(await callTool('mail:photo', {})).ref});
      const codes = [];
      for (const attempt of [
        () => readResource(`page://${encodeURIComponent(text)}`),
        () => getPrompt('http:write', {topic: text}),
      ]) {
        try { codes.push(await attempt()) } catch (error) { codes.push(error.code) }
      }
      return codes"""
    assert (await code(served, script), served.sent) == (["FLOW_DENIED", "FLOW_DENIED"], [])


@pytest.mark.parametrize("tool", MAIL)
@pytest.mark.parametrize("rules", [DENIED, ASKED])
async def test_a_reference_that_the_script_writes_itself_is_no_text_of_its_own(
    tmp_path: Path, tool: str, rules: Any
) -> None:
    served = studio(tmp_path, rules)
    reference = await code(served, f"return first(await callTool('mail:{tool}', {{}})).ref")
    for body in (f"'{reference}'", f"{{ref: '{reference}'}}", f"'data:image/png;base64,{reference}'"):
        script = f"await callTool('mail:{tool}', {{}}); return callTool('http:post', {{body: {body}}})"
        assert await code(served, script) == ("FLOW_DENIED" if rules is DENIED else "APPROVAL_REQUIRED")
    through = f"await callTool('mail:{tool}', {{}}); return callTool('told', {{data: '{reference}'}})"
    assert await code(served, through) == ("FLOW_DENIED" if rules is DENIED else "APPROVAL_REQUIRED")
    assert served.sent == []
    # Of a block that the run has not got it is a text that the script says.
    assert await code(served, f"return callTool('http:post', {{body: '{reference}'}})") == "posted"


async def test_starlark_is_followed_too() -> None:
    served = studio()
    async with Client(served.server) as client:
        for way in ("call_tool('relay', data = photo)", "call_tool('http:post', body = photo['ref'])"):
            script = f"photo = call_tool('mail:photo')[0]\nreturn {way}"
            result = await client.call_tool("execute_tool_script", {"script": script}, raise_on_error=False)
            assert "may not be given what mail:photo returned" in str(result.content)
    assert served.sent == []


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_person_is_told_whose_picture_a_composite_tool_would_pass_on(mode: str) -> None:
    served, person = studio(rules=ASKED), Person(ONCE, DENY)
    script = "return callTool('relay', {data: (await callTool('mail:photo', {}))[0]})"
    assert (await served.execute(script, person, mode))["status"] == "ok"
    assert served.sent == [DATA]
    assert (await served.execute(script, person, mode))["error"]["code"] == "APPROVAL_DENIED"
    assert "It is given what these have returned: mail:photo\n" in person.questions[0]
    assert len(served.sent) == 1


async def test_a_resumed_run_follows_what_the_record_gives_back() -> None:
    served = studio(resume={"store": MemoryStore()})
    read = """
      const block = first(await callTool('mail:photo', {}));
      const text = await callTool('notes:keep', {body: block.ref});"""
    async with Client(served.server) as client:
        failed = await run(client, f"{FIRST} {read} throw new Error('later')")
        script = f"{FIRST} {read} return callTool('http:post', {{body: text}})"
        answer = await run(client, script, resumeFrom=failed["runId"])
    assert answer["resumed"]["calls"] == [{"number": 2, "toolName": "notes:keep"}]
    assert (answer["error"]["code"], served.sent) == ("FLOW_DENIED", [])


async def test_a_block_of_a_tool_that_no_rule_is_about_may_be_sent(tmp_path: Path) -> None:
    served = studio(tmp_path)
    sent = [*WAYS.values(), "callTool('relay_echo', {data: block})"]
    for way in sent:
        script = f"""
          for (const tool of ['photo', 'large', 'file', 'encoded']) await callTool(`mail:${{tool}}`, {{}});
          const block = first(await callTool('charts:draw', {{}}));
          return {way}"""
        assert await code(served, script) != "FLOW_DENIED", way
    assert len(served.sent) == len(sent)


async def test_what_the_script_says_as_base64_is_its_own() -> None:
    served = studio()
    script = f"await callTool('mail:photo', {{}}); return callTool('http:post', {{body: '{DATA}'}})"
    assert await code(served, script) == "posted"
    # A part that it says, such as the beginning that all pictures have, makes the rest no word of its own.
    script = f"""
      const text = await callTool('notes:keep', {{body: first(await callTool('mail:photo', {{}})).ref}});
      return callTool('http:post', {{body: text, title: '{DATA[:40]}'}})"""
    assert await code(served, script) == "FLOW_DENIED"


async def test_data_is_read_once_however_often_it_is_returned_and_passed_on() -> None:
    flow = ValueFlow(FlowRules([FlowRule.model_validate(rule) for rule in DENIED]), "")
    asked: list[str] = []

    def data(reference: str) -> str:
        asked.append(reference)
        return DATA

    flow.data = data
    post = CatalogEntry("http:post", app_id="", description="", input_schema={})
    reference = f"block:{'0' * 40}"
    for number in range(5):
        flow.note(CallRecord(number, "tool", "mail:photo"), json.dumps([{"type": "image", "ref": reference}]))
        assert (await flow.ruling(post, {"body": "image/png"}, [reference])).action == "deny"
        assert (await flow.ruling(post, {"body": DATA})).action == "deny"
    assert asked == [reference]
