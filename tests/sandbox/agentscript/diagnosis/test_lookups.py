"""Lookups in a script's own tables that find nothing: what is said of them where `undefined` stands in the result."""

from __future__ import annotations

import pytest

from codecall.errors import Location, ScriptError
from codecall.sandbox.enclave import Enclave

USERS = [{"id": 1, "name": "Ann"}, {"id": 2, "name": "Bo"}]
ORDERS = [{"no": number, "user_id": f"u{number}", "user": str(number), "kind": "a"} for number in (1, 2)]
SCRIPT = """\
const users = await callTool('users', {});
const orders = await callTool('orders', {});
const by = {}; for (const u of users) by[u.id] = u.name;
const map = new Map(users.map((u) => [u.id, u]));
"""


def answer(name: str, arguments: dict[str, object]) -> object:
    """The tools of these scripts."""
    return {"users": USERS, "orders": ORDERS, "notes": [{"text": "undefined: 1", "undefined": 1}]}[name]


OF_BY = '`by[o.user_id]` on line 5 found nothing 2 times, first for "u1". `by` has the keys "1", "2".'
OF_MAP = '`map.get(o.user_id)` on line 5 found nothing 2 times, first for "u1". `map` has the keys 1, 2.'
WRONG = {
    # Texts
    "return orders.map((o) => `${by[o.user_id]}: ${o.no}`)": OF_BY,
    "return orders.map((o) => 'by ' + by[o.user_id])": OF_BY,
    "return orders.map((o) => o.no + ': ' + by[o.user_id] + '\\n').join('')": OF_BY,
    "let text = ''; for (const o of orders) text += `- ${by[o.user_id]}\\n`; return text.trim().split('\\n')": OF_BY,
    "return orders.map((o) => `${map.get(o.user_id)?.name}!`)": OF_MAP,
    "return orders.map((o) => `${map.get(o.user_id)?.name.toUpperCase()}!`)": OF_MAP,
    "return orders.map((o) => String(map.get(o.user_id)))": OF_MAP,
    "return orders.map((o) => `${o.no ? by[o.user_id] : '-'}!`)": OF_BY,
    # By a variable, or a function
    "return orders.map((o) => { const name = by[o.user_id]; return `${name}: ${o.no}`; })": OF_BY,
    "let name; return orders.map((o) => { name = by[o.user_id]; return `${name}: ${o.no}`; })": OF_BY,
    "return orders.map((o) => { const u = map.get(o.user_id); const n = u?.name; return `${n}: ${o.no}`; })": OF_MAP,
    "const find = (o) => by[o.user_id]; return orders.map((o) => `${find(o)}: ${o.no}`)": OF_BY,
    "async function find(o) { return by[o.user_id]; } return `by ${await find(orders[0])}`": "found nothing once, for",
    # Keys
    "const n = {}; for (const o of orders) n[by[o.user_id]] = o.no; return n": OF_BY,
    "const n = {}; for (const o of orders) (n[by[o.user_id]] ??= []).push(o.no); return n": OF_BY,
    "const n = {}; for (const o of orders) n[by[o.user_id]]++; return Object.keys(n).length + JSON.stringify(n)": "",
    "return orders.map((o) => ({ [by[o.user_id]]: o.no }))": OF_BY,
    "return Object.fromEntries(orders.map((o) => [by[o.user_id], o.no]))": OF_BY,
    "return Object.groupBy(orders, (o) => by[o.user_id])": OF_BY,
    "const n = new Map(); for (const o of orders) n.set(by[o.user_id], o.no); return n": OF_BY,
    # What is wrong with the key, or the table
    "return orders.map((o) => `${map.get(o.user)?.name}!`)": "`map` has that key as a number, and this is a text",
    "const m = new Map([['1', 'Ann']]); return `${m.get(orders[0].no)}!`": "as a text, and this is a number",
    "return orders.map((o) => `${map[o.no]}!`)": "`map` is a Map: write `map.get(o.no)`.",
    "const none = {}; return orders.map((o) => `${none[o.no]}!`)": "`none` was empty.",
    "return orders.map((o) => `${by[o.mail]}!`)": "first for undefined. So `o.mail` is undefined",
    "const m = new Map(orders.map((o) => [o.no * 1000, 1])); return `${m.get(orders)}!`": "for an object.",
    "const t = {}; for (let n = 0; n < 9; n++) t[`k${n}`] = n; return `${t[orders[0].no]}!`": (
        '`t` has 9 keys, such as "k0", "k1", "k2".'
    ),
    "const t = { '`\\n': 1 }; return orders.map((o) => `${t[o.no]}!`)": '`t` has the keys "`\\n".'.replace(
        '"`\\n"', "…"
    ),
}


@pytest.mark.parametrize(("script", "text"), [item for item in WRONG.items() if item[1]])
async def test_a_lookup_that_leaves_undefined_is_warned_of(enclave: Enclave, script: str, text: str) -> None:
    result = await enclave.execute(SCRIPT + script, tool_handler=answer)
    assert result.error is None
    found = [warning for warning in result.warnings if warning.startswith("The result holds `undefined`: ")]
    assert len(found) == 1, (result.value, result.warnings)
    assert text in found[0], found


RIGHT = [
    "return orders.map((o) => `${by[o.user_id] ?? 'nobody'}: undefined`)",
    "return orders.map((o) => `${by[o.user]}: ${o.no}`)",
    "return orders.map((o) => `${map.get(o.no)?.name}: undefined`)",
    "return orders.map((o) => { const name = by[o.user_id]; return name ? `${name}: ${o.no}` : 'none'; })",
    "return orders.map((o) => { const name = by[o.user_id]; if (!name) return 'none'; return `${name}: ${o.no}`; })",
    "return orders.map((o) => { const name = by[o.user_id]; return `${name === undefined ? 'undefined' : name}`; })",
    "return orders.map((o) => (o.user_id in by ? `${by[o.user_id]}!` : 'none'))",
    "return orders.map((o) => `${map.has(o.user_id) ? map.get(o.user_id).name : 'none'}!`)",
    "return orders.map((o) => ({ no: o.no, name: by[o.user_id] }))",
    "return orders.map((o) => [by[o.user_id], o.no].join(' '))",
    "const n = {}; for (const o of orders) n[o.kind] = (n[o.kind] ?? 0) + 1; return n",
    "for (const o of orders) console.log(`${by[o.user_id]}: 1`); return await callTool('notes', {})",
    "const seen = {}; for (const o of orders) seen[`${by[o.user_id]}: 1`] = 1; return await callTool('notes', {})",
    "const seen = {}; for (const o of orders) seen[by[o.user_id]] = 1; return await callTool('notes', {})",
    "const t = { a: null }; return ['a'].map((k) => `${t[k]} is not undefined`)",
    "const t = { a: undefined }; const text = `${t['a']}`; return text.length",
    "const list = ['a']; return [1].map((i) => `${list[i]}!`)",
]


@pytest.mark.parametrize("script", RIGHT)
async def test_a_lookup_that_is_asked_for_or_not_seen_is_not(enclave: Enclave, script: str) -> None:
    result = await enclave.execute(SCRIPT + script, tool_handler=answer)
    assert (result.error, [text for text in result.warnings if "holds `undefined`" in text]) == (None, [])


async def test_at_most_three_lookups_are_warned_of(enclave: Enclave) -> None:
    script = "const t = {}; return ['a'].map((k) => `" + ", ".join(f"{n} ${{t[k + {n}]}}" for n in range(60)) + "`)"
    result = await enclave.execute(script, tool_handler=answer)
    assert len(result.warnings) == 3


async def test_what_a_table_gives_stays_what_it_was(enclave: Enclave) -> None:
    script = """
    let asked = 0;
    const table = { get size() { return ++asked; }, get(key) { asked++; return key === 'a' ? null : undefined; } };
    const key = () => { asked++; return 'x'; };
    return [`${table.get('a' + '')}`, `${table.get(key())} ${table[key()]}`, asked];
    """
    assert (await enclave.execute(script, tool_handler=answer)).value == ["null", "undefined undefined", 4]


async def test_a_failed_lookup_fails_where_it_stands(enclave: Enclave) -> None:
    script = "let t;\nconst k = 'a';\nreturn `${t[k]}`"
    error = (await enclave.execute(script, tool_handler=answer)).error
    assert isinstance(error, ScriptError)
    assert error.location == Location(3, 13)


HOSTILE = {
    "names": "".join(f"const v{n} = v{n - 1};\n" for n in range(1, 900)) + "return `${v899}`",
    "texts": "const t = {}; const k = 'a'; return [" + "`${t[k]}`,\n" * 2000 + "].length",
    "sums": "const t = {}; const k = 'a'; return (" + "'a' + t[k] +\n" * 1000 + "'').length",
    "keys": "const t = {}; for (let i = 0; i < 4000; i++) for (let j = 0; j < 20; j++) t[`k${i} ${j}`] = i; let n = 0; "
    + "n += `${t[n + 'x']}`.length;\n" * 60
    + "return n + 'undefined'",
}


@pytest.mark.parametrize("kind", HOSTILE)
async def test_many_lookups_cost_no_seconds(enclave: Enclave, kind: str) -> None:
    script = ("const v0 = {};" if kind == "names" else "") + HOSTILE[kind]
    result = await enclave.execute(script, tool_handler=answer)
    assert result.error is None, result.error
    assert result.stats is not None
    assert result.stats.script_ms < 2500
