// The names that lead to code made of strings, in every position in which a name can stand.
--- constructor as a member
return [].constructor; //! DisallowedMember Member 'constructor'
--- constructor twice, and called with code
return [].constructor.constructor('return 1')(); //! DisallowedMember Member 'constructor'
//! ^ DisallowedMember Member 'constructor'
--- constructor behind a call, in parentheses, behind a template
return ((() => {})()).constructor + `x`.constructor + (class {}).constructor; //! DisallowedMember Member 'constructor'
//! ^ DisallowedMember Member 'constructor'
//! ^ DisallowedMember Member 'constructor'
--- constructor behind every kind of literal
return [0..constructor, 1n.constructor, /a/.constructor, ''.constructor, true.constructor, {}.constructor]; //! DisallowedMember Member 'constructor'
//! ^ DisallowedMember Member 'constructor'
//! ^ DisallowedMember Member 'constructor'
//! ^ DisallowedMember Member 'constructor'
//! ^ DisallowedMember Member 'constructor'
//! ^ DisallowedMember Member 'constructor'
--- constructor as a computed string
return ''['constructor']; //! DisallowedMember Member 'constructor'
--- constructor as a template without parts
return ''[`constructor`]; //! DisallowedMember Member 'constructor'
--- constructor as two strings
return ''['con' + 'structor']; //! DisallowedMember Member 'constructor'
--- constructor as strings inside templates
return ''[`con${'struct'}${`or`}`]; //! DisallowedMember Member 'constructor'
--- constructor as many short strings
return ''['c' + 'o' + 'n' + 's' + 't' + 'r' + 'u' + 'c' + 't' + 'o' + 'r']; //! DisallowedMember Member 'constructor'
--- constructor grouped from the right
return ''['con' + ('struc' + ('tor'))]; //! DisallowedMember Member 'constructor'
--- constructor with escapes in the string
return ''['\u0063onstructor'] + ''['\x63onstructor'] + ''['\u{63}onstructor']; //! DisallowedMember Member 'constructor'
//! ^ DisallowedMember Member 'constructor'
//! ^ DisallowedMember Member 'constructor'
--- constructor as a string over two lines
return ''['' + //! DisallowedMember Member 'constructor'
'c\
onstructor'];
--- constructor with escapes in the template
return ''[`\u0063onstruc\x74or`]; //! DisallowedMember Member 'constructor'
--- __proto__ in double quotes with an escape
return {}["\x5f\x5fproto\x5f\x5f"]; //! DisallowedMember Member '__proto__'
--- constructor behind an optional chain
return [].at?.(0)?.constructor; //! DisallowedMember Member 'constructor'
--- constructor in an optional subscript
return []?.['constructor']; //! DisallowedMember Member 'constructor'
--- constructor of a tagged template's function
return (x => x).constructor`return 1`; //! DisallowedMember Member 'constructor'
--- constructor as a tag with new
return new (async () => {}).constructor('return 1')(); //! DisallowedMember Member 'constructor'
--- constructor in a destructuring
const { constructor } = 'x'; //! DisallowedMember Member 'constructor'
//! ^ DisallowedMember Identifier 'constructor'
--- constructor renamed in a destructuring
const { constructor: make } = 'x'; //! DisallowedMember Member 'constructor'
--- constructor with a default in a destructuring
const { constructor: make = 1 } = 'x'; //! DisallowedMember Member 'constructor'
--- constructor as a string key of a destructuring
const { 'constructor': make } = 'x'; //! DisallowedMember Member 'constructor'
--- constructor as a computed key of a destructuring
const { ['constructor']: make } = 'x', { [`con` + `structor`]: again } = 'x'; //! DisallowedMember Member 'constructor'
//! ^ DisallowedMember Member 'constructor'
--- constructor three levels down in a destructuring
const { a: [{ b: { constructor: make } }] } = { a: [{ b: 1 }] }; //! DisallowedMember Member 'constructor'
--- constructor in an assigning destructuring
let make; ({ constructor: make } = 'x'); //! DisallowedMember Member 'constructor'
--- constructor as the shorthand of an assigning destructuring
({ constructor } = 'x'); //! DisallowedMember Member 'constructor'
//! ^ DisallowedMember Identifier 'constructor'
--- constructor in the parameter of an arrow function
return (({ constructor }) => constructor)('x'); //! DisallowedMember Member 'constructor'
//! ^ DisallowedMember Identifier 'constructor'
//! ^ DisallowedMember Identifier 'constructor'
--- constructor in the parameter of a function, renamed
function f({ constructor: make }) { return make } //! DisallowedMember Member 'constructor'
--- constructor in the parameter of a method
const o = { m({ ['constructor']: make }) { return make } }; //! DisallowedMember Member 'constructor'
--- constructor in the parameter of a setter
const o = { set p({ constructor: make }) { } }; //! DisallowedMember Member 'constructor'
--- constructor in the default of a parameter
const f = (x = [].constructor) => x; //! DisallowedMember Member 'constructor'
--- constructor in the head of a loop
for (const { constructor: make } of ['x']) { } //! DisallowedMember Member 'constructor'
--- constructor assigned in the head of a loop
let make; for ({ constructor: make } of ['x']) { } //! DisallowedMember Member 'constructor'
--- constructor in a catch clause
try { throw 'x' } catch ({ constructor: make }) { } //! DisallowedMember Member 'constructor'
--- constructor in the rest of an array pattern
const [...{ constructor: make }] = 'x'; //! DisallowedMember Member 'constructor'
--- constructor as a variable
const constructor = 1; //! DisallowedMember Identifier 'constructor'
--- constructor as the name of a function
function constructor() { } //! DisallowedMember Identifier 'constructor'
--- constructor as the name of a class
class constructor { } //! DisallowedMember Identifier 'constructor'
--- constructor as the name of an inner function expression
const f = function constructor() { }; //! DisallowedMember Identifier 'constructor'
--- constructor as a parameter
const f = constructor => 1; //! DisallowedMember Identifier 'constructor'
--- constructor as a rest parameter
const f = (...constructor) => 1; //! DisallowedMember Identifier 'constructor'
--- constructor as what a catch clause names
try { } catch (constructor) { } //! DisallowedMember Identifier 'constructor'
--- constructor as a label
constructor: for (;;) break constructor; //! DisallowedMember Identifier 'constructor'
--- constructor as a key of an object
return { constructor: 1 }; //! DisallowedMember Member 'constructor'
--- constructor as a quoted key of an object
return { 'constructor': 1, "constructor": 2 }; //! DisallowedMember Member 'constructor'
//! ^ DisallowedMember Member 'constructor'
--- constructor as a computed key of an object
return { ['constructor']: 1, [`constructor`]: 2, ['con' + 'structor']: 3 }; //! DisallowedMember Member 'constructor'
//! ^ DisallowedMember Member 'constructor'
//! ^ DisallowedMember Member 'constructor'
--- constructor as the shorthand of an object
return { constructor }; //! DisallowedMember Identifier 'constructor'
--- constructor as a method of an object
return { constructor() { return 1 } }; //! DisallowedMember Member 'constructor'
--- constructor as a getter, a setter and a generator of an object
return { get constructor() { return 1 }, set constructor(x) { }, *constructor() { }, async constructor() { } }; //! DisallowedMember Member 'constructor'
//! ^ DisallowedMember Member 'constructor'
//! ^ DisallowedMember Member 'constructor'
//! ^ DisallowedMember Member 'constructor'
--- constructor as a static method of a class
class A { static constructor() { } } //! DisallowedMember Member 'constructor'
--- constructor as a quoted static field of a class
class A { static 'constructor' = 1 } //! SYNTAX_ERROR Classes may not have a field named 'constructor'
--- constructor as a computed method of a class
class A { ['constructor']() { } } //! DisallowedMember Member 'constructor'
--- constructor as a computed static field of a class
class A { static [`constructor`] = 1 } //! DisallowedMember Member 'constructor'
--- constructor as a private name
class A { #constructor = 1 } //! DisallowedMember Member 'constructor'
--- constructor as a getter of a class
class A { get constructor() { return 1 } } //! SYNTAX_ERROR Class constructor may not be an accessor
--- constructor as an async method of a class
class A { async constructor() { } } //! SYNTAX_ERROR Class constructor may not be an async method
--- constructor as a field of a class
class A { constructor = 1 } //! SYNTAX_ERROR Classes may not have a field named 'constructor'
--- constructor of super in a method
class A { m() { return super.constructor } } //! DisallowedMember Member 'constructor'
--- constructor of super in an object, computed
const o = { m() { return super['constructor'] } }; //! DisallowedMember Member 'constructor'
--- constructor deleted
delete [].constructor; //! DisallowedMember Member 'constructor'
--- constructor deleted behind an optional chain
delete []?.constructor; //! DisallowedMember Member 'constructor'
--- constructor counted up
[].constructor++; //! DisallowedMember Member 'constructor'
--- constructor assigned logically
[].constructor ??= 1; //! DisallowedMember Member 'constructor'
--- constructor as the target of a pattern
[[].constructor] = [1]; //! DisallowedMember Member 'constructor'
--- constructor in a for-of target
for ([].constructor of [1]) { } //! DisallowedMember Member 'constructor'
--- constructor inside a template's part
return `${[].constructor}`; //! DisallowedMember Member 'constructor'
--- constructor as an argument of typeof
return typeof [].constructor; //! DisallowedMember Member 'constructor'
--- constructor in a condition, a sequence and a spread
return [[].constructor ? 1 : (2, [].constructor), ...[[].constructor]]; //! DisallowedMember Member 'constructor'
//! ^ DisallowedMember Member 'constructor'
//! ^ DisallowedMember Member 'constructor'
--- constructor inside the key of a key
return {}[{}['constructor']]; //! DisallowedMember Member 'constructor'
--- __proto__ as a member, read and written
const o = {}; o.__proto__ = o.__proto__; //! DisallowedMember Member 'o.__proto__'
//! ^ DisallowedMember Member 'o.__proto__'
--- __proto__ as the key that sets a prototype
return { __proto__: [] }; //! DisallowedMember Member '__proto__'
--- __proto__ as the quoted key that sets a prototype
return { '__proto__': [] }; //! DisallowedMember Member '__proto__'
--- __proto__ as a shorthand
return { __proto__ }; //! DisallowedMember Identifier '__proto__'
--- __proto__ as a computed key
return { ['__proto__']: 1 }; //! DisallowedMember Member '__proto__'
--- __proto__ taken apart
const { __proto__: p } = {}; //! DisallowedMember Member '__proto__'
--- __proto__ as a class field and a private name
class A { __proto__ = 1; #__proto__ = 2 } //! DisallowedMember Member '__proto__'
//! ^ DisallowedMember Member '__proto__'
--- __proto__ in an optional call chain
return {}?.a?.__proto__?.b; //! DisallowedMember Member '__proto__'
--- prototype of an own class
class A { } A.prototype.m = () => 1; //! DisallowedMember Member 'A.prototype'
--- prototype of a function, computed
function F() { } return F['proto' + 'type']; //! DisallowedMember Member 'F.prototype'
--- prototype of a built-in
return Array.prototype.slice; //! DisallowedMember Member 'Array.prototype'
--- prototype assigned for other scripts to find
Object.prototype.polluted = 1; //! DisallowedMember Member 'Object.prototype'
--- prototype as a static member
class A { static prototype = 1 } //! SYNTAX_ERROR Classes may not have static property named prototype
--- the four that define and look up accessors
const o = {}; o.__defineGetter__; o.__defineSetter__; o.__lookupGetter__; o.__lookupSetter__; //! DisallowedMember Member 'o.__defineGetter__'
//! ^ DisallowedMember Member 'o.__defineSetter__'
//! ^ DisallowedMember Member 'o.__lookupGetter__'
//! ^ DisallowedMember Member 'o.__lookupSetter__'
--- __defineGetter__ as a string and in a pattern
const { __defineGetter__: define } = {}; return {}['__lookup' + 'Getter__']; //! DisallowedMember Member '__defineGetter__'
//! ^ DisallowedMember Member '__lookupGetter__'
--- __lookupGetter__ called with __proto__
return ({}).__lookupGetter__('__proto__'); //! DisallowedMember Member '__lookupGetter__'
--- never-names behind private members
class A { #a = 1; m() { return this.#a.constructor } } //! DisallowedMember Member 'this.a.constructor'
--- never-names behind await, yield and new
async function* f() { yield (await 1).constructor; return new (class {})().constructor } //! DisallowedMember Member 'constructor'
//! ^ DisallowedMember Member 'constructor'
--- never-names in the arguments of an import
import('x'.constructor); //! DisallowedSyntax Syntax 'import'
//! ^ DisallowedMember Member 'constructor'
--- never-names in every part of a for
for (let i = [].constructor; i.prototype; i = i.__proto__) { } //! DisallowedMember Member 'constructor'
//! ^ DisallowedMember Member 'i.prototype'
//! ^ DisallowedMember Member 'i.__proto__'
--- never-names in a switch
switch ([].constructor) { case [].prototype: default: [].__proto__ } //! DisallowedMember Member 'constructor'
//! ^ DisallowedMember Member 'prototype'
//! ^ DisallowedMember Member '__proto__'
--- a list of characters joined at run time finds nothing
const key = ['c', 'o', 'n', 's', 't', 'r', 'u', 'c', 't', 'o', 'r'].join('');
return typeof [][key]?.[key];
//= "undefined"
--- a name turned round at run time finds nothing
const key = [...'rotcurtsnoc'].reverse().join('');
try { return (() => 1)[key]('return 1')() } catch (e) { return 'nothing to call' }
//= "nothing to call"
--- a key taken from data finds nothing
const answer = await callTool('echo', { key: 'constructor' });
try { return (() => 1)[answer.key]('return 1')() } catch (e) { return 'nothing to call' }
//= "nothing to call"
--- __proto__ from data is a key like others
const answer = await callTool('echo', { key: '__proto__' });
const o = {};
o[answer.key] = { polluted: true };
return [o.polluted ?? null, ({}).polluted ?? null];
//= [null, null]
--- a sequence as a key, at run time
try { return (() => 1)[(0, 'constructor')]('return 1')() } catch (e) { return 'nothing to call' }
//= "nothing to call"
--- a condition as a key, at run time
try { return (async () => 1)[true ? 'constructor' : '']('return 1')() } catch (e) { return 'nothing to call' }
//= "nothing to call"
--- an object that turns into the key, at run time
const key = { toString: () => 'constructor' };
try { return (function* () { })[key]('yield 1')().next() } catch (e) { return 'nothing to call' }
//= "nothing to call"
--- an array that turns into the key, at run time
try { return (() => 1)[['constructor']]('return 1')() } catch (e) { return 'nothing to call' }
//= "nothing to call"
--- String.raw as a key, at run time
try { return (() => 1)[String.raw`constructor`]('return 1')() } catch (e) { return 'nothing to call' }
//= "nothing to call"
--- more parts than the guard puts together, at run time
const k = ''['c' + 'o' + 'n' + 's' + 't' + 'r' + 'u' + 'c' + 't' + 'o' + 'r' + '' + '' + '' + '' + '' + '' + '' + '' + '' + '' + ''
  + '' + '' + '' + '' + '' + '' + '' + '' + '' + '' + '' + '' + '' + '' + '' + '' + '' + '' + '' + '' + '' + ''];
try { return typeof k('return 1')() } catch (e) { return 'nothing to call' }
//= "nothing to call"
--- a rest pattern collects no never-names
const { ...all } = (() => 1);
return Object.keys(all);
//= []
--- a computed pattern key, at run time
const key = ['con', 'structor'].join('');
const { [key]: make } = () => 1;
try { return make('return 1')() } catch (e) { return 'nothing to call' }
//= "nothing to call"
--- a computed method name makes no constructor of an instance
const key = ['con', 'structor'].join('');
class A { [key]() { return 'mine' } }
return new A()[key]?.() ?? 'gone';
//= "mine"
--- names of one data object are free
const user = { process: 1, eval: 2, Function: 3, window: 4, callee: 5, global: 6 };
return user.process + user.eval + user.Function + user.window + user.callee + user.global;
//= 21
