// Meta-tools called from a script, in every spelling and by every way to a name: nothing may start scripts from scripts.
--- execute as a string
return callTool('codecall:execute', { script: '1' }); //! SelfReference Cannot call CodeCall tools from within AgentScript: codecall:execute
--- by the functions that read and prompt
readResource('codecall:execute'); getPrompt('codecall_search', {}); //! SelfReference Cannot call CodeCall tools from within AgentScript: codecall:execute
//! ^ SelfReference Cannot call CodeCall tools from within AgentScript: codecall_search
--- by a URI that is made up
const parts = ['CodeCall', 'execute'];
return await readResource(parts.join(':'), { throwOnError: false });
//~ SELF_REFERENCE_BLOCKED
--- search, describe and invoke
callTool('codecall:search', {}); callTool('codecall:describe', {}); callTool('codecall:invoke', {}); //! SelfReference Cannot call CodeCall tools from within AgentScript: codecall:search
//! ^ SelfReference Cannot call CodeCall tools from within AgentScript: codecall:describe
//! ^ SelfReference Cannot call CodeCall tools from within AgentScript: codecall:invoke
--- the spelling with an underscore
return callTool('codecall_execute', { script: '1' }); //! SelfReference Cannot call CodeCall tools from within AgentScript: codecall_execute
--- upper case and mixed case
callTool('CODECALL:EXECUTE', {}); callTool('CodeCall_Execute', {}); //! SelfReference Cannot call CodeCall tools from within AgentScript: CODECALL:EXECUTE
//! ^ SelfReference Cannot call CodeCall tools from within AgentScript: CodeCall_Execute
--- blanks around it
callTool('  codecall:execute ', {}); callTool('\tcodecall:execute\n', {}); //! SelfReference Cannot call CodeCall tools from within AgentScript: codecall:execute
//! ^ SelfReference Cannot call CodeCall tools from within AgentScript: codecall:execute
--- blanks of other kinds around it
callTool('\u00a0codecall:execute\ufeff', {}); callTool('\u200bcodecall_search', {}); callTool('codecall:search\0', {}); //! SelfReference Cannot call CodeCall tools from within AgentScript: codecall:execute
//! ^ SelfReference Cannot call CodeCall tools from within AgentScript: codecall_search
//! ^ SelfReference Cannot call CodeCall tools from within AgentScript: codecall:search
--- a name that begins like one
return callTool('codecall:anything', {}); //! SelfReference Cannot call CodeCall tools from within AgentScript: codecall:anything
--- a template without parts
return callTool(`codecall:execute`, {}); //! SelfReference Cannot call CodeCall tools from within AgentScript: codecall:execute
--- a template with parts
return callTool(`code${'call'}:execute`, {}); //! SelfReference Cannot call CodeCall tools from within AgentScript: codecall:execute
--- two strings
return callTool('codecall:' + 'execute', {}); //! SelfReference Cannot call CodeCall tools from within AgentScript: codecall:execute
--- strings and templates mixed
return callTool('code' + (`call` + ':') + `ex${'ecute'}`, {}); //! SelfReference Cannot call CodeCall tools from within AgentScript: codecall:execute
--- by the table of all tools
return tools['codecall:execute']({ script: '1' }); //! SelfReference Cannot call CodeCall tools from within AgentScript: codecall:execute
--- by the table, in other spellings
return [tools.codecall_search, tools[`Codecall:${'invoke'}`], tools?.[' codecall:x ']]; //! SelfReference Cannot call CodeCall tools from within AgentScript: codecall_search
//! ^ SelfReference Cannot call CodeCall tools from within AgentScript: Codecall:invoke
//! ^ SelfReference Cannot call CodeCall tools from within AgentScript: codecall:x
--- taken out of the table
const { 'codecall:execute': run, codecall_describe } = tools; return run; //! SelfReference Cannot call CodeCall tools from within AgentScript
--- by their namespace
return codecall.execute({ script: '1' }); //! SelfReference Cannot call CodeCall tools from within AgentScript: codecall:execute
--- by their namespace, in brackets
return codecall['sea' + 'rch']({}); //! SelfReference Cannot call CodeCall tools from within AgentScript: codecall:search
--- by their namespace in the table
return tools.codecall.execute({ script: '1' }); //! SelfReference Cannot call CodeCall tools from within AgentScript: codecall:execute
--- by their namespace in the table, in parentheses and brackets
return ((tools)['codecall'])['execute']({ script: '1' }); //! SelfReference Cannot call CodeCall tools from within AgentScript: codecall:execute
--- a variable of that name is the script's own
const codecall = { execute: () => 1 }, tools = { 'codecall:execute': () => 2 };
return [codecall.execute(), tools['codecall:execute']()];
//= [1, 2]
--- escapes in the string
return callTool('\u0063odecall\x3aexecute', {}); //! SelfReference Cannot call CodeCall tools from within AgentScript: codecall:execute
--- behind an optional call
return callTool?.('codecall:execute', {}); //! SelfReference Cannot call CodeCall tools from within AgentScript: codecall:execute
--- in parentheses
return (callTool)(('codecall:execute'), {}); //! SelfReference Cannot call CodeCall tools from within AgentScript: codecall:execute
--- inside Promise.all and __safe_parallel
await Promise.all([callTool('codecall:search', {})]); //! SelfReference Cannot call CodeCall tools from within AgentScript: codecall:search
await __safe_parallel([() => callTool('codecall:search', {})]); //! SelfReference Cannot call CodeCall tools from within AgentScript: codecall:search
--- with throwOnError false
return callTool('codecall:execute', {}, { throwOnError: false }); //! SelfReference Cannot call CodeCall tools from within AgentScript: codecall:execute
--- in a try
try { await callTool('codecall:execute', {}) } catch (e) { return 'caught' } //! SelfReference Cannot call CodeCall tools from within AgentScript: codecall:execute
--- asked for with getTool
return getTool('codecall:execute'); //! SelfReference Cannot call CodeCall tools from within AgentScript: codecall:execute
--- asked for with getTool in upper case
return getTool('CODECALL_INVOKE'); //! SelfReference Cannot call CodeCall tools from within AgentScript: CODECALL_INVOKE
--- in code that never runs
if (false) callTool('codecall:execute', {}); //! SelfReference Cannot call CodeCall tools from within AgentScript: codecall:execute
return 1;
--- a name put together at run time
const name = ['codecall', 'execute'].join(':');
return callTool(name, { script: '1' });
//~ SELF_REFERENCE_BLOCKED Cannot call CodeCall tools from within AgentScript: codecall:execute
--- a name put together at run time, in a try
const name = ['codecall', 'execute'].join('_');
try { await callTool(name, {}) } catch (e) { return 'caught' }
//~ SELF_REFERENCE_BLOCKED Cannot call CodeCall tools from within AgentScript: codecall_execute
--- a name put together at run time, with throwOnError false
const name = 'codecall' + String(':') + 'search';
return callTool(name, {}, { throwOnError: false });
//~ SELF_REFERENCE_BLOCKED Cannot call CodeCall tools from within AgentScript: codecall:search
--- a name from a tool's answer
const { name } = await callTool('echo', { name: 'codecall:invoke' });
return callTool(name, { tool: 'secret:read', input: {} });
//~ SELF_REFERENCE_BLOCKED Cannot call CodeCall tools from within AgentScript: codecall:invoke
--- a name from an object that turns into text
const name = { toString: () => 'codecall:execute' };
try { return await callTool(name, {}) } catch (e) { return e.name }
//= "TypeError"
--- a name from an array
try { return await callTool(['codecall:execute'], {}) } catch (e) { return e.name }
//= "TypeError"
--- a name from a String object
try { return await callTool(new String('codecall:execute'), {}) } catch (e) { return e.name }
//= "TypeError"
--- a name from a spread
return callTool(...['codecall:execute', { script: '1' }]);
//~ SELF_REFERENCE_BLOCKED Cannot call CodeCall tools from within AgentScript: codecall:execute
--- callTool as a tag
try { return await callTool`codecall:execute` } catch (e) { return e.name }
//= "TypeError"
--- callTool under another name
const call = callTool;
return call('codecall:execute', { script: '1' });
//~ SELF_REFERENCE_BLOCKED Cannot call CodeCall tools from within AgentScript: codecall:execute
--- callTool as a callback
return Promise.all(['codecall:search'].map(callTool));
//~ SELF_REFERENCE_BLOCKED Cannot call CodeCall tools from within AgentScript: codecall:search
--- callTool through call and apply of a function
const f = (...args) => callTool(...args);
return f.apply(null, ['codecall:execute', {}]);
//~ SELF_REFERENCE_BLOCKED Cannot call CodeCall tools from within AgentScript: codecall:execute
--- upper case at run time
return callTool('codecall:execute'.toUpperCase(), {});
//~ SELF_REFERENCE_BLOCKED Cannot call CodeCall tools from within AgentScript: CODECALL:EXECUTE
--- blanks at run time
return callTool('codecall:execute'.padStart(40), {});
//~ SELF_REFERENCE_BLOCKED Cannot call CodeCall tools from within AgentScript: codecall:execute
--- a zero-width space at run time
return callTool(String.fromCodePoint(0x200b) + 'codecall:execute', {});
//~ SELF_REFERENCE_BLOCKED Cannot call CodeCall tools from within AgentScript:
--- fullwidth letters at run time are another name
return callTool('ｃｏｄｅｃａｌｌ:execute', {});
//~ TOOL_NOT_FOUND Tool 'ｃｏｄｅｃａｌｌ:execute' was not found
--- a fullwidth colon is another name
return callTool('codecall：execute', {});
//~ TOOL_NOT_FOUND Tool 'codecall：execute' was not found
--- fullwidth letters folded at run time
return callTool('ｃｏｄｅｃａｌｌ：ｅｘｅｃｕｔｅ'.normalize('NFKC'), {});
//~ SELF_REFERENCE_BLOCKED Cannot call CodeCall tools from within AgentScript: codecall:execute
--- a letter that is another letter in lower case
return callTool('codecall_' + 'ſearch', {}); //! SelfReference Cannot call CodeCall tools from within AgentScript: codecall_ſearch
--- getTool by a name put together at run time
return [getTool(['codecall', 'execute'].join(':')) ?? null, getTool(['CODECALL', 'SEARCH'].join('_')) ?? null];
//~ SELF_REFERENCE_BLOCKED Cannot call CodeCall tools from within AgentScript: codecall:execute
--- a meta-tool is no tool of the list either
const name = 'users:' + 'list';
return [getTool(name).name, getTool('secret:' + 'read') ?? null];
//= ["users:list", null]
--- the forbidden tool by a name put together at run time
const name = ['secret', 'read'].join(':');
const answer = await callTool(name, {}, { throwOnError: false });
return [answer.success, answer.error.code];
//= [false, "ACCESS_DENIED"]
--- the forbidden tool in upper case and with blanks
const answers = [];
for (const name of ['SECRET:READ', ' secret:read', 'secret:read ', 'secret_read', 'secret:read\0', 'secret:*', '*'])
  answers.push((await callTool(name, {}, { throwOnError: false })).error.code);
return [...new Set(answers)].sort();
//= ["TOOL_NOT_FOUND"]
--- the forbidden tool through a tool that echoes
const answer = await callTool('echo', { tool: 'secret:read' });
return answer;
//= {"tool": "secret:read"}
--- tools by the names of object members
const codes = [];
for (const name of ['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'then', ''])
  codes.push(await callTool(name, {}, { throwOnError: false }).then(a => a.error.code, e => e.name));
return codes;
//= ["TOOL_NOT_FOUND", "TOOL_NOT_FOUND", "TOOL_NOT_FOUND", "TOOL_NOT_FOUND", "TOOL_NOT_FOUND", "TOOL_NOT_FOUND"]
--- a name that is no string
const names = [];
for (const name of [undefined, null, 1, {}, [], Symbol('x'), () => 1])
  names.push(await callTool(name, {}).then(() => 'ok', e => e.name));
return names;
//= ["TypeError", "TypeError", "TypeError", "TypeError", "TypeError", "TypeError", "TypeError"]
