// Longer programs, as models write them for whole tasks.
--- user report with statistics
/**
 * Builds a report about the users of the tenant.
 *
 * 1. Fetch all users
 * 2. Group them by role
 * 3. Return counts, names and percentages
 */
const { users } = await callTool('users:list', {});

if (!users?.length) {
  return { error: 'No users' };
}

/** Rounds to one decimal. */
const round1 = (value) => Math.round(value * 10) / 10;

const byRole = users.reduce((acc, { role, name }) => {
  acc[role] = acc[role] ?? { count: 0, names: [] };
  acc[role].count += 1;
  acc[role].names.push(name);
  return acc;
}, {});

const report = Object.entries(byRole)
  .map(([role, { count, names }]) => ({
    role,
    count,
    percentage: `${round1((count / users.length) * 100)}%`,
    names: names.sort().join(', '),
  }))
  .sort((a, b) => b.count - a.count);

return { tenant: codecallContext.tenant, total: users.length, report };
//= {"tenant": "t1", "total": 3, "report": [{"role": "member", "count": 2, "percentage": "66.7%", "names": "Ben, Cleo"}, {"role": "owner", "count": 1, "percentage": "33.3%", "names": "Ada"}]}
--- invoice calculation
const items = [
  { sku: 'A', qty: 2, price: 9.99, tax: 0.19 },
  { sku: 'B', qty: 1, price: 100, tax: 0.07 },
  { sku: 'C', qty: 10, price: 0.5, tax: 0.19 },
];
const lines = items.map((item) => {
  const net = item.qty * item.price;
  const tax = net * item.tax;
  return { sku: item.sku, net: +net.toFixed(2), tax: +tax.toFixed(2), gross: +(net + tax).toFixed(2) };
});
const totals = lines.reduce(
  (t, l) => ({ net: t.net + l.net, tax: t.tax + l.tax, gross: t.gross + l.gross }),
  { net: 0, tax: 0, gross: 0 },
);
for (const key of Object.keys(totals)) totals[key] = Number(totals[key].toFixed(2));
return { lines, totals };
//= {"lines": [{"sku": "A", "net": 19.98, "tax": 3.8, "gross": 23.78}, {"sku": "B", "net": 100, "tax": 7, "gross": 107}, {"sku": "C", "net": 5, "tax": 0.95, "gross": 5.95}], "totals": {"net": 124.98, "tax": 11.75, "gross": 136.73}}
--- sync of two systems with a plan
const crm = [{ email: 'a@x.io', plan: 'pro' }, { email: 'b@x.io', plan: 'free' }, { email: 'c@x.io', plan: 'pro' }];
const billing = [{ email: 'a@x.io', plan: 'pro' }, { email: 'b@x.io', plan: 'pro' }, { email: 'z@x.io', plan: 'free' }];
const index = new Map(billing.map((b) => [b.email, b]));
const plan = { create: [], update: [], remove: [], unchanged: 0 };
for (const contact of crm) {
  const existing = index.get(contact.email);
  if (!existing) plan.create.push(contact.email);
  else if (existing.plan !== contact.plan) plan.update.push({ email: contact.email, from: existing.plan, to: contact.plan });
  else plan.unchanged++;
  index.delete(contact.email);
}
plan.remove = [...index.keys()];
return plan;
//= {"create": ["c@x.io"], "update": [{"email": "b@x.io", "from": "pro", "to": "free"}], "remove": ["z@x.io"], "unchanged": 1}
--- bulk operation with a summary
const { users } = await callTool('users:list', {});
const jobs = users.map((user) => async () => {
  // every second one fails on purpose
  const tool = user.id === 'u2' ? 'fail' : 'echo';
  return callTool(tool, { userId: user.id, action: 'welcome' }, { throwOnError: false });
});
const outcomes = await __safe_parallel(jobs, { maxConcurrency: 2 });
const summary = { total: outcomes.length, succeeded: 0, failed: 0, failures: [] };
outcomes.forEach((outcome, index) => {
  if (outcome.success) {
    summary.succeeded++;
  } else {
    summary.failed++;
    summary.failures.push({ user: users[index].name, reason: outcome.error.code });
  }
});
return summary;
//= {"total": 3, "succeeded": 2, "failed": 1, "failures": [{"user": "Ben", "reason": "TOOL_EXECUTION_ERROR"}]}
--- log analysis
const log = [
  '2024-01-01T10:00:00Z INFO  api    request id=1 ms=12',
  '2024-01-01T10:00:01Z ERROR api    request id=2 ms=250',
  '2024-01-01T10:00:02Z INFO  worker job id=3 ms=90',
  '2024-01-01T10:00:03Z ERROR api    request id=4 ms=310',
];
const entries = log.map((line) => {
  const [time, level, service, kind, id, ms] = line.split(/\s+/);
  return { time, level, service, kind, id: Number(id.slice(3)), ms: Number(ms.slice(3)) };
});
const slow = entries.filter((e) => e.ms > 100);
const perService = {};
for (const e of entries) {
  const s = (perService[e.service] ??= { requests: 0, errors: 0, totalMs: 0 });
  s.requests++;
  s.errors += e.level === 'ERROR' ? 1 : 0;
  s.totalMs += e.ms;
}
for (const s of Object.values(perService)) s.averageMs = Math.round(s.totalMs / s.requests);
return { slowIds: slow.map((e) => e.id), perService, errorRate: entries.filter((e) => e.level === 'ERROR').length / entries.length };
//= {"slowIds": [2, 4], "perService": {"api": {"requests": 3, "errors": 2, "totalMs": 572, "averageMs": 191}, "worker": {"requests": 1, "errors": 0, "totalMs": 90, "averageMs": 90}}, "errorRate": 0.5}
--- schedule without conflicts
const meetings = [{ n: 'a', s: 9, e: 10 }, { n: 'b', s: 9.5, e: 11 }, { n: 'c', s: 10, e: 12 }, { n: 'd', s: 11, e: 12 }];
const chosen = [];
let free = 0;
for (const m of meetings.toSorted((x, y) => x.e - y.e)) {
  if (m.s >= free) { chosen.push(m.n); free = m.e; }
}
return chosen;
//= ["a", "c"]
--- merge intervals
const intervals = [[1, 3], [8, 10], [2, 6], [15, 18], [17, 20]];
const merged = [];
for (const [start, end] of intervals.sort((a, b) => a[0] - b[0])) {
  const last = merged.at(-1);
  if (last && start <= last[1]) last[1] = Math.max(last[1], end);
  else merged.push([start, end]);
}
return merged;
//= [[1, 6], [8, 10], [15, 20]]
--- validation with many rules
const rules = {
  name: [(v) => (v ? null : 'required'), (v) => (v && v.length > 20 ? 'too long' : null)],
  email: [(v) => (/^[^@\s]+@[^@\s]+\.[^@\s]+$/.test(v ?? '') ? null : 'not an address')],
  age: [(v) => (Number.isInteger(v) ? null : 'not an integer'), (v) => (v >= 18 ? null : 'too young')],
};
const validate = (record) =>
  Object.entries(rules).flatMap(([field, checks]) =>
    checks.map((check) => check(record[field])).filter(Boolean).map((message) => ({ field, message })));
return [validate({ name: 'Ada', email: 'ada@example.com', age: 36 }), validate({ name: '', email: 'nope', age: 1.5 })];
//= [[], [{"field": "name", "message": "required"}, {"field": "email", "message": "not an address"}, {"field": "age", "message": "not an integer"}, {"field": "age", "message": "too young"}]]
--- escalation of support tickets
const tickets = [
  { id: 'T1', priority: 'low', ageHours: 80 }, { id: 'T2', priority: 'high', ageHours: 3 }, { id: 'T3', priority: 'high', ageHours: 9 },
];
const sla = { low: 72, high: 4 };
const late = tickets.filter((t) => t.ageHours > sla[t.priority]);
const notified = [];
for (const ticket of late) {
  try {
    const { id } = await callTool('echo', { id: ticket.id, message: `SLA breached by ${ticket.ageHours - sla[ticket.priority]}h` });
    notified.push(id);
  } catch (error) {
    console.error(`could not notify ${ticket.id}: ${error.message}`);
  }
}
return { late: late.length, notified };
//= {"late": 2, "notified": ["T1", "T3"]}
--- shopping cart class with discounts
class Cart {
  #lines = new Map();
  add(sku, price, qty = 1) {
    const line = this.#lines.get(sku) ?? { sku, price, qty: 0 };
    line.qty += qty;
    this.#lines.set(sku, line);
    return this;
  }
  get subtotal() { return [...this.#lines.values()].reduce((s, { price, qty }) => s + price * qty, 0); }
  total(...discounts) { return discounts.reduce((t, d) => d(t), this.subtotal); }
}
const percent = (p) => (t) => t * (1 - p / 100);
const minus = (x) => (t) => Math.max(0, t - x);
return new Cart().add('a', 10, 2).add('b', 5).add('a', 10).total(percent(10), minus(1.5)).toFixed(2);
//= "30.00"
--- org chart with indentation
const people = { ceo: { name: 'Ada', reports: ['cto', 'cfo'] }, cto: { name: 'Ben', reports: ['dev'] }, cfo: { name: 'Cleo', reports: [] }, dev: { name: 'Dan', reports: [] } };
const render = (id, depth = 0) => [`${'  '.repeat(depth)}- ${people[id].name}`, ...people[id].reports.flatMap((r) => render(r, depth + 1))];
return render('ceo').join('\n');
//= "- Ada\n  - Ben\n    - Dan\n  - Cleo"
--- csv to summary through tools
const csv = (await callTool('echo', { text: 'region,amount\nnorth,10\nsouth,20\nnorth,5\n' })).text;
const [head, ...rows] = csv.trim().split('\n').map((l) => l.split(','));
const records = rows.map((r) => Object.fromEntries(head.map((h, i) => [h, r[i]])));
const totals = records.reduce((t, { region, amount }) => ({ ...t, [region]: (t[region] ?? 0) + Number(amount) }), {});
return totals;
//= {"north": 15, "south": 20}
--- rate limited batches
const queue = Array.from({ length: 7 }, (_, i) => i + 1);
const BATCH = 3;
const log = [];
for (let offset = 0; offset < queue.length; offset += BATCH) {
  const batch = queue.slice(offset, offset + BATCH);
  const done = await Promise.all(batch.map((n) => callTool('echo', { n })));
  log.push(done.map((d) => d.n).join('+'));
}
return log;
//= ["1+2+3", "4+5+6", "7"]
--- exponential backoff without timers
const delays = [];
let attempt = 0;
let last;
for (; attempt < 4; attempt++) {
  const r = await callTool(attempt < 3 ? 'fail' : 'echo', { attempt }, { throwOnError: false });
  last = r;
  if (r.success) break;
  delays.push(2 ** attempt * 100);
}
return { attempt, delays, ok: last.success };
//= {"attempt": 3, "delays": [100, 200, 400], "ok": true}
--- permissions matrix
const roles = { admin: ['read', 'write', 'delete'], editor: ['read', 'write'], viewer: ['read'] };
const actions = [...new Set(Object.values(roles).flat())];
const matrix = Object.fromEntries(Object.entries(roles).map(([r, can]) => [r, actions.map((a) => (can.includes(a) ? '✓' : '·')).join('')]));
return matrix;
//= {"admin": "✓✓✓", "editor": "✓✓·", "viewer": "✓··"}
--- diff of configurations by path
const flatten = (o, prefix = '') => Object.entries(o).flatMap(([k, v]) => (typeof v === 'object' && v !== null ? flatten(v, `${prefix}${k}.`) : [[`${prefix}${k}`, v]]));
const a = new Map(flatten({ db: { host: 'x', port: 1 }, debug: true }));
const b = new Map(flatten({ db: { host: 'y', port: 1 }, level: 3 }));
const changes = [];
for (const key of new Set([...a.keys(), ...b.keys()])) {
  if (!a.has(key)) changes.push(`+ ${key}`);
  else if (!b.has(key)) changes.push(`- ${key}`);
  else if (a.get(key) !== b.get(key)) changes.push(`~ ${key}`);
}
return changes.sort();
//= ["+ level", "- debug", "~ db.host"]
--- leaderboard with ties
const scores = [['ada', 90], ['ben', 85], ['cleo', 90], ['dan', 70]];
let rank = 0, previous = null;
return scores
  .toSorted(([an, a], [bn, b]) => b - a || an.localeCompare(bn))
  .map(([name, score], i) => {
    if (score !== previous) { rank = i + 1; previous = score; }
    return `${rank}. ${name} (${score})`;
  });
//= ["1. ada (90)", "1. cleo (90)", "3. ben (85)", "4. dan (70)"]
--- funnel conversion
const steps = [['visit', 1000], ['signup', 120], ['trial', 60], ['paid', 15]];
return steps.slice(1).map(([name, n], i) => ({ name, rate: `${((n / steps[i][1]) * 100).toFixed(1)}%` }));
//= [{"name": "signup", "rate": "12.0%"}, {"name": "trial", "rate": "50.0%"}, {"name": "paid", "rate": "25.0%"}]
--- cohort by month
const signups = [{ at: '2024-01-03' }, { at: '2024-01-20' }, { at: '2024-02-02' }];
const months = Object.groupBy(signups, ({ at }) => at.slice(0, 7));
return Object.keys(months).map((m) => `${m}: ${months[m].length}`);
//= ["2024-01: 2", "2024-02: 1"]
--- recursive search through a document
const doc = { title: 'x', body: [{ text: 'find me' }, { nested: { text: 'and me', n: 3 } }] };
const found = [];
(function search(value, path) {
  if (typeof value === 'string') { if (value.includes('me')) found.push(path); return; }
  if (value && typeof value === 'object') for (const [k, v] of Object.entries(value)) search(v, path ? `${path}.${k}` : k);
})(doc, '');
return found;
//= ["body.0.text", "body.1.nested.text"]
--- game of life step
const grid = ['.....', '..#..', '..#..', '..#..', '.....'].map((r) => [...r]);
const alive = (r, c) => grid[r]?.[c] === '#';
const next = grid.map((row, r) => row.map((_, c) => {
  let n = 0;
  for (let dr = -1; dr <= 1; dr++) for (let dc = -1; dc <= 1; dc++) if ((dr || dc) && alive(r + dr, c + dc)) n++;
  return n === 3 || (n === 2 && alive(r, c)) ? '#' : '.';
}).join(''));
return next;
//= [".....", ".....", ".###.", ".....", "....."]
--- dijkstra
const graph = { a: { b: 1, c: 4 }, b: { c: 2, d: 6 }, c: { d: 3 }, d: {} };
const dist = Object.fromEntries(Object.keys(graph).map((k) => [k, Infinity]));
dist.a = 0;
const todo = new Set(Object.keys(graph));
for (let i = 0; i < 4; i++) {
  const node = [...todo].reduce((best, n) => (best === null || dist[n] < dist[best] ? n : best), null);
  todo.delete(node);
  for (const [to, w] of Object.entries(graph[node])) dist[to] = Math.min(dist[to], dist[node] + w);
}
return dist;
//= {"a": 0, "b": 1, "c": 3, "d": 6}
--- all helpers in one utility object
const util = {
  sum: (xs) => xs.reduce((a, b) => a + b, 0),
  mean(xs) { return this.sum(xs) / xs.length; },
  unique: (xs) => [...new Set(xs)],
  range: (n) => [...Array(n).keys()],
};
return [util.mean([1, 2, 3]), util.unique([1, 1]), util.range(3)];
//= [2, [1], [0, 1, 2]]
--- explain what was done
const notes = [];
const note = (text) => { notes.push(`${notes.length + 1}) ${text}`); };
note('listed users');
const { users } = await callTool('users:list', {});
note(`found ${users.length}`);
note(users.every((u) => u.id) ? 'all have ids' : 'some lack ids');
return { answer: users.length, notes };
//= {"answer": 3, "notes": ["1) listed users", "2) found 3", "3) all have ids"]}
