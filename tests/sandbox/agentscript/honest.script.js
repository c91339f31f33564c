// Scripts as models write them: the guard has nothing against any.
---
return 1 + 1;
---
'hello'
---
const items = [3, 1, 2];
items.toSorted((a, b) => a - b)
---
const page = await callTool('people:list', { limit: 50 });
const owners = page.people.filter(p => p.role === 'owner');
return { count: owners.length, mails: owners.map(p => p.mail) };
---
// With an option instead of an exception
const answer = await callTool('people:get', { id: 'none' }, { throwOnError: false });
if (answer.success) {
  return answer.data;
} else {
  return { failed: answer.error.message };
}
---
const meta = getTool('people:list');
console.log(meta.description);
console.log(meta.inputSchema, meta?.outputSchema ?? null);
---
const tenant = codecallContext.tenantId;
const { userId, locale = 'en' } = codecallContext;
return `${tenant}/${userId}/${locale}`;
---
codecallContext.tenantId = 'other';
---
console.log('a'); console.info('b'); console.warn('c'); console.error('d'); console.debug('e');
---
const ids = ['p1', 'p2', 'p3'];
const people = await __safe_parallel(
  ids.map(id => () => callTool('people:get', { id })),
  { maxConcurrency: 3 },
);
return people;
---
try {
  await __safe_parallel([
    () => callTool('people:get', { id: 'here' }),
    () => callTool('people:get', { id: 'gone' }),
  ]);
} catch (error) {
  return error.message.split('\n').slice(1);
}
---
const [orders, people, numbers] = await __safe_parallel([
  () => callTool('orders:list', { state: 'open' }),
  () => callTool('people:list', {}),
  async () => await callTool('stats:read', {}),
]);
return { orders: orders.length, people: people.length, numbers };
---
async function again(name, input, attempts = 3) {
  for (let attempt = 1; attempt <= attempts; attempt++) {
    const result = await callTool(name, input, { throwOnError: false });
    if (result.success) {
      return result.data;
    }
    if (result.error.code === 'NOT_FOUND' || result.error.code === 'INVALID_INPUT') {
      throw new Error(result.error.message);
    }
    if (attempt === attempts) {
      throw new Error(`Gave up after ${attempts}: ${result.error.message}`);
    }
    console.warn(`Attempt ${attempt} failed`);
  }
}
return await again('net:get', { url: '/rows' });
---
const first = await callTool('cache:get', { key: 'k' }, { throwOnError: false });
const value = first.success
  ? first.data
  : await callTool('db:query', { table: 't' });  // otherwise from the table
return value;
---
const found = { good: [], bad: [] };
for (const id of ['a', 'b']) {
  const r = await callTool('people:get', { id }, { throwOnError: false });
  if (r.success) found.good.push(r.data);
  else found.bad.push({ id, why: r.error.message });
}
return { ...found, rate: found.good.length / 2 };
---
await callTool('code:run', { script: "eval('process.exit()')" });
---
async () => {
  const r = await callTool('echo', { a: 1 });
  return r.a;
}
---
(async () => { return 8 })()
---
async function main() {
  const rows = await callTool('rows:list', {});
  return rows.length;
}
return main();
---
const results = await Promise.all(['a', 'b'].map(id => callTool('people:get', { id })));
const settled = await Promise.allSettled(results.map(async r => r.id));
return settled.filter(s => s.status === 'fulfilled').map(s => s.value);
---
const fastest = await Promise.race([callTool('a', {}), callTool('b', {})]);
const any = await Promise.any([Promise.reject(new Error('no')), Promise.resolve(fastest)]);
return any;
---
let total = 0;
for (const { amount = 0, currency } of await callTool('deals:list', {})) {
  if (currency !== 'EUR') continue;
  total += amount;
}
return Math.round(total * 100) / 100;
---
const byOwner = {};
for (const deal of await callTool('deals:list', {})) {
  (byOwner[deal.owner] ??= []).push(deal);
}
return Object.entries(byOwner).map(([owner, deals]) => ({ owner, n: deals.length }));
---
const counts = new Map();
for (const word of 'a b a'.split(' ')) counts.set(word, (counts.get(word) ?? 0) + 1);
return Object.fromEntries(counts);
---
const seen = new Set();
const unique = [1, 2, 2].filter(x => !seen.has(x) && seen.add(x));
return [...unique, ...seen];
---
const groups = Object.groupBy([{ k: 'a' }, { k: 'b' }], x => x.k);
return Object.keys(groups);
---
const sum = [1, 2, 3].reduce((acc, n) => acc + n, 0);
const max = Math.max(...[1, 2, 3]), min = Math.min(1, 2);
return { sum, max, min, avg: sum / 3, power: 2 ** 10, neg: (-2) ** 2 };
---
const start = Date.now();
const day = new Date().toISOString().slice(0, 10);
const then = new Date('2024-01-31T00:00:00Z');
then.setDate(then.getDate() - 30);
return { day, then: then.toISOString(), ms: Date.now() - start, roll: Math.floor(Math.random() * 6) };
---
const text = 'Order #12, order #34';
const numbers = [...text.matchAll(/#(\d+)/g)].map(m => Number(m[1]));
const clean = text.replace(/\s+/g, ' ').replaceAll('#', '');
return { numbers, clean, ok: /^order/i.test(text), parts: text.split(/,\s*/) };
---
const pattern = new RegExp(`^${'a'}\\b`, 'i');
return pattern.test('A b');
---
const { data: { items = [] } = {}, next: cursor, ...others } = await callTool('page', {});
return { items, cursor, others };
---
const [head, , third = 3, ...tail] = [1, 2, undefined, 4];
let a = 1, b = 2;
[a, b] = [b, a];
({ a, b } = { a: head, b: third });
return [a, b, tail];
---
let cursor = null;
const rows = [];
for (let page = 0; page < 20; page++) {
  const result = await callTool('rows:list', { cursor, limit: 100 });
  rows.push(...result.rows);
  cursor = result.nextCursor;
  if (!cursor) break;
}
return rows.length;
---
let round = 0;
for (;;) {
  if (++round > 3) break;
}
return round;
---
outer:
for (const x of [1, 2]) {
  for (let y = 0; y < 3; y += 1) {
    if (y === x) continue outer;
    if (x + y > 3) break outer;
  }
}
---
switch (codecallContext.kind) {
  case 'a': {
    const n = 1;
    return n;
  }
  case 'b':
  case 'c':
    return 2;
  default:
    return null;
}
---
class Money {
  #cents = 0;
  static zero = new Money(0);
  static { Money.count = 0; }
  currency = 'EUR';
  constructor(cents) { this.#cents = cents; }
  get euros() { return this.#cents / 100; }
  set euros(value) { this.#cents = Math.round(value * 100); }
  plus(other) { return new Money(this.#cents + other.#cents); }
  static #check(x) { return #cents in x; }
  static is(x) { return Money.#check(x); }
  toString() { return `${this.euros.toFixed(2)} ${this.currency}`; }
  async save() { await callTool('save', { cents: this.#cents }); }
  *[Symbol.iterator]() { yield this.#cents; }
}
return String(new Money(5).plus(Money.zero));
---
class NotThere extends Error {
  constructor(id) {
    super(`No ${id}`);
    this.name = 'NotThere';
  }
}
class Gone extends NotThere {}
const Local = class {};
class More extends Local {}
try {
  throw new Gone(5);
} catch (e) {
  return e instanceof NotThere ? e.message : String(e);
} finally {
  console.log('done');
}
---
try { await callTool('x', {}) } catch { return 'failed' }
---
try { null.x } catch ({ name, message }) { return { name, message } }
---
throw new TypeError('bad', { cause: new RangeError('out') });
---
function* upTo(n) { for (let i = 0; i < n; i++) yield i; }
const all = [...upTo(5)];
async function* pages() { yield* [await callTool('p', {})]; }
for await (const page of pages()) all.push(page);
return all;
---
const counter = (() => { let n = 0; return () => ++n })();
const compose = (...fns) => x => fns.reduceRight((v, f) => f(v), x);
return compose(counter, x => ({ x }), y => [y])(1);
---
const fib = function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2) };
return fib(10);
---
function add() { return [...arguments].length + arguments.length }
return add(1, 2);
---
const o = {
  name: 'x', 'a-b': 1, 3: 4, [`k${1}`]: 2,
  method() { return this.name },
  get upper() { return this.name.toUpperCase() },
  set upper(v) { this.name = v.toLowerCase() },
  async load() { return await callTool('x', {}) },
  *each() { yield 1 },
  async *pages() { yield 1 },
  arrow: () => 1,
  default: 1, class: 2, new: 3, delete: 4,
};
delete o['a-b'];
return 'name' in o && Object.hasOwn(o, 'name') && typeof o.method === 'function' && o.class;
---
var i, n = 0;
for (i = 0, n = 3; i < n; i++) { if (i) { var late = i } }
return late, n;
---
const user = { process: 1, module: 2, eval: 3, window: 4, arguments: 5, caller: 6 };
return user.process + user.module + user.eval + user.window + user.caller;
---
const process = await callTool('process:get', {});
const module = process.module, name = module.name, status = process.status;
function fetch(url) { return callTool('http:get', { url }) }
const event = await fetch('x');
for (const window of event.windows) { console.log(window.start, name, status) }
const self = { top: 1, location: event.location };
return self;
---
const big = 10n ** 20n, hex = 0xff, bin = 0b11, oct = 0o17, sep = 1_000_000, flt = .5e-3;
return { big: big.toString(), n: Number(big % 7n), s: BigInt(5), hex, bin, oct, sep, flt };
---
const deep = structuredClone({ a: [1] });
const copy = JSON.parse(JSON.stringify(deep, null, 2));
return Object.is(copy, deep) || Object.isFrozen(Object.freeze(copy));
---
return encodeURIComponent('ä&') + decodeURIComponent('%20') + parseInt('7', 10) + parseFloat('1.5') + isNaN(NaN);
---
const dict = Object.create(null);
dict.a = Infinity;
return Object.values(Object.assign({}, dict, { b: undefined, c: void 0 }));
---
const list = Array.from({ length: 3 }, (_, i) => i * 2);
return [list.at(-1), list.findLast(x => x > 1), list.with(0, 9), Array.isArray(list), Array.of(1).flatMap(x => [x, x])];
---
const csv = [['a', 'b'], [1, 2]].map(row => row.join(',')).join('\n');
const html = `
<!-- report -->
<ul>${['x', 'y'].map(i => `<li>${i}</li>`).join('')}</ul>
-->
`;
return { csv, html, sql: "SELECT 1 -- '<!-- x -->'" };
---
const s = 'it\'s "quoted" \u00e9 \x41 \
continued';
return s.padStart(40).trim().localeCompare('é', 'de') + String.raw`C:\new`;
---
// Comments with emoji are fine: ⚠️ 👩‍💻 ✅
/* and blocks too ❤️ */
return '👩‍💻⚠️'.length; // 名前
---
const größe = 1, 名前 = 'x', Δt = 0.5, привет = 2, σ = 3;
return größe + 名前 + Δt + привет + σ;
---
let x = 5;
x **= 2; x <<= 1; x >>>= 1; x ||= 1; x &&= 2; x ??= 3; x %= 7; x ^= 1; x |= 2; x &= 3;
return ~x + -x + +x, !x ? x-- : x++;
---
const maybe = await callTool('maybe', {});
return maybe?.a?.[0]?.b?.() ?? maybe?.['c-d'] ?? 'none';
---
if (1) {
  function inner() { return 1 }
  inner();
} else if (2) ; else return 3
---
const once = new Promise((resolve, reject) => resolve(1));
const { promise, resolve } = Promise.withResolvers();
resolve(await once.then(v => v + 1).catch(e => null).finally(() => {}));
return await promise;
---
const rate = (n, d) => d ? n / d : 0; // a division, no /pattern/
let ratio = rate(1, 2) / (rate(2, 1) / 3);
const re = /[/\]]+/.test('a/b') && ratio++ / 2 > 1;
return re
---
const fmt = n => n.toString().replace(/\B(?=(\d{3})+(?!\d))/g, ',');
return ['1', '2'].map(Number).map(fmt).filter(Boolean);
---
const when = { after: new Date(2024, 0, 1) };
return (when.after.getTime() - Date.UTC(2023, 0, 1)) / 864e5;
---
const lines = [];
label: {
  if (lines.length) break label;
  lines.push('x');
}
return lines;
---
const sorted = [{ n: 2 }, { n: 1 }].sort((a, b) => a.n - b.n || a.name.localeCompare(b.name));
const [{ n: lowest }] = sorted;
return { lowest };
---
const table = { list: 'a:list', get: 'a:get' };
const results = {};
for (const [key, tool] of Object.entries(table)) {
  if (!getTool(tool)) continue;
  results[key] = await callTool(tool, {});
}
return results;
---
const describe = (x) => typeof x === 'object' && x !== null ? Object.keys(x).length : String(x);
const delay = 5, history = [], tools = ['a'], print = v => v;
return print(describe({ delay, history, tools }));
---
let out = '';
for (const ch of 'abc') out += ch.charCodeAt(0).toString(16).padStart(2, '0');
for (const i of [0, 1].keys()) out += i;
return out || null;
---
const log = console.log;
const M = Math;
log(M.sqrt(4), Number.EPSILON, Math.PI, Number.MAX_SAFE_INTEGER, String.fromCharCode(65));
---
const err = Object.assign(new Error('x'), { code: 'E' });
return err instanceof Error && [err.name, err.message, err.stack, err.code];
---
const nested = (a) => (b) => (c) => a + b + c;
const cond = codecallContext.x ? (a) => ({ a }) : async (a) => { return a };
return [nested(1)(2)(3), await cond(4)];
---
"use strict";
const total = await callTool('sum', { values: [1, 2, 3] })
const label = total > 5 ? "big" : "small"
return { total, label }
---
const dates = ['2024-01-02', 'bad'].map(d => new Date(d)).filter(d => !isNaN(d));
return dates.map(d => d.toLocaleDateString('en-US', { month: 'short' }));
---
const acc = [];
await ['a', 'b'].reduce((p, id) => p.then(async () => { acc.push(await callTool('t', { id })) }), Promise.resolve());
return acc;
---
const ok = ({ a: { b: [, c] } }, [d, { e } = {}] = [], ...f) => [c, d, e, f];
return ok({ a: { b: [1, 2] } });
---
const has = obj => obj.hasOwnProperty('x') || obj.toString() === 'x' || obj.valueOf() === 1;
return has({ x: 1 });
---
const async = 1, get = 2, set = 3, of = 4, from = 5, as = 6, type = 7, target = 8;
return { async, get, set, of, from, as, type, target };
---
;
---
// nothing but a comment
---
return
---
callTool('fire:and-forget', {});
---
function outside() {
  class Reader {
    package = 1; default = 2; static class = 3; static static = 4; get = 5; async;
    async #read(id) { return await callTool('read', { id }) }
    static async #all() { await null }
    async *pages() { for (const id of [1]) yield await this.#read(id) }
    static async *every() { yield* new Reader().pages() }
    static { Reader.#all() }
  }
  return new Reader();
}
outside()
---
throw `first
second`;
---
const words = `a ${(() => { let { b } = { b: '}' }; return `${b}` })()} c`;
return words.replace(/`/g, "'").split(/[/}]/);
---
const x = { then: 1, async, await: 2 }, async = 5;
return [x?.await, (x), [x][0], ({ x }).x, ((x)), (x, x)];
---
const hours = await readResource('data://hours');
const [note, letter] = await Promise.all([
  readResource(`orders://${encodeURIComponent(codecallContext.order)}/note`, { throwOnError: false }),
  getPrompt('letter', { customer: 'Ada', tone: 'kind' }),
]);
return { hours, note: note.success ? note.data : note.error.code, text: letter.messages[0].content };
