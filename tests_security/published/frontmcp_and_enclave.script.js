// FrontMCP's CodeCall and enclave-vm, whose language this one follows: what was published about them, and the same ideas
// on this runtime's own surface (tools, their errors, their metadata, the loop counters).
--- CVE-2026-22686: the error of a failed tool is the host's
//@ hint: enclave-vm < 2.7.0, GHSA-7qm7-455j-5p63
const key = ['constr', 'uctor'].join('');
try { await callTool('fail', {}) } catch (error) { return [error.name, typeof error[key], typeof error[key]?.[key], error instanceof Error] }
//= ["ToolError", "undefined", "undefined", true]
--- CVE-2026-22686: the error of a failed tool, with the name in the open
//@ hint: enclave-vm < 2.7.0, GHSA-7qm7-455j-5p63
try { await callTool('fail', {}) } catch (error) { return error.constructor.constructor('return process')() } //! DisallowedMember Member 'error.constructor' is not allowed
//! ^ DisallowedMember Member 'error.constructor.constructor' is not allowed
--- CVE-2026-22686: the error of a tool that does not exist
//@ hint: enclave-vm < 2.7.0
const key = ['constr', 'uctor'].join('');
const kinds = [];
for (const name of ['nope', 'secret:read', 'fail']) {
  try { await callTool(name, {}) } catch (error) { kinds.push(typeof error[key], typeof error[['__pro', 'to__'].join('')], /\/|\.py|Traceback/.test(error.stack + error.message)) }
}
return kinds;
//= ["undefined", "undefined", false, "undefined", "undefined", false, "undefined", "undefined", false]
--- CVE-2026-22686: the error object of throwOnError false
//@ hint: enclave-vm < 2.7.0
const key = ['constr', 'uctor'].join('');
const { success, error } = await callTool('fail', {}, { throwOnError: false });
return [success, typeof error[key], Object.keys(error).sort()];
//= [false, "undefined", ["code", "message", "toolName"]]
--- CVE-2026-27597: a key that is an array in an array
//@ hint: @enclave-vm/core < 2.11.1, GHSA-f229-3862-4942; `{}[['__proto__']]` is no string literal
return ({})[['__proto__']] === undefined;
//= true
--- CVE-2026-27597: the constructor by a key that is an array
//@ hint: @enclave-vm/core < 2.11.1, GHSA-f229-3862-4942
return [typeof (() => 1)[['constructor']], typeof ''[['constructor']], typeof [][[['constructor']]], typeof ({})[['__lookupGetter__']]];
//= ["undefined", "undefined", "undefined", "undefined"]
--- CVE-2026-27597: getOwnPropertyDescriptors of what the array gave
//@ hint: @enclave-vm/core < 2.11.1, GHSA-f229-3862-4942
const all = Object.getOwnPropertyDescriptors; //! DisallowedMember Member 'Object.getOwnPropertyDescriptors' is not allowed
return all({});
--- CVE-2026-27597: writing under a key that is an array
//@ hint: @enclave-vm/core < 2.11.1
const o = {};
o[['__proto__']] = { polluted: 1 };
const { [['constructor']]: c = 'none' } = o;
return [({}).polluted === undefined, o.polluted === undefined, c];
//= [true, true, "none"]
--- enclave-vm: infinite recursion and the error it makes
//@ hint: @enclave-vm/core, technique: an exhausted stack inside a callback of the host's
const dive = () => [1].forEach(dive);
try { dive() } catch (error) { return error[['constr', 'uctor'].join('')] }
//~ STACK_OVERFLOW
--- CVE-2026-67531: getTool gives live objects of the host
//@ hint: FrontMCP < 1.5.7, GHSA-mp29-fxh8-92px; a tool's schema was the host's own Zod object
const key = ['constr', 'uctor'].join('');
const tool = getTool('users:list') ?? getTool('echo') ?? {};
const kinds = new Set();
const walk = (value) => {
  if (typeof value === 'function') kinds.add('function');
  if (typeof value !== 'object' || value === null) return;
  if (value[key] !== undefined || value._zod !== undefined || value['~standard'] !== undefined) kinds.add('live');
  Object.values(value).forEach(walk);
};
walk(tool);
return [...kinds];
//= []
--- CVE-2026-67531: what getTool gives is the script's own copy
//@ hint: FrontMCP < 1.5.7, GHSA-mp29-fxh8-92px; a change must not be seen by the next one who asks
const first = getTool('echo');
if (first === undefined) return 'no metadata';
first.name = 'secret:read'; first.inputSchema = null;
const second = getTool('echo');
return second.name === 'echo' && second !== first ? 'no metadata' : 'shared';
//= "no metadata"
--- CVE-2026-67531: the value of a tool is the script's own copy
//@ hint: FrontMCP < 1.5.7
const [a, b] = await Promise.all([callTool('users:list', {}), callTool('users:list', {})]);
a.users[0].name = 'changed';
return [b.users[0].name === 'changed', a === b];
//= [false, false]
--- mcp-run-python, CVE-2026-25905: the bridge between two languages is reachable
//@ hint: mcp-run-python, GHSA without membrane: Python code kept the JavaScript global. Here the other way round
return [typeof $post, typeof $ask, typeof $log]; //! DisallowedGlobal Unknown name '$post'
//! ^ DisallowedGlobal Unknown name '$ask'
//! ^ DisallowedGlobal Unknown name '$log'
--- mcp-run-python: the host's functions by computed names
//@ hint: mcp-run-python; no way to a global object, so no names to compute
const outcomes = [];
for (const f of [callTool, getTool, __safe_parallel, console.log, structuredClone]) {
  outcomes.push(Object.getOwnPropertyNames(f).filter((name) => !['length', 'name', 'prototype'].includes(name)).length);
}
return outcomes;
//= [0, 0, 0, 0, 0]
--- enclave-vm: the counter of a loop is a variable of the script
//@ hint: enclave-vm rewrites loops; its counters had names
for (let i = 0; i < 10; i++) { __ag_i0 = 0 } //! ReservedPrefix Identifier '__ag_i0' is not allowed
--- enclave-vm: a loop left and entered again by a label
//@ hint: enclave-vm; each entry begins to count anew, all turns count as steps
outer: for (let i = 0; i < 4000; i++) { for (let j = 0; j < 4000; j++) { if (j > 3990) continue outer } }
return 'done';
//~ STEP_LIMIT
--- enclave-vm: a loop inside an iterator that a loop runs
//@ hint: enclave-vm; the loop of the runtime itself
const endless = { [Symbol.iterator]() { return { next: () => ({ done: false, value: 1 }) } } };
let n = 0;
for (const x of endless) n += x;
return n;
//~ ITERATION_LIMIT
--- enclave-vm: a spread of an endless iterator is no loop
//@ hint: enclave-vm; loops of the engine are not rewritten
let n = 0;
const endless = { [Symbol.iterator]() { return { next() { n += 1; return { done: false, value: 0 } } } } };
return [...endless].length;
//~ STEP_LIMIT
--- enclave-vm: calls of tools hidden in built-ins that call back
//@ hint: enclave-vm counts calls; here too when nobody awaits them
const calls = Array.from({ length: 150 }, (_, i) => callTool('echo', { i }).catch(() => 'swallowed'));
return (await Promise.allSettled(calls)).length;
//~ TOOL_CALL_LIMIT
--- enclave-vm: the name of a meta-tool put together in a reducer
//@ hint: enclave-vm, self-reference
const name = [...'etucexe:llacedoc'].reverse().join('');
await Promise.allSettled([callTool(name, {}), callTool('echo', {})]);
return 'swallowed';
//~ SELF_REFERENCE_BLOCKED
--- enclave-vm: a thenable as a tool's answer
//@ hint: enclave-vm; data that looks like a promise must stay data
const value = await callTool('echo', { then: 'not a function', catch: 1, finally: 2 });
return value;
//= {"then": "not a function", "catch": 1, "finally": 2}
--- enclave-vm: what a hostile tool sends
//@ hint: enclave-vm; the answer of a tool is an attacker's text
const value = await callTool('hostile', {});
const up = ['__pro', 'to__'].join('');
return [({}).polluted === undefined, ({})[up] === undefined, [].polluted === undefined, typeof value];
//= [true, true, true, "object"]
--- enclave-vm: what a hostile tool sends, merged into everything
//@ hint: enclave-vm
const value = await callTool('hostile', {});
const o = {};
const merge = (to, from, depth) => { for (const key of Object.keys(from)) { if (depth > 0 && typeof from[key] === 'object' && from[key] !== null) { to[key] ??= {}; try { merge(to[key], from[key], depth - 1) } catch { /* refused */ } } else { try { to[key] = from[key] } catch { /* refused */ } } } };
try { merge(o, value, 6) } catch { /* refused */ }
return [({}).polluted === undefined, [].polluted === undefined, (() => 1).polluted === undefined];
//= [true, true, true]
