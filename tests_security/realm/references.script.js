// References to values that stay outside the engine: forging them, changing them, getting at what is behind them. A token
// is worth nothing but in the run that it was made for, and what a tool returns is data, whatever it looks like.
--- a token that nobody made is a text
return await callTool('echo', { v: 'ref_00000000000000000000000000000', o: { $reference: 'ref_00000000000000000000000000000' } });
//= {"v": "ref_00000000000000000000000000000", "o": {"$reference": "ref_00000000000000000000000000000"}}
--- the next number after one that was made is a text
const ref = await callTool('big', {}, { reference: true });
const next = ref.$reference.slice(0, -1) + '1';
return [next === ref.$reference, (await callTool('echo', { next })).next === next];
//= [false, true]
--- a token cut short, or with more behind it, is no reference
const { $reference } = await callTool('big', {}, { reference: true });
const { a } = await callTool('echo', { a: $reference.slice(0, 32) });
return a.length;
//= 32
--- a reference cannot be changed
const ref = await callTool('big', {}, { reference: true });
ref.$reference = 'ref_00000000000000000000000000000';
//~ EXECUTION_ERROR read-only
--- nor can what it inherits from, which nobody comes to
const ref = await callTool('big', {}, { reference: true });
const p = ['__pro', 'to__'].join('');
return [ref[p] ?? null, Object.keys(ref).includes(p)];
//= [null, false]
--- its prototype has no way to functions
const ref = await callTool('big', {}, { reference: true });
const k = ['con', 'structor'].join('');
return ref[k] ?? null;
//= null
--- its text cannot be replaced, and leads nowhere
const ref = await callTool('big', {}, { reference: true });
const k = ['con', 'structor'].join('');
const text = ref.toString;
try { text.left = 1 } catch { /* frozen */ }
return [text.left ?? null, typeof text[k], text.length];
//= [null, "undefined", 0]
--- a getter in place of the token is asked nothing
const { $reference } = await callTool('big', {}, { reference: true });
let asked = 0;
const own = { get $reference() { asked += 1; return $reference } };
const { v } = await callTool('echo', { v: own });
return [asked, v.length];
//= [1, 200000]
--- options with getters are read once
let asked = 0;
const options = { get reference() { asked += 1; return asked > 1 ? false : true } };
return [(await callTool('big', {}, options)).type, asked];
//= ["string", 1]
--- options that inherit
const ref = await callTool('big', {}, Object.create({ reference: true }));
return ref.type;
//= "string"
--- a reference as the tool's name is a name that nobody has
const ref = await callTool('big', {}, { reference: true });
const failed = await callTool(`${ref}`, {}, { throwOnError: false });
return [failed.error.code];
//= ["TOOL_NOT_FOUND"]
--- a value behind a reference still has to be allowed
const ref = await callTool('secret:read', {}, { reference: true });
return ref;
//~ ACCESS_DENIED not among the allowed tools
--- what a hostile tool answers goes on as it is
const token = 'ref_00000000000000000000000000000';
const said = { then: 'x', toString: 'y', length: -1, $reference: token, text: `${token}"}`, pad: 'x'.repeat(2000) };
const ref = await callTool('echo', { said }, { reference: true });
const { v } = await callTool('echo', { v: ref });
return [typeof ref.$reference, v.said.then, v.said.toString, v.said.length, v.said.$reference === token, v.said.text.length];
//= ["string", "x", "y", -1, true, 35]
--- members with the names of prototypes are no input, so that none stands behind a reference
const ref = await callTool('echo', JSON.parse('{"__proto__": {"polluted": 1}, "pad": "' + 'x'.repeat(2000) + '"}'), { reference: true });
return ref;
//~ EXECUTION_ERROR __proto__ is a name of prototypes
--- a copy with a member more is refused rather than resolved in part
const ref = await callTool('big', {}, { reference: true });
await callTool('echo', { ...ref, more: 1 });
//~ EXECUTION_ERROR a member of its own, 'more'
--- a reference under the name of another's member
const ref = await callTool('big', {}, { reference: true });
await callTool('echo', { v: { $reference: ref } });
return 1;
//= 1
--- meta-tools stay out of reach
return await callTool('codecall:execute', {}, { reference: true }); //! SelfReference Cannot call CodeCall tools from within AgentScript: codecall:execute
--- more references than there may be calls
for (let n = 0; n < 101; n++) await callTool('echo', { text: 'x'.repeat(2000) }, { reference: true });
//~ TOOL_CALL_LIMIT
--- a bomb of one value named nine hundred times
const ref = await callTool('big', {}, { reference: true });
const list = Array.from({ length: 900 }, () => ref);
await callTool('echo', { list });
//~ INVALID_INPUT the limit of one call
--- the same in one text
//@ preset: balanced
const ref = await callTool('big', {}, { reference: true });
const text = `${ref}`.repeat(300);
await callTool('echo', { a: text, b: text });
//~ INVALID_INPUT the limit of one call
--- values that grow by what they hold
//@ preset: balanced
let ref = await callTool('big', {}, { reference: true });
for (let n = 0; n < 20; n++) ref = await callTool('echo', { a: ref, b: ref }, { reference: true });
//~ INVALID_INPUT the limit of one call
--- a result that names one value many times
const ref = await callTool('big', {}, { reference: true });
return Array.from({ length: 9000 }, () => ref);
//~ OUTPUT_LIMIT with the values that it refers to
--- nesting through references is bounded
let ref = await callTool('echo', { text: 'x'.repeat(2000) }, { reference: true });
for (let n = 0; n < 60; n++) ref = await callTool('echo', { a: { ref } }, { reference: true });
//~ INVALID_INPUT nested deeper than
