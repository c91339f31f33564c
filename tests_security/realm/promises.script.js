// Promises against the runtime: patching `then`, thenables, settling twice, handlers that swallow, work after the end,
// deadlocks. Calls are settled by the runtime's own functions, and what cannot settle is said to be a deadlock.
--- then of all promises cannot be patched
const p = ['proto', 'type'].join('');
const [P] = [Promise];
P[p].then = function (resolve) { resolve('mine'); };
//~ EXECUTION_ERROR read-only
--- catch of all promises cannot be patched
const k = ['con', 'structor'].join('');
const p = ['proto', 'type'].join('');
Promise.resolve()[k][p].catch = () => 'mine';
//~ EXECUTION_ERROR read-only
--- then of one promise cannot be patched either
const call = callTool('echo', { a: 1 });
call.then = (resolve) => resolve('mine');
return await call;
//~ EXECUTION_ERROR read-only
--- Promise.resolve cannot be patched
const [P] = [Promise];
P['res' + String('olve')] = () => 'mine';
//~ EXECUTION_ERROR read-only
--- a thenable as a tool's input
return await callTool('echo', { then: (resolve) => resolve('mine'), a: 1 });
//~ EXECUTION_ERROR then is a function
--- a thenable as the result
return { then(resolve) { resolve({ settled: true }); } };
//= {"settled": true}
--- a thenable that never settles
return { then() {} };
//~ DEADLOCK
--- a thenable that settles with itself
const own = { then(resolve) { resolve(own); } };
return await own;
//~ STEP_LIMIT
--- a thenable that needs no line of the script's to go on for ever
const own = [];
own.then = own.forEach;
own.push(own);
return await Promise.resolve(own);
//~ TIMEOUT
--- a thenable whose then is a getter
let asked = 0;
const own = { get then() { asked += 1; return asked > 3 ? undefined : (resolve) => resolve(own); } };
await own;
return asked;
//= 4
--- a thenable that settles twice, once each way
return await { then(resolve, reject) { resolve('first'); reject(new Error('second')); resolve('third'); } };
//= "first"
--- a thenable that throws after it settled
return await { then(resolve) { resolve('first'); throw new Error('late'); } };
//= "first"
--- an executor that settles twice
return await new Promise((resolve, reject) => { resolve('first'); reject(new Error('second')); });
//= "first"
--- the result is a promise of a promise
return Promise.resolve({ a: Promise.resolve({ b: callTool('echo', { c: 1 }) }) });
//= {"a": {"b": {"c": 1}}}
--- promises that make promises without end
const again = () => Promise.resolve().then(again);
return await again();
//~ WORKER_MEMORY_EXCEEDED
--- an async function that calls itself without end
const again = async () => { await null; return again(); };
return await again();
//~ WORKER_MEMORY_EXCEEDED
--- work that goes on without end after the result
const again = async () => { await null; for (let i = 0; i < 3000; i++); return again(); };
again();
return 1;
//~ STEP_LIMIT
--- nothing settles this
return await new Promise(() => {});
//~ DEADLOCK
--- nor all of them together
return await Promise.all([callTool('echo', {}), new Promise(() => {})]);
//~ DEADLOCK
--- the async function waits for itself
let own;
const f = async () => { await null; return own; };
own = f();
return await own;
//~ EXECUTION_ERROR
--- two promises wait for each other
const a = Promise.withResolvers();
const b = Promise.withResolvers();
a.resolve(b.promise);
b.resolve(a.promise);
return await a.promise;
//~ DEADLOCK
--- a rejection nobody handles is nobody's
Promise.reject(new Error('nobody'));
callTool('fail', {});
return 'fine';
//= "fine"
--- a failing tool cannot be told from outside its promise
const call = callTool('fail', {});
const seen = await Promise.allSettled([call]);
return [seen[0].status, seen[0].reason.name, seen[0].reason.toolName];
//= ["rejected", "ToolError", "fail"]
--- a tool error made by hand is the script's own
throw Object.assign(new Error('forged'), { name: 'ToolError', code: 'ACCESS_DENIED', toolName: 'secret:read' });
//~ EXECUTION_ERROR forged
--- a tool error with another message is still the tool's
try { await callTool('fail', {}); } catch (e) { e.message = 'forged'; e.code = 'TIMEOUT'; throw e; }
//~ TOOL_EXECUTION_ERROR it failed
--- a copy of a tool error is the script's own
try { await callTool('fail', {}); } catch (e) { throw Object.assign(new Error('copied'), { ...e }); }
//~ EXECUTION_ERROR copied
--- a tool that is not allowed, by a computed name
const name = ['secret', 'read'].join(':');
return await callTool(name, {}, { throwOnError: false }).then((r) => [r.success, r.error.code]);
//= [false, "ACCESS_DENIED"]
--- a meta-tool by a computed name ends the script
const name = ['codecall', 'execute'].join(':');
try { await callTool(name, {}); } catch { return 'caught'; }
return 'passed';
//~ SELF_REFERENCE_BLOCKED codecall:execute
--- a meta-tool in other letters, with throwOnError off
const name = ['CodeCall', 'Execute'].join(':');
return await callTool(` ${name} `, {}, { throwOnError: false });
//~ SELF_REFERENCE_BLOCKED
--- a meta-tool under the other spelling, in a handler
await Promise.resolve('codecall_').then((name) => callTool(name + 'invoke', {})).catch(() => 'caught');
return 'passed';
//~ SELF_REFERENCE_BLOCKED
--- getTool of a meta-tool
const found = (name) => getTool(name + 'search');
try { return found('codecall:'); } catch { return 'caught'; }
//~ SELF_REFERENCE_BLOCKED
--- a meta-tool within __safe_parallel
const name = 'codecall:' + ['describe'].pop();
return await __safe_parallel([() => callTool(name, {})]).catch(() => 'caught');
//~ SELF_REFERENCE_BLOCKED
--- then called on something else
const { then } = Promise.resolve();
return then.call({ then: 1 }, () => 'mine');
//~ EXECUTION_ERROR
--- then with handlers that are no functions
return await Promise.resolve(1).then('a', {}).then(null, 5);
//= 1
--- finally that replaces the reason
return await Promise.reject(new Error('first')).finally(() => { throw new Error('second'); }).catch((e) => e.message);
//= "second"
--- race does not stop the others, and they are counted
const slow = [1, 2, 3].map((n) => callTool('echo', { n }));
await Promise.race(slow);
return (await Promise.all(slow)).length;
//= 3
--- any with nothing left
return await Promise.any([callTool('fail', {}), Promise.reject(new Error('other'))]).catch((e) => [e.name, e.errors.length]);
//= ["AggregateError", 2]
--- a subclass of promises
class Mine extends Promise {} //! DisallowedSyntax
--- async iteration of what settles late
async function* late() { yield callTool('echo', { n: 1 }); yield callTool('echo', { n: 2 }); }
const seen = [];
for await (const { n } of late()) seen.push(n);
return seen;
//= [1, 2]
--- an async iterator that never ends
const forever = { [Symbol.asyncIterator]: () => ({ next: async () => ({ done: false, value: 1 }) }) };
for await (const one of forever) { if (one > 1) break; }
//~ ITERATION_LIMIT
--- Array.fromAsync of one that never ends
const forever = { [Symbol.asyncIterator]: () => ({ next: async () => { for (let i = 0; i < 2000; i++); return { done: false, value: 1 }; } }) };
return (await Array.fromAsync(forever)).length;
//~ STEP_LIMIT
--- a promise that settles with itself
class A { constructor(o) { return o } }
const c = ['constr', 'uctor'].join('');
class B extends A { [c] = null; then = null }
return new B(Promise.resolve(1));
//~ EXECUTION_ERROR settles with a promise
--- what a promise inherits from cannot be held
const [O] = [Object];
return [['get', 'PrototypeOf'], ['set', 'PrototypeOf']].map((name) => typeof O[name.join('')]);
//= ["undefined", "undefined"]
--- nor changed, through the prototype of promises
const p = ['proto', 'type'].join('');
const [P] = [Promise];
P[p].users = 'mine';
//~ EXECUTION_ERROR not extensible
--- an object that inherits from it is no way around
const p = ['proto', 'type'].join('');
const [P] = [Promise];
const own = Object.create(P[p]);
return own.users;
//~ EXECUTION_ERROR a promise was not awaited: its property 'users' was read
--- what is set on a promise is its own, and on no other
const one = Promise.resolve(1);
one.toString = () => 'mine';
one.users = [];
let other = 'none';
try { other = Promise.resolve(2).users; } catch (e) { other = e.name; }
return [one.toString(), one.users, other, String({})];
//= ["mine", [], "TypeError", "[object Object]"]
--- fields of a class, put on a promise
class A { constructor(o) { return o } }
class B extends A { users = 1; then = undefined }
return [new B(Promise.resolve(1)).users, 'done'];
//= [1, "done"]
--- reading what is not there does not get past the limit of turns
const p = Promise.resolve();
for (;;) { try { p.x; } catch { } }
//~ ITERATION_LIMIT
--- nor past the stack
const p = Promise.resolve();
const f = () => { try { p.x; } catch { } return f() + 1; };
return f();
//~ STACK_OVERFLOW
--- the error shows nothing of the runtime
try { Promise.resolve().x; } catch (e) { return [e.name, e.stack, Object.getOwnPropertyNames(e).sort()]; }
//= ["TypeError", "", ["message"]]
--- nor all of a long name
try { Promise.resolve()['x'.repeat(100000)]; } catch (e) { return e.message.length < 300; }
//= true
--- nor a name that is no text
const key = Symbol('k');
return Promise.resolve()[key];
//~ EXECUTION_ERROR a promise was not awaited: it was used as a value
--- a tool's name in the error is shortened
const name = 'n'.repeat(250);
try { callTool(name).x; } catch (e) { return e.message.length < 300; }
//= true
--- a spread looks at a promise only, and runs nothing of the script's
let asked = 0;
const own = { get then() { asked += 1; }, a: 1 };
const copy = { ...own };
return [asked, copy.a];
//= [1, 1]
