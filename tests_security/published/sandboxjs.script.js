// @nyariv/sandboxjs: an interpreter of JavaScript with lists of allowed globals and prototypes, 2025 and 2026.
--- CVE-2025-34146: pollution of Object.prototype by a function's prototype
//@ hint: @nyariv/sandboxjs <= 0.8.23, GHSA-9qm3-6qrr-c76m
const o = { a: {} };
o.a.__proto__.polluted = 1; //! DisallowedMember Member 'o.a.__proto__' is not allowed
return ({}).polluted;
--- CVE-2026-23830: AsyncFunction is not on the list of what is watched
//@ hint: @nyariv/sandboxjs < 0.8.26
const AsyncFunction = (async () => 1).constructor; //! IllegalBuiltinAccess Identifier 'AsyncFunction' is not allowed
//! ^ DisallowedMember Member 'constructor' is not allowed
return AsyncFunction('return 1')();
--- CVE-2026-25142: __lookupGetter__ gives the getter of prototypes
//@ hint: @nyariv/sandboxjs < 0.8.27, GHSA-9p4w-fq8m-2hp7
const get = ({})['__lookupGetter__']('__proto__'); //! DisallowedMember Member '__lookupGetter__' is not allowed
return get.call(new Map());
--- CVE-2026-25520: what built-ins return is not wrapped
//@ hint: @nyariv/sandboxjs < 0.8.29; Object.values and Object.entries gave the host's constructors
const found = Object.entries({ Function: (() => 1) }).concat(Object.values({ a: [].at }));
const key = ['constr', 'uctor'].join('');
return found.flat(3).map((value) => typeof value[key]).filter((kind) => kind !== 'undefined');
//= []
--- CVE-2026-25520: values of Object, Array and their methods
//@ hint: @nyariv/sandboxjs < 0.8.29; a walk over everything within reach finds no way to compile text
const seen = new Set();
const names = ['constr' + 'uctor', '__pro' + 'to__', 'call' + 'er', 'prepare' + 'StackTrace'];
const bad = [];
const walk = (value, depth) => {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null || depth > 3 || seen.has(value)) return;
  seen.add(value);
  for (const key of [...Object.getOwnPropertyNames(value), ...names]) {
    let next;
    try { next = value[key] } catch { continue }
    try { if (typeof next === 'function' && names.includes(key) && typeof next('return 1') === 'function') bad.push(key) } catch { /* no compiler */ }
    walk(next, depth + 1);
  }
};
for (const root of [Object, Array, Map, Set, Promise, Date, Math, JSON, String, Number, BigInt, Symbol, Error, RegExp, Boolean, callTool, getTool, __safe_parallel, codecallContext, structuredClone, parseInt]) walk([root], 0);
return bad;
//= []
--- CVE-2026-25586: hasOwnProperty is shadowed
//@ hint: @nyariv/sandboxjs < 0.8.29; the check asked the object itself whether a key was its own
const o = { hasOwnProperty: () => true };
return [typeof o[['constr', 'uctor'].join('')], typeof o[['__pro', 'to__'].join('')]];
//= ["undefined", "undefined"]
--- CVE-2026-25587: Map.prototype.has is overwritten
//@ hint: @nyariv/sandboxjs < 0.8.29, GHSA-66h4-qj4x-38xp; the list of what is safe was a Map
const M = [Map][0];
const proto = M[['proto', 'type'].join('')];
const outcomes = [];
try { proto.has = isFinite } catch (error) { outcomes.push(error.name) }
try { Object.assign(proto, { has: isFinite }) } catch (error) { outcomes.push(error.name) }
return [outcomes, new Map([['a', 1]]).has('b')];
//= [["TypeError", "TypeError"], false]
--- CVE-2026-25587: has of one map is overwritten
//@ hint: @nyariv/sandboxjs < 0.8.29; own properties of an instance change nothing for the runtime
const map = new Map([['k', 'v']]);
const outcomes = [];
for (const [key, value] of Object.entries({ has: () => true, get: () => 'planted', forEach: (f) => f('planted', 'planted') })) {
  try { map[key] = value; outcomes.push('set') } catch (error) { outcomes.push(error.name) }
}
return map;
//= {"k": "v"}
--- CVE-2026-25641: a key that is another one when it is used
//@ hint: @nyariv/sandboxjs < 0.8.29, GHSA-7x3h-rm86-3342; toString ran twice, for the check and for the access
let asked = 0;
const key = { toString() { asked += 1; return asked > 1 ? ['constr', 'uctor'].join('') : 'harmless' } };
const f = () => 1;
return [typeof f[key], typeof f[key], typeof f[key], asked];
//= ["undefined", "undefined", "undefined", 3]
--- CVE-2026-25641: a tool's name that is another one when it is used
//@ hint: @nyariv/sandboxjs < 0.8.29; the same idea on callTool
let asked = 0;
const name = { toString() { asked += 1; return asked > 1 ? 'secret:read' : 'echo' } };
try { return await callTool(name, {}) } catch (error) { return [error.name, asked] }
//= ["TypeError", 0]
--- CVE-2026-25641: a tool's input that is another one when it is read again
//@ hint: @nyariv/sandboxjs < 0.8.29; a getter whose answers change
let reads = 0;
const input = { get id() { reads += 1; return reads } };
const echoed = await callTool('echo', input);
return [echoed.id, reads];
//= [1, 1]
--- CVE-2026-25881: pollution through an array between
//@ hint: @nyariv/sandboxjs < 0.8.31; a prototype put into an array lost its mark
const box = [[Array][0][['proto', 'type'].join('')], [Object][0][['proto', 'type'].join('')]];
const outcomes = box.map((proto) => { try { proto.polluted = 1; return 'wrote' } catch (error) { return error.name } });
return [outcomes, [].polluted === undefined, ({}).polluted === undefined];
//= [["TypeError", "TypeError"], true, true]
--- CVE-2026-26954: a getter of Function by fromEntries
//@ hint: @nyariv/sandboxjs < 0.8.34; an array of constructors put together by Object.fromEntries
const parts = Object.fromEntries([['f', () => 1], ['g', async () => 1]]);
const key = ['constr', 'uctor'].join('');
return Object.values(parts).map((f) => typeof f[key]);
//= ["undefined", "undefined"]
--- CVE-2026-34208: a global object changed through the constructor of `this`
//@ hint: @nyariv/sandboxjs < 0.8.36, GHSA-2gg9-6p7w-6cpj; this.constructor.call(target, attacker)
function f() { return this.constructor } //! DisallowedMember Member 'this.constructor' is not allowed
return f.call(Math);
--- CVE-2026-34208: a global object changed by call on a built-in
//@ hint: @nyariv/sandboxjs < 0.8.36; writes that do not look like assignments
const M = [Math][0];
const attempts = [() => Object.assign(M, { random: () => 4 }), () => [].push.call(M, 1), () => { [M.PI] = [3] }, () => { ({ a: M.PI } = { a: 3 }) }, () => { M.PI++ }, () => { delete M.PI }, () => [].unshift.call(M, 1), () => { M.length = 1 }];
return [attempts.map((f) => { try { f(); return 'wrote' } catch (error) { return error.name } }), Math.PI > 3.1];
//= [["TypeError", "TypeError", "TypeError", "TypeError", "TypeError", "TypeError", "TypeError", "TypeError"], true]
--- sandboxjs: a global changed here is as it was for the next script
//@ hint: @nyariv/sandboxjs < 0.8.36; writes to globals lived on in the next sandbox of the process
const [O, A, J] = [Object, Array, JSON];
const attempts = [() => { O.leftover = 1 }, () => { A.from = 1 }, () => { J.parse = () => 'planted' }, () => { O.freeze(A[['proto', 'type'].join('')]) }];
attempts.forEach((f) => { try { f() } catch { /* refused */ } });
return [O.leftover === undefined, A.from([1])[0], J.parse('{"a":1}').a];
//= [true, 1, 1]
