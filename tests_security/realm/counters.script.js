// The counters: steps, iterations, calls, time. No script can name, read, write, reset or wrap them.
--- the step counter by its name
__ag_s = -1e9; //! ReservedPrefix
--- the iteration counter by its name
for (let i = 0; i < 3; i++) { __ag_i0 = 0; } //! ReservedPrefix
--- the iteration counter declared again
for (let i = 0; i < 3; i++) { let __ag_i0 = 0; } //! ReservedPrefix
--- the step counter as a parameter
const f = (__ag_s) => __ag_s; //! ReservedPrefix
return f(1);
--- the step counter as a function
function __ag_t() { return 1e9; } //! ReservedPrefix
--- the step counter as a class
class __ag_l {} //! ReservedPrefix
--- the step counter in a pattern
const { __ag_n } = { __ag_n: 1e9 }; //! ReservedPrefix
--- the step counter as what a clause catches
try { throw 1; } catch (__ag_e) { return __ag_e; } //! ReservedPrefix
--- the step counter as a label
__ag_s: for (const x of [1]) break __ag_s; //! ReservedPrefix
--- the step counter with an escape in its name
\u005f_ag_s = 0; //! ReservedPrefix
//! ^ UnsafeSource
--- names of the counters are free as data
const o = { __ag_s: 1, ['__ag_n']: 2 };
return [o.__ag_s, o['__ag_n']];
//= [1, 2]
--- the step counter as a private name
class A { #__ag_s = 1; read() { return this.#__ag_s; } }
return new A().read();
//= 1
--- the clause's own error, written over
try { null.x; } catch (e) { e = 5; return e; }
//= 5
--- a var of the clause's name
try { throw 1; } catch (e) { var e = 2; return e; }
//= 2
--- a pattern in the clause that throws
try { try { throw null; } catch ({ a }) { return a; } } catch (e) { return e.name; }
//= "TypeError"
--- a pattern in the clause with a default that runs on
try { throw {}; } catch ({ a = (() => { for (;;) {} })() }) { return a; }
//~ ITERATION_LIMIT
--- a clause without a name inside another
try { try { throw 1; } catch { throw 2; } } catch { return 'both'; }
//= "both"
--- a loop right behind a label behind a label
let n = 0;
a: b: for (;;) { n += 1; if (n > 10) break a; continue b; }
return n;
//= 11
--- a loop as the only branch
let n = 0;
if (n === 0) for (;;) n += 1;
else n = 1;
//~ ITERATION_LIMIT
--- a loop with an empty body
for (;;);
//~ ITERATION_LIMIT
--- a loop in a switch without braces
switch (1) { case 1: for (;;) break; case 2: for (;;) {} }
//~ ITERATION_LIMIT
--- a loop whose body is a declaration's block
for (const x of [1, 2]) { function f() { return x; } if (f() === 2) return f(); }
//= 2
--- a loop that is left and entered again starts anew
let n = 0;
for (let i = 0; i < 3; i++) for (let j = 0; j < 4000; j++) n += 1;
return n;
//= 12000
--- many loops of few turns are steps all the same
//@ preset: secure
const spin = () => { for (let i = 0; i < 1000; i++); };
for (let i = 0; i < 2000; i++) spin();
//~ STEP_LIMIT Script exceeded the limit of 1000000 steps
--- steps in callbacks of native loops
for (let i = 0; i < 100; i++) Array.from({ length: 20000 }, () => 1);
//~ STEP_LIMIT
--- steps in getters
const o = { get x() { return 1; } };
const list = Array.from('x'.repeat(2000));
for (let i = 0; i < 1000; i++) list.forEach(() => o.x);
//~ STEP_LIMIT
--- steps in class members and static blocks
class A { static n = 0; get x() { return (() => 1)(); } set x(v) { A.n += v; } }
const a = new A();
const list = Array.from('x'.repeat(2000));
for (let i = 0; i < 1000; i++) list.forEach(() => { a.x = a.x; });
//~ STEP_LIMIT
--- steps in a tag
const tag = () => 1;
for (let i = 0; i < 500; i++) for (let j = 0; j < 4000; j++) tag`x`;
//~ STEP_LIMIT
--- steps in async functions
const f = async () => 1;
for (let i = 0; i < 4900; i++) await f();
return 'few';
//= "few"
--- steps in a recursion that never goes deep
const f = (n) => (n ? f(n - 1) : 0);
for (let i = 0; i < 4900; i++) f(1000);
//~ STEP_LIMIT
--- steps go on counting behind a caught error
let caught = 0;
for (let i = 0; i < 1100; i++) { try { null.x; } catch { for (let j = 0; j < 1000; j++) caught += 1; } }
//~ STEP_LIMIT
--- steps go on counting behind an await
const spin = () => { for (let i = 0; i < 4000; i++); };
for (let i = 0; i < 90; i++) { await callTool('echo', {}); spin(); spin(); spin(); }
//~ STEP_LIMIT
--- the clock cannot be set back
const [D] = [Date];
D['no' + String('w')] = () => 0;
//~ EXECUTION_ERROR
--- the clock is not there where the preset has none
//@ preset: locked_down
const [D] = [Date];
const [M] = [Math];
const pick = (o, ...parts) => typeof o[parts.join('')];
return [pick(D, 'no', 'w'), pick(M, 'ran', 'dom')];
//= ["undefined", "undefined"]
--- a date of now by way of no arguments at run time
//@ preset: locked_down
const none = [];
return new Date(...none).getTime();
//~ EXECUTION_ERROR without arguments
--- a date of now by way of bind
//@ preset: locked_down
const [D] = [Date];
const Bound = D.bind(null);
return new Bound().getTime();
//~ EXECUTION_ERROR without arguments
--- a date of now by way of an alias
//@ preset: locked_down
const [D] = [Date];
return new D().getTime();
//~ EXECUTION_ERROR without arguments
--- a date of now as a text
//@ preset: locked_down
const [D] = [Date];
return D(0);
//~ EXECUTION_ERROR without arguments
--- a date of now by way of an instance
//@ preset: locked_down
const k = ['con', 'structor'].join('');
return typeof new Date(0)[k];
//= "undefined"
--- a regular expression where the preset has none
//@ preset: locked_down
const k = ['mat', 'ch'].join('');
return [typeof ''[k], typeof ''[k + 'All'], typeof ''['sear' + k.slice(3, 5)]];
//= ["undefined", "undefined", "undefined"]
--- the console where the preset has none
//@ preset: locked_down
return typeof console; //! DisallowedGlobal
