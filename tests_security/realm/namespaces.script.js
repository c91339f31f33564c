// What stands for tools: `tools`, and namespaces such as `users`. They are objects that run code when they are read, and
// must lead nowhere but to a call that the broker looks at.
--- a tool by its namespace, and by the table of all
return [(await users.list({})).users.length, (await tools['users:list']({})).users.length];
//= [3, 3]
--- the forbidden tool, in every spelling
const codes = [];
const r = 'read';
for (const call of [tools['secret:read'], secret.read, secret[r], tools['sec' + 'ret'].read, tools['secret:' + r]])
  codes.push((await call({}, { throwOnError: false })).error.code);
return codes;
//= ["ACCESS_DENIED", "ACCESS_DENIED", "ACCESS_DENIED", "ACCESS_DENIED", "ACCESS_DENIED"]
--- a message about a missing tool names no forbidden one
try { await secret.rea({}); } catch (error) { return error.message; }
//= "secret has no tool 'rea'"
--- nor do the keys of a namespace
secret.read; users.list; return [Object.keys(secret), Object.entries(users).length, JSON.stringify({ ...secret })];
//= [[], 1, "{}"]
--- nothing of a namespace can be written, by another name
const [u, t] = [users.list && users, tools];
const attempts = [
  () => { u.list = 1; }, () => { u.more = 1; }, () => { delete u.list; }, () => { t.more = 1; },
  () => { t['users:list'] = 1; }, () => { Object.assign(u, { more: 1 }); }, () => { u.list.more = 1; },
  () => { u.list.call = 1; }, () => { Object.create(u).list = 1; }, () => { [u.more] = [1]; },
];
return [...new Set(attempts.map((attempt) => { try { attempt(); return 'done'; } catch (error) { return error.name; } }))];
//= ["TypeError"]
--- all is frozen
const all = [tools, users, users.list, tools['x'], tools.users, secret.read];
return [all.every((x) => Object.isFrozen(x)), all.some((x) => Object.isExtensible(x))];
//= [true, false]
--- what is read of every object is no tool, and no way out
const names = ['__proto__', 'constructor', 'prototype', 'then', 'toString', 'valueOf', '__defineGetter__',
  '__lookupGetter__', 'hasOwnProperty', 'isPrototypeOf', 'propertyIsEnumerable', 'toLocaleString'];
users.list;
return names.filter((n) => n !== 'prototype' && (tools[n] !== undefined || users[n] !== undefined || n in tools || n in users));
//= []
--- nor `toJSON`, but for that of `tools`, which gives names and nothing else
users.list;
const { toJSON } = tools;
return [users.toJSON ?? null, 'toJSON' in users, toJSON.call({ call: 1 }, tools), Object.isFrozen(toJSON)];
//= [null, false, ["echo", "users:list", "fail", "big", "hostile"], true]
--- symbols neither
users.list;
return [Symbol.iterator, Symbol.asyncIterator, Symbol('x')].map((s) => [typeof tools[s], typeof users[s], s in users]);
//= [["undefined", "undefined", false], ["undefined", "undefined", false], ["undefined", "undefined", false]]
--- a tool's function leads to no constructor
const key = ['const', 'ructor'].join('');
return [users.list[key] ?? null, users.list[['proto', 'type'].join('')] ?? null, tools[key] ?? null, users[key] ?? null];
//= [null, null, null, null]
--- a tool's function is no constructor, and shows no source
try { new users.list(); } catch (error) { return [error.name, String(users.list), users.list.name]; }
//= ["TypeError", "function () { [native code] }", ""]
--- waiting for a namespace calls nothing
users.list;
const waited = [await users, await tools, await Promise.resolve(tools), (await Promise.all([users]))[0]];
return [waited[0] === users, waited[1] === tools, waited[2] === tools, waited[3] === users];
//= [true, true, true, true]
--- turned into text, numbers and JSON, they call nothing
users.list;
const tries = [() => `${users}`, () => users + 1, () => users == 'x', () => +tools, () => [tools].join(), () => String(tools)];
return [tries.map((f) => { try { return f(); } catch (error) { return error.name; } }), JSON.stringify([users, tools])];
//= [["TypeError", "TypeError", "TypeError", "TypeError", "TypeError", "TypeError"], "[{},[\"echo\",\"users:list\",\"fail\",\"big\",\"hostile\"]]"]
--- built-ins that ask objects for functions get none that matters
users.list;
const spread = [].concat(users).length;
const { length } = Array.from(tools);
let iterated = 'no';
try { for (const x of users) iterated = 'yes'; } catch (error) { iterated = error.name; }
return [spread, length, iterated, new Map([[users, 1]]).get(users), structuredClone([1]).length];
//= [1, 0, "TypeError", 1, 1]
--- a namespace cannot be cloned
users.list; return structuredClone(users);
//~ EXECUTION_ERROR
--- a namespace thrown
users.list; throw users;
//~ EXECUTION_ERROR
--- a namespace as an error's message and name
users.list;
const error = new Error('x'); error.message = users; error.name = tools;
throw error;
//~ EXECUTION_ERROR
--- what is written to an object that inherits from a namespace is the object's own
const o = Object.create(users.list && users); o.more = 1; return [o.more, typeof users.more, 'more' in users];
//= [1, "function", false]
--- a namespace as a prototype finds tools and nothing else
const o = Object.create(users.list && users); const p = Object.create(tools);
return [typeof o.list, typeof o.then, typeof p.then, Object.keys(o), o instanceof Object];
//= ["function", "undefined", "undefined", [], false]
--- a namespace as input, context of a map, and key
users.list;
try { await callTool('echo', { users }); } catch (error) { return [error.name, { [typeof tools]: 1 }]; }
//= ["TypeError", {"object": 1}]
--- a namespace in the result is a text, and `tools` are their names
users.list; return { users, tools, list: [users.list] };
//= {"users": "[namespace users]", "tools": ["echo", "users:list", "fail", "big", "hostile"], "list": [null]}
--- methods of other kinds called on a namespace
users.list;
const methods = [[].push, [].map, ''.trim, new Map().get, new Date(0).getTime, Promise.resolve().then, (() => 1).call];
return [...new Set(methods.map((m) => { try { return typeof m.call(users, 1); } catch (error) { return error.name; } }))];
//= ["TypeError"]
--- what a tool's function gets as this and arguments
const { list } = users;
return [await list.call({ polluted: 1 }, {}), await list.apply(null, [{}]), await list.bind(tools)({})].map((a) => a.users.length);
//= [3, 3, 3]
--- a tool's function refuses what callTool refuses
const refused = [];
for (const input of ['text', 1, [1], () => 1, Symbol('x')]) {
  try { await users.list(input); refused.push('called'); } catch (error) { refused.push(error.name); }
}
return refused;
//= ["TypeError", "TypeError", "TypeError", "TypeError", "TypeError"]
--- calls through namespaces count
const none = []; for (let i = 0; i < 101; i++) none.push(users.list({}).catch(() => 1)); return (await Promise.all(none)).length;
//~ TOOL_CALL_LIMIT
--- calls of tools that are not there count
for (let i = 0; i < 200; i++) { try { await users['x' + i]({}); } catch {} } return 1;
//~ TOOL_CALL_LIMIT
--- more names than may be asked for
let n = 0; for (let i = 0; i < 4000; i++) { if (('x' + i) in tools) n++; } for (let i = 0; i < 4000; i++) { if (('y' + i) in tools) n++; } for (let i = 0; i < 4000; i++) { if (('z' + i) in tools) n++; } return n;
//~ MESSAGE_FLOOD
--- a meta-tool, put together
const n = ['codecall', 'search'].join(':'); return await tools[n]({});
//~ SELF_REFERENCE_BLOCKED Cannot call CodeCall tools from within AgentScript: codecall:search
--- a meta-tool looked for
const n = ['CODECALL', 'search'].join('_'); try { return n in tools; } catch { return 'caught'; }
//~ SELF_REFERENCE_BLOCKED Cannot call CodeCall tools from within AgentScript: CODECALL_search
--- a meta-tool taken out of the table
const { [['codecall', 'invoke'].join('_')]: f } = tools; return f;
//~ SELF_REFERENCE_BLOCKED
--- a namespace of meta-tools, put together
const space = tools[['code', 'call'].join('')]; return await space.execute({ script: '1' });
//~ SELF_REFERENCE_BLOCKED Cannot call CodeCall tools from within AgentScript: codecall:execute
--- with blanks and in upper case
const space = tools[[' CODE', 'CALL '].join('')]; return await space['execute']({ script: '1' });
//~ SELF_REFERENCE_BLOCKED
--- a namespace of meta-tools, by a namespace
users.list; return (await users[['codecall', 'execute'].join(':')]({}, { throwOnError: false })).error.code;
//= "TOOL_NOT_FOUND"
--- a name with a part that is none
const found = [];
for (const name of ['', '.', ':', 'users:', ':list', 'users..list', 'users.list', 'users:list\u0000', '\ud800', 'users\u200b', '__ag_x'])
  found.push((await tools[name]({}, { throwOnError: false })).error.code);
return [...new Set(found)];
//= ["TOOL_NOT_FOUND"]
--- names longer than a name may be
users.list; return [await tools['x'.repeat(300)]({}).catch((e) => e.name), await users['y'.repeat(300)]({}).catch((e) => e.name)];
//= ["TypeError", "TypeError"]
--- tools under a name of one's own
const f = (tools) => tools.length; const tools = [1]; return [f([1, 2]), tools.length];
//= [2, 1]
--- a namespace cannot be assigned
users = { list: () => 1 }; return users.list(); //! IllegalBuiltinAccess Assigning to 'users'
--- nor in a pattern
[users.list, secret] = [1, 2]; secret.read; //! IllegalBuiltinAccess Assigning to 'secret'
--- names of the runtime are no namespaces
return __ag_x.list({}); //! ReservedPrefix
--- names that are refused are no namespaces
return process.list({}), require.list({}), globalThis.list({}), eval.list({}); //! IllegalBuiltinAccess Identifier 'process'
//! ^ IllegalBuiltinAccess Identifier 'require'
//! ^ IllegalBuiltinAccess Identifier 'globalThis'
//! ^ IllegalBuiltinAccess Identifier 'eval'
--- the next script has none of the last one's
return typeof users.list === 'function' && nobody.list; //! DisallowedGlobal Unknown name 'nobody'
