// References: frozen objects that stand for values which stayed with the host. A script passes one on where the value is to
// go; reading the value through it throws.
//
// Evaluated before a script that contains the word `reference`, after the prelude has built the realm: the prelude passes
// in the built-ins it captured, and calls the functions this returns.
(function (builtIns) {
  'use strict';
  const { freeze, hasOwn, ownKeys, getOwnPropertyDescriptor, defineProperty, setPrototypeOf, parse, setHas, setAdd } = builtIns;
  const { weakGet, weakSet, textOf, bounded, guardStopped, neverMembers, iterators, GlobalProxy, GlobalSet, GlobalWeakMap } = builtIns;
  const GlobalTypeError = TypeError;
  const MEMBERS = { __proto__: null, $reference: 1, type: 1, bytes: 1, length: 1, preview: 1 };
  const tokens = new GlobalSet(), records = new GlobalWeakMap();

  // Reading a property that is not there would silently give undefined, so it throws, as reading from a promise does.
  function throwUnread(reference, use) {
    guardStopped();
    const record = weakGet(records, reference);
    throw new GlobalTypeError(`the value of '${record === undefined ? '' : bounded(record.name, 100)}' stayed outside of the script, and this is a reference to it: ${use}`);
  }
  const prototype = new GlobalProxy(freeze({ __proto__: null }), freeze({
    __proto__: null,
    get(target, key, reference) {
      if (key === iterators[0] || key === iterators[1]) return throwUnread(reference, 'it was iterated over');
      return typeof key === 'symbol' || hasOwn(neverMembers, key) || hasOwn(MEMBERS, key) ? undefined
        : throwUnread(reference, `its property '${bounded(key, 100)}' was read`);
    },
  }));
  function create(payload, name) {
    const reference = parse(payload);
    const token = reference.$reference;
    setPrototypeOf(reference, prototype);
    defineProperty(reference, 'toString', { __proto__: null, value: freeze(() => token), enumerable: false });
    weakSet(records, reference, { __proto__: null, token, name });
    setAdd(tokens, token);
    return freeze(reference);
  }
  // The token of a reference, or of a copy of one; undefined for anything else. `strict` throws for a copy with members of
  // its own.
  function tokenOf(value, strict) {
    const record = weakGet(records, value);
    if (record !== undefined) return record.token;
    const own = getOwnPropertyDescriptor(value, '$reference');
    if (own === undefined || typeof own.value !== 'string' || !setHas(tokens, own.value)) return undefined;
    const keys = ownKeys(value);
    for (let index = 0; index < keys.length; index++) {
      if (typeof keys[index] === 'string' && hasOwn(MEMBERS, keys[index])) continue;
      if (strict) throw new GlobalTypeError(`The input has a reference with a member of its own, '${bounded(textOf(keys[index]), 100)}'`);
      return undefined;
    }
    return own.value;
  }
  return { __proto__: null, create, tokenOf, isReference: (value) => weakGet(records, value) !== undefined };
})
