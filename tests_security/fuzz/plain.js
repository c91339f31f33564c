// What a plain engine needs to run a program of AgentScript, and to say how it ended in the words of the contract.
// Evaluated once in a fresh engine; gives `run(body, call)`, which leaves its report in the global `settled`.
//
// This is a second writing of the contract's section 7 (what becomes of a result), made without looking at the runtime's.
(() => {
  'use strict';
  const { stringify, rawJSON } = JSON;
  const toStringOf = Object.prototype.toString, regExpText = RegExp.prototype.toString;

  // A promise has `then`, `catch` and `finally`: who reads anything else of one, or spreads it, forgot to await it
  const { getPrototypeOf, setPrototypeOf } = Object, promisePrototype = Promise.prototype;
  const forgotten = (use) => { throw new TypeError(`a promise was not awaited: ${use}`); };
  const uses = new Map([[Symbol.toPrimitive, 'it was used as a text or a number'], ['toJSON', 'it was written as JSON'],
    [Symbol.iterator, 'it was iterated over'], [Symbol.asyncIterator, 'it was iterated over']]);
  setPrototypeOf(promisePrototype, new Proxy({}, {
    get(_, key) {
      if (key === Symbol.isConcatSpreadable) return undefined;
      return forgotten(uses.get(key) ?? (typeof key === 'string' ? `its property '${key}' was read` : 'it was used as a value'));
    },
    has(_, key) { return forgotten(`${typeof key === 'string' ? `'${key}'` : 'a symbol'} was looked for in it`); },
  }));
  const spread = (value, use) => {
    const isPromise = typeof value === 'object' && value !== null && getPrototypeOf(value) === promisePrototype;
    if (isPromise) return forgotten(use === 'tested' ? 'it was tested or compared' : 'its properties were taken');
    return typeof value === 'string' && use === 'spread' ? Object(value) : value; // the engine would spread nothing
  };
  globalThis.data = spread;
  for (const name of ['entries', 'getOwnPropertyNames', 'keys', 'values']) {
    const native = Object[name];
    Object[name] = (object) => native(spread(object));
  }
  const { assign } = Object;
  Object.assign = (target, ...sources) => { sources.forEach((source) => { spread(source); }); return assign(target, ...sources); };

  // JSON of the script's own making has BigInts as integers
  Object.defineProperty(BigInt.prototype, 'toJSON', { value() { return rawJSON(`${this}`); } });

  // JSON data of `value`; promises in it are put into `pending`
  function data(value, open, pending) {
    switch (typeof value) {
      case 'string': return value.toWellFormed();
      case 'number': return Number.isFinite(value) ? value : null;
      case 'boolean': return value;
      case 'bigint': return `${value}`;
      case 'object': break;
      default: return undefined;
    }
    if (value === null) return null;
    if (open.includes(value)) return '[Circular]';
    const inside = [...open, value];
    const each = (item) => { const shown = data(item, inside, pending); return shown === undefined ? null : shown; };
    const fields = (keys, at) => {
      const shown = {};
      for (const key of keys) {
        if (key === '__proto__' || key === 'constructor') continue;
        const item = data(at(key), inside, pending);
        if (item !== undefined) shown[key.toWellFormed()] = item;
      }
      return shown;
    };
    if (Array.isArray(value)) { const shown = []; for (let i = 0; i < value.length; i++) shown.push(each(value[i])); return shown; }
    if (value instanceof Promise) { pending.push(value); return '[a promise: not awaited]'; }
    if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.toISOString();
    if (value instanceof RegExp) return regExpText.call(value);
    if (value instanceof Set) return [...value].map(each);
    if (value instanceof Map) {
      const entries = new Map();
      // A symbol is no key of JSON
      for (const [key, item] of value) if (typeof key !== 'symbol') entries.set(keyText(key, entries.size), item);
      return fields([...entries.keys()], (key) => entries.get(key));
    }
    if (value instanceof Error) {
      const shown = { name: `${value.name}`, message: `${value.message}` };
      if (typeof value.code === 'string' || typeof value.code === 'number') shown.code = each(value.code);
      return shown;
    }
    return fields(Object.keys(value), (key) => value[key]);
  }
  function keyText(key, count) {
    if (typeof key === 'object' && key !== null) return `[Object ${count + 1}]`;
    return typeof key === 'function' ? '[Function]' : typeof key === 'symbol' ? 'Symbol()' : `${key}`;
  }
  async function resolved(value, seen) {
    if (typeof value !== 'object' || value === null) return value;
    if (value instanceof Promise) return resolved(await value, seen);
    if (seen.has(value)) return seen.get(value);
    if (value instanceof Map || value instanceof Set) {
      const copy = value instanceof Map ? new Map() : new Set();
      seen.set(value, copy);
      for (const [key, item] of value.entries()) {
        const settled = await resolved(item, seen);
        if (copy instanceof Map) copy.set(key, settled); else copy.add(settled);
      }
      return copy;
    }
    const isArray = Array.isArray(value);
    if (!isArray && toStringOf.call(value) !== '[object Object]') return value;
    const copy = isArray ? [] : {};
    seen.set(value, copy);
    if (isArray) for (let i = 0; i < value.length; i++) copy.push(await resolved(value[i], seen));
    else for (const key of Object.keys(value)) copy[key] = await resolved(value[key], seen);
    return copy;
  }
  async function report(value, call) {
    if (call && typeof value === 'function') value = await value();
    for (let round = 0; round < 5; round++) {
      const pending = [];
      const shown = data(value, [], pending);
      if (pending.length === 0) return ['value', shown === undefined ? null : shown];
      value = await resolved(value, new Map());
    }
    return ['odd', 'promises inside promises'];
  }
  function failure(error) {
    if (error instanceof Error) return ['error', `${error.name}`, `${error.message}`];
    // Anything can be thrown; the contract shows it as text
    if (error instanceof Promise) return ['error', 'Error', '[a promise: not awaited]'];
    return ['error', 'Error', typeof error === 'object' && error !== null ? stringify(data(error, [], [])) : keyText(error)];
  }
  globalThis.settled = null;
  return (main, call) => {
    main().then((value) => report(value, call)).then(
      (done) => { settled = stringify(done); },
      (error) => { try { settled = stringify(failure(error)); } catch { settled = '["odd"]'; } });
  };
})()
