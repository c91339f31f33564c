"""What a server offers besides tools, for one caller: real FastMCP servers, their own listings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.exceptions import ResourceError
from fastmcp.resources import Resource
from fastmcp.resources.types import TextResource
from fastmcp.server import create_proxy
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext

from codecall import tool_metadata
from codecall.catalog.components import ComponentView, component_view
from codecall.catalog.uris import HIDDEN, HiddenComponent, ResolvedUri
from codecall.options import PluginOptions

Server = FastMCP[Any]


def options(**given: Any) -> PluginOptions:
    return PluginOptions.build(vm={"preset": "secure"}, **given)


async def inside(server: Server, ask: Any, **given: Any) -> Any:
    """What `ask(offers)` gives within a request to `server`."""
    chosen = options(**given)
    answers: list[Any] = []

    @server.tool(name="probe")
    async def probe(ctx: Context) -> str:
        answers.append(await ask(component_view(ctx, chosen)))
        return "done"

    try:
        async with Client(server) as client:
            await client.call_tool("probe", {})
    finally:
        server.local_provider.remove_tool("probe")
    return answers[0]


async def names(server: Server, *kinds: Any, **given: Any) -> list[str]:
    async def ask(offers: ComponentView) -> list[str]:
        return [entry.name for entry in await offers.entries(kinds)]

    return await inside(server, ask, **given)


async def resolved(server: Server, uri: str, **given: Any) -> ResolvedUri | HiddenComponent | None:
    return await inside(server, lambda offers: offers.resolve(uri), **given)


@pytest.fixture
def library() -> Server:
    """A server with one of everything."""
    server: Server = FastMCP("library")

    @server.resource("data://hours", title="Opening hours", tags={"time"}, mime_type="application/json")
    def hours() -> dict[str, str]:
        """When we are open."""
        return {"monday": "9-17"}

    @server.resource("books://{isbn}/page{?number}", description="A page of a book", meta=tool_metadata(app_id="books"))
    def page(isbn: str, number: int = 1) -> str:
        return f"{isbn} {number}"

    @server.prompt(tags={"writing"})
    def review(title: str, tone: str = "kind") -> str:
        """Write a review."""
        return f"Review {title}, {tone}"

    return server


# ----------------------------------------------------------------------------------------------------------- entries


async def test_every_kind_becomes_entries(library: Server) -> None:
    async def ask(offers: ComponentView) -> list[Any]:
        return await offers.entries({"prompt", "template", "resource", "tool"})

    resource, template, prompt = await inside(library, ask)
    assert (resource.kind, resource.name, resource.title) == ("resource", "data://hours", "Opening hours")
    assert (resource.app_id, resource.description, resource.tags) == ("library", "When we are open.", {"time"})
    assert resource.annotations == {"mimeType": "application/json"}
    assert resource.input_schema == {"type": "object", "properties": {}}
    assert (template.kind, template.name, template.app_id) == ("template", "books://{isbn}/page{?number}", "books")
    assert (template.title, set(template.input_schema["properties"])) == ("page", {"isbn", "number"})
    assert template.input_schema["required"] == ["isbn"]
    assert (prompt.kind, prompt.name, prompt.title, prompt.annotations) == ("prompt", "review", None, {})
    assert prompt.input_schema["properties"]["title"]["type"] == "string"
    assert prompt.input_schema["required"] == ["title"]


async def test_only_the_kinds_that_are_asked_for_are_listed_and_each_once(library: Server) -> None:
    listed: list[str] = []

    class Listening(Middleware):
        async def on_message(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
            if (context.method or "").endswith("list"):
                listed.append(context.method or "")
            return await call_next(context)

    library.add_middleware(Listening())

    async def ask(offers: ComponentView) -> None:
        assert listed == []
        for _ in range(3):
            await offers.entries({"prompt"})
        assert listed == ["prompts/list"]
        await offers.resolve("data://hours")
        assert listed == ["prompts/list", "resources/list"]
        await offers.resolve("books://1/page")
        await offers.suggest("data://horus")
        await offers.find("template", "x")
        assert listed == ["prompts/list", "resources/list", "resources/templates/list"]

    async with Client(library):
        listed.clear()
    listed.clear()
    await inside(library, ask)


async def test_a_server_without_any_has_none() -> None:
    assert await names(FastMCP("empty"), "resource", "template", "prompt") == []


async def test_equal_entries_are_the_same_objects(library: Server) -> None:
    async def ask(offers: ComponentView) -> list[Any]:
        return await offers.entries({"prompt", "template", "resource"})

    one, other = await inside(library, ask), await inside(library, ask)
    assert [a is b for a, b in zip(one, other, strict=True)] == [True] * 3
    library.local_provider.remove_resource("data://hours")
    library.add_resource(TextResource(uri="data://hours", text="x", description="changed"))  # type: ignore[arg-type]
    changed = await inside(library, ask)
    assert changed[0] is not one[0]
    assert changed[0].description == "changed"


async def test_the_highest_version_is_listed() -> None:
    server: Server = FastMCP("versions")
    for version in ("1", "2"):
        server.add_resource(TextResource(uri="data://v", text=version, version=version))  # type: ignore[arg-type]

    async def ask(offers: ComponentView) -> list[str | None]:
        return [entry.version for entry in await offers.entries({"resource"})]

    assert await inside(server, ask) == ["2"]
    found = await resolved(server, "data://v")
    assert isinstance(found, ResolvedUri)
    assert found.version == "2"


async def test_parameters_of_another_servers_template_are_read_from_its_text(library: Server) -> None:
    async def ask(offers: ComponentView) -> Any:
        return (await offers.entries({"template"}))[0].input_schema

    schema = await inside(create_proxy(library), ask)
    assert schema == {
        "type": "object",
        "properties": {"isbn": {"type": "string"}, "number": {"type": "string"}},
        "required": ["isbn"],
    }


async def test_what_comes_from_a_mounted_server_belongs_to_its_namespace(library: Server) -> None:
    main: Server = FastMCP("main")
    main.mount(library, namespace="lib")
    main.mount(create_proxy(library), namespace="far")
    main.add_resource(TextResource(uri="data://own", text="x"))  # type: ignore[arg-type]

    async def ask(offers: ComponentView) -> dict[str, str]:
        return {entry.name: entry.app_id for entry in await offers.entries({"resource", "template", "prompt"})}

    assert await inside(main, ask) == {
        "data://own": "main",
        "data://lib/hours": "lib",
        "data://far/hours": "far",
        "books://lib/{isbn}/page{?number}": "books",
        "books://far/{isbn}/page{?number}": "books",
        "lib_review": "lib",
        "far_review": "far",
    }
    assert await names(main, "resource", "prompt", app_ids=["lib"]) == ["data://lib/hours", "lib_review"]


# ------------------------------------------------------------------------------------------------------------- reach


async def test_modes_and_metadata_decide_as_for_tools() -> None:
    server: Server = FastMCP("modes")
    for word, enabled in (("yes", True), ("no", False), ("silent", None)):
        meta = tool_metadata(enabled_in_codecall=enabled)
        server.add_resource(TextResource(uri=f"data://{word}", text="x", meta=meta))  # type: ignore[arg-type]
        server.resource(f"{word}://{{x}}", name=word, meta=meta)(lambda x: x)
        server.prompt(name=word, meta=meta)(lambda: "x")
    bad = {"codecall": {"enabledInCodeCall": "certainly"}}
    server.prompt(name="unreadable", meta=bad)(lambda: "x")
    kinds = ("resource", "template", "prompt")
    assert await names(server, *kinds) == [
        "data://yes", "data://silent", "yes://{x}", "silent://{x}", "yes", "silent",
    ]  # fmt: skip
    for mode in ("codecall_opt_in", "metadata_driven"):
        assert await names(server, *kinds, mode=mode) == ["data://yes", "yes://{x}", "yes"]
    assert await resolved(server, "data://no") is HIDDEN
    assert await resolved(server, "no://1") is HIDDEN
    assert await inside(server, lambda offers: offers.find("prompt", "no")) is HIDDEN
    assert await inside(server, lambda offers: offers.find("prompt", "nothing")) is None


async def test_include_tools_is_asked_of_everything(library: Server) -> None:
    assert await names(
        library, "resource", "template", "prompt", include_tools=lambda item: "time" in item.tags
    ) == ["data://hours"]  # fmt: skip
    # One that only understands tools keeps the rest out.
    assert await names(library, "resource", "prompt", include_tools=lambda tool: tool.parameters is not None) == []


async def test_reserved_names_and_meta_tools_stay_out() -> None:
    server: Server = FastMCP("reserved")
    for uri in ("system://x", "INTERNAL://x", "codecall://x"):
        server.add_resource(TextResource(uri=uri, text="x", name="x"))  # type: ignore[arg-type]
    server.add_resource(TextResource(uri="data://x", text="x", name="__x"))  # type: ignore[arg-type]
    for name in ("system:x", "__x", "codecall_execute", "internal:x"):
        server.prompt(name=name)(lambda: "x")
    assert await names(server, "resource", "prompt") == []


async def test_reserved_names_of_a_mounted_server_stay_out() -> None:
    child: Server = FastMCP("child")
    child.prompt(name="__hidden")(lambda: "x")
    child.prompt(name="shown")(lambda: "x")
    main: Server = FastMCP("main")
    main.mount(child, namespace="kid")
    assert await names(main, "prompt") == ["kid_shown"]


async def test_what_hosts_keep_from_models_stays_out() -> None:
    server: Server = FastMCP("apps")
    server.resource("ui://page")(lambda: "<html>")
    server.resource("ui://{page}/x", name="pages")(lambda page: page)
    server.resource("{scheme}://{rest*}", name="everything")(lambda scheme, rest: scheme + rest)
    server.resource("data://view", mime_type="text/html;profile=mcp-app")(lambda: "<html>")
    server.resource("data://app", meta={"ui": {"visibility": ["app"]}})(lambda: "x")
    server.prompt(name="app", meta={"ui": {"visibility": ["app"]}})(lambda: "x")
    listed = await names(server, "resource", "template", "prompt")
    assert not [name for name in listed if name.startswith(("ui:", "data:")) or name == "app"]
    for uri in ("ui://page", "UI://page", " ui://page", "ui://a/x", "uı://page"):
        found = await resolved(server, uri)
        assert found is None or (isinstance(found, ResolvedUri) and not found.uri.strip().lower().startswith("ui:"))


# ------------------------------------------------------------------------------------------------------------- URIs


@pytest.fixture
def shelf() -> Server:
    """A mounted server with a template over everything, and resources of which some are not for scripts."""
    child: Server = FastMCP("child")
    child.resource("data://open")(lambda: "open")
    child.resource("data://secret", meta=tool_metadata(enabled_in_codecall=False))(lambda: "SECRET")
    child.resource("data://off", tags={"off"})(lambda: "SECRET")
    child.resource("data://{name}", name="any")(lambda name: f"any {name}")
    child.resource("files://{path*}", name="files")(lambda path: f"file {path}")
    child.resource("pages://{book}{?number}", name="pages")(lambda book, number="1": f"{book} {number}")
    main: Server = FastMCP("main")
    main.mount(child, namespace="kid")
    main.disable(tags={"off"})
    return main


@pytest.mark.parametrize(
    ("uri", "read"),
    [
        ("data://kid/open", "data://kid/open"),
        ("data://kid/op%65n", "data://kid/open"),
        ("DATA://kid/open", "data://kid/open"),
        ("data://kid/other", "data://kid/other"),
        ("data://kid/two words", "data://kid/two%20words"),
        ("data://kid/%C3%A9", "data://kid/%C3%A9"),
        ("data://kid/a%2Fb", "data://kid/a%2Fb"),
        ("data://kid/other#top", "data://kid/other"),
        ("data://kid/other?", "data://kid/other"),
        ("data://kid/other?x=1#y", "data://kid/other"),
        ("pages://kid/a?n%75mber=2&x=1&number=3#y", "pages://kid/a?n%75mber=2&number=3"),
        ("files://kid/a/b.txt", "files://kid/a/b.txt"),
        ("files://kid/v1..v2", "files://kid/v1..v2"),
    ],
)
async def test_a_uri_is_read_under_its_one_spelling(shelf: Server, uri: str, read: str) -> None:
    found = await resolved(shelf, uri)
    assert isinstance(found, ResolvedUri)
    assert found.uri == read


@pytest.mark.parametrize(
    "uri",
    [
        *("secret", "s%65cret", "%73%65%63%72%65%74", "secret#", "secret#open", "secret?", "secret#?open"),
        *("s%65cret?#", "secret?x=1", "s%65cret?open"),
    ],
)
async def test_no_spelling_leads_through_a_template_to_a_hidden_resource(shelf: Server, uri: str) -> None:
    assert await resolved(shelf, f"data://kid/{uri}") is HIDDEN


@pytest.mark.parametrize("uri", ["data://kid/off", "data://kid/o%66f", "data://kid/off#x", "data://kid/off?"])
async def test_a_resource_fastmcp_hides_is_hidden_under_every_spelling(shelf: Server, uri: str) -> None:
    # The read itself is FastMCP's, under the spelling it hides; nothing of the template's is in the way.
    async def ask(offers: ComponentView) -> str | None:
        found = await offers.resolve(uri)
        return found.uri if isinstance(found, ResolvedUri) else None

    spelled = await inside(shelf, ask)
    assert spelled in (None, "data://kid/off")
    async with Client(shelf) as client:
        with pytest.raises(Exception, match="not found"):
            await client.read_resource("data://kid/off")


@pytest.mark.parametrize(
    "uri",
    [
        *("", " ", "kid", "data:", "data://", "data://kid", "data://kid/", "data:/kid/open"),
        *("files://kid/../x", "files://kid/a/./b", "files://kid/%2e%2e/x", "files://kid/a/..", "files://kid/..\\x"),
        *("data://kid/open\n", "data://kid/\x00", "data://kid/a\u202eb", "data://kid/\u200bopen", "data://kid/\ud800"),
        *("data://kid/a/b", "d\u0430ta://kid/open", "data\uff1a//kid/open", "file:///etc/passwd", "data%3A//kid/open"),
    ],
)
async def test_what_no_listing_shows_is_nothing(shelf: Server, uri: str) -> None:
    assert await resolved(shelf, uri) is None


@pytest.mark.parametrize("template", ["x://{a*}/{b*}/{c*}/end", "x://{a}-{b}-{c}/end", "x://{a*}{b*}{c*}{d*}/end"])
async def test_no_uri_holds_up_the_event_loop(template: str) -> None:
    server: Server = FastMCP("slow")
    server.resource(template, name="slow")(lambda a, b, c, d="": f"{a} {b} {c} {d}")
    server.resource("y://{a}/{b}/{c}", name="quick")(lambda a, b, c: f"{a} {b} {c}")

    for filler in "/-a":  # compared as regular expressions, one of these takes minutes
        assert await resolved(server, "x://" + filler * 1000) is None
    assert isinstance(await resolved(server, "y://" + "/".join(["a" * 30] * 3)), ResolvedUri)
    if "-" in template:
        assert isinstance(await resolved(server, "x://1-2-3/end"), ResolvedUri)


async def test_clients_spell_uris_their_own_way_and_still_meet_what_is_hidden() -> None:
    server: Server = FastMCP("spelling")
    server.resource("http://Example.com/a b", name="a", meta=tool_metadata(enabled_in_codecall=False))(lambda: "SECRET")
    server.resource("http://{host}/{x}", name="t")(lambda host, x: f"any {host} {x}")
    for uri in ("http://example.com/a%20b", "http://EXAMPLE.com/a%20b", "http://Example.com/a b"):
        assert await resolved(server, uri) is HIDDEN


async def test_a_listing_that_middleware_cuts_is_what_counts(library: Server) -> None:
    class Cutting(Middleware):
        async def on_list_resources(
            self, context: MiddlewareContext[Any], call_next: CallNext[Any, Sequence[Resource]]
        ) -> Sequence[Resource]:
            await call_next(context)
            return []

        async def on_list_resource_templates(
            self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]
        ) -> Any:
            return [item for item in await call_next(context) if item.name == "wide"]

    library.resource("{scheme}://{rest*}", name="wide")(lambda scheme, rest: scheme + rest)
    library.add_middleware(Cutting())
    assert await names(library, "resource", "template") == ["{scheme}://{rest*}"]
    # FastMCP would read the first with the resource, and the second with the template that is not shown.
    assert await resolved(library, "data://hours") is None
    assert await resolved(library, "books://1/page") is None
    assert isinstance(await resolved(library, "other://1/page"), ResolvedUri)


async def test_what_a_component_refuses_this_caller_is_not_there() -> None:
    server: Server = FastMCP("auth")
    server.resource("data://closed", auth=lambda _: False)(lambda: "SECRET")
    server.resource("closed://{x}", name="closed", auth=lambda _: False)(lambda x: x)
    server.prompt(name="closed", auth=lambda _: False)(lambda: "SECRET")
    assert await names(server, "resource", "template", "prompt") == []
    for uri in ("data://closed", "closed://1"):
        assert await resolved(server, uri) is None


async def test_similar_names_are_suggested(library: Server) -> None:
    assert await inside(library, lambda offers: offers.suggest("data://horus")) == ["data://hours"]
    assert await inside(library, lambda offers: offers.suggest("reveiw", ("prompt",))) == ["review"]
    assert await inside(library, lambda offers: offers.suggest("reveiw", ("resource",))) == []


async def test_what_a_provider_raises_passes_through(library: Server) -> None:
    class Failing(Middleware):
        async def on_list_prompts(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
            raise ResourceError("no prompts today")

    library.add_middleware(Failing())

    async def ask(offers: ComponentView) -> str:
        assert len(await offers.entries({"resource", "template"})) == 2
        with pytest.raises(ResourceError, match="no prompts today"):
            await offers.entries({"prompt"})
        return "asked"

    assert await inside(library, ask) == "asked"
