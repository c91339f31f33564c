"""Pictures, sounds, files and links from tools to the client, byte for byte, through `invoke` and through scripts."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from fastmcp import Client, FastMCP
from fastmcp.prompts import Message
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from fastmcp.tools import Tool
from fastmcp.tools.base import ToolResult
from fastmcp.utilities.tests import asgi_client
from fastmcp.utilities.types import Audio, File, Image
from key_value.aio.stores.memory import MemoryStore
from mcp_types import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from codecall import CodeCallPlugin
from codecall.gateway.config.options import GatewayOptions
from codecall.gateway.gateway import Gateway
from codecall.presets import PRESET_NAMES, load_preset
from tests.loop_turns import assert_turns_below

Mode = Literal["legacy", "auto"]

PICTURE = (Path(__file__).parents[2] / "docs" / "images" / "trace-light.png").read_bytes()
"""A real picture, large enough to be hashed in a thread."""
SOUND = b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(range(256))
FILE = b"%PDF-1.7 \x00\xff"
DATA = base64.b64encode(PICTURE).decode()


class Studio:
    """A server whose tools return and take content."""

    def __init__(self, auth: StaticTokenVerifier | None = None, **options: Any) -> None:
        self.taken: list[Any] = []
        self.server = FastMCP[Any]("studio", auth=auth)
        for method in (
            *(self.picture, self.caption, self.sound, self.file, self.link, self.note, self.beside, self.say_both),
            *(self.numbered, self.store, self.fail, self.say),
        ):
            self.server.tool(method)
        self.server.tool(self.say_both, name="read_both", annotations={"readOnlyHint": True})
        self.server.tool(self.beside, name="read_beside", annotations={"readOnlyHint": True})
        self.server.resource("studio://logo", mime_type="image/png")(lambda: PICTURE)
        self.server.resource("studio://report", mime_type="application/pdf")(lambda: FILE)
        defaults: dict[str, Any] = {"vm": {"preset": "secure"}, "pool": {"min_workers": 0}}
        CodeCallPlugin.init(**defaults | options).install(self.server)

    def picture(self) -> Image:
        """A picture."""
        return Image(data=PICTURE, format="png")

    def caption(self) -> list[Any]:
        """A text and a picture with a note for the reader."""
        block = ImageContent(type="image", data=DATA, mime_type="image/png", _meta={"acme/of": "runs"})
        return ["The runs", block]

    def sound(self) -> Audio:
        """A sound."""
        return Audio(data=SOUND, format="wav")

    def file(self) -> File:
        """A file."""
        return File(data=FILE, format="pdf", name="report")

    def link(self) -> ResourceLink:
        """A link."""
        return ResourceLink(type="resource_link", uri="data://report", name="report", size=7)

    def note(self) -> EmbeddedResource:
        """A text file."""
        contents = TextResourceContents(uri="note://1", mime_type="text/plain", text="remember")
        return EmbeddedResource(type="resource", resource=contents)

    def beside(self) -> ToolResult:
        """A picture beside a structured value."""
        picture = ImageContent(type="image", data=DATA, mime_type="image/png")
        return ToolResult(content=[picture], structured_content={"width": 4})

    def say_both(self, texts: list[str], value: dict[str, Any]) -> ToolResult:
        """Texts beside a structured value."""
        return ToolResult(content=[TextContent(type="text", text=text) for text in texts], structured_content=value)

    def numbered(self, number: int) -> Image:
        """One of many small pictures."""
        return Image(data=b"\x89PNG" + number.to_bytes(4, "big"), format="png")

    def store(
        self,
        data: str = "",
        url: str = "",
        image: ImageContent | None = None,
        images: list[ImageContent] | None = None,
        anything: Any = None,
    ) -> str:
        """Take content in any form."""
        self.taken.append({"data": data, "url": url, "image": image, "images": images, "anything": anything})
        return "stored"

    def fail(self) -> str:
        """Fail."""
        raise ValueError("no")

    def say(self, text: str) -> str:
        """Repeat."""
        return text

    async def ask(self, name: str, mode: Mode = "auto", /, **arguments: Any) -> CallToolResult:
        """The answer of a meta-tool."""
        async with Client(self.server, mode=mode) as client:
            return await client.call_tool_mcp(f"codecall_{name}", arguments)

    async def run(self, script: str, **arguments: Any) -> tuple[dict[str, Any], list[Any]]:
        """The envelope of a script, and the content blocks behind it."""
        return read(await self.ask("execute", script=script, **arguments))


def read(answer: CallToolResult) -> tuple[dict[str, Any], list[Any]]:
    """The envelope, which is also the first block, and the blocks behind it."""
    assert not answer.is_error, answer.content
    first, *blocks = answer.content
    assert isinstance(first, TextContent)
    assert answer.structured_content is not None
    assert json.loads(first.text) == answer.structured_content
    assert DATA[:100] not in first.text
    return answer.structured_content, blocks


def bytes_of(block: object) -> bytes:
    """What a block is made of."""
    if isinstance(block, ImageContent | AudioContent):
        return base64.b64decode(block.data)
    assert isinstance(block, EmbeddedResource)
    return base64.b64decode(block.resource.blob)  # type: ignore[union-attr]


@asynccontextmanager
async def in_front_of(studio: Studio, tmp_path: Path) -> AsyncGenerator[FastMCP[Any]]:
    """A gateway in front of the tools of a studio, over HTTP."""
    from tests.gateway.backends import serve_over_http

    plain = FastMCP[Any]("plain")
    plain.tool(studio.picture)
    plain.tool(studio.caption)
    plain.tool(studio.store)
    async with serve_over_http(plain) as url:
        options = {"servers": {"studio": {"url": url}}, "cache_dir": str(tmp_path), "expose": {"mode": "always"}}
        async with Gateway(GatewayOptions.read(options, where="")) as gate:
            yield gate.server


# ------------------------------------------------------------------------------------------------------- byte for byte


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize(
    ("tool", "expected"), [("picture", PICTURE), ("sound", SOUND), ("file", FILE), ("beside", PICTURE)]
)
async def test_invoke_passes_blocks_through_as_they_are(tool: str, expected: bytes, mode: Mode) -> None:
    envelope, (block,) = read(await Studio().ask("invoke", mode, tool=tool, input={}))
    assert envelope["status"] == "ok"
    assert bytes_of(block) == expected


async def test_invoke_passes_links_texts_and_notes_of_blocks(caplog: pytest.LogCaptureFixture) -> None:
    studio = Studio(audit={"include_arguments": True, "include_results": True})
    caplog.set_level(logging.DEBUG)
    envelope, (picture,) = read(await studio.ask("invoke", tool="caption", input={}))
    assert envelope["result"] == [
        {"type": "text", "text": "The runs"},
        {"type": "image", "mimeType": "image/png", "bytes": len(PICTURE)},
    ]
    assert picture == ImageContent(type="image", data=DATA, mime_type="image/png", _meta={"acme/of": "runs"})
    _, (link,) = read(await studio.ask("invoke", tool="link", input={}))
    assert link.size == 7
    _, (note,) = read(await studio.ask("invoke", tool="note", input={}))
    assert note.resource.text == "remember"
    assert [
        record for record in caplog.records if record.name.startswith("codecall") and DATA[:100] in str(vars(record))
    ] == []


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize(
    "script",
    [
        "return await callTool('picture')",
        "return { shown: { here: (await callTool('picture'))[0] } }",
        "emit(await callTool('picture'))",
        "const [picture] = await callTool('picture');\nemit(picture);\n",
        "const [block] = await callTool('picture'); emit(block); emit(block); return [block, block]",
    ],
)
async def test_a_script_returns_or_shows_a_picture(script: str, mode: Mode) -> None:
    envelope, (block,) = read(await Studio().ask("execute", mode, script=script))
    assert envelope["status"] == "ok", envelope
    assert "warnings" not in envelope
    assert block == ImageContent(type="image", data=DATA, mime_type="image/png")


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_through_the_gateway(mode: Mode, tmp_path: Path) -> None:
    studio = Studio()
    script = (
        "const [text, block] = await studio.caption(); await studio.store({ data: block }); return [text.text, block]"
    )
    async with in_front_of(studio, tmp_path) as server, Client(server, mode=mode) as client:
        _, (invoked,) = read(await client.call_tool_mcp("codecall_invoke", {"tool": "studio_picture", "input": {}}))
        envelope, (shown,) = read(await client.call_tool_mcp("codecall_execute", {"script": script}))
    assert bytes_of(invoked) == bytes_of(shown) == PICTURE
    assert shown.meta == {"acme/of": "runs"}
    assert envelope["result"][0] == "The runs"
    assert studio.taken[0]["data"] == DATA


async def test_a_script_sees_small_objects() -> None:
    script = """
    const [[picture], [sound], [file], [link], [note]] = await Promise.all(
      ['picture', 'sound', 'file', 'link', 'note'].map((name) => callTool(name)));
    emit([note, picture, sound, file, link]);
    return [picture, sound, file, link, note].map((block) => ({ ...block, ref: typeof block.ref }));
    """
    envelope, blocks = await Studio().run(script)
    assert envelope["result"] == [
        {"type": "image", "mimeType": "image/png", "bytes": len(PICTURE), "ref": "string"},
        {"type": "audio", "mimeType": "audio/wav", "bytes": len(SOUND), "ref": "string"},
        {"type": "resource", "uri": "file:///report.pdf", "mimeType": "application/pdf", "bytes": len(FILE)}
        | {"ref": "string"},
        {"type": "resource_link", "uri": "data://report", "name": "report", "ref": "string"},
        {"type": "resource", "uri": "note://1", "mimeType": "text/plain", "text": "remember", "ref": "string"},
    ]
    assert [type(block) for block in blocks] == [
        *(EmbeddedResource, ImageContent, AudioContent, EmbeddedResource, ResourceLink)
    ]
    assert [bytes_of(block) for block in blocks[1:4]] == [PICTURE, SOUND, FILE]


async def test_what_was_shown_is_in_the_answer_of_a_script_that_fails() -> None:
    for end in (
        "throw new Error('no')",
        "await callTool('fail')",
        "for (const a of [1]) for (let i = 0; i < 1e9; i++) {}",
    ):
        envelope, (block,) = await Studio().run(f"emit(await callTool('picture')); {end}")
        assert envelope["status"] != "ok"
        assert bytes_of(block) == PICTURE


async def test_a_text_with_a_picture_is_shown_with_it() -> None:
    _, blocks = await Studio().run("emit(await callTool('caption'))")
    assert [type(block) for block in blocks] == [TextContent, ImageContent]


async def test_blocks_of_a_result_that_is_kept_are_shown() -> None:
    script = "const blocks = await callTool('picture'); return [blocks, ...Array(30).fill('y'.repeat(50000))]"
    envelope, (block,) = await Studio().run(script)
    assert "largeResult" in envelope
    assert bytes_of(block) == PICTURE


async def test_blocks_beside_a_structured_value_are_not_lost_in_silence() -> None:
    envelope, blocks = await Studio().run("return await callTool('beside')")
    assert (envelope["result"], blocks) == ({"width": 4}, [])
    assert "returned 1 picture, sound or file beside structured values" in envelope["warnings"][0]


ROWS = {"rows": [1, 2.5, {"name": "é"}]}
TEXTS_BESIDE: list[tuple[list[str], dict[str, Any], list[int]]] = [
    (["3 rows; the first of 500"], ROWS, [0]),
    ([json.dumps(ROWS), "3 rows", " "], ROWS, [1]),
    ([json.dumps({"rows": [1, 2.5]})], ROWS, [0]),
    # What only repeats the value
    ([json.dumps(ROWS, indent=2)], ROWS, []),
    ([str(ROWS)], ROWS, []),
    (["[1, 2]"], {"result": [1, 2]}, []),
    (["1", '{"a":2}'], {"result": [1, {"a": 2}]}, []),
    (["True"], {"result": True}, []),
    (["as it is"], {"result": "as it is"}, []),
    (["# Notes"], {"content": "# Notes"}, []),
    (["Created a"], {"id": 1, "message": "Created a"}, []),
    ([json.dumps([{"name": "a"}], indent=2)], {"entities": [{"name": "a"}]}, []),
    (["a", "b"], {"names": ["a", "b"]}, []),
    (["# Notes", "and more"], {"content": "# Notes"}, [1]),
    ([json.dumps([1])], {"entities": [1], "count": 1}, [0]),
    ([], ROWS, []),
    ([json.dumps({"result": ["x" * 100] * 20_000}, indent=1)], {"result": ["x" * 100] * 20_000}, []),
    (["x" * 2_000_000], {"result": "x" * 1_000_000}, [0]),
]


@pytest.mark.parametrize(("texts", "value", "own"), TEXTS_BESIDE, ids=lambda value: str(value)[:30])
async def test_a_text_of_its_own_beside_a_structured_value_is_not_lost(
    texts: list[str], value: dict[str, Any], own: list[int]
) -> None:
    studio = Studio(vm={"preset": "experimental"})
    given = {"texts": texts, "value": value}
    envelope, blocks = read(await studio.ask("invoke", tool="say_both", input=given))
    assert [block.text for block in blocks] == [texts[number] for number in own]
    assert envelope["status"] == "ok"


@pytest.mark.parametrize(("text", "own"), [("[1]", 20_000), ("1", 0)])
async def test_very_many_texts_beside_a_structured_value_hold_nobody_up(text: str, own: int) -> None:
    studio = Studio(vm={"preset": "experimental"}, pool={"min_workers": 1})
    value = {"rows": [1] * (20_000 if own == 0 else 400)}
    result = ToolResult(content=[TextContent(type="text", text=text)] * 20_000, structured_content=value)
    studio.server.add_tool(Tool.from_function(lambda: result, name="say_much"))
    async with Client(studio.server) as client:

        async def run() -> None:
            script = "return (await callTool('say_much')).rows.length"
            answer = await client.call_tool_mcp("codecall_execute", {"script": script})
            envelope, _ = read(answer)
            assert (envelope["result"], "warnings" in envelope) == (len(value["rows"]), own > 0)

        await run()
        await assert_turns_below(8, run)


async def test_a_script_is_told_of_texts_that_it_did_not_get() -> None:
    call = "await callTool('say_both', { texts: ['more'], value: { n: 1 } })"
    envelope, blocks = await Studio().run(f"{call}; return {call}")
    assert (envelope["result"], blocks) == ({"n": 1}, [])
    assert envelope["warnings"] == [
        "Text that says more than the structured value beside it did not reach the script: of say_both. Do not call "
        "say_both again for it: that may do its work twice."
    ]
    reading = call.replace("say_both", "read_both")
    envelope, _ = await Studio().run(f"{reading}; {call}; return await callTool('read_beside', {{}})")
    assert envelope["warnings"] == [
        "Tools returned 1 picture, sound or file beside structured values; scripts get the value alone. Call "
        "read_beside without a script for both.",
        "Text that says more than the structured value beside it did not reach the script: of read_both, say_both. "
        "Call read_both without a script to read it. Do not call say_both again for it: that may do its work twice.",
    ]
    envelope, _ = await Studio().run("return await callTool('say_both', { texts: ['{\"n\": 1}'], value: { n: 1 } })")
    assert "warnings" not in envelope


# ----------------------------------------------------------------------------------------------------------- to a tool


@pytest.mark.parametrize(
    ("given", "field", "expected"),
    [
        ("{ data: block }", "data", DATA),
        ("{ data: block.ref }", "data", DATA),
        ("{ data: `data:image/x;base64,${block.ref}` }", "data", f"data:image/x;base64,{DATA}"),
        ("{ url: block }", "url", f"data:image/png;base64,{DATA}"),
        ("{ image: block }", "image", ImageContent(type="image", data=DATA, mime_type="image/png")),
        (
            "{ images: [block, { ...block }] }",
            "images",
            [ImageContent(type="image", data=DATA, mime_type="image/png")] * 2,
        ),
        (
            "{ anything: { deep: [block] } }",
            "anything",
            {"deep": [{"type": "image", "data": DATA, "mimeType": "image/png"}]},
        ),
    ],
)
async def test_a_tool_gets_what_its_schema_asks_for(given: str, field: str, expected: object) -> None:
    studio = Studio()
    envelope, blocks = await studio.run(
        f"const [block] = await callTool('picture'); return await callTool('store', {given})"
    )
    assert (envelope["status"], blocks) == ("ok", []), envelope
    assert studio.taken[0][field] == expected


async def test_pictures_of_prompts_are_blocks_too() -> None:
    studio = Studio()
    picture = ImageContent(type="image", data=DATA, mime_type="image/png")
    studio.server.prompt(lambda: [Message("Look"), Message(picture)], name="look")
    script = """
    const { messages } = await getPrompt("look");
    emit(messages[1].content);
    return messages.map((one) => one.content);
    """
    envelope, (block,) = await studio.run(script)
    assert block == picture
    assert envelope["result"][0] == "Look"
    assert envelope["result"][1].keys() == {"type", "mimeType", "bytes", "ref"}


async def test_by_reference_too() -> None:
    studio = Studio(vm={"preset": "secure", "reference_min_bytes": 0})
    script = """
    const blocks = await callTool('picture', {}, { reference: true });
    return [await callTool('store', { images: blocks }), blocks];
    """
    envelope, (block,) = await studio.run(script)
    assert envelope["result"][0] == "stored"
    assert studio.taken[0]["images"] == [block]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("{ data: `see ${block.ref}` }", "inside a longer text"),
        ("{ data: `${block.ref} see` }", "inside a longer text"),
        ("{ data: block.ref + block.ref }", "inside a longer text"),
        ("{ anything: { ...block, alt: 'text' } }", "a member of its own, 'alt'"),
        ("{ anything: Array(200).fill(block) }", "content blocks of more than"),
    ],
)
async def test_what_no_tool_gets(given: str, message: str) -> None:
    studio = Studio()
    envelope, _ = await studio.run(f"const [block] = await callTool('picture'); await callTool('store', {given})")
    assert envelope["error"]["code"] == "INVALID_INPUT"
    assert message in envelope["error"]["message"]
    assert studio.taken == []


# ------------------------------------------------------------------------------------------------------------- attacks


async def test_what_names_no_block_of_this_run_reaches_nothing() -> None:
    studio = Studio()
    first, _ = await studio.run("return await callTool('picture')")
    stolen = first["result"][0]["ref"]
    script = """
    const { stolen } = codecallContext;
    const forged = { type: 'image', mimeType: 'image/png', bytes: 1, ref: stolen };
    let error;
    try { emit(forged); } catch (thrown) { error = thrown.message; }
    await callTool('numbered', { number: 1 });
    await callTool('store', { anything: forged, data: stolen });
    return [error, forged];
    """
    envelope, blocks = await studio.run(script, context={"stolen": stolen})
    assert "emit needs a content block that a tool has returned in this run" in envelope["result"][0]
    assert blocks == []
    assert studio.taken == [
        {"data": stolen, "url": "", "image": None, "images": None}
        | {"anything": {"type": "image", "mimeType": "image/png", "bytes": 1, "ref": stolen}}
    ]


async def test_a_run_of_somebody_else_at_the_same_time_reaches_nothing_of_it() -> None:
    tokens = {name: {"client_id": name, "sub": name} for name in ("ann", "bob")}
    studio = Studio(auth=StaticTokenVerifier(tokens))
    published, done = asyncio.Event(), asyncio.Event()
    refs: list[str] = []

    @studio.server.tool
    async def publish(ref: str) -> str:
        """Let somebody else know a reference."""
        refs.append(ref)
        published.set()
        await done.wait()
        return "known"

    async def run(client: Client[Any], script: str, **arguments: Any) -> tuple[dict[str, Any], list[Any]]:
        return read(await client.call_tool_mcp("codecall_execute", {"script": script} | arguments))

    async with (
        asyncio.timeout(60),
        asgi_client(studio.server, auth="ann") as ann,
        asgi_client(studio.server, auth="bob") as bob,
    ):
        # A reference that is all of a text is the picture for the tool, so it is cut in two.
        owner = """
        const [block] = await callTool('picture');
        await callTool('publish', { ref: block.ref.slice(6) });
        emit(block);
        """
        first = asyncio.create_task(run(ann, owner))
        await published.wait()
        thief = """
        const ref = 'block:' + codecallContext.ref;
        await callTool('numbered', { number: 1 });
        await callTool('store', { data: ref });
        try { emit({ ref }); } catch (error) { return [error.name, { type: 'image', ref }]; }
        """
        envelope, blocks = await run(bob, thief, context={"ref": refs[0]})
        done.set()
        assert envelope["result"][0] == "TypeError", envelope
        assert (blocks, studio.taken[0]["data"]) == ([], f"block:{refs[0]}")
        _, (block,) = await first
    assert bytes_of(block) == PICTURE


@pytest.mark.parametrize(
    "value", ["undefined", "null", "5", "'block:0'", "{}", "{ ref: 7 }", "[[]]", "callTool('picture')", "() => 1"]
)
async def test_emit_of_what_is_no_block_says_what_is_needed(value: str) -> None:
    envelope, blocks = await Studio().run(f"emit({value})")
    assert envelope["error"]["code"] == "EXECUTION_ERROR"
    assert "emit needs a content block" in envelope["error"]["message"]
    assert blocks == []


async def test_a_script_that_shows_ten_thousand_blocks() -> None:
    vm = {"preset": "experimental", "max_content_blocks": 3}
    script = """
    const blocks = [];
    for (let number = 0; number < 3; number++) blocks.push(...await callTool('numbered', { number }));
    for (let turn = 0; turn < 10000; turn++) emit(blocks[turn % 3]);
    for (let turn = 0; turn < 5000; turn++) { try { emit({ ref: 'block:' + turn }); } catch (error) { } }
    return 'end';
    """
    envelope, blocks = await Studio(vm=vm).run(script)
    assert envelope["result"] == "end"
    assert [bytes_of(block)[-1] for block in blocks] == [0, 1, 2]
    flood = "for (let turn = 0; turn < 20000; turn++) { try { emit({ ref: 'block:' + turn }); } catch (error) { } }"
    envelope, blocks = await Studio(vm=vm).run(flood)
    assert (envelope["error"]["code"], blocks) == ("MESSAGE_FLOOD", [])


@pytest.mark.parametrize("preset", PRESET_NAMES)
async def test_a_run_holds_no_more_than_its_preset_allows(preset: str) -> None:
    limits = load_preset(preset)
    count = min(limits.max_content_blocks, limits.max_tool_calls - 1)
    studio = Studio(vm={"preset": preset, "max_content_blocks": count})
    script = f"""
    for (let number = 0; number < {count}; number++) emit(await callTool('numbered', {{ number }}));
    try {{ await callTool('numbered', {{ number: {count} }}); }} catch (error) {{ return [error.code, error.message]; }}
    """
    envelope, blocks = await studio.run(script)
    assert envelope["result"] == [
        "MESSAGE_TOO_LARGE",
        f"Tool 'numbered' returned more than {count} content blocks, which is the limit",
    ]
    assert len(blocks) == count


@pytest.mark.parametrize("tool", ["execute", "invoke"])
async def test_blocks_that_are_too_large_are_an_error(tool: str) -> None:
    arguments: dict[str, Any] = (
        {"tool": "picture", "input": {}} if tool == "invoke" else {"script": "await callTool('picture')"}
    )
    studio = Studio(vm={"preset": "secure", "max_content_bytes": 1_000})
    envelope, blocks = read(await studio.ask(tool, **arguments))
    assert envelope["error"]["code"] == "MESSAGE_TOO_LARGE"
    assert "with all that it carries; all together may have 1000, of which 0 are used" in envelope["error"]["message"]
    assert blocks == []


async def test_texts_of_files_count_the_memory_that_they_take() -> None:
    studio = Studio(vm={"preset": "secure", "max_content_bytes": 200_000})

    def plan(end: str) -> EmbeddedResource:
        contents = TextResourceContents(uri="note://2", mime_type="text/plain", text="x" * 60_000 + end)
        return EmbeddedResource(type="resource", resource=contents)

    studio.server.tool(plan)
    for end, referenced in (("x", True), ("😀", False)):
        envelope, _ = await studio.run(
            "return typeof (await callTool('plan', codecallContext))[0].ref", context={"end": end}
        )
        assert envelope["result"] == ("string" if referenced else "undefined")


async def test_calls_of_a_run_are_given_no_more_than_references_may_be() -> None:
    studio = Studio(vm={"preset": "secure", "reference_passed_bytes": 2 * len(DATA) + 2_000})
    script = "const [data] = await callTool('picture'); for (let i = 0; i < 3; i++) await callTool('store', { data })"
    envelope, _ = await studio.run(script)
    assert envelope["error"]["code"] == "INVALID_INPUT"
    assert len(studio.taken) == 2


# -------------------------------------------------------------------------------------------------------------- others


async def test_a_resumed_run_asks_for_pictures_again_and_repeats_no_call_that_was_given_one() -> None:
    studio = Studio(resume={"store": MemoryStore()})
    script = "const [data] = await callTool('picture'); const stored = await callTool('store', { data }); emit(data); "
    failed, _ = await studio.run(f"{script} await callTool('fail')")
    kept = {call["toolName"]: call.get("kept", True) for call in failed["calls"]}
    assert kept == {"picture": False, "store": True, "fail": True}
    envelope, (block,) = await studio.run(f"{script} return stored", resumeFrom=failed["runId"])
    assert (envelope["result"], len(studio.taken)) == ("stored", 1)
    assert bytes_of(block) == PICTURE


async def test_a_script_may_have_an_emit_of_its_own() -> None:
    envelope, _ = await Studio().run("const emit = (value) => value + 1; return emit(1)")
    assert envelope["result"] == 2


async def test_a_resource_that_is_bytes_is_a_block() -> None:
    studio = Studio()
    script = """
        const [logo, report] = [await readResource('studio://logo'), await readResource('studio://report')];
        emit(logo);
        await store({ data: logo, image: logo, url: report });
        return [Object.keys(logo), report];
    """
    envelope, (logo, report) = await studio.run(script)
    keys, seen = envelope["result"]
    assert keys == ["type", "mimeType", "bytes", "ref"]
    assert (seen["type"], seen["uri"], seen["bytes"]) == ("resource", "studio://report", len(FILE))
    assert isinstance(logo, ImageContent)
    assert (bytes_of(logo), bytes_of(report)) == (PICTURE, FILE)
    (taken,) = studio.taken
    assert (taken["data"], bytes_of(taken["image"])) == (DATA, PICTURE)
    assert taken["url"] == f"data:application/pdf;base64,{base64.b64encode(FILE).decode()}"


async def test_a_resource_beyond_the_limit_of_blocks_fails_its_call() -> None:
    studio = Studio(vm={"preset": "secure", "max_content_bytes": 100})
    script = "return (await readResource('studio://logo', { throwOnError: false })).error.code"
    envelope, _ = await studio.run(script)
    assert envelope["result"] == "MESSAGE_TOO_LARGE"
