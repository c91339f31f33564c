// Values that stayed with the host: objects in their place, which say what they are and go where the value is to go.
//
// Evaluated ahead of a script that says `reference`, after the prelude has put the realm together: the prelude gives it
// what it needs, and asks what comes back.
(function (tools) {
  'use strict';
  const { freeze, hasOwn, ownKeys, getOwnPropertyDescriptor, defineProperty, setPrototypeOf, parse, setHas, setAdd } = tools;
  const { weakGet, weakSet, textOf, bounded, guardStopped, neverMembers, iterators, GlobalProxy, GlobalSet, GlobalWeakMap } = tools;
  const GlobalTypeError = TypeError;
  const MEMBERS = { __proto__: null, $reference: 1, type: 1, bytes: 1, length: 1, preview: 1 };
  const tokens = new GlobalSet(), made = new GlobalWeakMap();

  // Reading what is not there would give undefined in silence, so it throws, as reading from a promise does.
  function unread(reference, use) {
    guardStopped();
    const known = weakGet(made, reference);
    throw new GlobalTypeError(`the value of '${known === undefined ? '' : bounded(known.name, 100)}' stayed outside of the script, and this is a reference to it: ${use}`);
  }
  const prototype = new GlobalProxy(freeze({ __proto__: null }), freeze({
    __proto__: null,
    get(target, key, reference) {
      if (key === iterators[0] || key === iterators[1]) return unread(reference, 'it was iterated over');
      return typeof key === 'symbol' || hasOwn(neverMembers, key) || hasOwn(MEMBERS, key) ? undefined
        : unread(reference, `its property '${bounded(key, 100)}' was read`);
    },
  }));
  function make(payload, name) {
    const reference = parse(payload);
    const token = reference.$reference;
    setPrototypeOf(reference, prototype);
    defineProperty(reference, 'toString', { __proto__: null, value: freeze(() => token), enumerable: false });
    weakSet(made, reference, { __proto__: null, token, name });
    setAdd(tokens, token);
    return freeze(reference);
  }
  // The token of a reference, or of a copy of one; undefined of anything else.
  function tokenOf(value, strict) {
    const known = weakGet(made, value);
    if (known !== undefined) return known.token;
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
  return { __proto__: null, make, tokenOf, isMade: (value) => weakGet(made, value) !== undefined };
})
