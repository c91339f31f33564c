"""A script asks for resources and prompts it may not have: by every spelling of a URI, and past every list."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from fastmcp import Client, FastMCP
from fastmcp.exceptions import AuthorizationError
from fastmcp.server import create_proxy
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext

from codecall import tool_metadata

SECRET = "heron-4711-secret"

OUT = tool_metadata(enabled_in_codecall=False)


def library() -> FastMCP:
    """Templates over everything, beside resources and prompts that are not for scripts."""
    server = FastMCP("library")
    server.resource("data://open")(lambda: "open")
    server.resource("data://vault", meta=OUT)(lambda: SECRET)
    server.resource("data://off", tags={"off"})(lambda: SECRET)
    server.resource("data://closed", auth=lambda _: False)(lambda: SECRET)
    server.resource("data://{name}", name="any")(lambda name: f"any {name}")
    server.resource("tree://{path*}", name="tree")(lambda path: f"tree {path}")
    server.resource("tree://vault/key", meta=OUT)(lambda: SECRET)
    server.resource("vault://{name}", name="vault", meta=OUT)(lambda name: SECRET)
    server.resource("closed://{name}", name="closed", auth=lambda _: False)(lambda name: SECRET)
    server.resource("ui://page")(lambda: SECRET)
    server.resource("ui://{page}/view", name="pages")(lambda page: SECRET)
    server.resource("data://view", mime_type="text/html;profile=mcp-app")(lambda: SECRET)
    server.resource("system://state")(lambda: SECRET)
    server.resource("internal://{name}", name="internal")(lambda name: SECRET)
    server.prompt(name="hello")(lambda: "hello")
    server.prompt(name="vault", meta=OUT)(lambda: SECRET)
    server.prompt(name="closed", auth=lambda _: False)(lambda: SECRET)
    server.prompt(name="__secret")(lambda: SECRET)
    server.disable(tags={"off"})
    return server


PLAIN = (
    *("data://vault", "data://off", "data://closed", "data://view", "tree://vault/key", "vault://a", "closed://a"),
    *("ui://page", "ui://a/view", "system://state", "internal://a"),
)
"""What no script may read, as it is spelled where it is."""


def spellings(uri: str) -> list[str]:
    """`uri` as a script may write it to get past a comparison."""
    scheme, _, path = uri.partition("://")
    coded = "".join(f"%{ord(char):02x}" if char != "/" else char for char in path)
    return [
        uri,
        *(f"{scheme.upper()}://{path}", f" {uri}", f"{uri} ", f"\t{uri}", f"{uri}\n", f"{uri}\x00", f"\ufeff{uri}"),
        *(f"{uri}#", f"{uri}#open", f"{uri}?", f"{uri}?#", f"{uri}?x=1", f"{uri}?x=1#y", f"{uri}/", f"{uri}//"),
        *(f"{scheme}://{coded}", f"{scheme}://{coded.upper()}", f"{scheme}://{coded}#", f"{scheme}://{coded}?"),
        *(f"{scheme}://{path[0]}%{ord(path[1]):02X}{path[2:]}" if len(path) > 1 else uri, f"{scheme}:{path}"),
        *(f"{scheme}%3A//{path}", f"{scheme}:%2F%2F{path}", f"{scheme}:\\\\{path}", f"{scheme}:/{path}"),
        *(f"{scheme}://./{path}", f"{scheme}://x/../{path}", f"{scheme}://x/%2e%2e/{path}", f"{scheme}:///{path}"),
        *(f"{scheme}://user@{path}", f"{scheme}://{path}:80", f"{scheme}://{path}\\..\\open", f"{scheme}://{path};x"),
        *(f"{scheme}://{quote(quote(path, safe=''), safe='')}", f"{scheme}\u200b://{path}", f"{scheme}\uff1a//{path}"),
        *(
            f"{scheme}://{path[:-1]}\u0430",
            f"{scheme}://\u202e{path}",
            f"tree://{uri}",
            f"data://{quote(uri, safe='')}",
        ),
    ]


ALL = [spelling for uri in PLAIN for spelling in spellings(uri)]

READ_ALL = """
const out = [];
for (const uri of codecallContext.uris) {
  const seen = await readResource(uri, { throwOnError: false });
  out.push([uri, seen.success ? seen.data : seen.error.code]);
}
return out;
"""

REFUSALS = ("RESOURCE_NOT_FOUND", "ACCESS_DENIED", "TOOL_EXECUTION_ERROR", "INVALID_INPUT")


async def readings(here: Any, uris: list[str], **arguments: Any) -> list[list[Any]]:
    found: list[list[Any]] = []
    for start in range(0, len(uris), 90):
        found += await here.value(READ_ALL, context={"uris": uris[start : start + 90]}, **arguments)
    return found


async def test_no_spelling_reads_what_is_not_for_scripts(asked: Any, install: Any) -> None:
    async with Client(install(library())) as client:
        found = await readings(asked(client), ALL)
    assert len(found) == len(ALL)
    for uri, seen in found:
        assert SECRET not in json.dumps(seen), ascii(uri)
        # Through a template it is a text about the parameter, which is nobody's secret.
        assert seen in REFUSALS or str(seen).startswith(("any ", "tree ")), (ascii(uri), seen)


@pytest.mark.parametrize("between", ["mounted", "proxied"])
async def test_nor_on_a_server_behind_another(asked: Any, install: Any, between: str) -> None:
    front = FastMCP("front")
    front.mount(library() if between == "mounted" else create_proxy(library()), namespace="kid")
    behind = [uri.replace("://", "://kid/", 1) for uri in ALL]
    async with Client(install(front)) as client:
        for uri, seen in await readings(asked(client), [*ALL, *behind]):
            assert SECRET not in json.dumps(seen), ascii(uri)


async def test_what_the_servers_middleware_hides_or_refuses(asked: Any, install: Any) -> None:
    class Guard(Middleware):
        async def on_list_resources(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
            return [item for item in await call_next(context) if "vault" not in str(item.uri)]

        async def on_list_resource_templates(
            self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]
        ) -> Any:
            return [item for item in await call_next(context) if not item.uri_template.startswith("vault:")]

        async def on_list_prompts(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
            return [item for item in await call_next(context) if item.name != "vault"]

        async def on_read_resource(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
            if context.message.uri == "data://blocked":
                raise AuthorizationError("blocked")
            return await call_next(context)

    server = FastMCP("guarded")
    server.resource("data://vault")(lambda: SECRET)
    server.resource("data://{name}", name="any")(lambda name: SECRET if name == "blocked" else f"any {name}")
    server.resource("vault://{name}", name="vault")(lambda name: SECRET)
    server.prompt(name="vault")(lambda: SECRET)
    server.add_middleware(Guard())
    uris = [spelling for uri in ("data://vault", "vault://a", "data://blocked") for spelling in spellings(uri)]
    async with Client(install(server)) as client:
        here = asked(client)
        for uri, seen in await readings(here, uris):
            assert SECRET not in json.dumps(seen), ascii(uri)
        envelope = await here.run("return await getPrompt('vault', {})")
        assert envelope["error"]["code"] == "PROMPT_NOT_FOUND"


async def test_allowed_tools_are_never_widened_by_a_spelling(asked: Any, install: Any) -> None:
    server = FastMCP("rooms")
    server.resource("data://{name}", name="any")(lambda name: SECRET if name == "vault" else f"any {name}")
    server.resource("tree://{path*}", name="tree")(lambda path: SECRET if "vault" in path else f"tree {path}")
    uris = [spelling for uri in ("data://vault", "tree://open/vault") for spelling in spellings(uri)]
    uris += ["tree://open/../vault", "tree://open/%2e%2e/vault", "tree://open%2F..%2Fvault", "data://open/../vault"]
    installed = install(server)
    for allowed in (["data://open*", "hello"], [], ["{name}"], ["data://{other}"], ["data://v?", "tree://open/[!v]*"]):
        async with Client(installed) as client:
            for uri, seen in await readings(asked(client), uris, allowedTools=allowed):
                assert seen in REFUSALS, (ascii(uri), seen, allowed)


async def test_prompts_have_no_other_names(asked: Any, install: Any) -> None:
    names = ["vault", "closed", "__secret", "__SECRET", " __secret", "vault ", "VAULT", "v\u0430ult", "vault\x00", ""]
    names += ["hello ", "hel%6Co", "hello#", "prompt://vault", "data://vault", "*", "[v]ault", "constructor"]
    script = """
    const out = [];
    for (const name of codecallContext.names) {
      const seen = await getPrompt(name, { name: 'vault' }, { throwOnError: false });
      out.push([name, seen.success ? seen.data : seen.error.code]);
    }
    return out;
    """
    async with Client(install(library())) as client:
        for name, seen in await asked(client).value(script, context={"names": names}):
            assert seen in ("PROMPT_NOT_FOUND", "ACCESS_DENIED"), ascii(name)


async def test_no_answer_names_what_is_out_of_reach(asked: Any, install: Any) -> None:
    async with Client(install(library())) as client:
        here = asked(client)
        for uri in ("data://vult", "data://clsed", "tree:/vault/kye", "ui://pge", "vault:/a", "system:/state"):
            said = [
                await here.run(f"return await readResource({json.dumps(uri)})"),
                await here.tool("codecall:describe", toolNames=[uri]),
            ]
            text = json.dumps(said).replace(uri, "")
            assert "vault" not in text, uri
            assert "closed" not in text, uri
            assert "ui:" not in text, uri
        for name in ("vult", "clsed", "_secret"):
            text = json.dumps(await here.run(f"return await getPrompt('{name}')")).replace(name, "")
            assert "vault" not in text
            assert "closed" not in text


def told_of(envelope: dict[str, Any]) -> str:
    """All of it but the run's name and its times."""
    calls = [{**call, "durationMs": 0} for call in envelope["calls"]]
    return json.dumps({**envelope, "stats": None, "runId": None, "calls": calls})


async def test_hidden_and_absent_are_told_alike(asked: Any, install: Any) -> None:
    """What FastMCP does not list for this caller gets the answer of what does not exist."""
    server = FastMCP("alike")
    server.resource("data://closed", auth=lambda _: False)(lambda: SECRET)
    server.prompt(name="closed", auth=lambda _: False)(lambda: SECRET)
    async with Client(install(server)) as client:
        here = asked(client)
        for ask in ("readResource('data://{}')", "getPrompt('{}')"):
            answers = [
                told_of(await here.run(f"return await {ask.format(name)}")).replace(name, "x")
                for name in ("closed", "cloned")
            ]
            assert answers[0] == answers[1]


async def test_no_scheme_spelled_otherwise_reads_a_page_of_an_app(asked: Any, install: Any) -> None:
    server = FastMCP("front")
    server.resource("{kind}://{page}", name="store")(lambda kind, page: SECRET if kind == "ui" else f"any {page}")
    uris = ["ui://other", "%75i://other", "u%69://other", "%75%69://other", "%55%49://other", "uI://other", "data://x"]
    async with Client(install(server)) as client:
        here = asked(client)
        for allowed in ({}, {"allowedTools": ["{kind}://{page}"]}):
            found = await readings(here, uris, **allowed)
            assert found[-1] == ["data://x", "any x"]
            for uri, seen in found[:-1]:
                assert seen in REFUSALS, uri


async def test_a_hidden_resource_shadows_the_template_for_its_uri(asked: Any, install: Any) -> None:
    server = FastMCP("shadow")
    server.resource("data://{page}", name="any")(lambda page: SECRET if page == "a!b" else f"any {page}")
    server.resource("data://a!b", tags={"off"})(lambda: SECRET)
    server.disable(tags={"off"})
    async with Client(install(server)) as client:
        for uri, seen in await readings(asked(client), spellings("data://a!b")):
            assert SECRET not in json.dumps(seen), ascii(uri)
