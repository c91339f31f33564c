// Reading, replacing and polluting prototypes by names the guard cannot read. What is built in is read-only, `__proto__`
// is a name like any other, and methods that the policy's table of prototypes does not list are not there.
--- __proto__ reads as nothing
const p = ['__pro', 'to__'].join('');
return [typeof {}[p], typeof [][p], typeof (() => 1)[p], typeof ''[p]];
//= ["undefined", "undefined", "undefined", "undefined"]
--- __proto__ assigned is an own property
const p = ['__pro', 'to__'].join('');
const o = {};
o[p] = { evil: 1 };
return [o.evil ?? null, {}.evil ?? null, Object.keys(o)];
//= [null, null, ["__proto__"]]
--- __proto__ does not empty an object
const p = ['__pro', 'to__'].join('');
const o = { a: 1 };
o[p] = null;
return [o.a, typeof o.toString, typeof o.hasOwnProperty];
//= [1, "function", "function"]
--- __proto__ does not make an array of an object
const p = ['__pro', 'to__'].join('');
const o = {};
o[p] = [];
return [Array.isArray(o), typeof o.map, o instanceof Array];
//= [false, "undefined", false]
--- a merge that copies what JSON brought
const merge = (into, from) => {
  for (const key of Object.keys(from)) {
    if (typeof from[key] === 'object' && typeof into[key] === 'object') merge(into[key], from[key]);
    else into[key] = from[key];
  }
  return into;
};
merge({}, JSON.parse('{"__proto__": {"polluted": 1}}'));
return {}.polluted ?? 'clean';
//= "clean"
--- the same merge through the constructor
const merge = (into, from) => {
  for (const key of Object.keys(from)) {
    if (typeof from[key] === 'object' && into[key]) merge(into[key], from[key]);
    else into[key] = from[key];
  }
};
merge({}, JSON.parse('{"constructor": {"prototype": {"polluted": 1}}}'));
return {}.polluted ?? 'clean';
//= "clean"
--- Object.assign from JSON
const o = Object.assign({}, JSON.parse('{"__proto__": {"polluted": 1}}'));
return [o.polluted ?? null, {}.polluted ?? null];
//= [null, null]
--- spread from JSON
const o = { ...JSON.parse('{"__proto__": {"polluted": 1}, "b": 2}') };
return [o.polluted ?? null, o.b];
//= [null, 2]
--- Object.fromEntries
const p = ['__pro', 'to__'].join('');
const o = Object.fromEntries([[p, { polluted: 1 }]]);
return [o.polluted ?? null, Object.keys(o).length];
//= [null, 1]
--- Object.groupBy with that key
const p = ['__pro', 'to__'].join('');
const o = Object.groupBy([1, 2], () => p);
return [Object.keys(o), typeof {}.length];
//= [["__proto__"], "undefined"]
--- a reviver that adds it
const p = ['__pro', 'to__'].join('');
const o = JSON.parse('{"a": {}}', function (key, value) { if (key === 'a') this[p] = { polluted: 1 }; return value; });
return [o.polluted ?? null, {}.polluted ?? null];
//= [null, null]
--- what a hostile tool answers pollutes nothing
const answer = await callTool('hostile', {});
const copy = Object.assign({}, structuredClone(answer), { ...answer });
return [{}.polluted ?? 'clean', copy.polluted ?? 'clean', [].polluted ?? 'clean'];
//= ["clean", "clean", "clean"]
--- the prototype of arrays is read-only
const p = ['proto', 'type'].join('');
const A = Array;
A[p].evil = 1;
//~ EXECUTION_ERROR
--- a method of arrays cannot be replaced
const p = ['proto', 'type'].join('');
const [A] = [Array];
A[p].push = () => 'mine';
//~ EXECUTION_ERROR
--- a method of arrays cannot be deleted
const p = ['proto', 'type'].join('');
const [A] = [Array];
delete A[p].push;
//~ EXECUTION_ERROR
--- an element of the prototype of arrays, for the holes
const p = ['proto', 'type'].join('');
const [A] = [Array];
try { A[p][0] = 'mine'; } catch { /* read-only */ }
return [[, 1][0] ?? 'hole', [,].at(0) ?? 'hole'];
//= ["hole", "hole"]
--- the prototype of objects is read-only
const p = ['proto', 'type'].join('');
const [O] = [Object];
O[p].evil = 1;
//~ EXECUTION_ERROR
--- Object.assign onto the prototype of objects
const p = ['proto', 'type'].join('');
const [O] = [Object];
Object.assign(O[p], { evil: 1 });
//~ EXECUTION_ERROR
--- toString of all objects cannot be replaced
const p = ['proto', 'type'].join('');
const [O] = [Object];
O[p].toString = () => 'mine';
//~ EXECUTION_ERROR read-only
--- toJSON for all objects
const p = ['proto', 'type'].join('');
const [O] = [Object];
try { O[p].toJSON = () => 'mine'; } catch { /* read-only */ }
return JSON.stringify({ a: 1 });
//= "{\"a\":1}"
--- then for all objects
const p = ['proto', 'type'].join('');
const [O] = [Object];
try { O[p].then = (resolve) => resolve('mine'); } catch { /* read-only */ }
return await callTool('echo', { a: 1 });
//= {"a": 1}
--- the message of all errors
const p = ['proto', 'type'].join('');
const [E] = [Error];
E[p].message = 'mine';
//~ EXECUTION_ERROR read-only
--- the name of one kind of errors
const p = ['proto', 'type'].join('');
const [E] = [TypeError];
E[p].name = 'mine';
//~ EXECUTION_ERROR read-only
--- call of all functions
const p = ['proto', 'type'].join('');
const [O] = [Object];
const f = () => 1;
f.call = () => 'mine';
return [f.call(), (() => 2).call(), O === Object];
//~ EXECUTION_ERROR
--- the prototype a built-in has cannot be replaced
const p = ['proto', 'type'].join('');
const [A] = [Array];
A[p] = {};
//~ EXECUTION_ERROR
--- a member of a built-in cannot be replaced
const m = ['is', 'Array'].join('');
const [A] = [Array];
A[m] = () => true;
//~ EXECUTION_ERROR
--- nor added
const [M] = [Math];
M['mine' + M.abs(1)] = 1;
//~ EXECUTION_ERROR
--- nor deleted
const [J] = [JSON];
const m = ['par', 'se'].join('');
delete J[m];
//~ EXECUTION_ERROR
--- members outside the table are not there
const pick = (o, ...parts) => typeof o[parts.join('')];
const [O, S, J, E, P, M] = [Object, Symbol, JSON, Error, Promise, Math];
return [
  pick(O, 'get', 'PrototypeOf'), pick(O, 'set', 'PrototypeOf'), pick(O, 'define', 'Property'),
  pick(O, 'define', 'Properties'), pick(O, 'getOwnProperty', 'Descriptor'), pick(O, 'getOwnProperty', 'Symbols'),
  pick(S, 'f', 'or'), pick(S, 'key', 'For'), pick(S, 'spec', 'ies'), pick(S, 'toPrim', 'itive'),
  pick(S, 'has', 'Instance'), pick(J, 'raw', 'JSON'), pick(E, 'capture', 'StackTrace'), pick(E, 'is', 'Error'),
  pick(P, 'sub', 'class'), pick(M, 'f16', 'round'),
];
//= ["undefined", "undefined", "undefined", "undefined", "undefined", "undefined", "undefined", "undefined", "undefined", "undefined", "undefined", "undefined", "undefined", "undefined", "undefined", "undefined"]
--- accessors cannot be defined on others
const d = ['__define', 'Getter__'].join('');
return [typeof {}[d], typeof [][d], typeof {}[d.replace('Getter', 'Setter')], typeof {}[d.replace('define', 'lookup')]];
//= ["undefined", "undefined", "undefined", "undefined"]
--- functions do not say where they stand
const f = () => 1;
return ['fileName', 'lineNumber', 'columnNumber'].map((k) => typeof f[k]);
//= ["undefined", "undefined", "undefined"]
--- nor do those of the runtime
const f = [callTool, getTool, __safe_parallel][codecallContext.tenant.length - 2];
return ['fileName', 'lineNumber', 'columnNumber', 'source', 'displayName'].map((k) => typeof f[k]);
//= ["undefined", "undefined", "undefined", "undefined", "undefined"]
--- functions do not say who called them
function inner() { const [f] = [inner]; return [typeof f[['call', 'er'].join('')], typeof f[['argu', 'ments'].join('')]]; }
function outer() { return inner(); }
return outer();
//= ["undefined", "undefined"]
--- old HTML methods of strings are gone
return ['anchor', 'big', 'blink', 'bold', 'fixed', 'fontcolor', 'fontsize', 'italics', 'link', 'small', 'strike', 'sub', 'sup']
  .filter((name) => name in Object('a'));
//= []
--- an expression in use cannot be compiled anew
const r = /a/;
return typeof r[['com', 'pile'].join('')];
//= "undefined"
--- old methods of dates are gone
const d = new Date(0);
return ['getYear', 'setYear', 'toGMTString'].map((k) => typeof d[k]);
//= ["undefined", "undefined", "undefined"]
--- newer methods than the language promises are gone
return [new Map()['getOr' + 'Insert'], [].values()['chunks'], [].values()['windows']].map((v) => typeof v);
//= ["undefined", "undefined", "undefined"]
--- the prototype of iterators is read-only
const it = [].values();
it.next = () => 'mine';
//~ EXECUTION_ERROR
--- the prototype of generators is read-only by way of the generator function
const p = ['proto', 'type'].join('');
const g = function* () { yield 1; };
g[p].next = () => ({ done: true });
//~ EXECUTION_ERROR
--- a script's own prototype belongs to its own kind only
const p = ['proto', 'type'].join('');
function F() {}
F[p].x = 1;
return [new F().x, {}.x ?? null];
//= [1, null]
--- the prototype of a script's own class
const p = ['proto', 'type'].join('');
class A { m() { return 1; } }
A[p].m = () => 2;
return [new A().m(), (class { m() { return 1; } }).name];
//= [2, ""]
--- super does not write to the parent
class E extends Error { put() { super.mine = 1; return this.mine; } }
return [new E().put(), new Error('e').mine ?? null];
//= [1, null]
--- super in an object literal does not write to all objects
const o = { put() { super.mine = 1; return this.mine; } };
return [o.put(), {}.mine ?? null];
//= [1, null]
--- super does not delete
class E extends Error { drop() { return delete super.message; } }
return new E().drop();
//~ EXECUTION_ERROR
--- what may be overridden is overridden on the one object
const e = new Error('first');
e.name = 'Mine';
e.message = 'second';
e.toString = () => 'third';
return [`${e}`, e.name, e.message, `${new Error('other')}`];
//= ["third", "Mine", "second", "Error: other"]
--- a built-in by way of Object.create stays as it is
const o = Object.create([1, 2]);
o.push(3);
return [[].length, Array.isArray(o), o.length];
//= [0, false, 3]
--- a class cannot be of a built-in kind by a variable
const M = Map;
class A extends M {} //! DisallowedSyntax
--- nor by a call
const pick = () => Set;
class A extends pick() {} //! DisallowedSyntax
--- a function whose prototype is a built-in instance
const p = ['proto', 'type'].join('');
function F() {}
F[p] = new Map();
const f = new F();
f.set('a', 1);
//~ EXECUTION_ERROR
--- instanceof cannot be taught
const h = Object.getOwnPropertyNames(() => 1);
class A { static ['hasInstance']() { return true; } }
return [{} instanceof A, h.includes('hasInstance')];
//= [false, false]
--- well-known symbols outside the table have no name
const names = ['species', 'toPrimitive', 'hasInstance', 'isConcatSpreadable', 'unscopables', 'match', 'toStringTag'];
const [S] = [Symbol];
return names.filter((name) => S[name] !== undefined);
//= []
--- symbols cannot be listed
const own = Object.getOwnPropertyNames([]).concat(Object.keys([]));
return [own, Object.entries(Object.assign({}, [])).length];
//= [["length"], 0]
--- globals cannot be shadowed at run time by the global object
const g = (function () { return this; })();
return typeof g;
//= "undefined"
