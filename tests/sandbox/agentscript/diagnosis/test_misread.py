"""Two collections of scripts of the kinds that models write: right ones, which have no warning, and wrong ones that run
to their end all the same, which have one."""

from __future__ import annotations

import pytest

from codecall.sandbox.enclave import Enclave

ORDERS = [{"no": number, "status": "open", "total": 9.5, "address": {"city": "Oslo"}} for number in range(1, 4)]
PAGES = {
    None: {"items": [{"id": 1}, {"id": 2}], "total": 3, "next_cursor": "2"},
    "2": {"items": [{"id": 3}], "total": 3},
}


def answer(name: str, arguments: dict[str, object]) -> object:
    """The tools of these scripts."""
    page = arguments.get("page", 1)
    return {
        "orders_list": {"data": ORDERS, "page": page, "page_count": 2},
        "orders_get": ORDERS[0],
        "items_list": PAGES.get(arguments.get("cursor")),  # type: ignore[call-overload]
        "small_list": {"items": [{"id": 1}], "total": 1},
        "rows_list": {"rows": ORDERS, "page": 1, "pages": 3, "has_more": True},
        "stock_low": [{"sku": "a", "left": 1}, {"sku": "b", "left": 0}],
        "users_list": {"users_count": 1, "page": 1, "data": [{"id": 1}]},
        "sites_list": ["AMS", "BER"],
        "seats_list": [{"row": "A", "price_cents": cents, "paid": 0, "category": "box"} for cents in (4500, 2500, 900)],
        "cancel": "Order 1 was cancelled",
        "config": '{"zones": ["A"]}',
        "fx": 1.08,
        "note": 7,
        "send": None,
        "user": {"id": 1, "tags": ["a"], "name": "Ann"},
        "schema_orders": {"data": ORDERS, "page": page},
        "schema_user": {"id": 1, "tags": ["a"]},
        "result": {"success": True, "data": [1]},
        "fields": {"errors": [], "count": 0},
        "fail": {"success": True},
    }[name]


PAGE = {
    "properties": {
        "data": {"type": "array", "items": {"properties": {"no": {}, "address": {"properties": {"city": {}}}}}},
        "page": {},
    }
}
USER = {"properties": {"id": {}, "tags": {}, "items": {}, "nick": {}, "has_more": {}, "rate": {}}}
TOOLS = [
    *({"name": name} for name in ("orders_list", "orders_get", "items_list", "small_list", "stock_low", "sites_list")),
    *({"name": name} for name in ("cancel", "config", "fx", "note", "send", "user", "result", "fields")),
    *({"name": name} for name in ("loans", "books", "tasks", "rows_list", "seats_list", "users_list")),
    {"name": "schema_orders", "outputSchema": PAGE},
    {"name": "schema_user", "outputSchema": USER},
]

ORDERS_CALL = "const r = await callTool('orders_list', {}); "
STOCK = "const r = await callTool('stock_low', {}); "
USERS = "const r = await callTool('users_list', {}); "
SEATS = "const r = await callTool('seats_list', {}); "
CANCEL = "const r = await callTool('cancel', {}); "
SAFE = "const r = await callTool('orders_list', {}, { throwOnError: false }); "
LOOP = "const all = []; let cursor; for (let i = 0; i < 9; i++) { const p = await callTool('items_list', { cursor }); "
PER_PAGE = "const all = []; for (let page = 1; page < 9; page++) { const p = await callTool('orders_list', { page }); "
ALL = "all.push(...p.items); "

NORMALIZE = "const list = (x) => (Array.isArray(x) ? x : x.items || x.orders || x.results || x.data || []); "
ITEMS = "const list = (x) => x.items ?? []; "
PUSHED = LOOP + ALL + "cursor = p.next_cursor; if (!cursor) break; } "
TWO = "const a = await callTool('items_list', { cursor: 'none' }); const b = await callTool('orders_list', {}); "
RIGHT = [
    # Lists of the script's own
    PUSHED + "return all.filter((x) => x.id === 3).length",
    PUSHED + "return all.map((x) => ({ ...x, half: x.id / 2 })).filter((x) => x.half > 1).length",
    PUSHED + "return all.reduce((sum, x) => sum + (x.id || 0), 0)",
    PUSHED + "all.push({ id: 4, mine: true }); return all.filter((x) => x.mine).length",
    PUSHED + "const rows = all.map((x) => ({ kind: 'a', id: x.id })); return rows.filter((x) => x.kind === 'b').length",
    PUSHED + "const byId = {}; for (const x of all) byId[x.id] = x; return `${byId[1].id}`",
    PUSHED + "const ids = []; for (const x of all) ids.push(x.id); return ids.sort((a, b) => b - a)[0]",
    LOOP + "for (const x of p.items) all.push({ ...x, a: 1 }); break; } return all.filter((x) => x.a === 2).length",
    LOOP + "for (const x of p.items) all.push([x.id, x]); break; } return all.map(([id, x]) => `${id} ${x.id}`)",
    ORDERS_CALL + "const rows = r.data.concat(await callTool('stock_low', {})); "
    "return rows.filter((x) => x.status === 'open' || x.left === 0).length",
    ORDERS_CALL + "const rows = [...r.data, ...(await callTool('stock_low', {}))]; "
    "return [rows.filter((x) => x.status === 'open').length, rows.filter((x) => x.sku === 'a').length]",
    TWO + "return [...(a?.items ?? []), ...b.data].filter((x) => x.status === 'open').length",
    "const a = await callTool('fields', {}); const b = await callTool('orders_list', {}); "
    "return [...a.errors, ...b.data].filter((x) => x.reason === 'late').length",
    "const [o, s] = await Promise.all([callTool('orders_list', {}), callTool('stock_low', {})]); "
    "return [o.data.length, s.filter((x) => x.left === 0).length]",
    "const all = await Promise.all([1, 2].map((page) => callTool('orders_list', { page }))); "
    "return all.flatMap((r) => r.data).filter((o) => o.status === 'open').length",
    "const load = async () => { const r = await callTool('orders_list', {}); return { rows: r.data, n: 1 }; }; "
    "const { rows, n } = await load(); return [n, rows.filter((o) => o.status === 'open').length]",
    ORDERS_CALL + "const groups = Object.groupBy(r.data, (o) => o.status); "
    "return Object.entries(groups).map(([key, rows]) => [key, rows.reduce((sum, o) => sum + (o.total || 0), 0)])",
    "const all = await Promise.allSettled([callTool('user', {}), callTool('user', {})]); "
    "return all.map((r) => (r.status === 'fulfilled' ? r.value.name : r.reason.message))",
    "const all = await Promise.allSettled([callTool('user', {})]); return all.filter((r) => r.value).length",
    # A similar name that is there
    SEATS + "return r.reduce((a, x) => a + (x.price ?? x.price_cents / 100), 0)",
    SEATS + "return r.reduce((a, x) => a + (x.price || 0) + x.price_cents / 100, 0)",
    SEATS + "return r.reduce((a, x) => a + (x.unpaid || 0), 0)",
    USERS + "return r.users ?? r.users_count",
    USERS + "return (r.users ?? r.data).length",
    SEATS + "return r.map((x) => x.price ?? 'none')",
    # Destructured, and mapped
    ORDERS_CALL + "return r.data.filter(({ status }) => status === 'open').length",
    ORDERS_CALL + "let n = 0; for (const { no, coupon } of r.data) if (coupon) n += no; return n",
    ORDERS_CALL + "return r.data.map(({ no, nick }) => `${no} ${nick ?? '-'}`)",
    ORDERS_CALL + "return r.data.map(({ no, nick }) => (nick ? `${no} ${nick}` : `${no}`))",
    ORDERS_CALL + "const { nick } = r.data[0]; if (nick === undefined) return 'none'; return nick === 'Ann'",
    ORDERS_CALL + "let { nick } = r.data[0]; nick ??= 'none'; return nick === 'Ann'",
    ORDERS_CALL + "return r.data.map((o) => o.nick).filter((nick) => nick !== undefined).length",
    ORDERS_CALL + "return r.data.map((o) => o.nick ?? 'none').join(', ')",
    ORDERS_CALL + "const nicks = r.data.map((o) => o.nick); return nicks.filter((x) => x != null).length",
    ORDERS_CALL + "return r.data.map((o) => o.nick).map((nick) => nick ?? 'none').join()",
    ORDERS_CALL + "return r.data.map((o) => o.deleted_at).filter(Boolean).length",
    ORDERS_CALL + "return r.data.map((o) => o.closed_at).filter(Boolean).length",
    ORDERS_CALL + "return r.data.map((o) => o.closed_at).filter((day) => day)",
    ORDERS_CALL + "return r.data.map((o) => o.closed_at).filter(function (day) { return day; }).sort()[0] ?? 'none'",
    ORDERS_CALL + "const days = r.data.map((o) => o.closed_at).sort(); return days.filter((day) => day)[0] ?? 'none'",
    ORDERS_CALL + "return [...new Set(r.data.map((o) => o.closed_at))].filter(Boolean)",
    ORDERS_CALL
    + "const days = new Set(r.data.map((o) => o.closed_at)); return Array.from(days).filter((day) => !!day)",
    ORDERS_CALL + "return new Set(r.data.map((o) => o.status)).size",
    # A list whose properties are asked for, and which is used
    STOCK + "if (r.items) return r.items.length; return r.length",
    STOCK + "return r.total ?? r.length",
    STOCK + "const rows = r.wares ?? r; return rows.length",
    # Several names of a list
    ORDERS_CALL + "const list = r.orders || r.items || r.data || []; return list.length",
    ORDERS_CALL + "return (r.orders ?? r.data).length",
    ORDERS_CALL + "return (r.orders ? r.orders : r.data).length",
    ORDERS_CALL + "return (Array.isArray(r.orders) ? r.orders : r.data).length",
    ORDERS_CALL + "return ('orders' in r ? r.orders : r.data).length",
    ORDERS_CALL + "const { orders, data } = r; return (orders ?? data).length",
    ORDERS_CALL + "return [r.orders, r.items, r.data].find(Array.isArray).length",
    ORDERS_CALL + "const rows = Array.isArray(r) ? r : r.orders ?? r.items ?? r.data ?? []; return rows.length",
    ORDERS_CALL + "const rows = r.orders ?? Object.values(r).find(Array.isArray) ?? []; return rows.length",
    ORDERS_CALL + "let rows = r.items || []; for (const k of ['data']) rows = r[k] ?? rows; return rows.length",
    ORDERS_CALL + "const { data: rows, orders = rows } = r; return orders.length",
    ORDERS_CALL + "const { items, ...rest } = r; return (items ?? rest.data).length",
    ORDERS_CALL + "const pick = (x) => x.data; const rows = r.orders ?? pick(r); return rows.length",
    ORDERS_CALL + "if (r.items) return r.items.length; return r.data.length",
    "const get = (name) => callTool(name, {}); const a = await get('orders_list'); const b = await get('small_list'); "
    "return [(a.data ?? []).length, (b.items ?? []).length]",
    NORMALIZE + ORDERS_CALL + "return list(r).length",
    # Functions of the script's own
    ITEMS + ORDERS_CALL + "return [list(r).length, r.data.length]",
    ITEMS + ORDERS_CALL + "return list({ items: r.data }).length",
    ITEMS + "return [await callTool('small_list', {}), await callTool('orders_list', {})].map(list)",
    ITEMS + "return [list(await callTool('items_list', {})), list(await callTool('orders_list', {}))]",
    ITEMS + "const take = (x, f) => f(x); return take(await callTool('orders_list', {}), list)",
    ITEMS + "const x = await callTool('orders_list', {}); return " + "+ ".join(["list(x).length"] * 9),
    "const list = (x) => x.items ?? x.data ?? []; return list(await callTool('orders_list', {})).length",
    "const list = (x, key = 'items') => x[key] ?? []; return list(await callTool('orders_list', {}), 'data').length",
    "const list = ({ items, data }) => items ?? data ?? []; return list(await callTool('orders_list', {})).length",
    "function list(x) { if (x.items) return x.items; return x.data; } "
    "return list(await callTool('orders_list', {})).length",
    "const deep = (x) => (x.inner ? deep(x.inner) : (x.data ?? x.items ?? [])); "
    "return deep(await callTool('orders_list', {})).length",
    "const same = (x) => { if (x) return x; return null; }; " + ORDERS_CALL + "return (r.items ?? same(r).data).length",
    "const text = (x) => JSON.stringify({ ...x }); " + ORDERS_CALL + "return [text(r), (r.items ?? []).length]",
    "const name = (u) => (u.mail ? `${u.name} <${u.mail}>` : u.name); return name(await callTool('user', {}))",
    "let list = (x) => x.items ?? []; list = (x) => x.data; return list(await callTool('orders_list', {})).length",
    ORDERS_CALL
    + "let rows; if (r.orders) rows = r.orders; else if (r.data) rows = r.data; else rows = r; return rows.length",
    ORDERS_CALL + "const rows = (r && (r.orders || r.data)) || []; return rows.length",
    ORDERS_CALL + "const rows = r?.data?.orders ?? r?.data ?? []; return rows.length",
    "const r = await callTool('user', {}); const u = r.user ?? r.data ?? r; return u.name",
    "const r = await callTool('user', {}); return [r.data?.name ?? r.name]",
    ORDERS_CALL + "const rows = r.items ?? r.data ?? []; return rows.length",
    ORDERS_CALL + "const rows = Array.isArray(r) ? r : (r.items ?? r.data ?? []); return rows.length",
    ORDERS_CALL + "const rows = Array.isArray(r?.items) ? r.items : r.data; return rows.length",
    "let n = 0; for (const t of ['orders_list', 'small_list']) { const r = await callTool(t, {}); "
    "for (const x of r.data ?? r.items ?? []) n++; } return n",
    "const u = await callTool('user', {}); return (u.content ?? u.text ?? '').length",
    "const u = await callTool('user', {}); const text = u.content || u.body || 'none'; return text.slice(0, 10)",
    "const f = await callTool('fields', {}); return (f.results ?? f.rows ?? []).length",
    # Lists, and what may be one
    STOCK + "const rows = Array.isArray(r) ? r : (r.items ?? r.data ?? []); return rows.length",
    STOCK + "return (Array.isArray(r) ? r : r.items).length",
    STOCK + "const rows = r.items || r.data || r; return rows.length",
    STOCK + "const rows = r.items?.length ? r.items : r; return rows.map((x) => x.sku)",
    STOCK + "if (r.error) return r.error; return r.length",
    STOCK + "return { n: r.length, items: (r.items ?? []).length }",
    STOCK + "const { items = r } = r; return items.length",
    STOCK + "let rows = r.items; if (!rows) rows = r; return rows.length",
    # Texts, numbers, nothing
    CANCEL + "return r.message ?? r",
    CANCEL + "return typeof r === 'string' ? r : r.status",
    CANCEL + "if (r.error || r.success === false) return 'failed'; return 'done'",
    CANCEL + "if (r && r.status === 'error') return 'failed'; return 'done'",
    CANCEL + "const text = r.text || r.content || String(r); return text.trim().length",
    CANCEL + "return { length: r.length, loud: r.toUpperCase() }",
    "const r = await callTool('config', {}); "
    "const d = typeof r === 'string' ? JSON.parse(r) : r; return d.zones.length",
    "const fx = await callTool('fx', {}); return 100 * (fx.rate ?? fx)",
    "const fx = await callTool('fx', {}); const rate = typeof fx === 'number' ? fx : fx.rate; return rate.toFixed(1)",
    "const id = await callTool('note', {}); return `note ${id?.id ?? id}`",
    "const s = await callTool('sites_list', {}); return s.map((x) => (typeof x === 'string' ? x : x.code))",
    "const s = await callTool('sites_list', {}); return s.map((x) => x.code ?? x)",
    "const r = await callTool('send', {}); return r?.error ? 'failed' : 'sent'",
    "const r = await callTool('send', {}); return r?.on_hand ?? 0",
    "const r = await callTool('send', {}); if (!r) return 'sent'; return r.success ? 'sent' : 'failed'",
    "const r = await callTool('send', {}); return r?.success ?? true",
    "const r = await callTool('send', {}); return r == null || r.success",
    CANCEL + "return r.success ?? true",
    "const r = await callTool('send', {}); return r?.status ?? 'none'",
    "const all = await Promise.all([1, 2].map(() => callTool('cancel', {}))); return all.map((r) => r.message ?? r)",
    "const all = await Promise.allSettled([callTool('cancel', {})]); return all.map((r) => r.status === 'fulfilled')",
    "const r = await callTool('note', {}); const id = r.id !== undefined ? r.id : r; return id",
    "const r = await callTool('fx', {}); return Number.isFinite(r) ? r : r.rate",
    # Properties that may be missing
    "const u = await callTool('user', {}); return { name: u.name, note: u.note ?? 'none' }",
    "const u = await callTool('user', {}); return { id: u.id, nick: u.nick, phone: u.phone }",
    "const u = await callTool('user', {}); return { phone: u.phone }",
    "const u = await callTool('user', {}); return { tag: u.tags.find((x) => x === 'b'), mail: u.mail }",
    "const u = await callTool('user', {}); return { error: u.error, warning: u.warning }",
    "const u = await callTool('schema_user', {}); return { nick: u.nick, rate: u.rate }",
    "const u = await callTool('user', {}); return u.mail ? `${u.name} <${u.mail}>` : u.name",
    "const u = await callTool('user', {}); const l = [u.name]; if (u.phone) l.push(`Phone: ${u.phone}`); return l",
    "const u = await callTool('user', {}); return u.age !== undefined && u.age * 2 > 30 ? 'old' : 'young'",
    "const u = await callTool('user', {}); return u.body ?? ''",
    "const u = await callTool('user', {}); return u.content || 'nothing'",
    "const u = await callTool('user', {}); return (u.friends ?? []).length",
    "const u = await callTool('user', {}); return u.deleted_at ? 'gone' : 'there'",
    "const u = await callTool('user', {}); return u?.profile?.phone ?? null",
    "const u = await callTool('user', {}); const { role = 'member' } = u; return role",
    "const u = await callTool('schema_user', {}); return [(u.items ?? []).length, u.nick ?? 'none']",
    "const u = await callTool('schema_user', {}); const { items = [] } = u; return items.length",
    "const f = await callTool('fields', {}); return (f.results ?? []).length",
    ORDERS_CALL + "return r.data.filter((o) => o.error === 'late').length",
    ORDERS_CALL + "return r.data.filter((o) => o.kind === 'failed').length",
    ORDERS_CALL + "return r.data.filter((o) => o.status === 'shipped').length",
    ORDERS_CALL + "return r.data.filter((o) => o.kind === 'a' || o.status === 'open').length",
    ORDERS_CALL + "return r.data.filter((o) => o.parent && o.parent.id === 3).length",
    ORDERS_CALL + "return r.data.filter((o) => !o.closed).map((o) => `${o.no}: ${o.note ?? ''}`)",
    ORDERS_CALL + "return r.data.map((o) => `${o.address?.city ?? 'undefined'}`)",
    ORDERS_CALL + "return r.data.reduce((s, o) => s + o.total - (o.rebate ?? 0), 0)",
    ORDERS_CALL + "let n = 0; for (const o of r.data) n += o.discount ?? 0; return n",
    ORDERS_CALL + "return r.data.map(({ no, points = 0 }) => ({ no, points }))",
    ORDERS_CALL + "return r.data.map((o) => o.total + (o.points ?? 0))",
    ORDERS_CALL + "const n = {}; for (const o of r.data) n[o.status] = (n[o.status] ?? 0) + 1; return n",
    ORDERS_CALL + "const n = {}; for (const o of r.data) n[o.kind ?? 'undefined'] = 1; return n",
    ORDERS_CALL + "const names = { a: 1 }; return r.data.map((o) => names[o.kind] ?? 'undefined')",
    # A result that says whether it succeeded
    SAFE + "if (!r.success) return { err: r.error.message }; return r.data.data.length",
    SAFE + "return r.error ? r.error.code : r.data.page",
    SAFE + "const { success, data, error } = r; return success ? data.page : error.message",
    SAFE + "return { done: r.success, error: r.error }",
    SAFE + "return r.success ? (r.data.orders ?? r.data.data).length : 0",
    "const r = await callTool('cancel', {}, { throwOnError: false }); return r.data.error ? 'failed' : r.data",
    SAFE + "return r.ok ?? r.success",
    SAFE + "const d = r.data ?? r; return r.page ?? d.page",
    "const all = await Promise.all(['a', 'b'].map(() => callTool('fx', {}, { throwOnError: false }))); "
    "return all.filter((r) => r.success).map((r) => r.data)",
    "const r = await callTool('result', {}); return r.success ? r.data.length : r.error ?? r.message ?? 'failed'",
    # Pages
    LOOP + ALL + "cursor = p.next_cursor; if (!cursor) break; } return all.length",
    LOOP
    + "all.push(...p.items); cursor = p.next_cursor ?? p.nextCursor ?? null; if (!cursor) break; } return all.length",
    LOOP + ALL + "if (all.length >= p.total) break; cursor = p.next_cursor; } return all.length",
    LOOP
    + "all.push(...p.items); if (!p.next_cursor && !p.has_more) break; cursor = p.next_cursor; } return all.length",
    PER_PAGE + "all.push(...p.data); if (p.page >= p.page_count) break; } return all.length",
    PER_PAGE + "all.push(...p.data); if (!p.has_more && page >= p.page_count) break; } return all.length",
    PER_PAGE + "all.push(...p.data); if (p.data.length < 3 || page === 2) break; } return all.length",
    "const p = await callTool('small_list', {}); return { rows: p.items, more: !!p.next_cursor }",
    "const p = await callTool('small_list', {}); "
    "const all = [...p.items]; if (p.hasMore) all.push(1); return all.length",
    "let p = await callTool('items_list', {}); const all = [...p.items]; "
    "for (let i = 0; i < 9 && p.next_cursor; i++) { "
    "p = await callTool('items_list', { cursor: p.next_cursor }); all.push(...p.items); } return all.length",
]


@pytest.mark.parametrize("script", RIGHT)
async def test_a_right_script_has_no_warning(enclave: Enclave, script: str) -> None:
    result = await enclave.execute(script, tool_handler=answer, tools=TOOLS)
    assert (result.error, result.warnings) == (None, ())


WRONG = [
    # The list has another name
    (ORDERS_CALL + "return (r.items ?? []).length", "`r.items`", "The list is `r.data`."),
    (ORDERS_CALL + "const rows = r.results || []; return rows.length", "`r.results`", "The list is `r.data`."),
    (ORDERS_CALL + "return (r.items ?? r.rows ?? []).length", "`r.items`", "The list is `r.data`."),
    (ORDERS_CALL + "const rows = r.items || r.rows || []; return rows.length", "`r.items`", "The list is `r.data`."),
    (ORDERS_CALL + "const rows = r?.items ?? r?.rows; return rows?.length ?? 0", "`r?.items`", "The list is `r.data`."),
    (
        ORDERS_CALL + "const rows = Array.isArray(r) ? r : (r.items ?? r.rows ?? []); return rows.length",
        "`r.items`",
        "The list is `r.data`.",
    ),
    (
        "const all = await Promise.all([1, 2].map((page) => callTool('orders_list', { page }))); "
        "return all.flatMap((r) => r.items ?? r.results ?? []).length",
        "`r.items`",
        "The list is `r.data`.",
    ),
    (ORDERS_CALL + "const { items, rows } = r; return (items ?? rows ?? []).length", "`items`", "The list is `data`."),
    (ORDERS_CALL + "let n = 0; for (const o of r.items || []) n++; return n", "`r.items`", "The list is `r.data`."),
    (ORDERS_CALL + "return Array.isArray(r.rows) ? r.rows.length : 0", "`r.rows`", "The list is `r.data`."),
    (ORDERS_CALL + "const rows = r.rows; return rows?.length ?? 0", "`r.rows`", "The list is `r.data`."),
    (ORDERS_CALL + "const { records } = r; return (records || []).length", "`records`", "The list is `data`."),
    (ORDERS_CALL + "return r.orders?.length ?? 0", "`r.orders`", "The list is `r.data`."),
    (USERS + "return r.users?.length ?? 0", "`r.users`", "The list is `r.data`."),
    (USERS + "return (r.users || []).map((x) => x.id)", "`r.users`", "The list is `r.data`."),
    (USERS + "return r.users?.map((x) => x.id)", "`r.users`", "The list is `r.data`."),
    (ORDERS_CALL + "console.log(r); return (r.items ?? []).length", "`r.items`", "The list is `r.data`."),
    ("const { items = [] } = await callTool('orders_list', {}); return items.length", "`items`", "The list is `data`."),
    (
        "const { orders = [] } = await callTool('orders_list', {}); return orders.length",
        "`orders`",
        "The list is `data`.",
    ),
    (
        "return ((await callTool('orders_list', {})).items ?? []).length",
        ".items`",
        "callTool('orders_list', {})).data`.",
    ),
    (
        "const a = await callTool('small_list', {}); const b = await callTool('orders_list', {}); "
        "return a.items.length + (b.items ?? []).length",
        "`b.items`",
        "The list is `b.data`.",
    ),
    # The list is looked for by a function
    (ITEMS + "return list(await callTool('orders_list', {})).length", "`x.items`", "The list is `x.data`."),
    (ITEMS + ORDERS_CALL + "return list(r).length", "`x.items`", "The list is `x.data`."),
    (ITEMS + "return list(await callTool('stock_low', {})).length", "`x.items`", "leave `.items` out"),
    (
        "function list(x) { if (Array.isArray(x)) return x; return x.items ?? []; } "
        "return list(await callTool('orders_list', {})).length",
        "`x.items`",
        "The list is `x.data`.",
    ),
    (
        "const n = ({ items = [] } = {}) => items.length; return n(await callTool('orders_list', {}))",
        "`items`",
        "The list is `data`.",
    ),
    (
        "const get = async (name) => await callTool(name, {}); " + ITEMS + "return list(await get('orders_list'))",
        "`x.items`",
        "The list is `x.data`.",
    ),
    (
        "const list = (x) => x.items ?? x.rows ?? []; "
        "return [list(await callTool('small_list', {})), list(await callTool('orders_list', {}))]",
        "`x.rows`",
        "The list is `x.data`.",
    ),
    # The keywords of a schema are no properties
    (
        "return ((await callTool('schema_orders', {})).items ?? []).length",
        ".items`",
        "callTool('schema_orders', {})).data`.",
    ),
    (
        "const { data } = await callTool('schema_orders', {}); return data.filter((o) => o.type === 'a').length",
        "`o.type`",
        "",
    ),
    (
        "const { data } = await callTool('schema_orders', {}); return data.map((o) => `${o.no} ${o.city}`)",
        "`o.city`",
        "Did you mean `o.address.city`?",
    ),
    # The answer is the list
    (STOCK + "return (r.items || []).length", "`r.items`", "leave `.items` out"),
    (STOCK + "return (r.data ?? []).length", "`r.data`", "leave `.data` out"),
    (STOCK + "return r.result?.length ?? 0", "`r.result`", "leave `.result` out"),
    ("const { items = [] } = await callTool('stock_low', {}); return items.length", "`items`", "leave `.items` out"),
    # The value is not wrapped
    ("const r = await callTool('user', {}); return r.data?.name ?? 'nobody'", "`r.data`", "leave `.data` out"),
    # A text, a number
    (
        CANCEL + "if (r.success) return 'done'; return 'could not cancel'",
        "`r.success`",
        "`r` is a text: use it as it is.",
    ),
    (CANCEL + "return r?.success ? 'done' : 'not done'", "`r?.success`", "`r` is a text: use it as it is."),
    (CANCEL + "return { ok: r.success, msg: r.message }", "`r.success`", "`r` is a text: use it as it is."),
    (
        CANCEL + "return r.status === 'cancelled-ok' || r.state === 'done'",
        "`r.state`",
        "`r` is a text: use it as it is.",
    ),
    (
        "const fx = await callTool('fx', {}); return 100 * (fx.rate ?? 1)",
        "`fx.rate`",
        "`fx` is a number: use it as it is.",
    ),
    ("const w = await callTool('fx', {}); return w.value > 2", "`w.value`", "`w` is a number: use it as it is."),
    ("const id = await callTool('note', {}); return `note ${id.id}`", "`id.id`", "`id` is a number: use it as it is."),
    ("const { id } = await callTool('note', {}); return id ?? null", "`id`", "It is a number: use it as it is."),
    ("const r = await callTool('config', {}); return r.zones?.length ?? 0", "`r.zones`", "`JSON.parse` it first"),
    (
        "const s = await callTool('sites_list', {}); return s.filter((x) => x.active).length",
        "`x.active`",
        "`x` is a text: use it as it is.",
    ),
    (
        "const r = await callTool('send', {}); return r?.success ? 'sent' : 'not sent'",
        "`r?.success`",
        "nothing to test.",
    ),
    # A result that says whether it succeeded
    (SAFE + "if (!r.ok) return { err: r.error }; return r.data", "`r.ok`", "it is `r.success`, not `ok`."),
    (SAFE + "return (r.data.orders ?? []).length", "`r.data.orders`", "The list is `r.data.data`."),
    (
        "const r = await callTool('fx', {}, { throwOnError: false }); return 100 * (r.data.rate ?? 1)",
        "`r.data.rate`",
        "`r.data` is a number: use it as it is.",
    ),
    (
        "const r = await callTool('stock_low', {}, { throwOnError: false }); return (r.data.items ?? []).length",
        "`r.data.items`",
        "leave `.items` out",
    ),
    (SAFE + "return r.isError ? 'failed' : 'done'", "`r.isError`", "it is `r.success`, not `isError`."),
    (SAFE + "if (r.success) return r.value ?? 0; return 0", "`r.value`", "the value is `r.data`."),
    (SAFE + "return r.success ? r.page : 0", "`r.page`", "the value is `r.data`: `r.data.page`."),
    (
        "const all = await Promise.all([1, 2].map(() => callTool('fx', {}, { throwOnError: false }))); "
        "return all.filter((r) => r.status === 'fulfilled').length",
        "`r.status`",
        "it is `r.success`, not `status`.",
    ),
    # Pages
    (
        PER_PAGE + "all.push(...p.data); if (!p.has_more) break; } return all.length",
        "`p.has_more`",
        "by `p.page_count`.",
    ),
    (PER_PAGE + "all.push(...p.data); if (!p.next) break; } return all.length", "`p.next`", "by `p.page_count`."),
    (
        "const r = await callTool('rows_list', {}); return r.nextPage ? 'more' : r.rows.length",
        "`r.nextPage`",
        "said by `r.has_more`.",
    ),
    (
        LOOP + ALL + "cursor = p.pageToken; if (!cursor) break; } return all.length",
        "`p.pageToken`",
        "said by",
    ),
    (LOOP + ALL + "if (!p.hasMore) break; } return all.length", "`p.hasMore`", "said by"),
    (
        LOOP + ALL + "cursor = p.pagination?.next; if (!cursor) break; } return 1",
        "`p.pagination`",
        "said by",
    ),
    # What callbacks ask
    (ORDERS_CALL + "return r.data.filter((o) => o.type === 'lamp' && o.total > 5).length", "`o.type`", ""),
    (ORDERS_CALL + "return r.data.some((o) => { return o.kind === 3; })", "`o.kind`", ""),
    # What is left of a result
    ("const u = await callTool('user', {}); return { mail: u.mail, total: u.total }", "`u.mail`", ""),
    # What a key shows
    (ORDERS_CALL + "const n = {}; for (const o of r.data) n[o.kind] = (n[o.kind] ?? 0) + 1; return n", "`o.kind`", ""),
    (ORDERS_CALL + "const n = {}; for (const o of r.data) (n[o.kind] ??= []).push(o.no); return n", "`o.kind`", ""),
    (ORDERS_CALL + "return Object.fromEntries(r.data.map((o) => [o.id_no, o.status]))", "`o.id_no`", ""),
    (ORDERS_CALL + "return Object.groupBy(r.data, (o) => o.kind)", "`o.kind`", ""),
    (ORDERS_CALL + "return r.data.map((o) => ({ [o.kind]: o.no }))", "`o.kind`", ""),
    (
        ORDERS_CALL + "const n = {}; for (const o of r.data) { const key = o.kind; n[key] = o.no; } return n",
        "`o.kind`",
        "",
    ),
    # What is added up
    (ORDERS_CALL + "return r.data.reduce((s, o) => s + (o.sum || 0), 0)", "`o.sum`", ""),
    (SEATS + "return r.reduce((a, x) => a + (x.price || 0), 0)", "`x.price`", "Did you mean `x.price_cents`?"),
    (SEATS + "let n = 0; for (const x of r) n += x.cents ?? 0; return n", "`x.cents`", "`x.price_cents`?"),
    (SEATS + "return r.reduce((a, { price = 0 }) => a + price, 0)", "`price`", "`price_cents`?"),
    (SEATS + "return r.filter((x) => x.categories).length", "`x.categories`", "Did you mean `x.category`?"),
    (ORDERS_CALL + "let n = 0; for (const o of r.data) n += o.amount ?? 0; return n", "`o.amount`", ""),
    (ORDERS_CALL + "return r.data.reduce((s, { amount = 0 }) => s + amount, 0)", "`amount`", ""),
    (ORDERS_CALL + "let n = 0; for (const o of r.data) if (o.kind === 'a') n++; return n", "`o.kind`", ""),
    (ORDERS_CALL + "return r.data.map((o) => (o.kind === 'a' ? 1 : 2))", "`o.kind`", ""),
    # In lists of the script's own
    (PUSHED + "return all.filter((x) => x.kind === 'a').length", "`x.kind`", ""),
    (PUSHED + "return all.reduce((sum, x) => sum + (x.amount || 0), 0)", "`x.amount`", ""),
    (PUSHED + "return all.sort((a, b) => b.years - a.years).slice(0, 2)", "`b.years`", ""),
    (PUSHED + "const n = {}; for (const x of all) n[x.kind] = 1; return n", "`x.kind`", ""),
    (
        LOOP + "for (const x of p.items) all.push(x); break; } return all.reduce((sum, x) => sum + (x.Id || 0), 0)",
        "`x.Id`",
        "Did you mean `x.id`?",
    ),
    (
        "let all = []; for (const page of [1, 2]) { const p = await callTool('orders_list', { page }); "
        "all = all.concat(p.data); } return all.filter((x) => x.kind === 'a').length",
        "`x.kind`",
        "",
    ),
    (
        "let all = []; for (const page of [1, 2]) { const p = await callTool('orders_list', { page }); "
        "all = [...all, ...(p.data ?? [])]; } return all.filter((x) => x.kind === 'a').length",
        "`x.kind`",
        "",
    ),
    (
        "async function load() { " + PUSHED + "return all; } "
        "const rows = await load(); return rows.filter((x) => x.kind === 'a').length",
        "`x.kind`",
        "",
    ),
    (
        "return (await Promise.all([1, 2].map((page) => callTool('orders_list', { page })))).flatMap((r) => r.data)"
        ".filter((o) => o.kind === 'a').length",
        "`o.kind`",
        "",
    ),
    (
        "const rs = await Promise.all([1, 2].map(async (page) => { const r = await callTool('orders_list', { page }); "
        "return r.data; })); return rs.flat().filter((o) => o.kind === 'a').length",
        "`o.kind`",
        "",
    ),
    (
        "const ps = []; for (const page of [1, 2]) ps.push(callTool('orders_list', { page })); let n = 0; "
        "for (const r of await Promise.all(ps)) for (const o of r.data) n += o.amount ?? 0; return n",
        "`o.amount`",
        "",
    ),
    (
        ORDERS_CALL + "return r.data.map((o) => ({ ...o, n: 1 })).filter((o) => o.kind === 'a').length",
        "`o.kind`",
        "",
    ),
    (
        ORDERS_CALL + "const byNo = {}; for (const o of r.data) byNo[o.no] = o; return `${byNo[1].city}`",
        "`byNo[1].city`",
        "Did you mean `byNo[1].address.city`?",
    ),
    (
        ORDERS_CALL + "return Object.values(Object.groupBy(r.data, (o) => o.status)).map((rows) => "
        "rows.reduce((sum, o) => sum + (o.sum || 0), 0))",
        "`o.sum`",
        "",
    ),
    # In what `Promise.allSettled` gives
    (
        "const all = await Promise.allSettled([callTool('user', {})]); return all.map((r) => r.name ?? 'none')",
        "`r.name`",
        "With `allSettled` it is `r.value.name`.",
    ),
    # Pages that end with a condition on what is not there
    (
        PER_PAGE + "if (!p.length) break; all.push(...p); } return all.length",
        "`p.length`",
        "The list is `p.data`.",
    ),
    # What is destructured
    (ORDERS_CALL + "return r.data.filter(({ kind }) => kind === 'a').length", "`kind`", ""),
    (ORDERS_CALL + "let n = 0; for (const { no, kind } of r.data) if (kind === 'a') n += no; return n", "`kind`", ""),
    (ORDERS_CALL + "const { kind } = r.data[0]; return kind === 'a'", "`kind`", ""),
    (ORDERS_CALL + "const { no, kind } = r.data.find((o) => o.no === 1); return `${no}: ${kind}`", "`kind`", ""),
    (ORDERS_CALL + "return r.data.map(({ no, kind }) => `${no}: ${kind}`)", "`kind`", ""),
    (ORDERS_CALL + "const kind = r.data[0].kind; return kind === 'a' ? 'yes' : 'no'", "`r.data[0].kind`", ""),
    # What a list is made of
    (ORDERS_CALL + "return r.data.map((o) => o.totals).filter(Boolean).length", "`o.totals`", "`o.total`?"),
    (ORDERS_CALL + "return new Set(r.data.map((o) => o.kind)).size", "`o.kind`", ""),
    (ORDERS_CALL + "return r.data.map((o) => o.kind).join(', ')", "`o.kind`", ""),
    (ORDERS_CALL + "const kinds = r.data.map(({ kind }) => kind); return kinds.includes('a')", "`kind`", ""),
    (ORDERS_CALL + "return r.data.map((o) => o.amount).reduce((a, b) => a + b, 0)", "`o.amount`", ""),
    (ORDERS_CALL + "let n = 0; for (const x of r.data.map((o) => o.amount)) n += x; return n", "`o.amount`", ""),
    # The answer is a list, which has no such property
    (STOCK + "return (r.wares ?? []).length", "`r.wares`", "`r` is a list: use it as it is, or an item, `r[0]`."),
    (STOCK + "const { wares = [] } = r; return wares.length", "`wares`", "It is a list: use it as it is."),
    (
        ORDERS_CALL + "return (r.data.rows ?? []).length",
        "`r.data.rows`",
        "`r.data` is a list: use it as it is, or an item",
    ),
    # What a text shows
    (ORDERS_CALL + "return r.data.map((o) => `${o.no} ${o.customer?.name}`)", "`o.customer`", ""),
    (ORDERS_CALL + "return r.data.map((o) => `${o.no} ${o.city}`)", "`o.city`", "Did you mean `o.address.city`?"),
]


@pytest.mark.parametrize(("script", "what", "advice"), WRONG)
async def test_a_wrong_script_that_ends_well_is_warned(enclave: Enclave, script: str, what: str, advice: str) -> None:
    result = await enclave.execute(script, tool_handler=answer, tools=TOOLS)
    assert result.error is None
    found = [text for text in result.warnings if what in text.partition(" is undefined: ")[0] and advice in text]
    assert len(found) == 1, (result.value, result.warnings)


LOANS = [{"id": number, "isbn": f"b{number % 3}", "member": "m1"} for number in range(5)]
BOOKS = [{"isbn": f"b{number}", "title": f"Title {number}"} for number in range(3)]
LIBRARY = "const { items: loans } = await callTool('loans', {}); const books = await callTool('books', {}); "


def library(name: str, _arguments: dict[str, object]) -> object:
    return {"loans": {"items": LOANS}, "books": BOOKS, "tasks": [{"id": number} for number in range(4)]}[name]


@pytest.mark.parametrize(
    ("script", "what"),
    [
        ("return books.map((b) => loans.filter((l) => l.book === b.isbn).length)", "l.book"),
        ("return loans.map((l) => books.find((b) => b.number === l.isbn)?.title ?? 'none')", "b.number"),
        ("return books.map((b) => ({ b, n: loans.filter((l) => l.isbn === b.id).length }))", "b.id"),
        ("return loans.map(({ book }) => books.find((b) => b.isbn === book)?.title ?? 'none')", "book"),
        ("const by = new Map(books.map((b) => [b.isbn, b])); return loans.map((l) => by.get(l.book) ?? 0)", "l.book"),
        ("const by = new Map(books.map((b) => [b.no, b])); return loans.map((l) => by.get(l.isbn) ?? 0)", "b.no"),
        (
            "const by = new Map(); for (const b of books) by.set(b.no, b); "
            "return loans.map((l) => by.get(l.isbn) ?? 0)",
            "b.no",
        ),
        ("const ids = books.map((b) => b.isbn); return loans.filter((l) => ids.includes(l.book)).length", "l.book"),
        ("const ids = new Set(books.map((b) => b.isbn)); return loans.filter((l) => ids.has(l.book)).length", "l.book"),
        (
            "const ids = new Set(); for (const b of books) ids.add(b.isbn); "
            "return loans.filter((l) => ids.has(l.book)).length",
            "l.book",
        ),
        ("const by = {}; for (const b of books) by[b.isbn] = b; return loans.map((l) => by[l.book] ?? 0)", "l.book"),
        ("const by = {}; for (const b of books) by[b.no] = b; return loans.map((l) => by[l.isbn] ?? 0)", "b.no"),
        (
            "const by = Object.fromEntries(books.map((b) => { return [b.no, b]; })); "
            "return loans.map((l) => by[l.isbn] ?? 0)",
            "b.no",
        ),
        ("const by = Object.groupBy(loans, (l) => l.book); return books.map((b) => by[b.isbn]?.length ?? 0)", "l.book"),
        (
            "const by = Map.groupBy(loans, (l) => l.book); return books.map((b) => by.get(b.isbn)?.length ?? 0)",
            "l.book",
        ),
        ("const want = 'b1'; return loans.filter((l) => l.book === want).length", "l.book"),
        ("return loans.filter((l) => l.reader === codecallContext.reader).length", "l.reader"),
        ("const { reader: me } = codecallContext; return loans.filter((l) => l.reader === me).length", "l.reader"),
        ("const ids = ['b1', 'b2']; return loans.filter((l) => ids.includes(l.book)).length", "l.book"),
        ("const ids = new Set(['b1', 'b2']); return loans.filter((l) => ids.has(l.book)).length", "l.book"),
        ("return loans.map((l) => { switch (l.state) { case 'open': return 1; default: return 0; } })", "l.state"),
    ],
)
async def test_answers_that_are_joined_by_a_property_that_one_lacks(enclave: Enclave, script: str, what: str) -> None:
    result = await enclave.execute(LIBRARY + script, tool_handler=library, tools=TOOLS, context={"reader": "m1"})
    assert result.error is None
    assert [text.partition(" on line")[0] for text in result.warnings] == [f"`{what}`"], result.value


TASKS = "const tasks = await callTool('tasks', {}); "


@pytest.mark.parametrize(
    "script",
    [
        TASKS + "return tasks.map((t) => tasks.filter((x) => x.parentId === t.id).length)",
        TASKS + "const by = new Map(tasks.map((t) => [t.id, t])); return tasks.map((t) => by.get(t.parentId) ?? 0)",
        LIBRARY + "return loans.map((l) => books.find((b) => b.isbn === (l.book ?? l.isbn)).title)",
        LIBRARY + "return loans.map((l) => books.find((b) => b.isbn === l.book || b.isbn === l.isbn).title)",
        LIBRARY + "return loans.map((l) => (l.book ? books.find((b) => b.isbn === l.book).title : 'none'))",
        LIBRARY + "return books.map((b) => loans.filter((l) => l.isbn === b.isbn).length)",
        LIBRARY + "return books.map((b) => loans.filter((l) => l.lost !== b.isbn).length)",
        LIBRARY + "const by = {}; for (const b of books) by[b.isbn] = b; return loans.map((l) => by[l.isbn].title)",
    ],
)
async def test_a_join_that_may_be_right_has_no_warning(enclave: Enclave, script: str) -> None:
    result = await enclave.execute(script, tool_handler=library, tools=TOOLS)
    assert (result.error, result.warnings) == (None, ())


EDGES = {"edges": [{"node": {"name": "a", "stars": 5}}, {"node": {"name": "b", "stars": 50}}], "total": 2}
TRANSFER = {"transfer": {"id": "tr1", "status": "PENDING"}}
EVENTS = [
    {"id": 1, "room": {"name": "R1"}, "attendees": [{"status": "accepted"}]},
    {"id": 2, "room": None, "attendees": []},
]
NODE = {"type": "object", "properties": {"name": {}, "stars": {}}}
DAYS = {
    "days": {"2025-03-01": {"temp": 11}, "2025-03-02": {"temp": 12}},
    "spots": {"items": [{"name": "Rome"}], "total": 1},
    "total": 1,
}
DEEP_TOOLS = [
    *({"name": name} for name in ("weather", "page", "person")),
    {"name": "repos"},
    {"name": "transfer", "observedOutput": {"properties": {"transfer": {"properties": {"id": {}, "status": {}}}}}},
    {"name": "events"},
    {
        "name": "typed",
        "outputSchema": {
            "$defs": {"Node": NODE, "Edge": {"properties": {"node": {"$ref": "#/$defs/Node"}}}},
            "properties": {"edges": {"items": {"$ref": "#/$defs/Edge"}}},
        },
    },
    {
        "name": "optional",
        "outputSchema": {"properties": {"edges": {"items": {"properties": {"stars": {}, "node": NODE}}}}},
    },
]


def deep(name: str, _arguments: dict[str, object]) -> object:
    answers: dict[str, object] = {"transfer": TRANSFER, "events": EVENTS, "weather": DAYS}
    answers |= {"page": {"data": ORDERS, "next": None}, "person": {"id": 1, "groups": [{"name": "a"}]}}
    return answers.get(name, EDGES)


REPOS = "const { edges } = await callTool('repos', {}); "
MOVE = "const t = await callTool('transfer', {}); "
PAGE_OF_ROWS = "const r = await callTool('page', {}); "
USERS = "const u = await callTool('person', {}); "
WEATHER = "const w = await callTool('weather', {}); "
MEETINGS = "const events = await callTool('events', {}); "


@pytest.mark.parametrize(
    ("script", "what", "advice"),
    [
        (REPOS + "return edges.filter((e) => e.stars > 10).length", "e.stars", "Did you mean `e.node.stars`?"),
        (REPOS + "return edges.reduce((s, e) => s + (e.stars ?? 0), 0)", "e.stars", "Did you mean `e.node.stars`?"),
        (REPOS + "return edges.sort((a, b) => b.stars - a.stars)[0]", "b.stars", "Did you mean `b.node.stars`?"),
        (REPOS + "return edges.some((e) => e.name === 'b')", "e.name", "Did you mean `e.node.name`?"),
        (REPOS + "return edges.map((e) => (e.name || '').toUpperCase())", "e.name", "Did you mean `e.node.name`?"),
        (
            "const { edges } = await callTool('typed', {}); return edges.filter((e) => e.stars > 10).length",
            "e.stars",
            "Did you mean `e.node.stars`?",
        ),
        (MOVE + "return t.status === 'PENDING' ? 'pending' : 'done'", "t.status", "Did you mean `t.transfer.status`?"),
        (
            MOVE + "return { id: t.transfer.id, late: t.status !== 'DONE' }",
            "t.status",
            "Did you mean `t.transfer.status`?",
        ),
        (
            MOVE + "switch (t.status) { case 'PENDING': return 1; default: return 0; }",
            "t.status",
            "Did you mean `t.transfer.status`?",
        ),
        (MEETINGS + "return events.filter((e) => e.status === 'accepted').length", "e.status", "no item has it."),
        (WEATHER + "return w.days.length > 2", "w.days.length", "is `Object.keys(w.days).length`."),
        (WEATHER + "return w.total.length > 2 ? 1 : 0", "w.total.length", "`w.total` is a number: use it as it is."),
        (PAGE_OF_ROWS + "let n = 0; for (const s of r.wares ?? []) n++; return n", "r.wares", "The list is `r.data`."),
        (
            MOVE + "return t.success ? 'done' : 'failed'",
            "t.success",
            "A call that fails throws: there is nothing to test.",
        ),
        (
            MOVE + "if (!t.ok) return 'failed'; return 'done'",
            "t.ok",
            "A call that fails throws: there is nothing to test.",
        ),
        (
            REPOS + "const n = {}; for (const e of edges) n[e.kind] = 1; return Object.keys(n).length",
            "e.kind",
            "no item has it.",
        ),
        (WEATHER + "return w.spots.length > 2", "w.spots.length", "The list is `w.spots.items`."),
    ],
)
async def test_what_stands_deeper_in_an_answer_is_warned_of(
    enclave: Enclave, script: str, what: str, advice: str
) -> None:
    result = await enclave.execute(script, tool_handler=deep, tools=DEEP_TOOLS)
    assert result.error is None
    assert [text.partition(" on line")[0] for text in result.warnings] == [f"`{what}`"], result.value
    assert advice in result.warnings[0]


@pytest.mark.parametrize(
    "script",
    [
        REPOS + "return edges.map((e) => e.node).filter((n) => n.stars > 10).length",
        REPOS + "return edges.filter(({ node }) => node.stars > 10).length",
        REPOS + "const [{ node }] = edges; const { stars } = node; return stars > 3",
        REPOS + "const pick = (e) => e.stars ?? Object.values(e)[0].stars; return edges.map(pick)",
        REPOS + "return edges.map((e) => ({ ...e.node, ...e })).filter((e) => e.stars > 10).length",
        "const { edges } = await callTool('optional', {}); return edges.filter((e) => e.stars > 10).length",
        MOVE + "if (t.success === false) throw new Error('no'); return t.ok ?? true",
        USERS + "return (u.tags ?? []).length",
        USERS + "return (u.errors || []).length",
        MOVE + "return (t.status ?? t.transfer.status) === 'PENDING'",
        MOVE + "if (t.status) return t.status === 'PENDING'; return 'unknown'",
        WEATHER + "return w.days['2025-03-09']?.temp ?? 'none'",
        WEATHER + "return ['2025-03-01', '2025-03-09'].map((day) => w.days[day]?.temp ?? null)",
        WEATHER + "return Object.keys(w.days).length + w.spots.items.length",
        MEETINGS + "return events.map((e) => e.name ?? e.room?.name ?? 'none')",
        MEETINGS + "return events.flatMap((e) => e.attendees).filter((a) => a.status === 'accepted').length",
        MEETINGS + "return events.filter((e) => e.room).map(({ room: { name } }) => name)",
    ],
)
async def test_what_is_read_where_it_stands_has_no_warning(enclave: Enclave, script: str) -> None:
    result = await enclave.execute(script, tool_handler=deep, tools=DEEP_TOOLS)
    assert (result.error, result.warnings) == (None, ())


async def test_a_chain_of_fallbacks_is_warned_of_once(enclave: Enclave) -> None:
    script = ORDERS_CALL + "const n = (r.items ?? r.rows ?? []).length; return n + (r.rows ?? r.items ?? []).length"
    result = await enclave.execute(script, tool_handler=answer, tools=TOOLS)
    assert len(result.warnings) == 1, result.warnings


HOSTILE = {
    "reads": "let n = 0; " + "n += (r.items ?? []).length;\n" * 1300,
    "names": "let n = 0; " + "n += [1].map((x) => x.rows ?? r.rows)[0]?.length ?? 0;\n" * 700,
    "chains": "let v0 = r; "
    + "".join(f"let v{n + 1} = v{n}.items ?? r; v{n} = v{n + 1};\n" for n in range(900))
    + "return v900.items?.length",
    "templates": "let t = 'undefined'; " + "t += `${r.items}`;\n" * 2000 + "return t",
    "tested": "let t = ''; " + "t += `${r.items}`;\n" * 1900 + "if (r.items) {}\nreturn t",
    "functions": "const f = (x, n) => (n ? f(x.items ?? x, n - 1) + f(x.rows ?? x, 0) + f(x, 0) : 0); "
    + "".join(
        f"const g{n} = (x) => (x.items ?? []).length + g{n + 1}(x) + g{n + 1}(x.rows ?? x) - 1;\n" for n in range(9)
    )
    + "".join(f"const h{n} = (x, y) => h{n + 1}(x, y) + h{n + 1}(y, x);\n" for n in range(9))
    + "const g9 = (x) => 0; const h9 = (x, y) => (x.items ?? y.rows ?? []).length; return f(r, 9) + g0(r) + h0(r, r)",
    "lists": "let a = [], b = [r]; if (!r) {"
    + "a.push(...b, ...a); b = [...a, ...b].concat(a); a = b.map((x) => ({ ...x, k: x.items })).flat();\n" * 150
    + "} return a.filter((x) => x.rows === 1 && x.items === 2).length",
    "fields": "let a = []; if (!r) {"
    + "".join(f"a.push(r.items{n}); a = [...a, ...(r.rows{n} ?? a)];\n" for n in range(400))
    + "} return a.filter((x) => x?.items === 1).length",
    "groups": "const o = {}; if (!r) {"
    + "o[r.rows] = o.a ?? o; o.a = Object.values(o); o.b = Object.entries(o.a ?? o.b).map(([k, v]) => v.items);\n" * 200
    + "} return [o.a].filter((x) => x?.items === 1).length",
    "spots": "const { items, rows } = r; let n = 0; " + "n += items === 1 && rows === 2 ? 1 : 0;\n" * 1200 + "return n",
    "patterns": "let n = 0; " + "{ const { items = [], rows = [] } = r; n += items.length + rows.length; }\n" * 500,
}


@pytest.mark.parametrize("kind", HOSTILE)
async def test_a_long_script_and_a_large_answer_cost_no_seconds(enclave: Enclave, kind: str) -> None:
    large = {f"key{number}": {"a": "x" * 900} for number in range(500)}
    script = f"const r = await callTool('large', {{}}); {HOSTILE[kind]}"
    plain = f"const r = await callTool('large', {{}}); {HOSTILE[kind].replace('items', 'key1').replace('rows', 'key2')}"
    times: list[float] = []
    for text in (plain, script):
        result = await enclave.execute(text, tool_handler=lambda name, arguments: large)
        assert result.error is None
        assert result.stats is not None
        times.append(result.stats.script_ms)
    # What the warnings take is bounded by what parsing the script again takes.
    assert times[1] - times[0] < 2500, times
    assert kind != "tested" or result.warnings == ()
