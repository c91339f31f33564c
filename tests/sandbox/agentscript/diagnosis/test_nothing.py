"""Scripts that give nothing say why: one warning, which names the line and what was undefined."""

from __future__ import annotations

import json

import pytest

from codecall.sandbox.enclave import Enclave

SHAPE = "users returned {users: [{id: number, name: string}], next: null}."
TEXT = (
    "is undefined: text returned a text that is JSON: `JSON.parse` it first, "
    "to get {users: [{id: number, name: string}], next: null}."
)
NOT_REACHED = "Nothing was returned: no `return` that gives a value was reached."
NO_RETURN = "Nothing was returned: the script has no `return`. If a value matters, end with `return value`."


def answer(name: str, arguments: dict[str, object]) -> object:
    users = {"users": [{"id": 1, "name": "Ann"}], "next": None}
    if name == "draw":
        return [{"type": "image", "bytes": 70, "ref": "block:8a4f2bd70f35993f018ac23219f6d52d3e0f7499"}]
    return users if name == "users" else json.dumps(users) if name == "text" else arguments


@pytest.mark.parametrize(
    ("script", "warning"),
    [
        ("", "Nothing was returned: the script is empty."),
        ("const r = await callTool('users');\nconst n = r.users.length;", NO_RETURN),
        ("for (const id of [1, 2]) { await callTool('echo', { id }); }", NO_RETURN),
        (
            "const r = await callTool('users');\nreturn r.user",
            f"Nothing was returned: `r.user` on line 2 is undefined: {SHAPE} Did you mean `r.users`?",
        ),
        (
            "const { usrs } = await callTool('users');\nreturn usrs",
            f"Nothing was returned: `usrs` on line 2 is undefined: {SHAPE} Did you mean `users`?",
        ),
        (
            "const r = await callTool('users');\nreturn r.users.find((user) => user.id === 5)",
            "Nothing was returned: `r.users.find((user) => user.id === 5)` on line 2 is undefined: "
            f"{SHAPE} Nothing was found: test for it first, or write `?.` behind it.",
        ),
        (
            "const r = await callTool('users');\nreturn r.users.find((user) => user.id === 5)?.name",
            "Nothing was returned: `r.users.find((user) => user.id === 5)` on line 2 is undefined: "
            f"{SHAPE} Nothing was found: what was searched for is not there.",
        ),
        (
            "const main = async () => {\n  const r = await callTool('users');\n};\nreturn await main()",
            "Nothing was returned: the function on line 1 has no `return` that gives a value.",
        ),
        (
            "async () => { await callTool('users'); }",
            "Nothing was returned: no `return` that gives a value was reached.",
        ),
        (
            "(async () => { await callTool('users'); })()",
            "Nothing was returned: the function on line 1 has no `return` that gives a value.",
        ),
        (
            "const r = await callTool('users');\nif (r.users.length > 4) return 1;",
            "Nothing was returned: no `return` that gives a value was reached.",
        ),
        (
            "const r = await callTool('users');\nreturn r?.user?.[0]?.name",
            f"Nothing was returned: `r?.user` on line 2 is undefined: {SHAPE} Did you mean `r.users`?",
        ),
        (
            "const r = await callTool('users');\nreturn r.user?.map((user) => user.id)",
            f"Nothing was returned: `r.user` on line 2 is undefined: {SHAPE} Did you mean `r.users`?",
        ),
        (
            "const r = await callTool('users');\nreturn\n  r.users",
            "Nothing was returned: a line break ends `return` on line 2: "
            "begin its value on the same line, `return (…)`.",
        ),
        (
            "const main = async () => { return // the users\n  { users: await callTool('users') }\n};\nreturn main()",
            "Nothing was returned: a line break ends `return` on line 1: "
            "begin its value on the same line, `return (…)`.",
        ),
        *(
            (f"const r = await callTool('users');\n{script}", NOT_REACHED)
            for script in (
                "if (r.users.length > 4) return r.users[0].name;",
                "if (r.next) return r.next.name;",
                "if (r.next) return r.next.name; else if (r.users.length > 4) return r;",
                "switch (r.users.length) { case 4: return r.users[0].name; }",
                "for (const user of r.users) { if (user.id === 5) return user.name; }",
            )
        ),
        (
            "const r = await callTool('users');\nif (r.next) return r.user;",
            f"Nothing was returned: `r.user` on line 2 is undefined: {SHAPE} Did you mean `r.users`?",
        ),
        ("return; 5", "Nothing was returned: no `return` that gives a value was reached."),
        (
            "if (1 > 2) return\nawait callTool('users')",
            "Nothing was returned: no `return` that gives a value was reached.",
        ),
        (
            "return Symbol('x')",
            "Nothing was returned: the value of the script is a symbol, for which JSON has no form; "
            "return a text in its place.",
        ),
        (
            "return getTool('user')",
            "Nothing was returned: `getTool('user')` on line 1 is undefined: the script may call no tool of that name.",
        ),
        *(
            (
                f"const r = await callTool('users');\nconst list = r.users;\nreturn list.{name}",
                f"Nothing was returned: `list.{name}` on line 3 is undefined: {SHAPE} "
                "It is a list: write `list.length`.",
            )
            for name in ("lenght", "total", "count")
        ),
        ("return undefined", "Nothing was returned: `undefined` is written on line 1."),
        ("let x;\nreturn x", "Nothing was returned: `x` on line 2 is undefined."),
        (
            "const m = new Map([['a', 1]]); return m['a']",
            "Nothing was returned: `m['a']` on line 1 is undefined. `m` is a Map: write `m.get('a')`.",
        ),
        (
            "const m = new Map([['a', 1]]), k = 'a'; return m[k]",
            "Nothing was returned: `m[k]` on line 1 is undefined. `m` is a Map: write `m.get(k)`.",
        ),
        (
            "const s = new Set([1]); return s.length",
            "Nothing was returned: `s.length` on line 1 is undefined. `s` is a Set: write `s.size`.",
        ),
        (
            "const r = await callTool('users');\nconsole.log(r)",
            "Nothing was returned: `console.log(r)` on line 2 gives no value. If one matters, end with `return value`.",
        ),
        (
            "const f = () => 1;\nreturn f",
            "Nothing was returned: the value of the script is a function; call it, and return what it gives.",
        ),
        (
            "const r = await callTool('users');\nreturn r.users.map((user) => { user.name });",
            "A list in the result has only undefined items, which became null: "
            "the function on line 2 has no `return` that gives a value.",
        ),
        *(
            (
                f"const r = await callTool('users');\nreturn r.users.map({arrow});",
                "A list in the result has only undefined items, which became null: "
                "the function on line 2 has no `return` that gives a value. Write `=> ({ … })` to return an object.",
            )
            for arrow in ("(user) => { name: user.name }", "({ name }) => { name }", "({ id, name }) => { id, name }")
        ),
        (
            "const r = await callTool('users');\nreturn r.users.map((user) => user.nme);",
            "A list in the result has only undefined items, which became null: "
            f"`user.nme` on line 2 is undefined: {SHAPE} Did you mean `user.name`?",
        ),
        (
            "const r = await callTool('users');\nreturn r.users.filter((user) => { user.id === 1 })",
            "The callback of `.filter()` on line 2 returns nothing: with braces it needs a `return`.",
        ),
        (
            "const r = await callTool('users');\nreturn { count: r.users.length, list: r.user }",
            f"The result lacks a property: `r.user` on line 2 is undefined: {SHAPE} Did you mean `r.users`?",
        ),
        (
            "const [a, b] = await Promise.all([callTool('users'), callTool('users')]);\nreturn { count: a.length }",
            f"The result lacks a property: `a.length` on line 2 is undefined: {SHAPE} The list is `a.users`.",
        ),
        (
            "const p = await callTool('draw');\nreturn { data: p.data }",
            "The result lacks a property: `p.data` on line 2 is undefined: draw returned "
            "[{type: string, bytes: number, ref: string}]. The content stays outside of the script: `return p[0]` or "
            "`emit(p[0])` shows it, and a tool gets it for `p[0]` or `p[0].ref` in its input.",
        ),
        ("const r = await callTool('text');\nreturn r.users", f"Nothing was returned: `r.users` on line 2 {TEXT}"),
        (
            "const r = await callTool('text');\nreturn { count: 1, list: r.users }",
            f"The result lacks a property: `r.users` on line 2 {TEXT}",
        ),
    ],
)
async def test_a_script_that_gives_nothing_says_why(enclave: Enclave, script: str, warning: str) -> None:
    result = await enclave.execute(script, tool_handler=answer)
    assert result.status == "ok"
    assert result.warnings == (warning,)


@pytest.mark.parametrize(
    "script",
    [
        "await callTool('users')",
        "return null",
        "return (await callTool('users')).next",
        "return []",
        "return { note: undefined, ids: [undefined, 1] }",
        "const r = await callTool('users'); return { cursor: r.cursor }",
        "const r = await callTool('users'); return r.users.filter((user) => { return user.id === 2 })",
        "return [{ note: undefined }]",
    ],
)
async def test_a_script_that_means_to_give_little_is_not_warned(enclave: Enclave, script: str) -> None:
    result = await enclave.execute(script, tool_handler=answer)
    assert result.status == "ok"
    assert result.warnings == ()


WAITS_FOR_NOTHING = (
    "`.forEach()` on line 1 does not wait for its async callback: write `for (const x of items) { await … }`"
)
TRUE_FOR_ALL = (
    "()` on line 1 takes the promise of its async callback for true, whatever it comes to: get the values first"
)


@pytest.mark.parametrize(
    ("script", "warning"),
    [
        ("[1, 2].forEach(async (id) => { await callTool('echo', { id }) }); return 1", WAITS_FOR_NOTHING),
        ("await [1].forEach(async function (id) { await callTool('echo', { id }) }); return 1", WAITS_FOR_NOTHING),
        ("return [1, 2].filter(async (id) => (await callTool('echo', { id })).id > 1)", f"`.filter{TRUE_FOR_ALL}"),
        ("return [1, 2].find(async (id) => (await callTool('echo', { id })).id > 1)", f"`.find{TRUE_FOR_ALL}"),
        ("return [1].some(async (id) => (await callTool('echo', { id })).id > 1)", f"`.some{TRUE_FOR_ALL}"),
        ("return [1].every(async (id) => (await callTool('echo', { id })).id > 1)", f"`.every{TRUE_FOR_ALL}"),
    ],
)
async def test_a_method_that_waits_for_no_callback_is_named(enclave: Enclave, script: str, warning: str) -> None:
    result = await enclave.execute(script, tool_handler=answer)
    assert result.warnings[0].startswith(warning)
    assert not any("Write `await` in front" in text for text in result.warnings), result.warnings


@pytest.mark.parametrize(
    "script",
    [
        "return await Promise.all([1, 2].map(async (id) => (await callTool('echo', { id })).id))",
        "return await [1, 2].reduce(async (sum, id) => (await sum) + (await callTool('echo', { id })).id, 0)",
        "const found = await Promise.all([1, 2].map(async (id) => (await callTool('echo', { id })).id > 1));"
        "return [1, 2].filter((x, i) => found[i])",
    ],
)
async def test_async_callbacks_that_are_waited_for_are_not_warned_of(enclave: Enclave, script: str) -> None:
    result = await enclave.execute(script, tool_handler=answer)
    assert (result.status, result.warnings) == ("ok", ())


PAGE = "pages returned {items: [{id: number, name: string, amount: string}], total: number, next_cursor: string}."


def page(name: str, arguments: dict[str, object]) -> object:
    if name == "declared":
        return {"items": [{"id": 1}]}
    items = [{"id": number, "name": "Ann", "amount": "9.5"} for number in (1, 2)]
    return {"items": items, "total": 4} | ({} if arguments.get("cursor") else {"next_cursor": "2"})


@pytest.mark.parametrize(
    ("script", "warning"),
    [
        (
            "const { items, nextCursor } = p; return nextCursor ? items : []",
            "`nextCursor` {} Did you mean `next_cursor`?",
        ),
        (
            "let page = p; for (let i = 0; i < 5 && page.next; i++) {} return 1",
            "`page.next` {} Did you mean `page.next_cursor`?",
        ),
        ("return p.nextCursor ? 'more' : 'all'", "`p.nextCursor` {} Did you mean `p.next_cursor`?"),
        ("for (const c of p.items) if (c.nmae === 'Bob') return 1; return 0", "`c.nmae` {} Did you mean `c.name`?"),
        ("const { nmae } = p.items[0]; return { nmae }", "`nmae` {} Did you mean `name`?"),
        ("return p.items.map((c) => ({ id: c.id, fullName: c.fullName }))", "`c.fullName` {none}"),
        ("return p.items.map(({ id, fullName }) => ({ id, fullName }))", "`fullName` {none}"),
        ("return p.items.map((c) => `${c.title}!`)", "`c.title` {none}"),
        ("return p.items.reduce((sum, c) => sum + c.price, 0).toFixed(2)", "`c.price` {none}"),
        ("return p.items.filter((c) => c.active === 'yes').length", "`c.active` {none}"),
        ("return p.length > 0 ? 'some' : 'none'", "`p.length` {} The list is `p.items`."),
        ("return p.pages?.length ?? 0", "`p.pages` {} The list is `p.items`."),
        ("return p.items.filter((c) => new Date(c.day) < new Date(0)).length", "`c.day` {none}"),
    ],
)
async def test_a_property_that_no_answer_has_is_named(enclave: Enclave, script: str, warning: str) -> None:
    result = await enclave.execute(f"const p = await callTool('pages');\n{script}", tool_handler=page)
    assert result.status == "ok"
    undefined = "on line 2 is undefined:"
    assert warning.format(f"{undefined} {PAGE}", none=f"{undefined} no item has it. {PAGE}") in result.warnings


@pytest.mark.parametrize("line", ["A" * 19_000, "switch(" * 2_700, "=== a." * 3_100, "a . " * 4_700])
async def test_data_in_a_script_is_not_searched_for_words_again_and_again(enclave: Enclave, line: str) -> None:
    lines = "\n".join([line] * 2)
    script = f"const data = `{lines}`; const p = await callTool('pages'); return [data.length === 1, p.nothing ?? 0]"
    result = await enclave.execute(script, tool_handler=page)
    assert (result.status, result.value) == ("ok", [False, 0])


@pytest.mark.parametrize(
    "script",
    [
        "if (p.error) return p.error; return p.items.filter((c) => c.error).length",
        "return p.items.filter((c) => c.deleted).length",
        "return p.items.filter((c) => !c.active).length",
        "return p.items?.length ?? p.errors?.length ?? 0",
        "return p.items.map((c) => ({ id: c.id, note: c.note ?? 'none' }))",
        "return p.item ?? p.items",
        "const { note = 'none', items } = p; return [note, items.length]",
        "const totals = {}; for (const c of p.items) totals.nams = (totals.nams ?? 0) + 1; return totals.nams",
        "const all = []; let cursor; for (let i = 0; i < 5; i++) { const page = await callTool('pages', { cursor }); "
        "all.push(...page.items); cursor = page.next_cursor; if (!cursor) break; } return all.length",
        "const r = await callTool('declared'); return r.items.map((c) => `${c.note}`)",
    ],
)
async def test_a_property_that_may_be_missing_is_not_warned_of(enclave: Enclave, script: str) -> None:
    schema = {"type": "object", "properties": {"items": {"items": {"properties": {"note": {"type": "string"}}}}}}
    tools = [{"name": "pages"}, {"name": "declared", "outputSchema": schema}]
    result = await enclave.execute(f"const p = await callTool('pages');\n{script}", tool_handler=page, tools=tools)
    assert (result.status, result.warnings) == ("ok", ())
