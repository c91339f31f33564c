// Grouping, counting, sorting, joining: Map, Set, reduce, groupBy, nested data.
--- group by with reduce
const { users } = await callTool('users:list', {});
const byRole = users.reduce((acc, user) => {
  (acc[user.role] ||= []).push(user.name);
  return acc;
}, {});
return byRole;
//= {"owner": ["Ada"], "member": ["Ben", "Cleo"]}
--- Object.groupBy
const { users } = await callTool('users:list', {});
const groups = Object.groupBy(users, (u) => u.role);
return Object.fromEntries(Object.entries(groups).map(([role, list]) => [role, list.length]));
//= {"owner": 1, "member": 2}
--- Map.groupBy
const { users } = await callTool('users:list', {});
const groups = Map.groupBy(users, ({ role }) => role);
return [...groups].map(([role, list]) => ({ role, names: list.map((u) => u.name) }));
//= [{"role": "owner", "names": ["Ada"]}, {"role": "member", "names": ["Ben", "Cleo"]}]
--- count words
const text = 'the quick brown fox jumps over the lazy dog the end';
const counts = new Map();
for (const word of text.split(' ')) counts.set(word, (counts.get(word) ?? 0) + 1);
return [...counts.entries()].sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0])).slice(0, 2);
//= [["the", 3], ["brown", 1]]
--- frequency table as an object
const votes = ['yes', 'no', 'yes', 'yes', 'abstain'];
const tally = {};
for (const vote of votes) tally[vote] = (tally[vote] || 0) + 1;
return tally;
//= {"yes": 3, "no": 1, "abstain": 1}
--- unique values
const values = [3, 1, 3, 2, 1];
return [...new Set(values)].sort((a, b) => a - b);
//= [1, 2, 3]
--- unique by key
const rows = [{ id: 1, v: 'a' }, { id: 2, v: 'b' }, { id: 1, v: 'c' }];
const unique = [...new Map(rows.map((r) => [r.id, r])).values()];
return unique;
//= [{"id": 1, "v": "c"}, {"id": 2, "v": "b"}]
--- set operations by hand
const a = new Set(['ada', 'ben', 'cleo']);
const b = new Set(['ben', 'dora']);
return {
  union: [...new Set([...a, ...b])],
  intersection: [...a].filter((x) => b.has(x)),
  difference: [...a].filter((x) => !b.has(x)),
};
//= {"union": ["ada", "ben", "cleo", "dora"], "intersection": ["ben"], "difference": ["ada", "cleo"]}
--- set methods of the language
const a = new Set([1, 2, 3]);
const b = new Set([2, 3, 4]);
return {
  union: [...a.union(b)],
  intersection: [...a.intersection(b)],
  difference: [...a.difference(b)],
  symmetric: [...a.symmetricDifference(b)],
  subset: new Set([2]).isSubsetOf(a),
};
//= {"union": [1, 2, 3, 4], "intersection": [2, 3], "difference": [1], "symmetric": [1, 4], "subset": true}
--- join two lists by id
const orders = [{ id: 1, userId: 'u1', total: 30 }, { id: 2, userId: 'u3', total: 12 }];
const { users } = await callTool('users:list', {});
const byId = new Map(users.map((u) => [u.id, u]));
return orders.map(({ id, userId, total }) => ({ id, total, customer: byId.get(userId)?.name ?? 'unknown' }));
//= [{"id": 1, "total": 30, "customer": "Ada"}, {"id": 2, "total": 12, "customer": "Cleo"}]
--- left join with missing rows
const left = [{ k: 'a' }, { k: 'b' }];
const right = { a: 1 };
return left.map((row) => ({ ...row, value: right[row.k] ?? null }));
//= [{"k": "a", "value": 1}, {"k": "b", "value": null}]
--- sort by several keys
const people = [
  { name: 'Zoe', age: 30 }, { name: 'Ann', age: 30 }, { name: 'Bob', age: 25 },
];
return people.toSorted((a, b) => a.age - b.age || a.name.localeCompare(b.name)).map((p) => p.name);
//= ["Bob", "Ann", "Zoe"]
--- sort does not touch the original
const original = [3, 1, 2];
const sorted = [...original].sort((a, b) => a - b);
return { original, sorted, reversed: original.toReversed(), spliced: original.toSpliced(1, 1), with: original.with(0, 9) };
//= {"original": [3, 1, 2], "sorted": [1, 2, 3], "reversed": [2, 1, 3], "spliced": [3, 2], "with": [9, 1, 2]}
--- top n
const scores = { ada: 91, ben: 72, cleo: 88, dan: 95 };
const top = Object.entries(scores).sort(([, a], [, b]) => b - a).slice(0, 2).map(([name]) => name);
return top;
//= ["dan", "ada"]
--- partition
const numbers = [1, 2, 3, 4, 5, 6];
const [even, odd] = numbers.reduce(
  ([e, o], n) => (n % 2 === 0 ? [[...e, n], o] : [e, [...o, n]]),
  [[], []],
);
return { even, odd };
//= {"even": [2, 4, 6], "odd": [1, 3, 5]}
--- chunk
const chunk = (list, size) =>
  Array.from({ length: Math.ceil(list.length / size) }, (_, i) => list.slice(i * size, i * size + size));
return chunk([1, 2, 3, 4, 5], 2);
//= [[1, 2], [3, 4], [5]]
--- zip and unzip
const names = ['a', 'b', 'c'];
const values = [1, 2, 3];
const zipped = names.map((n, i) => [n, values[i]]);
return { zipped, object: Object.fromEntries(zipped), back: [zipped.map(([n]) => n), zipped.map(([, v]) => v)] };
//= {"zipped": [["a", 1], ["b", 2], ["c", 3]], "object": {"a": 1, "b": 2, "c": 3}, "back": [["a", "b", "c"], [1, 2, 3]]}
--- flatten nested arrays
const nested = [1, [2, [3, [4]]]];
return { one: nested.flat(), all: nested.flat(Infinity), mapped: [[1, 2], [3]].flatMap((x) => x.map((y) => y * 10)) };
//= {"one": [1, 2, [3, [4]]], "all": [1, 2, 3, 4], "mapped": [10, 20, 30]}
--- cartesian product
const sizes = ['S', 'M'];
const colours = ['red', 'blue'];
return sizes.flatMap((s) => colours.map((c) => `${s}-${c}`));
//= ["S-red", "S-blue", "M-red", "M-blue"]
--- pivot table
const rows = [
  { month: 'Jan', product: 'A', qty: 3 }, { month: 'Jan', product: 'B', qty: 1 }, { month: 'Feb', product: 'A', qty: 5 },
];
const pivot = {};
for (const { month, product, qty } of rows) {
  pivot[month] ??= {};
  pivot[month][product] = (pivot[month][product] ?? 0) + qty;
}
return pivot;
//= {"Jan": {"A": 3, "B": 1}, "Feb": {"A": 5}}
--- nested optional chaining
const order = { customer: { address: null }, items: [{ sku: 'x' }] };
return [order?.customer?.address?.city, order.items?.[0]?.sku, order.items[3]?.sku, order.notify?.()].map((v) => v ?? 'none');
//= ["none", "x", "none", "none"]
--- deep path getter
const get = (object, path, fallback = undefined) =>
  path.split('.').reduce((value, key) => (value === null || value === undefined ? undefined : value[key]), object) ?? fallback;
const data = { a: { b: [{ c: 42 }] } };
return [get(data, 'a.b.0.c'), get(data, 'a.x.y', 'default')];
//= [42, "default"]
--- pick and omit
const pick = (o, keys) => Object.fromEntries(keys.filter((k) => k in o).map((k) => [k, o[k]]));
const omit = (o, keys) => Object.fromEntries(Object.entries(o).filter(([k]) => !keys.includes(k)));
const user = { id: 1, name: 'Ada', password: 'x', email: 'a@b.c' };
return { picked: pick(user, ['id', 'name', 'nope']), omitted: omit(user, ['password']) };
//= {"picked": {"id": 1, "name": "Ada"}, "omitted": {"id": 1, "name": "Ada", "email": "a@b.c"}}
--- rest and spread of objects
const { id, ...rest } = { id: 7, a: 1, b: 2 };
const merged = { ...rest, b: 3, ...(id > 5 && { big: true }), ...(id > 50 ? { huge: true } : {}) };
return merged;
//= {"a": 1, "b": 3, "big": true}
--- nested destructuring with defaults
const response = { data: { items: [{ price: { amount: 5 } }], meta: {} } };
const { data: { items: [{ price: { amount, currency = 'EUR' } }, second = 'none'], meta: { total = 0 } } } = response;
return { amount, currency, second, total };
//= {"amount": 5, "currency": "EUR", "second": "none", "total": 0}
--- swap by destructuring
let [x, y] = [1, 2];
[x, y] = [y, x];
return { x, y };
//= {"x": 2, "y": 1}
--- deep merge by recursion
function isPlainObject(v) { return typeof v === 'object' && v !== null && !Array.isArray(v); }
function deepMerge(target, source) {
  const out = { ...target };
  for (const [key, value] of Object.entries(source)) {
    out[key] = isPlainObject(value) && isPlainObject(out[key]) ? deepMerge(out[key], value) : value;
  }
  return out;
}
return deepMerge({ a: { x: 1, y: [1] }, b: 1 }, { a: { y: [2], z: 3 }, c: null });
//= {"a": {"x": 1, "y": [2], "z": 3}, "b": 1, "c": null}
--- deep equality
const deepEqual = (a, b) => {
  if (Object.is(a, b)) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((k) => Object.hasOwn(b, k) && deepEqual(a[k], b[k]));
};
return [deepEqual({ a: [1, { b: 2 }] }, { a: [1, { b: 2 }] }), deepEqual([1], [2]), deepEqual(NaN, NaN)];
//= [true, false, true]
--- diff of two snapshots
const before = { a: 1, b: 2, c: 3 };
const after = { a: 1, b: 5, d: 4 };
const added = Object.keys(after).filter((k) => !(k in before));
const removed = Object.keys(before).filter((k) => !(k in after));
const changed = Object.keys(before).filter((k) => k in after && before[k] !== after[k]);
return { added, removed, changed };
//= {"added": ["d"], "removed": ["c"], "changed": ["b"]}
--- tree from a flat list
const flat = [
  { id: 1, parent: null, name: 'root' }, { id: 2, parent: 1, name: 'a' }, { id: 3, parent: 1, name: 'b' }, { id: 4, parent: 2, name: 'c' },
];
const nodes = new Map(flat.map((n) => [n.id, { name: n.name, children: [] }]));
let root = null;
for (const { id, parent } of flat) {
  if (parent === null) root = nodes.get(id);
  else nodes.get(parent).children.push(nodes.get(id));
}
return root;
//= {"name": "root", "children": [{"name": "a", "children": [{"name": "c", "children": []}]}, {"name": "b", "children": []}]}
--- walk a tree recursively
const tree = { name: 'root', children: [{ name: 'a', children: [{ name: 'a1' }] }, { name: 'b' }] };
const paths = [];
function walk(node, prefix = '') {
  const path = `${prefix}/${node.name}`;
  paths.push(path);
  for (const child of node.children ?? []) walk(child, path);
}
walk(tree);
return paths;
//= ["/root", "/root/a", "/root/a/a1", "/root/b"]
--- depth of a tree
const depth = (node) => 1 + Math.max(0, ...(node.children ?? []).map(depth));
return depth({ children: [{}, { children: [{ children: [] }] }] });
//= 3
--- breadth first search
const graph = { a: ['b', 'c'], b: ['d'], c: ['d', 'e'], d: [], e: [] };
const queue = ['a'];
const visited = new Set(queue);
const order = [];
for (let i = 0; i < queue.length; i++) {
  const node = queue[i];
  order.push(node);
  for (const next of graph[node]) {
    if (!visited.has(next)) {
      visited.add(next);
      queue.push(next);
    }
  }
}
return order;
//= ["a", "b", "c", "d", "e"]
--- topological sort
const dependencies = { build: ['install'], test: ['build'], install: [], deploy: ['test', 'build'] };
const done = new Set();
const result = [];
const visit = (name) => {
  if (done.has(name)) return;
  done.add(name);
  dependencies[name].forEach(visit);
  result.push(name);
};
Object.keys(dependencies).forEach(visit);
return result;
//= ["install", "build", "test", "deploy"]
--- linked structure with Map iteration
const m = new Map([['one', 1], ['two', 2]]);
m.set('three', 3).delete('one');
const out = [];
m.forEach((value, key) => out.push(`${key}=${value}`));
for (const [k] of m) out.push(k);
return { out, size: m.size, keys: [...m.keys()], has: m.has('two') };
//= {"out": ["two=2", "three=3", "two", "three"], "size": 2, "keys": ["two", "three"], "has": true}
--- Map and Set as the result
return { map: new Map([['a', 1], ['b', new Set([1, 2])]]), set: new Set(['x']) };
//= {"map": {"a": 1, "b": [1, 2]}, "set": ["x"]}
--- last matches
const list = [{ v: 1 }, { v: 5 }, { v: 3 }, { v: 5 }];
return [list.findLast((i) => i.v === 5) === list[3], list.findLastIndex((i) => i.v < 4), list.findIndex((i) => i.v === 9)];
//= [true, 2, -1]
--- some every includes
const xs = [2, 4, 6];
return [xs.every((x) => x % 2 === 0), xs.some((x) => x > 5), xs.includes(4), xs.indexOf(6), xs.lastIndexOf(1)];
//= [true, true, true, 2, -1]
--- fill and copyWithin
const grid = Array.from({ length: 2 }, () => Array(3).fill(0));
grid[1][2] = 7;
return { grid, copied: [1, 2, 3, 4].copyWithin(0, 2) };
//= {"grid": [[0, 0, 0], [0, 0, 7]], "copied": [3, 4, 3, 4]}
--- matrix transpose and multiply
const A = [[1, 2], [3, 4]];
const transpose = (m) => m[0].map((_, i) => m.map((row) => row[i]));
const multiply = (x, y) => x.map((row) => transpose(y).map((col) => row.reduce((s, v, i) => s + v * col[i], 0)));
return { t: transpose(A), p: multiply(A, A) };
//= {"t": [[1, 3], [2, 4]], "p": [[7, 10], [15, 22]]}
--- entries of an array
const letters = ['a', 'b'];
const out = [];
for (const [index, letter] of letters.entries()) out.push(`${index}:${letter}`);
return out;
//= ["0:a", "1:b"]
--- keys of an object in order
const o = { b: 1, a: 2, 10: 'x', 9: 'y' };
return Object.keys(o);
//= ["9", "10", "b", "a"]
--- invert an object
const codes = { DE: 'Germany', FR: 'France' };
return Object.fromEntries(Object.entries(codes).map(([k, v]) => [v, k]));
//= {"Germany": "DE", "France": "FR"}
--- index with null prototype
const index = Object.create(null);
for (const word of ['apple', 'avocado', 'banana']) (index[word[0]] ??= []).push(word);
return index;
//= {"a": ["apple", "avocado"], "b": ["banana"]}
--- structuredClone keeps copies apart
const template = { tags: ['a'], nested: { n: 1, when: new Date(0) } };
const copy = structuredClone(template);
copy.tags.push('b');
copy.nested.n = 2;
return { template, copy };
//= {"template": {"tags": ["a"], "nested": {"n": 1, "when": "1970-01-01T00:00:00.000Z"}}, "copy": {"tags": ["a", "b"], "nested": {"n": 2, "when": "1970-01-01T00:00:00.000Z"}}}
--- freezing settings
const settings = Object.freeze({ retries: 3, nested: Object.freeze({ on: true }) });
try { settings.retries = 5; } catch (e) { return { name: e.name, retries: settings.retries, frozen: Object.isFrozen(settings) }; }
//= {"name": "TypeError", "retries": 3, "frozen": true}
--- stack and queue
const stack = [];
stack.push(1, 2, 3);
const popped = stack.pop();
const queue = ['x', 'y'];
queue.unshift('w');
const shifted = queue.shift();
return { popped, stack, shifted, queue, removed: stack.splice(0, 1) };
//= {"popped": 3, "stack": [2], "shifted": "w", "queue": ["x", "y"], "removed": [1]}
--- priority queue class
class PriorityQueue {
  #items = [];
  push(item, priority) {
    this.#items.push({ item, priority });
    this.#items.sort((a, b) => a.priority - b.priority);
    return this;
  }
  pop() { return this.#items.shift()?.item; }
  get size() { return this.#items.length; }
}
const q = new PriorityQueue().push('low', 9).push('urgent', 1).push('mid', 5);
return [q.pop(), q.size, q.pop(), q.pop(), q.pop() ?? 'empty'];
//= ["urgent", 2, "mid", "low", "empty"]
--- least recently used cache
class LRU {
  constructor(limit) { this.limit = limit; this.map = new Map(); }
  get(key) {
    if (!this.map.has(key)) return undefined;
    const value = this.map.get(key);
    this.map.delete(key);
    this.map.set(key, value);
    return value;
  }
  set(key, value) {
    this.map.delete(key);
    this.map.set(key, value);
    if (this.map.size > this.limit) this.map.delete(this.map.keys().next().value);
  }
}
const cache = new LRU(2);
cache.set('a', 1); cache.set('b', 2); cache.get('a'); cache.set('c', 3);
return [...cache.map.keys()];
//= ["a", "c"]
--- union find
const parent = [0, 1, 2, 3, 4];
const find = (x) => (parent[x] === x ? x : (parent[x] = find(parent[x])));
const union = (a, b) => { parent[find(a)] = find(b); };
union(0, 1); union(3, 4); union(1, 3);
return parent.map((_, i) => find(i)).filter((v, i, all) => all.indexOf(v) === i).length;
//= 2
