// Classes: what they may extend, and what hides in their parts.
--- extending a built-in
class A extends Map { } class B extends Promise { } class C extends Array { } class D extends Function { } //! DisallowedSyntax Syntax 'extends Map'
//! ^ DisallowedSyntax Syntax 'extends Promise'
//! ^ DisallowedSyntax Syntax 'extends Array'
//! ^ DisallowedSyntax Syntax 'extends Function'
//! ^ IllegalBuiltinAccess Identifier 'Function'
--- extending a refused name
class A extends Proxy { } //! DisallowedSyntax Syntax 'extends Proxy'
//! ^ IllegalBuiltinAccess Identifier 'Proxy'
--- extending null
class A extends null { } //! DisallowedSyntax Syntax 'extends'
--- extending a call
const mix = x => x; class A extends mix(Map) { } //! DisallowedSyntax Syntax 'extends'
--- extending a member
const o = { M: Map }; class A extends o.M { } //! DisallowedSyntax Syntax 'extends'
--- extending a function
function F() { } class A extends F { } //! DisallowedSyntax Syntax 'extends F'
--- extending an arrow function and a condition
class A extends (() => 1) { } class B extends (true ? Map : Set) { } //! DisallowedSyntax Syntax 'extends'
//! ^ DisallowedSyntax Syntax 'extends'
--- extending a sequence, an await, a template
class A extends (0, Map) { } class B extends (await Map) { } class C extends `x` { } //! DisallowedSyntax Syntax 'extends'
//! ^ DisallowedSyntax Syntax 'extends'
//! ^ DisallowedSyntax Syntax 'extends'
--- extending an anonymous class that extends a built-in
class A extends (class extends Map { }) { } //! DisallowedSyntax Syntax 'extends'
//! ^ DisallowedSyntax Syntax 'extends Map'
--- extending a built-in in a class expression
const A = class extends Promise { }; const B = class C extends Array { }; //! DisallowedSyntax Syntax 'extends Promise'
//! ^ DisallowedSyntax Syntax 'extends Array'
--- extending a name of the script that is no class
const M = Map; class A extends M { } //! DisallowedSyntax Syntax 'extends M'
--- extending a class that is a parameter
const f = Base => class extends Base { }; return f(Map); //! DisallowedSyntax Syntax 'extends Base'
--- extending a class whose name was assigned to
class A { } A = Map; class B extends A { } //! DisallowedSyntax Syntax 'extends A'
--- extending a class whose name is assigned to later
let A = class { }; const make = () => class extends A { }; A = Promise; make(); //! DisallowedSyntax Syntax 'extends A'
--- extending a class whose name a pattern assigns to
let A = class { }; [A] = [Map]; class B extends A { } //! DisallowedSyntax Syntax 'extends A'
--- extending a class whose name an object pattern assigns to
let A = class { }; ({ a: A = 1 } = { a: Promise }); class B extends A { } //! DisallowedSyntax Syntax 'extends A'
--- extending a class whose name a loop assigns to
let A = class { }; for (A of [Array]) { } class B extends A { } //! DisallowedSyntax Syntax 'extends A'
--- extending a class whose name a logical assignment changes
let A = class { }; A &&= Map; class B extends A { } //! DisallowedSyntax Syntax 'extends A'
--- extending a class that a var declares again
var A = class { }; var A = Map; class B extends A { } //! DisallowedSyntax Syntax 'extends A'
--- extending a class that a loop's var declares again
var A = class { }; for (var A of [Map]) { } class B extends A { } //! DisallowedSyntax Syntax 'extends A'
--- extending a parameter that a var of the body declares as a class
function f(A) { if (false) { var A = class { } } return class extends A { } } return f(Map); //! DisallowedSyntax Syntax 'extends A'
--- extending a class of an outer scope that an inner name hides
class A { } { const A = Map; class B extends A { } } //! DisallowedSyntax Syntax 'extends A'
--- extending a class that a parameter hides
class A { } const f = (A) => class extends A { }; //! DisallowedSyntax Syntax 'extends A'
--- extending a class that a catch clause hides
class A { } try { throw Map } catch (A) { class B extends A { } } //! DisallowedSyntax Syntax 'extends A'
--- extending a class that a function hides
class A { } { function A() { } class B extends A { } } //! DisallowedSyntax Syntax 'extends A'
--- extending a class from inside a default, where the name is another
class A { } const f = (A = Map, B = class extends A { }) => B; //! DisallowedSyntax Syntax 'extends A'
--- extending an error, and an error of one's own
class E extends TypeError { } class F extends E { get name() { return 'F' } }
return new F('x').name;
//= "F"
--- extending an error does not reach its constructor
class E extends Error { make() { return super.constructor } } //! DisallowedMember Member 'constructor'
--- a subclass whose constructor returns something else
class A { } class B extends A { constructor() { super(); return Math } }
return new B() === Math;
//= true
--- a subclass that does not call super
class A { } class B extends A { constructor() { } }
new B();
//~ EXECUTION_ERROR this is not initialized
--- the parent of a class at run time is not the function constructor
class A { } class B extends A { static up() { return typeof super.call } }
try { return B.up() } catch (e) { return e.name }
//= "function"
--- super in a static method leads to no prototype
class A { static m(k) { return typeof super[k] } }
return [A.m(['proto', 'type'].join('')), A.m(['con', 'structor'].join(''))];
//= ["undefined", "undefined"]
--- private names that look like never-names
class A { #prototype; #__proto__() { } static #constructor = 1 } //! DisallowedMember Member 'prototype'
//! ^ DisallowedMember Member '__proto__'
//! ^ DisallowedMember Member 'constructor'
--- a private name in an operator
class A { #a; static is(x) { return #a in x } }
return [A.is(new A()), A.is({})];
//= [true, false]
--- a private name of another class
class A { #a = 1 } class B { m(x) { return x.#a } }
//~ SYNTAX_ERROR undefined private field '#a'
--- a computed key that runs code once
let n = 0; class A { [n++]() { } static [n++] = 1; [eval] = 2 } //! IllegalBuiltinAccess Identifier 'eval'
--- this in a computed key at top level
class A { [this.x]() { } } //! IllegalBuiltinAccess Identifier 'this'
--- this in a field and a static block is the class's own
class A { x = typeof this; static y = typeof this; static z; static { A.z = typeof this } }
return [new A().x, A.y, A.z];
//= ["object", "function", "function"]
--- arguments in a field and a static block
class A { x = arguments; static { arguments } } //! IllegalBuiltinAccess Identifier 'arguments'
//! ^ IllegalBuiltinAccess Identifier 'arguments'
--- arguments in a field inside a function
function f() { return class { x = () => arguments } } //! IllegalBuiltinAccess Identifier 'arguments'
--- return in a static block
class A { static { return 1 } }
//~ SYNTAX_ERROR return in a static initializer block
--- await in a static block
class A { static { await 1 } } //! SYNTAX_ERROR Unexpected number
--- a class called without new
class A { } return A();
//~ EXECUTION_ERROR class constructors must be invoked with 'new'
--- a class's own name cannot be changed from inside
const C = class D { static m() { D = 1 } };
try { C.m() } catch (e) { return e.name }
//= "TypeError"
--- a getter that pretends to be a promise
class A { get then() { return eval } } //! IllegalBuiltinAccess Identifier 'eval'
--- instanceof does not ask the script
class A { static [Symbol.hasInstance]() { return true } } //! DisallowedMember Member 'Symbol.hasInstance'
--- a class that pretends to be another kind
class A { get [Symbol.toStringTag]() { return 'Array' } } //! DisallowedMember Member 'Symbol.toStringTag'
--- fields run in order and see no runtime names
class A { a = 1; b = this.a + __ag_s } //! ReservedPrefix Identifier '__ag_s'
--- accessors of one name as static and own
class A { static get x() { return eval } static set x(v) { } get x() { return 1 } } //! IllegalBuiltinAccess Identifier 'eval'
--- never-names as private names in an operator
class A { static is(x) { return #constructor in x || #__proto__ in x } } //! DisallowedMember Member 'constructor'
//! ^ DisallowedMember Member '__proto__'
