// Generators and iterators: endless ones fed to native loops, ones that answer their own ending, ones that are running.
--- an endless generator spread
function* forever() { for (;;) yield 1; }
return [...forever()].length;
//~ ITERATION_LIMIT
--- an endless generator that swallows its ending
function* forever() { for (;;) { try { yield 1; } finally { continue; } } }
for (const one of forever()) { if (one) break; }
return 'ended';
//= "ended"
--- a generator that answers its ending with more
function* stubborn() { try { yield 1; } finally { yield 2; } }
const it = stubborn();
return [it.next().value, it.return(9).value, it.next().value ?? 'end'];
//= [1, 2, 9]
--- an endless iterator without a loop of the script's, in Array.from
const forever = { [Symbol.iterator]: () => ({ next: () => ({ done: false, value: 1 }) }) };
return Array.from(forever).length;
//~ STEP_LIMIT
--- in a spread of arguments
const forever = { [Symbol.iterator]: () => ({ next: () => ({ done: false, value: 1 }) }) };
return Math.max(...forever);
//~ STEP_LIMIT
--- in a set
const forever = { [Symbol.iterator]: () => ({ next: () => ({ done: false, value: 1 }) }) };
return new Set(forever).size;
//~ STEP_LIMIT
--- in a map, with pairs
let n = 0;
const forever = { [Symbol.iterator]: () => ({ next: () => ({ done: false, value: [n++ % 10, 1] }) }) };
return new Map(forever).size;
//~ STEP_LIMIT
--- in Promise.all, for its number of promises
function* forever() { for (;;) yield 1; }
return await Promise.all(forever()).catch(() => 'caught');
//~ ITERATION_LIMIT
--- in Object.fromEntries
const forever = { [Symbol.iterator]: () => ({ next: () => ({ done: false, value: ['a', 1] }) }) };
return Object.fromEntries(forever);
//~ STEP_LIMIT
--- in Object.groupBy and Map.groupBy
const forever = { [Symbol.iterator]: () => ({ next: () => ({ done: false, value: 1 }) }) };
return Map.groupBy(forever, (x) => x).size;
//~ STEP_LIMIT
--- an endless helper chain
function* ones() { for (let i = 0; i < 10; i++) yield 1; }
const loop = (it) => it.flatMap(() => loop(ones()));
return loop(ones()).toArray().length;
//~ EXECUTION_ERROR not a function
--- helpers that drop all of an endless iterator
const it = Object.create([].values());
it.next = () => ({ done: false, value: 1 });
//~ EXECUTION_ERROR read-only
--- reduce over an endless iterator object
const forever = Object.create([].values(), { next: { value: () => ({ done: false, value: 1 }) } });
return forever.reduce((a, b) => a + b);
//~ STEP_LIMIT
--- find that never finds
const forever = Object.create([].values(), { next: { value: () => ({ done: false, value: 1 }) } });
return forever.find(() => false);
//~ STEP_LIMIT
--- every of very many
const forever = Object.create([].values(), { next: { value: () => ({ done: false, value: 1 }) } });
return forever.every(() => true);
//~ STEP_LIMIT
--- an array that grows while a native loop walks it
const list = [1];
return list.values().some((x) => { list.push(x); return false; });
//~ STEP_LIMIT
--- a set that grows while forEach walks it
const set = new Set([1]);
set.forEach((x) => { set.delete(x); set.add(x); });
return set.size;
//~ STEP_LIMIT
--- a map that grows under its own iterator
const map = new Map([[0, 0]]);
for (const [key] of map) map.set(key + 1, 0);
return map.size;
//~ ITERATION_LIMIT
--- an array that grows by a native function, with no line of the script's
const list = [1];
list.values().forEach(list.push.bind(list));
return list.length;
//~ WORKER_MEMORY_EXCEEDED
--- a generator entered while it runs
let it;
function* g() { it.next(); yield 1; }
it = g();
return it.next();
//~ EXECUTION_ERROR
--- a generator that delegates to itself
let it;
function* g() { yield* it; }
it = g();
return [...it];
//~ EXECUTION_ERROR
--- generators nested without end
function* g() { yield* g(); }
return [...g()];
//~ STACK_OVERFLOW
--- return called on a generator that has begun nothing
function* g() { yield 1; }
const it = g();
return [it.return('early'), it.next()];
//= [{"value": "early", "done": true}, {"done": true}]
--- throw into a generator that catches
function* g() { for (let i = 0; i < 3; i++) { try { yield i; } catch (e) { yield e; } } }
const it = g();
return [it.next().value, it.throw('thrown').value, it.next().value];
//= [0, "thrown", 1]
--- next called on what is no generator
function* g() { yield 1; }
const { next } = g();
return next.call({ next });
//~ EXECUTION_ERROR
--- an iterator whose result is a getter
let asked = 0;
const it = { [Symbol.iterator]: () => ({ next: () => ({ get done() { asked += 1; return asked > 2; }, value: 'v' }) }) };
return [...it];
//= ["v", "v"]
--- an iterator that gives no object
const it = { [Symbol.iterator]: () => ({ next: () => 5 }) };
return [...it];
//~ EXECUTION_ERROR
--- an iterator that throws when it is closed
const it = { [Symbol.iterator]: () => ({ next: () => ({ done: false, value: 1 }), return() { throw new Error('closing'); } }) };
for (const one of it) { if (one) break; }
//~ EXECUTION_ERROR closing
--- destructuring closes an endless generator
function* forever() { for (;;) yield 7; }
const [a, b] = forever();
return [a, b];
//= [7, 7]
--- async generators queue their requests
async function* g() { yield 1; yield 2; }
const it = g();
const all = await Promise.all([it.next(), it.next(), it.next(), it.return(9)]);
return all.map((r) => r.value ?? null);
//= [1, 2, null, 9]
--- an async generator that awaits itself
let own;
async function* g() { yield (await own.next()).value; }
own = g();
return await own.next();
//~ DEADLOCK
--- helpers that wrap one iterator in another, thirty thousand deep
let f = [1].values();
for (let j = 0; j < 15; j++) for (let i = 0; i < 1900; i++) f = f.drop(0);
return f.next();
//~ EXECUTION_ERROR not a function
--- an endless generator in the result
function* forever() { for (;;) yield 1; }
return { rows: forever() };
//~ ITERATION_LIMIT
--- an endless generator without a loop of the script's in the result
function* forever() { yield* { [Symbol.iterator]: () => ({ next: () => ({ done: false, value: 1 }) }) }; }
return forever();
//~ STEP_LIMIT
--- an endless generator that runs none of the script's code
function* forever() { yield* { [Symbol.iterator]: () => ({ next: Object }) }; }
return forever();
//~ TIMEOUT
--- an endless generator in an input
function* forever() { for (;;) yield 1; }
await callTool('echo', { rows: forever() });
//~ ITERATION_LIMIT
--- a generator that asks for itself while the result is written
let it;
function* own() { yield it; yield [...it]; }
it = own();
return it;
//~ EXECUTION_ERROR cannot invoke a running generator
--- iterators by name only: data like any other
class Values { next() { return { done: false, value: 1 }; } }
function* g() { yield 1; }
return [new Values(), Object.create(new Map([[1, 2]]).values()), Object.create(g())];
//= [{}, {}, {}]
--- an iterator over a list of four billion gaps
const gaps = [];
gaps.length = 4294967295;
return gaps.values();
//~ TIMEOUT
