// Stuck in the engine's own loops, where no counter of ours stands: the watchdog ends them, as TIMEOUT. Not named
// *.script.js, since under a preset's own time limit each would take seconds: test_stuck.py runs them under a short one.
--- sort of long strings that differ at their end
const text = 'x'.repeat(200_000);
const list = Array.from({ length: 200 }, (_, i) => text + (i * 7919) % 200);
for (let i = 0; i < 4000; i++) list.toSorted();
return 'sorted';
//~ TIMEOUT
--- join of the greatest array
return new Array(2 ** 32 - 1).join('').length;
//~ TIMEOUT
--- forEach over holes
let n = 0;
const list = [];
list[2 ** 32 - 2] = 1;
list.forEach(() => { n += 1 });
return n;
//~ TIMEOUT
--- includes over an object that claims to be long
return [].includes.call({ length: 2 ** 53 - 1 }, 'not there');
//~ TIMEOUT
--- reverse of an object that claims to be long
return [].reverse.call({ length: 2 ** 53 - 1 }).length;
//~ TIMEOUT
--- copyWithin over holes
const list = [];
list.length = 2 ** 32 - 1;
list.copyWithin(1, 0);
return list.length;
//~ TIMEOUT
--- lastIndexOf over an object that claims to be long
return [].lastIndexOf.call({ length: 2 ** 53 - 1 }, 'not there');
//~ TIMEOUT
--- unshift on an object that claims to be long
return [].unshift.call({ length: 2 ** 53 - 2 }, 1);
//~ TIMEOUT
--- a regular expression that goes wrong on a short text
return /^(a+)+$/.test('a'.repeat(40) + 'b');
//~ TIMEOUT
--- a regular expression with nested groups
return /^(([a-z])+.)+[A-Z]([a-z])+$/.test('a'.repeat(60));
//~ TIMEOUT
--- a regular expression with alternatives that overlap
return /^(a|a|aa)+$/.test('a'.repeat(60) + 'b');
//~ TIMEOUT
--- a regular expression with a back reference
return /^(a*)*\1*b$/.test('a'.repeat(40));
//~ TIMEOUT
--- a regular expression with a lookahead
return /^(?=(a+)+b)a*$/.test('a'.repeat(40));
//~ TIMEOUT
--- a regular expression from a text
return RegExp('(x+x+)+y').test('x'.repeat(60));
//~ TIMEOUT
--- replace with a regular expression that is square in time
return 'a'.repeat(400_000).replace(/a*b/g, 'x').length;
//~ TIMEOUT
--- split by a regular expression that is square in time
return 'a'.repeat(400_000).split(/a*b/).length;
//~ TIMEOUT
--- trim by a regular expression over inner blanks
return ('x' + ' '.repeat(400_000) + 'x').replace(/\s+$/g, '').length;
//~ TIMEOUT
--- product of long BigInts
let x = 3n ** 300_000n;
for (let i = 0; i < 4000; i++) x = (x * x) % (7n ** 300_000n);
return x > 0n;
//~ TIMEOUT
--- a BigInt from text
const digits = '9'.repeat(300_000);
let n = 0n;
for (let i = 0; i < 4000; i++) n += BigInt(digits) % 7n;
return n > 0n;
//~ TIMEOUT
--- a division of BigInts
const [a, b] = [3n ** 500_000n, 7n ** 100_000n];
let n = 0n;
for (let i = 0; i < 4000; i++) n += a / b;
return n > 0n;
//~ TIMEOUT
--- a modular power by hand
let x = 2n;
const m = 10n ** 3000n + 7n;
for (let i = 0; i < 4999; i++) for (let j = 0; j < 100; j++) x = (x * x) % m;
return x > 0n;
//~ TIMEOUT
--- indexOf in a text that nearly matches everywhere
const text = 'a'.repeat(2_000_000);
const needle = 'a'.repeat(1_000_000) + 'b';
let n = 0;
for (let i = 0; i < 4000; i++) n += text.indexOf(needle);
return n;
//~ TIMEOUT
--- includes in a long text, again and again
const text = 'x'.repeat(10_000_000);
let n = 0;
for (let i = 0; i < 5000; i++) n += text.includes('y' + i) ? 1 : 0;
return n;
//~ TIMEOUT
--- lastIndexOf in a text that nearly matches everywhere
const text = 'a'.repeat(2_000_000);
const needle = 'b' + 'a'.repeat(1_000_000);
let n = 0;
for (let i = 0; i < 4000; i++) n += text.lastIndexOf(needle);
return n;
//~ TIMEOUT
--- normalize of a text with very many marks
const text = 'a' + '\u0301\u0327'.repeat(400_000);
let n = 0;
for (let i = 0; i < 500; i++) n += text.normalize('NFD').length + text.normalize('NFKC').length;
return n;
//~ TIMEOUT
--- localeCompare of long texts
const text = '\u00e9'.repeat(1_000_000);
let n = 0;
for (let i = 0; i < 4000; i++) n += (text + 'a').localeCompare(text + 'b');
return n;
//~ TIMEOUT
--- toUpperCase of a long text that grows
const text = '\u00df\u0149'.repeat(500_000);
let n = 0;
for (let i = 0; i < 4000; i++) n += text.toUpperCase().length;
return n;
//~ TIMEOUT
--- encodeURIComponent of a long text
const text = '\u20ac'.repeat(500_000);
let n = 0;
for (let i = 0; i < 4000; i++) n += encodeURIComponent(text).length;
return n;
//~ TIMEOUT
--- Object.keys of a large object, again and again
const object = Object.fromEntries(Array.from({ length: 50_000 }, (_, i) => ['k' + i, i]));
let n = 0;
for (let i = 0; i < 5000; i++) n += Object.keys(object).length;
return n;
//~ TIMEOUT
--- a result in a Map of Maps
let map = new Map([['leaf', 1]]);
for (let i = 0; i < 30; i++) map = new Map([['a', map], ['b', map]]);
return map;
//~ TIMEOUT
--- toString of the greatest array
const list = [];
list.length = 2 ** 32 - 1;
return String(list).length;
//~ TIMEOUT
--- indexOf over holes
const list = [];
list[2 ** 32 - 2] = 1;
return list.indexOf('not there');
//~ TIMEOUT
--- a BigInt to text
return (3n ** 500_000n).toString().length + (7n ** 350_000n).toString(3).length + (5n ** 400_000n).toString(7).length;
//~ TIMEOUT
--- splice at the start of a long array
const list = new Array(500_000).fill(0);
for (let i = 0; i < 5000; i++) { list.unshift(i); list.splice(0, 1); list.shift() }
return list.length;
//~ TIMEOUT
--- structuredClone that doubles
let value = { list: ['x'.repeat(1000)] };
for (let i = 0; i < 40; i++) value = { list: [structuredClone(value), structuredClone(value)] };
return 1;
//~ TIMEOUT
--- JSON.stringify of a graph in which each level is twice in the next
let value = { leaf: 1 };
for (let i = 0; i < 40; i++) value = { a: value, b: value };
return JSON.stringify(value).length;
//~ TIMEOUT
--- a result in which each level is twice in the next
let value = { leaf: 1 };
for (let i = 0; i < 40; i++) value = { a: value, b: value };
return value;
//~ TIMEOUT
--- an input for a tool in which each level is twice in the next
let value = { leaf: 1 };
for (let i = 0; i < 40; i++) value = { a: value, b: value };
return await callTool('echo', value);
//~ TIMEOUT
--- a console line in which each level is twice in the next
let value = { leaf: 1 };
for (let i = 0; i < 40; i++) value = { a: value, b: value };
console.log(value);
return 'shown';
//~ TIMEOUT
--- a result whose size shows only when it is walked
const row = Array.from({ length: 1000 }, (_, i) => ({ i, text: 'x'.repeat(100) }));
return new Array(1000).fill(row);
//~ TIMEOUT
