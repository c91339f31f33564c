// Time: loops of the script that do little each turn, loops that hide in iterators, promises and built-ins that call
// back, and values that are small to hold and endless to walk. Each ends by a counter. What sticks in the engine's own
// loops, where nothing counts, stands in stuck.programs.js.
--- a for loop without an end
for (;;) { }
//~ ITERATION_LIMIT
--- a while loop without an end
//@ preset: balanced
while (true) { }
//~ ITERATION_LIMIT
--- do while, with continue
//@ preset: balanced
do { continue } while (true);
//~ ITERATION_LIMIT
--- loops in loops
let n = 0;
for (let i = 0; i < 5000; i++) for (let j = 0; j < 5000; j++) n += 1;
return n;
//~ STEP_LIMIT
--- waiting by a busy loop on the clock
const until = Date.now() + 60_000;
for (; Date.now() < until;) { }
return 'later';
//~ ITERATION_LIMIT
--- waiting by recursion on the clock
const until = Date.now() + 60_000;
const wait = async () => { for (let i = 0; i < 4000 && Date.now() < until; i++) { } if (Date.now() < until) await wait() };
await wait();
//~ STEP_LIMIT
--- sort with a slow comparator
const list = Array.from({ length: 5000 }, (_, i) => (i * 7919) % 5000);
list.sort((a, b) => { for (let i = 0; i < 4000; i++) { } return a - b });
return list[0];
//~ STEP_LIMIT
--- sort with a comparator that never agrees with itself
const list = new Array(100_000).fill(0);
list.sort(() => 0.5 - Math.random());
return list.length;
//~ STEP_LIMIT
--- structuredClone knows what it has seen
let value = { leaf: 1 };
for (let i = 0; i < 1000; i++) value = { a: value, b: value };
return Object.keys(structuredClone(value));
//= ["a", "b"]
--- equality by a walk over a graph in which each level is twice in the next
let a = [], b = [];
for (let i = 0; i < 40; i++) { a = [a, a]; b = [b, b] }
const same = (x, y) => x.length === y.length && x.every((item, at) => same(item, y[at]));
return same(a, b);
//~ STEP_LIMIT
--- a date read from long texts
let n = 0;
const text = '('.repeat(1_000_000);
for (let i = 0; i < 100; i++) n += Number.isNaN(Date.parse(text)) ? 1 : 0;
return n;
//= 100
--- a chain of a million promises
let promise = Promise.resolve(0);
for (let i = 0; i < 1000; i++) for (let j = 0; j < 1000; j++) promise = promise.then((x) => x + 1);
return await promise;
//~ WORKER_MEMORY_EXCEEDED
--- ten thousand promises that nobody resolves
const kept = [];
for (let i = 0; i < 100; i++) for (let j = 0; j < 100; j++) kept.push(new Promise(() => 1));
return await Promise.all(kept);
//~ DEADLOCK
--- ten thousand promises that nobody resolves, and nobody waits for them
for (let i = 0; i < 100; i++) for (let j = 0; j < 100; j++) new Promise(() => 1).then(() => 1);
return 'gone';
//= "gone"
--- a race that nobody wins
await Promise.race([]);
//~ DEADLOCK
--- two promises that wait for each other
let a, b;
const first = new Promise((resolve) => { a = resolve }), second = new Promise((resolve) => { b = resolve });
first.then(b); second.then(a);
return await first;
//~ DEADLOCK
--- microtasks that feed each other
const ping = async () => { for (let i = 0; i < 2000; i++) { } await null; await pong() };
const pong = async () => { for (let i = 0; i < 2000; i++) { } await null; await ping() };
await ping();
//~ STEP_LIMIT
--- for await over what is always there
let n = 0;
const endless = { [Symbol.asyncIterator]: () => ({ next: async () => ({ done: false, value: 1 }) }) };
for await (const x of endless) n += x;
return n;
//~ ITERATION_LIMIT
--- Array.fromAsync over what is always there
const endless = { [Symbol.asyncIterator]: () => ({ next: async () => { for (let i = 0; i < 500; i++) { } return { done: false, value: 1 } } }) };
return (await Array.fromAsync(endless)).length;
//~ STEP_LIMIT
--- a generator that never ends, taken apart
function* endless() { let i = 0; for (;;) yield i++ }
const [a, b, ...rest] = endless();
return rest.length;
//~ ITERATION_LIMIT
--- an iterator without a loop that never ends, into a Map
let i = 0;
const endless = { [Symbol.iterator]: () => ({ next: () => ({ done: false, value: [i += 1, i] }) }) };
return new Map(endless).size;
//~ WORKER_MEMORY_EXCEEDED
--- getters that are slow, read by the runtime
const spin = () => { for (let i = 0; i < 4900; i++) { } return 1 };
return Array.from({ length: 300 }, () => ({ get a() { return spin() } }));
//~ STEP_LIMIT
--- loops in parallel lanes
return await __safe_parallel(Array.from({ length: 100 }, () => async () => { for (let i = 0; i < 4900; i++) for (let j = 0; j < 4900; j++) { } }));
//~ STEP_LIMIT
--- tools called for ever
for (let i = 0; ; i++) await callTool('echo', { i });
//~ TOOL_CALL_LIMIT
--- tools called for ever, failing
for (let i = 0; ; i++) { try { await callTool('fail', {}) } catch { /* again */ } }
//~ TOOL_CALL_LIMIT
--- getTool asked for ever
for (let i = 0; ; i++) getTool('name ' + i);
//~ ITERATION_LIMIT
