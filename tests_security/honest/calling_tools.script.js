// Calling tools as models do: one call, chains, fallbacks, concurrency, checks of metadata.
--- one call, its value
const result = await callTool('users:list', {});
return result.users.length;
//= 3
--- destructure the answer
const { users } = await callTool('users:list', {});
return users.map(u => u.name);
//= ["Ada", "Ben", "Cleo"]
--- trailing expression
(await callTool('users:list', {})).users[0].name
//= "Ada"
--- arrow function script
async () => {
  const { users } = await callTool('users:list', {});
  return users.filter((user) => user.role === 'member').length;
}
//= 2
--- named main function
async function main() {
  const data = await callTool('users:list', {});
  return { total: data.users.length, first: data.users[0].id };
}
return await main();
//= {"total": 3, "first": "u1"}
--- immediately invoked async function
const answer = await (async () => {
  const { users } = await callTool('users:list', {});
  return users.at(-1);
})();
return answer;
//= {"id": "u3", "name": "Cleo", "role": "member"}
--- no return at all
const { users } = await callTool('users:list', {});
const names = users.map((u) => u.name);
//= null
--- early return on missing data
const response = await callTool('users:list', {});
if (!response || !Array.isArray(response.users) || response.users.length === 0) {
  return { success: false, message: 'No users found' };
}
return { success: true, count: response.users.length };
//= {"success": true, "count": 3}
--- chain of dependent calls
// Step 1: list all users
const { users } = await callTool('users:list', {});
// Step 2: pick the owner
const owner = users.find((u) => u.role === 'owner');
// Step 3: look the owner up again
const details = await callTool('echo', { userId: owner.id, include: ['profile'] });
return details;
//= {"userId": "u1", "include": ["profile"]}
--- Promise.all over a map
const { users } = await callTool('users:list', {});
const enriched = await Promise.all(
  users.map(async (user) => {
    const extra = await callTool('echo', { id: user.id, score: user.name.length * 10 });
    return { ...user, score: extra.score };
  })
);
return enriched;
//= [{"id": "u1", "name": "Ada", "role": "owner", "score": 30}, {"id": "u2", "name": "Ben", "role": "member", "score": 30}, {"id": "u3", "name": "Cleo", "role": "member", "score": 40}]
--- Promise.all with destructuring
const [a, b, { users }] = await Promise.all([
  callTool('echo', { n: 1 }),
  callTool('echo', { n: 2 }),
  callTool('users:list', {}),
]);
return a.n + b.n + users.length;
//= 6
--- Promise.allSettled keeps going
const results = await Promise.allSettled([
  callTool('echo', { ok: true }),
  callTool('fail', {}),
  callTool('users:list', {}),
]);
return results.map((r) => r.status);
//= ["fulfilled", "rejected", "fulfilled"]
--- allSettled values and reasons
const settled = await Promise.allSettled([callTool('echo', { x: 1 }), callTool('fail', {})]);
const succeeded = settled.filter((s) => s.status === 'fulfilled').map((s) => s.value);
const failed = settled.filter((s) => s.status === 'rejected').map((s) => s.reason.message);
return { succeeded, failed };
//= {"succeeded": [{"x": 1}], "failed": ["it failed"]}
--- Promise.any takes the first success
const winner = await Promise.any([callTool('fail', {}), callTool('echo', { winner: true })]);
return winner;
//= {"winner": true}
--- safe parallel
const ids = [1, 2, 3, 4, 5];
const results = await __safe_parallel(ids.map((id) => () => callTool('echo', { id })));
return results.map((r) => r.id);
//= [1, 2, 3, 4, 5]
--- safe parallel with a concurrency limit
const tasks = Array.from({ length: 12 }, (_, i) => () => callTool('echo', { page: i + 1 }));
const pages = await __safe_parallel(tasks, { maxConcurrency: 4 });
return pages.reduce((sum, p) => sum + p.page, 0);
//= 78
--- safe parallel reports what failed
try {
  await __safe_parallel([
    () => callTool('echo', { i: 0 }),
    () => callTool('fail', {}),
    () => callTool('echo', { i: 2 }),
  ]);
  return 'unexpected';
} catch (err) {
  return err.message.split('\n')[0];
}
//= "1 of 3 parallel operations failed:"
--- safe parallel over plain async functions
const double = async (n) => n * 2;
return await __safe_parallel([1, 2, 3].map((n) => () => double(n)));
//= [2, 4, 6]
--- throwOnError false, failing
const outcome = await callTool('fail', {}, { throwOnError: false });
return { success: outcome.success, hasMessage: outcome.error.message.includes('failed') };
//= {"success": false, "hasMessage": true}
--- throwOnError false, succeeding
const outcome = await callTool('echo', { hello: 'world' }, { throwOnError: false });
return outcome.success ? outcome.data.hello : null;
//= "world"
--- try and catch with a fallback
let data;
try {
  data = await callTool('fail', {});
} catch (error) {
  data = { fallback: true, reason: error.message };
}
return data;
//= {"fallback": true, "reason": "it failed"}
--- error name and code
try {
  await callTool('fail', { id: 7 });
} catch (e) {
  return { name: e.name, code: e.code, tool: e.toolName, isError: e instanceof Error };
}
//= {"name": "ToolError", "code": "TOOL_EXECUTION_ERROR", "tool": "fail", "isError": true}
--- unknown tool is caught
try {
  await callTool('users:delete_everything', {});
  return 'called';
} catch (error) {
  return error.code;
}
//= "TOOL_NOT_FOUND"
--- finally runs
const steps = [];
try {
  steps.push('start');
  await callTool('fail', {});
  steps.push('never');
} catch {
  steps.push('caught');
} finally {
  steps.push('done');
}
return steps;
//= ["start", "caught", "done"]
--- catch chained to the call
const value = await callTool('fail', {}).catch((e) => ({ recovered: true, code: e.code }));
return value;
//= {"recovered": true, "code": "TOOL_EXECUTION_ERROR"}
--- then chain
return callTool('users:list', {})
  .then((result) => result.users)
  .then((users) => users.map((u) => u.id))
  .then((ids) => ids.join(','));
//= "u1,u2,u3"
--- finally chained to the call
let closed = false;
const r = await callTool('echo', { a: 1 }).finally(() => { closed = true; });
return { r, closed };
//= {"r": {"a": 1}, "closed": true}
--- retry helper with bounded attempts
/**
 * Calls a tool up to `maxAttempts` times.
 * @param {string} name - The tool's name
 * @param {object} input - Its input
 * @param {number} maxAttempts - How often to try
 */
async function callWithRetry(name, input, maxAttempts = 3) {
  let lastError = null;
  for (let attempt = 1; attempt <= maxAttempts; attempt++) {
    try {
      const value = await callTool(name, input);
      return { value, attempt };
    } catch (error) {
      lastError = error;
    }
  }
  return { failed: true, attempts: maxAttempts, message: lastError.message };
}
const good = await callWithRetry('echo', { v: 1 });
const bad = await callWithRetry('fail', {});
return [good, bad.failed, bad.attempts];
//= [{"value": {"v": 1}, "attempt": 1}, true, 3]
--- collect errors per item
const ids = ['u1', 'u2', 'u3'];
const errors = [];
const ok = [];
for (const id of ids) {
  const tool = id === 'u2' ? 'fail' : 'echo';
  const res = await callTool(tool, { id }, { throwOnError: false });
  if (res.success) ok.push(res.data.id);
  else errors.push({ id, code: res.error.code });
}
return { ok, errors: errors.length, failedId: errors[0].id };
//= {"ok": ["u1", "u3"], "errors": 1, "failedId": "u2"}
--- getTool before calling
const tool = getTool('users:list');
if (!tool) {
  return 'users:list is not available';
}
return { name: tool.name, type: tool.inputSchema.type };
//= {"name": "users:list", "type": "object"}
--- getTool of a missing tool
const tool = getTool('billing:charge');
return tool === undefined ? 'missing' : 'present';
//= "missing"
--- first available tool of several
const candidates = ['crm:users', 'people:list', 'users:list'];
const available = candidates.find((name) => getTool(name) !== undefined);
const data = await callTool(available, {});
return { available, n: data.users.length };
//= {"available": "users:list", "n": 3}
--- computed tool name
const namespace = 'users';
const action = 'list';
const { users } = await callTool(`${namespace}:${action}`, {});
return users.length;
//= 3
--- dispatch table of tools
const actions = {
  list: () => callTool('users:list', {}),
  ping: () => callTool('echo', { pong: true }),
};
const out = [];
for (const key of Object.keys(actions)) {
  const result = await actions[key]();
  out.push(Object.keys(result)[0]);
}
return out;
//= ["users", "pong"]
--- context of the request
const { tenant, locale = 'en-US' } = codecallContext;
return `${tenant} (${locale})`;
//= "t1 (en-US)"
--- context with optional chaining
return codecallContext?.user?.preferences?.theme ?? codecallContext.tenant;
//= "t1"
--- context passed to a tool
const sent = await callTool('echo', { tenant: codecallContext.tenant, at: null });
return sent;
//= {"tenant": "t1", "at": null}
--- no input argument
const { users } = await callTool('users:list');
return users.length;
//= 3
--- large answer, small result
const text = await callTool('big', {});
return { length: text.length, head: text.slice(0, 3) };
//= {"length": 200000, "head": "bbb"}
--- race of two calls
const fastest = await Promise.race([callTool('echo', { id: 'a' })]);
return fastest.id;
//= "a"
--- for await over calls
const calls = [1, 2, 3].map((n) => callTool('echo', { n }));
let total = 0;
for await (const { n } of calls) {
  total += n;
}
return total;
//= 6
--- batches of two
const ids = ['u1', 'u2', 'u3', 'u4', 'u5'];
const batchSize = 2;
const collected = [];
for (let i = 0; i < ids.length; i += batchSize) {
  const batch = ids.slice(i, i + batchSize);
  const results = await Promise.all(batch.map((id) => callTool('echo', { id })));
  collected.push(results.map((r) => r.id));
}
return collected;
//= [["u1", "u2"], ["u3", "u4"], ["u5"]]
--- pagination with a bounded for
const PAGE_SIZE = 2;
const source = [1, 2, 3, 4, 5];
const all = [];
for (let page = 0; page < 10; page++) {
  const slice = source.slice(page * PAGE_SIZE, (page + 1) * PAGE_SIZE);
  const response = await callTool('echo', { items: slice, hasMore: (page + 1) * PAGE_SIZE < source.length });
  all.push(...response.items);
  if (!response.hasMore) break;
}
return all;
//= [1, 2, 3, 4, 5]
--- pagination by cursor
const pages = { start: { items: ['a', 'b'], next: 'p2' }, p2: { items: ['c'], next: null } };
let cursor = 'start';
const items = [];
for (let guard = 0; guard < 100 && cursor !== null; guard++) {
  const page = await callTool('echo', pages[cursor]);
  items.push(...page.items);
  cursor = page.next;
}
return items;
//= ["a", "b", "c"]
--- pagination with while
//@ preset: balanced
let page = 1;
let hasMore = true;
const seen = [];
while (hasMore) {
  const response = await callTool('echo', { page, hasMore: page < 3 });
  seen.push(response.page);
  hasMore = response.hasMore;
  page++;
}
return seen;
//= [1, 2, 3]
--- do while with a balanced preset
//@ preset: balanced
let n = 0;
do {
  n += (await callTool('echo', { step: 4 })).step;
} while (n < 10);
return n;
//= 12
--- conditional calls
const { users } = await callTool('users:list', {});
const needsAudit = users.some((u) => u.role === 'owner');
const audit = needsAudit ? await callTool('echo', { audited: users.length }) : null;
return audit;
//= {"audited": 3}
--- an empty list needs no calls
const items = [];
const results = await Promise.all(items.map((i) => callTool('echo', i)));
return { results, count: results.length };
//= {"results": [], "count": 0}
--- console logging along the way
console.log('Fetching users…');
const { users } = await callTool('users:list', {});
console.log('Got', users.length, 'users', { first: users[0].name });
console.warn(`roles: ${[...new Set(users.map((u) => u.role))].join(', ')}`);
console.error('no error really'); console.info('done'); console.debug(null, undefined, 3n);
return users.length;
//= 3
--- result object in the shape agents like
try {
  const { users } = await callTool('users:list', {});
  return { success: true, data: { users: users.map(({ id, name }) => ({ id, name })) }, error: null };
} catch (error) {
  return { success: false, data: null, error: { message: error.message } };
}
//= {"success": true, "data": {"users": [{"id": "u1", "name": "Ada"}, {"id": "u2", "name": "Ben"}, {"id": "u3", "name": "Cleo"}]}, "error": null}
--- custom error class around a call
class UserLookupError extends Error {
  constructor(userId, cause) {
    super(`Could not look up ${userId}`);
    this.name = 'UserLookupError';
    this.userId = userId;
    this.reason = cause.message;
  }
}
try {
  try {
    await callTool('fail', { id: 'u9' });
  } catch (e) {
    throw new UserLookupError('u9', e);
  }
} catch (e) {
  return `${e.name}: ${e.message} [${e.userId}]`;
}
//= "UserLookupError: Could not look up u9 [u9]"
--- memoised calls
const cache = new Map();
let calls = 0;
async function cached(id) {
  if (!cache.has(id)) {
    calls += 1;
    cache.set(id, await callTool('echo', { id, upper: id.toUpperCase() }));
  }
  return cache.get(id);
}
const values = [];
for (const id of ['a', 'b', 'a', 'a']) values.push((await cached(id)).upper);
return { values, calls };
//= {"values": ["A", "B", "A", "A"], "calls": 2}
--- a small client class
class UsersClient {
  #cache = null;
  static TOOL = 'users:list';
  async all() {
    this.#cache ??= (await callTool(UsersClient.TOOL, {})).users;
    return this.#cache;
  }
  async byRole(role) {
    return (await this.all()).filter((u) => u.role === role);
  }
  get cached() { return this.#cache !== null; }
}
const client = new UsersClient();
const before = client.cached;
const members = await client.byRole('member');
return { before, after: client.cached, members: members.map((m) => m.name) };
//= {"before": false, "after": true, "members": ["Ben", "Cleo"]}
--- pipeline of async steps
const pipeline = [
  async (ctx) => ({ ...ctx, users: (await callTool('users:list', {})).users }),
  async (ctx) => ({ ...ctx, names: ctx.users.map((u) => u.name) }),
  async ({ names, ...rest }) => ({ count: rest.users.length, label: names.join('/') }),
];
let state = {};
for (const step of pipeline) state = await step(state);
return state;
//= {"count": 3, "label": "Ada/Ben/Cleo"}
--- reduce of promises
const ids = ['x', 'y', 'z'];
const order = await ids.reduce(async (previous, id) => {
  const list = await previous;
  const { value } = await callTool('echo', { value: `${id}${list.length}` });
  return [...list, value];
}, Promise.resolve([]));
return order;
//= ["x0", "y1", "z2"]
--- async generator over pages
async function* pages(total) {
  for (let page = 1; page <= total; page++) {
    yield await callTool('echo', { page });
  }
}
const numbers = [];
for await (const { page } of pages(3)) numbers.push(page);
return numbers;
//= [1, 2, 3]
--- withResolvers
const { promise, resolve } = Promise.withResolvers();
callTool('echo', { late: 1 }).then(resolve);
return await promise;
//= {"late": 1}
--- comment heavy script
/* ------------------------------------------------------------------
 * Goal: report how many members the tenant has.
 * NOTE: never use eval() or require('fs') here; this is a sandbox.
 * See also: process.env, globalThis, __proto__ — all unavailable.
 * ---------------------------------------------------------------- */
const { users } = await callTool('users:list', {}); // TODO: paginate?
/** @type {number} */
const members = users.filter(/* only members */ (u) => u.role === 'member').length;
return members; // done
//= 2
--- promise stored before it is awaited
const pending = callTool('users:list', {});
const label = ['a', 'b'].join('+');
const { users } = await pending;
return `${label}:${users.length}`;
//= "a+b:3"
--- forgotten await in the result
return { users: callTool('users:list', {}).then((r) => r.users.length) };
//= {"users": 3}
