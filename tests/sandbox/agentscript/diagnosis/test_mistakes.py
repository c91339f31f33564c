"""Scripts that take values of answers for something else, of the kinds that models write, and right ones like them."""

from __future__ import annotations

import pytest

from codecall.sandbox.enclave import Enclave

EVENTS = [
    {
        "id": "e1",
        "title": "A",
        "status": "confirmed",
        "start": "2026-03-01T10:00:00Z",
        "attendees": [{"email": "a@x", "reply": "accepted"}, {"email": "b@x", "reply": "declined"}],
        "place": None,
        "fee": "10.5",
    },
    {
        "id": "e2",
        "title": "B",
        "status": "cancelled",
        "start": "2026-03-02T10:00:00Z",
        "attendees": None,
        "place": {"name": "R1"},
        "fee": "",
    },
    {
        "id": "e3",
        "title": "C",
        "status": "confirmed",
        "start": None,
        "attendees": [{"email": "c@x", "reply": "accepted"}],
        "place": {"name": "R2"},
        "fee": None,
    },
]
ISSUES = [
    {"id": 1, "title": "x", "user": {"login": "ann"}, "labels": [{"name": "bug"}, {"name": "p1"}], "body": "t"},
    {"id": 2, "title": "y", "user": {"login": "bob"}, "labels": [], "body": None},
    {"id": 3, "title": "z", "user": {"login": "ann"}, "labels": [{"name": "ui"}], "body": "u"},
]
CHARGES = [
    {"id": "c1", "amount": 100, "currency": "usd", "created": 1767225600, "paid": "true", "at": "1767225600"},
    {"id": "c2", "amount": 200, "currency": "eur", "created": 1767312000, "paid": "false", "at": None},
]
ROWS = [
    {"id": "1", "price": "10", "day": "2026-01-05", "sum": None, "n": 1},
    {"id": "2", "price": "9", "day": "2026-02-05", "sum": "", "n": "2"},
    {"id": "3", "price": "100", "day": None, "sum": "5", "n": "3"},
]
ANSWERS: dict[str, object] = {
    "events": {"items": EVENTS, "next": None},
    "issues": ISSUES,
    "charges": {"data": CHARGES, "has_more": False},
    "rows": ROWS,
    "table": {"columns": ["region", "sum"], "rows": [["north", 10], ["south", 20]]},
    "orders": {"orders": {"edges": [{"node": {"id": "o1"}}, {"node": {"id": "o2"}}]}},
    "pairs": [["a", "10.50"], ["b", "9.25"]],
    "invoice": {"invoice": {"id": "i1", "total": 5, "currency": "EUR"}},
    "users": [{"id": 7, "name": "ann"}, {"id": 8, "name": "bob"}],
    "jira": {"issues": [{"key": "A-1"}], "total": 1, "maxResults": 50, "startAt": 0},
    "channels": {"ok": True, "channels": [{"id": "C1"}]},
    "last": {"items": [{"id": 1}], "nextSyncToken": "s1"},
    "deployments": [
        {"name": "a", "status": {"availableReplicas": 2}},
        {"name": "b", "status": {"availableReplicas": 1}},
    ],
    "pods": [{"name": "a", "labels": {"app": "x"}}, {"name": "b", "labels": {"app": "y"}}],
    "flags": [{"name": "dark", "on": "true"}, {"name": "beta", "on": "false"}],
    "stock": [{"sku": "0042", "qty": 3, "owner": {"name": "ann"}}, {"sku": "0043", "qty": 0, "owner": {"name": "bob"}}],
    "links": [{"node": {"id": "n1"}, "weight": 2}, {"node": {"id": "n2"}, "weight": 5}],
    "denied": {"data": None, "errors": [{"message": "no access"}]},
    "allowed": {"data": {"user": {"id": 1}}, "errors": []},
}


def answer(name: str, _arguments: dict[str, object]) -> object:
    return ANSWERS[name]


EVENT = "const { items } = await callTool('events'); "
ISSUE = "const issues = await callTool('issues'); "
CHARGE = "const { data } = await callTool('charges'); "
ROW = "const rows = await callTool('rows'); "
PAIR = "const [a, b] = await Promise.all([callTool('users'), callTool('rows')]); "
INVOICE = "const {{ {} }} = await callTool('invoice'); "
TABLE = "const t = await callTool('table'); "
USER = "const users = await callTool('users'); "

WRONG = [
    # What an answer has elsewhere
    (
        EVENT + "return items.flatMap((e) => (e.attendees || []).filter((a) => a.status === 'accepted'))",
        "`a.status` on line 1 is undefined",
    ),
    (EVENT + "const e = items[0]; return e.attendees.filter((a) => a.status === 'accepted').length", "`a.status`"),
    (
        EVENT + "const who = []; for (const e of items) for (const a of e.attendees ?? []) who.push({ a: a.title }); "
        "return who",
        "`a.title` on line 1 is undefined: no item has it.",
    ),
    (EVENT + "const people = items[0].attendees; return people.filter((p) => p.status === 'x').length", "`p.status`"),
    (ISSUE + "return issues.filter((i) => i.labels.some((l) => l.title === 'bug')).length", "`l.title`"),
    (ISSUE + "const u = issues.map((i) => i.user); return u.filter((x) => x.title === 'a').length", "`x.title`"),
    (
        TABLE + "return t.rows.map((x) => ({ region: x.region, sum: x.sum }))",
        "`x` is a list: use it as it is, or an item",
    ),
    (TABLE + "return t.rows.filter((x) => x.region === 'north').length", "`x` is a list: use it as it is, or an item"),
    ("const r = await callTool('orders'); return (r.orders.nodes || []).length", "The list is `r.orders.edges`."),
    # What is looked for among values of another kind
    (ISSUE + "return issues.filter((i) => i.labels.some((l) => l === 'bug')).length", "`l` is an object"),
    (
        EVENT + "return items.filter((e) => e.attendees?.includes('a@x')).length",
        "the items of `e.attendees` are objects",
    ),
    (EVENT + "return items.filter((e) => e.attendees && e.attendees.includes('a@x')).length", "are objects"),
    (
        ISSUE + "return issues.filter((i) => ['ann'].includes(i.user)).length",
        "`i.user` is an object, and the items of `['ann']` are texts. Write one of its properties.",
    ),
    (
        ROW + "return rows.filter((r) => [1, 2].includes(r.id)).length",
        "`r.id` is a text, and the items of `[1, 2]` are numbers. Write `Number(r.id)`.",
    ),
    (ROW + "const s = new Set([1, 2]); return rows.filter((r) => s.has(r.id)).length", "Write `Number(r.id)`."),
    (USER + "const s = new Set(['7']); return users.filter((u) => s.has(u.id)).length", "Write `String(u.id)`."),
    (USER + "const ids = ['7']; return users.filter((u) => ids.indexOf(u.id) >= 0).length", "is always -1"),
    (
        PAIR + "return a.filter((u) => b.some((r) => r.id === u.id)).length",
        "Write `String(r.id) === String(u.id)`.",
    ),
    # Sums
    (ROW + "let s = 0; for (const r of rows) s += r.sum || 0; return s", "Write `s += Number(r.sum || 0)`."),
    (ROW + "return rows.reduce((s, r) => s + (r.sum ?? 0), 0)", "Write `s + Number(r.sum ?? 0)`."),
    (ROW + "let s = 0; for (const r of rows) s += r.n; return s", "Write `s += Number(r.n)`."),
    (EVENT + "return items.reduce((s, e) => s + (e.fee || 0), 0)", "`e.fee` is a text."),
    (
        ROW + "const m = {}; for (const r of rows) m[r.id] = (m[r.id] || 0) + r.price; return m",
        "Write `(m[r.id] || 0) + Number(r.price)`.",
    ),
    (ROW + "const m = { a: 0 }; for (const r of rows) m.a += r.price; return m", "Write `m.a += Number(r.price)`."),
    (
        ROW + "const m = {}; for (const r of rows) { m[r.id] ??= 0; m[r.id] += r.price; } return m",
        "Write `m[r.id] += Number(r.price)`.",
    ),
    (
        EVENT + "return items[1].start - items[0].start > 0",
        "Write `Date.parse(items[1].start) - Date.parse(items[0].start)`.",
    ),
    (EVENT + "return [...items].sort((a, b) => a.title - b.title)[0].id", "`a.title` is a text."),
    (
        ROW + "const now = Date.now(); return rows.filter((r) => (now - r.day) / 864e5 > 30).length",
        "Write `now - Date.parse(r.day)`.",
    ),
    (
        "const all = []; all.push(await callTool('invoice')); all.push(await callTool('jira')); "
        "const seen = new Set(); seen.add(all[0]); " + ROW + "let s = 0; for (const r of rows) s += r.price; return s",
        "Write `s += Number(r.price)`.",
    ),
    # Dates
    (ROW + "return rows.filter((r) => r.day > new Date('2026-01-10')).length", "Write `new Date(r.day)`."),
    (
        CHARGE + "return data.filter((c) => c.created > Date.parse('2026-01-01')).length",
        "compares seconds with milliseconds: write `c.created * 1000`.",
    ),
    (CHARGE + "return data.map((c) => new Date(Number(c.created)).getFullYear())", "`new Date(c.created * 1000)`"),
    (CHARGE + "return new Date(+data[0].at).getFullYear()", "`new Date(data[0].at * 1000)`"),
    (EVENT + "return items.filter((e) => e.place < '2030').length", "`e.place` is an object."),
    # Objects as keys and as texts
    (ISSUE + "return new Set(issues.map((i) => i.user)).size", "`i.user` on line 1 is an object, and no two are the"),
    (ISSUE + "const m = new Map(); for (const i of issues) m.set(i.user, i.id); return m.size", "no two are the same"),
    (ISSUE + "return Object.keys(Object.groupBy(issues, (i) => i.user)).length", "is the key `[object Object]`"),
    (ISSUE + "const t = { ann: 'core' }; return issues.map((i) => t[i.user] ?? 'none')", "the key `[object Object]`"),
    (ISSUE + "return issues.map((i) => i.labels.join(', '))", "write `i.labels.map((item) => …)` with a property"),
    (ISSUE + "return issues.map((i) => `${i.title}: ${i.labels}`)", "write `i.labels.map((item) => …)`"),
    (ISSUE + "return issues.map((i) => String(i.user))", "write one of its properties, or `JSON.stringify(i.user)`"),
    # Conditions that are always true
    (CHARGE + "return data.filter((c) => c.currency = 'usd').length", "one `=` gives a value. Write `===`."),
    (CHARGE + "let n = 0; for (const c of data) { if (c.currency = 'usd') n++; } return n", "Write `===`."),
    (CHARGE + "return data.filter((c) => c.currency === 'usd' || 'eur').length", "is compared with nothing"),
    (CHARGE + "return data.filter((c) => c.id && c.currency === 'usd' || 'eur' || 'chf').length", "with nothing"),
    (CHARGE + "return data.filter((c) => c.paid).length", "Write `c.paid === 'true'`."),
    (CHARGE + "let n = 0; for (const c of data) if (c.paid && c.id) n++; return n", "Write `c.paid === 'true'`."),
    # Joins by values of two kinds, spelling, dates
    (
        CHARGE + "return data.filter((c) => c.currency == 1).length",
        "`c.currency == 1` on line 1 is always false: `c.currency` is a text, and `1` a number.",
    ),
    (
        PAIR + "const m = new Map(b.map((r) => [r.id, r])); return a.map((u) => m.get(u.id)?.price ?? 0)",
        "is always undefined: `u.id` is a number, and the keys of `m` are texts. Write `String(u.id)`.",
    ),
    (
        PAIR + "const s = new Set(b.map((r) => r.id)); return a.filter((u) => s.has(u.id)).length",
        "is always false: `u.id` is a number, and the items of `s` are texts.",
    ),
    (
        PAIR + "const ids = b.map((r) => r.id); return a.filter((u) => ids.includes(u.id)).length",
        "the items of `ids` are texts",
    ),
    (EVENT + "return items.filter((e) => e.status === 'CONFIRMED').length", "Write `'confirmed'`."),
    (
        EVENT + "return items.filter((e) => new Date(e.place) > new Date('2026-01-01')).length",
        "is no date: `e.place` is",
    ),
    (
        "const t = await callTool('pairs'); let s = 0; for (const p of t) s += p[1]; return s",
        "Write `s += Number(p[1])`.",
    ),
    (USER + "const ids = users.map((u) => u.id); return ids.includes('7')", "the items of `ids` are numbers"),
    (CHARGE + "if (data.filter((c) => c.amount > 900)) return 'some'; return 'none'", "Write `.length > 0`."),
    # What an answer has deeper, destructured
    (INVOICE.format("id, total") + "return `${id}: ${total}`", "Did you mean `{ invoice: { id } }`?"),
    (INVOICE.format("id, total") + "return { id, total }", "Did you mean `{ invoice: { id } }`?"),
    (INVOICE.format("currency") + "return currency === 'EUR' ? 1 : 2", "Did you mean `{ invoice: { currency } }`?"),
    (
        "const [{ total }, users] = await Promise.all([callTool('invoice'), callTool('users')]); "
        "return `${total} ${users.length}`",
        "Did you mean `{ invoice: { total } }`?",
    ),
    ("return await callTool('invoice').then(({ total }) => `${total}`)", "Did you mean `{ invoice: { total } }`?"),
    # Errors in an answer
    ("const r = await callTool('denied'); return r.data?.user ?? null", "denied returned `errors`, which the script"),
]


@pytest.mark.parametrize(("script", "says"), WRONG)
async def test_a_value_that_is_taken_for_something_else_is_warned_of(enclave: Enclave, script: str, says: str) -> None:
    result = await enclave.execute(script, tool_handler=answer)
    assert result.error is None
    assert len([text for text in result.warnings if says in text]) == 1, (result.value, result.warnings)


RIGHT = [
    ROW + "return rows.filter((r) => r.id == 1).length + rows.filter((r) => r.price != 'x' || r.price == '-1').length",
    EVENT + "return items.flatMap((e) => (e.attendees || []).filter((a) => a.reply !== 'no').map((a) => a.email))",
    EVENT + "return items.flatMap((e) => (e.attendees || []).map((a) => ({ t: e.title, s: e.status, r: a.reply })))",
    EVENT + "return items.map((x) => x.status).concat(items.flatMap((x) => (x.attendees ?? []).map((x) => x.email)))",
    ISSUE + "return issues.filter((i) => i.labels.some((l) => l.name === 'bug')).map((i) => i.title)",
    ISSUE + "return issues.flatMap(({ title, labels }) => labels.map(({ name }) => `${title}: ${name}`))",
    ISSUE + "return issues.filter((i) => i.labels.some((l) => (l.name ?? l) === 'bug')).length",
    TABLE + "return t.rows.map(([region, sum]) => ({ region, sum }))",
    TABLE + "return t.rows.map((row) => Object.fromEntries(t.columns.map((c, i) => [c, row[i]]))).map((r) => r.region)",
    ROW + "return rows.filter((r) => ['1', '2'].includes(r.id)).length",
    ROW + "const s = new Set([1, 2]); return rows.filter((r) => s.has(Number(r.id))).length",
    ROW + "const s = new Set(['1', 2]); return rows.filter((r) => s.has(r.id)).length",
    USER + "const s = new Set([7, 9]); return users.filter((u) => s.has(u.id)).length",
    USER + "const seen = new Set(); for (const u of users) seen.add(u); return seen.size",
    ISSUE + "return new Set(issues.map((i) => i.user.login)).size",
    ISSUE + "const m = new Map(issues.map((i) => [i, 1])); return m.get(issues[0])",
    ROW + "const m = {}; for (const r of rows) m[r.id] = (m[r.id] || '') + r.price; return m",
    ROW + "const m = {}; for (const r of rows) { m[r.id] ??= ''; m[r.id] += r.price; } return m",
    ROW + "let s = 0; for (const r of rows) s += Number(r.sum || 0); return s",
    CHARGE + "const m = {}; for (const c of data) m[c.currency] = (m[c.currency] || 0) + c.amount; return m",
    ROW + "return rows.filter((r) => r.day && new Date(r.day) > new Date('2026-01-10')).length",
    ROW + "return [...rows].sort((a, b) => a.price - b.price).map((r) => r.id)",
    CHARGE + "return data.filter((c) => c.created * 1000 > Date.parse('2026-01-01')).length",
    CHARGE + "return data.filter((c) => c.created > Date.parse('2026-01-01') / 1000).length",
    CHARGE + "return data.map((c) => new Date(c.created * 1000).getFullYear())",
    CHARGE + "return data.filter((c) => c.currency === 'usd' || c.currency === 'eur').length",
    CHARGE + "return data.filter((c) => c.paid === 'true').length",
    CHARGE + "data.forEach((c) => { c.seen = 'yes'; }); return data.length",
    CHARGE + "return data.map((c) => c.currency === 'usd' || 'other')",
    CHARGE + "const state = data[0].state || 'open'; return state === 'open' ? 1 : 2",
    ISSUE + "return issues.map((i) => i.labels.map((l) => l.name).join(', '))",
    ISSUE + "return issues.map((i) => JSON.stringify(i.user)).join()",
    # What the script writes itself
    ISSUE + "for (const i of issues) i.size = i.id > 1 ? 'big' : 's'; return issues.filter((i) => i.size === 'big')",
    ISSUE + "issues.forEach((i) => (i.seen = 'yes')); return issues.filter((i) => i.seen === 'yes').length",
    ISSUE + "for (const i of issues) i.rank ??= i.id * 2; return issues.filter((i) => i.rank > 2).length",
    ISSUE
    + "for (const i of issues) Object.assign(i, { kind: 'x' }); return issues.filter((i) => i.kind === 'x').length",
    ISSUE + "for (const i of issues) i['kind'] = 'x'; return issues.filter((i) => i.kind === 'x').length",
    ROW + "for (const r of rows) for (const k of ['id']) r[k] = Number(r[k]); return rows.filter((r) => r.id === 1)",
    ROW + "for (const k of ['price']) for (const r of rows) r[k] = +r[k]; return rows.reduce((s, r) => s + r.price, 0)",
    # What is there only for some
    "const r = await callTool('channels'); if (!r.ok) throw new Error(`Slack: ${r.error}`); return r.channels.length",
    "const r = await callTool('jira'); return (r.issues ?? r.results ?? []).length",
    "const r = await callTool('jira'); return (r.results ?? r.issues ?? []).length",
    "const all = []; for (let t = 'a'; t; ) { const r = await callTool('last', { t }); all.push(...r.items); "
    "t = r.nextPageToken; } return all.length",
    "const d = await callTool('deployments'); return d.filter((x) => x.status.unavailableReplicas > 0).length",
    "const d = await callTool('deployments'); return d.reduce((s, x) => s + (x.status.unavailableReplicas ?? 0), 0)",
    "const p = await callTool('pods'); return p.filter((x) => x.labels.tier === 'cache').length",
    "const p = await callTool('pods'); return p.filter((x) => x.state !== 'void').length",
    # Texts of booleans that are asked for first
    "const f = await callTool('flags'); return f.filter((x) => x.on && x.on !== 'false').length",
    "const f = await callTool('flags'); return f.map((x) => (x.on ? JSON.parse(x.on) : null))",
    "const f = await callTool('flags'); let n = 0; for (const x of f) if (!x.on) n++; return n",
    # Ready for both kinds
    "const s = await callTool('stock'); return s.filter((x) => x.qty !== '').length",
    "const s = await callTool('stock'); return s.filter((x) => !['', 'N/A'].includes(x.qty)).length",
    "const s = await callTool('stock'); return s.map((x) => (x.qty === 'N/A' ? 0 : x.qty))",
    "const s = await callTool('stock'); return s.map((x) => (x.owner === 'nobody' ? null : x.owner.name))",
    "const s = await callTool('stock'); return s.filter((x) => x.qty !== true && x.qty !== 3).length",
    ROW + "return (rows.find((r) => r.id === 1) ?? rows.find((r) => r.id === '1')).price",
    ISSUE + "return issues.filter((i) => i.labels.includes('bug') || i.labels.some((l) => l.name === 'bug')).length",
    ROW + "const s = new Set([1, 2]); return rows.filter((r) => s.has(r.id) || s.has(Number(r.id))).length",
    "const { invoice: { id, total } } = await callTool('invoice'); return `${id}: ${total}`",
    CHARGE + "if (data.filter((c) => c.amount > 900).length) return 'some'; return 'none'",
    ROW + "const now = Date.now(); return rows.filter((r) => (now - Date.parse(r.day)) / 864e5 > 30).length",
    # Objects by identity
    "const l = await callTool('links'); const w = new Map(); for (const x of l) w.set(x.node, x.weight); "
    "return l.map((x) => w.get(x.node))",
    "const l = await callTool('links'); const s = new Set(l.filter((x) => x.weight > 2).map((x) => x.node)); "
    "return l.filter((x) => s.has(x.node)).length",
    "const l = await callTool('links'); const bag = { ids: [], add(n) { bag.ids.push(n.id); } }; "
    "l.forEach((x) => bag.add(x.node)); return bag.ids",
    # Texts that are no numbers
    ROW + "return rows.flatMap((a) => rows.filter((b) => a.id < b.id)).length",
    "const s = await callTool('stock'); return s.map((x) => x.sku).reduce((a, b) => a + b)",
    CHARGE + "let from = Date.parse('2026-01-01'); from /= 1000; return data.filter((c) => c.created > from).length",
    CHARGE + "return data.filter((c) => c.amount > 0 && (c.tag = 'ok')).length",
    "const r = await callTool('allowed'); return r.data?.user ?? null",
    "const r = await callTool('denied'); return r",
    "const { data, errors } = await callTool('denied'); return errors.length > 0 ? 'denied' : data",
]


@pytest.mark.parametrize("script", RIGHT)
async def test_a_right_script_has_no_warning(enclave: Enclave, script: str) -> None:
    result = await enclave.execute(script, tool_handler=answer)
    assert (result.error, result.warnings) == (None, ())


PERSON = {"type": "object", "properties": {"email": {}, "reply": {}, "status": {}}}
EVENT_SCHEMA = {
    "$defs": {"Person": {**PERSON, "properties": {"email": {}, "reply": {}}}},
    "properties": {
        "items": {
            "type": "array",
            "items": {
                "properties": {
                    "status": {},
                    "attendees": {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/Person"}}, {"type": "null"}]},
                }
            },
        }
    },
}


@pytest.mark.parametrize(
    ("schema", "warnings"),
    [(EVENT_SCHEMA, 1), ({**EVENT_SCHEMA, "$defs": {"Person": PERSON}}, 0)],
    ids=["elsewhere", "there"],
)
@pytest.mark.parametrize("safe", [False, True])
async def test_what_a_tool_declares_there_may_be_missing(
    enclave: Enclave, schema: dict[str, object], warnings: int, safe: bool
) -> None:
    call = f"await callTool('events', {{}}, {{ throwOnError: {'false' if safe else 'true'} }})"
    script = f"const r = {call}; const {{ items }} = {'r.data' if safe else 'r'}; "
    script += "return items.flatMap((e) => e.attendees ?? []).filter((a) => a.status === 'accepted').length"
    result = await enclave.execute(script, tool_handler=answer, tools=[{"name": "events", "outputSchema": schema}])
    assert (result.error, len(result.warnings)) == (None, warnings), result.warnings


@pytest.mark.parametrize("key", ["name", "nme"])
async def test_what_an_answer_lacks_takes_no_run_its_outcome(enclave: Enclave, key: str) -> None:
    chain = "a=b;b=a;\n" * 400
    reads = "if (a.nme) b.nme;\n" * 150
    script = f"const r = await callTool('t'); let a = r, b = r; if (r.zz) {{{chain}}}\n{reads}return 1"
    result = await enclave.execute(script, tool_handler=lambda name, arguments: {"items": [{key: 1}], key: 5})
    assert (result.status, result.value) == ("ok", 1)
