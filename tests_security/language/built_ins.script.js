// Built-ins and runtime names: reached although refused, shadowed, replaced, or changed for whoever comes next.
--- eval called, directly and indirectly
eval('1'); (0, eval)('1'); eval?.('1'); eval`1`; //! IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
--- eval passed on
return ['1'].map(eval); //! IllegalBuiltinAccess Identifier 'eval'
--- eval as a shorthand and in a pattern's default
const o = { eval }, { a = eval } = {}; //! IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
--- eval as a name of one's own
const eval = x => x; //! SYNTAX_ERROR Variable name may not be eval or arguments in strict mode
--- eval assigned to
eval = 1; //! SYNTAX_ERROR Assignment to eval or arguments is not allowed in strict mode
--- Function with and without new
new Function('return 1')(); Function('return 1')(); Function.call(null, 'return 1'); //! IllegalBuiltinAccess Identifier 'Function'
//! ^ IllegalBuiltinAccess Identifier 'Function'
//! ^ IllegalBuiltinAccess Identifier 'Function'
--- the other function constructors by name
return [AsyncFunction, GeneratorFunction, AsyncGeneratorFunction]; //! IllegalBuiltinAccess Identifier 'AsyncFunction'
//! ^ IllegalBuiltinAccess Identifier 'GeneratorFunction'
//! ^ IllegalBuiltinAccess Identifier 'AsyncGeneratorFunction'
--- typeof is no way to ask for a refused name
return typeof eval + typeof Function + typeof globalThis; //! IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'Function'
//! ^ IllegalBuiltinAccess Identifier 'globalThis'
--- the global object by all its names
return [globalThis, global, window, self, this]; //! IllegalBuiltinAccess Identifier 'globalThis'
//! ^ IllegalBuiltinAccess Identifier 'global'
//! ^ IllegalBuiltinAccess Identifier 'window'
//! ^ IllegalBuiltinAccess Identifier 'self'
//! ^ IllegalBuiltinAccess Identifier 'this'
--- this in an arrow function at top level
return (() => this)(); //! IllegalBuiltinAccess Identifier 'this'
--- this in a nested arrow function and a default
const f = (a = this) => () => [this]; //! IllegalBuiltinAccess Identifier 'this'
//! ^ IllegalBuiltinAccess Identifier 'this'
--- this of a function is not the global object
function f() { return this }
return f() === undefined;
//= true
--- this of a function called by a built-in
return [1].map(function () { return this === undefined })[0];
//= true
--- this of a getter on a primitive
return [1].flatMap(function () { return typeof this }, 7)[0];
//= "number"
--- arguments at top level, in an arrow function, in a field
return [arguments, () => arguments[0]]; //! IllegalBuiltinAccess Identifier 'arguments'
//! ^ IllegalBuiltinAccess Identifier 'arguments'
--- callee and caller, by name, by string, taken apart
function f() { const { callee } = arguments; return arguments.callee ?? arguments['caller'] } //! DisallowedMember Member 'arguments.callee'
//! ^ DisallowedMember Member 'arguments.callee'
//! ^ DisallowedMember Member 'arguments.caller'
--- callee by a name made at run time
function f(key) { try { return typeof arguments[key] } catch (e) { return e.name } }
return f('cal' + 'lee');
//= "TypeError"
--- caller of a function by a name made at run time
function f(key) { try { return typeof f[key] } catch (e) { return e.name } }
return [f('cal' + 'ler'), f('argu' + 'ments')];
//= ["undefined", "undefined"]
--- Proxy and Reflect
return [new Proxy({}, {}), Reflect.ownKeys({})]; //! IllegalBuiltinAccess Identifier 'Proxy'
//! ^ IllegalBuiltinAccess Identifier 'Reflect'
--- weak references and shared memory
return [WeakRef, FinalizationRegistry, SharedArrayBuffer, Atomics, WebAssembly]; //! IllegalBuiltinAccess Identifier 'WeakRef'
//! ^ IllegalBuiltinAccess Identifier 'FinalizationRegistry'
//! ^ IllegalBuiltinAccess Identifier 'SharedArrayBuffer'
//! ^ IllegalBuiltinAccess Identifier 'Atomics'
//! ^ IllegalBuiltinAccess Identifier 'WebAssembly'
--- timers, by name and in a pattern
setTimeout(() => 1, 0); setInterval(() => 1, 0); setImmediate(() => 1); queueMicrotask(() => 1); //! IllegalBuiltinAccess Identifier 'setTimeout'
//! ^ IllegalBuiltinAccess Identifier 'setInterval'
//! ^ IllegalBuiltinAccess Identifier 'setImmediate'
//! ^ IllegalBuiltinAccess Identifier 'queueMicrotask'
--- the host's names
return [process.env, require('fs'), module.exports, Deno.env, Bun.env]; //! IllegalBuiltinAccess Identifier 'process'
//! ^ IllegalBuiltinAccess Identifier 'require'
//! ^ IllegalBuiltinAccess Identifier 'module'
//! ^ IllegalBuiltinAccess Identifier 'Deno'
//! ^ IllegalBuiltinAccess Identifier 'Bun'
--- the network's names
return [fetch('x'), new XMLHttpRequest(), new WebSocket('x'), new Worker('x')]; //! IllegalBuiltinAccess Identifier 'fetch'
//! ^ IllegalBuiltinAccess Identifier 'XMLHttpRequest'
//! ^ IllegalBuiltinAccess Identifier 'WebSocket'
//! ^ IllegalBuiltinAccess Identifier 'Worker'
--- the names of QuickJS's own modules
return [std, os, bjson, scriptArgs, print]; //! DisallowedGlobal Unknown name 'std'
//! ^ DisallowedGlobal Unknown name 'os'
//! ^ DisallowedGlobal Unknown name 'bjson'
//! ^ DisallowedGlobal Unknown name 'scriptArgs'
//! ^ DisallowedGlobal Identifier 'print' is not allowed
--- the names of other engines' shells
return [load, read, readFile, gc, version, quit, Realm, ShadowRealm, Compartment]; //! DisallowedGlobal Unknown name 'load'
//! ^ DisallowedGlobal Unknown name 'read'
//! ^ DisallowedGlobal Unknown name 'readFile'
//! ^ DisallowedGlobal Unknown name 'gc'
//! ^ DisallowedGlobal Unknown name 'version'
//! ^ DisallowedGlobal Unknown name 'quit'
//! ^ DisallowedGlobal Unknown name 'Realm'
//! ^ DisallowedGlobal Unknown name 'ShadowRealm'
//! ^ DisallowedGlobal Unknown name 'Compartment'
--- the engine's own error, by name
return new InternalError('x'); //! DisallowedGlobal Identifier 'InternalError' is not allowed
--- Math assigned to
Math = {}; //! IllegalBuiltinAccess Assigning to 'Math'
--- Math taken apart into what it has not
const { random: r, constructor: c, foo } = Math; //! DisallowedMember Member 'constructor'
//! ^ DisallowedMember Member 'Math.constructor'
//! ^ DisallowedMember Member 'Math.foo'
--- Math by a computed name
const key = 'max'; return Math[key](1, 2); //! DisallowedMember Member 'Math[…]'
--- Object's ways to prototypes and accessors
Object.getPrototypeOf({}); Object.setPrototypeOf({}, null); Object.defineProperty({}, 'a', {}); //! DisallowedMember Member 'Object.getPrototypeOf'
//! ^ DisallowedMember Member 'Object.setPrototypeOf'
//! ^ DisallowedMember Member 'Object.defineProperty'
Object.getOwnPropertyDescriptor({}, 'a'); Object.getOwnPropertyDescriptors({}); Object.defineProperties({}, {}); //! DisallowedMember Member 'Object.getOwnPropertyDescriptor'
//! ^ DisallowedMember Member 'Object.getOwnPropertyDescriptors'
//! ^ DisallowedMember Member 'Object.defineProperties'
--- Object's ways in quotes, in templates, behind an optional chain
Object['getPrototypeOf']({}); Object[`setPrototypeOf`]({}, null); Object?.['define' + 'Property']({}, 'a', {}); //! DisallowedMember Member 'Object.getPrototypeOf'
//! ^ DisallowedMember Member 'Object.setPrototypeOf'
//! ^ DisallowedMember Member 'Object.defineProperty'
--- Object taken apart in a default of a parameter
const f = ({ getPrototypeOf: up } = Object) => up; //! DisallowedMember Member 'Object.getPrototypeOf'
--- Object taken apart in a default of a pattern
const [{ getPrototypeOf: up } = Object] = []; //! DisallowedMember Member 'Object.getPrototypeOf'
--- Object under another name has not what it has not
const O = Object;
return [typeof O.getPrototypeOf, typeof O.defineProperty, typeof O.getOwnPropertyDescriptor, typeof O.setPrototypeOf];
//= ["undefined", "undefined", "undefined", "undefined"]
--- Object under another name, by computed names
const [O, key] = [Object, ['get', 'PrototypeOf'].join('')];
return typeof O[key];
//= "undefined"
--- Symbol's registry and hooks
Symbol.for('a'); Symbol.species; Symbol.hasInstance; Symbol.toPrimitive; Symbol.unscopables; //! DisallowedMember Member 'Symbol.for'
//! ^ DisallowedMember Member 'Symbol.species'
//! ^ DisallowedMember Member 'Symbol.hasInstance'
//! ^ DisallowedMember Member 'Symbol.toPrimitive'
//! ^ DisallowedMember Member 'Symbol.unscopables'
--- Symbol under another name has no hooks
const S = Symbol;
return [S.species, S.hasInstance, S.toPrimitive, S.isConcatSpreadable, S.for].map(x => x === undefined);
//= [true, true, true, true, true]
--- Error's ways to stacks
Error.captureStackTrace({}); Error.prepareStackTrace = x => x; Error.stackTraceLimit = 99; //! DisallowedMember Member 'Error.captureStackTrace'
//! ^ IllegalBuiltinAccess Assigning to 'Error.prepareStackTrace'
//! ^ DisallowedMember Member 'Error.prepareStackTrace'
//! ^ IllegalBuiltinAccess Assigning to 'Error.stackTraceLimit'
//! ^ DisallowedMember Member 'Error.stackTraceLimit'
--- JSON's raw text
return JSON.rawJSON('1'); //! DisallowedMember Member 'JSON.rawJSON'
--- a built-in as a variable, a parameter, a function, a class
const Map = 1; const f = Promise => 1; function JSON() { } class Array { } //! IllegalBuiltinAccess Declaring 'Map'
//! ^ IllegalBuiltinAccess Declaring 'Promise'
//! ^ IllegalBuiltinAccess Declaring 'JSON'
//! ^ IllegalBuiltinAccess Declaring 'Array'
--- a built-in as a variable in an inner scope
const f = () => { { let Object = 1; return Object } }; //! IllegalBuiltinAccess Declaring 'Object'
--- a built-in as what a loop, a catch and a pattern declare
for (const Math of []) { } try { } catch (Error) { } const [{ a: [Set] }] = []; //! IllegalBuiltinAccess Declaring 'Math'
//! ^ IllegalBuiltinAccess Declaring 'Error'
//! ^ IllegalBuiltinAccess Declaring 'Set'
--- a built-in as the name inside a function expression
const f = function callTool() { }; const C = class console { }; //! IllegalBuiltinAccess Declaring 'callTool'
//! ^ IllegalBuiltinAccess Declaring 'console'
--- var of a built-in in a block that never runs
if (false) { var callTool = 1 } //! IllegalBuiltinAccess Declaring 'callTool'
return 1;
--- undefined, NaN and Infinity declared or assigned to
let undefined = 1; NaN = 1; Infinity++; const f = undefined => 1; //! IllegalBuiltinAccess Declaring 'undefined'
//! ^ IllegalBuiltinAccess Assigning to 'NaN'
//! ^ IllegalBuiltinAccess Assigning to 'Infinity'
//! ^ IllegalBuiltinAccess Declaring 'undefined'
--- a built-in assigned to in every way
JSON = 1; Map += 1; Set ??= 1; Date++; --Number; [String] = []; ({ Boolean } = {}); ({ a: BigInt } = {}); for (Symbol of []) { } //! IllegalBuiltinAccess Assigning to 'JSON'
//! ^ IllegalBuiltinAccess Assigning to 'Map'
//! ^ IllegalBuiltinAccess Assigning to 'Set'
//! ^ IllegalBuiltinAccess Assigning to 'Date'
//! ^ IllegalBuiltinAccess Assigning to 'Number'
//! ^ IllegalBuiltinAccess Assigning to 'String'
//! ^ IllegalBuiltinAccess Assigning to 'Boolean'
//! ^ IllegalBuiltinAccess Assigning to 'BigInt'
//! ^ IllegalBuiltinAccess Assigning to 'Symbol'
--- a member of a built-in assigned to in every way
Math.max = 1; JSON.parse ||= 1; Object.keys++; [Array.from] = []; ({ a: Number.isInteger } = {}); delete String.raw; //! IllegalBuiltinAccess Assigning to 'Math.max'
//! ^ IllegalBuiltinAccess Assigning to 'JSON.parse'
//! ^ IllegalBuiltinAccess Assigning to 'Object.keys'
//! ^ IllegalBuiltinAccess Assigning to 'Array.from'
//! ^ IllegalBuiltinAccess Assigning to 'Number.isInteger'
//! ^ IllegalBuiltinAccess Assigning to 'String.raw'
--- a member of a built-in assigned to in the head of a loop
for (Math.PI of [1]) { } for (JSON['parse'] of []) { } //! IllegalBuiltinAccess Assigning to 'Math.PI'
//! ^ IllegalBuiltinAccess Assigning to 'JSON.parse'
--- a built-in changed under another name
const M = Math;
try { M.max = () => 'mine' } catch (e) { return [e.name, Math.max(1, 2)] }
return [Math.max(1, 2)];
//= ["TypeError", 2]
--- a built-in changed by Object.assign
try { Object.assign(JSON, { parse: () => 'mine' }) } catch (e) { return JSON.parse('1') }
return JSON.parse('1');
//= 1
--- a built-in changed through its methods
const push = [].push;
try { push.call = () => 'mine' } catch (e) { return e.name }
return typeof push.call;
//= "TypeError"
--- callTool, getTool, console and the context assigned to
callTool = 1; getTool ??= 1; console.log = 1; codecallContext = {}; __safe_parallel = 1; //! IllegalBuiltinAccess Assigning to 'callTool'
//! ^ IllegalBuiltinAccess Assigning to 'getTool'
//! ^ IllegalBuiltinAccess Assigning to 'console.log'
//! ^ IllegalBuiltinAccess Assigning to 'codecallContext'
//! ^ IllegalBuiltinAccess Assigning to '__safe_parallel'
--- callTool declared as a function further down
return callTool('echo', {});
function callTool(name) { return name } //! IllegalBuiltinAccess Declaring 'callTool'
--- callTool declared by a pattern with a default
const { callTool = 1 } = {}; //! IllegalBuiltinAccess Declaring 'callTool'
--- callTool's members
callTool.call(null, 'echo'); callTool.bind; callTool.apply; callTool.name; callTool.toString(); //! DisallowedMember Member 'callTool.call'
//! ^ DisallowedMember Member 'callTool.bind'
//! ^ DisallowedMember Member 'callTool.apply'
//! ^ DisallowedMember Member 'callTool.name'
//! ^ DisallowedMember Member 'callTool.toString'
--- callTool under another name gives nothing away
const call = callTool;
return [String(call).includes('native code'), String(call).length < 60, Object.keys(call)];
//= [true, true, []]
--- callTool under another name cannot be changed
const call = callTool;
try { call.extra = 1 } catch (e) { return e.name }
return call.extra ?? 'unchanged';
//= "TypeError"
--- the context cannot be changed
try { codecallContext.tenant = 't2' } catch (e) { return [e.name, codecallContext.tenant] }
//= ["TypeError", "t1"]
--- the context cannot be changed under another name or deeply
const c = codecallContext;
try { delete c.tenant } catch (e) { return c.tenant }
return 'changed';
//= "t1"
--- the context has no way up
const { tenant, ...rest } = codecallContext;
return [tenant, rest, codecallContext['const' + String('ructor')] === undefined];
//= ["t1", {}, true]
--- reserved names declared
const __ag_s = 1; let __safe_x = 1; var __codecall = 1; function __ag_() { } class __codecallX { } //! ReservedPrefix Identifier '__ag_s'
//! ^ ReservedPrefix Identifier '__safe_x'
//! ^ ReservedPrefix Identifier '__codecall'
//! ^ ReservedPrefix Identifier '__ag_'
//! ^ ReservedPrefix Identifier '__codecallX'
--- reserved names used without declaring them
__ag_s = 0; __ag_n; __ag_t(1); __codecall.x; __safe_paralel([]); //! ReservedPrefix Identifier '__ag_s'
//! ^ ReservedPrefix Identifier '__ag_n'
//! ^ ReservedPrefix Identifier '__ag_t'
//! ^ ReservedPrefix Identifier '__codecall'
//! ^ ReservedPrefix Identifier '__safe_paralel'
--- reserved names as labels, parameters, catch names, patterns
__ag_l: for (;;) break __ag_l; const f = (__ag_p) => 1; try { } catch (__ag_e) { } const { a: __safe_b } = {}; //! ReservedPrefix Identifier '__ag_l'
//! ^ ReservedPrefix Identifier '__ag_p'
//! ^ ReservedPrefix Identifier '__ag_e'
//! ^ ReservedPrefix Identifier '__safe_b'
--- reserved names as the shorthand of an object and a default
const o = { __ag_s }; const { x = __ag_s } = {}; //! ReservedPrefix Identifier '__ag_s'
//! ^ ReservedPrefix Identifier '__ag_s'
--- the loop's own counter by its name
for (let i = 0; i < 3; i++) { __ag_i0 = 0 } //! ReservedPrefix Identifier '__ag_i0'
--- the step counter by its name in a function
function f() { __ag_s = -1e9; return f } //! ReservedPrefix Identifier '__ag_s'
--- reserved names as keys of data are free
return { __ag_s: 1, __safe_x: 2 }.__ag_s;
//= 1
--- the prelude's host functions by name
$post('x'); $ask('x'); $stop('x'); $finish('x'); //! DisallowedGlobal Unknown name '$post'
//! ^ DisallowedGlobal Unknown name '$ask'
//! ^ DisallowedGlobal Unknown name '$stop'
//! ^ DisallowedGlobal Unknown name '$finish'
--- new callTool and new __safe_parallel
try { new callTool('echo', {}) } catch (e) { return e.name }
//= "TypeError"
--- console's members under another name
const c = console;
return [typeof c.table, typeof c.assert, typeof c.log];
//= ["undefined", "undefined", "function"]
--- a parameter's default does not see the body's var
const f = (x = secrets) => { var secrets = 1; return x }; //! DisallowedGlobal Unknown name 'secrets'
--- a parameter's default does not see the body's let and class
const f = (x = a, y = B) => { let a = 1; class B { } }; //! DisallowedGlobal Unknown name 'a'
//! ^ DisallowedGlobal Unknown name 'B'
