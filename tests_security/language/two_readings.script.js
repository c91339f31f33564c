// Text that one reader takes for a regular expression, a comment or a string, and another for code.
--- a field named async, and a private method on the next line
class A { async
  #x() { return typeof await /eval('1')/g } //! DisallowedSyntax Identifier 'await'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ DisallowedGlobal Unknown name 'g'
}
return new A();
--- a field named async, and a generator on the next line
class A { async
  *x() { yield typeof await /eval('1')/g } //! DisallowedSyntax Identifier 'await'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ DisallowedGlobal Unknown name 'g'
}
--- a static field named async, and a generator on the next line
class A { static async
  *x() { yield typeof await /eval('1')/g } //! DisallowedSyntax Identifier 'await'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ DisallowedGlobal Unknown name 'g'
}
--- a static field named async, and a private method on the next line
class A { static async
  #x() { return typeof await /callTool('secret:read')/g } //! DisallowedSyntax Identifier 'await'
//! ^ DisallowedGlobal Unknown name 'g'
}
--- a field named async, a comment over lines, and a method
class A { async /*
  */ #x() { return typeof await /eval('1')/g } //! DisallowedSyntax Identifier 'await'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ DisallowedGlobal Unknown name 'g'
}
--- a field named async, and an ordinary method on the next line
class A { async
  x() { return typeof await /eval('1')/g } //! DisallowedSyntax Identifier 'await'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ DisallowedGlobal Unknown name 'g'
}
--- a regular expression right behind await
return await /eval('1')/g; //! UnsafeSource Script has a regular expression right after await
--- a regular expression behind await in a default of a parameter
const f = (x = typeof await /eval('1')/g) => x; //! UnsafeSource Script has a regular expression right after await
--- a regular expression behind await that begins like an assignment
return await /=eval('1')/g; //! UnsafeSource Script has a regular expression right after await
--- a regular expression behind await over a comment and a line
return await /* a */
  /eval('1')/g; //! UnsafeSource Script has a regular expression right after await
--- await in a field
async function f() { class A { x = await /1; eval('1'); 1/ -1 } } //! SYNTAX_ERROR Unexpected string
--- await in a static block
async function f() { class A { static { await /1; eval('1'); 1/ -1 } } } //! DisallowedSyntax Identifier 'await'
//! ^ IllegalBuiltinAccess Identifier 'eval'
--- await in a getter inside an async function
return { get x() { return await /eval('1')/g } }; //! DisallowedSyntax Identifier 'await'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ DisallowedGlobal Unknown name 'g'
--- await in a computed key of a class
class A { [await /1/g]() { } } //! DisallowedSyntax Identifier 'await'
//! ^ DisallowedGlobal Unknown name 'g'
--- await in an arrow function that is not async
return [1].map(x => await /eval('1')/g); //! DisallowedSyntax Identifier 'await'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ DisallowedGlobal Unknown name 'g'
--- await as a variable, a parameter, a function
var await = 1; const f = await => 1; function g() { function await() { } } //! SYNTAX_ERROR Unexpected identifier
--- await as a label and a catch name
function f() { await: for (;;) break await; try { } catch (await) { } } //! DisallowedSyntax Identifier 'await'
//! ^ DisallowedSyntax Identifier 'await'
--- await as a shorthand and in a pattern
function f() { return { await } } const g = ({ await }) => 1; //! DisallowedSyntax Identifier 'await'
//! ^ DisallowedSyntax Identifier 'await'
--- await with an argument that looks like a call
const f = () => await (1); //! DisallowedSyntax Identifier 'await'
--- yield as a name
const yield = 1; //! SYNTAX_ERROR Use of future reserved word in strict mode
--- yield as an expression outside of generators
const f = () => yield /eval('1')/g; //! SYNTAX_ERROR Use of future reserved word in strict mode
--- yield in a default of a generator's parameter
function* f(x = yield /eval('1')/g) { } //! SYNTAX_ERROR Use of future reserved word in strict mode
--- yield behind a getter of an object
const o = { get x() { return 1 } }; const f = () => { yield /1; eval('1'); 1/g }; //! SYNTAX_ERROR Use of future reserved word in strict mode
--- let, static, implements, package and others as names
var static = 1; let implements, package; const f = interface => 1; private: for (;;) break private; //! SYNTAX_ERROR Use of future reserved word in strict mode
--- let as a name that a lexical declaration has
let let = 1; //! SYNTAX_ERROR let is disallowed as a lexically bound name
--- of, get, set, async, as, from and type are names
const of = 8, get = 4, set = 2, async = 1, from = 0, as = 0, type = 0;
for (const x of [of]) return x / get / set;
//= 1
--- of before a slash divides
const of = 8, g = 2; let eval1 = 2;
return of /eval1/g;
//= 2
--- a division that looks like a regular expression hides nothing
let a = 4, g = 2;
return a /eval('1')/g; //! IllegalBuiltinAccess Identifier 'eval'
--- a division behind a line end
let a = 4, g = 2;
return a
/eval('1')/g; //! IllegalBuiltinAccess Identifier 'eval'
--- a division behind a closing parenthesis
let g = 2;
return (4) /eval('1')/g; //! IllegalBuiltinAccess Identifier 'eval'
--- a regular expression behind the parenthesis of an if
if (true) /eval('1')/.test('x');
return 1;
//= 1
--- a division behind the brace of an object
let g = 2;
return ({}) /eval('1')/g; //! IllegalBuiltinAccess Identifier 'eval'
--- a division behind the brace of a function expression
let g = 2;
return (function () { } /eval('1')/g); //! IllegalBuiltinAccess Identifier 'eval'
--- a regular expression behind the brace of a block
{ } /eval('1')/.test('x');
return 1;
//= 1
--- a regular expression behind a function declaration
function f() { } /eval('1')/.test('x');
return 1;
//= 1
--- a regular expression behind a class declaration
class A { } /eval('1')/.test('x');
return 1;
//= 1
--- a division behind a class expression
let g = 2;
return (class { } /eval('1')/g) !== 0; //! IllegalBuiltinAccess Identifier 'eval'
--- an arrow function's body and a slash
let g = 2; const f = () => { }
/eval('1')/g;
//= "/eval('1')/g"
--- a division behind a counter
let a = 4, g = 2;
return a++ /eval('1')/g; //! IllegalBuiltinAccess Identifier 'eval'
--- a counter that belongs to the next line
let a = 4, b = 1;
a
++
b
/eval('1')/a; //! IllegalBuiltinAccess Identifier 'eval'
--- a division behind a template
let g = 2;
return `4` /eval('1')/g; //! IllegalBuiltinAccess Identifier 'eval'
--- a division behind a template with parts
let g = 2;
return `${`4`}` /eval('1')/g; //! IllegalBuiltinAccess Identifier 'eval'
--- a division behind a keyword as a member
const o = { if: 4, return: 2 }, g = 2;
return o.if /eval('1')/g + o?.return /eval('1')/g; //! IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
--- a division behind this, super and null
class A { m(g) { return this /eval('1')/g + null /eval('1')/g + super.m /eval('1')/g } } //! IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
--- a regular expression behind every keyword that wants a value
function* f(o) { typeof /eval('1')/; void /eval('1')/; delete /eval('1')/.x; yield /eval('1')/; o in /eval('1')/; throw /eval('1')/ }
return typeof f({}).next;
//= "function"
--- a slash in a class of a regular expression does not end it
return /[/]eval('1')/.test("/eval'1'");
//= true
--- an escaped slash does not end a regular expression
return /\/eval('1')/.source;
//= "\\/eval('1')"
--- a bracket in brackets does not begin another class
return /[[]/.test('[') + /[\]/]/.test('/');
//= 2
--- braces and backquotes in a regular expression
return /[`{}]x{1}/.source + `${/}/.source}`;
//= "[`{}]x{1}}"
--- a template inside a template inside a template
return `${`${`${'eval'}`}`}` + `}` + `\`` + `\${eval('1')}`;
//= "eval}`${eval('1')}"
--- a template's part with braces in strings, comments and functions
return `${'}'}${/* } */ 1}${(() => { return '}' })()}${{ a: '}' }.a}`;
//= "}1}}"
--- code in a template's part
return `${eval('1')}`; //! IllegalBuiltinAccess Identifier 'eval'
--- code in a tagged template's part
return String.raw`\u{${eval('1')}`; //! SYNTAX_ERROR Unexpected token ILLEGAL
--- a comment inside a template is text
return `/* ${1} */ // ${eval} `; //! IllegalBuiltinAccess Identifier 'eval'
--- a comment that seems to end early
/* // */ eval('1'); /* */ //! IllegalBuiltinAccess Identifier 'eval'
--- a comment that seems to begin in a string
return '/*' + eval('1') + '*/'; //! IllegalBuiltinAccess Identifier 'eval'
--- a comment that seems to begin in a regular expression
return /[/*]/.source + eval('1') + /[*/]/.source; //! IllegalBuiltinAccess Identifier 'eval'
--- a comment of slashes and stars
/*/ eval('1') /*/ return 1;
//= 1
--- a line comment that ends with a backslash
// \
eval('1'); //! IllegalBuiltinAccess Identifier 'eval'
--- a string that goes on in the next line
return 'a\
' +
eval('1') + //! IllegalBuiltinAccess Identifier 'eval'
'\
';
--- a statement that the line end closes
const f = eval1 => eval1
(eval)('1'); //! IllegalBuiltinAccess Identifier 'eval'
--- return and a line end
return
eval('1'); //! IllegalBuiltinAccess Identifier 'eval'
--- return, a line end and a template
return
`${eval('1')}`; //! IllegalBuiltinAccess Identifier 'eval'
--- throw and a line end
throw //! SYNTAX_ERROR Illegal newline after throw
new Error('x');
--- break and continue with a label on the next line
l: for (const x of [1]) { continue
l; } //! DisallowedGlobal Unknown name 'l'
--- async and function on two lines
const async = 1;
async
function f() { return typeof await1 }
var await1 = 1;
return f();
//= "number"
--- async and an arrow function on two lines
const f = async //! DisallowedGlobal Unknown name 'async'
x => x;
--- an arrow on a line of its own
const f = (x)
=> x; //! SYNTAX_ERROR Unexpected token
--- the head of a for without a semicolon
for (let i = 0
i < 3; i++) { } //! SYNTAX_ERROR Unexpected identifier
--- a do-while without a semicolon
//@ preset: balanced
let n = 0; do n++; while (n < 3) return n;
//= 3
--- in binds closer than equality
return 1 == 2 in { false: 1 };
//= false
--- in in the head of a for
for (let i = 'a' in {} ? 1 : 2; i < 3; i++) { } //! SYNTAX_ERROR Unexpected token in
--- a call of async with a function of that name
const async = x => x;
return async
(1);
//= 1
--- an async arrow function behind a call of async
const async = x => x;
return async(eval('1')) x => 1; //! SYNTAX_ERROR Unexpected identifier
--- a member of async in front of an arrow function
const async = { x: 1 };
return async.x([eval('1')]) => 1; //! SYNTAX_ERROR Unexpected token
--- a call of async in front of an arrow function
const async = x => x;
return async(eval('1'))(x) => 1; //! SYNTAX_ERROR Unexpected token
--- a shorthand property named async
const async = 1; const { async: a = 2 } = { async }; const { async: b } = { async, };
return a + b;
//= 2
--- an async generator in an object on two lines
return { async
*m() { } }; //! SYNTAX_ERROR Unexpected token *
--- the script closes the function around it
}; eval('1'); async () => { //! SYNTAX_ERROR Unexpected token }
--- the script closes the function around it in a template
`${1}`}(), async () => { ` //! SYNTAX_ERROR Unexpected token }
--- the script ends the list around it
1 }, async () => { eval('1') //! SYNTAX_ERROR Unexpected token }
--- the script's end in a comment
return 1 /* //! SYNTAX_ERROR Unexpected end of input
--- the script's end in a template
return `${1 //! SYNTAX_ERROR Unexpected end of input
--- the script's end in a string
return 'a //! SYNTAX_ERROR Unexpected token ILLEGAL
--- more closing brackets than opening ones, balanced
return [1)]; //! SYNTAX_ERROR Unexpected token )
