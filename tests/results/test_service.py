"""Results that are too large for an answer are kept, and read by later scripts and as resources."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import tracemalloc
from collections import Counter
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import jsonschema
import pytest
from fastmcp import Client, FastMCP
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from fastmcp.utilities.tests import asgi_client
from mcp import MCPError

from codecall import CodeCallPlugin, Enclave
from codecall.envelopes import EXECUTE_SCHEMA
from codecall.results import resources as results_resources
from codecall.results.store import PAGE_CHARS

SMALL = {"preset": "secure", "max_result_bytes": 2_000}
"""Limits under which short results are too large."""

ROWS = "Array.from({length: 500}, (_, i) => ({id: i, name: `Zoë ${i}`, tags: ['a', {b: [i]}]}))"
DATA = [{"id": i, "name": f"Zoë {i}", "tags": ["a", {"b": [i]}]} for i in range(500)]

Mode = Literal["auto", "legacy"]


def shop(**options: Any) -> FastMCP[Any]:
    server = FastMCP[Any]("shop")

    @server.tool
    def count(rows: list[dict[str, Any]]) -> int:
        """How many there are."""
        return len(rows)

    return CodeCallPlugin.init(**{"vm": SMALL, "pool": {"min_workers": 0, "max_workers": 2}} | options).install(server)


async def execute(client: Client[Any], script: str, **arguments: Any) -> dict[str, Any]:
    answer = await client.call_tool("codecall:execute", {"script": script, **arguments})
    envelope = answer.structured_content
    assert envelope is not None
    jsonschema.validate(envelope, EXECUTE_SCHEMA)
    return envelope


async def large(client: Client[Any], result: str = ROWS) -> dict[str, Any]:
    """What the envelope says of a result that is too large."""
    envelope = await execute(client, f"return {result}")
    assert (envelope["status"], "result" in envelope) == ("ok", False)
    return envelope["largeResult"]


async def value(client: Client[Any], script: str, **arguments: Any) -> Any:
    envelope = await execute(client, script, **arguments)
    assert envelope["status"] == "ok", envelope
    return envelope["result"]


async def error(client: Client[Any], script: str, **arguments: Any) -> dict[str, Any]:
    return (await execute(client, script, **arguments))["error"]


async def text(client: Client[Any], uri: str) -> str:
    (content,) = await client.read_resource(uri)
    assert content.uri == uri
    return content.text


async def test_the_answer_says_where_a_result_is_kept() -> None:
    async with Client(shop()) as client:
        before = datetime.now(UTC)
        stored = await large(client)
        full_text = json.dumps(DATA, ensure_ascii=False, separators=(",", ":"))
        assert stored["bytes"] == len(full_text.encode()) != len(full_text)
        assert (stored["pages"], stored["items"], "members" in stored) == (2, 500, False)
        assert stored["uri"] == f"codecall://results/{stored['handle']}"
        assert stored["preview"] == f"{full_text[:1024]}…[the first 1024 of {len(full_text)} characters]"
        fields = stored["shape"]["items"]
        assert fields["required"] == ["id", "name", "tags"]
        assert fields["properties"]["id"] == {"type": "integer"}
        expires = datetime.fromisoformat(stored["expires"])
        assert timedelta(seconds=898) < expires - before < timedelta(seconds=960)
        assert f"await getResult('{stored['handle']}', {{from: 0, count: 10}})" in stored["hint"]
        # What fits is answered as ever.
        assert await value(client, f"return {ROWS}.length") == 500


async def test_a_later_script_reads_it() -> None:
    async with Client(shop(vm=SMALL | {"max_tool_calls": 9})) as client:
        handle = (await large(client))["handle"]
        script = """
            const { handle, uri } = codecallContext;
            const rows = await getResult(handle);
            const [a, b] = await Promise.all([getResult(uri, { from: 499 }), getResult(handle, { from: 7, count: 2 })]);
            const none = [await getResult(handle, { from: 500 }), await getResult(handle, { from: 9, count: 0 })];
            const page = await getResult(handle, { page: 1 }) + await getResult(handle, { page: 2 });
            const wrapped = await getResult(handle, { from: 3, count: 1, throwOnError: false });
            const third = await getResult(handle, { page: 3 }, { throwOnError: false });
            return [rows.length, rows[42], a, b, none, JSON.parse(page)[499], wrapped, third.error.code];
        """
        context = {"handle": handle, "uri": f"codecall://shop/results/{handle}"}
        envelope = await execute(client, script, context=context)
        expected = [500, DATA[42], [DATA[499]], DATA[7:9], [[], []], DATA[499], {"success": True, "data": [DATA[3]]}]
        assert envelope["result"] == [*expected, "INVALID_INPUT"]
        assert envelope["stats"]["toolCalls"] == 9
        many = "for (let i = 0; i < 10; i++) await getResult(codecallContext.handle, { from: i, count: 1 })"
        assert (await execute(client, many, context=context))["error"]["code"] == "TOOL_CALL_LIMIT"


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ("Array.from({length: 30000}, (_, i) => i)", list(range(30_000))),
        ("'é'.repeat(1_000_000)", "é" * 1_000_000),
        ("Array.from({length: 11_000}, (_, i) => ({id: i}))", [{"id": i} for i in range(11_000)]),
        (
            "Object.fromEntries(Array.from({length: 12_000}, (_, i) => [`k${i}`, i]))",
            {f"k{i}": i for i in range(12_000)},
        ),
    ],
)
async def test_a_result_over_any_limit_of_size_is_kept_whole(result: str, expected: object) -> None:
    """Items, characters and properties over the limits of what a console line shows are all there."""
    async with Client(shop(vm={"preset": "secure"})) as client:
        stored = await large(client, result)
        pages = [await text(client, f"{stored['uri']}/pages/{page}") for page in range(1, stored["pages"] + 1)]
        assert json.loads("".join(pages)) == expected


async def test_an_answer_holds_as_much_as_the_option_says() -> None:
    """64 KiB without it, and never more than the preset says."""
    async with Client(shop(vm={"preset": "secure"})) as client:
        assert await value(client, "return 'x'.repeat(65534)") == "x" * 65_534
        assert (await large(client, "'x'.repeat(65535)"))["bytes"] == 65_537
        assert await value(client, "return Array.from({length: 12_000}, (_, i) => i)") == list(range(12_000))
    async with Client(shop(inline_result_bytes=100_000, vm={"preset": "secure", "max_result_bytes": 90_000})) as client:
        assert len(await value(client, "return 'x'.repeat(80_000)")) == 80_000
        assert (await large(client, "'x'.repeat(95_000)"))["bytes"] == 95_002


async def test_without_room_an_answer_holds_it_as_far_as_the_preset_allows() -> None:
    async with Client(shop(vm={"preset": "secure"}, results={"max_caller_bytes": 50_000})) as client:
        envelope = await execute(client, "return 'x'.repeat(100_000)")
        assert envelope["result"] == "x" * 100_000
        (warning,) = envelope["warnings"]
        assert warning.endswith(
            "is not kept: your kept results take 0 of 50000 bytes; so this answer holds all 100002 bytes of it"
        )
        assert (await error(client, "return 'x'.repeat(2_000_000)"))["code"] == "OUTPUT_LIMIT"


async def test_members_of_an_object() -> None:
    async with Client(shop()) as client:
        stored = await large(client, f"{{ 'odd \"name\"': [1, [2]], total: 500, rows: {ROWS}, deep: {{ a: [1] }} }}")
        members = stored["members"]
        assert list(members) == ['odd "name"', "total", "rows", "deep"]
        assert members["total"] == {"chars": 3}
        assert (members["rows"]["items"], members['odd "name"']["items"], "items" in stored) == (500, 2, False)
        assert f"getResult('{stored['handle']}', {{at: \"rows\", from: 0, count: 10}})" in stored["hint"]
        script = f"""
            const get = (part) => getResult('{stored["handle"]}', part);
            const odd = await get({{ at: 'odd "name"', from: 1 }});
            const rows = await get({{ at: 'rows', from: 250, count: 2 }});
            return [await get({{ at: 'total' }}), await get({{ at: 'deep' }}), odd, rows];
        """
        assert await value(client, script) == [500, {"a": [1]}, [[2]], DATA[250:252]]


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("{ page: 0 }", "`page` is 0; the least is 1"),
        ("{ page: 3 }", "there is no page 3; the last is 2"),
        ("{ page: 1, count: 1 }", "`page` is for the text of the whole result"),
        ("{ from: -1 }", "`from` is -1; the least is 0"),
        ("{ from: 1.5 }", "Expected `int"),
        ("{ count: '5' }", "Expected `int | null`, got `str` - at `$.count`"),
        ("{ offset: 5 }", "unknown field `offset` (known: at, from, count, page)"),
        ("{ from: 0 }", "it is no array whose items can be counted; it has total (3 characters), rows (500 items)"),
        ("{ at: 'users' }", "it has no member 'users' that can be read by itself; it has total"),
        ("{ at: 'rows.0.id' }", "that can be read by itself (`at` is the name of one member, no path); it has total"),
        (
            "{ at: ['rows', 'id'] }",
            "`at` takes the name of one member as text, no path: go on in what it gives",
        ),
        ("{ at: 3 }", "`at` takes the name of one member as text"),
        ("{ at: 'total', from: 0 }", "it is no array whose items can be counted"),
    ],
)
async def test_parts_that_do_not_exist(part: str, message: str) -> None:
    async with Client(shop()) as client:
        handle = (await large(client, f"{{ total: 500, rows: {ROWS} }}"))["handle"]
        failure = await error(client, f"await getResult('{handle}', {part})")
        assert failure["code"] == "INVALID_INPUT"
        assert message in failure["message"]
        assert failure["result"] == handle
        assert "getTool" not in failure["hint"]


@pytest.mark.parametrize(
    "result",
    [
        "'line \"one\"\\n'.repeat(20000)",
        "'x'.repeat(5_000_000)",
        "'é😀'.repeat(30000)",
        "{ ok: true, few: [1, 2], text: 'line\\n'.repeat(50000) }",
        "{ few: [1, 2], deep: { ...Array.from({ length: 20000 }, (_, i) => i) } }",
        "{ 'a \"b\"': Array.from({ length: 3000 }, (_, i) => ({ id: i, name: 'n'.repeat(50) })) }",
        "Array(40_000).fill('é')",
    ],
)
async def test_the_line_in_the_hint_works_as_it_stands(result: str) -> None:
    async with Client(shop()) as client:
        stored = await large(client, result)
        lines = re.findall(r"`(return .*?)`", stored["hint"])
        assert lines
        for line in lines:
            assert await value(client, line)


HINTED = [
    ("'line \"one\" \\u0001\\n'.repeat(20000)", [8192, 20_001]),
    ("'😀'.repeat(80000)", [4096, 1]),
    ("'😀\\\\'.repeat(900_000)", [15_360]),
    ("Array.from({length: 3000}, (_, id) => ({id, note: 'zoë'.repeat(9)}))", [500]),
    ("Array.from({length: 12}, (_, id) => ({id, text: 'x'.repeat(30000)}))", [1]),
    ("Array.from({length: 3}, (_, id) => ({id, text: 'x'.repeat(300000)}))", [2]),
    ("Array.from({length: 3000}, (_, id) => ({id, text: 'x'.repeat(id < 20 ? 20000 : 1)}))", [2]),
    ("Array.from({length: 4}, () => 'ab\\n'.repeat(100000))", [8192, 100_001]),
    ("Array.from({length: 3}, () => Array(40000).fill(1))", [40_000]),
    ("({total: 5, rows: Array.from({length: 3000}, (_, id) => ({id, note: 'zoë'.repeat(9)}))})", [500]),
    ("({ok: true, text: 'line\\n'.repeat(50000)})", [8192, 50_001]),
    ("({ok: true, data: {rows: Array(40000).fill(1), next: null}})", [2]),
    ("Object.fromEntries(Array.from({length: 9000}, (_, i) => [`k${i}`, i]))", [100]),
    ("Object.fromEntries(Array.from({length: 2000}, (_, i) => ['日'.repeat(400) + i, i]))", [1]),
    ("Object.fromEntries(Array.from({length: 900}, (_, i) => [`k${i}`, 'x'.repeat(i)]))", [100]),
]
"""Results, and how many items or characters each line of the hint gives."""


@pytest.mark.parametrize(("result", "promised"), HINTED)
async def test_what_a_hint_reads_fits_in_an_answer(result: str, promised: list[object]) -> None:
    """Neither a line of the hint nor a page is kept again under another handle, whatever the result holds."""
    async with Client(shop(vm={"preset": "secure"})) as client:
        stored = await large(client, result)
        given = [await value(client, line) for line in re.findall(r"`(return .*?)`", stored["hint"])]
        assert [len(one) if isinstance(one, (str, list)) else one for one in given] == promised
        for page in (1, stored["pages"]):
            uri = f"{stored['uri']}/pages/{page}"
            assert await value(client, f"return await getResult('{stored['handle']}', {{page: {page}}})") == await text(
                client, uri
            )


IN_STARLARK = [
    ("'line \\n' * 20000", [8192, 20_001]),
    ("'x' * 5000000", [15_360]),
    ("[{'id': i, 'note': 'zoë' * 9} for i in range(3000)]", [500]),
    ("[{'id': i, 'text': 'x' * 300000} for i in range(3)]", [2]),
    ("['ab\\n' * 100000 for _ in range(4)]", [8192, 100_001]),
    ("[[1] * 40000 for _ in range(3)]", [40_000]),
    ("{'total': 5, 'a b': [{'id': i, 'note': 'zoë' * 9} for i in range(3000)]}", [500]),
    ("{'ok': True, 'text': 'line\\n' * 50000}", [8192, 50_001]),
    ("{'k%d' % i: i for i in range(9000)}", [100]),
]


@pytest.mark.parametrize(("result", "promised"), IN_STARLARK)
async def test_what_a_hint_reads_in_starlark_fits_in_an_answer(result: str, promised: list[object]) -> None:
    async with Client(shop(vm={"preset": "secure"}, starlark=True)) as client:
        stored = (await execute(client, f"return {result}", language="starlark"))["largeResult"]
        assert "A later script in Starlark reads " in stored["hint"]
        lines = re.findall(r"`(return .*?)`", stored["hint"])
        given = [await value(client, line, language="starlark") for line in lines]
        assert [len(one) if isinstance(one, (str, list)) else one for one in given] == promised


async def test_parts_are_read_in_starlark() -> None:
    """A part that cannot be read is an error in the words of the language, which `try_call` gives as a value."""
    asked = {
        "at='rows', start=498": [{"id": 498}, {"id": 499}],
        "at='rows', start=7, count=1": [{"id": 7}],
        "at='rows', count=0": [],
        "at='total', start=None": 500,
        "start=-1": "`start` is -1; the least is 0",
        "start='a'": "(known: at, start, count, page)",
        "page=1, at='rows'": "`at`, `start` and `count` do not go with it",
        "page=999": "there is no page 999; the last is 1",
        "at='row'": "it has rows (500 items), total (3 characters)",
        "at=['rows']": "go on in what it gives, get_result('HANDLE', at=\"rows\")…",
        "count=1": "it is no array whose items can be counted",
    }
    async with Client(shop(starlark=True)) as client:
        script = "return {'rows': [{'id': i} for i in range(500)], 'total': 500}"
        handle = (await execute(client, script, language="starlark"))["largeResult"]["handle"]
        reads = ", ".join(f"try_call(get_result, '{handle}', {part})" for part in asked)
        answers = await value(client, f"return [{reads}]", language="starlark")
        for (part, expected), answer in zip(asked.items(), answers, strict=True):
            if not answer["ok"]:
                assert answer["error"]["code"] == "INVALID_INPUT"
                assert str(expected).replace("HANDLE", handle) in answer["error"]["message"], part
            else:
                assert answer["value"] == expected, part
        for call, message in {
            f"get_result('{handle}', first=1)": "get_result: there is no parameter first: get_result(",
            f"get_result('{handle}', 'rows')": "get_result: a part is given by names: get_result(",
            "get_result()": "get_result: the handle of an earlier answer is needed, as text",
            "get_result('')": "get_result: the handle of an earlier answer is needed, as text",
            "get_result('res_1')": "was not found",
        }.items():
            failed = await execute(client, f"return {call}", language="starlark")
            assert message in failed["error"]["message"]
        assert (failed["status"], failed["error"]["code"]) == ("tool_error", "RESULT_NOT_FOUND")
        page = await value(client, f"return get_result('{handle}', page=1)[:9]", language="starlark")
        assert page == '{"rows":['
        assert await value(client, "get_result = 3\nreturn get_result", language="starlark") == 3


async def test_a_tool_that_is_called_so_is_the_one_in_starlark() -> None:
    server = FastMCP[Any]("jobs")
    server.tool(lambda job: f"result of {job}", name="get_result")
    CodeCallPlugin.init(starlark=True).install(server)
    async with Client(server) as client:
        assert await value(client, "return get_result(job='a')", language="starlark") == "result of a"


async def test_where_nothing_is_kept_starlark_has_no_function_that_reads_it() -> None:
    async with Client(shop(starlark=True, results=False)) as client:
        failure = await error(client, "return get_result('res_1')", language="starlark")
        assert failure["hint"] == "No results are kept here: return less."


async def test_a_text_has_pages_only() -> None:
    async with Client(shop()) as client:
        stored = await large(client, "'é'.repeat(3) + 'x\"'.repeat(60000)")
        assert (stored["pages"], stored["shape"]) == (12, {"type": "string"})
        assert "items" not in stored
        script = f"""
            let text = '';
            for (let page = 1; page <= 12; page++) text += await getResult('{stored["handle"]}', {{ page }});
            return JSON.parse(text).length;
        """
        assert await value(client, script) == 120_003
        failure = await error(client, f"await getResult('{stored['handle']}', {{ at: 'x' }})")
        assert "read all of it and take parts of that (`text.slice(0, 8000)`), or its pages" in failure["message"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_it_is_a_resource_with_pages(mode: Mode) -> None:
    async with Client(shop(), mode=mode) as client:
        stored = await large(client, f"{{ rows: {ROWS}, text: Array.from({{length: 40}}, () => 'y'.repeat(5000)) }}")
        full_text = await text(client, stored["uri"])
        assert json.loads(full_text)["rows"] == DATA
        assert stored["pages"] == -(-len(full_text) // PAGE_CHARS) == 15
        pages = [await text(client, f"{stored['uri']}/pages/{number}") for number in range(1, 16)]
        assert "".join(pages) == full_text
        assert [len(page) for page in pages[:14]] == [PAGE_CHARS] * 14
        for page in ("0", "16", "01", "1.5", "x", "٣"):
            with pytest.raises(MCPError, match=r"has no page .*: pages count from 1 to 15"):
                await client.read_resource(f"{stored['uri']}/pages/{page}")
        templates = await client.list_resource_templates()
        assert [item.uri_template for item in templates] == [
            "codecall://results/{handle}",
            "codecall://results/{handle}/pages/{page}",
        ]
        assert await client.list_resources() == []


async def test_one_that_is_very_long_is_given_in_pages_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it in one message would hold up everybody."""
    monkeypatch.setattr(results_resources, "MAX_READ_CHARS", PAGE_CHARS)
    async with Client(shop()) as client:
        fits = await large(client, "'x'.repeat(15358)")
        assert len(await text(client, fits["uri"])) == PAGE_CHARS
        stored = await large(client, "'x'.repeat(15359)")
        with pytest.raises(
            MCPError, match=r"has 15361 characters, .* read its 2 pages, codecall://results/\{handle\}/pa"
        ):
            await client.read_resource(stored["uri"])
        assert len(await text(client, f"{stored['uri']}/pages/2")) == 1


async def test_no_catalog_shows_it_and_no_script_reads_it_by_its_uri() -> None:
    async with Client(shop()) as client:
        stored = await large(client)
        answer = await client.call_tool(
            "codecall:search",
            {"query": "result of a script", "minScore": 0, "filter": {"kinds": ["template", "resource"]}},
        )
        assert answer.structured_content is not None
        assert answer.structured_content["tools"] == []
        for uri in (stored["uri"], f"{stored['uri']}/pages/1", "codecall://results/{handle}"):
            refused = await execute(client, "await readResource(codecallContext.uri)", context={"uri": uri})
            assert refused["error"]["code"] == "SELF_REFERENCE_BLOCKED"
        described = await client.call_tool("codecall:describe", {"toolNames": ["codecall://results/{handle}"]})
        assert described.structured_content is not None
        assert described.structured_content["tools"] == []


async def test_without_the_option_nothing_is_kept() -> None:
    server = shop(results=False)
    async with Client(server) as client:
        failure = await error(client, f"return {ROWS}")
        assert failure["code"] == "OUTPUT_LIMIT"
        assert failure["message"].endswith("the limit is 2000 bytes")
        failure = await error(client, "await getResult('res_1')")
        assert (failure["code"], failure["hint"][:30]) == ("RESULT_NOT_FOUND", "No results are kept here: retu")
        assert (failure["result"], "toolName" in failure) == ("res_1", False)
        caught = await value(client, "return (await getResult('res_1', { throwOnError: false })).error")
        assert (caught["result"], "toolName" in caught) == ("res_1", False)
        assert await client.list_resource_templates() == []
        with pytest.raises(MCPError, match="Resource not found"):
            await client.read_resource("codecall://results/res_1")
        execute_tool = next(tool for tool in await client.list_tools() if tool.name == "codecall:execute")
        assert "getResult" not in (execute_tool.description or "")


async def test_an_enclave_without_a_server_keeps_nothing() -> None:
    async with Enclave("secure", max_result_bytes=2_000) as enclave:
        result = await enclave.execute(f"return {ROWS}")
        assert result.error is not None
        assert (result.error.code, result.large) == ("OUTPUT_LIMIT", None)
        result = await enclave.execute("await getResult('res_1')")
        assert result.error is not None
        assert result.error.code == "RESULT_NOT_FOUND"
    async with Enclave("secure", max_result_bytes=2_000, max_kept_bytes=10**6) as enclave:
        result = await enclave.execute(f"return {ROWS}")
        assert result.error is not None
        assert (result.error.code, result.value) == ("OUTPUT_LIMIT", None)


async def test_a_result_beyond_what_may_be_kept() -> None:
    async with Client(shop(results={"max_bytes": 10_000})) as client:
        failure = await error(client, f"return {ROWS}")
        assert failure["code"] == "OUTPUT_LIMIT"
        assert failure["message"].endswith("the limit is 10000 bytes")


async def test_each_caller_has_some_room() -> None:
    async with Client(shop(results={"max_caller_bytes": 50_000})) as client:
        stored = await large(client)
        failure = await error(client, f"return {ROWS}")
        assert failure["code"] == "OUTPUT_LIMIT"
        assert f"your kept results take {stored['bytes'] + 2_048} of 50000 bytes" in failure["message"]
        assert "results.max_caller_bytes" in failure["hint"]
        # Nothing was thrown out.
        assert await value(client, f"return (await getResult('{stored['handle']}')).length") == 500


async def test_what_a_dry_run_and_a_failed_run_say_of_it() -> None:
    async with Client(shop()) as client:
        checked = await value(client, f"await getResult('res_1', {{ page: 1 }}); return {ROWS}", dryRun=True)
        assert checked["valid"]
        assert checked["manifest"]["results"] == [{"handle": "res_1", "calls": [{"line": 1, "column": 7}]}]
        handle = (await large(client))["handle"]
        envelope = await execute(client, f"await getResult('{handle}', {{ from: 1, count: 1 }}); throw new Error('x')")
        (call,) = envelope["calls"]
        assert (call["result"], call["outcome"], call["input"]) == (handle, "ok", '{"from":1,"count":1}')
        failure = await error(client, "await getResult('res_1')")
        assert failure["message"] == "Result 'res_1' was not found"
        assert (failure["result"], failure["location"]["line"]) == ("res_1", 1)
        assert "run the script that made it again" in failure["hint"]


async def test_allowed_tools_are_about_others_data() -> None:
    async with Client(shop()) as client:
        handle = (await large(client))["handle"]
        script = f"return (await getResult('{handle}')).length"
        assert await value(client, script, allowedTools=[]) == 500


async def test_it_is_given_to_a_tool() -> None:
    async with Client(shop()) as client:
        handle = (await large(client))["handle"]
        script = f"""
            const rows = await getResult('{handle}', {{}}, {{ reference: true }});
            return await callTool('count', {{ rows }});
        """
        assert await value(client, script) == 500


async def test_mounted_servers() -> None:
    """With a namespace its URI has that, too; without one, each of several servers knows its own."""
    root = FastMCP[Any]("root")
    root.mount(shop(tool_name_separator="_"), namespace="crm")
    async with Client(root) as client:
        answer = await client.call_tool("crm_codecall_execute", {"script": f"return {ROWS}"})
        assert answer.structured_content is not None
        stored = answer.structured_content["largeResult"]
        listed = [item.uri_template for item in await client.list_resource_templates()]
        assert listed[0] == "codecall://crm/results/{handle}"
        uri = listed[0].replace("{handle}", stored["handle"])
        assert json.loads(await text(client, uri)) == DATA
        assert json.loads(await text(client, f"{uri}/pages/1") + await text(client, f"{uri}/pages/2")) == DATA
        script = f"return (await getResult('{uri}')).length"
        answer = await client.call_tool("crm_codecall_execute", {"script": script})
        assert answer.structured_content is not None
        assert answer.structured_content["result"] == 500

    root = FastMCP[Any]("root")
    one, other = shop(), shop()
    root.mount(one)
    root.mount(other)
    uris: list[str] = []
    for server in (one, other):
        async with Client(server) as client:
            uris.append((await large(client))["uri"])
    async with Client(root) as client:
        for uri in uris:
            assert json.loads(await text(client, uri)) == DATA
            assert json.loads(await text(client, f"{uri}/pages/1") + await text(client, f"{uri}/pages/2")) == DATA


async def test_outside_of_requests() -> None:
    server = shop()
    answer = await server.call_tool("codecall:execute", {"script": f"return {ROWS}"})
    assert answer.structured_content is not None
    uri = answer.structured_content["largeResult"]["uri"]
    assert json.loads(str((await server.read_resource(uri)).contents[0].content)) == DATA
    assert await server.get_resource_template(uri) is not None
    assert await server.get_resource_template(f"{uri}0") is None


async def test_over_http() -> None:
    tokens = {name: {"client_id": name, "sub": name, "scopes": []} for name in ("ann", "bob")}
    server = FastMCP[Any]("shop", auth=StaticTokenVerifier(tokens=tokens))
    CodeCallPlugin.init(vm=SMALL, pool={"min_workers": 0, "max_workers": 2}).install(server)
    async with asgi_client(server, auth="ann") as ann, asgi_client(server, auth="bob") as bob:
        stored = await large(ann)
        assert json.loads(await text(ann, stored["uri"])) == DATA
        script = f"return (await getResult('{stored['handle']}', {{ from: 400 }})).length"
        assert await value(ann, script) == 100
        assert (await error(bob, script))["code"] == "RESULT_NOT_FOUND"
        for uri in (stored["uri"], f"{stored['uri']}/pages/1", f"{stored['uri']}/pages/9"):
            with pytest.raises(MCPError, match="Resource not found"):
                await bob.read_resource(uri)


async def test_many_clients_at_once() -> None:
    """Clients of the handshake era, each of which is a caller of its own, keep and read at the same time."""
    server = shop(pool={"min_workers": 0, "max_workers": 2, "share_workers": True})
    handles: dict[int, str] = {}

    async def one(number: int) -> None:
        async with Client(server, mode="legacy") as client:
            stored = await large(client, f"Array.from({{length: 300}}, (_, i) => '{number} of ' + i)")
            handles[number] = stored["handle"]
            others = [handle for owner, handle in handles.items() if owner != number][-1:]
            script = f"""
                const own = await getResult('{stored["handle"]}', {{ from: 299 }});
                const other = await getResult('{others[0] if others else "res_1"}', {{}}, {{ throwOnError: false }});
                return [own, other.error.code];
            """
            assert await value(client, script) == [[f"{number} of 299"], "RESULT_NOT_FOUND"]

    # FastMCP ends a server's lifespan with the client that came first: one that stays.
    async with Client(server), asyncio.TaskGroup() as group:
        for number in range(8):
            group.create_task(one(number))
    assert len(set(handles.values())) == 8


async def test_sixty_large_results_at_once_leave_what_is_kept_and_nothing_else() -> None:
    """Nor does it take the garbage collector to get rid of those that found no room."""
    size = 1_200_000
    options = {"max_total_bytes": 12 * size}
    pool = {"min_workers": 0, "max_workers": 2, "share_workers": True}
    server = shop(vm={"preset": "secure"}, pool=pool, results=options)
    outcomes: Counter[str] = Counter()
    counted: list[int] = []

    async def one(client: Client[Any], number: int) -> None:
        envelope = await execute(client, f"return '{number % 10}'.repeat({size})")
        outcomes[envelope["error"]["code"] if "error" in envelope else "kept"] += 1
        # Whoever asks for something small in the meantime gets it.
        counted.append(await value(client, "return callTool('count', { rows: [{}] })"))

    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(Client(server, mode="legacy")) for _ in range(60)]
            before, _ = tracemalloc.get_traced_memory()
            async with asyncio.TaskGroup() as group:
                for number, client in enumerate(clients):
                    group.create_task(one(client, number))
            held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
    assert counted == [1] * 60
    assert set(outcomes) == {"kept", "OUTPUT_LIMIT"}
    assert 2 <= outcomes["kept"] <= 12
    # The other clients' requests take some: far less than one such result each.
    assert held - before < (outcomes["kept"] + 10) * size
