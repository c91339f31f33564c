// What one script leaves for the next in the same worker: nothing. Each pair tries to leave something, then looks for it.
--- leaves properties on what all values share
const p = ['proto', 'type'].join('');
const left = [];
for (const Kind of [Object, Array, String, Promise, Error, Map]) { try { Kind[p].left = 'here'; left.push('yes'); } catch { left.push('no'); } }
return left.join(' ');
//= "no no no no no no"
--- finds none
// A promise whose property is read, and is not there, was not awaited: that throws.
const look = (v) => { try { return v.left ?? 'nothing'; } catch { return 'nothing'; } };
return [{}, [], '', Promise.resolve(), new Error(), new Map()].map(look).join(' ');
//= "nothing nothing nothing nothing nothing nothing"
--- leaves the state of a last match
return [/(s)(e)cret/.test('secret'), 'ok'];
//= [true, "ok"]
--- finds no last match
const [R] = [RegExp];
return ['$1', '$&', 'lastMatch', 'input', '$_', 'lastParen', 'leftContext'].filter((k) => R[k] !== undefined);
//= []
--- leaves a promise that is never settled
globalPromise: { const { promise } = Promise.withResolvers(); promise.then(() => callTool('echo', { left: true })); }
return 'left';
//= "left"
--- leaves jobs behind its result
const chain = async () => { for (let i = 0; i < 50; i++) await null; await callTool('echo', { late: true }); };
chain();
return 'left';
//= "left"
--- leaves a call that is still going
callTool('echo', { slow: true }).then(() => callTool('echo', { slower: true }));
return 'left';
//= "left"
--- finds its own count of calls
for (let i = 0; i < 100; i++) await callTool('echo', { i });
return 'all of them';
//= "all of them"
--- leaves a heap nearly full
const kept = [];
for (let i = 0; i < 500; i++) kept.push('x'.repeat(1e5) + i);
return kept.length;
//= 500
--- finds all of its own heap, and that nothing was full
const seen = [];
try { throw null; } catch (e) { seen.push(e); }
const kept = [];
for (let i = 0; i < 500; i++) kept.push('y'.repeat(1e5) + i);
try { throw null; } catch (e) { seen.push(e); }
return [kept.length, seen.length];
//= [500, 2]
--- leaves an overflow
const f = () => f() + 1;
return f();
//~ STACK_OVERFLOW
--- finds all of its own stack
const depth = (n) => (n === 0 ? 0 : 1 + depth(n - 1));
return depth(2000);
//= 2000
--- leaves symbols of its own
const s = Symbol('left');
const o = { [s]: 'here' };
return [Object.keys(o), o[s]];
//= [[], "here"]
--- finds no registry of symbols
const [S] = [Symbol];
return [typeof S['f' + String('or')], typeof S['key' + String('For')]];
//= ["undefined", "undefined"]
--- leaves variables that would be global elsewhere
var left = 'here';
function leftToo() { return left; }
return leftToo();
//= "here"
--- finds no such variables
return [typeof left, typeof leftToo]; //! DisallowedGlobal
//! ^ DisallowedGlobal
