// What errors tell: no stack, no frame of the runtime, nothing of what is around a script; and errors made to look like
// the runtime's own, or like a limit.
--- the stack is an empty text
try { null.x; } catch (e) { return [e.stack, typeof e.stack]; }
//= ["", "string"]
--- the stack of every kind
const kinds = [Error, TypeError, RangeError, SyntaxError, ReferenceError, EvalError, URIError];
return kinds.map((Kind) => new Kind('x').stack).concat(new AggregateError([], 'x').stack).join('');
//= ""
--- the stack of what the engine throws
const throwing = [() => JSON.parse('{'), () => new RegExp('('), () => decodeURIComponent('%'), () => 'a'.repeat(-1), () => 1n + 1, () => [].reduce(() => 1), () => BigInt('x')];
return throwing.map((f) => { try { f(); return 'none'; } catch (e) { return e.stack; } }).join('');
//= ""
--- the stack of what the runtime throws
const seen = [];
await callTool(5).catch((e) => seen.push(e.stack));
await __safe_parallel(5).catch((e) => seen.push(e.stack));
await callTool('fail', {}).catch((e) => seen.push(e.stack));
try { structuredClone(() => 1); } catch (e) { seen.push(e.stack); }
return seen;
//= ["", "", "", ""]
--- an error has no other property that tells a place
try { callTool.x.y; } catch (e) { return e.name; } //! DisallowedMember Member 'callTool.x'
--- what an error has of its own
const seen = [];
try { null.x; } catch (e) { seen.push(Object.getOwnPropertyNames(e)); }
await callTool('fail', {}).catch((e) => seen.push(Object.keys(e)));
return seen;
//= [["message"], ["name", "code", "toolName"]]
--- no frames by another name
const e = new Error('x');
return ['fileName', 'lineNumber', 'columnNumber', 'frames', 'callSite', 'sourceURL', 'line', 'column'].filter((k) => e[k] !== undefined);
//= []
--- the stack assigned belongs to the one error
const e = new Error('x');
e.stack = 'mine';
return [e.stack, new Error('y').stack];
//= ["mine", ""]
--- captureStackTrace by a computed name
const [E] = [Error];
const k = ['capture', 'StackTrace'].join('');
return typeof E[k];
//= "undefined"
--- prepareStackTrace set on Error
const [E] = [Error];
const k = ['prepare', 'StackTrace'].join('');
E[k] = (error, sites) => sites;
return new Error('x').stack;
//~ EXECUTION_ERROR
--- prepareStackTrace set on a class of errors
const k = ['prepare', 'StackTrace'].join('');
let seen = 'nothing';
class E extends Error { static [k](error, sites) { seen = sites; return sites; } }
return [new E('x').stack, seen];
//= ["", "nothing"]
--- stackTraceLimit
const [E] = [Error];
const k = ['stackTrace', 'Limit'].join('');
return typeof E[k];
//= "undefined"
--- a name that looks like a frame
const o = { ['f (<input>:1005:7)\n    at g (<input>:1001:1)']() { throw new Error('named'); } };
return o['f (<input>:1005:7)\n    at g (<input>:1001:1)']();
//~ EXECUTION_ERROR named
--- a message that looks like a stack
throw new Error('real\n    at forged (/etc/passwd:1:1)\n    at <input>:1001:1');
//~ EXECUTION_ERROR real
--- the cause of an error is the script's own
const e = new Error('outer', { cause: callTool });
return [e.cause === callTool, Object.keys(e)];
//= [true, []]
--- a cause that is a getter
let asked = 0;
new Error('x', { get cause() { asked += 1; return 1; } });
throw new Error('x', { get cause() { throw new Error('from the cause'); } });
//~ EXECUTION_ERROR from the cause
--- a chain of causes in the result
const e = new Error('a', { cause: new Error('b', { cause: new Error('c') }) });
return e;
//= {"name": "Error", "message": "a"}
--- a RangeError with the words of the engine is the script's own undoing
throw new RangeError('Maximum call stack size exceeded');
//~ STACK_OVERFLOW
--- an error of another kind with those words
throw new TypeError('Maximum call stack size exceeded');
//~ EXECUTION_ERROR Maximum call stack
--- a class of RangeErrors with those words
class Mine extends RangeError {}
try { throw new Mine('Maximum call stack size exceeded'); } catch (e) { return e.name; }
//= "RangeError"
--- out of memory, said by the script
try { throw new Error('out of memory'); } catch (e) { return e.message; }
//= "out of memory"
--- the class of the engine's own errors cannot be had
return typeof InternalError; //! DisallowedGlobal
--- what the runtime throws to stop a script, thrown by the script
try { throw new Error('The script was stopped'); } catch (e) { return e.message; }
//= "The script was stopped"
--- a timeout, said by the script
throw Object.assign(new Error('Script execution timed out after 3500ms'), { name: 'TimeoutError', code: 'TIMEOUT' });
//~ EXECUTION_ERROR timed out
--- null and undefined are thrown and caught like any value
const seen = [];
for (const value of [null, undefined, 0, '', false, NaN]) { try { throw value; } catch (e) { seen.push(e === value || e !== e); } }
return seen;
//= [true, true, true, true, true, true]
--- null as a reason, by every way there is
const seen = [];
await Promise.reject(null).catch((e) => seen.push(e));
await new Promise((_, reject) => reject(null)).then(0, (e) => seen.push(e));
await (async () => { throw null; })().catch((e) => seen.push(e));
function* g() { try { yield 1; } catch (e) { seen.push(e); } }
const it = g();
it.next();
it.throw(null);
await { then: (_, reject) => reject(null) }.then(0, (e) => seen.push(e));
seen.push((await Promise.allSettled([Promise.reject(null)]))[0].reason);
return seen;
//= [null, null, null, null, null, null]
--- a thrown function
throw () => 'secret';
//~ EXECUTION_ERROR [Function]
--- a thrown symbol
throw Symbol('secret');
//~ EXECUTION_ERROR Symbol()
--- a thrown object
throw { code: 'ACCESS_DENIED', message: 'x' };
//~ EXECUTION_ERROR {"code":"ACCESS_DENIED","message":"x"}
--- an error with a name as long as can be
throw Object.assign(new Error('x'), { name: 'n'.repeat(1e6) });
//~ EXECUTION_ERROR x
--- a syntax error of JSON shows no place of the runtime
try { JSON.parse('{"a": 1,, }'); } catch (e) { return [e.name, /input|prelude|run|operate/.test(e.message)]; }
//= ["SyntaxError", false]
--- the error of a property of nothing names only the script's words
const secret = undefined;
return secret.value;
//~ EXECUTION_ERROR value
