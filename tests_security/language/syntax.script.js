// Syntax that the language has not, and syntax that it has, in places where it might not be looked at.
--- with, around a refused name
with ({ eval: 1 }) { eval('1') } //! DisallowedSyntax Syntax 'with'
//! ^ IllegalBuiltinAccess Identifier 'eval'
--- with inside a function, a class and an arrow function
function f() { with ({}) { } } class A { m() { with ({}) { } } } //! DisallowedSyntax Syntax 'with'
//! ^ DisallowedSyntax Syntax 'with'
--- debugger everywhere a statement stands
debugger; if (true) debugger; const f = () => { debugger }; //! DisallowedSyntax Syntax 'debugger'
//! ^ DisallowedSyntax Syntax 'debugger'
//! ^ DisallowedSyntax Syntax 'debugger'
--- while and do-while, with and without a body
while (false); do; while (false); l: while (true) break l; //! DisallowedLoop Loop 'while'
//! ^ DisallowedLoop Loop 'do…while'
//! ^ DisallowedLoop Loop 'while'
--- for-in over an object, an array, a string
for (const k in {}) { } for (let i in [1]) { } for (var c in 'ab') { } //! DisallowedLoop Loop 'for…in'
//! ^ DisallowedLoop Loop 'for…in'
//! ^ DisallowedLoop Loop 'for…in'
--- for-in with targets that are no names
const o = {}; for (o.a in { b: 1 }) { } for ([o.b] in { b: 1 }) { } for ({ length: o.c } in { b: 1 }) { } //! DisallowedLoop Loop 'for…in'
//! ^ DisallowedLoop Loop 'for…in'
//! ^ DisallowedLoop Loop 'for…in'
--- dynamic import, awaited, called, inside of everything
await import('fs'); import('fs').then(x => x); const f = (x = import('a')) => [...import('b'), `${import('c')}`]; //! DisallowedSyntax Syntax 'import'
//! ^ DisallowedSyntax Syntax 'import'
//! ^ DisallowedSyntax Syntax 'import'
//! ^ DisallowedSyntax Syntax 'import'
//! ^ DisallowedSyntax Syntax 'import'
--- dynamic import with options
import('fs', { with: { type: 'json' } }); //! SYNTAX_ERROR Unexpected token
--- dynamic import of a refused name
import(eval); //! DisallowedSyntax Syntax 'import'
//! ^ IllegalBuiltinAccess Identifier 'eval'
--- import called without arguments
import(); //! SYNTAX_ERROR Unexpected token
--- import called with new
new import('x'); //! SYNTAX_ERROR Unexpected reserved word
--- import as a name
const f = import; //! SYNTAX_ERROR Unexpected reserved word
--- import.meta and what hangs on it
import.meta; import.meta.url; import.meta.resolve('x'); //! DisallowedSyntax Syntax 'import.meta'
//! ^ DisallowedSyntax Syntax 'import.meta'
//! ^ DisallowedSyntax Syntax 'import.meta'
--- import.meta with other words
import.source('x'); //! SYNTAX_ERROR Unexpected identifier
--- an import of every form
import fs from 'fs'; import * as a from 'a'; import { b as c } from 'b'; import 'd'; import e, { f } from 'e'; //! DisallowedSyntax Syntax 'import'
//! ^ DisallowedSyntax Syntax 'import'
//! ^ DisallowedSyntax Syntax 'import'
//! ^ DisallowedSyntax Syntax 'import'
//! ^ DisallowedSyntax Syntax 'import'
--- an import with attributes
import data from './data.json' with { type: 'json' }; //! DisallowedSyntax Syntax 'import'
--- an export of every form
export const a = 1; export default eval; export { a as b }; export * from 'c'; export * as d from 'd'; //! DisallowedSyntax Syntax 'export'
//! ^ DisallowedSyntax Syntax 'export'
//! ^ DisallowedSyntax Syntax 'export'
//! ^ DisallowedSyntax Syntax 'export'
//! ^ DisallowedSyntax Syntax 'export'
--- an import inside a block and a function
{ import x from 'x' } function f() { export const y = 1 } //! DisallowedSyntax Syntax 'import'
//! ^ DisallowedSyntax Syntax 'export'
--- new.target in a function, a method, an arrow function in one
function f() { return new.target } const o = { m() { return new.target.name } }; function g() { return () => new.target } //! DisallowedSyntax Syntax 'new.target'
//! ^ DisallowedSyntax Syntax 'new.target'
//! ^ DisallowedSyntax Syntax 'new.target'
--- new.target in a class, called
class A { constructor() { return new.target('x') } } //! DisallowedSyntax Syntax 'new.target'
--- new.target at top level
return new.target; //! DisallowedSyntax Syntax 'new.target'
--- using, with and without await
using a = null; { using b = { dispose() { } } } //! DisallowedSyntax Syntax 'using'
//! ^ DisallowedSyntax Syntax 'using'
--- await using
await using a = null; //! SYNTAX_ERROR Unexpected identifier
--- for with using
for (using a of []) { } //! SYNTAX_ERROR Unexpected identifier
--- super in a function that is no method
function f() { return super.x }
//~ SYNTAX_ERROR 'super' is only valid in a method
--- super called in a method
class A { m() { super() } }
//~ SYNTAX_ERROR super() is only valid in a derived class constructor
--- super at top level
return super.toString();
//~ SYNTAX_ERROR 'super' is only valid in a method
--- super in an arrow function inside a method leads to no constructor
const o = { m() { return (() => super.toString)() } };
return typeof o.m();
//= "function"
--- super written to
const o = { m() { super.__proto__ = 1; super['constructor'] = 2; super.x = 3 } }; //! DisallowedMember Member '__proto__'
//! ^ DisallowedMember Member 'constructor'
--- a decorator
@eval class A { } //! DisallowedSyntax Syntax 'decorator' is not allowed
--- an accessor field
class A { accessor x = 1 } //! DisallowedSyntax Syntax 'accessor' is not allowed
--- an enum
enum A { B } //! DisallowedSyntax Syntax 'enum' is not allowed
--- a pipe, a bind operator, a do expression
const f = x => x |> eval(%); //! SYNTAX_ERROR Unexpected token >
--- a record and a tuple
return #{ a: 1 }; //! SYNTAX_ERROR Unexpected token ILLEGAL
--- a private method with # outside of classes
return #x in {};
//~ SYNTAX_ERROR undefined private field '#x'
--- octal literals of old
return 010 + 08; //! SYNTAX_ERROR Octal literals are not allowed in strict mode
--- octal escapes of old, in strings and templates
return '\101' + "\7"; //! SYNTAX_ERROR Octal literals are not allowed in strict mode
--- octal escapes in a template
return `\101`; //! SYNTAX_ERROR Octal literals are not allowed in template strings
--- digits 8 and 9 escaped
return '\8' + '\9'; //! SYNTAX_ERROR Unexpected token ILLEGAL
--- an octal escape in a key
return ''['\143onstructor']; //! SYNTAX_ERROR Octal literals are not allowed in strict mode
--- deleting a name
let a = 1; delete a; //! SYNTAX_ERROR Delete of an unqualified identifier in strict mode
--- deleting a name in parentheses
let a = 1; delete (a); //! SYNTAX_ERROR Delete of an unqualified identifier in strict mode
--- deleting a private name
class A { #a; m() { delete this.#a } }
//~ SYNTAX_ERROR cannot delete a private class field
--- two parameters of one name
function f(a, a) { } //! SYNTAX_ERROR Strict mode function may not have duplicate parameter names
--- two variables of one name
let a = 1; let a = 2;
//~ SYNTAX_ERROR invalid redefinition of lexical identifier
--- a variable used before it is there
return typeof a; let a = 1;
//~ EXECUTION_ERROR a is not initialized
--- arguments as a variable
const arguments = 1; //! SYNTAX_ERROR Variable name may not be eval or arguments in strict mode
--- eval as the name of a function
function eval() { } //! SYNTAX_ERROR Function name may not be eval or arguments in strict mode
--- eval as a parameter
const f = (eval) => 1; //! SYNTAX_ERROR Parameter name eval or arguments is not allowed in strict mode
--- eval in a pattern of a parameter
const f = ({ a: [eval] }) => 1; //! SYNTAX_ERROR Parameter name eval or arguments is not allowed in strict mode
--- arguments as what a catch clause names
try { } catch (arguments) { } //! SYNTAX_ERROR Catch variable may not be eval or arguments in strict mode
--- eval counted up
eval++; //! SYNTAX_ERROR Postfix increment/decrement may not have eval or arguments operand in strict mode
--- eval as the target of a pattern
[eval] = [1]; //! IllegalBuiltinAccess Identifier 'eval'
--- eval as the target of a loop
for (eval of []) { } //! IllegalBuiltinAccess Identifier 'eval'
--- eval as the name of a class and of an import
class eval { } //! IllegalBuiltinAccess Identifier 'eval'
--- assigning to what is no variable
f() = 1; function f() { } //! SYNTAX_ERROR Invalid left-hand side in assignment
--- assigning to an optional chain
const o = {}; o?.a = 1; //! SYNTAX_ERROR Invalid left-hand side in assignment
--- a pattern as the target of a compound assignment
let a; [a] += 1;
//~ SYNTAX_ERROR invalid assignment left-hand side
--- a function in an if without a block
if (true) function f() { } //! SYNTAX_ERROR In strict mode code, functions can only be declared at top level or inside a block
--- a labelled function
l: function f() { } //! SYNTAX_ERROR In strict mode code, functions can only be declared at top level or inside a block
--- a labelled class
l: class A { } //! SYNTAX_ERROR Unexpected token class
--- a label twice, a break without a label
l: l: for (;;) break; //! SYNTAX_ERROR Label 'l' has already been declared
--- break across a function
l: for (;;) { (() => { break l })() } //! SYNTAX_ERROR Undefined label 'l'
--- continue to what is no loop
l: { continue l }
//~ SYNTAX_ERROR break/continue label not found
--- a label of every keyword-like word
async: get: of: set: for (;;) break of;
return 1;
//= 1
--- a getter with a parameter
return { get a(x) { return 1 } }; //! SYNTAX_ERROR Getter must not have any formal parameters
--- a setter without a parameter
return { set b() { } }; //! SYNTAX_ERROR Setter must have exactly one formal parameter
--- a rest parameter that is not the last
const f = (...a, b) => 1; //! SYNTAX_ERROR Rest parameter must be last formal parameter
--- a rest element with a default
const [...a = 1] = []; //! SYNTAX_ERROR Unexpected token =
--- 'use strict' in a function with a default
function f(a = 1) { 'use strict' } //! SYNTAX_ERROR Illegal 'use strict' directive in function with non-simple parameter list
--- 'use strict' does not loosen anything
'use strict'; 'use asm'; 'use sloppy';
undeclared = 1; //! DisallowedGlobal Unknown name 'undeclared'
--- an assignment to a name nobody declared
undeclared = 1; //! DisallowedGlobal Unknown name 'undeclared'
--- an assignment to a name nobody declared, in a function
(function () { undeclared = 1 })(); //! DisallowedGlobal Unknown name 'undeclared'
--- JSX
return <div onClick={eval} />; //! SYNTAX_ERROR Unexpected token
--- a comment of Python's
# eval('1') //! SYNTAX_ERROR Unexpected token ILLEGAL
--- optional chaining in new
return new ({}?.a)() ?? new a?.b(); //! DisallowedGlobal Unknown name 'a'
--- optional chaining with a template
const o = {}; return o?.a`x`;
//~ SYNTAX_ERROR template literal cannot appear in an optional chain
--- ?? mixed with ||
return null ?? 1 || 2; //! SYNTAX_ERROR Unexpected token ||
--- a bare unary operator before a power
return -1 ** 2; //! SYNTAX_ERROR Unexpected token **
--- JSON's superset: separators in strings are refused, escapes are data
return '\u2028\u2029'.length;
//= 2
--- __proto__ twice in one object
return { __proto__: 1, '__proto__': 2 }; //! SYNTAX_ERROR Duplicate __proto__ fields are not allowed in object literals
--- numbers of every form
return [1_000, 0b11, 0o17, 0xff, .5, 5., 1e3, 1_0n, 0xfn].map(String);
//= ["1000", "3", "15", "255", "0.5", "5", "1000", "10", "15"]
--- numbers of no form
return 1__0; //! SYNTAX_ERROR Unexpected token ILLEGAL
--- a number and a name without a blank
return 3in []; //! SYNTAX_ERROR Unexpected token ILLEGAL
--- the member of a number
return 1..constructor + 1.0.constructor + 1_0.0.constructor; //! DisallowedMember Member 'constructor'
//! ^ DisallowedMember Member 'constructor'
//! ^ DisallowedMember Member 'constructor'
--- a regular expression with flags that do not exist
return /a/xyz;
//~ SYNTAX_ERROR invalid regular expression flags
--- a regular expression with a flag twice
return /a/gg;
//~ SYNTAX_ERROR invalid regular expression flags
--- a regular expression that is none
return /(/;
//~ SYNTAX_ERROR expecting ')'
--- a regular expression with code in its name
return /(?<constructor>a)/.exec('a').groups;
//= {}
--- a generator and its ways out
function* g() { yield* [1, 2]; try { yield 3 } finally { yield eval } } //! IllegalBuiltinAccess Identifier 'eval'
--- an async generator and for-await
async function* g() { yield 1 } for await (const x of g()) { eval(x) } //! IllegalBuiltinAccess Identifier 'eval'
--- for-await outside of async functions
function f() { for await (const x of []) { } } //! SYNTAX_ERROR Unexpected identifier
--- for-await in every other form
for await (let i = 0; i < 1; i++) { }
//~ SYNTAX_ERROR expected 'of' or 'in' in for control expression
--- getters, setters and generators of computed names
const o = { get [eval]() { return 1 }, set [eval](x) { }, *[eval]() { }, async [eval]() { }, async *[eval]() { } }; //! IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
--- a class's members of computed names
class A { [eval] = 1; static [eval]() { } get [eval]() { return 1 } static async *[eval]() { } } //! IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
--- defaults everywhere
const { a = eval, b: { c = eval } = eval, ...d } = {}, [e = eval, [f] = eval] = []; const g = (h = eval, { i = eval } = {}) => 1; //! IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
--- values of fields, private fields, static fields and blocks
class A { a = eval; #b = eval; static c = eval; static { eval } } //! IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
--- switch cases, conditions, sequences, spreads
switch (1) { case eval: eval } const a = eval ? (1, eval) : [...eval, { ...eval }]; //! IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
--- what is thrown, awaited, yielded, returned
async function* f() { await eval; yield eval; yield* eval; throw eval } //! IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
--- the left and right of every kind of assignment
let a; a = eval; a += eval; a ??= eval; a **= eval; [a = eval] = []; ({ a = eval } = {}); ({ [eval]: a } = {}); //! IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
--- heads and bodies of every kind of loop
for (eval; eval; eval) eval; for (const x of eval) eval; for (eval.x of []) { } //! IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
--- a tag, a callee, an argument, a spread argument
eval`a`; eval(1); callTool(eval, ...eval); new eval(); new eval; //! IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
--- behind ?. and inside its arguments
const o = {}; o?.[eval]; o?.a?.(eval); eval?.a; eval?.[0]; //! IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
