// vm2 again, taken up in 2025: the escapes published in 2026, by the numbers of its own change log and tests.
// What they attack is a membrane between two realms. Here the membrane is JSON text and another process; what remains
// to be shown is that none of the primitives (species, thenables, handlers, symbols, saved state) does anything here.
--- CVE-2026-22709: handlers of the promise that an async function gives
//@ hint: vm2 < 3.10.2, GHSA-99p7-6v5w-7xg8; then and catch of the engine's own promise were not covered
const dive = async () => dive2();
const dive2 = () => dive2() + 1;
return await dive().catch((error) => typeof error);
//~ STACK_OVERFLOW
--- CVE-2026-22709: the same through finally and a thenable
//@ hint: vm2 < 3.10.2, GHSA-99p7-6v5w-7xg8
const dive = () => dive() + 1;
const thenable = { then(resolve, reject) { try { dive() } finally { resolve('swallowed') } } };
return await (async () => thenable)();
//~ STACK_OVERFLOW
--- CVE-2026-45411: yield* in an async generator catches what the thenable threw
//@ hint: vm2 < 3.11.3, GHSA-248r-7h7q-cr24; return(thenable) on a generator that delegates
const dive = () => dive() + 1;
async function* outer() { try { yield* { [Symbol.asyncIterator]() { return this }, next: async () => ({ done: false, value: 1 }) } } catch (error) { yield 'swallowed' } }
const it = outer();
await it.next();
return await it.return({ then() { dive() } });
//~ STACK_OVERFLOW
--- CVE-2026-45411: a getter for `then` that counts how often it is read
//@ hint: vm2 < 3.11.3, GHSA-248r-7h7q-cr24, its time-of-check variant
let reads = 0;
async function* outer() { yield 1 }
const it = outer();
await it.next();
const value = { get then() { reads += 1; return reads < 3 ? undefined : (resolve) => resolve('late') } };
await it.return(value);
return reads <= 2;
//= true
--- CVE-2026-44007: a sandbox inside the sandbox
//@ hint: vm2 < 3.11.1, GHSA-8hg8-63c5-gwmx; `nesting` let a script require vm2 and choose its own rules
const { NodeVM } = require('vm2'); //! IllegalBuiltinAccess Identifier 'require' is not allowed
return new NodeVM({ require: { builtin: ['child_process'] } }).run('1');
--- CVE-2026-44007: a script starts a script
//@ hint: vm2 < 3.11.1, GHSA-8hg8-63c5-gwmx; what nesting would be here
return await callTool('codecall:execute', { script: 'return 1', preset: 'experimental' }); //! SelfReference Cannot call CodeCall tools from within AgentScript: codecall:execute
--- GHSA-m4wx-m65x-ghrr: a script starts a script under a name put together at run time
//@ hint: vm2 < 3.11.4, the bypass of GHSA-8hg8-63c5-gwmx; only the literal shape had been refused
const name = ['code', 'call'].join('') + ':' + 'execute';
try { return await callTool(name, { script: 'return 1' }) } catch (error) { return 'swallowed' }
//~ SELF_REFERENCE_BLOCKED
--- GHSA-m4wx-m65x-ghrr: the other spelling, other case, blanks, throwOnError false
//@ hint: vm2 < 3.11.4
return await callTool('\t CodeCall_EXECUTE ', { script: 'return 1' }, { throwOnError: false }); //! SelfReference Cannot call CodeCall tools from within AgentScript: CodeCall_EXECUTE
--- CVE-2026-47140: builtins that the list of forbidden modules forgot
//@ hint: vm2 < 3.11.4; process and inspector/promises were missing from a list of what is forbidden
const inspector = require('inspector/promises'); //! IllegalBuiltinAccess Identifier 'require' is not allowed
return inspector.Session;
--- CVE-2026-47140: the process object under its many names
//@ hint: vm2 < 3.11.4; here a list says what is allowed
process.getBuiltinModule('child_process').execSync('id'); //! IllegalBuiltinAccess Identifier 'process' is not allowed
global.process.mainModule; //! IllegalBuiltinAccess Identifier 'global' is not allowed
module.children; //! IllegalBuiltinAccess Identifier 'module' is not allowed
return process.binding('spawn_sync'); //! IllegalBuiltinAccess Identifier 'process' is not allowed
--- CVE-2026-44000: a promise of the host resolves to an object of the host
//@ hint: vm2 < 3.11.0, GHSA-mpf8-4hx2-7cjg among its fixes; what a tool gives must be the script's own kind of object
const list = await callTool('users:list', {});
list.users.push({ id: 99 });
const again = await callTool('users:list', {});
return [list.users.length, again.users.length, list instanceof Object, list.users instanceof Array];
//= [4, 3, true, true]
--- GHSA-grj5-jjm8-h35p: a species of the array that returns itself
//@ hint: vm2 < 3.11.0; ArraySpeciesCreate reads a constructor behind the membrane's back
const list = [1, 2, 3];
const stolen = [];
const species = [Symbol][0][['spe', 'cies'].join('')];
function Stolen() { stolen.push('built'); return list }
Stolen[species] = Stolen;
list[['constr', 'uctor'].join('')] = Stolen;
const mapped = list.map((x) => x * 2), filtered = list.filter(() => true), spliced = list.slice().concat(list);
return [typeof species, stolen.length, mapped, filtered, spliced.length];
//= ["undefined", 0, [2, 4, 6], [1, 2, 3], 6]
--- GHSA-grj5-jjm8-h35p: __lookupGetter__ by bind
//@ hint: vm2 < 3.11.0; its title: breakout through __lookupGetter__
const look = ({}).__lookupGetter__; //! DisallowedMember Member '__lookupGetter__' is not allowed
return look.call({}, '__proto__');
--- GHSA-grj5-jjm8-h35p: __lookupGetter__ by a computed name
//@ hint: vm2 < 3.11.0
const key = (a, b) => '__' + a + b + '__';
const o = {};
return [key('lookup', 'Getter'), key('lookup', 'Setter'), key('define', 'Getter'), key('define', 'Setter')].map((k) => typeof o[k]);
//= ["undefined", "undefined", "undefined", "undefined"]
--- GHSA-v37h-5mfm-c47c: the membrane's own handler from an inspection
//@ hint: vm2 < 3.11.0; util.inspect with showProxy gave out the handler
console.log({ get handler() { return handler } }, { depth: Infinity, showProxy: true });
const handler = 1;
return 'ok';
//= "ok"
--- GHSA-qcp4-v2jj-fjx8: methods of the runtime on a `this` of the script's
//@ hint: vm2 < 3.11.0; a leaked handler's traps were called with a forged target
const forged = { waiting: new Map(), config: { maxToolCalls: 1e9 } };
const [call, look] = [callTool, getTool];
const echoed = await call.apply(forged, ['echo', { a: 1 }]);
const tool = look.call(forged, 'no such tool');
return [echoed, tool === undefined];
//= [{"a": 1}, true]
--- GHSA-47x8-96vw-5wg6: symbols that both realms know
//@ hint: vm2 < 3.11.0; Symbol.for is one registry for all realms
return Object.getOwnPropertySymbols(callTool).concat(Symbol.for('nodejs.rejection')); //! DisallowedMember Member 'Object.getOwnPropertySymbols' is not allowed
//! ^ DisallowedMember Member 'Symbol.for' is not allowed
--- GHSA-m5q2-4fm3-vfqp: Symbol.for with keys of the host, by a computed name
//@ hint: vm2 < 3.11.4
const S = { Symbol }.Symbol;
return typeof S[['f', 'or'].join('')];
//= "undefined"
--- GHSA-55hx-c926-fr95: a SuppressedError carries another error out
//@ hint: vm2 < 3.11.0; errors inside errors were not cleaned
return new SuppressedError(new Error('a'), new Error('b')).error; //! DisallowedGlobal Identifier 'SuppressedError' is not allowed
--- GHSA-55hx-c926-fr95: an AggregateError carries a limit past the handler
//@ hint: vm2 < 3.11.0
const dive = async () => dive2();
const dive2 = () => dive2() + 1;
try { return await Promise.any([dive(), dive()]) } catch (error) { return error.errors.length }
//~ STACK_OVERFLOW
--- GHSA-55hx-c926-fr95: an error's cause is no way out either
//@ hint: vm2 < 3.11.0; the cause of an error is not part of what leaves
const secret = { deep: 'value' };
return new Error('outer', { cause: new Error('inner', { cause: secret }) });
//= {"name": "Error", "message": "outer"}
--- GHSA-vwrp-x96c-mhwq: writing to the host's prototypes through the membrane
//@ hint: vm2 < 3.11.0
const outcomes = [];
const attempt = (f) => { try { f(); outcomes.push('wrote') } catch (error) { outcomes.push(error.name) } };
const protos = { Array, Object, Error, Map, Promise };
const p = ['proto', 'type'].join('');
attempt(() => { protos.Array[p].push = 1 });
attempt(() => { protos.Object[p].toString = 1 });
attempt(() => { delete protos.Map[p].get });
attempt(() => { protos.Promise[p].then = 1 });
attempt(() => { protos.Error[p].extra = 1 });
return outcomes;
//= ["TypeError", "TypeError", "TypeError", "TypeError", "TypeError"]
--- GHSA-v6mx-mf47-r5wg: prototype setters reached through call, apply and bind
//@ hint: vm2 < 3.11.4
const set = Object.setPrototypeOf; //! DisallowedMember Member 'Object.setPrototypeOf' is not allowed
return set.call(Object, {}, null);
--- GHSA-v6mx-mf47-r5wg: prototype setters are gone, not only unmentionable
//@ hint: vm2 < 3.11.4
const O = [Object][0];
return ['setPrototypeOf', 'getPrototypeOf', 'defineProperty', 'defineProperties', 'getOwnPropertyDescriptor', 'getOwnPropertyDescriptors', 'getOwnPropertySymbols'].map((k) => typeof O[k]);
//= ["undefined", "undefined", "undefined", "undefined", "undefined", "undefined", "undefined"]
--- GHSA-947f-4v7f-x2v8: builtins that hand the host through
//@ hint: vm2 < 3.11.0; module, worker_threads, cluster, vm, repl, inspector
return require('module')._load('child_process'); //! IllegalBuiltinAccess Identifier 'require' is not allowed
--- GHSA-hw58-p9xv-2mjh: rejections that nobody handles
//@ hint: vm2 < 3.11.0; they ended the host's process
for (let i = 0; i < 1000; i++) {
  Promise.reject(new Error('nobody ' + i));
  new Promise(() => { throw new Error('executor ' + i) });
  (async () => { throw new Error('async ' + i) })();
}
return 'still here';
//= "still here"
--- GHSA-6785-pvv7-mvg7: one allocation as large as the host's memory
//@ hint: vm2 < 3.11.0; Buffer.alloc had no bound
const buffer = Buffer.alloc(4_000_000_000); //! DisallowedGlobal Identifier 'Buffer' is not allowed
return buffer.length;
--- GHSA-6785-pvv7-mvg7: one allocation by a string
//@ hint: vm2 < 3.11.0; what stands for Buffer.alloc here
return 'x'.repeat(1_000_000_000).length;
//~ WORKER_MEMORY_EXCEEDED
--- GHSA-v27g-jcqj-v8rw: a stack names the host's files
//@ hint: vm2 < 3.11.0; CallSite and the default formatter gave out absolute paths
const inner = () => { throw new Error('x') };
const stacks = [];
try { inner() } catch (error) { stacks.push(error.stack) }
try { await callTool('fail', {}) } catch (error) { stacks.push(error.stack) }
try { null.x } catch (error) { stacks.push(error.stack) }
return stacks.map((stack) => /\/(usr|work|home|tmp|lib)|\.py|\.so|prelude|codecall/.test(stack));
//= [false, false, false]
--- GHSA-wp5r-2gw5-m7q7: an escape hides a name from the rewriter
//@ hint: vm2 < 3.11.0; a fast path looked for words in the text
const x = \u0065val; //! IllegalBuiltinAccess Identifier 'eval' is not allowed
//! ^ UnsafeSource Script has a unicode escape in a name
return x;
--- GHSA-wp5r-2gw5-m7q7: with statements
//@ hint: vm2 < 3.11.0
with ({ a: 1 }) { return a } //! DisallowedSyntax Syntax 'with' is not allowed
//! ^ DisallowedGlobal Unknown name 'a'
--- GHSA-2cm2-m3w5-gp2f: the runtime's state under a computed name of the global object
//@ hint: vm2 < 3.11.2; the name was refused, the subscript was not
return globalThis['__ag_s'] ?? globalThis['$post']; //! IllegalBuiltinAccess Identifier 'globalThis' is not allowed
//! ^ IllegalBuiltinAccess Identifier 'globalThis' is not allowed
--- GHSA-2cm2-m3w5-gp2f: no function of the script is called with the global object
//@ hint: vm2 < 3.11.2; sloppy `this` is the way to a global object without naming it
const seen = [];
function plain() { seen.push(typeof this === 'object' && 'JSON' in this); return 0 }
plain(); (0, plain)(); [0].map(plain); [3, 2].sort(plain); new Map([[1, 1]]).forEach(plain); 'a'.replaceAll('a', plain);
JSON.parse('[1]', plain); Array.from([1], plain); await Promise.resolve(1).then(plain); `${plain()}`; plain``;
({ get a() { return plain() } }).a; Object.groupBy([1], plain);
return seen.includes(true);
//= false
--- GHSA-9vg3-4rfj-wgcm: an object without prototype is thrown
//@ hint: vm2 < 3.11.2; the cleaning took it for the host's
const bare = Object.create(null);
bare.a = 1;
try { throw bare } catch (error) { return [error === bare, error.a] }
//= [true, 1]
--- GHSA-9vg3-4rfj-wgcm: a promise resolves to an object without prototype
//@ hint: vm2 < 3.11.2
const bare = Object.create(null, {});
bare.name = 'x'; bare.message = 'y'; bare.stack = 'z';
throw bare;
//~ EXECUTION_ERROR
--- GHSA-9qj6-qjgg-37qq: a setter for an index of Array.prototype sees the runtime's saved state
//@ hint: vm2 < 3.11.2
const seen = [];
const proto = [Array][0][['proto', 'type'].join('')];
try { Object.assign(proto, { 0: 'planted' }) } catch (error) { seen.push(error.name) }
const tool = await callTool('users:list', {});
return [seen, [][0] === undefined, tool.users.length];
//= [["TypeError"], true, 3]
--- GHSA-q3fm-4wcw-g57x: join is replaced where the runtime makes a stack
//@ hint: vm2 < 3.11.4
const outcomes = [];
const list = [1, 2];
try { list.join = () => { throw new Error('called') } } catch (error) { outcomes.push(error.name) }
console.log(list);
return [outcomes, typeof new Error('x').stack, list];
//= [["TypeError"], "string", [1, 2]]
--- GHSA-76w7-j9cq-rx2j: a subclass of Promise with a species
//@ hint: vm2 < 3.11.4
class Mine extends Promise { static get [Symbol.species]() { return Stolen } } //! DisallowedSyntax Syntax 'extends Promise' is not allowed
//! ^ DisallowedMember Member 'Symbol.species' is not allowed
//! ^ DisallowedGlobal Unknown name 'Stolen'
--- GHSA-c4cf-2hgv-2qv6: a write through an object that inherits from the host's
//@ hint: vm2 < 3.11.4; a set trap ignored the receiver
const child = Object.create(codecallContext);
try { child.tenant = 'other' } catch (error) { return [error.name, codecallContext.tenant] }
return [child.tenant, codecallContext.tenant];
//= ["TypeError", "t1"]
--- GHSA-cp6g-6699-wx9c: a file outside the folder that is allowed
//@ hint: vm2 < 3.11.0; a symbolic link inside the root
return require('./link-to-outside'); //! IllegalBuiltinAccess Identifier 'require' is not allowed
--- GHSA-r4fx-v8hh-22mv: a finalizer runs when no limit counts
//@ hint: vm2; the time limit did not hold inside a FinalizationRegistry's callback
const registry = new FinalizationRegistry(() => { for (;;) {} }); //! IllegalBuiltinAccess Identifier 'FinalizationRegistry' is not allowed
registry.register({}, 1);
--- GHSA-ffh4-j6h5-pg66: WebAssembly catches an exception of the host
//@ hint: vm2; a try_table in WebAssembly is a catch that no rewriter sees
const module1 = new WebAssembly.Module([]); //! IllegalBuiltinAccess Identifier 'WebAssembly' is not allowed
return module1;
--- GHSA-qvjj-29qf-hp7p: a promise method taken to a constructor of the script's
//@ hint: vm2; Promise.all and its kin build by `this`
const made = [];
function Mine(executor) { made.push(typeof executor); executor((x) => x, (x) => x) }
Mine.all = Promise.all;
Mine.resolve = (x) => Promise.resolve(x);
const dive = () => dive() + 1;
try { return Mine.all({ [Symbol.iterator]() { return dive() } }) } catch (error) { return 'swallowed' }
//~ STACK_OVERFLOW
--- GHSA-qvjj-29qf-hp7p: Promise.try under a constructor of the script's
//@ hint: vm2; the callback's error went to the script's reject
const got = [];
function Mine(executor) { executor((x) => got.push(x), (x) => got.push('rejected')) }
Mine.attempt = Promise.try;
const dive = () => dive() + 1;
return await Mine.attempt(dive);
//~ STACK_OVERFLOW
--- GHSA-mpf8-4hx2-7cjg: Array.fromAsync gives a promise that no handler covers
//@ hint: vm2 category 19; the engine's own async built-ins do not go through a patched `then`
const dive = () => dive() + 1;
return await Array.fromAsync([0], dive).catch(() => 'swallowed');
//~ STACK_OVERFLOW
--- GHSA-x6m4-chr9-cg97: the path of the host in an error that is only shown
//@ hint: vm2; an error's stack, formatted for display
const messages = [];
for (const f of [() => JSON.parse('{'), () => new Array(-1), () => null.x, () => 'x'.repeat(-1), () => BigInt('x'), () => decodeURIComponent('%')]) {
  try { f() } catch (error) { messages.push(`${error.name}: ${error.message}`); console.log(error) }
}
return messages.some((text) => /\/|\.py|\.js|0x[0-9a-f]{6}/.test(text));
//= false
