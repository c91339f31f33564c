// Code of the script's that runs where the runtime reads a value: `toString`, `valueOf`, `toJSON`, getters, array holes,
// values that change between two looks. The runtime reads once, reads plainly, and gives nothing of its own away.
--- a tool name that is an object
return await callTool({ toString: () => 'users:list' }, {});
//~ EXECUTION_ERROR needs a tool name as text
--- a tool name that is a String object
return await callTool(Object('users:list'), {});
//~ EXECUTION_ERROR needs a tool name as text
--- a tool name that is an array
return await callTool(['users:list'], {});
//~ EXECUTION_ERROR needs a tool name as text
--- a name that changes between check and use
let asked = 0;
const name = { toString: () => (asked++ ? 'secret:read' : 'echo') };
return await callTool(name, {}).catch((e) => [e.name, asked]);
//= ["TypeError", 0]
--- a getter on the options is read once
let asked = 0;
const options = { get throwOnError() { asked += 1; return asked > 1; } };
const first = await callTool('fail', {}, options);
return [first.success, asked];
//= [false, 1]
--- a getter in the input calls another tool
const seen = [];
const input = { a: 1, get b() { seen.push('called'); callTool('echo', { nested: true }); return 2; } };
return [await callTool('echo', input), seen];
//= [{"a": 1, "b": 2}, ["called"]]
--- a getter in the input throws
return await callTool('echo', { get a() { throw new Error('from the getter'); } });
//~ EXECUTION_ERROR from the getter
--- a getter in the input changes what is read next
const input = { get a() { delete this.b; this.c = 'late'; return 1; }, b: 2 };
return await callTool('echo', input);
//= {"a": 1}
--- toJSON in the input gives data, checked like any
const c = ['con', 'structor'].join('');
return await callTool('echo', { toJSON: () => ({ mine: 1, [c]: 2 }), a: 1 });
//~ EXECUTION_ERROR constructor is a name of prototypes
--- toJSON on an array in the input
return await callTool('echo', { list: Object.assign([1, 2], { toJSON: () => 'mine' }) });
//= {"list": "mine"}
--- toJSON of an input that gives no object
const seen = [];
for (const made of [[1], 'text', null, 5n, undefined, () => 1]) {
  await callTool('echo', { toJSON: () => made }).catch((e) => seen.push(e.message.replace(/.*(got|hold:) /, '')));
}
return seen;
//= ["[1] from toJSON", "\"text\" from toJSON", "null from toJSON", "5 from toJSON", "it is without a value: its toJSON gives none", "it is without a value: its toJSON gives none"]
--- toJSON, its own or inherited, is called once, on its object, with the key as text
const seen = [];
class Own { #id; constructor(id) { this.#id = id; } toJSON(...given) { seen.push(given); return { id: this.#id, inner: this }; } }
const own = { id: 3, toJSON(...given) { seen.push(given); return { ...this }; } };
const input = await callTool('echo', { list: [new Own(1)], map: new Map([[2, own]]) }).catch((e) => e.message);
return [input, await callTool('echo', own), seen];
//= ["The input refers to itself", {"id": 3}, [["0"], [""]]]
--- toJSON that gives its own object
class Same { a = 1; toJSON() { return this; } }
return [new Same(), { b: 2, toJSON() { return this; } }, await callTool('echo', new Same())];
//= [{"a": 1}, {"b": 2}, {"a": 1}]
--- toJSON that gives what has one of its own
class Inner { a = 1; toJSON() { return 'converted'; } }
return [{ toJSON: () => new Inner() }, { toJSON: () => [new Inner()] }];
//= [{"a": 1}, ["converted"]]
--- toJSON that throws
const seen = [];
const thrower = { toJSON() { throw new RangeError('mine'); } };
await callTool('echo', { thrower }).catch((e) => seen.push(e.name, e.message));
console.log(thrower);
return [seen, thrower];
//~ EXECUTION_ERROR mine
--- toJSON that is a getter, and one that throws
const seen = [];
const got = { get toJSON() { seen.push('read'); return () => 'got'; } };
await callTool('echo', { get toJSON() { throw new Error('inner'); } }).catch((e) => seen.push(e.message));
return [await callTool('echo', { got }), seen];
//= [{"got": "got"}, ["inner", "read"]]
--- toJSON that is a getter which changes its mind
let asked = 0;
const o = { get toJSON() { return asked++ ? () => 'late' : undefined; } };
return await callTool('echo', { o });
//~ EXECUTION_ERROR o.toJSON is a function
--- toJSON that is async
let asked = 0;
const o = { async toJSON() { asked += 1; return { made: await callTool('echo', { asked }) }; } };
const refused = await callTool('echo', { o }).catch((e) => e.message);
asked = 0;
return [refused, o, { o }];
//= ["The input of callTool('echo', …) contains a promise; await it first", {"made": {"asked": 2}}, {"o": {"made": {"asked": 2}}}]
--- toJSON beside a promise of the result, and behind one
class Value { #v; n = 1; constructor(v) { this.#v = v; } toJSON() { return { value: this.#v }; } }
const own = { a: 1, toJSON() { return { ...this, b: 2 }; } };
return [new Value(1), callTool('echo', { a: 1 }), Promise.resolve(new Value(2)), Promise.resolve([{ own }]), own];
//= [{"value": 1}, {"a": 1}, {"value": 2}, [{"own": {"a": 1, "b": 2}}], {"a": 1, "b": 2}]
--- a value converted for the console, changed and returned behind a promise
class Sum { #n = 0; add(n) { this.#n += n; } toJSON() { return this.#n; } }
const sum = new Sum();
console.log(sum);
await callTool('echo', { sum });
sum.add(5);
return Promise.resolve([Promise.resolve(sum)]);
//= [5]
--- toJSON that calls a tool
const seen = [];
const o = { toJSON() { seen.push('called'); callTool('echo', { nested: true }); return 2; } };
return [await callTool('echo', { o }), seen];
//= [{"o": 2}, ["called"]]
--- toJSON that calls a tool with its own object
const o = { toJSON: () => callTool('echo', { o }) };
return await callTool('echo', { o });
//~ EXECUTION_ERROR contains a promise
--- toJSON that changes the list and the object that are read
const list = [1, { toJSON() { list.length = 0; return 2; } }, 3];
const object = { a: { toJSON() { delete object.b; object.c = 'late'; return 1; } }, b: 2 };
const map = new Map([['a', { toJSON() { map.clear(); return 1; } }], ['b', 2]]);
const endless = [{ toJSON() { endless.push(endless[0]); return 1; } }];
return [list, object, map, endless];
//= [[1, 2, null], {"a": 1}, {"a": 1, "b": 2}, [1]]
--- toJSON that nests without end
const make = () => ({ toJSON: () => ({ next: make() }) });
return await callTool('echo', make());
//~ EXECUTION_ERROR nested deeper than
--- toJSON that branches without end
const make = () => ({ toJSON: () => [make(), make()] });
return await callTool('echo', { a: make() });
//~ EXECUTION_ERROR nested deeper than
--- toJSON that never ends, and lets no one know
return [{ toJSON() { try { for (let i = 0; ; i++); } catch { return 1; } } }];
//~ ITERATION_LIMIT
--- toJSON that gives what JSON has no form for
return [{ toJSON: () => () => 1 }, { toJSON: () => NaN }, { toJSON() {} }, { a: { toJSON() {} } }, { toJSON: 5 }];
//= [null, null, null, {}, {"toJSON": 5}]
--- toJSON that is a function of the runtime
const given = await callTool('echo', { echo: { toJSON: getTool }, b: { toJSON: getTool } });
return [given.echo.name, Object.keys(given)];
//= ["echo", ["echo"]]
--- toJSON that calls a tool under the key's name
return [{ echo: { toJSON: callTool } }];
//= [{"echo": {}}]
--- toJSON that gives a namespace of tools
return await callTool('echo', { a: { toJSON: () => tools } });
//~ EXECUTION_ERROR which is a namespace of tools and no data
--- toJSON that belongs to a date, given to another object
const { toJSON } = new Date(0);
return await callTool('echo', { toJSON });
//~ EXECUTION_ERROR toJSON is a function
--- toJSON of an error, a map and an array
class Failure extends Error { toJSON() { return { failed: this.message }; } }
const map = Object.assign(new Map([['a', 1]]), { toJSON() { return [...this]; } });
return [new Failure('x'), map, Object.assign([1], { toJSON: () => 'list' })];
//= [{"failed": "x"}, [["a", 1]], "list"]
--- toJSON of an error that is thrown
class Failure extends Error { toJSON() { return { failed: 'x' }; } }
throw new Failure('as it is');
//~ EXECUTION_ERROR as it is
--- toJSON in the console
class Value { #v = 1; toJSON() { return { value: this.#v }; } }
console.log(new Value(), { toJSON() {} });
return 'logged';
//= "logged"
--- toJSON of a promise is never asked for
return [{ toJSON: () => callTool('echo', { a: 1 }) }, callTool('echo', { a: 2 })];
//= [{"a": 1}, {"a": 2}]
--- toJSON of a date in the result
const date = new Date(0);
date.toISOString = () => 'evil';
return [date];
//~ EXECUTION_ERROR read-only
--- a date that is none
return [Object.create(new Date(0))];
//= [{}]
--- a map that is none
return [Object.create(new Map([[1, 2]]))];
//= [{}]
--- an error that is none
const fake = Object.create(new Error('inner'), { message: { value: 'outer', enumerable: true } });
return [fake];
//= [{"name": "Error", "message": "outer"}]
--- an error whose name and message are objects
const e = new Error('x');
e.name = { toString: () => 'evil' };
e.message = ['list'];
return e;
//= {"name": "{}", "message": "[\"list\"]"}
--- thrown, its name and message are read the same way
const e = new Error('x');
e.message = { toString() { throw new Error('inner'); } };
throw e;
//~ EXECUTION_ERROR {}
--- an error whose message is a getter that throws
class E extends Error { get message() { throw new Error('inner'); } }
throw new E();
//~ EXECUTION_ERROR
--- an error whose message calls a tool
class E extends Error { get message() { callTool('echo', {}); return 'called'; } }
throw new E();
//~ EXECUTION_ERROR called
--- an error whose message makes errors without end
class E extends Error { get message() { return new E(); } }
return new E();
//~ STACK_OVERFLOW
--- an error whose message branches without end
class E extends Error { get message() { return [new E(), new E()]; } }
throw new E();
//~ STACK_OVERFLOW
--- a getter in the result that never ends
return { get a() { for (let i = 0; ; i++); } };
//~ ITERATION_LIMIT
--- a getter in the result that nests without end
class A { get next() { return new A(); } }
return Object.create(null, { a: { enumerable: true, get: () => new A() } });
//= {"a": {}}
--- own getters that nest without end
const make = () => ({ get next() { return make(); } });
const depth = (value) => (value && value.next ? 'deeper' : 'end');
return depth(make());
//= "deeper"
--- a length that is no length
return Object.assign(Object.create(null), { length: 1e9, 0: 'a' });
//= {"0": "a", "length": 1000000000}
--- an array with holes and properties
const list = [1, , 3];
list.extra = 'x';
list[-1] = 'y';
return list;
//= [1, null, 3]
--- an array with a far end
const list = [];
list[9999] = 1;
return list.length;
//= 10000
--- a hole is not filled from anywhere
const [a = 'default'] = [,];
return [a, 0 in [,], [, 1].map((x) => x).length];
//= ["default", false, 2]
--- a cycle through a getter
const o = { get self() { return o; } };
return o;
//= {"self": "[Circular]"}
--- a key that is a symbol stays inside
return { [Symbol('a')]: 1, [Symbol.iterator]: 2, b: 3 };
//= {"b": 3}
--- keys that lead elsewhere are dropped
const p = ['__pro', 'to__'].join('');
const c = ['con', 'structor'].join('');
return { [p]: 1, [c]: 2, a: 3 };
//= {"a": 3}
--- valueOf in arithmetic
let asked = 0;
const n = { valueOf() { asked += 1; return asked; } };
return [n + n, n * n, `${+n}`, asked];
//= [3, 12, "5", 5]
--- valueOf that answers an object, then toString
return String({ toString: () => ({}), valueOf: () => 'value' });
//= "value"
--- neither answers a value
return String({ toString: () => ({}), valueOf: () => ({}) });
//~ EXECUTION_ERROR
--- a key computed by an object whose answer is a never-name
const key = { toString: () => ['__pro', 'to__'].join('') };
const o = {};
o[key] = { evil: 1 };
return o.evil ?? 'nothing';
//= "nothing"
--- a console line made of hostile parts
console.log({ toString() { throw new Error('x'); } }, Object.create(null), Symbol('s'), () => 1, 10n, [,], new Error('e'));
return 'logged';
//= "logged"
--- a console part whose getter throws
console.log({ get a() { throw new Error('inner'); } });
return 'logged';
//= "logged"
--- getTool with an object that has a name
return getTool({ toString: () => 'echo' }) ?? 'nothing';
//= "nothing"
--- getTool in another tenant's words
return [getTool('secret:read') ?? null, getTool(' echo') ?? null, getTool('toString') ?? null, getTool('__proto' + '__') ?? null];
//= [null, null, null, null]
--- what getTool gave is a copy
const first = getTool('echo');
first.name = 'secret:read';
first.inputSchema.evil = 1;
return [getTool('echo').name, getTool('echo').inputSchema.evil ?? null];
//= ["echo", null]
--- a tool's value is a copy
const first = await callTool('users:list', {});
first.users.length = 0;
return (await callTool('users:list', {})).users.length;
//= 3
--- input with a cycle
const a = {};
a.a = a;
return await callTool('echo', a);
//~ EXECUTION_ERROR refers to itself
--- input with a promise inside
return await callTool('echo', { a: callTool('echo', {}) });
//~ EXECUTION_ERROR contains a promise
--- input that is a function with properties
return await callTool('echo', Object.assign(() => 1, { a: 1 }));
//~ EXECUTION_ERROR needs an object as input
--- numbers that JSON has not
const said = await callTool('echo', { a: NaN, b: [{ c: -Infinity }] }).catch((e) => e.message);
return [said, await callTool('echo', { c: -0, d: undefined })];
//= ["The input of callTool('echo', …) has what JSON cannot hold: a is NaN, b[0].c is -Infinity", {"c": 0}]
--- half a character
return await callTool('echo', { ['\ud800']: '\udc00' });
//= {"�": "�"}
--- half a character in the result and in an error
throw new Error(['\ud800', { a: '\udfff' }.a].join('-'));
//~ EXECUTION_ERROR �-�
--- input that is an object to JavaScript and none to JSON
const seen = [];
for (const input of [new Date(0), /a/, new Set([1]), new Date(NaN)]) {
  await callTool('echo', input).catch((e) => seen.push(e.message.replace(/.*input, /, '')));
}
return seen;
//= ["got a Date", "got a RegExp", "got a Set", "got a Date"]
--- input that is a promise
return await callTool('echo', callTool('echo', {}));
//~ EXECUTION_ERROR await it first
--- input that is a boxed text
return await callTool('echo', Object('ab'));
//~ EXECUTION_ERROR needs an object as input, got a
--- input that is a map, an error, a class instance
class Point { x = 1; #y = 2; get z() { return 3; } }
const map = await callTool('echo', new Map([['a', 1]]));
const error = await callTool('echo', new Error('e'));
return [map, error, await callTool('echo', new Point())];
//= [{"a": 1}, {"name": "Error", "message": "e"}, {"x": 1}]
