// Code that hides behind types: what one reader takes for a type, another would run.
--- behind a comma
let a: any = 1, b = 2;
a as any, eval('1'); //! IllegalBuiltinAccess Identifier 'eval'
--- in the default of a parameter
function f(a: number = eval('1')): number { return a } //! IllegalBuiltinAccess Identifier 'eval'
--- in the key of a field with a type
class A { [eval('1')]: number = 1 } //! IllegalBuiltinAccess Identifier 'eval'
--- in the value of a field that is readonly
class A { private readonly a: Function = eval; } //! IllegalBuiltinAccess Identifier 'eval'
--- in the heritage of a class with type arguments
class A extends (eval as any)<string> {} //! DisallowedSyntax Syntax 'extends eval'
//! ^ IllegalBuiltinAccess Identifier 'eval'
--- behind a type assertion
const a = <any>eval; //! IllegalBuiltinAccess Identifier 'eval'
--- called with type arguments
const a: number = (eval)<string>('1'); //! IllegalBuiltinAccess Identifier 'eval'
--- asserted not to be null
const a: number = eval!('1'); //! IllegalBuiltinAccess Identifier 'eval'
--- a member of a never-name, asserted
const a: any = ((x: any) => x)!.constructor!('return 1')(); //! DisallowedMember Member 'constructor'
--- in a template between types
const a: string = `${eval('1') as string}`; //! IllegalBuiltinAccess Identifier 'eval'
--- in a template that is a type, and in the code behind it
type T = `${string}`; eval('`'); //! IllegalBuiltinAccess Identifier 'eval'
--- behind a comment that ends in a type
let a: /* { */ number /* } */ = eval; /* */ //! IllegalBuiltinAccess Identifier 'eval'
--- behind a regular expression that looks like the end of a type
const r: RegExp = />/; eval('1'); //! IllegalBuiltinAccess Identifier 'eval'
--- behind a division that looks like a regular expression
let a: number = 4, g = 1; a = a / 2; eval('1'); a = a /g; //! IllegalBuiltinAccess Identifier 'eval'
--- behind a type at the end of a line
let a: any = 1; let eval2: any = 2;
a = eval2 as any
eval('1') //! IllegalBuiltinAccess Identifier 'eval'
--- where the next line would be a part of the type
let a: any = 1; const b = { c: 1 };
a = b as any
['c'] //! DisallowedSyntax Syntax 'type at the end of a line'
--- where the next line would be the arguments of a call
let a: any = 1; const b: any = (x: any) => x;
a = b as any
(eval) //! DisallowedSyntax Syntax 'type at the end of a line'
--- behind an interface on one line
interface A { b: string } eval('1'); //! IllegalBuiltinAccess Identifier 'eval'
--- behind a type alias without a semicolon
type A = string
eval('1'); //! IllegalBuiltinAccess Identifier 'eval'
--- the body of a declared function is a part of it, and gone
declare function f(): void
{ callTool('secret:read'); eval('1') }
return 1;
//= 1
--- a signature with a body of its own
function f(a: number): void; { eval('1') } //! IllegalBuiltinAccess Identifier 'eval'
--- a meta-tool behind a type
await callTool<any>('codecall:execute' as string, {}); //! SELF_REFERENCE_BLOCKED Cannot call CodeCall tools
--- a meta-tool with type arguments that are names of values
await callTool<Date>('codecall:execute', {}); //! SELF_REFERENCE_BLOCKED Cannot call CodeCall tools
--- a name of the runtime, declared with a type
const __ag_s: number = 0; //! ReservedPrefix Identifier '__ag_s'
--- a built-in, declared for types only
declare const eval: any; return eval('1'); //! IllegalBuiltinAccess Identifier 'eval'
--- a name that is hidden by an import of types
import type { eval } from 'x'; return eval('1'); //! IllegalBuiltinAccess Identifier 'eval'
--- an enum that computes
enum A { B = eval('1') } //! DisallowedSyntax Syntax 'enum'
--- a namespace with code
namespace A { export const b = eval('1') } //! DisallowedSyntax Syntax 'namespace'
--- a declared namespace with code in it is a type, and gone
declare namespace A { const b = eval; }
return 1;
//= 1
--- the default of a parameter within a type is a type, and gone
let f: (a: any) => typeof eval;
return f === undefined;
//= true
--- a decorator
function d(x: any) { return x }
@d class A {} //! DisallowedSyntax Syntax 'decorator'
--- a parameter that becomes a field
class A { constructor(public constructor2: any) {} } //! DisallowedSyntax Syntax 'parameter property'
--- an overload of a constructor that hides one
class A { constructor(a: string); constructor(a: any) { this.a = eval } } //! IllegalBuiltinAccess Identifier 'eval'
--- an index signature that looks like a computed field
class A { [a: string]: any; ['b']: any = eval } //! IllegalBuiltinAccess Identifier 'eval'
--- a getter that a field without its type would become
class A { get: any
  eval() { return 1 } }
return new A().eval();
//= 1
--- an invisible character in a type
let a: Str​ing = 'b'; //! UnsafeSource Script has the invisible character U+200B
--- the reading order turned within a type
let a: 'b‮c' = 'b'; //! UnsafeSource Script has the bidirectional control U+202E
--- a code fence that ends within a template
```js
return `
```
`; eval('1');
``` //! SYNTAX_ERROR
