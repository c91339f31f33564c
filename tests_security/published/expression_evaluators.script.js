// Evaluators of expressions and templates that take JavaScript apart themselves: safe-eval, safer-eval, static-eval,
// notevil, expr-eval, jsonpath-plus, mathjs, angular-expressions, handlebars, lodash … Their holes are names the walker
// did not look at, values it did not expect, and functions it let pass.
--- CVE-2017-16088: safe-eval and a constructor of the context
//@ hint: safe-eval <= 0.3.0
return this.constructor.constructor('return process')().pid; //! IllegalBuiltinAccess Identifier 'this' is not allowed
//! ^ DisallowedMember Member 'this.constructor' is not allowed
//! ^ DisallowedMember Member 'this.constructor.constructor' is not allowed
--- CVE-2017-16088: safe-eval by way of delete
//@ hint: safe-eval, variant: what one takes away, the prototype has again
const f = () => 1;
delete f.constructor; //! DisallowedMember Member 'f.constructor' is not allowed
return f.constructor; //! DisallowedMember Member 'f.constructor' is not allowed
--- CVE-2022-25904: safe-eval and __proto__ of the context
//@ hint: safe-eval, all versions
const key = '__proto__';
codecallContext[key];
return codecallContext.__proto__; //! DisallowedMember Member 'codecallContext.__proto__' is not allowed
--- CVE-2023-26121: safe-eval and the prototype of what import() gives
//@ hint: safe-eval, all versions
return import('').catch((error) => error.constructor); //! DisallowedSyntax Syntax 'import' is not allowed
//! ^ DisallowedMember Member 'error.constructor' is not allowed
--- CVE-2023-26122: safe-eval and methods that lead to the caller
//@ hint: safe-eval, all versions; hasOwnProperty, isPrototypeOf, toLocaleString, valueOf as ways to throw a host's error
const o = {};
const names = ['hasOwnProperty', 'isPrototypeOf', 'propertyIsEnumerable', 'toLocaleString', 'toString', 'valueOf'];
const key = ['constr', 'uctor'].join('');
return names.map((name) => typeof o[name]?.[key]).filter((kind) => kind !== 'undefined');
//= []
--- CVE-2019-10759: safer-eval and an error thrown by the engine
//@ hint: safer-eval < 1.3.4
const dive = () => dive();
try { dive() } catch (error) { return error[['constr', 'uctor'].join('')] }
//~ STACK_OVERFLOW
--- CVE-2019-10760: safer-eval and the constructor of a built-in function
//@ hint: safer-eval < 1.3.2
const map = [].map;
return map.constructor('return process')(); //! DisallowedMember Member 'map.constructor' is not allowed
--- CVE-2019-10769: safer-eval and the prototype of an async function
//@ hint: safer-eval, all versions
return (async () => {}).__proto__.constructor; //! DisallowedMember Member '__proto__' is not allowed
//! ^ DisallowedMember Member 'constructor' is not allowed
--- CVE-2019-10758: mongo-express and toBSON by safer-eval
//@ hint: mongo-express < 0.54.0; a query was a script
const query = this.constructor.constructor("return process.mainModule.require('child_process')"); //! IllegalBuiltinAccess Identifier 'this' is not allowed
//! ^ DisallowedMember Member 'this.constructor' is not allowed
//! ^ DisallowedMember Member 'this.constructor.constructor' is not allowed
return query;
--- CVE-2017-16226: static-eval and a function's body
//@ hint: static-eval <= 1.1.1; a function expression was rebuilt with Function
const f = function () { return this };
return typeof f();
//= "undefined"
--- CVE-2021-23334: static-eval and a parameter's default
//@ hint: static-eval, all versions; defaults and computed keys were not walked
const f = (a = (() => 1).constructor, { b = ''.constructor } = {}) => a; //! DisallowedMember Member 'constructor' is not allowed
//! ^ DisallowedMember Member 'constructor' is not allowed
return f();
--- static-eval: a tagged template whose tag is a string's method
//@ hint: static-eval, technique; a member of a literal called as a tag
return ''.sub.constructor`return process``${1}`; //! DisallowedMember Member 'constructor' is not allowed
--- CVE-2021-23771: notevil and __proto__ in an assignment target
//@ hint: notevil, argencoders-notevil; pollution through a chain of members
const target = {};
target['__proto__']['polluted'] = 'yes'; //! DisallowedMember Member 'target.__proto__' is not allowed
return ({}).polluted;
--- notevil: pollution through a computed chain
//@ hint: notevil, technique behind CVE-2021-23771
const target = {};
const steps = [['__proto__'], ['constructor', 'prototype']];
const outcomes = steps.map((path) => { try { path.reduce((value, key) => value[key], target).polluted = 1; return 'wrote' } catch (error) { return error.name } });
return [outcomes, ({}).polluted === undefined];
//= [["TypeError", "TypeError"], true]
--- CVE-2025-12735: expr-eval and functions among the variables
//@ hint: expr-eval <= 2.0.2, GHSA-jc85-fpwf-qm7x; a function in the context was called
const context = Object.values(codecallContext);
const dive = (value) => typeof value === 'function' || (typeof value === 'object' && value !== null && Object.values(value).some(dive));
return [dive(codecallContext), dive(await callTool('hostile', {})), dive(getTool('echo') ?? {})];
//= [false, false, false]
--- CVE-2025-13204: expr-eval and pollution through a member
//@ hint: expr-eval <= 2.0.2
const x = {};
x.__proto__.toString = () => 'polluted'; //! DisallowedMember Member 'x.__proto__' is not allowed
return String({});
--- CVE-2024-21534: jsonpath-plus evaluates a path
//@ hint: jsonpath-plus < 10.0.7; a path is code for Node's vm
return await callTool('echo', { path: '$[?(constructor.constructor("return process")())]' });
//= {"path": "$[?(constructor.constructor(\"return process\")())]"}
--- CVE-2025-1302: jsonpath-plus in its safe mode
//@ hint: jsonpath-plus < 10.3.0; assignment through a name that was not checked
const o = {};
const { ['__proto__']: proto } = o; //! DisallowedMember Member '__proto__' is not allowed
return proto;
--- CVE-2017-1001002: mathjs and a typed function by name
//@ hint: mathjs < 3.17.0
const cos = Math.cos;
return cos.constructor("return process")(); //! DisallowedMember Member 'cos.constructor' is not allowed
--- CVE-2017-1001003: mathjs and the name constructor written with an escape
//@ hint: mathjs < 3.17.0
const cos = Math.cos;
return cos.\u0063onstructor; //! DisallowedMember Member 'cos.constructor' is not allowed
//! ^ UnsafeSource Script has a unicode escape in a name
--- mathjs: the name constructor written with a braced escape
//@ hint: mathjs, technique behind CVE-2017-1001003
const cos = Math.cos;
return cos.c\u{6f}nstructor('return 1'); //! DisallowedMember Member 'cos.constructor' is not allowed
//! ^ UnsafeSource Script has a unicode escape in a name
--- CVE-2020-5219: angular-expressions and names of the prototype
//@ hint: angular-expressions < 1.0.1
return 'x'.constructor.prototype.charAt = [].join; //! DisallowedMember Member 'constructor' is not allowed
//! ^ DisallowedMember Member 'prototype' is not allowed
--- CVE-2021-21277: angular-expressions and fields that shadow
//@ hint: angular-expressions < 1.1.2; a scope without own keys fell back to the prototype
const scope = Object.create(null);
const names = ['constructor', '__proto__', 'hasOwnProperty', 'toString'].map((key) => scope[key]);
return names;
//= [null, null, null, null]
--- CVE-2024-54152: angular-expressions and __proto__ in a list of arguments
//@ hint: angular-expressions < 1.4.3
const f = (__proto__) => __proto__.constructor; //! DisallowedMember Identifier '__proto__' is not allowed
//! ^ DisallowedMember Identifier '__proto__' is not allowed
//! ^ DisallowedMember Member '__proto__.constructor' is not allowed
return f(() => 1);
--- AngularJS: toString of a string is replaced while an expression runs
//@ hint: AngularJS 1.x sandbox escapes, charAt replaced by join
const outcomes = [];
const S = [String][0];
try { S[['proto', 'type'].join('')].charAt = [].join } catch (error) { outcomes.push(error.name) }
return [outcomes, 'abc'.charAt(1)];
//= [["TypeError"], "b"]
--- CVE-2021-23369: handlebars compiles a template with lookup
//@ hint: handlebars < 4.7.7; prototype access when compiling strictly
const lookup = (o, key) => o[key];
return lookup(lookup(() => 1, ['constr', 'uctor'].join('')) ?? {}, 'name') === undefined;
//= true
--- CVE-2019-19919: handlebars and __defineGetter__
//@ hint: handlebars < 4.3.0
const o = {};
o.__defineGetter__('undefined', () => 'valueOf'); //! DisallowedMember Member 'o.__defineGetter__' is not allowed
return o;
--- CVE-2021-23337: lodash.template makes code of options
//@ hint: lodash < 4.17.21; `variable` went into the source of a Function
const template = new Function('with(obj){ return 1 }'); //! IllegalBuiltinAccess Identifier 'Function' is not allowed
return template();
--- CVE-2021-23358: underscore makes code of a template's variable
//@ hint: underscore < 1.12.1
const compile = (text) => Function('obj', 'return ' + text); //! IllegalBuiltinAccess Identifier 'Function' is not allowed
return compile('1')();
--- CVE-2020-7677: thenify makes code of a function's name
//@ hint: thenify < 3.3.1; a name was put into eval
const o = { ['f(){};1/*']: function () {} };
const named = Object.values(o)[0];
return [named.name, String(named)];
//= ["f(){};1/*", "function () { [native code] }"]
--- CVE-2022-21122: metacalc and Math's constructor
//@ hint: metacalc < 0.0.2
return Math.constructor.constructor('return process')(); //! DisallowedMember Member 'Math.constructor' is not allowed
//! ^ DisallowedMember Member 'Math.constructor.constructor' is not allowed
--- CVE-2022-29078: ejs and options from outside
//@ hint: ejs < 3.1.7; outputFunctionName became code
return await callTool('echo', { settings: { 'view options': { outputFunctionName: 'x;process.exit();s' } } });
//= {"settings": {"view options": {"outputFunctionName": "x;process.exit();s"}}}
--- CVE-2017-5941: node-serialize runs a function found in data
//@ hint: node-serialize 0.0.4; `_$$ND_FUNC$$_` in JSON
const value = JSON.parse('{"rce":"_$$ND_FUNC$$_function (){ return 1 }()"}');
return [typeof value.rce, typeof structuredClone(value).rce];
//= ["string", "string"]
--- CVE-2024-27307: jsonata transforms change Object's prototype
//@ hint: jsonata < 1.8.7 and < 2.0.4
const patch = JSON.parse('{"__proto__": {"polluted": 1}, "constructor": {"prototype": {"polluted": 1}}}');
const merged = { ...patch }, assigned = Object.assign({}, patch), cloned = structuredClone(patch);
return [({}).polluted === undefined, merged.polluted === undefined, assigned.polluted === undefined, cloned.polluted === undefined];
//= [true, true, true, true]
--- CVE-2019-7609: Kibana Timelion sets a property of the prototype
//@ hint: Kibana < 5.6.15 and < 6.6.1; .props(label.__proto__.env.NODE_OPTIONS='…')
const label = {};
label.__proto__.env = { NODE_OPTIONS: '--require /proc/self/environ' }; //! DisallowedMember Member 'label.__proto__' is not allowed
return ({}).env;
--- CVE-2021-23406: pac-resolver runs a proxy's configuration
//@ hint: pac-resolver < 5.0.0, degenerator < 3.0.1
const FindProxyForURL = () => this.constructor.constructor('return process')(); //! IllegalBuiltinAccess Identifier 'this' is not allowed
//! ^ DisallowedMember Member 'this.constructor' is not allowed
//! ^ DisallowedMember Member 'this.constructor.constructor' is not allowed
return FindProxyForURL();
