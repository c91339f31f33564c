// The language itself: functions, classes, generators, closures, loops, switch, operators, scripts of each form.
--- closures and counters
const counter = (start = 0) => { let n = start; return { next: () => ++n, reset: () => { n = start; } }; };
const c = counter(5);
c.next(); c.next();
const seven = c.next() - 1;
c.reset();
return [seven, c.next()];
//= [7, 6]
--- currying and composition
const compose = (...fns) => (x) => fns.reduceRight((v, f) => f(v), x);
const add = (a) => (b) => a + b;
const twice = (f) => (x) => f(f(x));
return compose(twice(add(3)), (x) => x * 2)(10);
//= 26
--- recursion with an accumulator
const flatten = (node, acc = []) => {
  acc.push(node.v);
  (node.kids ?? []).forEach((k) => flatten(k, acc));
  return acc;
};
return flatten({ v: 1, kids: [{ v: 2, kids: [{ v: 3 }] }, { v: 4 }] });
//= [1, 2, 3, 4]
--- mutual recursion with hoisting
return [isEven(10), isOdd(7)];
function isEven(n) { return n === 0 ? true : isOdd(n - 1); }
function isOdd(n) { return n === 0 ? false : isEven(n - 1); }
//= [true, true]
--- default and rest parameters
function describe(name, { size = 'm', tags = [] } = {}, ...others) {
  return `${name}/${size}/${tags.length}/${others.length}`;
}
return [describe('a'), describe('b', { tags: [1, 2] }, 3, 4)];
//= ["a/m/0/0", "b/m/2/2"]
--- arguments in a function
function total() {
  let sum = 0;
  for (let i = 0; i < arguments.length; i++) sum += arguments[i];
  return sum;
}
return total(1, 2, 3);
//= 6
--- method shorthand and computed keys
const key = 'dynamic';
const o = { [key]: 1, [`${key}2`]: 2, method() { return this[key] + this.dynamic2; }, get both() { return [this.dynamic, this.dynamic2]; } };
return [o.method(), o.both];
//= [3, [1, 2]]
--- class with inheritance
class Shape {
  constructor(name) { this.name = name; }
  area() { return 0; }
  toString() { return `${this.name}(${this.area().toFixed(2)})`; }
}
class Circle extends Shape {
  constructor(r) { super('circle'); this.r = r; }
  area() { return Math.PI * this.r ** 2; }
}
class Square extends Shape {
  constructor(s) { super('square'); this.s = s; }
  area() { return this.s * this.s; }
}
return [new Circle(1), new Square(2)].map((s) => s.toString());
//= ["circle(3.14)", "square(4.00)"]
--- private fields and static members
class Account {
  static #count = 0;
  static get count() { return Account.#count; }
  #balance = 0;
  constructor() { Account.#count++; }
  deposit(x) { if (x <= 0) throw new RangeError('positive amounts only'); this.#balance += x; return this; }
  get balance() { return this.#balance; }
  #secretFee() { return 1; }
  close() { const left = this.#balance - this.#secretFee(); this.#balance = 0; return left; }
  static { this.version = 2; }
}
const a = new Account().deposit(10).deposit(5);
let refused;
try { a.deposit(-1); } catch (e) { refused = `${e.name}: ${e.message}`; }
return [a.balance, Account.count, a.close(), a.balance, refused, Account.version];
//= [15, 1, 14, 0, "RangeError: positive amounts only", 2]
--- instanceof and typeof
class A {}
class B extends A {}
const b = new B();
return [b instanceof A, b instanceof B, typeof b, typeof A, [] instanceof Array, typeof null, typeof undefined, typeof 'x', typeof (() => 1)];
//= [true, true, "object", "function", true, "object", "undefined", "string", "function"]
--- iterable class
class Range {
  constructor(from, to) { this.from = from; this.to = to; }
  *[Symbol.iterator]() { for (let i = this.from; i <= this.to; i++) yield i; }
}
return [...new Range(3, 6), Math.max(...new Range(1, 4))];
//= [3, 4, 5, 6, 4]
--- hand written iterator
const countdown = {
  from: 3,
  [Symbol.iterator]() {
    let n = this.from;
    return { next: () => (n > 0 ? { value: n--, done: false } : { value: undefined, done: true }) };
  },
};
return Array.from(countdown);
//= [3, 2, 1]
--- generator with take
function* naturals() { for (let n = 1; n < 1000; n++) yield n; }
function* take(it, count) { let i = 0; for (const v of it) { if (i++ >= count) return; yield v; } }
function* map(it, f) { for (const v of it) yield f(v); }
return [...take(map(naturals(), (n) => n * n), 5)];
//= [1, 4, 9, 16, 25]
--- generator that receives values
function* conversation() {
  const name = yield 'name?';
  const age = yield `hello ${name}, age?`;
  return { name, age };
}
const talk = conversation();
return [talk.next().value, talk.next('Ada').value, talk.next(36).value];
//= ["name?", "hello Ada, age?", {"name": "Ada", "age": 36}]
--- yield star
function* inner() { yield 1; yield 2; return 'r'; }
function* outer() { const r = yield* inner(); yield r; yield* [3, 4]; }
return [...outer()];
//= [1, 2, "r", 3, 4]
--- labelled loops
const grid = [[1, 2, 3], [4, 5, 6], [7, 8, 9]];
let where = null;
search: for (let r = 0; r < grid.length; r++) {
  for (let c = 0; c < grid[r].length; c++) {
    if (grid[r][c] === 2) continue search;
    if (grid[r][c] === 6) { where = [r, c]; break search; }
  }
}
return where;
//= [1, 2]
--- switch with fallthrough
const kind = (x) => {
  switch (typeof x) {
    case 'string': return 'text';
    case 'number':
    case 'bigint': return 'number';
    case 'object':
      if (x === null) return 'nothing';
      if (Array.isArray(x)) return 'list';
    default:
      return 'other';
  }
};
return ['a', 1, 2n, null, [], {}, undefined].map(kind);
//= ["text", "number", "number", "nothing", "list", "other", "other"]
--- switch true
const grade = (s) => { switch (true) { case s >= 90: return 'A'; case s >= 75: return 'B'; default: return 'C'; } };
return [95, 80, 10].map(grade);
//= ["A", "B", "C"]
--- ternary chains
const label = (n) => n < 0 ? 'negative' : n === 0 ? 'zero' : n < 10 ? 'small' : 'large';
return [-1, 0, 5, 50].map(label);
//= ["negative", "zero", "small", "large"]
--- logical assignment
const config = { retries: 0, name: '', list: null };
config.retries ||= 3;
config.name ??= 'default';
config.list ??= [];
config.list &&= config.list.length;
return config;
//= {"retries": 3, "name": "", "list": 0}
--- nullish versus or
return [0 || 'a', 0 ?? 'a', '' || 'b', '' ?? 'b', null ?? 'c', false && 'd', 1 && 'e'];
//= ["a", 0, "b", "", "c", false, "e"]
--- comma and exponent and in
const o = { a: 1 };
let i = 0;
const r = (i++, i++, i);
return [r, 2 ** 3 ** 2, 'a' in o, 'b' in o, delete o.a, void 0 === undefined, !!o];
//= [2, 512, true, false, true, true, true]
--- for loop with two variables
const out = [];
for (let i = 0, j = 10; i < j; i += 3, j -= 2) out.push([i, j]);
return out;
//= [[0, 10], [3, 8]]
--- for over a string and a set
const out = [];
for (const ch of 'héy') out.push(ch);
for (const x of new Set([1, 1, 2])) out.push(x);
return out;
//= ["h", "é", "y", 1, 2]
--- var and let and const
var a = 1;
let b = 2;
const c = 3;
{ let b = 20; var a = a + b; }
return [a, b, c];
//= [21, 2, 3]
--- closures in a loop
const fs = [];
for (let i = 0; i < 3; i++) fs.push(() => i * i);
return fs.map((f) => f());
//= [0, 1, 4]
--- bind, call and apply
function greet(greeting, mark) { return `${greeting}, ${this.name}${mark}`; }
const ada = { name: 'Ada' };
return [greet.call(ada, 'Hi', '!'), greet.apply(ada, ['Hey', '?']), greet.bind(ada, 'Yo')('.')];
//= ["Hi, Ada!", "Hey, Ada?", "Yo, Ada."]
--- error kinds
const kinds = [new Error('a'), new TypeError('b'), new RangeError('c'), new SyntaxError('d'), new AggregateError([new Error('x')], 'e')];
return kinds.map((e) => `${e.name}: ${e.message}`);
//= ["Error: a", "TypeError: b", "RangeError: c", "SyntaxError: d", "AggregateError: e"]
--- throwing and catching inside functions
const validate = (o) => {
  if (typeof o.age !== 'number') throw new TypeError('age must be a number');
  if (o.age < 0) throw new RangeError('age must not be negative');
  return o;
};
return [{ age: 3 }, { age: 'x' }, { age: -1 }].map((o) => { try { return validate(o).age; } catch (e) { return e instanceof TypeError ? 'type' : e.name; } });
//= [3, "type", "RangeError"]
--- error with a cause
try {
  try { JSON.parse('{'); } catch (cause) { throw new Error('cannot read settings', { cause }); }
} catch (e) {
  return [e.message, e.cause.name];
}
//= ["cannot read settings", "SyntaxError"]
--- errors as values
return [new Error('plain'), Object.assign(new Error('coded'), { code: 'E1' })];
//= [{"name": "Error", "message": "plain"}, {"name": "Error", "message": "coded", "code": "E1"}]
--- finally order
const log = [];
const f = () => { try { log.push('try'); return 'value'; } finally { log.push('finally'); } };
log.push(f());
return log;
//= ["try", "finally", "value"]
--- async functions in order
const log = [];
const task = async (n) => { log.push(`start ${n}`); await null; log.push(`end ${n}`); return n; };
const sum = (await task(1)) + (await task(2));
return { log, sum };
//= {"log": ["start 1", "end 1", "start 2", "end 2"], "sum": 3}
--- concurrent async functions interleave
const log = [];
const task = async (n) => { log.push(`s${n}`); await null; log.push(`e${n}`); };
await Promise.all([task(1), task(2)]);
return log;
//= ["s1", "s2", "e1", "e2"]
--- promise constructor
const later = (v) => new Promise((resolve, reject) => (v ? resolve(v) : reject(new Error('empty'))));
return [await later(1), await later(0).catch((e) => e.message)];
//= [1, "empty"]
--- Promise.reject and try
const r = await Promise.reject(new Error('no')).catch((e) => e.message);
return [r, await Promise.resolve(7).then((x) => x + 1)];
//= ["no", 8]
--- sequence of thenables
let order = '';
await Promise.resolve().then(() => { order += 'a'; }).then(() => { order += 'b'; }).finally(() => { order += 'c'; });
return order;
//= "abc"
--- getters and setters
const temperature = {
  celsius: 20,
  get fahrenheit() { return this.celsius * 1.8 + 32; },
  set fahrenheit(f) { this.celsius = (f - 32) / 1.8; },
};
temperature.fahrenheit = 212;
return [temperature.celsius, temperature.fahrenheit];
//= [100, 212]
--- toString and valueOf and toJSON
class Money {
  constructor(cents) { this.cents = cents; }
  valueOf() { return this.cents; }
  toString() { return `€${(this.cents / 100).toFixed(2)}`; }
  toJSON() { return { cents: this.cents }; }
}
const a = new Money(250);
return [a + new Money(50), `${a}`, a > new Money(1), JSON.stringify(a)];
//= [300, "€2.50", true, "{\"cents\":250}"]
--- symbols as keys
const hidden = Symbol('hidden');
const o = { [hidden]: 1, shown: 2 };
return [o[hidden], Object.keys(o), typeof hidden];
//= [1, ["shown"], "symbol"]
--- spread into calls
const args = [3, 1, 2];
return [Math.max(...args, 9), [...args, ...'ab'], { ...['x', 'y'] }];
//= [9, [3, 1, 2, "a", "b"], {"0": "x", "1": "y"}]
--- array likes
return [Array.from('abc'), Array.from({ length: 2 }, (_, i) => i), Array.of(7), Array.isArray([]), Array.from(new Map([['k', 'v']]))];
//= [["a", "b", "c"], [0, 1], [7], true, [["k", "v"]]]
--- fromAsync
return await Array.fromAsync([Promise.resolve(1), 2, callTool('echo', { n: 3 }).then((r) => r.n)]);
//= [1, 2, 3]
--- state machine
const machine = { draft: ['review'], review: ['draft', 'published'], published: [] };
const move = (from, to) => { if (!machine[from]?.includes(to)) throw new Error(`${from} -> ${to} is not allowed`); return to; };
let state = 'draft';
state = move(state, 'review');
state = move(state, 'published');
let error;
try { move(state, 'draft'); } catch (e) { error = e.message; }
return { state, error };
//= {"state": "published", "error": "published -> draft is not allowed"}
--- event emitter
class Emitter {
  #handlers = {};
  on(event, fn) { (this.#handlers[event] ??= []).push(fn); return this; }
  emit(event, ...args) { return (this.#handlers[event] ?? []).map((fn) => fn(...args)); }
}
return new Emitter().on('add', (a, b) => a + b).on('add', (a, b) => a * b).emit('add', 3, 4);
//= [7, 12]
--- builder with method chaining
class Query {
  parts = [];
  where(k, op, v) { this.parts.push(`${k} ${op} ${JSON.stringify(v)}`); return this; }
  build() { return this.parts.length ? `WHERE ${this.parts.join(' AND ')}` : ''; }
}
return new Query().where('age', '>', 3).where('name', '=', "O'Neil").build();
//= "WHERE age > 3 AND name = \"O'Neil\""
--- a parser for arithmetic
const tokens = '2 + 3 * ( 4 - 1 )'.split(' ');
let at = 0;
const expression = () => { let v = term(); for (; tokens[at] === '+' || tokens[at] === '-';) { const op = tokens[at++]; const w = term(); v = op === '+' ? v + w : v - w; } return v; };
const term = () => { let v = factor(); for (; tokens[at] === '*' || tokens[at] === '/';) { const op = tokens[at++]; const w = factor(); v = op === '*' ? v * w : v / w; } return v; };
const factor = () => { if (tokens[at] === '(') { at++; const v = expression(); at++; return v; } return Number(tokens[at++]); };
return expression();
//= 11
--- destructuring in parameters and loops
const pairs = [{ k: 'a', v: [1, 2] }, { k: 'b', v: [3] }];
const out = {};
for (const { k, v: [first, second = null] } of pairs) out[k] = { first, second };
return out;
//= {"a": {"first": 1, "second": 2}, "b": {"first": 3, "second": null}}
--- semicolon free style
const a = 1
const b = [2, 3]
const sum = b.reduce((x, y) => x + y, a)
;[sum].forEach((x) => x)
return sum
//= 6
--- trailing object expression in parentheses
({ status: 'done', count: 2 })
//= {"status": "done", "count": 2}
--- trailing await expression
await callTool('echo', { last: true })
//= {"last": true}
--- trailing conditional expression
const xs = [1, 2];
xs.length > 1 ? 'many' : 'few'
//= "many"
--- script that returns nothing
const unused = 1;
//= null
--- returns undefined, null and false apart
return [undefined, null, false, 0, ''];
//= [null, null, false, 0, ""]
--- functions in the result are dropped
return { keep: 1, drop: () => 1, sym: Symbol('x'), list: [() => 1, 2] };
//= {"keep": 1, "list": [null, 2]}
--- cycles in the result
const node = { name: 'a' };
node.self = node;
return node;
//= {"name": "a", "self": "[Circular]"}
--- getters in the result
return { get computed() { return 6 * 7; } };
//= {"computed": 42}
--- class instances in the result
class Point { constructor(x, y) { this.x = x; this.y = y; } get sum() { return this.x + this.y; } }
return new Point(1, 2);
//= {"x": 1, "y": 2}
--- sparse and long arrays
const a = [1, , 3];
a[4] = 5;
return { a, length: a.length };
//= {"a": [1, null, 3, null, 5], "length": 5}
--- numeric separators and unicode names
const größe = 1_500;
const π = 3.14;
const 名前 = 'Ada';
return { größe, π, 名前 };
//= {"größe": 1500, "π": 3.14, "名前": "Ada"}
--- object with numeric and quoted keys
const o = { 1: 'one', 'two-three': 23, 'with space': true };
return [o[1], o['two-three'], o['with space']];
//= ["one", 23, true]
--- async arrow with parameters is called
async ({ tenant } = { tenant: 'none' }) => tenant
//= "none"
--- function expression names itself
const fact = function self(n) { return n < 2 ? 1 : n * self(n - 1); };
return fact(6);
//= 720
--- default parameter refers to an earlier one
const f = (a, b = a * 2, c = a + b) => [a, b, c];
return f(1);
//= [1, 2, 3]
--- delete and has
const o = { a: 1, b: 2 };
delete o.a;
return [Object.hasOwn(o, 'a'), o.hasOwnProperty('b'), Object.entries(o)];
//= [false, true, [["b", 2]]]
--- a debounce of sorts without timers
const pendingKeys = new Set();
const schedule = (key) => { const fresh = !pendingKeys.has(key); pendingKeys.add(key); return fresh; };
return ['a', 'b', 'a'].map(schedule);
//= [true, true, false]
