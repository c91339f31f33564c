// Bugs of small engines, QuickJS and quickjs-ng first: what crashed them, written so far as this language can say it. The
// worker must survive each of these, and what needs typed arrays, proxies or finalizers must not be there at all.
--- CVE-2020-22876: QuickJS, the parser's own recursion over nested code
//@ hint: bellard/quickjs issue 8, compute_stack_size_rec
const f = () => { if (1) { if (1) { if (1) { if (1) { if (1) { if (1) { if (1) { if (1) { return 1 } } } } } } } } };
return [f(), [[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]].flat(20)];
//= [1, [1]]
--- CVE-2023-31922: QuickJS, Array.isArray on a chain of proxies
//@ hint: bellard/quickjs issue 178, js_proxy_isArray without a look at the stack
let p = [];
for (let i = 0; i < 4000; i++) p = new Proxy(p, {}); //! IllegalBuiltinAccess Identifier 'Proxy' is not allowed
return Array.isArray(p);
--- CVE-2023-48183: QuickJS, enumerating an object whose properties change
//@ hint: quickjs before 7414e5f, for…in while keys are deleted
const o = { a: 1, b: 2, c: 3 };
for (const key in o) delete o[key]; //! DisallowedLoop Loop 'for…in' is not allowed
return o;
--- CVE-2023-48183: keys deleted while they are read, without for…in
//@ hint: quickjs before 7414e5f
const o = { get a() { delete o.b; delete o.c; o.d = 1; return 1 }, b: 2, c: 3 };
return [Object.entries(o), { ...o }, JSON.stringify(o), Object.values(o)];
//= [[["a", 1]], {"a": 1, "d": 1}, "{\"a\":1,\"d\":1}", [1, 1]]
--- CVE-2023-48184: QuickJS, a variable closed over after its frame has ended
//@ hint: quickjs before 7414e5f, closures and generators
const make = function* () { let x = 0; yield () => ++x; yield () => --x };
const [up, down] = [...make()];
up(); up(); down();
return up();
//= 2
--- CVE-2025-62490: QuickJS, a map changed while it is printed
//@ hint: quickjs 2025-09-13, js_print_map use after free
const map = new Map([['a', 1], ['b', 2], ['c', 3]]);
map.set('trap', { get x() { map.clear(); for (let i = 0; i < 1000; i++) map.set(i, {}); return 1 } });
console.log(map);
console.log(new Set([map, { get y() { map.clear(); return 1 } }]));
return map;
//= {}
--- CVE-2025-62491: QuickJS, what is done when a rejection is reported
//@ hint: quickjs 2025-09-13, js_std_promise_rejection_check use after free
for (let i = 0; i < 200; i++) Promise.reject({ get message() { throw new Error('x') }, toString() { throw new Error('y') } });
await Promise.allSettled([Promise.reject(new Error('z'))]);
return 'still here';
//= "still here"
--- CVE-2025-62493: QuickJS, BigInt to text in every radix
//@ hint: quickjs 2025-09-13, js_bigint_to_string1 buffer
const out = [];
for (let radix = 2; radix <= 36; radix++) { const x = 123456789012345678901234567890n ** 20n; out.push(x.toString(radix).length > 0) }
return out.every((ok) => ok) && (2n ** 1024n).toString(7).length;
//= 365
--- CVE-2025-62494: QuickJS, a string that changes while it is added
//@ hint: quickjs 2025-09-13, OP_add_loc with a valueOf that changes the variable
let s = 'start';
const evil = { toString() { s = 'x'.repeat(1000); return 'evil' } };
s += evil;
let t = 'a';
for (let i = 0; i < 50; i++) t += { valueOf() { t = {}; return 'b' } };
return [s, t.length];
//= ["startevil", 51]
--- CVE-2025-62495: QuickJS, a regular expression whose bytecode exceeds 1 GiB
//@ hint: quickjs 2025-09-13; lengths of bytecode in 32 bits
const R = RegExp;
try { R('a'.repeat(25_000_000)).test('a') } catch (error) { if (error.name !== 'SyntaxError') throw error }
return 'survived';
//= "survived"
--- CVE-2025-62496: QuickJS, BigInt from a long text
//@ hint: quickjs 2025-09-13, js_bigint_from_string buffer
const sizes = [1, 31, 32, 33, 63, 64, 65, 1000, 10000];
return sizes.map((n) => BigInt('9'.repeat(n)).toString().length);
//= [1, 31, 32, 33, 63, 64, 65, 1000, 10000]
--- quickjs-ng issue 1562: length grows, then push
//@ hint: quickjs-ng issue 1562 of July 2026; reference counts ran below zero
const keep = [];
for (let i = 0; i < 300; i++) { const a = [{}]; a.length = 245; a.push({ i }); keep.push(a) }
for (let i = 0; i < 4000; i++) { const o = {}; o.o = o }
return [keep.length, keep[299].length, keep[299][245], keep[299][100] === undefined];
//= [300, 246, {"i": 299}, true]
--- quickjs-ng issue 1562: length grows, then every method that adds or takes
//@ hint: quickjs-ng issue 1562 of July 2026
const out = [];
for (let i = 0; i < 200; i++) {
  const a = [{ i }]; a.length = 50; a.push({}); a.unshift({}); a.splice(2, 3, {}, {}); a.length = 4; a.push({}); a.reverse(); a.copyWithin(1, 0); a.fill({}, 2); a.shift(); a.pop(); a.length = 100; a.sort(); a.concat(a); a.flat(); a.with(99, {});
  out.push(a.length);
}
return [out.length, out[199]];
//= [200, 100]
--- GHSA-r6vf-p8wr-4vg9: quickjs-ng, an array cut while its elements are freed
//@ hint: quickjs-ng pull request 1467, set_array_length
const a = Array.from({ length: 1000 }, (_, i) => ({ i, self: null }));
a.forEach((o) => { o.self = a });
for (let n = 900; n >= 0; n -= 100) { a.length = n; a.push({}) }
return a.length;
//= 1
--- quickjs-ng issue 1355: re-entering an async generator through `then`
//@ hint: quickjs-ng issue 1355, a getter for `then` on Object.prototype; here on the values themselves
let it;
let hits = 0;
const value = { get then() { hits += 1; if (hits < 20) { it.return(0); it.next(1) } return undefined } };
async function* g() { try { yield value; yield 1 } finally { await 0 } }
it = g();
const asked = [it.next(), it.return(value), it.next(), it.throw(1), it.return(value)];
for (const promise of asked) promise.catch(() => 1);
for (let i = 0; i < 200; i++) await null;
for (let i = 0; i < 4000; i++) { const o = {}; o.o = o }
return [asked.length, hits > 0];
//= [5, true]
--- quickjs-ng issue 1368: Iterator.concat re-entered
//@ hint: quickjs-ng issues 1368 and 1440, use after free
let it;
it = Iterator.concat({ [Symbol.iterator]() { it.return(); return [][Symbol.iterator]() } }); //! DisallowedGlobal Identifier 'Iterator' is not allowed
return it.next();
--- quickjs-ng: helpers of iterators re-entered by their own callback
//@ hint: quickjs-ng issues 1368 and 1440, on the helpers that a generator inherits
let it;
const g = (function* () { yield 1; yield 2; yield 3 })();
const helpers = ['map', 'filter', 'flatMap', 'take', 'drop', 'reduce', 'toArray', 'some'].filter((name) => typeof g[name] === 'function');
const outcomes = helpers.map((name) => { const inner = (function* () { yield 1; yield 2 })(); try { it = inner[name]((x) => { inner.return(); it?.next?.(); return [x] }); it?.next?.(); it?.return?.(); return 'ended' } catch (error) { return 'threw' } });
return outcomes.every((outcome) => outcome === 'ended' || outcome === 'threw');
//= true
--- quickjs-ng issue 1400: mapped arguments while the collector runs
//@ hint: quickjs-ng issue 1400; strict code has no mapped arguments
function f(a) { arguments[0] = { b: 2 }; for (let i = 0; i < 3000; i++) { const o = {}; o.o = o } return [a, arguments[0]] }
return f(1);
//= [1, {"b": 2}]
--- quickjs-ng issue 1570: the collector and the stack of a running async function
//@ hint: quickjs-ng issue 1570 of July 2026, open; `for await` with cycles that are collected
const results = [];
const source = { async *[Symbol.asyncIterator]() { for (let i = 0; i < 20; i++) { for (let k = 0; k < 200; k++) { const o = {}; o.o = o } yield { i, o: [{}] } } } };
for await (const { i, o } of source) { const a = {}; a.a = a; results.push(await Promise.resolve({ i, n: o.length })) }
return [results.length, results[19]];
//= [20, {"i": 19, "n": 1}]
--- quickjs-ng issue 1564: disposal of a stack of resources
//@ hint: quickjs-ng issue 1564, use after free in DisposableStack
const stack = new DisposableStack(); //! DisallowedGlobal Identifier 'DisposableStack' is not allowed
stack.defer(() => stack.dispose());
--- quickjs-ng issue 1570: a resource that is disposed of while the collector runs
//@ hint: quickjs-ng issue 1570; `using` is no part of this language
using a = { x: 1 }; //! DisallowedSyntax Syntax 'using' is not allowed
--- quickjs-ng issue 1354: a character class that ends early
//@ hint: quickjs-ng issue 1354, a read behind the pattern with the flag v
const R = RegExp;
return ['[]', '[', '[^', '[a', '(?<', '(?', '\\', '\\u', '\\x', '\\p', '\\p{', '{', '(?:', '[\\q{', '[a-', '[[', '[a--', '[a&&'].map((text) => { try { R(text, 'v'); return 'ok' } catch (error) { return error.name } }).every((name) => name === 'ok' || name === 'SyntaxError');
//= true
--- CVE-2026-0821: quickjs-ng, a typed array whose buffer shrinks while it is made
//@ hint: quickjs-ng issue 1296, js_typed_array_constructor
return new Uint8Array(new ArrayBuffer(8, { maxByteLength: 64 })); //! DisallowedGlobal Identifier 'Uint8Array' is not allowed
//! ^ DisallowedGlobal Identifier 'ArrayBuffer' is not allowed
--- CVE-2026-0822: quickjs-ng, a typed array that is resized while it is sorted
//@ hint: quickjs-ng issue 1297, js_typed_array_sort
const u8 = new Uint8Array(256); //! DisallowedGlobal Identifier 'Uint8Array' is not allowed
u8.sort(() => 0);
--- CVE-2026-0822: an array that changes while it is sorted
//@ hint: quickjs-ng issue 1297, on plain arrays
const list = Array.from({ length: 300 }, (_, i) => ({ i: 300 - i }));
let n = 0;
list.sort((a, b) => { n += 1; if (n === 100) { list.length = 0; for (let i = 0; i < 500; i++) list.push({ i }) } return a.i - b.i });
return list.length >= 300;
//= true
--- quickjs-ng issue 1301: Atomics on a buffer that is resized by valueOf
//@ hint: quickjs-ng issues 1301 and 1302, bellard/quickjs issue 508
Atomics.store(new Int32Array(new ArrayBuffer(8)), 0, { valueOf: () => 1 }); //! IllegalBuiltinAccess Identifier 'Atomics' is not allowed
//! ^ DisallowedGlobal Identifier 'Int32Array' is not allowed
//! ^ DisallowedGlobal Identifier 'ArrayBuffer' is not allowed
--- quickjs-ng issue 1208: a buffer that is used after its transfer
//@ hint: quickjs-ng issue 1208, ArrayBuffer.prototype.transfer
return new ArrayBuffer(8).transfer(16); //! DisallowedGlobal Identifier 'ArrayBuffer' is not allowed
--- quickjs-ng issue 1318: FinalizationRegistry when the engine ends
//@ hint: quickjs-ng issues 432 and 1318, bellard/quickjs issue 494
new FinalizationRegistry(() => 1).register({}, {}); //! IllegalBuiltinAccess Identifier 'FinalizationRegistry' is not allowed
--- quickjs-ng issue 1375: bytecode from outside
//@ hint: quickjs-ng issues 1375, 1376 and 1518, bellard/quickjs issue 498; no script reads bytecode
return bjson.read(new Uint8Array([0x17]).buffer, 0, 1, 0); //! DisallowedGlobal Unknown name 'bjson'
//! ^ DisallowedGlobal Identifier 'Uint8Array' is not allowed
--- quickjs-ng issue 774: an array that holds itself is made a text
//@ hint: quickjs-ng issue 774; join knew no cycles and ran out of stack
const a = [];
a.push(a);
try { return String(a) } catch (error) { return 'swallowed' }
//~ STACK_OVERFLOW
--- quickjs-ng: a key whose toString needs the key
//@ hint: quickjs-ng, `delete this[this]`; ToPropertyKey in ToPropertyKey
const o = { toString() { return o[o] } };
return o[o];
//~ STACK_OVERFLOW
--- nginx/njs pull request 1079: a getter in a hole grows the array that is sorted
//@ hint: njs, use after free in Array.prototype.sort; an own getter stands for the one on the prototype
const a = [3];
a.length = 4;
const o = { 0: 3, 1: 1, 2: 2, length: 3, get 3() { for (let i = 0; i < 1000; i++) a.push(i); return 5 } };
const sorted = [].sort.call(o, (x, y) => { a.push(x); return x - y });
return [sorted[0], sorted[1], sorted[2]];
//= [1, 2, 3]
--- JerryScript issue 5271: nested arrays made by a replacer
//@ hint: JerryScript issue 5271, JSON.stringify without a look at the stack
return JSON.stringify(1, (key, value) => [value]);
//~ STACK_OVERFLOW
--- bellard/mquickjs issue 47: a replacement by a class of no characters
//@ hint: mquickjs issue 47, lre_exec
return ['', 'a', 'ab'].map((text) => text.replace(/[]t*/s, 'x') + text.replace(/[^]*/s, 'y') + text.replace(/(?:)*/, 'z'));
//= ["yz", "ayza", "abyzab"]
--- hmsk/quickjs.rb issue 116: objects until the heap is full
//@ hint: quickjs under a memory limit, SIGSEGV in the backtrace of its own out-of-memory error
const a = [];
for (let i = 0; i < 4000; i++) for (let j = 0; j < 200; j++) a.push({ x: 1, y: 2, z: 3 });
return a.length;
//~ WORKER_MEMORY_EXCEEDED
--- vercel-labs/quickjs-wasi issue 38: null is thrown where the heap is full
//@ hint: quickjs-ng throws null when it cannot make an error; the script cannot pass it off as its own, nor hide it
const a = [];
try { for (let i = 0; i < 4000; i++) a.push('x'.repeat(100_000) + i) } catch (error) { return ['swallowed', error] }
//~ WORKER_MEMORY_EXCEEDED
--- concat of something that changes while it is read
//@ hint: QuickJS, js_array_concat and getters; a technique of several reports
const a = [1, 2, 3];
const o = { get 0() { a.length = 0; return 'got' }, 1: 2, length: 2 };
return [[].concat(a, [o[0]], a), a.length, Array.from({ length: 3, get 0() { return 1 }, get 1() { a.push(9); return 2 } })];
//= [["got"], 0, [1, 2, null]]
--- destructuring from an iterator that lies
//@ hint: engine fuzzing classics: return that throws, next that is no function, done with a getter
const outcomes = [];
const tries = [{ next: 1 }, { next() { return 1 } }, { next() { return { get done() { throw new Error('d') } } } }, { next: () => ({ done: false, value: 1 }), return() { throw new Error('r') } }, { next: () => ({ done: false }), return: 1 }];
for (const it of tries) { try { const [x] = { [Symbol.iterator]: () => it }; outcomes.push(x === undefined ? 'undefined' : x) } catch (error) { outcomes.push(error.name) } }
return outcomes;
//= ["TypeError", "TypeError", "Error", "Error", "TypeError"]
