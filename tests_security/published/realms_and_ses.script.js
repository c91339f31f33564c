// realms-shim, SES and its neighbours (near-membrane, ShadowRealm, Figma's plugins, Caja, ADsafe): sandboxes inside one
// realm. They are left through built-ins that call back, through names the shim meant to shadow, and through errors.
--- realms-shim issue 51: the spread of arguments asks Array.prototype for its iterator
//@ hint: realms-shim < 1.2.0, Agoric/realms-shim issue 51; found by XmiliaH, with Figma's plugins as the target
const A = [Array][0];
const seen = [];
try { A[['proto', 'type'].join('')][Symbol.iterator] = function () { seen.push('asked') } } catch (error) { seen.push(error.name) }
const results = await __safe_parallel([() => callTool('echo', { a: 1 })]);
return [seen, results];
//= [["TypeError"], [{"a": 1}]]
--- realms-shim issue 51: the iterator of one array
//@ hint: realms-shim < 1.2.0; an own iterator on what is handed to the runtime
const seen = [];
const list = [() => callTool('echo', { a: 1 })];
try { list[Symbol.iterator] = function* () { seen.push('asked'); yield () => 'planted' } } catch (error) { seen.push(error.name) }
const results = await __safe_parallel(list);
return [seen, results];
//= [["TypeError"], [{"a": 1}]]
--- realms-shim issue 70: a host's array handed to the script's callback
//@ hint: realms-shim < 1.2.1, GHSA-7cg8-pq9v-x98q; the object that `rewrite` got was the host's
const seen = [];
const value = { toJSON(...args) { seen.push(args) }, then: undefined };
await callTool('echo', { value }).catch(() => 0);
console.log(value);
structuredClone({ get a() { seen.push('getter'); return 1 } });
return seen;
//= [["value"], [""], "getter"]
--- realms-shim issue 73: a list with holes and a length of its own
//@ hint: realms-shim 1.2.1, Agoric/realms-shim issue 73; the shim trusted that a list was an array
const list = { length: 1, 0: () => 'planted', map: () => 'planted', __proto: null };
try { return await __safe_parallel(list) } catch (error) { return error.message }
//= "__safe_parallel needs an array of functions"
--- realms-shim issue 73: a list that grows while it is read
//@ hint: realms-shim 1.2.1; length read once and again
const list = [() => { for (let i = 0; i < 500; i++) list.push(() => 'more'); return 'first' }];
return (await __safe_parallel(list)).length;
//= 1
--- realms-shim: Symbol.unscopables opens the scope's proxy
//@ hint: realms-shim < 1.2.1, bug one of Agoric's report of 24 October 2019
const scope = { [Symbol.unscopables]: { eval: true } }; //! DisallowedMember Member 'Symbol.unscopables' is not allowed
return scope;
--- realms-shim: Reflect.construct with a constructor of another realm
//@ hint: tc39/proposal-shadowrealm issue 170
return Reflect.construct(Date, [], Promise); //! IllegalBuiltinAccess Identifier 'Reflect' is not allowed
--- realms-shim: parameters of Function close the wrapper
//@ hint: realms-shim; text given as a parameter ended the function it was put into
const f = new Function('a = (}, {', '}){ return 1'); //! IllegalBuiltinAccess Identifier 'Function' is not allowed
return f;
--- realms-shim: the text of a script closes its wrapper
//@ hint: realms-shim, safe-eval and others; here a script is wrapped in an async function
}); globalThis.escaped = 1; (async () => { //! SYNTAX_ERROR Unexpected token } at line 2
--- realms-shim: the text of a script closes its wrapper and the counter's
//@ hint: the same, with the brackets of this runtime's own wrapper
return 1 }]}); (function () { return [ () => 1, () => 1, () => 1, async () => { //! SYNTAX_ERROR Unexpected token } at line 2
--- near-membrane issue 48: the error of an exhausted stack belongs to the callee
//@ hint: salesforce/near-membrane issue 48
const depth = (n) => { try { return depth(n + 1) } catch (error) { return n } };
const limit = depth(0);
return limit;
//~ STACK_OVERFLOW
--- near-membrane issue 48: the runtime's own function is the one without room
//@ hint: salesforce/near-membrane issue 48; the built-in is called with almost no stack left
const exhaust = (f) => { try { exhaust(f) } finally { try { f() } catch (error) { seen.push(error.name) } } };
const seen = [];
exhaust(() => getTool('echo'));
return seen;
//~ STACK_OVERFLOW
--- CVE-2023-39532: SES and import hidden behind a spread
//@ hint: ses < 0.18.7, GHSA-9c4h-3f7h-322r; `...import(` was not seen as a dynamic import
return [...import('./x.js')]; //! DisallowedSyntax Syntax 'import' is not allowed
--- CVE-2023-39532: import with a comment or a line break before its bracket
//@ hint: ses < 0.18.7
return import/* not seen */ //! DisallowedSyntax Syntax 'import' is not allowed
('./x.js');
--- SES: an HTML-like comment hides what follows from the parser
//@ hint: SES rejectHtmlComments; the engine reads a comment where the parser sees operators
let x = 1;
return x<!--x; //! UnsafeSource Script has the HTML-like comment <!--
--- SES: an HTML-like comment at the start of a line
//@ hint: SES rejectHtmlComments
return 1
--> globalThis //! UnsafeSource Script has the HTML-like comment -->
--- SES: eval under another name
//@ hint: SES and Caja; an indirect eval sees the global scope
return (0, eval)('1'); //! IllegalBuiltinAccess Identifier 'eval' is not allowed
--- SES: a direct eval in a default parameter
//@ hint: SES; a scope of its own
const f = (a = eval('var b = 1')) => a; //! IllegalBuiltinAccess Identifier 'eval' is not allowed
return f();
--- SES: the override mistake, turned around
//@ hint: SES; frozen prototypes make assignment throw, a getter and setter pair must not let the prototype be changed
const o = {};
o.toString = () => 'mine';
const e = new Error('x');
e.message = 'changed';
e.name = 'Named';
return [String(o), String({}), String(e), new Error('y').name, new Error('z').message];
//= ["mine", "[object Object]", "Named: changed", "Error", "z"]
--- SES: setters of the override fix called on the prototype itself
//@ hint: SES; `this` of such a setter is the script's to choose
const O = [Object][0][['proto', 'type'].join('')];
const outcomes = [];
for (const key of ['toString', 'valueOf', 'hasOwnProperty', 'toLocaleString']) {
  try { O[key] = () => 'planted'; outcomes.push('set') } catch (error) { outcomes.push(error.name) }
}
return [outcomes, String({})];
//= [["TypeError", "TypeError", "TypeError", "TypeError"], "[object Object]"]
--- SES: the registry of symbols as a way to talk
//@ hint: SES; Symbol.for is shared mutable state
return Symbol.for('x') === Symbol.for('x'); //! DisallowedMember Member 'Symbol.for' is not allowed
//! ^ DisallowedMember Member 'Symbol.for' is not allowed
--- SES: a regular expression's lastMatch
//@ hint: SES removes RegExp.$1, RegExp.lastMatch and RegExp.input, which tell one script of another's texts
const R = [RegExp][0];
'secret'.replace(/s(e)/, '');
return ['$1', 'lastMatch', 'input', '$_', 'leftContext', '$&'].map((key) => typeof R[key]);
//= ["undefined", "undefined", "undefined", "undefined", "undefined", "undefined"]
--- SES: compile changes a frozen regular expression
//@ hint: SES; RegExp.prototype.compile is an old way to change what looks constant
const re = Object.freeze(/a/);
return typeof re.compile;
//= "undefined"
--- SES: Date and Math.random as a way to measure and to talk
//@ hint: SES lockdown, dateTaming and mathTaming; under locked_down there is neither
//@ preset: locked_down
return [Date.now(), Math.random()]; //! DisallowedMember Member 'Date.now' is not allowed
//! ^ DisallowedMember Member 'Math.random' is not allowed
--- SES: stacks as a side channel
//@ hint: SES errorTaming; a stack names those who call
const names = [];
const inner = () => { names.push(new Error('x').stack) };
await __safe_parallel([inner]);
[1].map(inner);
await Promise.resolve().then(inner);
return names.some((stack) => /safeParallel|lane|__ag_|operate|settle|\$post|\$ask|prelude/.test(stack));
//= false
--- SES: a generator's prototype is shared by all generators
//@ hint: SES; hidden intrinsics are reachable from syntax alone
const outcomes = [];
const up = ['__pro', 'to__'].join('');
const g = function* () {};
const proto = g[['proto', 'type'].join('')];
try { proto.planted = 1; outcomes.push('own') } catch (error) { outcomes.push(error.name) }
outcomes.push(typeof g()[up], typeof (function* () {})().planted);
return outcomes;
//= ["own", "undefined", "undefined"]
--- Caja: arguments and caller of a function
//@ hint: Google Caja; ES3's Function.prototype.caller and arguments
const outer = (f) => f();
function inner() { try { return typeof inner[['call', 'er'].join('')] } catch (error) { return error.name } }
return ['undefined', 'TypeError'].includes(outer(inner));
//= true
--- Caja: names that end in two underscores
//@ hint: Google Caja; its own properties ended in `__`
const __safe_parallel = () => 1; //! ReservedPrefix Identifier '__safe_parallel' is not allowed
return 1;
--- Caja: the runtime's functions seen through a label, a class, a pattern, a parameter
//@ hint: Google Caja
__codecallx: for (const a of []) { break __codecallx } //! ReservedPrefix Identifier '__codecallx' is not allowed
class __safe_x {} //! ReservedPrefix Identifier '__safe_x' is not allowed
const { b: __ag_x } = {}; //! ReservedPrefix Identifier '__ag_x' is not allowed
(__ag_n) => 1; //! ReservedPrefix Identifier '__ag_n' is not allowed
try { throw 1 } catch (__ag_i0) { } //! ReservedPrefix Identifier '__ag_i0' is not allowed
--- ADsafe: a subscript whose name the walker cannot see
//@ hint: ADsafe; subscripts were forbidden but for numbers
const names = ['con', 'structor'];
const f = () => 1;
return [typeof f[names.join('')], typeof f[names[0] + names[1]], typeof f[`${names[0]}${names[1]}`], typeof f[String(names).replace(',', '')]];
//= ["undefined", "undefined", "undefined", "undefined"]
--- ADsafe: a string method that calls back
//@ hint: ADsafe and FBJS; replace hands values to a function
const seen = [];
'abc'.replace(/b/, function (...args) { seen.push(args.length, typeof this); return '' });
return seen;
//= [3, "undefined"]
--- FBJS: an index that is an object
//@ hint: Facebook's FBJS; $FBJS.idx looked at the string twice
let n = 0;
const key = { toString: () => (n++ % 2 === 0 ? 'safe' : ['constr', 'uctor'].join('')) };
const o = { safe: 1 };
return [o[key], typeof o[key], o[key]];
//= [1, "undefined", 1]
--- Figma: a getter on what the plugin's API returns
//@ hint: Figma's plugins on realms-shim, October 2019
const list = await callTool('users:list', {});
const seen = [];
try { Object.assign(list.users, { get 0() { seen.push('read'); return 1 } }) } catch (error) { seen.push(error.name) }
return [seen, (await callTool('users:list', {})).users[0] === 1];
//= [["read"], false]
--- ShadowRealm: a function that crosses
//@ hint: tc39/proposal-shadowrealm; only primitives and callables may cross. Here nothing but data does
const outcomes = [];
for (const value of [() => 1, Symbol('x'), { f() {} }, [() => 1], new Map([[() => 1, 1]])]) {
  outcomes.push(await callTool('echo', { value }).then((echo) => echo.value, (e) => e.message.replace(/.*hold: /, '')));
}
return outcomes;
//= ["value is a function", "value is a symbol", "value.f is a function", "value[0] is a function", {"[Function]": 1}]
