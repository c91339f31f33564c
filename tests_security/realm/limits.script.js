// Limits that a script tries to swallow, to dodge, or to run past where nobody counts.
--- overflow caught in the function itself
function f() { try { return f(); } catch { return 1; } }
return f();
//~ STACK_OVERFLOW
--- overflow answered by finally
function f() { try { return f(); } finally { return 1; } }
return f();
//~ STACK_OVERFLOW
--- overflow answered by a break out of finally
function f() { out: { try { f(); } finally { break out; } } return 1; }
return f();
//~ STACK_OVERFLOW
--- overflow answered by continue in finally
function f() { for (let i = 0; i < 1; i++) { try { f(); } finally { continue; } } return 1; }
return f();
//~ STACK_OVERFLOW
--- overflow in an async function, handled by catch
async function f() { return f(); }
return await f().catch(() => 's');
//~ STACK_OVERFLOW
--- handled by the second argument of then
async function f() { return await f(); }
return await f().then(0, () => 's');
//~ STACK_OVERFLOW
--- told by allSettled
async function f() { return f(); }
return (await Promise.allSettled([f()])).length;
//~ STACK_OVERFLOW
--- outrun by any
async function f() { return f(); }
return await Promise.any([f(), 5]);
//~ STACK_OVERFLOW
--- outrun by race
async function f() { return f(); }
return await Promise.race([5, f()]);
//~ STACK_OVERFLOW
--- overflow in an executor
const g = () => g() + 1;
return await new Promise(() => g()).catch(() => 's');
//~ STACK_OVERFLOW
--- overflow in __safe_parallel
const g = () => g() + 1;
return await __safe_parallel([g]).catch(() => 's');
//~ STACK_OVERFLOW
--- overflow in Promise.try
const g = () => g() + 1;
return await Promise.try(g).catch(() => 's');
//~ STACK_OVERFLOW
--- overflow in a getter
const o = { get x() { return this.x; } };
try { return o.x; } catch { return 's'; }
//~ STACK_OVERFLOW
--- overflow in a setter
const o = { set x(v) { this.x = v; } };
try { o.x = 1; } catch { return 's'; }
//~ STACK_OVERFLOW
--- overflow in toString
const o = { toString: () => `${o}` };
try { return `${o}`; } catch { return 's'; }
//~ STACK_OVERFLOW
--- overflow in a default parameter
function f(a = f()) { return a; }
try { return f(); } catch { return 's'; }
//~ STACK_OVERFLOW
--- overflow in a field
class A { next = new A(); }
try { return new A(); } catch { return 's'; }
//~ STACK_OVERFLOW
--- overflow in a comparator
const f = () => [2, 1].sort(f);
try { return f(); } catch { return 's'; }
//~ STACK_OVERFLOW
--- overflow in a replacer
const f = () => JSON.stringify({ a: 1 }, f);
try { return f(); } catch { return 's'; }
//~ STACK_OVERFLOW
--- overflow in a reviver
const f = () => JSON.parse('[1]', f);
try { return f(); } catch { return 's'; }
//~ STACK_OVERFLOW
--- overflow in the replacement of a text
const f = () => 'a'.replace(/a/, f);
try { return f(); } catch { return 's'; }
//~ STACK_OVERFLOW
--- overflow in a tagged template
const f = () => f`${1}`;
try { return f(); } catch { return 's'; }
//~ STACK_OVERFLOW
--- overflow by bound functions
let f = () => f();
for (let i = 0; i < 100; i++) f = f.bind(null);
try { return f(); } catch { return 's'; }
//~ STACK_OVERFLOW
--- overflow of two functions that call each other natively
const a = () => [1].map(b);
const b = () => [1].forEach(a);
try { return a(); } catch { return 's'; }
//~ STACK_OVERFLOW
--- overflow by nested data
let deep = [];
for (let i = 0; i < 4900; i++) deep = [deep];
try { return deep.flat(Infinity).length; } catch { return 's'; }
//= 0
--- overflow by joining nested data
let deep = [];
for (let i = 0; i < 4900; i++) deep = [deep];
let deeper = deep;
for (let i = 0; i < 4900; i++) deeper = [deeper];
try { return `${deeper}`.length; } catch { return 's'; }
//~ STACK_OVERFLOW
--- heap exhausted, caught
async function f() { const a = []; for (let i = 0; i < 4000; i++) a.push('x'.repeat(1e5) + i); }
return await f().catch(() => 's');
//~ WORKER_MEMORY_EXCEEDED
--- heap exhausted, caught by a clause
async function f() { const a = []; for (let i = 0; i < 4000; i++) a.push('y'.repeat(1e5) + i); }
try { await f(); } catch { return 's'; }
//~ WORKER_MEMORY_EXCEEDED
--- heap exhausted, answered by finally
function f() { const a = []; for (let i = 0; i < 4000; i++) a.push('z'.repeat(1e5) + i); }
function g() { try { f(); } finally { return 's'; } }
return g();
//~ WORKER_MEMORY_EXCEEDED
--- heap exhausted by many small things, all gone when it is caught
const f = () => { 'x'.repeat(3e6).split('').map((x) => ({ x })); };
try { f(); } catch { return 's'; }
//~ WORKER_MEMORY_EXCEEDED
--- heap exhausted in a native loop, caught
try { Array.from({ length: 1e8 }, String); } catch { return 's'; }
//~ WORKER_MEMORY_EXCEEDED
--- heap exhausted by one large text, caught
try { return 'x'.repeat(1e9).length; } catch { return 's'; }
//~ WORKER_MEMORY_EXCEEDED
--- heap exhausted while a getter of the result is read
return { get a() { return 'x'.repeat(5e8); } };
//~ WORKER_MEMORY_EXCEEDED
--- heap exhausted while the message of an error is read
class E extends Error { get message() { return 'x'.repeat(5e8); } }
throw new E();
//~ WORKER_MEMORY_EXCEEDED
--- heap exhausted while the message of an error is read by the console
class E extends Error { get message() { return 'x'.repeat(5e8); } }
console.log(new E());
return 's';
//~ WORKER_MEMORY_EXCEEDED
--- overflow while the message of an error is read by __safe_parallel
class E extends Error { get message() { return this.message; } }
return await __safe_parallel([() => { throw new E(); }]).catch(() => 's');
//~ STACK_OVERFLOW
--- iterations in a getter, caught
const o = { get x() { for (;;) {} } };
try { return o.x; } catch { return 's'; }
//~ ITERATION_LIMIT Loop exceeded the iteration limit
--- iterations in a field, caught
class A { x = (() => { for (;;) {} })(); }
try { new A(); } catch { return 's'; }
//~ ITERATION_LIMIT
--- iterations in a static block, caught
try { class A { static { for (;;) {} } } } catch { return 's'; }
//~ ITERATION_LIMIT
--- iterations in a generator that ends by itself
function* g() { try { for (;;) yield 1; } finally { return 2; } }
return [...g()].length;
//~ ITERATION_LIMIT
--- iterations in toString, caught
const t = { toString() { for (;;) {} } };
try { return `${t}`; } catch { return 's'; }
//~ ITERATION_LIMIT
--- iterations in a default of a pattern, caught
try { const { a = (() => { for (;;) {} })() } = {}; } catch { return 's'; }
//~ ITERATION_LIMIT
--- iterations in the head of a loop
for (let i = (() => { for (;;) {} })(); i < 1; i++) {}
//~ ITERATION_LIMIT
--- iterations with a comma for a body
for (let i = 0; ; i++, i--);
//~ ITERATION_LIMIT
--- iterations by continue to a label
a: for (;;) { for (;;) { continue a; } }
//~ ITERATION_LIMIT
--- iterations swallowed at every level
const swallow = (f) => { try { return f(); } catch { return 's'; } finally { try { f(); } catch { /* again */ } } };
return swallow(() => swallow(() => swallow(() => { for (;;) {} })));
//~ ITERATION_LIMIT
--- iterations swallowed by a closing iterator
const it = { [Symbol.iterator]: () => ({ next: () => ({ done: false, value: 1 }), return() { for (;;) {} } }) };
try { for (const one of it) throw one; } catch (e) { return e; }
//~ ITERATION_LIMIT
--- steps swallowed by a closing iterator
const again = (n) => (n === 0 ? 0 : again(n - 1));
const it = { [Symbol.iterator]: () => ({ next: () => ({ done: false, value: 1 }), return() { Array.from({ length: 1e5 }, () => again(1000)); } }) };
try { for (const one of it) throw one; } catch (e) { return e; }
//~ STEP_LIMIT
--- the body of a loop that is a function each time
for (let i = 0; i < 1e9; i++) (() => { i -= 1; })();
//~ ITERATION_LIMIT
--- while under a preset that has it
//@ preset: balanced
let n = 0;
while (true) { try { n += 1; } catch { break; } }
//~ ITERATION_LIMIT Loop exceeded the iteration limit of 10000
--- do…while under a preset that has it, by continue
//@ preset: balanced
do { continue; } while (true);
//~ ITERATION_LIMIT
--- tool calls by a loop that catches
for (let i = 0; i < 200; i++) callTool('echo', {}).catch(() => 1);
return 's';
//~ TOOL_CALL_LIMIT Script exceeded the limit of 100 tool calls
--- tool calls by a failing tool
for (let i = 0; i < 200; i++) { try { await callTool('fail', {}); } catch { /* on */ } }
return 's';
//~ TOOL_CALL_LIMIT
--- tool calls with throwOnError off
for (let i = 0; i < 200; i++) await callTool('echo', {}, { throwOnError: false });
return 's';
//~ TOOL_CALL_LIMIT
--- tool calls from getters of the input of tool calls
const input = () => ({ get a() { callTool('echo', input()); return 1; } });
try { await callTool('echo', input()); } catch { return 's'; }
//~ TOOL_CALL_LIMIT
--- console lines in a loop that catches
for (let i = 0; i < 200; i++) { try { console.log(i); } catch { /* on */ } }
return 's';
//= "s"
--- one console line that is too long
try { console.log('x'.repeat(1e6)); } catch { return 's'; }
//= null
--- more than a hundred functions at once
return await __safe_parallel(Array.from({ length: 101 }, () => () => 1));
//~ EXECUTION_ERROR Cannot execute more than 100 operations in parallel
--- a list of functions that grows while they run
const list = Array.from({ length: 100 }, () => () => { list.push(() => 1); return 1; });
return (await __safe_parallel(list)).length;
//= 100
--- a concurrency that is no number
const f = Array.from({ length: 30 }, (_, i) => () => callTool('echo', { i }));
return (await __safe_parallel(f, { maxConcurrency: { valueOf: () => 1000 } })).length;
//~ EXECUTION_ERROR needs a whole number from 1
--- a result that is too large
return 'x'.repeat(9e4).concat('').split('').map((x) => x.repeat(500)).slice(0, 9000);
//~ OUTPUT_LIMIT
--- field initialisers count as steps
class A { a = Math.sqrt(2) + 1; }
const make = Array.of.bind(A);
const list = Array.from('x'.repeat(2000));
for (let i = 0; i < 1000; i++) list.forEach(make);
return 's';
//~ STEP_LIMIT
--- a native comparator has the clock only
const list = Array.from({ length: 2e5 }, (_, i) => [i, String(i)]);
for (let i = 0; i < 4000; i++) list.sort();
return 's';
//~ TIMEOUT
--- a regular expression that never comes back
return /^(a+)+$/.test('a'.repeat(60) + 'b');
//~ TIMEOUT
--- a number that takes for ever to make
return Array.from({ length: 200 }, () => (7n ** 300000n).toString().length);
//~ TIMEOUT
