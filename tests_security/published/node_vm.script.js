// Node's `vm` module (no security mechanism, says its manual) and what was built on it or beside it: gf3/sandbox,
// isolated-vm, jailed, happy-dom, the expression engine of n8n. The way out is always a constructor, a module loader
// or an object of the host that was passed in for convenience.
--- node:vm: this.constructor.constructor
//@ hint: Node.js documentation of vm, the classic one-liner
return this.constructor.constructor('return process')(); //! IllegalBuiltinAccess Identifier 'this' is not allowed
//! ^ DisallowedMember Member 'this.constructor' is not allowed
//! ^ DisallowedMember Member 'this.constructor.constructor' is not allowed
--- node:vm: the constructor of an arrow function
//@ hint: Node.js vm, without `this`
return (() => 1).constructor('return process')(); //! DisallowedMember Member 'constructor' is not allowed
--- node:vm: all four constructors of functions by computed names
//@ hint: Node.js vm; Function, AsyncFunction, GeneratorFunction, AsyncGeneratorFunction
const key = ['constr', 'uctor'].join('');
const kinds = [function () {}, async function () {}, function* () {}, async function* () {}, () => 1, async () => 1, class {}, { m() {} }.m, callTool, [].map, getTool, console.log];
return kinds.map((f) => typeof f[key]).every((kind) => kind === 'undefined');
//= true
--- node:vm: constructors of primitives by computed names
//@ hint: Node.js vm; any value leads to its constructor
const key = ['constr', 'uctor'].join('');
const values = ['', 1, true, 1n, Symbol('s'), [], {}, /a/, new Date(0), new Map(), new Set(), new Error('x'), new TypeError('x'), JSON, Math, (function* () {})(), [][Symbol.iterator](), codecallContext];
return values.map((value) => typeof value[key]).filter((kind) => kind !== 'undefined');
//= []
--- node:vm: an argument object given by the host
//@ hint: Node.js vm; arguments passed into a sandbox kept the host's prototypes (ThingsBoard's js-executor had it so)
const key = ['constr', 'uctor'].join('');
const climb = (value) => typeof value?.[key]?.[key];
return [codecallContext, await callTool('users:list', {}), (await callTool('users:list', {})).users, getTool('echo')].map(climb);
//= ["undefined", "undefined", "undefined", "undefined"]
--- node:vm: arguments.callee.caller walks to the host
//@ hint: Node.js vm before strict mode
function f() { return arguments.callee.caller } //! DisallowedMember Member 'arguments.callee' is not allowed
return f();
--- node:vm: caller and arguments of a function by computed names
//@ hint: Node.js vm; poisoned in strict mode
function f() { return ['caller', 'arguments'].map((key) => { try { return typeof f[key] } catch (error) { return error.name } }) }
return f().every((kind) => kind === 'undefined' || kind === 'TypeError');
//= true
--- node:vm: process.mainModule.require
//@ hint: Node.js vm; what every proof of concept does next
return process.mainModule.require('child_process').execSync('id').toString(); //! IllegalBuiltinAccess Identifier 'process' is not allowed
--- node:vm: timers outlive the time limit
//@ hint: Node.js vm; `timeout` does not cover what setTimeout and microtasks run later
setTimeout(() => { for (;;) {} }, 0); //! IllegalBuiltinAccess Identifier 'setTimeout' is not allowed
setImmediate(() => 1); //! IllegalBuiltinAccess Identifier 'setImmediate' is not allowed
queueMicrotask(() => 1); //! IllegalBuiltinAccess Identifier 'queueMicrotask' is not allowed
--- node:vm: microtasks outlive the time limit
//@ hint: Node.js vm, `microtaskMode`; a chain that feeds itself after the script has ended
const again = () => { for (let i = 0; i < 500; i++) { } Promise.resolve().then(again) };
again();
return 'done';
//~ STEP_LIMIT
--- node:vm: a loop in a rejected promise's handler after the end
//@ hint: Node.js vm
Promise.reject(1).catch(() => { for (;;) {} });
return 'done';
//~ ITERATION_LIMIT
--- gf3/sandbox issue 65: prepareStackTrace gives getThis
//@ hint: sandbox 0.8.6, gf3/sandbox issue 65
const [E] = [Error];
let leaked = 'nothing';
try { E.prepareStackTrace = (_, calls) => { leaked = calls[0].getThis() } } catch (error) { leaked = error.name }
new E('x').stack;
return leaked;
//= "TypeError"
--- gf3/sandbox issue 68: __defineGetter__ without arguments throws a host's error
//@ hint: sandbox 0.8.6, gf3/sandbox issue 68
try { __defineGetter__('x') } catch (error) { return typeof error.constructor } //! DisallowedMember Identifier '__defineGetter__' is not allowed
//! ^ DisallowedMember Member 'error.constructor' is not allowed
--- gf3/sandbox issue 69: toLocaleString() of the global object throws a host's error
//@ hint: sandbox 0.8.6, gf3/sandbox issue 69
try { toLocaleString() } catch (error) { return 1 } //! DisallowedGlobal Unknown name 'toLocaleString'
--- gf3/sandbox: any error the engine makes leads nowhere
//@ hint: sandbox 0.8.6, GHSA-gc25-3vc5-2jf9 and its kin
const key = ['constr', 'uctor'].join('');
const throwers = [() => null.x, () => undefinedName(), () => new Array(-1), () => 'x'.repeat(-1), () => 1n + 1, () => JSON.parse('{'), () => [].reduce(() => 1), () => new (() => 1)(), () => { throw new Error('x') }];
const undefinedName = undefined;
return throwers.map((f) => { try { f(); return 'no error' } catch (error) { return typeof error[key] } }).filter((kind) => kind !== 'undefined');
//= []
--- CVE-2022-39266: isolated-vm and code that was cached by an attacker
//@ hint: isolated-vm < 4.3.7; CachedDataOptions took V8 bytecode from outside. No script reaches a loader of bytecode
return [typeof std, typeof os, typeof bjson]; //! DisallowedGlobal Unknown name 'std'
//! ^ DisallowedGlobal Unknown name 'os'
//! ^ DisallowedGlobal Unknown name 'bjson'
--- CVE-2021-21413: isolated-vm references are not cut off from the host
//@ hint: isolated-vm < 4.0.0; a Reference's properties led up to the host's constructors
const key = ['constr', 'uctor'].join('');
let value = callTool;
for (let i = 0; i < 10; i++) value = value?.[key];
return value === undefined;
//= true
--- CVE-2022-23923: jailed and methods of the outer application
//@ hint: jailed, all versions; exported methods carried their own constructors
const names = Object.getOwnPropertyNames(callTool).concat(Object.getOwnPropertyNames(getTool), Object.getOwnPropertyNames(__safe_parallel));
return names.filter((name) => !['length', 'name', 'prototype'].includes(name));
//= []
--- CVE-2025-61927: happy-dom leaves the vm context through a constructor
//@ hint: happy-dom < 20.0.0
const { constructor: C } = async () => 1; //! DisallowedMember Member 'constructor' is not allowed
return C('return process')();
--- CVE-2025-62410: happy-dom, functions of strings are off but constructors are not
//@ hint: happy-dom < 20.0.2
const AsyncFunction = (async () => {}).constructor; //! IllegalBuiltinAccess Identifier 'AsyncFunction' is not allowed
//! ^ DisallowedMember Member 'constructor' is not allowed
return AsyncFunction;
--- CVE-2025-68613: n8n expressions and `this` of a function
//@ hint: n8n < 1.120.4; an expression's function had the host's global object as `this`
return (function () { return this.process.mainModule.require('child_process') })();
//~ EXECUTION_ERROR
--- CVE-2026-1470: n8n expressions and the scope of with
//@ hint: n8n < 1.123.17; a with statement made `constructor` a plain identifier
with ({}) { return constructor('return process')() } //! DisallowedSyntax Syntax 'with' is not allowed
//! ^ DisallowedMember Identifier 'constructor' is not allowed
--- CVE-2026-25049: n8n expressions, a name in a pattern
//@ hint: n8n; the rewriter looked at members, not at destructuring
const { constructor } = () => 1; //! DisallowedMember Member 'constructor' is not allowed
//! ^ DisallowedMember Identifier 'constructor' is not allowed
return constructor('return 1')(); //! DisallowedMember Identifier 'constructor' is not allowed
--- CVE-2026-25049: n8n expressions, a name in a template
//@ hint: n8n; a template literal as a subscript escaped the check
return (() => 1)[`constructor`]; //! DisallowedMember Member 'constructor' is not allowed
--- CVE-2026-25049: n8n expressions, a name in a template with a hole
//@ hint: n8n; the hole's value is a constant, so the subscript is one
return (() => 1)[`con${'struct'}or`]; //! DisallowedMember Member 'constructor' is not allowed
--- CVE-2026-25049: n8n expressions, a value that is no string when it is checked
//@ hint: n8n; a key that is an array, an object, a boxed string
const f = () => 1;
const keys = [['constructor'], { toString: () => 'con' + 'structor' }, new String('constructor'), { [Symbol.toPrimitive]: () => ['con', 'structor'].join('') }]; //! DisallowedMember Member 'Symbol.toPrimitive' is not allowed
return keys.map((key) => { try { return typeof f[key] } catch (error) { return error.name } });
