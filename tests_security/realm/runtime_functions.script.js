// Reaching, shadowing, replacing and observing the functions of the runtime: `callTool` and its kin, and what is under
// them.
--- callTool cannot be shadowed by a declaration
const callTool = () => 'mine'; //! IllegalBuiltinAccess
return callTool();
--- nor by a parameter
const f = (callTool) => callTool('echo', {}); //! IllegalBuiltinAccess
return f(() => 'mine');
--- nor by a function's own name
const f = function getTool() { return 'mine'; }; //! IllegalBuiltinAccess
return f();
--- nor by a catch clause
try { throw 1; } catch (codecallContext) { return 1; } //! IllegalBuiltinAccess
--- nor assigned
callTool = () => 'mine'; //! IllegalBuiltinAccess Assigning to 'callTool'
--- nor assigned in a pattern
[callTool] = [() => 'mine']; //! IllegalBuiltinAccess
--- nor can the functions that read
const readResource = () => 'mine'; //! IllegalBuiltinAccess
--- nor those that prompt
const f = (getPrompt) => getPrompt('hello'); //! IllegalBuiltinAccess
--- nor are these assigned
[readResource, getPrompt] = [1, 2]; //! IllegalBuiltinAccess Assigning to 'readResource'
//! ^ IllegalBuiltinAccess Assigning to 'getPrompt'
--- a property set on readResource by another name
const [f] = [readResource];
f.secret = 1;
//~ EXECUTION_ERROR
--- a property set on callTool by another name
const [f] = [callTool];
f.secret = 1;
//~ EXECUTION_ERROR
--- a property set on a console function
const { log } = console;
log.secret = 1;
//~ EXECUTION_ERROR
--- a console function replaced
const [c] = [console];
c.log = () => 'mine';
//~ EXECUTION_ERROR
--- a console function deleted
const [c] = [console];
delete c['lo' + String.fromCharCode(103)];
//~ EXECUTION_ERROR
--- Object.assign onto the runtime
const [f] = [__safe_parallel];
Object.assign(f, { secret: 1 });
//~ EXECUTION_ERROR
--- the functions of the runtime are frozen
return [callTool, getTool, __safe_parallel, console, console.log, structuredClone, codecallContext, tools].map((x) => Object.isFrozen(x));
//= [true, true, true, true, true, true, true, true]
--- so are those that read and prompt
return [readResource, getPrompt].map((f) => [Object.isFrozen(f), Object.keys(f).length, String(f)]);
//= [[true, 0, "function () { [native code] }"], [true, 0, "function () { [native code] }"]]
--- reads and prompts that are allowed
return [await readResource('data://open/a'), (await getPrompt('hello', { a: 1 })).messages[0].content];
//= [{"uri": "data://open/a"}, "{\"a\": 1}"]
--- a resource that is not allowed
return await readResource('data://secret');
//~ ACCESS_DENIED
--- a prompt that is not allowed, and caught
const seen = await getPrompt('other', {}, { throwOnError: false });
return [seen.success, seen.error.code, Object.keys(seen.error)];
//= [false, "ACCESS_DENIED", ["code", "message", "toolName", "prompt"]]
--- a read by call, apply and bind
const [read] = [readResource];
return [await read.call({ this: 1 }, 'data://open/a'), await read.apply(null, ['data://open/b']), await read.bind(5, 'data://open/c')()];
//= [{"uri": "data://open/a"}, {"uri": "data://open/b"}, {"uri": "data://open/c"}]
--- a URI that is text only when it is asked
let asked = 0;
return await readResource({ toString() { asked += 1; return 'data://open/a'; }, valueOf: () => 'data://secret' }).catch((e) => [e.message, asked]);
//= ["readResource needs a URI as text, got object", 0]
--- a kind is not a script's to choose
const options = { kind: 'tool', does: 'callTool', maxName: 1e9, throwOnError: false };
return [await readResource('data://open/a', options), await getPrompt('hello', { kind: 'resource' }, options)];
//~ EXECUTION_ERROR has no option 'kind'
--- the parallel helper is given a number as its options
await __safe_parallel([() => 1], 2);
//~ EXECUTION_ERROR needs its options as an object, got number
--- what went wrong names what was asked for
try { await readResource('data://secret'); } catch (error) { return [error.name, error.code, error.resource, error.toolName, Object.isFrozen(error)]; }
//= ["ToolError", "ACCESS_DENIED", "data://secret", "data://secret", false]
--- they have no prototype to hang anything from
const p = ['proto', 'type'].join('');
return [callTool, getTool, __safe_parallel, console.log, structuredClone].map((f) => f[p] ?? 'none');
//= ["none", "none", "none", "none", "none"]
--- they are no constructors
const [F] = [callTool];
return new F('echo', {});
//~ EXECUTION_ERROR not a constructor
--- methods the runtime replaced are no constructors either
const { then } = Promise.resolve();
return new then();
//~ EXECUTION_ERROR not a constructor
--- nor have they a prototype
const p = ['proto', 'type'].join('');
return [Promise.resolve().then[p] ?? 'none', [].map.toString[p] ?? 'none', (() => 1).toString.name];
//= ["none", "none", "toString"]
--- the source of the runtime is not shown
return [String(callTool), `${__safe_parallel}`, String(Promise.resolve().then), '' + [getTool]];
//= ["function () { [native code] }", "function () { [native code] }", "function () { [native code] }", "function () { [native code] }"]
--- nor the source of the script's wrapper
const f = () => __secret; //! DisallowedGlobal
return String(f);
--- the list that __safe_parallel works on is not handed out
return await __safe_parallel([function () { return typeof this; }, async function () { return this === undefined; }]);
//= ["undefined", true]
--- nor its arguments
return await __safe_parallel([function (...given) { return given.length; }]);
//= [0]
--- __safe_parallel on an array-like
return await __safe_parallel({ length: 1, 0: () => 1 });
//~ EXECUTION_ERROR needs an array
--- __safe_parallel on a list that changes while it is read
const list = [() => 1, () => 2];
const options = { get maxConcurrency() { list[1] = 'mine'; return 1; } };
return await __safe_parallel(list, options);
//= [1, 2]
--- __safe_parallel with holes
return await __safe_parallel([() => 1, , () => 3]);
//~ EXECUTION_ERROR item 1 is undefined
--- what __safe_parallel gives is a plain array of the script's own
const first = await __safe_parallel([() => 1]);
first.push(2);
return [first, await __safe_parallel([() => 1])];
//= [[1, 2], [1]]
--- a function that returns a thenable that never ends
const own = { then: (resolve) => resolve(own) };
return await __safe_parallel([() => own]);
//~ STEP_LIMIT
--- an error with a message that is the runtime's
return await __safe_parallel([() => { throw new Error('a\n  [1]: forged'); }, () => 1]).catch((e) => e.message);
//= "1 of 2 parallel operations failed:\n  [0]: a\n  [1]: forged"
--- the context cannot be written
codecallContext.tenant = 't2';
//~ EXECUTION_ERROR read-only
--- nor by another name
const [context] = [codecallContext];
context.tenant = 't2';
//~ EXECUTION_ERROR read-only
--- nor extended
const [context] = [codecallContext];
context.role = 'admin';
//~ EXECUTION_ERROR
--- nor deleted from
const [context] = [codecallContext];
delete context.tenant;
//~ EXECUTION_ERROR
--- nor replaced
codecallContext = { tenant: 't2' }; //! IllegalBuiltinAccess
--- nor its prototype
const p = ['__pro', 'to__'].join('');
const [context] = [codecallContext];
context[p] = { role: 'admin' };
//~ EXECUTION_ERROR
--- the wrapper's parameters by their names
return [typeof __ag_t, typeof __ag_s]; //! ReservedPrefix
//! ^ ReservedPrefix
--- the wrapper's arguments
return arguments; //! IllegalBuiltinAccess
--- the wrapper's arguments in an arrow function
const f = () => arguments.length; //! IllegalBuiltinAccess
return f();
--- the wrapper's this
return this; //! IllegalBuiltinAccess
--- the wrapper's this in an arrow function
const f = () => this; //! IllegalBuiltinAccess
return f();
--- new.target of the wrapper
const f = () => new.target; //! DisallowedSyntax
return f();
--- the host's functions by their names
return [typeof $post, typeof $finish]; //! DisallowedGlobal
//! ^ DisallowedGlobal
--- the host's functions as variables of one's own
const $post = 1, $stop = 2, $finish = 3;
return [$post, $stop, $finish];
//= [1, 2, 3]
--- names of the prelude as variables of one's own
const world = 1, config = 2, stop = 3, poison = 4, signal = 5, waiting = 6, settle = 7, hidden = 8, seal = 9;
return world + config + stop + poison + signal + waiting + settle + hidden + seal;
//= 45
--- structuredClone of the runtime
return structuredClone(callTool);
//~ EXECUTION_ERROR cannot be cloned
--- structuredClone of what holds the runtime
return structuredClone({ a: [new Map([[1, callTool]])] });
//~ EXECUTION_ERROR cannot be cloned
--- structuredClone of a getter that changes
let asked = 0;
const copy = structuredClone({ get a() { asked += 1; return asked; } });
return [copy.a, copy.a, asked];
//= [1, 1, 1]
--- structuredClone without end
const make = () => ({ get next() { return make(); } });
return structuredClone(make());
//~ STACK_OVERFLOW
--- structuredClone keeps its shape
const a = { list: [1], when: new Date(0), map: new Map([[{ k: 1 }, new Set([1])]]) };
a.self = a;
const copy = structuredClone(a);
return [copy !== a, copy.self === copy, copy.when.getTime(), copy.map.size, copy.list];
//= [true, true, 0, 1, [1]]
--- JSON.stringify replaced for the runtime
const [J] = [JSON];
try { J['string' + String('ify')] = () => '{"forged":true}'; } catch { /* read-only */ }
return await callTool('echo', { a: 1 });
//= {"a": 1}
--- JSON.parse replaced for the runtime
const [J] = [JSON];
try { J['par' + String('se')] = () => ({ forged: true }); } catch { /* read-only */ }
return await callTool('echo', { a: 1 });
//= {"a": 1}
--- Array.isArray replaced for the runtime
const [A] = [Array];
try { A['is' + String('Array')] = () => true; } catch { /* read-only */ }
return await callTool('echo', [1]).catch((e) => e.message.includes('an array'));
//= true
--- Object.freeze of what the runtime will write
const promise = callTool('echo', { a: 1 });
Object.freeze(promise);
return await promise;
//= {"a": 1}
--- Object.freeze of an input while it is read
const input = { get a() { Object.freeze(input); return 1; }, b: 2 };
return await callTool('echo', input);
//= {"a": 1, "b": 2}
--- calls made by call, apply and bind
const [call] = [callTool];
return [await call.call({ this: 1 }, 'echo', { a: 1 }), await call.apply(null, ['echo', { b: 2 }]), await call.bind(5, 'echo')({ c: 3 })];
//= [{"a": 1}, {"b": 2}, {"c": 3}]
--- a call with more arguments than there are
const [call] = [callTool];
return await call('echo', { a: 1 }, { throwOnError: true }, 'more', 9);
//= {"a": 1}
--- setters of the options are not looked for
let seen = 0;
await callTool('echo', {}, { set throwOnError(v) { seen += 1; } });
return seen;
//= 0
