"""Calls through namespaces, in an enclave with a list of tools and in one without."""

from __future__ import annotations

from typing import Any

import pytest

from codecall.envelopes import ExecutionResult
from codecall.errors import (
    AccessDeniedError,
    IllegalAccess,
    MessageFloodError,
    ScriptError,
    SelfReferenceError,
    ToolNotFoundError,
)
from codecall.namespaces import MAX_NAMES
from codecall.sandbox.enclave import Enclave

NAMES = ("users:list", "users:get", "users:find-all", "users:then", "github/issues/create", "process:run", "any thing")
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in NAMES] + [{"name": "crm_ping", "appId": "crm"}]


def echo(name: str, arguments: dict[str, Any]) -> Any:
    return [name, arguments]


async def run(enclave: Enclave, script: str, **options: Any) -> ExecutionResult:
    return await enclave.execute(script, **{"tool_handler": echo, "tools": TOOLS, **options})


@pytest.mark.parametrize(
    ("script", "value"),
    [
        ("return await users.list({ limit: 5 })", ["users:list", {"limit": 5}]),
        ("return await users['list']()", ["users:list", {}]),
        ("return await users?.list?.({ a: 1 })", ["users:list", {"a": 1}]),
        ("return await users.find_all({})", ["users:find-all", {}]),
        ("return await users['find-all']({})", ["users:find-all", {}]),
        ("return await github.issues.create({ a: 1 })", ["github/issues/create", {"a": 1}]),
        ("return await github.issues_create({})", ["github/issues/create", {}]),
        ("return await crm.ping()", ["crm_ping", {}]),
        ("return await tools['any thing']({ a: 1 })", ["any thing", {"a": 1}]),
        ("return await tools['users:list']({})", ["users:list", {}]),
        ("return await tools.crm_ping({})", ["crm_ping", {}]),
        ("return await tools.users.get({})", ["users:get", {}]),
        ("return await tools.process.run({})", ["process:run", {}]),
        ("const name = 'list'; return await users[name]({})", ["users:list", {}]),
        ("const { list } = users; return await list({ a: 1 })", ["users:list", {"a": 1}]),
        ("const { 'users:get': get } = tools; return await get({})", ["users:get", {}]),
        ("const u = users; users.list; return await u.get({})", ["users:get", {}]),
        ("return await Promise.all([1, 2].map((id) => users.get({ id })))", [["users:get", {"id": n}] for n in (1, 2)]),
        ("return await Promise.all([{ id: 1 }].map(users.get))", [["users:get", {"id": 1}]]),
        (
            "return await __safe_parallel([() => users.get({}), () => crm.ping({})])",
            [["users:get", {}], ["crm_ping", {}]],
        ),
        ("return (await users.get({}, { throwOnError: false })).success", True),
        ("return users.list === users.list && users === tools.users === false", True),
        (
            "users.get; return ['list' in users, 'lst' in users, 'users:get' in tools, 'users' in tools]",
            [True, False, True, True],
        ),
        ("users.get; return Object.keys(users)", ["list", "get", "find_all"]),
        ("return 'list' in users", True),
        ("return Object.keys(users)", ["list", "get", "find_all"]),
        ("return Object.entries(crm).map(([name, tool]) => [name, typeof tool])", [["ping", "function"]]),
        ("return [typeof users, typeof users.list, typeof users.nothing]", ["object", "function", "function"]),
        ("users.get; return JSON.stringify([users, { ...users }])", "[{},{}]"),
        ("users.get; return [users, { tools }]", ["[namespace users]", {"tools": [*NAMES, "crm_ping"]}]),
        ("return Object.keys(tools)", [*NAMES, "crm_ping"]),
        ("return JSON.parse(JSON.stringify(tools))", [*NAMES, "crm_ping"]),
        ("return [...Object.keys(tools)].filter((name) => name.startsWith('git'))", ["github/issues/create"]),
        ("const t = tools; return [Object.entries(t).length, typeof t.toJSON]", [len(NAMES) + 1, "function"]),
        ("const { crm_ping } = tools; return await crm_ping({})", ["crm_ping", {}]),
        (
            "try { await users.get({ users }) } catch (e) { return e.message }",
            "The input contains users, which is a namespace of tools and no data",
        ),
        ("return [Object.isFrozen(users), Object.isFrozen(tools), Object.isFrozen(users.list)]", [True, True, True]),
        ("users.get; return (await users) === users && (await tools) === tools", True),
        ("return [users.then, users.toJSON, users.toString, tools.then].map((x) => typeof x)", ["undefined"] * 4),
        ("const tools = [1, 2]; return tools.length", 2),
        ("const users = { list: () => 7 }; return users.list()", 7),
        ("function f(users) { return users.length } return f('abc')", 3),
        ("return [1].map((users) => users.toFixed(1))", ["1.0"]),
    ],
)
async def test_what_a_namespace_is(enclave: Enclave, script: str, value: object) -> None:
    result = await run(enclave, script)
    assert result.error is None
    assert result.value == value


@pytest.mark.parametrize("script", ["return 'list' in usres", "return Object.keys(usres)"])
@pytest.mark.parametrize("tools", [TOOLS, None])
async def test_what_is_asked_for_its_members_is_a_namespace_of_tools(
    enclave: Enclave, script: str, tools: list[dict[str, Any]] | None
) -> None:
    result = await run(enclave, script, tools=tools)
    assert isinstance(result.error, IllegalAccess)
    assert result.error.message == "Unknown name 'usres'"


async def test_names_are_listed_as_far_as_the_script_may_call_them_and_no_further_than_a_bound(
    enclave: Enclave,
) -> None:
    allowed = await run(enclave, "return Object.keys(tools)", allowed_tools=["users:*", "any thing"])
    assert allowed.value == ["users:list", "users:get", "users:find-all", "users:then", "any thing"]
    many = [{"name": f"tool_{number}"} for number in range(MAX_NAMES + 45)]
    listed = await run(enclave, "return Object.keys(tools)", tools=many)
    assert listed.value == [*(tool["name"] for tool in many[:MAX_NAMES]), "… and 45 more"]
    unlisted = await run(enclave, "return [Object.keys(tools), tools]", tools=None)
    assert unlisted.value == [[], "[namespace tools]"]


@pytest.mark.parametrize("script", ["return await tools.list()", "tools.map((t) => t)", "callTool('search_tools', {})"])
async def test_who_looks_for_tools_is_told_their_names(enclave: Enclave, script: str) -> None:
    error = (await run(enclave, script)).error
    assert isinstance(error, ToolNotFoundError)
    assert error.hint is not None
    assert "`Object.keys(tools)` gives their names. There are users:list, users:get, users:find-all" in error.hint
    many = [{"name": f"tool_{number:03}"} for number in range(300)]
    error = (await run(enclave, script, tools=many)).error
    assert error is not None
    assert error.hint is not None
    assert error.hint.endswith("tool_039 and 260 more.")


@pytest.mark.parametrize("script", ["listTools()", "await search_tools('x')", "codecall_search({ query: 'x' })"])
async def test_a_function_that_looks_for_tools_is_refused_with_their_names(enclave: Enclave, script: str) -> None:
    error = (await run(enclave, script)).error
    assert isinstance(error, IllegalAccess)
    assert "There are users:list, users:get, users:find-all, users:then" in (error.hint or "")
    many = [{"name": f"tool_{number:03}"} for number in range(300)]
    error = (await run(enclave, script, tools=many)).error
    assert error is not None
    assert (error.hint or "").endswith("tool_038, tool_039 and others.")
    error = (await run(enclave, script, tools=many, allowed_tools=["tool_007"])).error
    assert error is not None
    assert (error.hint or "").endswith("There are tool_007.")


async def test_too_many_questions_are_told_as_what_they_are(enclave: Enclave) -> None:
    script = (
        "const n = (s) => Array.from({ length: 4000 }, (_, i) => (s + i) in tools); return [n('x'), n('y'), n('z')]"
    )
    # With time enough for a slow machine.
    result = await run(enclave, script, config={"timeout_ms": 50_000})
    assert isinstance(result.error, MessageFloodError)
    assert "looked for in a namespace" in (result.error.hint or "")


async def test_a_missing_member_says_which_there_are(enclave: Enclave) -> None:
    result = await run(enclave, "const a = 1;\nreturn await users.lst({})")
    assert isinstance(result.error, ToolNotFoundError)
    assert result.error.message == "users has no tool 'lst'; it has: list, get, find_all"
    assert result.error.hint == "No call was made. Did you mean users.list?"
    assert result.error.location is not None
    assert (result.error.location.line, result.error.location.column) == (2, 14)


async def test_a_missing_member_can_be_caught(enclave: Enclave) -> None:
    script = """
    const caught = await users.lst({}).catch((error) => [error.name, error.code, error.toolName]);
    const { success, error } = await users.lst({}, { throwOnError: false });
    const settled = await Promise.allSettled([users.lst({}), users.list({})]);
    return [caught, success, error.code, settled.map((one) => one.status)];
    """
    result = await run(enclave, script)
    assert result.value == [
        ["ToolError", "TOOL_NOT_FOUND", "users.lst"],
        False,
        "TOOL_NOT_FOUND",
        ["rejected", "fulfilled"],
    ]
    assert result.stats.tool_calls == 4


async def test_the_table_of_all_tools_misses_as_call_tool_does(enclave: Enclave) -> None:
    named, called = [await run(enclave, f"return await {what}") for what in ("tools.nobody({})", "callTool('nobody')")]
    assert isinstance(named.error, ToolNotFoundError)
    assert isinstance(called.error, ToolNotFoundError)
    assert named.error.message == called.error.message == "Tool 'nobody' was not found"


@pytest.mark.parametrize(
    ("script", "message", "hint"),
    [
        ("return usrs.list()", "Unknown name 'usrs'", "Did you mean the namespace `users`?"),
        ("return users", "Unknown name 'users'", "It is not defined"),
        ("users = 1; return users.list()", "Assigning to 'users' is not allowed", "variable of your own"),
        ("return process.run({})", "Identifier 'process' is not allowed", "Read settings"),
        ("return any.list({})", "Unknown name 'any'", "await tools['any_thing']({…})"),
        (
            "return users.list(limit=2)",
            "Unknown name 'limit'",
            "`limit=…` is Python; an input is an object: `await users.list({ limit: … })`.",
        ),
        (
            "return callTool('users:list', limit=2)",
            "Unknown name 'limit'",
            "an input is an object: `await callTool('users:list', { limit: … })`.",
        ),
        ("return callTool(nam='a')", "Unknown name 'nam'", "an input is an object: `await callTool({ nam: … })`."),
        ("return any_thing(any_thin=2)", "Unknown name 'any_thin'", "`await any_thing({ any_thin: … })`."),
        ("return [users.list, zzz.x]", "Unknown name 'zzz'", "It is not defined"),
        ("return thing", "Unknown name 'thing'", "It is not defined"),
        ("return things.map((x) => x)", "Unknown name 'things'", "It is not defined"),
        ("return [1].map(anyThing)", "Unknown name 'anyThing'", "await tools['any_thing']({…})"),
        (
            "return any_thing({ city })",
            "Unknown name 'city'",
            "The request's context has it: write `codecallContext.city`.",
        ),
        ("return cities.map((x) => x)", "Unknown name 'cities'", "write `codecallContext.cities`."),
        ("return any.x", "Unknown name 'any'", "write `codecallContext.any`."),
        ("cities = 5", "Unknown name 'cities'", "Declare it"),
        ("const users = await users.list({})", "'users' is used in the value it is given", "another name"),
        ("const { users } = await users.list({})", "'users' is used in the value it is given", "another name"),
        ("let [x = 1, users] = await users.list({})", "'users' is used in the value it is given", "another name"),
        ("for (const users of await users.list({})) {}", "'users' is used in the value it is given", "another name"),
    ],
)
async def test_what_is_no_namespace_is_refused(enclave: Enclave, script: str, message: str, hint: str) -> None:
    tools = [*TOOLS, {"name": "any_thing"}]
    context = {"city": "Bonn", "cities": ["Bonn"], "any": 1} if "codecallContext" in hint or "Declare" in hint else None
    result = await run(enclave, script, tools=tools, context=context)
    assert isinstance(result.error, IllegalAccess)
    assert message in result.error.message
    assert result.error.hint is not None
    assert hint in result.error.hint


@pytest.mark.parametrize(
    "script",
    [
        "const users = () => users.list; return typeof users()",
        "let users; users = 1; return users",
        "const f = async () => { for (const user of [1]) { const users = user; return users } }; return await f()",
        "const a = class { static a = 1 }; return a.a",
        "var x = x; return x ?? null",
        "const x = ((x) => x)(1); return x",
        "const x = 1; { const y = x; const z = y; return z }",
    ],
)
async def test_a_variable_in_its_own_value_is_refused_only_where_it_must_fail(enclave: Enclave, script: str) -> None:
    result = await run(enclave, script)
    assert not isinstance(result.error, IllegalAccess)


async def test_namespaces_cannot_be_changed(enclave: Enclave) -> None:
    script = """
    const tries = [
      () => { users.list = 1 }, () => { users.other = 1 }, () => { delete users.list }, () => { tools.x = 1 },
      () => { Object.assign(users, { list: 1 }) }, () => { Object.assign(tools, { a: 1 }) }, () => { users.list.x = 1 },
      () => { Object.create(users).list = 1 }, () => { tools['a'] += 1 },
    ];
    return tries.map((attempt) => { try { attempt(); return 'changed' } catch (error) { return error.name } });
    """
    result = await run(enclave, script)
    assert result.value == ["TypeError"] * 9


async def test_allowed_tools_hold(enclave: Enclave) -> None:
    allowed = ["users:get", "crm_*"]
    denied = await run(enclave, "return await users.list({})", allowed_tools=allowed)
    assert isinstance(denied.error, AccessDeniedError)
    missing = await run(enclave, "return await users.lst({})", allowed_tools=allowed)
    assert missing.error is not None
    assert missing.error.message == "users has no tool 'lst'; it has: get"
    listed = await run(
        enclave, "users.get; crm.ping; return [Object.keys(users), 'list' in users]", allowed_tools=allowed
    )
    assert listed.value == [["get"], True]


async def test_meta_tools_stay_out_of_reach(enclave: Enclave) -> None:
    for script in (
        "return tools['codecall:execute']({})",
        "return tools.codecall_search({})",
        "return tools[`codecall:${'execute'}`]",
        "const { codecall_execute } = tools; return 1",
        "return codecall.execute({})",
        "return codecall['search']({})",
        "return tools.codecall.execute({})",
        "const n = ['codecall', 'execute'].join(':'); return tools[n]",
        "const n = ['codecall', 'execute'].join('_'); try { return n in tools } catch { return 1 }",
        "const n = ['code', 'call'].join(''); return tools[n].execute({})",
        "const n = ['Code', 'Call '].join(''); return tools[n].search({})",
    ):
        result = await run(enclave, script)
        assert isinstance(result.error, SelfReferenceError), script


async def test_without_a_list_any_member_is_called_with_a_colon(enclave: Enclave) -> None:
    script = "const user = await users.get({ id: 1 }); return [user, await tools['a b']({}), await x['y z']({})]"
    result = await run(enclave, script, tools=None)
    assert result.value == [["users:get", {"id": 1}], ["a b", {}], ["x:y z", {}]]
    slip = await run(enclave, "const items = [1]; return itmes.map((x) => x)", tools=None)
    assert isinstance(slip.error, IllegalAccess)
    assert "Did you mean `items`?" in str(slip.error.hint)
    nothing = await run(enclave, "return users.list({})", tools=None, tool_handler=None)
    assert isinstance(nothing.error, IllegalAccess)


async def test_many_unknown_names_are_not_all_asked_for(enclave: Enclave) -> None:
    script = "".join(f"n{n}.x({{}});" for n in range(200)) + "users.list({})"
    result = await run(enclave, script)
    assert isinstance(result.error, IllegalAccess)
    few = "".join(f"users.m{n}({{}}).catch(() => 1);" for n in range(50)) + "return await users.list({})"
    assert (await run(enclave, few)).value == ["users:list", {}]


async def test_names_of_any_length_and_kind(enclave: Enclave) -> None:
    script = """
    const out = [];
    const inherited = ['__pro' + 'to__', 'const' + 'ructor'];
    for (const name of ['x'.repeat(1000), '', '\\n', '\\ud800', ...inherited, 'a.b', '.', 'тест']) {
      for (const space of [users, tools]) {
        const found = space[name];
        out.push(found === undefined ? 'undefined' : await found({}).catch((error) => error.code ?? error.name));
      }
    }
    users.list;
    return out;
    """
    result = await run(enclave, script)
    assert result.error is None
    missing, long, absent = "TOOL_NOT_FOUND", "TypeError", "undefined"
    assert result.value == [long] * 2 + [missing] * 6 + [absent] * 4 + [missing] * 6


async def test_errors_of_the_script_name_the_place(enclave: Enclave) -> None:
    result = await run(enclave, "const a = 1;\n  return await users.list('text')")
    assert isinstance(result.error, ScriptError)
    assert result.error.location is not None
    assert result.error.location.line == 2


async def test_a_script_that_comes_again_is_looked_up_again(enclave: Enclave) -> None:
    script = "return await send_mail({ n: 1 })"
    function = [{"name": "send_mail"}]
    for _ in range(2):
        assert (await run(enclave, script, tools=function)).value == ["send_mail", {"n": 1}]
    refused = await run(enclave, script, tools=[{"name": "sendMail"}])
    assert isinstance(refused.error, IllegalAccess)
    assert refused.error.message == "Unknown name 'send_mail'"
    assert "tools['sendMail']" in (refused.error.hint or "")
    assert (await run(enclave, script, tools=function)).value == ["send_mail", {"n": 1}]
    assert isinstance((await run(enclave, "const f = () => send_mail; f();", tools=TOOLS)).error, IllegalAccess)
    declared = "const send_mail = (x) => [x, send_mail.length]; return send_mail(1)"
    assert (await run(enclave, declared, tools=function)).value == [1, 1]
