"""What a URI stands for on a server with many templates, hidden ones among them: what is compared, and what is not."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.resources import ResourceTemplate
from fastmcp.server.providers import Provider

from codecall import tool_metadata
from codecall.catalog.components import component_view
from codecall.catalog.uris import HIDDEN, HiddenComponent, ResolvedUri, declared_uris
from codecall.options import PluginOptions

Server = FastMCP[Any]

OUT = tool_metadata(enabled_in_codecall=False)


async def resolved(server: Server, *uris: str) -> list[Any]:
    """For each URI the one spelling under which it is read, or None; `HIDDEN` as it is."""
    options = PluginOptions.build(vm={"preset": "secure"})
    found: list[Any] = []

    @server.tool(name="probe")
    async def probe(ctx: Context) -> None:
        offers = component_view(ctx, options)
        for uri in uris:
            answer: ResolvedUri | HiddenComponent | None = await offers.resolve(uri)
            found.append(answer.uri if isinstance(answer, ResolvedUri) else answer)

    try:
        async with Client(server) as client:
            await client.call_tool("probe", {})
    finally:
        server.local_provider.remove_tool("probe")
    return found


# ------------------------------------------------------------------------------------------------------ what it costs


async def test_segments_multiply() -> None:
    server: Server = FastMCP("air")
    server.resource("flight://{a}-{b}/{c}-{d}/seats", name="two")(lambda a, b, c, d: "x")
    server.resource("route://{a}-{b}/{c}-{d}/{e}-{f}/seats", name="three")(lambda a, b, c, d, e, f: "x")
    hostile = "flight://" + "-" * 500 + "/" + "-" * 500 + "/x"
    assert await resolved(server, hostile, "route://" + "/".join(["-" * 60] * 3) + "/x") == [None, None]
    honest = ["flight://OSL-JFK/2025-11/seats", f"route://{'a' * 99}-b/2025-11/SK-{'1' * 99}/seats"]
    assert await resolved(server, *honest) == honest


@pytest.mark.parametrize("how", ["disabled", "mounted", "denied", "child"])
async def test_templates_that_nobody_sees_are_compared_too(how: str) -> None:
    server: Server = FastMCP("files")
    behind: Server = FastMCP("behind") if how in ("mounted", "child") else server
    at = "" if behind is server else "kid/"
    behind.resource("data://{path*}", name="any")(lambda path: "any")
    denied = {"auth": lambda _: False} if how == "denied" else {}
    behind.resource("data://{a*}/{b*}/{c*}/end", name="old", tags={"off"}, **denied)(lambda a, b, c: "x")
    if behind is not server:
        server.mount(behind, namespace="kid")
    (behind if how == "child" else server).disable(tags={"off"})
    assert f"data://{at}{{a*}}/{{b*}}/{{c*}}/end" in (await declared_uris(server)).templates
    honest = f"data://{at}src/codecall/catalog/uris.py"
    assert await resolved(server, f"data://{at}" + "a/" * 500, honest) == [None, honest]


async def test_many_templates_share_one_measure() -> None:
    server: Server = FastMCP("files")
    for number in range(20):
        server.resource(f"data://{{a*}}/{{b*}}/end{number}", name=f"t{number}")(lambda a, b: "x")
    hostile = ["data://" + "a/" * 500 + str(number) for number in range(60)]
    turns = 0
    done = False

    async def watch() -> None:
        nonlocal turns
        while not done:
            await asyncio.sleep(0)
            turns += 1

    watching = asyncio.create_task(watch())
    assert await resolved(server, *hostile) == [None] * 60
    done = True
    await watching
    assert turns >= 60  # others had theirs after each
    assert await resolved(server, "data://a/b/c/end7") == ["data://a/b/c/end7"]


async def test_what_decoding_makes_costly_is_refused_too() -> None:
    server: Server = FastMCP("decoded")
    server.resource("x://{a}-{b}", name="short")(lambda a, b: "x")
    server.resource("x://{a}-{b}-{c}-{d}/end", name="long", tags={"off"})(lambda a, b, c, d: "x")
    server.disable(tags={"off"})
    assert await resolved(server, "x://" + "%2D" * 300 + "-b", "x://a-b") == [None, "x://a-b"]


async def test_ordinary_uris_of_a_large_server() -> None:
    server: Server = FastMCP("large")
    for number in range(300):
        server.resource(f"api{number % 7}://v{number}/{{kind}}/{{id}}/{{rest*}}", name=f"t{number}")(
            lambda kind, id, rest: "x"  # noqa: A006
        )
    server.resource("repo://{owner}/{repo}/contents/{path*}", name="contents")(lambda owner, repo, path: "x")
    server.resource("weather://{city}/{day}", name="weather")(lambda city, day: "x")
    server.resource("log://{year}-{month}-{day}/{id}{?lines}", name="log")(lambda year, month, day, id, lines="1": "x")  # noqa: A006
    server.resource("any://{a}-{b}/{c}-{d}", name="pairs")(lambda a, b, c, d: "x")
    uuid = "0193e4a2-1111-7222-8333-444455556666"
    honest = [
        "repo://PrefectHQ/fastmcp/contents/src/fastmcp/resources/template.py",
        "repo://acme/tools/contents/" + "a-long-name/" * 16 + "file-1.2.3.tar.gz",
        "weather://Saint-Denis/2025-11-21",
        f"log://2025-11-21/{uuid}?lines=20",
        f"any://{uuid}/{uuid}",
        f"api3://v3/users/{uuid}/" + "x" * 200,
    ]
    assert await resolved(server, *honest) == honest


async def test_a_provider_that_fails_holds_nothing() -> None:
    class Failing(Provider):
        async def _list_resource_templates(self) -> Sequence[ResourceTemplate]:
            raise RuntimeError("away")

    server: Server = FastMCP("with-failing")
    server.resource("data://{x}", name="any")(lambda x: x)
    server.add_provider(Failing(), namespace="failing")
    assert (await declared_uris(server)).templates == {"data://{x}"}


# ------------------------------------------------------------------------------------------------- what is in the way


@pytest.mark.parametrize("template", ["{kind}://{page}", "{kind}://{page*}", "{all*}"])
async def test_no_spelling_of_a_scheme_leads_to_pages_of_apps(template: str) -> None:
    server: Server = FastMCP("front")
    if "all" in template:
        server.resource(template, name="store")(lambda all: "PAGE")  # noqa: A006
    else:
        server.resource(template, name="store")(lambda kind, page: "PAGE")
    spelled = ["ui://other", "%75i://other", "u%69://other", "%75%69://other", "%55I://other", "UI://other"]
    assert await resolved(server, *spelled) == [None] * len(spelled)


@pytest.mark.parametrize("where", ["here", "mounted", "child"])
@pytest.mark.parametrize("name", ["a!b", "a'b", "a(b)", "é"])
async def test_a_hidden_resource_shadows_its_uri_under_every_spelling(where: str, name: str) -> None:
    server: Server = FastMCP("front")
    behind: Server = server if where == "here" else FastMCP("behind")
    behind.resource("data://{page}", name="any")(lambda page: f"template {page}")
    behind.resource(f"data://{name}", tags={"off"})(lambda: "SECRET")
    if behind is not server:
        server.mount(behind, namespace="kid")
    (behind if where == "child" else server).disable(tags={"off"})
    at = "data://" if behind is server else "data://kid/"
    coded = "".join(f"%{byte:02x}" for byte in name.encode())
    spelled = [at + name, at + name + "#x", at + name + "?x=1", at + coded, at + coded.upper(), at + coded + "#x"]
    assert await resolved(server, *spelled, f"{at}other") == [*[None] * len(spelled), f"{at}other"]


async def test_one_that_is_not_for_scripts_does_so_too() -> None:
    server: Server = FastMCP("front")
    server.resource("data://{page}", name="any")(lambda page: f"template {page}")
    server.resource("data://a!b", meta=OUT)(lambda: "SECRET")
    assert await resolved(server, "data://a!b", "data://a%21b", "data://%61!b") == [HIDDEN] * 3
