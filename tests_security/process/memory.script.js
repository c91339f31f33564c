// Memory: everything that makes the engine ask for a great deal of it, by many small pieces or by one large one. Each
// ends as WORKER_MEMORY_EXCEEDED, or in an error the engine can still make, and never as a crash; the worker is replaced.
--- strings kept in an array
const kept = [];
for (let i = 0; i < 5000; i++) kept.push('x'.repeat(100_000) + i);
return kept.length;
//~ WORKER_MEMORY_EXCEEDED
--- a string that doubles
let text = 'abcdefgh';
for (let i = 0; i < 40; i++) text += text;
return text.length;
//~ WORKER_MEMORY_EXCEEDED
--- a string that doubles by a template
let text = 'abcdefgh';
for (let i = 0; i < 40; i++) text = `${text}${text}`;
return text.length;
//~ WORKER_MEMORY_EXCEEDED
--- concat of a string with itself
let text = 'abcdefgh';
for (let i = 0; i < 40; i++) text = text.concat(text, text, text);
return text.length;
//~ WORKER_MEMORY_EXCEEDED
--- repeat in one go
return 'x'.repeat(500_000_000).length;
//~ WORKER_MEMORY_EXCEEDED
--- repeat beyond what a string may be
return 'x'.repeat(2 ** 31).length;
//~ EXECUTION_ERROR invalid repeat count
--- padEnd in one go
return 'x'.padEnd(500_000_000, 'abc').length;
//~ WORKER_MEMORY_EXCEEDED
--- padStart in one go, with a wide filler
return 'x'.padStart(200_000_000, '\u{1F600}').length;
//~ WORKER_MEMORY_EXCEEDED
--- wide strings: two bytes a character
const kept = [];
for (let i = 0; i < 5000; i++) kept.push('\u4e2d'.repeat(50_000) + i);
return kept.length;
//~ WORKER_MEMORY_EXCEEDED
--- an array filled in one go
return new Array(100_000_000).fill(0).length;
//~ WORKER_MEMORY_EXCEEDED
--- an array of the greatest length, filled
return new Array(2 ** 32 - 1).fill('x').length;
//~ WORKER_MEMORY_EXCEEDED
--- Array.from a length
return Array.from({ length: 100_000_000 }).length;
//~ WORKER_MEMORY_EXCEEDED
--- Array.from a length with a function: steps end it
return Array.from({ length: 100_000_000 }, (_, i) => i).length;
//~ STEP_LIMIT
--- spread of a long string
return [...'x'.repeat(10_000_000)].length;
//~ WORKER_MEMORY_EXCEEDED
--- spread of arrays that grow
let list = [0, 1, 2, 3];
for (let i = 0; i < 40; i++) list = [...list, ...list];
return list.length;
//~ WORKER_MEMORY_EXCEEDED
--- spread of objects that grow
let object = {};
for (let i = 0; i < 4000; i++) object = { ...object, ['k' + i]: new Array(2000).fill(i) };
return 1;
//~ WORKER_MEMORY_EXCEEDED
--- concat of arrays that grow
let list = [0, 1, 2, 3];
for (let i = 0; i < 40; i++) list = list.concat(list);
return list.length;
//~ WORKER_MEMORY_EXCEEDED
--- flatMap that multiplies
let list = [1];
for (let i = 0; i < 12; i++) list = list.flatMap((x) => new Array(10).fill(x));
return list.length;
//~ WORKER_MEMORY_EXCEEDED
--- flat of what refers to itself many times
let list = [1];
for (let i = 0; i < 30; i++) list = [list, list];
return list.flat(Infinity).length;
//~ WORKER_MEMORY_EXCEEDED
--- split of a long string into characters
return 'x'.repeat(20_000_000).split('').length;
//~ WORKER_MEMORY_EXCEEDED
--- split and join, wider each time
let text = 'ab';
for (let i = 0; i < 20; i++) text = text.split('').join('----');
return text.length;
//~ WORKER_MEMORY_EXCEEDED
--- join of holes with a long separator
return new Array(1_000_000).join('x'.repeat(1000)).length;
//~ WORKER_MEMORY_EXCEEDED
--- replaceAll that multiplies
let text = 'aa';
for (let i = 0; i < 12; i++) text = text.replaceAll('a', text);
return text.length;
//~ WORKER_MEMORY_EXCEEDED
--- replace with patterns that quote the whole
let text = 'aaaaaaaa';
for (let i = 0; i < 12; i++) text = text.replace(/.*/s, "$&$&$&$&$`$'");
return text.length;
//~ WORKER_MEMORY_EXCEEDED
--- replaceAll of the empty string
return 'x'.repeat(100_000).replaceAll('', 'y'.repeat(10_000)).length;
//~ WORKER_MEMORY_EXCEEDED
--- closures that keep what they saw
const kept = [];
for (let i = 0; i < 4000; i++) { const data = new Array(5000).fill(i); kept.push(() => data) }
return kept.length;
//~ WORKER_MEMORY_EXCEEDED
--- a chain of closures
let f = () => 0;
for (let i = 0; i < 4000; i++) { const g = f, data = 'x'.repeat(50_000) + i; f = () => [data, g] }
return typeof f;
//~ WORKER_MEMORY_EXCEEDED
--- promises nobody resolves, each with its data
const kept = [];
for (let i = 0; i < 4000; i++) { const data = 'x'.repeat(50_000) + i; kept.push(new Promise((resolve) => { kept.push(() => resolve(data)) })) }
return kept.length;
//~ WORKER_MEMORY_EXCEEDED
--- async functions that wait for ever, each with its data
const never = new Promise(() => 1);
const wait = async (data) => { await never; return data };
for (let i = 0; i < 4000; i++) wait('x'.repeat(50_000) + i);
return 'started';
//~ WORKER_MEMORY_EXCEEDED
--- generators that are never finished, each with its data
const kept = [];
function* hold(data) { yield data.length; return data }
for (let i = 0; i < 4000; i++) { const g = hold('x'.repeat(50_000) + i); g.next(); kept.push(g) }
return kept.length;
//~ WORKER_MEMORY_EXCEEDED
--- a Map that grows
const map = new Map();
for (let i = 0; i < 4000; i++) for (let j = 0; j < 200; j++) map.set(`key ${i} ${j}`, { i, j });
return map.size;
//~ WORKER_MEMORY_EXCEEDED
--- a Set that grows
const set = new Set();
for (let i = 0; i < 4000; i++) for (let j = 0; j < 200; j++) set.add(`a rather long member ${i} ${j}`);
return set.size;
//~ WORKER_MEMORY_EXCEEDED
--- an object with very many keys
const object = {};
for (let i = 0; i < 4000; i++) for (let j = 0; j < 200; j++) object[`a rather long key ${i} ${j}`] = { i };
return 1;
//~ WORKER_MEMORY_EXCEEDED
--- symbols by the hundred thousand
const kept = [];
for (let i = 0; i < 4000; i++) for (let j = 0; j < 200; j++) kept.push(Symbol(`a rather long name ${i} ${j}`));
return kept.length;
//~ WORKER_MEMORY_EXCEEDED
--- JSON.stringify of one object, many times over
const item = { text: 'x'.repeat(10_000) };
return JSON.stringify(new Array(100_000).fill(item)).length;
//~ WORKER_MEMORY_EXCEEDED
--- JSON.stringify with a long indent
let value = 1;
for (let i = 0; i < 2000; i++) value = [value];
return JSON.stringify(value, null, 10).length;
//~ WORKER_MEMORY_EXCEEDED
--- JSON.parse of a long text
return JSON.parse('[' + '{"a":1},'.repeat(1_000_000) + '1]').length;
//~ WORKER_MEMORY_EXCEEDED
--- a chain of errors with causes and long messages
let error = new Error('first');
for (let i = 0; i < 4000; i++) error = new Error('x'.repeat(50_000) + i, { cause: error });
throw error;
//~ WORKER_MEMORY_EXCEEDED
--- an AggregateError of very many errors
const errors = [];
for (let i = 0; i < 4000; i++) for (let j = 0; j < 100; j++) errors.push(new Error(`error ${i} ${j}`));
throw new AggregateError(errors, 'all of them');
//~ WORKER_MEMORY_EXCEEDED
--- a power of a BigInt
return (2n ** 30_000_000_000n).toString().length;
//~ EXECUTION_ERROR BigInt is too large
--- a shift of a BigInt
return (1n << 10_000_000_000n) > 0n;
//~ EXECUTION_ERROR BigInt is too large
--- squares of a BigInt
let x = 3n;
for (let i = 0; i < 60; i++) x *= x;
return x > 0n;
//~ EXECUTION_ERROR BigInt is too large
--- BigInts kept in an array
const kept = [];
for (let i = 0; i < 4000; i++) kept.push(1n << BigInt(500_000 + i));
return kept.length;
//~ WORKER_MEMORY_EXCEEDED
--- a regular expression that captures very much
return 'abc'.repeat(3_000_000).match(/.../g).length;
//~ WORKER_MEMORY_EXCEEDED
--- matchAll kept
return [...'ab'.repeat(1_000_000).matchAll(/(a)(b)/g)].length;
//~ WORKER_MEMORY_EXCEEDED
--- a regular expression that backs up over a long text
return /(?:a|b)*c/.test('ab'.repeat(20_000_000));
//~ WORKER_MEMORY_EXCEEDED
--- a regular expression of many parts
return RegExp('(a{1,1000}){1,1000}'.repeat(300)).test('a');
//~ EXECUTION_ERROR
--- arguments by apply
return Math.max.apply(null, new Array(10_000_000).fill(1));
//~ WORKER_MEMORY_EXCEEDED
--- arguments by spread
return Math.max(...new Array(10_000_000).fill(1));
//~ WORKER_MEMORY_EXCEEDED
--- String.fromCharCode of very many
return String.fromCharCode(...new Array(1_000_000).fill(65)).length;
//~ EXECUTION_ERROR
--- values of tools kept
const kept = [];
for (let i = 0; i < 100; i++) kept.push(await callTool('big', {}), JSON.parse(JSON.stringify({ text: 'x'.repeat(1_000_000) + i })));
return kept.length;
//~ WORKER_MEMORY_EXCEEDED
--- values of tools, all at once
const values = await Promise.all(Array.from({ length: 90 }, () => callTool('big', {})));
return values.reduce((sum, value) => sum + value.length, 0);
//= 18000000
--- console lines that are long
for (let i = 0; i < 20; i++) console.log('x'.repeat(10_000_000));
return 'shown';
//= "shown"
--- what was caught is still too much
const kept = [];
try { for (;;) kept.push('x'.repeat(100_000) + kept.length) } catch (error) { kept.length = 0; return 'swallowed' } finally { kept.push('finally') }
//~ WORKER_MEMORY_EXCEEDED
--- what was caught in a promise is still too much
const fill = async () => { const kept = []; for (let i = 0; i < 4500; i++) kept.push('x'.repeat(100_000) + i) };
return await fill().then(() => 'done', () => 'swallowed');
//~ WORKER_MEMORY_EXCEEDED
--- memory that is given back is no bomb
let sum = 0;
for (let i = 0; i < 150; i++) sum += ('x'.repeat(1_000_000) + i).length;
return sum > 0;
//= true
--- cycles that are given back are no bomb
for (let i = 0; i < 4000; i++) { const a = { data: new Array(500).fill(i) }; a.self = a; a.list = [a, { a }] }
return 'collected';
//= "collected"
--- names of functions bound to functions: each is as long as all before it
let f = () => 1;
for (let i = 0; i < 5; i++) for (let j = 0; j < 4000; j++) f = f.bind(null);
return f();
//~ WORKER_MEMORY_EXCEEDED
--- a normal form that does not fit, caught
try { return 'ﷺ'.repeat(1e6).normalize('NFKD').length } catch (error) { return typeof error }
//~ WORKER_MEMORY_EXCEEDED
--- a normal form that does not fit, in a promise that is looked at
return (await Promise.allSettled([(async () => 'ﷺ'.repeat(1e6).normalize('NFKD').length)()]))[0].status;
//~ WORKER_MEMORY_EXCEEDED
