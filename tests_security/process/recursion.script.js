// Recursion in every form the language has. Each ends as STACK_OVERFLOW (or by a counter, where each level is a promise
// of its own), never as a crash; none can be swallowed.
--- a function that calls itself
function f() { return f() }
return f();
//~ STACK_OVERFLOW
--- an arrow function that calls itself
const f = () => f() + 1;
return f();
//~ STACK_OVERFLOW
--- two functions that call each other
const ping = (n) => pong(n + 1), pong = (n) => ping(n + 1);
return ping(0);
//~ STACK_OVERFLOW
--- a method that calls itself
const o = { m() { return this.m() } };
return o.m();
//~ STACK_OVERFLOW
--- a class whose constructor makes another
class A { child = new A() }
return new A();
//~ STACK_OVERFLOW
--- super that comes back
class A { m() { return this.n() } }
class B extends A { n() { return super.m() } }
return new B().n();
//~ STACK_OVERFLOW
--- a static block that calls into its class
class A { static f() { return A.f() } static { A.f() } }
return 1;
//~ STACK_OVERFLOW
--- a getter that reads itself
const o = { get a() { return o.a } };
return o.a;
//~ STACK_OVERFLOW
--- a setter that writes itself
const o = { set a(value) { o.a = value } };
o.a = 1;
//~ STACK_OVERFLOW
--- a getter in a pattern
const o = { get a() { const { a } = o; return a } };
const { a } = o;
return a;
//~ STACK_OVERFLOW
--- toString that needs itself
const o = { toString() { return `${o}` } };
return String(o);
//~ STACK_OVERFLOW
--- valueOf that needs itself
const o = { valueOf() { return o + 1 } };
return o * 2;
//~ STACK_OVERFLOW
--- valueOf and toString in turn
const o = { valueOf() { return `${o}` }, toString() { return +o } };
return o > 1;
//~ STACK_OVERFLOW
--- toJSON that makes text of itself
const o = { toJSON() { return JSON.stringify(o) } };
return JSON.stringify(o);
//~ STACK_OVERFLOW
--- toJSON that wraps itself
const make = () => ({ toJSON: () => ({ inner: make() }) });
return JSON.stringify(make());
//~ STACK_OVERFLOW
--- a replacer that goes deeper
return JSON.stringify([], (key, value) => [value]);
//~ STACK_OVERFLOW
--- a reviver that parses
const revive = (key, value) => JSON.parse('[1]', revive);
return JSON.parse('[1]', revive);
//~ STACK_OVERFLOW
--- JSON nested deeper than the stack
return JSON.parse('['.repeat(1_000_000));
//~ STACK_OVERFLOW
--- JSON nested and made text again
let value = 1;
for (let i = 0; i < 5000; i++) value = [value];
for (let i = 0; i < 4; i++) value = JSON.parse(JSON.stringify([value]));
return JSON.stringify(value).length;
//= 10009
--- a nested value made text
let value = 1;
for (let i = 0; i < 40; i++) for (let j = 0; j < 2000; j++) value = [value];
return JSON.stringify(value).length;
//~ STACK_OVERFLOW
--- a nested value joined
let value = 1;
for (let i = 0; i < 40; i++) for (let j = 0; j < 2000; j++) value = [value];
return String(value).length;
//~ STACK_OVERFLOW
--- a nested value made flat
let value = 1;
for (let i = 0; i < 40; i++) for (let j = 0; j < 2000; j++) value = [value];
return value.flat(Infinity).length;
//~ STACK_OVERFLOW
--- a nested value cloned
let value = 1;
for (let i = 0; i < 40; i++) for (let j = 0; j < 2000; j++) value = { value };
structuredClone(value);
return 'cloned';
//~ STACK_OVERFLOW
--- a nested value as the result is cut at the preset's depth
let value = 1;
for (let i = 0; i < 40; i++) for (let j = 0; j < 2000; j++) value = [value];
const shown = value;
return JSON.stringify([typeof shown]);
//= "[\"object\"]"
--- a nested value shown on the console is cut
let value = 1;
for (let i = 0; i < 40; i++) for (let j = 0; j < 2000; j++) value = { value };
console.log(value);
return 'shown';
//= "shown"
--- a nested value as a tool's input is refused
let value = 1;
for (let i = 0; i < 40; i++) for (let j = 0; j < 2000; j++) value = { value };
try { await callTool('echo', { value }) } catch (error) { return error.name }
//= "TypeError"
--- an array that holds itself, as text
const list = [];
list.push(list, list);
return list.join();
//~ STACK_OVERFLOW
--- an array that holds itself, made flat
const list = [];
list.push(list, list);
return list.flat(Infinity);
//~ STACK_OVERFLOW
--- an object that holds itself is no recursion for the result
const object = { name: 'self' };
object.object = object;
object.list = [object, { object }];
return object;
//= {"name": "self", "object": "[Circular]", "list": ["[Circular]", {"object": "[Circular]"}]}
--- an iterator that iterates itself
const o = { [Symbol.iterator]() { return [...o] } };
return [...o];
//~ STACK_OVERFLOW
--- an iterator in a pattern
const o = { *[Symbol.iterator]() { const [a] = o; yield a } };
const [a] = o;
return a;
//~ STACK_OVERFLOW
--- a generator that delegates to itself
function* g() { yield* g() }
return [...g()];
//~ STACK_OVERFLOW
--- a generator that delegates ever deeper
function* g(n) { yield n; yield* g(n + 1) }
let last = 0;
for (const n of g(0)) last = n;
return last;
//~ STACK_OVERFLOW
--- an async generator that delegates to itself
async function* g() { yield* g() }
for await (const x of g()) return x;
//~ STACK_OVERFLOW
--- an async function that calls itself at once
const f = async () => f();
return await f();
//~ STACK_OVERFLOW
--- an async function that calls itself when it has waited
const f = async (n) => { for (let i = 0; i < 500; i++) { } await null; return f(n + 1) };
return await f(0);
//~ STEP_LIMIT
--- an executor that makes a promise
const make = () => new Promise((resolve) => resolve(make()));
return await make();
//~ STACK_OVERFLOW
--- a thenable that resolves to itself
const thenable = { then(resolve) { for (let i = 0; i < 500; i++) { } resolve(thenable) } };
return await thenable;
//~ STEP_LIMIT
--- a thenable whose then calls then
const thenable = { then(resolve) { thenable.then(resolve) } };
return await thenable;
//~ STACK_OVERFLOW
--- a promise that resolves to itself
let resolve;
const promise = new Promise((r) => { resolve = r });
resolve(promise);
try { return await promise } catch (error) { return error.name }
//= "TypeError"
--- map in map
const f = (n) => [n].map(f);
return f(0);
//~ STACK_OVERFLOW
--- every kind of callback, each in the other
const kinds = [(f) => [1].map(f), (f) => [1].filter(f), (f) => [1, 2].reduce(f), (f) => [2, 1].sort(f), (f) => [1].some(f), (f) => 'a'.replace('a', f), (f) => Array.from([1], f), (f) => new Map([[1, 1]]).forEach(f), (f) => JSON.parse('1', f), (f) => JSON.stringify([1], f), (f) => f.call(null), (f) => [1].flatMap(f), (f) => [1].find(f)];
let n = 0;
const dive = () => { n += 1; return kinds[n % kinds.length](dive) };
return dive();
//~ STACK_OVERFLOW
--- a comparator that sorts
const sort = () => { [2, 1].sort(sort); return 0 };
return sort();
//~ STACK_OVERFLOW
--- reduce that reduces
const reduce = () => [1, 2].reduce(reduce);
return reduce();
//~ STACK_OVERFLOW
--- a function of replace that replaces
const f = (text) => text.replace(/a/, f);
return f('a');
//~ STACK_OVERFLOW
--- a tagged template in a tagged template
const tag = () => tag`x`;
return tag`x`;
//~ STACK_OVERFLOW
--- defaults of parameters
const f = (a = f()) => a;
return f();
//~ STACK_OVERFLOW
--- defaults in a pattern
const f = ({ a = f({}) }) => a;
return f({});
//~ STACK_OVERFLOW
--- a computed key that calls its function
const f = () => ({ [f()]: 1 });
return f();
//~ STACK_OVERFLOW
--- a computed name of a class
const f = () => class { [f()]() { } };
return f();
//~ STACK_OVERFLOW
--- optional calls
const f = () => f?.();
return f();
//~ STACK_OVERFLOW
--- new in new
function F() { return new F() }
return new F();
//~ STACK_OVERFLOW
--- bind, call and apply
const f = function () { return f.bind(null).call(null) };
return f.apply(null, []);
//~ STACK_OVERFLOW
--- instanceof and in
const o = { get a() { return 'a' in { ...o } } };
return o.a;
//~ STACK_OVERFLOW
--- a catch that calls again
const f = () => { try { return f() } catch (error) { return f() } };
return f();
//~ STACK_OVERFLOW
--- a finally that calls again
const f = () => { try { return f() } finally { f() } };
return f();
//~ STACK_OVERFLOW
--- an error whose message needs itself
const o = { toString() { return new Error(o).message } };
return new Error(o).message;
//~ STACK_OVERFLOW
--- a Map of itself, shown
const map = new Map();
map.set('self', map).set('more', new Map([['map', map], ['set', new Set([map])]]));
console.log(map);
return map;
//= {"self": "[Circular]", "more": {"map": "[Circular]", "set": ["[Circular]"]}}
--- groups in a regular expression, nested deep
return RegExp('(?:'.repeat(50_000) + 'a' + ')'.repeat(50_000)).test('a');
//~ EXECUTION_ERROR
--- classes in a regular expression, nested deep
return RegExp('['.repeat(50_000) + ']'.repeat(50_000), 'v').test('a');
//~ EXECUTION_ERROR
--- lookaheads in a regular expression, nested deep
return RegExp('(?='.repeat(250) + 'a' + ')'.repeat(250)).test('a');
//= true
--- a long chain of a regular expression's alternatives
return RegExp('a|'.repeat(20_000) + 'b').test('b');
//= true
--- lanes in lanes
const f = async () => __safe_parallel([f]);
return await f();
//~ STACK_OVERFLOW
--- a tool's answer that is walked without an end
const walk = (value) => walk([value]);
return walk(await callTool('users:list', {}));
//~ STACK_OVERFLOW
--- honest recursion has room
const depth = (n) => (n === 0 ? 0 : 1 + depth(n - 1));
const tree = (n) => (n === 0 ? null : { left: tree(n - 1), right: tree(n - 1) });
const count = (t) => (t === null ? 0 : 1 + count(t.left) + count(t.right));
return [depth(1500), count(tree(10))];
//= [1500, 1023]
