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
--- toJSON in the input is refused like any function
return await callTool('echo', { toJSON: () => ({ evil: 1 }), a: 1 });
//~ EXECUTION_ERROR toJSON is a function
--- toJSON on an array in the input
return await callTool('echo', { list: Object.assign([1, 2], { toJSON: () => 'evil' }) });
//= {"list": [1, 2]}
--- toJSON in the result
return { toJSON() { return 'evil'; }, a: 1 };
//= {"a": 1}
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
