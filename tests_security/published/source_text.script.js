// Holes that are in the text and not in what it means: characters nobody sees, letters that look like others, comments
// that only one of two readers takes for comments.
--- CVE-2021-42574 Trojan Source: an early return by an isolate
//@ hint: Trojan Source, stretched string
const access = 'user⁦// only admins⁩'; //! UnsafeSource Script has the bidirectional control U+2066
//! ^ UnsafeSource Script has the bidirectional control U+2069
return access;
--- CVE-2021-42574 Trojan Source: an override in a comment
//@ hint: Trojan Source, commenting out
/*‮ } ⁦if (isAdmin)⁩ ⁦ begin admins only */ const admin = true; //! UnsafeSource Script has the bidirectional control U+202E
//! ^ UnsafeSource Script has the bidirectional control U+2066
//! ^ UnsafeSource Script has the bidirectional control U+2069
//! ^ UnsafeSource Script has the bidirectional control U+2066
return admin;
--- CVE-2021-42574 Trojan Source: a mark in a regular expression
//@ hint: Trojan Source, in a literal of another kind
return /a‏b/.test('ab'); //! UnsafeSource Script has the bidirectional control U+200F
--- CVE-2021-42694 homoglyphs: two names that look the same
//@ hint: homoglyphs in names
const scоpe = 1, scope = 2; //! UnsafeSource Script has a name of mixed alphabets: scоpe
return scоpe; //! UnsafeSource Script has a name of mixed alphabets: scоpe
--- CVE-2021-42694 homoglyphs: the name of a runtime function in other letters
//@ hint: homoglyphs in names
const callTоol = async () => 'mine'; //! UnsafeSource Script has a name of mixed alphabets: callTоol
return await callTоol('echo', {}); //! UnsafeSource Script has a name of mixed alphabets: callTоol
--- CVE-2021-42574 Trojan Source: a name that nobody sees
//@ hint: an invisible letter as a parameter, the back door of Certitude's report of 2021
const { a, ㅤ } = { a: 1 }; //! UnsafeSource Script has the invisible character U+3164
return a;
--- zero-width characters split a forbidden name
//@ hint: zero-width space and joiner inside eval
return ev​al('1'); //! UnsafeSource Script has the invisible character U+200B
--- a byte order mark inside the code
//@ hint: white space to the engine, nothing to the eye
return﻿ 1; //! UnsafeSource Script has the invisible character U+FEFF
--- a line separator ends a comment for one reader only
//@ hint: U+2028 in a line comment; this project's own review found it
// comment   globalThis.x = 1 //! UnsafeSource Script has the line separator U+2028
return 1;
--- a line separator inside a string
//@ hint: U+2028 in a string, legal since 2019
return 'a b'; //! UnsafeSource Script has the line separator U+2028
--- tag characters carry a hidden text
//@ hint: U+E0000 block, used to smuggle prompts
const note = 1; // 󠁁󠁂󠁃 //! UnsafeSource Script has the invisible character U+E0041
//! ^ UnsafeSource Script has the invisible character U+E0042
//! ^ UnsafeSource Script has the invisible character U+E0043
return note;
--- variation selectors carry a hidden text
//@ hint: U+FE00 and U+E0100, one byte a selector
const note = 1; // x󠄀󠄁 //! UnsafeSource Script has the invisible character U+E0100
//! ^ UnsafeSource Script has the invisible character U+E0101
return note;
--- an HTML-like comment closes at the start of a line, behind a block comment
//@ hint: Annex B, SingleLineHTMLCloseComment
return 1
/* a
*/ --> globalThis.x //! UnsafeSource Script has the HTML-like comment -->
--- a hashbang behind a comment
//@ hint: a first line that some readers take for a comment
#!/usr/bin/env node //! SYNTAX_ERROR Unexpected token ILLEGAL at line 2
return 1;
--- an escape in a keyword
//@ hint: r\u0065turn and its kin: keywords must not have escapes
r\u0065turn 1; //! SYNTAX_ERROR Keyword must not contain escaped characters at line 2
--- a regular expression that begins behind a bracket
//@ hint: slash ambiguity: division for one reader, a pattern for the other; found by this project's review
const a = 1, g = 2;
const f = (x) => { if (x) /a/g; return x };
return f(a / g / 1);
//= 0.5
--- a division behind a block that is an expression
//@ hint: slash ambiguity
const g = 2;
return ({ valueOf: () => 8 }) / g / 2;
//= 2
--- await as a name turns a division into a pattern
//@ hint: slash ambiguity by `await`; found by this project's review
function f(await) { return await /1/g } //! DisallowedSyntax Identifier 'await' is not allowed
//! ^ DisallowedGlobal Unknown name 'g'
return f(1);
--- a template inside a template inside a template
//@ hint: a scanner that loses count of the brackets
const t = (...parts) => parts.length;
return `${`${`${t`a${1}b${`}`}c`}`}`}`;
//= "3"
--- sourceURL and sourceMappingURL
//@ hint: comments that tell an engine what a script's name is; V8 puts it into stacks
//# sourceURL=/etc/passwd
//# sourceMappingURL=data:application/json,{}
try { null.x } catch (error) { return /passwd/.test(error.stack) }
//= false
