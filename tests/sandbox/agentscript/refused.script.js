// Scripts the guard refuses, each finding on its line.
---
const a = 1;
  eval('1 + 1'); //! IllegalBuiltinAccess Identifier 'eval' is not allowed in AgentScript
---
const page = 1;
await callTool('users');
page = 2; //! DisallowedSyntax 'page' is a constant: it cannot be assigned to
if (page) { const { n, m: [k] } = {}; n++; //! DisallowedSyntax 'n' is a constant
  const f = () => { k += 1; let page = 0; page = 1; }; //! DisallowedSyntax 'k' is a constant
  for (const x of []) [x] = [1]; } //! DisallowedSyntax 'x' is a constant
---
require('fs'); //! IllegalBuiltinAccess Identifier 'require' is not allowed in AgentScript
setTimeout(() => {}, 100); //! IllegalBuiltinAccess Identifier 'setTimeout' is not allowed in AgentScript
---
const f = new Function('return 1'); //! IllegalBuiltinAccess Identifier 'Function' is not allowed in AgentScript
globalThis.x = window.y; //! IllegalBuiltinAccess Identifier 'globalThis' is not allowed in AgentScript
//! ^ IllegalBuiltinAccess Identifier 'window' is not allowed in AgentScript
---
typeof process !== 'undefined' && process.exit(); //! IllegalBuiltinAccess Identifier 'process'
//! ^ IllegalBuiltinAccess Identifier 'process'
---
const g = this; //! IllegalBuiltinAccess Identifier 'this' is not allowed in AgentScript
const h = () => this.x; //! IllegalBuiltinAccess Identifier 'this' is not allowed in AgentScript
function ok() { return this }
---
return arguments[0]; //! IllegalBuiltinAccess Identifier 'arguments' is not allowed in AgentScript
---
class A {
  x = arguments; //! IllegalBuiltinAccess Identifier 'arguments' is not allowed in AgentScript
  m() { return arguments.callee; } //! DisallowedMember Member 'arguments.callee' is not allowed in AgentScript
}
---
while (true) { break; } //! DisallowedLoop Loop 'while' is not allowed in AgentScript
do { } while (false) //! DisallowedLoop Loop 'do…while' is not allowed in AgentScript
for (const k in { a: 1 }) { } //! DisallowedLoop Loop 'for…in' is not allowed in AgentScript
---
with ({}) { x } //! DisallowedSyntax Syntax 'with' is not allowed in AgentScript
//! ^ DisallowedGlobal Unknown name 'x'
debugger; //! DisallowedSyntax Syntax 'debugger' is not allowed in AgentScript
---
import fs from 'fs'; //! DisallowedSyntax Syntax 'import' is not allowed in AgentScript
const m = await import('x'); //! DisallowedSyntax Syntax 'import' is not allowed in AgentScript
const u = import.meta.url; //! DisallowedSyntax Syntax 'import.meta' is not allowed in AgentScript
export default m; //! DisallowedSyntax Syntax 'export' is not allowed in AgentScript
---
function F() { return new.target } //! DisallowedSyntax Syntax 'new.target' is not allowed in AgentScript
using r = null; //! DisallowedSyntax Syntax 'using' is not allowed in AgentScript
---
Math.foo(); //! DisallowedMember Member 'Math.foo' is not allowed in AgentScript
Object['assignn']; //! DisallowedMember Member 'Object.assignn' is not allowed in AgentScript
const k = 'max';
Math[k](1); //! DisallowedMember Member 'Math[…]' is not allowed in AgentScript
Math['max'](1) + Math[`min`](1);
Object?.setPrototypeOf({}, null); //! DisallowedMember Member 'Object.setPrototypeOf' is not allowed in AgentScript
const { defineProperty, keys } = Object; //! DisallowedMember Member 'Object.defineProperty' is not allowed
let groupBy;
({ groupBy, table: groupBy } = console); //! DisallowedMember Member 'console.groupBy' is not allowed
//! ^ DisallowedMember Member 'console.table' is not allowed in AgentScript
---
callTool.call(null, 'x'); //! DisallowedMember Member 'callTool.call' is not allowed in AgentScript
---
Math = {}; //! IllegalBuiltinAccess Assigning to 'Math' is not allowed in AgentScript
Math.max = x => x; //! IllegalBuiltinAccess Assigning to 'Math.max' is not allowed in AgentScript
delete JSON.parse; //! IllegalBuiltinAccess Assigning to 'JSON.parse' is not allowed in AgentScript
[Array.from] = []; //! IllegalBuiltinAccess Assigning to 'Array.from' is not allowed in AgentScript
({ a: callTool } = {}); //! IllegalBuiltinAccess Assigning to 'callTool' is not allowed in AgentScript
for (getTool of []) { } //! IllegalBuiltinAccess Assigning to 'getTool' is not allowed in AgentScript
codecallContext = {}; //! IllegalBuiltinAccess Assigning to 'codecallContext' is not allowed in AgentScript
undefined++; //! IllegalBuiltinAccess Assigning to 'undefined' is not allowed in AgentScript
---
const Map = 1; //! IllegalBuiltinAccess Declaring 'Map' is not allowed in AgentScript
function callTool() { } //! IllegalBuiltinAccess Declaring 'callTool' is not allowed in AgentScript
const f = ({ console }) => console; //! IllegalBuiltinAccess Declaring 'console' is not allowed in AgentScript
class Promise { } //! IllegalBuiltinAccess Declaring 'Promise' is not allowed in AgentScript
try { } catch (Error) { } //! IllegalBuiltinAccess Declaring 'Error' is not allowed in AgentScript
const Proxy = 1; //! IllegalBuiltinAccess Identifier 'Proxy' is not allowed in AgentScript
---
const __ag_x = 1; //! ReservedPrefix Identifier '__ag_x' is not allowed in AgentScript
function __safe_x() { } //! ReservedPrefix Identifier '__safe_x' is not allowed in AgentScript
let [__codecallX] = []; //! ReservedPrefix Identifier '__codecallX' is not allowed in AgentScript
__ag_t(1); //! ReservedPrefix Identifier '__ag_t' is not allowed in AgentScript
__safe_paralel([]); //! ReservedPrefix Identifier '__safe_paralel' is not allowed in AgentScript
const __safe_parallel = 1; //! ReservedPrefix Identifier '__safe_parallel' is not allowed in AgentScript
__ag_l: for (;;) break __ag_l; //! ReservedPrefix Identifier '__ag_l' is not allowed in AgentScript
---
const x = {};
x.__proto__; //! DisallowedMember Member 'x.__proto__' is not allowed in AgentScript
x['constructor']; //! DisallowedMember Member 'x.constructor' is not allowed in AgentScript
x[`prototype`]; //! DisallowedMember Member 'x.prototype' is not allowed in AgentScript
x?.constructor; //! DisallowedMember Member 'x.constructor' is not allowed in AgentScript
x['const' + `ruc${'tor'}`]; //! DisallowedMember Member 'x.constructor' is not allowed in AgentScript
x.constr\u0075ctor; //! DisallowedMember Member 'x.constructor' is not allowed in AgentScript
//! ^ UnsafeSource Script has a unicode escape in a name
x['\x63onstructor']; //! DisallowedMember Member 'x.constructor' is not allowed in AgentScript
(() => { }).constructor('x'); //! DisallowedMember Member 'constructor' is not allowed in AgentScript
x.a.b.__defineGetter__('a', x); //! DisallowedMember Member 'x.a.b.__defineGetter__' is not allowed
x.__defineSetter__; //! DisallowedMember Member 'x.__defineSetter__' is not allowed in AgentScript
x.__lookupGetter__; //! DisallowedMember Member 'x.__lookupGetter__' is not allowed in AgentScript
x.__lookupSetter__; //! DisallowedMember Member 'x.__lookupSetter__' is not allowed in AgentScript
Array.prototype.slice.call([]); //! DisallowedMember Member 'Array.prototype' is not allowed in AgentScript
x.constructor = 1; //! DisallowedMember Member 'x.constructor' is not allowed in AgentScript
delete x.__proto__; //! DisallowedMember Member 'x.__proto__' is not allowed in AgentScript
---
const a = { __proto__: null }; //! DisallowedMember Member '__proto__' is not allowed in AgentScript
const b = { 'constructor': 1 }; //! DisallowedMember Member 'constructor' is not allowed in AgentScript
const c = { ['prototype']: 1 }; //! DisallowedMember Member 'prototype' is not allowed in AgentScript
const d = { constructor() { } }; //! DisallowedMember Member 'constructor' is not allowed in AgentScript
const e = { get __proto__() { return 1 } }; //! DisallowedMember Member '__proto__' is not allowed in AgentScript
const { constructor } = a; //! DisallowedMember Member 'constructor' is not allowed in AgentScript
//! ^ DisallowedMember Identifier 'constructor' is not allowed in AgentScript
const { 'constructor': f } = a; //! DisallowedMember Member 'constructor' is not allowed in AgentScript
const { ['constructor']: g } = a; //! DisallowedMember Member 'constructor' is not allowed in AgentScript
const { b: { prototype: h } } = a; //! DisallowedMember Member 'prototype' is not allowed in AgentScript
const i = ({ __proto__: j }) => j; //! DisallowedMember Member '__proto__' is not allowed in AgentScript
let k; ({ constructor: k } = a); //! DisallowedMember Member 'constructor' is not allowed in AgentScript
for (const { constructor: l } of []) { } //! DisallowedMember Member 'constructor' is not allowed in AgentScript
const prototype = 1; //! DisallowedMember Identifier 'prototype' is not allowed in AgentScript
prototype; //! DisallowedMember Identifier 'prototype' is not allowed in AgentScript
constructor: for (;;) break; //! DisallowedMember Identifier 'constructor' is not allowed in AgentScript
const m = { constructor: 1, n: { constructor } }; //! DisallowedMember Member 'constructor' is not allowed
//! ^ DisallowedMember Identifier 'constructor' is not allowed in AgentScript
---
class A {
  constructor() { }
  static constructor() { } //! DisallowedMember Member 'constructor' is not allowed in AgentScript
  __proto__ = 1; //! DisallowedMember Member '__proto__' is not allowed in AgentScript
  #prototype = 1; //! DisallowedMember Member 'prototype' is not allowed in AgentScript
  static { this.constructor; } //! DisallowedMember Member 'this.constructor' is not allowed in AgentScript
  m() { super.constructor; } //! DisallowedMember Member 'constructor' is not allowed in AgentScript
}
---
class A extends Array { } //! DisallowedSyntax Syntax 'extends Array' is not allowed in AgentScript
class B extends (x => x)(A) { } //! DisallowedSyntax Syntax 'extends' is not allowed in AgentScript
class C extends null { } //! DisallowedSyntax Syntax 'extends' is not allowed in AgentScript
const D = A;
class E extends D { } //! DisallowedSyntax Syntax 'extends D' is not allowed in AgentScript
class F extends TypeError { }
class G extends F { }
---
await callTool('codecall:execute', { script: 'return 1' }); //! SelfReference Cannot call CodeCall tools from within AgentScript: codecall:execute
await callTool(` CodeCall:Search `, {}); //! SelfReference Cannot call CodeCall tools from within AgentScript: CodeCall:Search
getTool('codecall_describe'); //! SelfReference Cannot call CodeCall tools from within AgentScript: codecall_describe
await callTool?.('codecall:' + 'invoke'); //! SelfReference Cannot call CodeCall tools from within AgentScript: codecall:invoke
await callTool('codecall_report', {});
---
undeclared = 5; //! DisallowedGlobal Unknown name 'undeclared'
{ const hidden = 1 }
hidden; //! DisallowedGlobal Unknown name 'hidden'
for (let i = 0; i < 1; i++) { }
i; //! DisallowedGlobal Unknown name 'i'
try { } catch (e) { }
e; //! DisallowedGlobal Unknown name 'e'
(function named() { })();
named; //! DisallowedGlobal Unknown name 'named'
if (1) { function block() { } }
block; //! DisallowedGlobal Unknown name 'block'
if (1) { var kept = 1 }
kept;
((p, { q } = p) => q)(1);
p; //! DisallowedGlobal Unknown name 'p'
class K { static { var inside = 1 } }
inside; //! DisallowedGlobal Unknown name 'inside'
const L = class Inner { };
Inner; //! DisallowedGlobal Unknown name 'Inner'
switch (1) { case 1: let s = 1 }
s; //! DisallowedGlobal Unknown name 's'
---
new Uint8Array(2); //! DisallowedGlobal Identifier 'Uint8Array' is not allowed in AgentScript
Buffer.from('x'); //! DisallowedGlobal Identifier 'Buffer' is not allowed in AgentScript
new URL('x'); //! DisallowedGlobal Identifier 'URL' is not allowed in AgentScript
new WeakRef({}); //! IllegalBuiltinAccess Identifier 'WeakRef' is not allowed in AgentScript
---
\u0065val('1'); //! IllegalBuiltinAccess Identifier 'eval' is not allowed in AgentScript
//! ^ UnsafeSource Script has a unicode escape in a name
\u{61}sync () => 1; //! UnsafeSource Script has a unicode escape in a name
---
const readResource = (uri) => uri; //! IllegalBuiltinAccess Declaring 'readResource' is not allowed in AgentScript
getPrompt = null; //! IllegalBuiltinAccess Assigning to 'getPrompt' is not allowed in AgentScript
getPrompt('codecall:execute', {}); //! SelfReference Cannot call CodeCall tools from within AgentScript: codecall:execute
