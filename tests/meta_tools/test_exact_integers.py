"""Integers that no number of JavaScript holds: what a tool gave is what the next one, the logs and the client get."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from key_value.aio.stores.memory import MemoryStore

from codecall import CodeCallPlugin

POST = 846977123456789123
USER = -900719925474099301
HASH = 2**70 + 1


class Posts:
    """A server with ids of 18 and more digits, which keeps what it is given."""

    def __init__(self) -> None:
        self.server = FastMCP("posts")
        self.taken: list[dict[str, Any]] = []
        self.broken = True
        self.server.tool(self.find, name="posts:find")
        self.server.tool(self.take, name="posts:take")
        self.server.tool(self.text, name="posts:text")
        self.server.tool(self.fail, name="posts:fail")
        self.server.resource("posts://first", mime_type="application/json")(self.first)
        options: dict[str, Any] = {"vm": {"preset": "secure"}, "pool": {"min_workers": 0, "max_workers": 1}}
        CodeCallPlugin.init(**options, resume={"store": MemoryStore()}).install(self.server)

    def find(self) -> dict[str, Any]:
        """A post."""
        return {"id": POST, "users": [USER, POST], "byUser": {str(USER): POST}, "hash": HASH, "score": 1.5, "views": 12}

    def take(self, value: Any) -> Any:
        """Keeps and answers what it is given."""
        self.taken.append(value)
        return value

    def text(self) -> dict[str, str]:
        """Ids as JSON text, as some servers write them."""
        return {"body": f'{{"id": {POST}, "ratio": 12345678901234567.5, "many": 1e30, "quoted": "{POST}"}}'}

    def fail(self) -> str:
        """Fails once."""
        if self.broken:
            self.broken = False
            raise ValueError("not now")
        return "done"

    def first(self) -> str:
        return f'{{"id": {POST}}}'


@pytest.fixture
async def posts() -> AsyncIterator[Posts]:
    made = Posts()
    async with Client(made.server) as made.client:
        yield made


async def run(posts: Posts, body: str, **more: Any) -> dict[str, Any]:
    """The envelope of a script that has found a post."""
    script = f"const post = await callTool('posts:find', {{}});\n{body}"
    answer = await posts.client.call_tool("codecall:execute", {"script": script, **more})
    assert answer.structured_content is not None
    return answer.structured_content


async def value(posts: Posts, body: str, **more: Any) -> Any:
    envelope = await run(posts, body, **more)
    assert envelope["status"] == "ok", envelope
    return envelope["result"]


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("post.id", POST),
        (
            "post",
            {"id": POST, "users": [USER, POST], "byUser": {str(USER): POST}, "hash": HASH, "score": 1.5, "views": 12},
        ),
        ("[...post.users, post.hash, -post.id]", [USER, POST, HASH, -POST]),
        ("{ id: post.id, [post.id]: { deep: [post.users[0]] } }", {"id": POST, str(POST): {"deep": [USER]}}),
        ("`/posts/${post.id}?by=` + post.users[0]", f"/posts/{POST}?by={USER}"),
        ("JSON.stringify(post)", None),
        ("JSON.parse(JSON.stringify(post.users))", [USER, POST]),
        ("structuredClone(post.users)", [USER, POST]),
        (f"{POST}", POST),
        ("0xffff_ffff_ffff_ffff", 2**64 - 1),
        ("post.id + 1n", POST + 1),
        ("codecallContext.id", POST),
        ("[post.score, post.views, 0.1, 9007199254740991, 1e300]", [1.5, 12, 0.1, 2**53 - 1, 1e300]),
    ],
)
async def test_a_tool_is_given_what_another_gave(posts: Posts, given: str, taken: object) -> None:
    result = await value(posts, f"return await callTool('posts:take', {{ value: {given} }})", context={"id": POST})
    if taken is None:
        assert posts.taken == [
            f'{{"id":{POST},"users":[{USER},{POST}],"byUser":{{"{USER}":{POST}}},"hash":{HASH},"score":1.5,"views":12}}'
        ]
    else:
        assert posts.taken == [taken]
        assert repr(posts.taken[0]) == repr(taken)  # 1.0 is no 1
        assert result == taken


async def test_the_result_and_its_text_have_every_digit(posts: Posts) -> None:
    script = "return await callTool('posts:find', {})"
    answer = await posts.client.call_tool("codecall:execute", {"script": script})
    assert (answer.structured_content or {})["result"] == posts.find()
    (block,) = answer.content
    assert f'"hash":{HASH}' in block.text
    invoked = await posts.client.call_tool("codecall:invoke", {"tool": "posts:find", "input": {}})
    assert (invoked.structured_content or {})["result"] == posts.find()


async def test_texts_and_resources_are_read_exactly(posts: Posts) -> None:
    script = """
        const { body } = await callTool('posts:text', {});
        const { id } = await readResource('posts://first');
        const read = JSON.parse(body, (key, item) => key === 'quoted' ? undefined : item);
        return [JSON.parse(body), id === post.id, read.id === id && !('quoted' in read), typeof read.many];
    """
    first = {"id": POST, "ratio": float("12345678901234567.5"), "many": 1e30, "quoted": str(POST)}
    assert await value(posts, script) == [first, True, True, "number"]


async def test_json_is_written_with_replacers_and_blanks(posts: Posts) -> None:
    script = """
        return [
          JSON.stringify(post, ['id', 'users'], 1),
          JSON.stringify(post, (key, item) => key === 'users' ? item[0] : item),
          JSON.stringify(post.id), JSON.stringify({ a: [1n, undefined, () => 1], b: undefined }),
        ];
    """
    assert await value(posts, script) == [
        f'{{\n "id": {POST},\n "users": [\n  {USER},\n  {POST}\n ]\n}}',
        f'{{"id":{POST},"users":{USER},"byUser":{{"{USER}":{POST}}},"hash":{HASH},"score":1.5,"views":12}}',
        f"{POST}",
        '{"a":[1,null,null]}',
    ]


async def test_they_are_compared_as_numbers_are(posts: Posts) -> None:
    script = f"""
        const [user, again] = post.users;
        return [
          post.id === {POST}, post.id === {POST + 1}, post.id === again, post.users.includes({POST}), user < post.id,
          post.id > 5, post.id == '{POST}', new Set([post.id, again]).size, new Map([[post.id, 1]]).get(again),
          typeof post.id, typeof post.views,
        ];
    """
    assert await value(posts, script) == [True, False, True, True, True, True, True, 1, 1, "bigint", "number"]


async def test_they_are_written_and_thrown_with_every_digit(posts: Posts) -> None:
    envelope = await run(posts, "console.log(post.id, post.users, `id ${post.id}`); throw new Error('no ' + post.id)")
    assert envelope["logs"] == [f"{POST} [{USER},{POST}] id {POST}"]
    assert envelope["error"]["message"] == f"no {POST}"


async def test_what_the_script_computes_with_bigints_is_a_text_in_its_result(posts: Posts) -> None:
    assert await value(posts, "return [post.id, 5n, post.id - 1n]") == [POST, "5", str(POST - 1)]


async def test_a_record_of_a_failed_run_answers_exactly(posts: Posts) -> None:
    body = """
        const kept = await callTool('posts:take', { value: post.users });
        await callTool('posts:fail', {});
        return kept;
    """
    failed = await run(posts, body)
    assert failed["status"] == "tool_error"
    assert await value(posts, body, resumeFrom=failed["runId"]) == [USER, POST]
    assert posts.taken == [[USER, POST]]


async def test_kept_results_and_references_are_exact(posts: Posts) -> None:
    script = "return Array.from({ length: 9000 }, (_, i) => [post.id, i])"
    handle = (await run(posts, script))["largeResult"]["handle"]
    part = "return (await getResult(codecallContext.handle, { from: 3, count: 1 }))[0]"
    assert await value(posts, part, context={"handle": handle}) == [POST, 3]
    reference = """
        const held = await callTool('posts:find', {}, { reference: true });
        return await callTool('posts:take', { value: held });
    """
    assert await value(posts, reference) == posts.find()


@pytest.mark.parametrize(
    "body",
    [
        "return post.id + 1",
        "return post.id / 1000",
        "return post.users.sort((a, b) => a - b)",
        "return post.users.toSorted((a, b) => -a)",
        "return Math.min(...post.users)",
        "return Math.round(post.id)",
        "return +post.id",
        "return [1, post.id].reduce((sum, id) => sum + id)",
        "return isNaN(post.id)",
    ],
)
async def test_what_would_round_says_what_to_write(posts: Posts, body: str) -> None:
    envelope = await run(posts, body)
    assert envelope["status"] == "runtime_error", envelope
    assert "beyond 2^53 are BigInts" in envelope["error"]["hint"]
    assert "Number(big)" in envelope["error"]["hint"]
    assert "a < b ? -1 : 1" in envelope["error"]["hint"]
