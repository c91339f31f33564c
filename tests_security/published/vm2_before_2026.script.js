// vm2, the sandbox of Node.js that was given up in 2023: its published escapes up to then. Nearly all of them look for
// one object of the host's realm (an error, a promise, a stack frame) and climb from it to the host's `Function`.
// Here there is no host realm in the engine; each step on that way must be missing all the same.
--- CVE-2019-10761: a RangeError of the host by exhausting the stack
//@ hint: vm2 < 3.6.11; the error of an exhausted stack belonged to the host, its constructor led out
const dive = () => dive() + 1;
try { dive() } catch (error) { return typeof error[['constr', 'uctor'].join('')] }
//~ STACK_OVERFLOW
--- CVE-2019-10761: the stack runs out inside a built-in that calls back
//@ hint: vm2 < 3.6.11, variant: the built-in's own frame is the one that has no room
const dive = (n) => [n].map(dive)[0];
const errors = [];
try { dive(0) } catch (error) { errors.push(error.name) } finally { errors.push('still here') }
return errors;
//~ STACK_OVERFLOW
--- vm2 issue 177: a Proxy whose construct trap hands out a function
//@ hint: vm2 < 3.6.6, patriksimek/vm2 issue 177
const C = new Proxy(class A {}, { construct() { return () => (x) => x } }); //! IllegalBuiltinAccess Identifier 'Proxy' is not allowed
return new C();
--- vm2 issue 179: getPrototypeOf inside a method that the host calls
//@ hint: vm2 < 3.6.7, patriksimek/vm2 issue 179
const run = { a() { return Object.getPrototypeOf(this) } }; //! DisallowedMember Member 'Object.getPrototypeOf' is not allowed
return await callTool('echo', run);
--- vm2 issue 179: a method is no data, the host never gets to call it
//@ hint: vm2 < 3.6.7, patriksimek/vm2 issue 179; a function among a tool's input
return await callTool('echo', { a() { return 1 }, b: 2, toString() { return 'c' } });
//~ EXECUTION_ERROR a is a function, toString is a function
--- CVE-2021-23449: import() gives a promise of the host
//@ hint: vm2 < 3.9.4; dynamic import was not instrumented
const found = import('./x.js'); //! DisallowedSyntax Syntax 'import' is not allowed
return found;
--- CVE-2021-23449: polluting Object.prototype through a computed key
//@ hint: vm2 < 3.9.4, described as prototype pollution
const key = ['__pro', 'to__'].join('');
const target = {};
const before = target[key];
try { target[key].polluted = 'yes' } catch (error) { return [before === undefined, error.name, ({}).polluted === undefined] }
return ({}).polluted;
//= [true, "TypeError", true]
--- CVE-2021-23555: an Error subclass whose stack is formatted by the host
//@ hint: vm2 < 3.9.6; errors that Node made while it formatted a stack belonged to the host
const error = new Error('x');
error.name = { toString() { throw new Error('thrown while the stack is made') } };
const stack = error.stack;
return [typeof stack, /\/|codecall|python|node:/.test(stack)];
//= ["string", false]
--- CVE-2021-23555: a Symbol as the name of an error
//@ hint: vm2 < 3.9.6 and GHSA-v27g-jcqj-v8rw; a name that is no text made the host's formatter throw
const error = new Error('x');
error.name = Symbol('n');
try { return typeof error.stack } catch (inner) { return Object.keys(inner) }
//= "string"
--- CVE-2022-25893: WeakMap.prototype.set replaced
//@ hint: vm2 < 3.9.10; the bridge looked `set` up on a prototype that the script could change
WeakMap.prototype.set = function (key, value) { stolen.push([key, value]) }; //! DisallowedGlobal Identifier 'WeakMap' is not allowed
//! ^ DisallowedMember Member 'WeakMap.prototype' is not allowed
const stolen = []; return stolen;
--- CVE-2022-25893: Map.prototype.set replaced through a computed name
//@ hint: vm2 < 3.9.10, the same idea on a prototype that exists here
const stolen = [];
const proto = [Map][0][['proto', 'type'].join('')];
try { proto.set = (key, value) => { stolen.push(key) } } catch (error) { stolen.push(error.name) }
await callTool('echo', { a: 1 });
return stolen;
//= ["TypeError"]
--- CVE-2022-36067 SandBreak: Error.prepareStackTrace sees the host's frames
//@ hint: vm2 < 3.9.11
Error.prepareStackTrace = (error, frames) => frames[0].getThis(); //! IllegalBuiltinAccess Assigning to 'Error.prepareStackTrace' is not allowed
//! ^ DisallowedMember Member 'Error.prepareStackTrace' is not allowed
return new Error('x').stack;
--- CVE-2022-36067 SandBreak: a new global Error
//@ hint: vm2 < 3.9.11; the script's own Error, with a prepareStackTrace, was taken for the global one
globalThis.Error = { prepareStackTrace: (error, frames) => frames }; //! IllegalBuiltinAccess Identifier 'globalThis' is not allowed
return (() => { const a = a })(); //! DisallowedSyntax 'a' is used in the value it is given
--- CVE-2022-36067 SandBreak: prepareStackTrace by a computed name
//@ hint: vm2 < 3.9.11
const name = ['prepare', 'StackTrace'].join('');
Error[name] = (error, frames) => frames; //! IllegalBuiltinAccess Assigning to 'Error[…]' is not allowed
//! ^ DisallowedMember Member 'Error[…]' is not allowed
return new Error('x').stack;
--- CVE-2022-36067 SandBreak: prepareStackTrace on a class of the script
//@ hint: vm2 < 3.9.11; a subclass may have statics of any name, the engine must not ask it
class Mine extends Error { static prepareStackTrace(error, frames) { return frames } }
return [typeof new Mine('x').stack, typeof new Error('y').stack];
//= ["string", "string"]
--- CVE-2022-36067 SandBreak: Error behind an alias
//@ hint: vm2 < 3.9.11; the guard cannot see what `E` is, the realm must hold
const E = [Error][0];
try { E.prepareStackTrace = (error, frames) => frames } catch (error) { return error.name }
return typeof new Error('x').stack;
//= "TypeError"
--- CVE-2023-29017: an unhandled rejection in an async function reaches prepareStackTrace
//@ hint: vm2 < 3.9.15; frames of the host for errors in async code
const E = { Error }.Error;
const frames = [];
try { E.prepareStackTrace = (error, list) => { frames.push(list) } } catch (error) { frames.push(error.name) }
(async () => { throw new E('nobody waits for me') })();
await callTool('echo', {});
return frames;
//= ["TypeError"]
--- CVE-2023-29199: a name of the rewriter's own in a catch clause
//@ hint: vm2 < 3.9.16; the transformer renamed its temporaries by rules a script could foresee
try { throw new Error('host') } catch ({ __ag_e }) { return __ag_e } //! ReservedPrefix Identifier '__ag_e' is not allowed
--- CVE-2023-29199: the rewriter's callee is shadowed inside a pattern
//@ hint: vm2 < 3.9.16; here the counting calls are `__ag_` names
const { __ag_c = () => 'shadowed' } = {}; //! ReservedPrefix Identifier '__ag_c' is not allowed
try { throw new Error('x') } catch (error) { return __ag_c }
--- CVE-2023-29199: a catch pattern whose default runs before the limit is looked at
//@ hint: vm2 < 3.9.16; the thrown value was taken apart before it was cleaned
const seen = [];
const dive = () => dive() + 1;
try { dive() } catch ({ a = seen.push('ran'), [seen.push('key')]: b }) { return seen }
//~ STACK_OVERFLOW
--- CVE-2023-29199: the error is taken apart by a pattern with a getter's name
//@ hint: vm2 < 3.9.16
const dive = () => dive() + 1;
try { dive() } catch ({ message, stack = 'none', name: n }) { return [message, n] }
//~ STACK_OVERFLOW
--- CVE-2023-30547: a Proxy's getPrototypeOf trap throws inside the cleaning of exceptions
//@ hint: vm2 < 3.9.17
const handler = { getPrototypeOf() { throw new Error('from the trap') } };
throw new Proxy({}, handler); //! IllegalBuiltinAccess Identifier 'Proxy' is not allowed
--- CVE-2023-30547: reading the thrown value runs a getter that throws
//@ hint: vm2 < 3.9.17, without Proxy: all that a runtime reads of a thrown value may be a trap
throw { get name() { throw new Error('name') }, get message() { throw new Error('message') }, get stack() { dive() } };
function dive() { return dive() + 1 }
//~ EXECUTION_ERROR
--- CVE-2023-30547: an error whose accessors throw, on its way out of a script
//@ hint: vm2 < 3.9.17
class Mine extends Error {
  get name() { throw this } get message() { throw this } get code() { throw this } get stack() { throw this }
}
throw new Mine();
//~ EXECUTION_ERROR
--- CVE-2023-32313: the inspect method of console.log is replaced
//@ hint: vm2 < 3.9.18; a script wrote over the method with which console showed its values
const value = { [Symbol.for('nodejs.util.inspect.custom')]: () => 'shown by the script' }; //! DisallowedMember Member 'Symbol.for' is not allowed
console.log(value);
return 1;
--- CVE-2023-32313: console is a thing one cannot change
//@ hint: vm2 < 3.9.18
const log = { console }.console;
try { log.log = () => 'mine' } catch (error) { return error.name }
//= "TypeError"
--- CVE-2023-32314: the spec of Proxy makes an object of the host
//@ hint: vm2 < 3.9.18; a trap for Object.entries and its kin
const error = new Proxy({}, { ownKeys() { return ['a'] }, getOwnPropertyDescriptor() { return dive() } }); //! IllegalBuiltinAccess Identifier 'Proxy' is not allowed
function dive() { return dive() }
return Object.entries(error);
--- CVE-2023-37466: Promise handlers by Symbol.species
//@ hint: vm2 <= 3.9.19; `then` makes its promise by the constructor it is told
const promise = (async () => { throw new Error('x') })();
promise.constructor = { //! DisallowedMember Member 'promise.constructor' is not allowed
  [Symbol.species]: class { constructor(executor) { executor(() => 1, (error) => error) } }, //! DisallowedMember Member 'Symbol.species' is not allowed
};
return promise.then();
--- CVE-2023-37466: Promise handlers by a computed species
//@ hint: vm2 <= 3.9.19; the realm alone
const promise = (async () => 1)();
const seen = [];
class Stolen { constructor(executor) { seen.push(typeof executor); executor(() => 1, () => 2) } }
try { promise[['constr', 'uctor'].join('')] = Stolen } catch (error) { seen.push(error.name) }
await promise.then(() => 3);
return seen;
//= ["TypeError"]
--- CVE-2023-37466: a limit cannot be taken from a rejected promise
//@ hint: vm2 <= 3.9.19; the handler got the host's error, here it must not get the limit's
const spin = async () => { for (;;) {} };
return await spin().then(() => 1, (error) => 'swallowed').catch(() => 'swallowed');
//~ ITERATION_LIMIT
--- CVE-2023-37903: the custom inspect function
//@ hint: vm2 <= 3.9.19; Node called `inspect.custom` with its own `inspect`
const custom = Symbol.for('nodejs.util.inspect.custom'); //! DisallowedMember Member 'Symbol.for' is not allowed
return { [custom]: (depth, options, inspect) => inspect };
--- CVE-2023-37903: what shows a value asks it for its JSON form and nothing else
//@ hint: vm2 <= 3.9.19; neither console nor the result may run a script's methods with something of the runtime's
const seen = [];
const trap = (name) => function (...args) { seen.push([name, args.length, typeof this]); return 'x' };
const value = {
  inspect: trap('inspect'), toString: trap('toString'), valueOf: trap('valueOf'), toJSON: trap('toJSON'),
  toLocaleString: trap('toLocaleString'), asymmetricMatch: trap('asymmetricMatch'),
};
console.log(value, [value], new Map([[value, value]]));
await callTool('echo', value).catch(() => 0);
return [seen, value];
//= [[["toJSON", 1, "object"], ["toJSON", 1, "object"], ["toJSON", 1, "object"], ["toJSON", 1, "object"]], "x"]
