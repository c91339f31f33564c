// Ways to a function constructor (`Function`, `AsyncFunction`, `GeneratorFunction`, `AsyncGeneratorFunction`), to `eval`
// and to the global object, by names the guard cannot read. There is nothing at the end of any of them.
--- the name joined from parts, asked of an arrow function
const k = ['con', 'structor'].join('');
return typeof (() => 1)[k];
//= "undefined"
--- the name sliced out of a longer text
const k = 'xconstructorx'.slice(1, -1);
return typeof (function () {})[k];
//= "undefined"
--- the name from character codes
const k = String.fromCharCode(99, 111, 110, 115, 116, 114, 117, 99, 116, 111, 114);
return typeof (async () => 1)[k];
//= "undefined"
--- the name from code points, spread
const k = [99, 111, 110, 115, 116, 114, 117, 99, 116, 111, 114].map((c) => String.fromCodePoint(c)).join('');
return typeof (function* () {})[k];
//= "undefined"
--- the name from a template with a variable
const tail = 'structor';
return typeof (async function* () {})[`con${tail}`];
//= "undefined"
--- the name reversed
const k = 'rotcurtsnoc'.split('').reverse().join('');
return typeof [][k];
//= "undefined"
--- the name from a percent-encoded text
const k = decodeURIComponent('%63onstructor');
return [typeof ''[k], typeof (1)[k], typeof true[k], typeof 1n[k]];
//= ["undefined", "undefined", "undefined", "undefined"]
--- the name from JSON with an escape
const k = JSON.parse('"\\u0063onstructor"');
return [typeof Symbol.iterator[k], typeof /a/[k], typeof new Date(0)[k]];
//= ["undefined", "undefined", "undefined"]
--- the name as a tool sent it
const answer = await callTool('hostile', {});
const k = Object.keys(answer).find((key) => key.startsWith('cons')) ?? 'con'.concat('structor');
return typeof (() => 1)[k];
//= "undefined"
--- the name by replacing a letter
const k = 'xonstructor'.replace('x', 'c');
return [new Map(), new Set(), [].values(), new Map().keys(), new Set().entries(), ''.matchAll(/a/g)].map((v) => typeof v[k]);
//= ["undefined", "undefined", "undefined", "undefined", "undefined", "undefined"]
--- the name in lower case from upper case
const k = 'CONSTRUCTOR'.toLowerCase();
return [new Error('e'), new TypeError('t'), new AggregateError([])].map((v) => typeof v[k]);
//= ["undefined", "undefined", "undefined"]
--- the name as the text of an object
const k = { toString: () => 'con' + ['structor'][0] };
return typeof (() => 1)[k];
//= "undefined"
--- an object that gives another name each time it is asked
let asked = 0;
const k = { toString() { asked += 1; return asked === 1 ? 'length' : ['con', 'structor'].join(''); } };
const f = (a) => a;
return [f[k], typeof f[k], asked];
//= [1, "undefined", 2]
--- the name as an array of one
const f = () => 1;
return typeof f[[['con', 'structor'].join('')]];
//= "undefined"
--- from an instance to its class, and from there on
const k = ['con', 'structor'].join('');
class A {}
const up = new A()[k];
return [up === A, typeof up[k]];
//= [true, "undefined"]
--- from a promise to Promise, and from there on
const k = ['con', 'structor'].join('');
const P = Promise.resolve(1)[k];
return [P === Promise, typeof P[k], typeof P.resolve[k]];
//= [true, "undefined", "undefined"]
--- the class of a class of errors
const k = ['con', 'structor'].join('');
class E extends Error {}
return [typeof E[k], new E()[k] === E];
//= ["undefined", true]
--- a bound function, and a bound bind
const k = ['con', 'structor'].join('');
const f = (() => 1).bind(null);
return [typeof f[k], typeof f.bind[k], typeof f.bind.bind(f)[k]];
//= ["undefined", "undefined", "undefined"]
--- methods of built-ins are functions too
const k = ['con', 'structor'].join('');
return [[].map, ''.at, Math.max, JSON.parse, Object.keys, Promise.resolve, parseInt].map((f) => typeof f[k]);
//= ["undefined", "undefined", "undefined", "undefined", "undefined", "undefined", "undefined"]
--- the functions of the runtime are functions too
const k = ['con', 'structor'].join('');
return [callTool, getTool, __safe_parallel, console.log, structuredClone].map((f) => typeof f[k]);
//= ["undefined", "undefined", "undefined", "undefined", "undefined"]
--- the functions a promise hands out
const k = ['con', 'structor'].join('');
const { resolve, reject } = Promise.withResolvers();
let executor = [];
new Promise((...given) => { executor = given; });
return [resolve, reject, ...executor].map((f) => typeof f[k]);
//= ["undefined", "undefined", "undefined", "undefined"]
--- taken apart with a computed name
const k = ['con', 'structor'].join('');
const { [k]: F = 'nothing' } = () => 1;
return F;
//= "nothing"
--- taken apart in a parameter
const k = ['con', 'structor'].join('');
const f = ({ [k]: F = 'nothing' }) => F;
return f(() => 1);
//= "nothing"
--- optional chaining
const k = ['con', 'structor'].join('');
return (() => 1)?.[k]?.('return 1')?.() ?? 'nothing';
//= "nothing"
--- calling it says there is no such function
const k = ['con', 'structor'].join('');
return (() => 1)[k]('return 1')();
//~ EXECUTION_ERROR not a function
--- new on it says the same
const k = ['con', 'structor'].join('');
return new ((() => 1)[k])('return 1')();
//~ EXECUTION_ERROR
--- the arguments of a function
const k = ['con', 'structor'].join('');
function f() { const list = arguments; return [typeof list[k], list.length]; }
return f(1, 2);
//= ["undefined", 2]
--- arguments lead to no function
const k = ['cal', 'lee'].join('');
function f() { const list = arguments; return typeof list[k]; }
return f();
//~ EXECUTION_ERROR
--- super in an object literal
const k = ['con', 'structor'].join('');
const o = { read() { return typeof super[k]; } };
return o.read();
//= "undefined"
--- super in a class without a parent
const k = ['con', 'structor'].join('');
class A { read() { return typeof super[k]; } static read() { return typeof super[k]; } }
return [new A().read(), A.read()];
//= ["undefined", "undefined"]
--- super in a class of errors
const k = ['con', 'structor'].join('');
class A extends RangeError { read() { return typeof super[k]; } static read() { return typeof super[k]; } }
return [new A().read(), A.read()];
//= ["undefined", "undefined"]
--- super in a static block and a field
const k = ['con', 'structor'].join('');
class A { static found; own = typeof super[k]; static { A.found = typeof super[k]; } }
return [A.found, new A().own];
//= ["undefined", "undefined"]
--- the strings of a tagged template
const k = ['con', 'structor'].join('');
const tag = (strings) => [typeof strings[k], typeof strings.raw[k]];
return tag`a${1}b`;
//= ["undefined", "undefined"]
--- the result of a match, and its groups
const k = ['con', 'structor'].join('');
const found = /(?<x>a)/.exec('a');
return [typeof found[k], typeof found.groups[k]];
//= ["undefined", "undefined"]
--- a reviver is called on a holder
const k = ['con', 'structor'].join('');
const seen = [];
JSON.parse('[1]', function (key, value) { seen.push(typeof this[k]); return value; });
return seen;
//= ["undefined", "undefined"]
--- a replacer is called on a holder
const k = ['con', 'structor'].join('');
const seen = [];
JSON.stringify({ a: 1 }, function (key, value) { seen.push(typeof this[k]); return value; });
return seen;
//= ["undefined", "undefined"]
--- the name is not in anything
const k = ['con', 'structor'].join('');
return [k in (() => 1), k in [], k in {}, k in new Map(), Object.hasOwn(() => 1, k)];
//= [false, false, false, false, false]
--- what hangs from a function by the other never-name
const p = ['proto', 'type'].join('');
const k = ['con', 'structor'].join('');
function F() {}
return [F[p][k] === F, typeof F[p][k][k]];
//= [true, "undefined"]
--- the generator's prototypes, one after the other
const p = ['proto', 'type'].join('');
const k = ['con', 'structor'].join('');
const g = function* () {};
return [typeof g[p], typeof g[p][k], typeof g()[k]];
//= ["object", "undefined", "undefined"]
--- the async generator's prototypes
const p = ['proto', 'type'].join('');
const k = ['con', 'structor'].join('');
const g = async function* () {};
return [typeof g[p], typeof g[p][k], typeof g()[k], typeof g().next()[k]];
//= ["object", "undefined", "undefined", "function"]
--- a helper of an iterator
const k = ['con', 'structor'].join('');
const it = [].values();
return [typeof it[k], ...['map', 'filter', 'take', 'drop', 'flatMap'].map((name) => typeof it[name])];
//= ["undefined", "undefined", "undefined", "undefined", "undefined", "undefined"]
--- a function called plainly has no global object for this
return (function () { return typeof this; })();
//= "undefined"
--- nor with a call that gives none
const f = function () { return this === undefined; };
return [f.call(undefined), f.apply(), f.bind()(), [f][0].call()];
//= [true, true, true, true]
--- null stays null
return (function () { return this; }).call(null);
//= null
--- nor in a callback, a comparator, a tag or a getter on undefined
const seen = [];
const look = function () { seen.push(this === undefined); return 0; };
[1].forEach(look);
[2, 1].sort(look);
look`t`;
'a'.replace(/a/, look);
Array.from([1], look);
new Map([[1, 2]]).forEach(look);
return seen;
//= [true, true, true, true, true, true]
--- nor in a function that groups
const seen = [];
const look = function () { seen.push(this === undefined); return 'k'; };
Object.groupBy([1, 2], look);
Map.groupBy([1], look);
return seen;
//= [true, true, true]
--- nor in a mapping, a reduction, a helper of an iterator or a deletion
const seen = [];
const look = function () { seen.push(this === undefined); return [1]; };
[1].flatMap(look); [1, 2].reduce(look); [1].findLast(look); [1].toSorted(look); [2, 1].toSorted(look);
[1, 2].values().reduce(look); [1].values().forEach(look); [1].values().some(look);
new Set([1]).forEach(look); await Array.fromAsync([1], look); Promise.try(look);
return seen.every((x) => x) && seen.length;
//= 10
--- nor in what a thenable is given
const seen = [];
const own = { then(resolve) { seen.push(this === own); resolve(1); } };
await own;
return seen;
//= [true]
--- nor in a promise's executor and handlers
const seen = [];
const look = function () { seen.push(this === undefined); };
new Promise(look);
await Promise.resolve().then(look);
await Promise.reject(new Error('e')).catch(look);
await Promise.resolve().finally(look);
return seen;
//= [true, true, true, true]
--- nor in async functions and generators
const a = async function () { return this === undefined; };
const g = function* () { yield this === undefined; };
return [await a(), ...g()];
//= [true, true]
--- built-in methods called on nothing do not fall back to the global object
const { valueOf } = {};
return valueOf();
//~ EXECUTION_ERROR
--- a method of arrays called on nothing
const { concat } = [];
return concat();
//~ EXECUTION_ERROR
--- a sort called on nothing
const { sort } = [];
return sort() === undefined;
//~ EXECUTION_ERROR
--- eval is nobody's member
const e = ['ev', 'al'].join('');
return [typeof {}[e], typeof (() => 1)[e], typeof [][e], typeof codecallContext[e]];
//= ["undefined", "undefined", "undefined", "undefined"]
--- replace does not run its text
return 'abc'.replace('b', "$&${eval('1')}$`");
//= "ab${eval('1')}ac"
--- a function from a text is a text
const f = 'return 1';
return f();
//~ EXECUTION_ERROR not a function
--- what JSON revives is data
const f = JSON.parse('{"f": "() => 1", "toString": "() => 2"}');
return typeof f.f;
//= "string"
--- RegExp makes expressions, not functions
const r = new RegExp('(?{ 1 })');
return r.test('a');
//~ EXECUTION_ERROR
--- a class by a computed name is a class of the script's
const k = ['con', 'structor'].join('');
class A { static [k]() { return 'own'; } }
return A[k]();
//= "own"
--- a method by that name is no way to become the constructor
const k = ['con', 'structor'].join('');
class A { [k]() { return 'method'; } }
const a = new A();
return [a instanceof A, a[k]()];
//= [true, "method"]
