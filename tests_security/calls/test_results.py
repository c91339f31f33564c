"""Kept results belong to one caller: nobody else finds them by their handle, by guessing, or by spelling a URI."""

from __future__ import annotations

import json
import logging
from typing import Any, Literal

import pytest
from fastmcp import Client, FastMCP
from fastmcp.exceptions import NotFoundError, ResourceError
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from fastmcp.utilities.tests import asgi_client
from mcp import MCPError
from pydantic import AnyUrl

SMALL = {"preset": "secure", "max_result_bytes": 2_000}
KEEP = "return Array.from({length: 2000}, (_, i) => `canary ${i}`)"

Mode = Literal["auto", "legacy"]


def spellings(handle: str) -> list[str]:
    """Handles that are not this one, though they may look like it, or lead to it somewhere."""
    digits = handle.removeprefix("res_")
    return [
        f"res_{(int(digits, 16) + 1) % 16**40:040x}",
        f"res_{digits[:-1]}",
        f"res_{digits}0",
        f"res_{digits.upper()}G",
        handle.upper(),
        digits,
        f"./{handle}",
        f"../results/{handle}",
        f"x/../{handle}",
        f"{handle}/../{handle}",
        f"{handle}.1",
        f"{handle}\x00",
        f"{handle}%00",
        f"%72es_{digits}",
        f"{handle}#x",
        f"{handle}?page=1",
        f"{handle}{{page}}",
        "{handle}",
        "{handle*}",
        "*",
        "codecall_results",
        "__proto__",
        "r\u0435s_" + digits,  # Cyrillic
        "res_" + "٣" * 40,
        "a" * 1_024,
    ]


async def keep(client: Client[Any]) -> dict[str, Any]:
    answer = await client.call_tool("codecall:execute", {"script": KEEP})
    assert answer.structured_content is not None
    return answer.structured_content["largeResult"]


async def codes(client: Client[Any], handles: list[str]) -> set[str]:
    """How `getResult` ends for each."""
    script = """
        const { handles } = codecallContext;
        const ended = await Promise.all(handles.map((handle) => getResult(handle, {}, { throwOnError: false })));
        return [...new Set(ended.map((one) => one.success ? 'got it' : one.error.code))];
    """
    answer = await client.call_tool("codecall:execute", {"script": script, "context": {"handles": handles}})
    assert answer.structured_content is not None
    assert answer.structured_content["status"] == "ok", answer.structured_content
    return set(answer.structured_content["result"])


async def message(client: Client[Any], uri: str) -> str:
    """What somebody is told who may not read it, without the URI."""
    with pytest.raises(MCPError) as caught:
        await client.read_resource(uri)
    assert "canary" not in str(caught.value)
    return str(caught.value).partition(":")[0]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_no_spelling_leads_to_it(install: Any, mode: Mode) -> None:
    server = install(FastMCP("shop"), vm=SMALL)
    async with Client(server, mode=mode) as client:
        told = await keep(client)
        handle, uri = told["handle"], told["uri"]
        assert await codes(client, [handle, uri]) == {"got it"}
        wrong = spellings(handle)
        assert await codes(client, [text for text in wrong if "\x00" not in text]) == {"RESULT_NOT_FOUND"}
        ends = ("", "/", "/pages/1", f"{handle}/pages", f"{handle}/pages/1/2", f"{handle}/../../etc/passwd")
        for text in (*wrong, *(f"{text}/pages/1" for text in wrong), *ends):
            spelled = f"codecall://results/{text}"
            # What a client makes of it on the way is its own affair.
            if not str(AnyUrl(spelled)).startswith((f"{uri}?", f"{uri}#", f"{uri}/pages/1")) and AnyUrl(
                spelled
            ) != AnyUrl(uri):
                assert await message(client, spelled) in {"Resource not found", "Unknown resource"}, text
            with pytest.raises((NotFoundError, ResourceError), match="Unknown resource"):
                await server.read_resource(spelled)


async def test_strangers_are_told_the_same_of_what_there_is_and_is_not(install: Any) -> None:
    tokens = {name: {"client_id": name, "sub": name, "scopes": []} for name in ("north", "south")}
    # The same subject at another issuer, and a client id that is somebody's subject, are somebody else.
    tokens |= {
        "issuer": {"client_id": "north", "sub": "north", "iss": "https://other", "scopes": []},
        "client": {"client_id": "north", "scopes": []},
    }
    server = install(FastMCP("shop", auth=StaticTokenVerifier(tokens=tokens)), vm=SMALL)
    async with asgi_client(server, auth="north") as owner:
        told = await keep(owner)
        assert await codes(owner, [told["handle"]]) == {"got it"}
        for name in ("south", "issuer", "client"):
            async with asgi_client(server, auth=name) as stranger:
                nothing = f"res_{'0' * 40}"
                assert await codes(stranger, [told["handle"], nothing]) == {"RESULT_NOT_FOUND"}
                said: set[str] = set()
                for handle in (told["handle"], nothing):
                    for end in ("", "/pages/1", "/pages/999", "/pages/x"):
                        said.add(await message(stranger, f"codecall://results/{handle}{end}"))
                assert said == {"Resource not found"}
                # They are told nothing about its owner's room either.
                own = await keep(stranger)
                assert own["handle"] != told["handle"]


async def test_a_handle_of_another_connection(install: Any) -> None:
    """In memory, each connection of the handshake era is a caller; those of 2026-07-28 are one."""
    server = install(FastMCP("shop"), vm=SMALL)
    async with Client(server, mode="legacy") as one, Client(server, mode="legacy") as other, Client(server) as modern:
        handles = {client: (await keep(client))["handle"] for client in (one, other, modern)}
        for client, own in handles.items():
            assert await codes(client, [own]) == {"got it"}
            assert await codes(client, [handle for handle in handles.values() if handle != own]) == {"RESULT_NOT_FOUND"}


async def test_huge_handles(install: Any) -> None:
    async with Client(install(FastMCP("shop"), vm=SMALL)) as client:
        huge = "a" * 10**7
        assert await message(client, f"codecall://results/{huge}") == "Resource not found"
        assert await message(client, f"codecall://results/res_1/pages/{huge}") == "Resource not found"
        script = "let text = 'res_'; for (let i = 0; i < 20; i++) text += text; return await getResult(text)"
        answer = await client.call_tool("codecall:execute", {"script": script})
        assert answer.structured_content is not None
        assert answer.structured_content["error"]["message"] == "getResult needs a handle of at most 1024 characters"
        handle = (await keep(client))["handle"]
        assert "has no page '999" in await message(client, f"codecall://results/{handle}/pages/{'9' * 10**6}")


async def test_what_a_script_gives_it_instead_of_a_handle(install: Any) -> None:
    odd = "null, undefined, 5, {}, [], ['res_1'], () => 1, Symbol(), new Date(0), {toString() { return 'res_1' }}"
    script = f"""
        const ended = await Promise.allSettled([{odd}, Promise.resolve('res_1')].map((one) => getResult(one)));
        const parts = [5, 'page', [1], () => 1, {{ page: Promise.resolve(1) }}, {{ page: {{}} }}];
        const wrong = await Promise.allSettled(parts.map((part) => getResult(codecallContext.handle, part)));
        return [...ended, ...wrong].map((one) => one.reason?.message ?? one.value.length);
    """
    async with Client(install(FastMCP("shop"), vm=SMALL)) as client:
        context = {"handle": (await keep(client))["handle"]}
        answer = await client.call_tool("codecall:execute", {"script": script, "context": context})
    assert answer.structured_content is not None
    said = answer.structured_content["result"]
    assert len(said) == 17
    assert all(isinstance(one, str) for one in said), said


async def test_the_log_tells_no_result(install: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "codecall")
    async with Client(install(FastMCP("shop"), vm=SMALL)) as client:
        told = await keep(client)
        assert await codes(client, [told["handle"], "res_1"]) == {"got it", "RESULT_NOT_FOUND"}
        assert json.loads((await client.read_resource(told["uri"]))[0].text)[0] == "canary 0"
    said = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("codecall"))
    assert "canary" not in said
