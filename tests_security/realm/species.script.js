// Putting a constructor of the script's between a built-in method and its result: `Symbol.species`, `constructor` on an
// instance, methods called on classes, array-likes that lie about their length.
--- constructor on an array instance
const k = ['con', 'structor'].join('');
const list = [1, 2, 3];
let made = 0;
list[k] = function () { made += 1; return []; };
return [list.map((x) => x * 2), list.filter((x) => x > 1), list.slice(1), made];
//= [[2, 4, 6], [2, 3], [2, 3], 0]
--- constructor on an array instance is a class
const k = ['con', 'structor'].join('');
class Spy { static seen = 0; set 0(v) { Spy.seen += 1; } }
const list = [1, 2];
list[k] = Spy;
return [list.concat([3]), list.flat(), list.splice(0, 1), Spy.seen];
//= [[1, 2, 3], [1, 2], [1], 0]
--- constructor on an array instance is an object with a species by its name
const k = ['con', 'structor'].join('');
const list = [1];
list[k] = { species: class { constructor() { throw new Error('made'); } } };
return list.flatMap((x) => [x, x]);
//= [1, 1]
--- constructor on an array instance is a built-in
const k = ['con', 'structor'].join('');
const list = [1];
list[k] = Set;
return list.map((x) => x + 1);
//= [2]
--- constructor on an array instance is null
const k = ['con', 'structor'].join('');
const list = [1];
list[k] = null;
return list.map((x) => x);
//~ EXECUTION_ERROR
--- constructor on a promise instance
const k = ['con', 'structor'].join('');
const promise = Promise.resolve(5);
let made = 0;
promise[k] = class { constructor(executor) { made += 1; executor(() => {}, () => {}); } };
return [await promise.then((x) => x + 1), made];
//~ EXECUTION_ERROR read-only
--- await on a promise with a constructor of its own
const k = ['con', 'structor'].join('');
const promise = Promise.resolve(5);
promise[k] = function Mine() {};
return await promise;
//~ EXECUTION_ERROR read-only
--- constructor on a promise is a getter that throws
const k = ['con', 'structor'].join('');
const promise = Object.assign(Promise.resolve(5));
const proxy = Object.create(promise, { [k]: { get() { throw new Error('asked'); } } });
return await proxy;
//~ EXECUTION_ERROR
--- constructor on the promise of a tool call
const k = ['con', 'structor'].join('');
const call = callTool('echo', { a: 1 });
call[k] = class { static resolve() { return 'mine'; } };
return await call;
//~ EXECUTION_ERROR read-only
--- constructor on a regular expression
const k = ['con', 'structor'].join('');
const r = /,/;
let made = 0;
r[k] = function () { made += 1; return { exec: () => null }; };
return ['a,b'.split(r), made];
//= [["a", "b"], 0]
--- exec of an expression replaced on the instance
const r = /a/g;
r.exec = () => null;
return ['aaa'.replace(r, 'b'), r.test('a')];
//~ EXECUTION_ERROR read-only
--- exec that never ends its matches
const r = Object.create(/a/g, { exec: { value: () => ({ 0: '', index: 0, length: 1 }) }, flags: { value: 'g' }, lastIndex: { value: 0, writable: true } });
return 'aaa'.replace(r, 'b');
//~ WORKER_MEMORY_EXCEEDED
--- exec that gives what is no match
const r = Object.create(/a/, { exec: { value: () => 5 } });
return r.test('a');
//~ EXECUTION_ERROR
--- flags replaced on the instance
const r = Object.create(/a/, { flags: { value: 'g' }, exec: { value: () => null } });
return r.exec('a');
//= null
--- Array.from on a class of the script's
class Bag { constructor(...given) { this.given = given; } }
const bag = Array.from.call(Bag, [1, 2]);
return [bag instanceof Bag, bag[0], bag[1], bag.given, bag.length];
//= [true, 1, 2, [], 2]
--- Array.of on a class of the script's
class Bag { constructor(size) { this.size = size; } }
const bag = Array.of.call(Bag, 1, 2, 3);
return [bag.size, bag[2], bag.length];
//= [3, 3, 3]
--- Array.from on what is no constructor
return Array.from.call(callTool, [1]);
//= [1]
--- Promise.all on a class of the script's
let kept = 'nothing';
class Mine { constructor(executor) { executor((v) => { kept = v; }, () => {}); } static resolve(v) { return Promise.resolve(v); } }
const all = Promise.all.call(Mine, [1, 2]);
return [all instanceof Mine, await all, kept];
//= [false, [1, 2], "nothing"]
--- Promise.resolve on a class of the script's
class Mine { constructor(executor) { this.executor = typeof executor; executor(() => {}, () => {}); } }
return [Promise.resolve.call(Mine, 1) instanceof Promise, Promise.withResolvers.call(Mine).promise instanceof Mine];
//= [true, false]
--- an executor that calls back later
let late;
class Mine { constructor(executor) { late = executor; } }
Promise.reject.call(Mine, new Error('e')).catch(() => 1);
return typeof late;
//= "undefined"
--- a promise that is its own answer
const { promise, resolve } = Promise.withResolvers();
resolve(promise);
return await promise.catch((e) => e.name);
//= "TypeError"
--- concat of an array-like that lies
const fake = { length: 2 ** 53, 0: 'a' };
return [].concat(fake).length;
//= 1
--- map over an array-like of unlikely length
return [].map.call({ length: 2 ** 32 }, (x) => x);
//~ EXECUTION_ERROR
--- an array-like whose length is a trap
let asked = 0;
const fake = { get length() { asked += 1; return asked; }, 0: 'a', 1: 'b' };
return [Array.from(fake), [].slice.call(fake), asked];
//= [["a"], ["a", "b"], 2]
--- length as an object with a value
const fake = { length: { valueOf: () => 2 }, 0: 'a', 1: 'b' };
return [].join.call(fake, '-');
//= "a-b"
--- set operations on what only looks like a set
const fake = { size: 1, has: () => true, keys: () => [7].values() };
return [...new Set([1, 7]).union(fake), '|', ...new Set([1, 2]).intersection(fake)];
//= [1, 7, "|"]
--- a set-like that never ends
const fake = { size: 1, has: () => true, keys: () => ({ next: () => ({ done: false, value: 1 }) }) };
return new Set([1]).union(fake).size;
//~ STEP_LIMIT
--- a map grouped by a key that changes
const keys = { n: 0, toString() { this.n += 1; return `k${this.n}`; } };
return Object.keys(Object.groupBy([1, 2], () => keys)).length;
//= 2
--- Function.prototype methods on a class
class A { constructor(x) { this.x = x; } }
const B = A.bind(null, 5);
return [new B().x, new B() instanceof A];
//= [5, true]
--- a class called as a function
class A {}
return A.call({});
//~ EXECUTION_ERROR
--- toString of a runtime function, called on others
const [f] = [callTool];
const text = f.toString;
return [text.call((a) => 'secret'), text.call(class { x = 'secret'; }), text.call(5)];
//= ["function () { [native code] }", "function () { [native code] }", "function () { [native code] }"]
--- an overflow handed to a class of the script's, by each static of Promise
class Mine { constructor(executor) { executor(() => 1, () => 2); } static resolve(v) { return Promise.resolve(v); } }
const dive = () => dive() + 1;
const seen = [];
for (const name of ['all', 'allSettled', 'any', 'race']) {
  const [P] = [Promise];
  try { await P[name].call(Mine, { [Symbol.iterator]: dive }); } catch (e) { seen.push(e.name); }
}
return seen;
//~ STACK_OVERFLOW
--- an overflow in Promise.try of a class of the script's
class Mine { constructor(executor) { executor(() => 1, () => 2); } }
const dive = () => dive() + 1;
const swallowed = await Promise.try.call(Mine, dive);
return 'swallowed';
//~ STACK_OVERFLOW
--- an array that is its own species
const [S] = [Symbol];
const list = [1, 2, 3];
function Mine() { return list; }
Mine[S['spe' + 'cies']] = Mine;
list[['con', 'structor'].join('')] = Mine;
list.map((x) => x * 2);
return list.slice(0, 3);
//= [1, 2, 3]
--- a symbol is still a symbol
const s = Symbol('a');
return [typeof s, s.description, String(s), s instanceof Symbol, Object(s) instanceof Symbol, typeof Symbol.iterator];
//= ["symbol", "a", "Symbol(a)", false, true, "symbol"]
--- Symbol is no constructor
return new Symbol('a');
//~ EXECUTION_ERROR not a constructor
