// Output: floods of console lines, results and inputs of tools larger than anyone asked for, deep and wide ones. Each is
// refused by a limit or shortened with a mark, and nothing of it is parsed by the server before it is bounded.
--- console lines without an end
for (let i = 0; i < 4000; i++) console.log('line ' + i);
return 'all shown';
//= "all shown"
--- console lines without an end, swallowed
for (let i = 0; i < 4000; i++) { try { console.log(i) } catch { /* again */ } }
return 'all shown';
//= "all shown"
--- one console line of a megabyte
console.log('x'.repeat(1_000_000));
return 'shown';
//= "shown"
--- console lines of all five kinds count together
for (let i = 0; i < 30; i++) { console.log(i); console.info(i); console.warn(i); console.error(i); console.debug(i) }
return 'all shown';
//= "all shown"
--- console with very many arguments
console.log(...new Array(60_000).fill('x'));
return 'shown';
//= "shown"
--- console in parallel lanes
await __safe_parallel(Array.from({ length: 100 }, (_, i) => async () => { console.log(i); console.log(i) }));
return 'all shown';
//= "all shown"
--- console lines of wide characters count in bytes
for (let i = 0; i < 50; i++) console.log('\u4e2d'.repeat(1000));
return 'all shown';
//= "all shown"
--- a result of many strings
return Array.from({ length: 100 }, () => 'x'.repeat(50_000));
//~ OUTPUT_LIMIT
--- a result that is one long string is shortened
const { length } = 'x'.repeat(5_000_000);
return length;
//= 5000000
--- a result that is one long array
return new Array(100_000).fill('x'.repeat(200));
//~ OUTPUT_LIMIT
--- a result of wide characters counts in bytes
return Array.from({ length: 20 }, () => '\u4e2d'.repeat(30_000));
//~ OUTPUT_LIMIT
--- a result of escapes counts as it is sent
return Array.from({ length: 20 }, () => '\u0001'.repeat(20_000));
//~ OUTPUT_LIMIT
--- a result that is a getter of more results
const text = 'x'.repeat(9_000);
const make = () => ({ get next() { return make() }, data: [text, text, text, text] });
return make();
//~ OUTPUT_LIMIT
--- a result of very many keys
const text = 'x'.repeat(200);
const result = {};
for (let i = 0; i < 200; i++) for (let j = 0; j < 500; j++) result[`k ${i} ${j}`] = text;
return result;
//~ OUTPUT_LIMIT
--- a result of promises in promises
let value = 1;
for (let i = 0; i < 8; i++) value = Promise.resolve({ value });
return value;
//= {"value": {"value": {"value": {"value": {"value": {"value": {"value": {"value": 1}}}}}}}}
--- a result of thirty thousand promises
const text = 'x'.repeat(300);
return Array.from({ length: 30_000 }, () => Promise.resolve(text));
//~ OUTPUT_LIMIT
--- an error with a long message
throw new Error('x'.repeat(10_000_000));
//~ EXECUTION_ERROR xxxx
--- an error that is a long string
throw 'x'.repeat(10_000_000);
//~ EXECUTION_ERROR xxxx
--- an error that is a large object
throw { list: new Array(100_000).fill('x'.repeat(100)) };
//~ EXECUTION_ERROR {"list":["xxxx
--- an error of parallel lanes with long messages
return await __safe_parallel(Array.from({ length: 100 }, () => async () => { throw new Error('x'.repeat(100_000)) }));
//~ EXECUTION_ERROR 100 of 100 parallel operations failed
--- an error whose name is long
const error = new Error('short');
error.name = 'x'.repeat(10_000_000);
throw error;
//~ EXECUTION_ERROR short
--- an input for a tool that is one long string
try { return await callTool('echo', { text: 'x'.repeat(20_000_000) }) } catch (error) { return error.code }
//= "MESSAGE_TOO_LARGE"
--- an input for a tool of many strings
try { return (await callTool('echo', { list: Array.from({ length: 100 }, () => 'x'.repeat(90_000)) })).list.length === 100 } catch (error) { return error.code === 'MESSAGE_TOO_LARGE' }
//= true
--- an input for a tool that is a long array
try { return (await callTool('echo', { list: new Array(1_000_000).fill(0) })).list.length === 1_000_000 } catch (error) { return error.code === 'MESSAGE_TOO_LARGE' }
//= true
--- an input for a tool of very many keys
try { return (await callTool('echo', Object.fromEntries(Array.from({ length: 100_000 }, (_, i) => ['k' + i, i])))).k99999 === 99999 } catch (error) { return error.code === 'MESSAGE_TOO_LARGE' }
//= true
--- inputs for a hundred tools at once, each as large as may be
const text = 'x'.repeat(90_000);
const answers = await Promise.allSettled(Array.from({ length: 100 }, () => callTool('echo', { a: text, b: text, c: text, d: text })));
return [answers.length, new Set(answers.map((answer) => answer.status)).size];
//= [100, 1]
--- the name of a tool is a megabyte
try { return await callTool('x'.repeat(1_000_000), {}) } catch (error) { return error.name }
//= "TypeError"
--- the name of a tool to look up is a megabyte
return getTool('x'.repeat(1_000_000)) === undefined;
//= true
--- a hundred thousand names to look up
let found = 0;
for (let i = 0; i < 100; i++) for (let j = 0; j < 40; j++) found += getTool(`no tool ${i} ${j}`) === undefined ? 0 : 1;
return found;
//= 0
--- more calls at once than may be in flight wait for their turn
return (await Promise.all(Array.from({ length: 100 }, (_, i) => callTool('echo', { i })))).length;
//= 100
--- more calls at once than a script may make
return (await Promise.all(Array.from({ length: 1000 }, (_, i) => callTool('echo', { i })))).length;
//~ TOOL_CALL_LIMIT
--- more functions at once than may run in parallel
return await __safe_parallel(Array.from({ length: 101 }, () => () => 1));
//~ EXECUTION_ERROR Cannot execute more than 100 operations in parallel
--- lanes that open lanes
const open = (n) => __safe_parallel(Array.from({ length: 10 }, () => () => (n === 0 ? callTool('echo', {}) : open(n - 1))));
return await open(3);
//~ TOOL_CALL_LIMIT
--- calls that nobody awaits
for (let i = 0; i < 100; i++) callTool('echo', { i });
return 'gone';
//= "gone"
--- a failing call in each lane
try { await __safe_parallel(Array.from({ length: 100 }, () => () => callTool('fail', {}))) } catch (error) { return [error.message.split('\n').length, error.message.length < 60_000] }
//= [101, true]
