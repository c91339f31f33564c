// The runtime of AgentScript: with locale.js and references.js the only JavaScript CodeCall ships. Runs once in every
// fresh engine, before the script.
//
// Called with the configuration by the text that prelude.py makes; the host's functions are the globals `$post`, `$ask`, `$log`,
// `$stop`, `$checkpoint`, `$finish`, `$fail`, `$exhausted`, `$ran`, `$large`, which this function deletes. Everything used later is
// captured here first: nothing a script does to the objects it can reach changes what this file does. Functions of the script are
// called without a `this`. Returns one function with the operations realm.py needs: operate(operation, a, b, c, d, e).
//
// `tables` lists what the policy keeps of each object. `removals` lists what another engine had to delete for it: the same in
// every engine of one build, so that the tables need not be applied key by key in each. With both, `removals` is checked.
(function (config, tables, removals) {
  'use strict';
  const world = globalThis;
  const { $post, $ask, $log, $stop, $checkpoint, $finish, $fail, $exhausted, $ran, $large } = world;

  // ---- captured built-ins -------------------------------------------------------------------------------------
  const { apply, construct, getPrototypeOf, ownKeys, getOwnPropertyDescriptor, defineProperty, deleteProperty } = Reflect;
  const { setPrototypeOf } = Reflect;
  const { freeze, isFrozen } = Object;
  const uncurry = (method) => (self, ...args) => apply(method, self, args);
  const parse = JSON.parse;
  const stringify = JSON.stringify, rawJSON = JSON.rawJSON;
  const isArray = Array.isArray;
  const isFinite = Number.isFinite;
  const floor = Math.floor;
  const toText = String;
  const GlobalDate = Date, GlobalError = Error, GlobalMap = Map, GlobalObject = Object, GlobalSet = Set;
  const GlobalPromise = Promise, GlobalProxy = Proxy, GlobalTypeError = TypeError, GlobalRangeError = RangeError, GlobalWeakMap = WeakMap;
  const then = uncurry(Promise.prototype.then);
  const promiseResolve = Promise.resolve.bind(Promise);
  const dateToIso = uncurry(Date.prototype.toISOString);
  const dateTime = uncurry(Date.prototype.getTime), dateToJson = Date.prototype.toJSON;
  const regExpSource = uncurry(getOwnPropertyDescriptor(RegExp.prototype, 'source').get);
  const regExpFlags = uncurry(getOwnPropertyDescriptor(RegExp.prototype, 'flags').get);
  const mapForEach = uncurry(Map.prototype.forEach), mapSize = uncurry(getOwnPropertyDescriptor(Map.prototype, 'size').get);
  const mapGet = uncurry(Map.prototype.get), mapSet = uncurry(Map.prototype.set), mapHas = uncurry(Map.prototype.has);
  const mapDelete = uncurry(Map.prototype.delete);
  const setForEach = uncurry(Set.prototype.forEach), setSize = uncurry(getOwnPropertyDescriptor(Set.prototype, 'size').get);
  const setHas = uncurry(Set.prototype.has), setAdd = uncurry(Set.prototype.add), setDelete = uncurry(Set.prototype.delete);
  const weakGet = uncurry(WeakMap.prototype.get), weakSet = uncurry(WeakMap.prototype.set);
  const toWellFormed = uncurry(String.prototype.toWellFormed);
  const slice = uncurry(String.prototype.slice), trim = uncurry(String.prototype.trim);
  const lower = uncurry(String.prototype.toLowerCase), startsWith = uncurry(String.prototype.startsWith);
  const toBigInt = BigInt;
  const bigintToText = uncurry(BigInt.prototype.toString);
  const numberToText = uncurry(Number.prototype.toString);
  const hasOwn = Object.hasOwn;
  // The engine's stack text of an error. Scripts see an empty text in its place.
  const stackOf = uncurry(getOwnPropertyDescriptor(Error.prototype, 'stack').get);
  const internalErrorPrototype = InternalError.prototype;
  const rangeErrorPrototype = RangeError.prototype;
  const byteLengthOf = uncurry(
    getOwnPropertyDescriptor(getPrototypeOf(Uint8Array.prototype), 'byteLength').get);
  const bufferByteLength = uncurry(getOwnPropertyDescriptor(ArrayBuffer.prototype, 'byteLength').get);

  // `push` looks up nothing on the prototype chain, so a script's tricks with indices or setters change nothing.
  const append = (list, item) => defineProperty(list, list.length, {
    __proto__: null, value: item, writable: true, enumerable: true, configurable: true });
  const put = (object, key, value) => defineProperty(object, key, {
    __proto__: null, value, writable: true, enumerable: true, configurable: true });

  // The engine's own error for an exhausted stack: only its message distinguishes it from other RangeErrors.
  const overflowMessage = config.overflowMessage;
  const isOverflow = (error) => typeof error === 'object' && error !== null &&
    getPrototypeOf(error) === rangeErrorPrototype && ownText(error, 'message') === overflowMessage;
  // With the heap exhausted the engine cannot even make an error: it throws null.
  const isEngineFault = (error) => error === null ? $exhausted()
    : typeof error === 'object' && getPrototypeOf(error) === internalErrorPrototype;

  // ---- stopping -----------------------------------------------------------------------------------------------
  let running = false;
  let stopped = false;
  let poison = () => {};
  let stepsSoFar = () => 0;
  let pendingFault = () => {};
  const signal = freeze(new GlobalError('The script was stopped'));
  // The engine's stack text of an error, the innermost frame first. It contains function names, which the script chooses: of any
  // length, and not always text.
  const stackText = (error) => toWellFormed(slice(textOf(stackOf(error)), 0, 8000));
  // The stack at this point of the script. With the stack or the heap exhausted there may be no room to create the error.
  const currentStack = () => { try { return stackText(new GlobalError()); } catch { return ''; } };

  // The host hears of steps every few thousand of them, and of the last ones here. There may be no room on the stack.
  const reportSteps = () => { try { $checkpoint(stepsSoFar()); } catch { /* it knows them until then */ } };

  // Ends the script. What is thrown can be caught, but every loop turn, function entry and runtime call throws again,
  // and the host runs no further job.
  function stop(code, detail) {
    if (!stopped) {
      stopped = true;
      reportSteps();
      poison();
      $stop(code, detail === undefined ? '""' : stringify(toWellFormed(slice(toText(detail), 0, 1000))), currentStack());
    }
    throw signal;
  }
  const guardStopped = () => { if (stopped) throw signal; };

  function tick(steps, pending) {
    guardStopped();
    if (pending !== undefined) stopIfFatal(pending);
    const next = $checkpoint(steps);
    if (next < 0) stop(next === -1 ? 'STEP_LIMIT' : 'TIMEOUT');
    return next;
  }
  const loopLimit = () => stop('ITERATION_LIMIT');
  function stopIfFatal(error) {
    guardStopped();
    if (isOverflow(error)) stop('STACK_OVERFLOW');
    if (isEngineFault(error)) stop('WORKER_MEMORY_EXCEEDED');
  }

  // ---- integers beyond 2^53 -------------------------------------------------------------------------------------
  // A number cannot hold them, so they are BigInts, from wherever they come: answers, the context, JSON that the script
  // parses, its own literals. Those of `exactIntegers` leave as the integers they came as; in a result, other BigInts are texts.
  const exactIntegers = new GlobalSet();
  function exactly(value, context) {
    if (typeof value !== 'number' || (value <= 9007199254740991 && value >= -9007199254740991)) return value;
    const source = context.source;
    if (source.length > 1000) return value;
    let integer;
    try { integer = toBigInt(source); } catch { return value; }  // a float: it has a point or an exponent
    setAdd(exactIntegers, integer);
    return integer;
  }
  const reviveExactly = (key, value, context) => exactly(value, context);
  const read = (text, large) => large ? parse(text, reviveExactly) : parse(text);
  const isLarge = (text) => typeof text === 'string' && text.length > 15 && $large(toWellFormed(text));
  const bigintRefusal = (() => { try { return stringify(1n); } catch (error) { return error.message; } })();

  // ---- out of the engine: JSON only -----------------------------------------------------------------------------
  const DROP = { __proto__: null };
  const LIMITS = config.sanitize;

  // Converts a value to plain JSON data in one pass. `leaving`: the data goes to the host whole, whatever its size, and a reference
  // becomes its token; what only a text shows (a console line, a message) is shortened by size, too. `strict` (tool inputs) throws
  // where a result gets a mark. Either way `lost()` names what JSON has no form for; `undefined` is left out as JSON does, and
  // a script's `toJSON` gives what stands for its object, as in JSON.stringify.
  function encoder(strict, leaving) {
    const open = new GlobalSet();
    const notes = [];
    const pending = [];
    const missing = [];
    let visited = 0, emptyLists = 0;
    // What each `toJSON` gave: a result with promises in it is read again, and no `toJSON` is called twice.
    const conversions = new GlobalMap();
    // What JSON has no form for: the first few, each with the path to it, which grows on the way up. No other value pays for it.
    const found = [];
    let losses = 0;
    function lose(what) {
      if (++losses <= 5) append(found, { __proto__: null, what, path: '' });
    }
    function addStep(before, step) {
      for (let index = before; index < found.length; index++) {
        const { path } = found[index];
        if (path.length < 200) found[index].path = step + (path === '' || path[0] === '[' ? path : `.${path}`);
      }
    }
    function lost(whole) {
      let told = '';
      for (let index = 0; index < found.length; index++) {
        told += `${index === 0 ? '' : ', '}${found[index].path || whole} is ${found[index].what}`;
      }
      return losses > found.length ? `${told} and ${losses - found.length} more` : told;
    }

    const mark = (what) => { if (notes.length < 20) append(notes, `A mark stands in the result for ${what}`); };
    function text(value) {
      return leaving ? toWellFormed(value) : bounded(value, LIMITS.string);
    }
    function list(length, at, depth) {
      const out = [];
      const kept = leaving || length <= LIMITS.array ? length : LIMITS.array;
      let dropped = 0;
      for (let index = 0; index < kept; index++) {
        const before = losses;
        const item = encode(at(index), depth + 1, index);
        if (losses > before) addStep(before, `[${index}]`);
        else if (item === DROP) dropped++;
        append(out, item === DROP ? null : item);
      }
      if (dropped > 0 && dropped === kept) emptyLists++;
      if (kept < length) append(out, { __truncated: { items: length - kept } });
      return out;
    }
    function object(keys, at, depth) {
      const out = {};
      let kept = 0, left = 0;
      for (let index = 0; index < keys.length; index++) {
        const key = keys[index];
        if (typeof key !== 'string') continue;
        if (key === '__proto__' || key === 'constructor') {
          const before = losses;
          lose('a name of prototypes');
          addStep(before, key);
          continue;
        }
        if (!leaving && kept >= LIMITS.properties) { left++; continue; }
        const before = losses;
        const item = encode(at(key), depth + 1, key);
        if (losses > before) addStep(before, toWellFormed(slice(key, 0, 60)));
        if (item === DROP) {
          if (losses === before && missing.length < 5) append(missing, toWellFormed(slice(key, 0, 100)));
          continue;
        }
        put(out, toWellFormed(key), item);
        kept++;
      }
      if (left > 0) put(out, '__truncated', { properties: left });
      return out;
    }
    // A long list of numbers in a result leaves as it is: there may be no room for a copy. A getter of another part may still
    // change it, which is found by looking again.
    const shared = [];
    let strange = false;
    function isNumbers(list) {
      // A class of lists can have a `toJSON`, or getters for holes.
      if (list.length < 10000 || getPrototypeOf(list) !== listPrototype || hasOwn(list, 'toJSON')) return false;
      strange = false;
      for (let index = 0; index < list.length; index++) {
        if ((++visited & 1023) === 0) tick(stepsSoFar());
        const item = list[index];
        if (typeof item !== 'number') return false;
        if (item - item !== 0) strange = true;
      }
      return true;
    }
    function share(list) {
      append(shared, list);
      for (let index = 0; strange && index < list.length; index++) {
        const before = losses;
        encode(list[index], 2, index);
        if (losses > before) addStep(before, `[${index}]`);
      }
      return list;
    }
    function checkShared() {
      for (let index = 0; index < shared.length; index++) {
        if (!isNumbers(shared[index])) throw new GlobalTypeError('A list in the result changed while the result was read');
      }
    }
    function encode(value, depth, key, converted) {
      if ((++visited & 1023) === 0) tick(stepsSoFar());
      switch (typeof value) {
        case 'string': return text(value);
        case 'number':
          if (isFinite(value)) return value;
          lose(numberToText(value));
          return null;
        case 'boolean': return value;
        case 'bigint': return strict || setHas(exactIntegers, value) ? rawJSON(bigintToText(value)) : bigintToText(value);
        case 'object': break;
        case 'undefined': return DROP;
        default:
          if (depth > 1) lose(`a ${typeof value}`);  // a script whose whole value is a function is told so elsewhere
          return DROP;
      }
      if (value === null) return null;
      if (depth > LIMITS.depth) {
        if (strict) throw new GlobalTypeError(`The input is nested deeper than ${LIMITS.depth} levels`);
        mark(`nesting deeper than ${LIMITS.depth} levels`);
        return { __truncated: { depth: LIMITS.depth } };
      }
      if (setHas(open, value)) {
        if (strict) throw new GlobalTypeError('The input refers to itself');
        mark('a value that contains itself');
        return '[Circular]';
      }
      setAdd(open, value);
      try {
        return compound(value, depth, key, converted);
      } finally {
        setDelete(open, value);
      }
    }
    const loseProperties = (value, kind, method) => {
      if (ownKeys(value).length > 0) lose(`a ${kind} with properties, which are not in it: write \`.${method}(…)\``);
    };
    function compound(value, depth, key, converted) {
      const space = weakGet(namespaceNames, value);
      if (space !== undefined) {
        if (strict) throw new GlobalTypeError(`The input contains ${space}, which is a namespace of tools and no data`);
        const names = space === 'tools' ? ownKeys(value) : [];
        return names.length > 0 ? list(names.length, (index) => names[index], depth) : text(`[namespace ${space}]`);
      }
      if (leaving && references !== undefined) {
        const token = references.tokenOf(value, strict);
        if (token !== undefined) return { $reference: token };
      }
      const toJSON = converted ? undefined : converterOf(value);
      if (toJSON !== undefined) {
        const made = apply(toJSON, value, [textOf(key)]);
        mapSet(conversions, value, { __proto__: null, made });
        const out = made === value ? compound(value, depth, key, true) : encode(made, depth, key, true);
        if (out === DROP && depth === 1) lose('without a value: its toJSON gives none');
        return out;
      }
      if (isArray(value)) {
        if (!strict && leaving && isNumbers(value)) return share(value);
        if (value.length === 0 && ownKeys(value).length > 1) lose('an array without items, but with properties: begin with `{}`');
        return list(value.length, (index) => value[index], depth);
      }
      switch (kindOf(value)) {
        case 'Date':
          if (isFinite(dateTime(value))) return dateToIso(value);
          lose('an invalid date');
          return null;
        case 'RegExp': return text(`/${regExpSource(value)}/${regExpFlags(value)}`);
        case 'Error': {
          const out = { name: text(ownText(value, 'name') || 'Error'), message: text(ownText(value, 'message')) };
          const code = value.code;
          if (typeof code === 'string' || typeof code === 'number') {
            const before = losses;
            put(out, 'code', encode(code, depth + 1, 'code'));
            addStep(before, 'code');
          }
          return out;
        }
        case 'Map': {
          const entries = new GlobalMap();
          const keys = [];
          let objects = false, alike = false;
          mapForEach(value, (item, key) => {
            if (typeof key === 'object' && key !== null) objects = true;
            const name = typeof key === 'symbol' ? undefined
              : typeof key === 'object' && key !== null ? `[Object ${keys.length + 1}]` : textOf(key);
            if (name !== undefined && mapHas(entries, name)) alike = true;
            else if (name !== undefined) append(keys, name);
            if (name !== undefined) mapSet(entries, name, item);
          });
          loseProperties(value, 'Map', 'set');
          if (objects || alike) lose(`a Map with keys that are ${objects ? 'objects' : 'the same as texts'}`);
          return object(keys, (key) => mapGet(entries, key), depth);
        }
        case 'Set': {
          const items = [];
          setForEach(value, (item) => append(items, item));
          loseProperties(value, 'Set', 'add');
          return list(items.length, (index) => items[index], depth);
        }
        case 'Promise':
          append(pending, value);
          return `[${promiseOf(value)}: not awaited]`;
        case 'Binary': return `[Binary ${byteLength(value)} bytes]`;
        case 'Boxed': return encode(unboxed(value), depth, key);
        case 'Iterator': {
          if (!leaving) return '[an iterator: write [...x] for its values]';
          const items = itemsOf(value);
          return list(items.length, (index) => items[index], depth);
        }
        case 'AsyncGenerator':
          lose('an async generator: collect its values with `for await (const x of it) list.push(x)`');
          return leaving ? DROP : '[an async generator]';
        default: {
          const keys = ownKeys(value);
          const visible = [];
          for (let index = 0; index < keys.length; index++) {
            const own = getOwnPropertyDescriptor(value, keys[index]);
            if (own !== undefined && own.enumerable && !isConverter(keys[index], own.value)) append(visible, keys[index]);
          }
          return object(visible, (key) => value[key], depth);
        }
      }
    }
    return { encode: (value) => encode(value, 1, ''), checkShared, notes, pending, conversions, lost, gaps: () => ({ __proto__: null, empty_lists: emptyLists, missing }) };
  }

  // A method of the script's that gives what stands for its object in JSON. Dates have their own form.
  const isConverter = (key, method) => key === 'toJSON' && typeof method === 'function' && method !== dateToJson;
  function converterOf(value) {
    const prototype = getPrototypeOf(value);
    if (prototype !== plain && prototype !== listPrototype && isPromise(value)) return undefined;  // it would throw
    const method = value.toJSON;
    return method !== undefined && isConverter('toJSON', method) ? method : undefined;
  }

  // The kind of a built-in object, determined by internal slots, never by names a script can write.
  const kinds = [
    ['Promise', Promise.prototype, () => {}], ['Error', Error.prototype, () => {}],
    ['Date', Date.prototype, dateTime], ['Map', Map.prototype, mapSize], ['Set', Set.prototype, setSize],
    ['RegExp', RegExp.prototype, regExpSource],
    ['Boxed', Number.prototype, uncurry(Number.prototype.valueOf)], ['Boxed', Boolean.prototype, uncurry(Boolean.prototype.valueOf)],
    ['Boxed', String.prototype, uncurry(String.prototype.valueOf)],
    ['Binary', getPrototypeOf(Uint8Array.prototype), byteLengthOf], ['Binary', ArrayBuffer.prototype, bufferByteLength],
  ];
  function kindOf(value) {
    const prototype = getPrototypeOf(value);
    if (prototype === plain || prototype === null) return 'Object';
    for (let index = 0; index < kinds.length; index++) {
      if (!chainHas(value, kinds[index][1])) continue;
      try {
        kinds[index][2](value);
        return kinds[index][0];
      } catch { /* inherits from it without being one */ }
    }
    if (nextOf(value) !== undefined) return 'Iterator';
    return getPrototypeOf(prototype) === hidden['%AsyncGeneratorPrototype%'] ? 'AsyncGenerator' : 'Object';
  }
  // The primitive in an object that `new Number(x)` and its kin make.
  function unboxed(value) {
    for (let index = 0; index < kinds.length; index++) {
      if (kinds[index][0] === 'Boxed' && chainHas(value, kinds[index][1])) return kinds[index][2](value);
    }
  }
  // The built-in `next` of an iterator that the language made: what a script calls an iterator is an object like any other.
  function nextOf(value) {
    const prototype = getPrototypeOf(value);
    if (prototype === null || prototype === plain) return undefined;
    const ofFunction = getPrototypeOf(prototype);  // a generator inherits from an object that its function has for this
    return mapGet(nexts, ofFunction === hidden['%GeneratorPrototype%'] ? ofFunction : prototype);
  }
  // The values of an iterator, which gives them once: the same list for every place of it in what leaves.
  const iterated = new GlobalWeakMap();
  function itemsOf(value) {
    const known = weakGet(iterated, value);
    if (known !== undefined) return known;
    const next = nextOf(value), items = [];
    for (let turn = next(value); !turn.done; turn = next(value)) {
      append(items, turn.value);
      if ((items.length & 1023) === 0) tick(stepsSoFar());
    }
    weakSet(iterated, value, items);
    return items;
  }
  const plain = Object.prototype, functionPrototype = getPrototypeOf(plain.toString);
  const errorPrototype = Error.prototype, promisePrototype = Promise.prototype, listPrototype = Array.prototype;
  const isPromise = (value) => chainHas(value, promisePrototype);
  const isError = (value) => chainHas(value, errorPrototype);
  // The call that a promise came from, for messages: `callTool('users:list')`.
  const origins = new GlobalWeakMap();
  function promiseOf(promise) {
    const origin = weakGet(origins, promise);
    return origin === undefined ? 'a promise' : `${origin.functionName}('${bounded(origin.name, 100)}')`;
  }
  function chainHas(value, prototype) {
    for (let link = getPrototypeOf(value), depth = 0; link !== null && depth < 100; link = getPrototypeOf(link), depth++) {
      if (link === prototype) return true;
    }
    return false;
  }
  function byteLength(value) {
    try { return byteLengthOf(value); } catch { return bufferByteLength(value); }
  }
  // A property as text; the script may have put a getter or a non-string there.
  function ownText(object, key) {
    try {
      const value = object[key];
      return typeof value === 'string' ? value : value === undefined || value === null ? '' : textOf(value);
    } catch (error) {
      stopIfFatal(error);
      return '';
    }
  }
  function textOf(value) {
    switch (typeof value) {
      case 'string': return value;
      case 'number': return numberToText(value);
      case 'bigint': return bigintToText(value);
      case 'boolean': return value ? 'true' : 'false';
      case 'undefined': return 'undefined';
      case 'symbol': return 'Symbol()';
      case 'function': return '[Function]';
      default: return value === null ? 'null' : isPromise(value) ? `[${promiseOf(value)}: not awaited]` : jsonOf(value);
    }
  }
  function jsonOf(value) {
    try {
      const data = encoder(false).encode(value);
      return data === DROP ? 'undefined' : stringify(data);
    } catch (error) {
      stopIfFatal(error);
      return '[unreadable value]';
    }
  }
  const bounded = (value, length) => {
    const clean = toWellFormed(value);
    return clean.length <= length ? clean : `${toWellFormed(slice(clean, 0, length))}…[truncated ${clean.length - length} characters]`;
  };

  // ---- tools --------------------------------------------------------------------------------------------------
  const OPTIONS = { __proto__: null, throwOnError: 1, reference: 1 };
  // The functions of references.js, in a script that contains the word.
  let references;
  const pendingCalls = new GlobalMap();
  const toolErrors = new GlobalWeakMap();
  const EXTRAS = ['toolName', 'resource', 'prompt', 'result', 'extract', 'details', 'retryAfterMs'];
  let calls = 0;

  function isMetaTool(name) {
    const folded = lower(trim(name));
    return startsWith(folded, 'codecall:') || hasOwn(config.metaTools, folded);
  }
  function toolError(call, answer) {
    const error = new GlobalError(answer.message);
    put(error, 'name', 'ToolError');
    put(error, 'code', answer.code);
    for (let index = 0; index < EXTRAS.length; index++) {
      if (hasOwn(answer, EXTRAS[index])) put(error, EXTRAS[index], answer[EXTRAS[index]]);
    }
    weakSet(toolErrors, error, call);
    return error;
  }
  function readOptions(functionName, name, input, options) {
    if (typeof options !== 'object' || options === null) return { throwOnError: true, reference: false };
    const keys = options === input ? [] : ownKeys(options);
    for (let index = 0; index < keys.length; index++) {
      if (!hasOwn(OPTIONS, keys[index])) {
        throw new GlobalTypeError(`${functionName}('${name}', …) has no option '${bounded(textOf(keys[index]), 100)}'; there are throwOnError and reference`);
      }
    }
    const { throwOnError, reference } = options;
    if (reference !== undefined && typeof reference !== 'boolean') {
      throw new GlobalTypeError(`${functionName}('${name}', …) needs true or false for its option 'reference', got ${typeof reference}`);
    }
    if (reference === true && references === undefined) throw new GlobalTypeError("Write the option 'reference' out where it is used");
    return { throwOnError: throwOnError !== false, reference: reference === true };
  }
  // Scripts get arrow functions only: these have no `prototype`, and none is a constructor.
  function request({ kind, functionName, what, maxName, handle }, name, input, options) {
    guardStopped();
    let made;
    const promise = new GlobalPromise((resolve, reject) => {
      if (typeof name !== 'string') {
        throw new GlobalTypeError(`${functionName} needs ${what} as text, got ${name === null ? 'null' : typeof name}`);
      }
      if (name.length > maxName) throw new GlobalTypeError(`${functionName} needs ${what} of at most ${maxName} characters`);
      if (!handle && isMetaTool(name)) stop('SELF_REFERENCE_BLOCKED', trim(name));
      if (input !== undefined && input !== null && (typeof input !== 'object' || isArray(input))) {
        throw new GlobalTypeError(`${functionName}('${name}', …) needs an object as input, got ${isArray(input) ? 'an array' : typeof input}`);
      }
      const { throwOnError, reference } = readOptions(functionName, name, input, options);
      const work = encoder(true, true);
      const data = input === undefined || input === null ? {} : work.encode(input);
      if (work.pending.length > 0) {
        throw new GlobalTypeError(`The input of ${functionName}('${name}', …) contains a promise; await it first`);
      }
      const lost = work.lost('it'), json = data === DROP ? '' : stringify(data);
      if (json !== '' && json[0] !== '{') {
        const got = mapHas(work.conversions, input) ? `${bounded(json, 100)} from toJSON` : kindOf(input) === 'Iterator' ? 'an iterator' : `a ${kindOf(input)}`;
        throw new GlobalTypeError(`${functionName}('${name}', …) needs an object as input, got ${got}`);
      }
      if (lost !== '') throw new GlobalTypeError(`The input of ${functionName}('${name}', …) has what JSON cannot hold: ${lost}`);
      if (calls >= config.maxToolCalls) stop('TOOL_CALL_LIMIT');
      const place = currentStack();
      const call = made = ++calls;
      mapSet(pendingCalls, call, { __proto__: null, resolve, reject, throwOnError, name });
      $post(call, kind, json, stringify({ __proto__: null, name: toWellFormed(name), stack: place, wrapped: !throwOnError, reference }));
    });
    if (typeof name === 'string') weakSet(origins, promise, { __proto__: null, functionName, name, call: made });
    return promise;
  }
  const TOOL = { kind: 'tool', functionName: 'callTool', what: 'a tool name', maxName: config.maxName };
  const RESOURCE = { kind: 'resource', functionName: 'readResource', what: 'a URI', maxName: config.maxUri };
  const PROMPT = { kind: 'prompt', functionName: 'getPrompt', what: 'a prompt name', maxName: config.maxName };
  // A handle's URI begins as the names of meta-tools do, so that check is skipped.
  const RESULT = { kind: 'result', functionName: 'getResult', what: 'a handle', maxName: config.maxUri, handle: true };
  const callTool = (name, input, options) => request(TOOL, name, input, options);
  // Options are also accepted as the third argument, where callTool has them.
  const readResource = (uri, options, third) => request(RESOURCE, uri, undefined, third === undefined ? options : third);
  const getPrompt = (name, input, options) => request(PROMPT, name, input, options);
  const getResult = (handle, part, third) => request(RESULT, handle, part, third === undefined ? part : third);
  const EXTRACT = { kind: 'extract', functionName: 'extract', what: 'a type', maxName: config.maxName, handle: true };
  const extract = (value, type, options) => request(
    EXTRACT, typeof type === 'string' ? bounded(trim(type), 60) : 'JSON Schema', { value, type }, options);
  // Calls that one of several was waited for: the others may be without their answers at the end.
  const raced = [];
  function noteRaced(promises) {
    for (let index = 0; index < promises.length && index < config.maxToolCalls; index++) {
      const own = getOwnPropertyDescriptor(promises, index);
      const origin = own !== undefined && typeof own.value === 'object' && own.value !== null ? weakGet(origins, own.value) : undefined;
      if (origin !== undefined && origin.call !== undefined && raced.length < config.maxToolCalls) append(raced, origin.call);
    }
  }
  function settle(call, ok, payload, reference, large) {
    const entry = mapGet(pendingCalls, call);
    mapDelete(pendingCalls, call);
    const value = reference ? references.create(payload, entry.name) : read(payload, large);
    if (ok) entry.resolve(entry.throwOnError ? value : { success: true, data: value });
    else if (entry.throwOnError) entry.reject(toolError(call, value));
    else {
      const { code, message } = value;
      const error = { code, message };
      for (let index = 0; index < EXTRAS.length; index++) {
        if (hasOwn(value, EXTRAS[index])) put(error, EXTRAS[index], value[EXTRAS[index]]);
      }
      entry.resolve({ success: false, error });
    }
  }
  const toolSchemas = new GlobalMap();
  const getTool = (name) => {
    guardStopped();
    if (typeof name !== 'string' || name.length > config.maxName) return undefined;
    if (isMetaTool(name)) stop('SELF_REFERENCE_BLOCKED', trim(name));
    if (!mapHas(toolSchemas, name)) mapSet(toolSchemas, name, $ask(stringify(toWellFormed(name)), 'tool', '""'));
    guardStopped();
    const json = mapGet(toolSchemas, name);
    return json === null ? undefined : parse(json);
  };
  // ---- namespaces -----------------------------------------------------------------------------------------------
  // `users.list` stands for the tool `users:list`, `tools['any name']` for every tool: `tools` is the namespace without a
  // name. The host is asked what a member is when it is first read. `neverMembers` are the names the engine reads of any object.
  const caller = (name) => freeze((input, options) => request(TOOL, name, input, options));
  function plainCaller(name) {
    const call = (input, options) => request(TOOL, name, input, options);
    delete call.name;
    delete call.length;
    setPrototypeOf(call, null);
    return call;
  }
  function resolveMember(path, key) {
    if (isMetaTool(path === '' ? key : `${path}:${key}`)) stop('SELF_REFERENCE_BLOCKED', path === '' ? trim(key) : `${path}:${key}`);
    const own = path === '' ? key : `${path}.${key}`;
    if (own.length > config.maxName) return { exists: false, value: caller(own) };
    const answer = parse($ask(stringify(toWellFormed(path)), 'member', stringify(toWellFormed(key)))) || {};
    if (hasOwn(answer, 'tool')) return { exists: true, value: caller(answer.tool) };
    if (hasOwn(answer, 'space')) {
      const { members } = parse($ask(stringify(answer.space), 'space', '""')) || {};
      return { exists: true, value: namespace(answer.space, members || {}) };
    }
    if (lower(trim(own)) === 'codecall') return { exists: true, value: namespace('codecall', {}) };
    return { exists: false, value: caller(hasOwn(answer, 'missing') ? answer.missing : own) };
  }
  const namespaceNames = new GlobalWeakMap();
  // `table` maps the members known in advance to their tools. The member '' is the tool that has the namespace's own name.
  function namespace(path, table) {
    const members = new GlobalMap();
    const listed = hasOwn(table, '') ? plainCaller(table['']) : { __proto__: null };
    const names = ownKeys(table);
    for (let index = 0; index < names.length; index++) {
      if (names[index] === '' || hasOwn(config.neverMembers, names[index])) continue;
      const value = caller(table[names[index]]);
      mapSet(members, names[index], { exists: true, value });
      put(listed, names[index], value);
    }
    const read = (key) => {
      guardStopped();
      if (typeof key !== 'string' || hasOwn(config.neverMembers, key)) return { exists: false };
      if (!mapHas(members, key)) mapSet(members, key, resolveMember(path, key));
      return mapGet(members, key);
    };
    const toNames = path === '' && names.length > 0 ? freeze(() => ownKeys(listed)) : undefined;
    const space = new GlobalProxy(freeze(listed), freeze({
      __proto__: null,
      get(target, key) { return key === 'toJSON' ? toNames : read(key).value; },
      has(target, key) { return read(key).exists; },
    }));
    weakSet(namespaceNames, space, path === '' ? 'tools' : path);
    return space;
  }
  const safeParallel = async (functions, options) => {
    guardStopped();
    if (!isArray(functions)) throw new GlobalTypeError('__safe_parallel needs an array of functions');
    const total = functions.length;
    if (total > 100) throw new GlobalError('Cannot execute more than 100 operations in parallel');
    const work = [];
    for (let index = 0; index < total; index++) {
      const task = functions[index];
      if (typeof task !== 'function') {
        throw new GlobalTypeError(`__safe_parallel needs functions: item ${index} is ${task === null ? 'null' : typeof task}; write () => callTool(…)`);
      }
      append(work, task);
    }
    let width = 10;
    if (options !== undefined && options !== null) {
      if (typeof options !== 'object') throw new GlobalTypeError(`__safe_parallel needs its options as an object, got ${typeof options}: __safe_parallel(functions, { maxConcurrency: 5 })`);
      const keys = ownKeys(options);
      for (let index = 0; index < keys.length; index++) {
        if (keys[index] !== 'maxConcurrency') throw new GlobalTypeError(`__safe_parallel has no option '${bounded(textOf(keys[index]), 100)}'; there is maxConcurrency: __safe_parallel(functions, { maxConcurrency: 5 })`);
      }
      if (options.maxConcurrency !== undefined) width = options.maxConcurrency;
      if (typeof width !== 'number' || !(width >= 1) || floor(width) !== width) {
        throw new GlobalTypeError(`__safe_parallel needs a whole number from 1 for its option 'maxConcurrency', got ${bounded(textOf(width), 100)}`);
      }
    }
    if (width > 20) width = 20;
    const results = [], failures = [];
    for (let index = 0; index < total; index++) append(results, undefined);
    let next = 0;
    const runTasks = async () => {
      while (next < total) {
        const index = next++;
        const task = work[index];  // called on its own: as `work[index]()` it would get the list as `this`
        try {
          results[index] = await task();
        } catch (error) {
          stopIfFatal(error);
          append(failures, [index, typeof error === 'object' && error !== null ? ownText(error, 'message') : textOf(error)]);
        }
      }
    };
    const runners = [];
    for (let index = 0; index < width && index < total; index++) append(runners, runTasks());
    for (let index = 0; index < runners.length; index++) await runners[index];
    if (failures.length > 0) {
      let message = `${failures.length} of ${total} parallel operations failed:`;
      for (let index = 0; index < total; index++) {
        for (let at = 0; at < failures.length; at++) {
          if (failures[at][0] === index) message += `\n  [${index}]: ${bounded(failures[at][1], 500)}`;
        }
      }
      throw new GlobalError(message);
    }
    return results;
  };

  // ---- console ------------------------------------------------------------------------------------------------
  let consoleFull = false;
  const writer = (level) => (...parts) => {
    guardStopped();
    if (consoleFull) { $log('""'); return; }  // it counts the lines that are lost
    let line = level;
    for (let index = 0; index < parts.length; index++) {
      const part = parts[index];
      const shown = typeof part === 'object' && part !== null && isError(part)
        ? `${ownText(part, 'name') || 'Error'}: ${ownText(part, 'message')}` : textOf(part);
      line += index === 0 ? shown : ` ${shown}`;
    }
    consoleFull = !$log(stringify(toWellFormed(line)));
  };

  // ---- emit -----------------------------------------------------------------------------------------------------
  // The host knows the content blocks that tools have returned, and shows those it is asked to.
  const emitted = new GlobalSet();
  function emitBlock(block) {
    if (typeof block === 'object' && block !== null && isPromise(block)) throw new GlobalTypeError(`emit needs a content block, got ${promiseOf(block)}: await it first`);
    const ref = typeof block === 'object' && block !== null ? block.ref : undefined;
    if (typeof ref === 'string' && ref.length <= config.maxName) {
      if (setHas(emitted, ref)) return;
      if ($ask(stringify(toWellFormed(ref)), 'emit', '""') !== null) { setAdd(emitted, ref); return; }
      guardStopped();
    }
    throw new GlobalTypeError('emit needs a content block that a tool has returned in this run: a picture, a sound or a file, an object with `ref`. Return other values, or write them with console.log');
  }
  const emit = (blocks) => {
    guardStopped();
    if (!isArray(blocks)) return emitBlock(blocks);
    for (let index = 0; index < blocks.length; index++) emitBlock(blocks[index]);
  };

  // ---- structuredClone ------------------------------------------------------------------------------------------
  function clone(value, seen) {
    if (typeof value === 'function' || typeof value === 'symbol') throw new GlobalTypeError('A function or symbol cannot be cloned');
    if (typeof value !== 'object' || value === null || (references !== undefined && references.isReference(value))) return value;
    if (mapHas(seen, value)) return mapGet(seen, value);
    const remember = (copy) => { mapSet(seen, value, copy); return copy; };
    if (isArray(value)) {
      const copy = remember([]);
      for (let index = 0; index < value.length; index++) append(copy, clone(value[index], seen));
      return copy;
    }
    switch (kindOf(value)) {
      case 'Date': return remember(new GlobalDate(dateTime(value)));
      case 'Map': { const copy = remember(new GlobalMap()); mapForEach(value, (item, key) => mapSet(copy, clone(key, seen), clone(item, seen))); return copy; }
      case 'Set': { const copy = remember(new GlobalSet()); setForEach(value, (item) => setAdd(copy, clone(item, seen))); return copy; }
      case 'Error': { const copy = remember(new GlobalError(ownText(value, 'message'))); put(copy, 'name', ownText(value, 'name')); return copy; }
      case 'Promise': return throwUnawaited(value, 'it was cloned');
      case 'Binary': case 'Boxed': case 'RegExp': case 'Iterator': case 'AsyncGenerator': throw new GlobalTypeError('This kind of object cannot be cloned');
      default: {
        const copy = remember({});
        const keys = ownKeys(value);
        for (let index = 0; index < keys.length; index++) {
          const own = getOwnPropertyDescriptor(value, keys[index]);
          if (typeof keys[index] === 'string' && own !== undefined && own.enumerable) put(copy, keys[index], clone(value[keys[index]], seen));
        }
        return copy;
      }
    }
  }

  // ---- lookups that find nothing ---------------------------------------------------------------------------------
  // Of what becomes part of a text, or a key: counted for each place, with the first key and some of those that the table has.
  const misses = [], missAt = new GlobalMap(), ENOUGH = { __proto__: null };
  function noteMiss(value, site, table, key) {
    if (value !== undefined || typeof table !== 'object' || table === null) return value;
    try {
      const known = mapGet(missAt, site);
      if (known !== undefined) known.count++;
      else if (!isArray(table) && misses.length < 20) mapSet(missAt, site, addMiss(site, table, key));
    } catch { /* no room: what follows has none either */ }
    return value;
  }
  function addMiss(site, table, key) {
    const isMap = kindOf(table) === 'Map';
    const miss = { __proto__: null, site, count: 1, key: keyText(key, isMap), is_map: isMap, size: 0, keys: [], alike: '' };
    const add = (name) => {
      if (miss.keys.length === 3) throw ENOUGH;
      append(miss.keys, keyText(name, isMap));
    };
    if (isMap) {
      miss.size = mapSize(table);
      if (typeof key === 'number' && mapHas(table, toText(key))) miss.alike = 'String';
      if (typeof key === 'string' && mapHas(table, +key)) miss.alike = 'Number';
      try { mapForEach(table, (item, name) => add(name)); } catch (error) { if (error !== ENOUGH) throw error; }
    } else {
      const names = ownKeys(table);
      miss.size = names.length;
      for (let index = 0; index < names.length && index < 3; index++) add(names[index]);
    }
    append(misses, miss);
    return miss;
  }
  const keyText = (key, isMap) => key === undefined || key === null || (isMap && typeof key !== 'string') || typeof key === 'object'
    ? typeof key === 'object' && key !== null ? 'an object' : bounded(textOf(key), 40)
    : stringify(bounded(textOf(key), 40));

  // ---- the run ------------------------------------------------------------------------------------------------
  function fail(error) {
    if (stopped) return;
    reportSteps();
    const report = { kind: 'value', name: 'Error', message: '', stack: '' };
    if (isEngineFault(error)) report.kind = 'memory';
    if (typeof error === 'object' && error !== null) {
      const call = weakGet(toolErrors, error);
      if (call !== undefined) { report.kind = 'tool'; report.call = call; }
      else if (isOverflow(error)) report.kind = 'stack';
      if (isError(error)) {
        if (report.kind === 'value') report.kind = 'script';
        report.name = bounded(ownText(error, 'name') || 'Error', 100);
        report.message = bounded(ownText(error, 'message'), 3900);
        report.stack = stackText(error);
      } else {
        report.message = bounded(textOf(error), 3900);
      }
    } else {
      report.message = bounded(textOf(error), 3900);
    }
    $fail(stringify(report));
  }
  async function succeed(value) {
    const fault = pendingFault();
    if (fault !== undefined) stopIfFatal(fault);
    if (config.form === 'function' && typeof value === 'function') value = await value();
    // A promise inside the result is a forgotten await: wait for it rather than lose it.
    for (let round = 0; round < 5; round++) {
      const work = encoder(false, true);
      const data = work.encode(value);
      if (work.pending.length === 0) {
        work.checkShared();
        const lost = work.lost('the result');
        if (sortedAsTexts) append(work.notes, 'Numbers were sorted as texts, such as 10 before 9: write `.sort((a, b) => a - b)`');
        if (lost !== '') append(work.notes, `JSON has no form for what is null, or left out, in the result: ${lost}`);
        reportSteps();
        $finish(data === DROP ? 'null' : stringify(data), stringify({ __proto__: null, notes: work.notes, kind: typeof value, raced, misses, ...work.gaps() }));
        return;
      }
      value = await resolved(value, new GlobalMap(), work.conversions);
    }
    throw new GlobalError('The result contains promises inside promises; await them before returning');
  }
  async function resolved(value, seen, conversions) {
    const known = mapGet(conversions, value);
    if (known !== undefined) value = known.made;
    if (typeof value !== 'object' || value === null) return value;
    if (isPromise(value)) {
      const settled = await value;
      if (typeof settled === 'object' && settled !== null && isPromise(settled)) throw new GlobalTypeError('The result holds a promise that settles with a promise');
      return resolved(settled, seen, conversions);
    }
    if (mapHas(seen, value)) return mapGet(seen, value);
    if (known === undefined && converterOf(value) !== undefined) return value;  // a promise gave it: it is converted next
    if (isArray(value)) {
      const copy = [];
      mapSet(seen, value, copy);
      for (let index = 0; index < value.length; index++) append(copy, await resolved(value[index], seen, conversions));
      return copy;
    }
    const kind = kindOf(value);
    if (kind === 'Iterator') return resolved(itemsOf(value), seen, conversions);
    if (kind === 'Map' || kind === 'Set') {
      const copy = kind === 'Map' ? new GlobalMap() : new GlobalSet();
      mapSet(seen, value, copy);
      const entries = [];
      (kind === 'Map' ? mapForEach : setForEach)(value, (item, key) => append(entries, [key, item]));
      for (let index = 0; index < entries.length; index++) {
        const item = await resolved(entries[index][1], seen, conversions);
        if (kind === 'Map') mapSet(copy, entries[index][0], item);
        else setAdd(copy, item);
      }
      return copy;
    }
    if (kind !== 'Object') return value;
    const copy = {};
    mapSet(seen, value, copy);
    const keys = ownKeys(value);
    for (let index = 0; index < keys.length; index++) {
      const own = getOwnPropertyDescriptor(value, keys[index]);
      if (typeof keys[index] !== 'string' || own === undefined || !own.enumerable || isConverter(keys[index], own.value)) continue;
      put(copy, keys[index], await resolved(value[keys[index]], seen, conversions));
    }
    return copy;
  }
  function run(program) {
    const [steps, poisonSteps, pending, main] = program(tick, loopLimit, stopIfFatal, awaited, noteMiss, $ran);
    poison = poisonSteps;
    pendingFault = pending;
    stepsSoFar = steps;
    then(then(promiseResolve(main()), succeed), undefined, fail);
  }
  function deepFreeze(value) {
    if (typeof value !== 'object' || value === null || isFrozen(value)) return value;
    const keys = ownKeys(freeze(value));
    for (let index = 0; index < keys.length; index++) deepFreeze(value[keys[index]]);
    return value;
  }

  // ---- the realm ----------------------------------------------------------------------------------------------
  const iterator = Symbol.iterator;
  const generators = getPrototypeOf(function* () {}), asyncGenerators = getPrototypeOf(async function* () {});
  // Prototypes that no global leads to, by their names in the policy's table.
  const hidden = {
    '%AsyncFunction.prototype%': getPrototypeOf(async () => {}),
    '%GeneratorFunction.prototype%': generators,
    '%AsyncGeneratorFunction.prototype%': asyncGenerators,
    '%GeneratorPrototype%': generators.prototype,
    '%AsyncGeneratorPrototype%': asyncGenerators.prototype,
    '%AsyncIteratorPrototype%': getPrototypeOf(asyncGenerators.prototype),
    '%IteratorPrototype%': Iterator.prototype,
    '%ArrayIteratorPrototype%': getPrototypeOf([][iterator]()),
    '%MapIteratorPrototype%': getPrototypeOf(new Map()[iterator]()),
    '%SetIteratorPrototype%': getPrototypeOf(new Set()[iterator]()),
    '%StringIteratorPrototype%': getPrototypeOf(''[iterator]()),
    '%RegExpStringIteratorPrototype%': getPrototypeOf(''.matchAll(/a/g)),
  };
  const nexts = new GlobalMap();
  for (const kind of ['ArrayIterator', 'MapIterator', 'SetIterator', 'StringIterator', 'RegExpStringIterator', 'Generator']) {
    const prototype = hidden[`%${kind}Prototype%`];
    mapSet(nexts, prototype, uncurry(prototype.next));
  }
  // Deletes the keys with these names; `@@iterator` is the symbol.
  const GlobalSymbol = Symbol;
  function remove(object, names) {
    for (let index = 0; index < names.length; index++) {
      const name = names[index];
      const key = startsWith(name, '@@') ? GlobalSymbol[slice(name, 2)] : name;
      if (!deleteProperty(object, key)) throw new GlobalTypeError(`The engine keeps ${name}`);
    }
  }
  // Deletes every key that is not in `allowed`, a table of the policy: `{name: 1}`. Returns the names of those; null where
  // one of them has none.
  function keepOnly(object, allowed) {
    let removed = [];
    for (const key of ownKeys(object)) {
      const name = typeof key === 'symbol' ? symbolName(key) : key;
      if (name !== undefined && hasOwn(allowed, name)) continue;
      if (!deleteProperty(object, key)) throw new GlobalTypeError(`The engine keeps ${name}`);
      if (name === undefined) removed = null;
      else if (removed !== null) append(removed, name);
    }
    return removed;
  }
  function symbolName(symbol) {
    for (const key of ownKeys(GlobalSymbol)) if (GlobalSymbol[key] === symbol) return `@@${key}`;
  }
  // What was deleted from each object: `removals` for other engines; null where they cannot have any.
  let found = { prototypes: {}, world: [], globals: {} };
  function note(part, name, removed) {
    if (removals !== null && removed.length > 0) throw new GlobalTypeError(`${name} kept ${removed[0]}`);
    if (removed === null) found = null;
    else if (found !== null && name !== null) put(found[part], name, removed);
    else if (found !== null) found[part] = removed;
  }
  const install = (object, key, value) => defineProperty(object, key, {
    __proto__: null, value, writable: false, enumerable: false, configurable: false });
  const expose = (name, value) => install(world, name, typeof value === 'function' ? freeze(value) : value);

  // A promise has `then`, `catch` and `finally`, and they are found before this Proxy is reached: any other read was meant for
  // the promise's value. No script can reach the Proxy itself: promises inherit from it, and scripts see no prototypes.
  const USES = new GlobalMap([[Symbol.toPrimitive, 'it was used as a text or a number'], ['toJSON', 'it was written as JSON'],
    [Symbol.iterator, 'it was iterated over'], [Symbol.asyncIterator, 'it was iterated over']]);
  const { isConcatSpreadable } = Symbol;
  function throwUnawaited(promise, use) {
    guardStopped();
    throw new GlobalTypeError(`${promiseOf(promise)} was not awaited: ${use}`);
  }
  const describeRead = (key) => mapGet(USES, key) || (typeof key === 'string' ? `its property '${bounded(key, 100)}' was read` : 'it was used as a value');
  const promiseTraps = freeze({
    __proto__: null,
    get(target, key, promise) { return key === isConcatSpreadable ? undefined : throwUnawaited(promise, describeRead(key)); },
    has(target, key) { guardStopped(); throw new GlobalTypeError(`a promise was not awaited: ${typeof key === 'string' ? `'${bounded(key, 100)}'` : 'a symbol'} was looked for in it`); },
  });
  // `use` is that of `DataSite`; undefined: properties are taken.
  function awaited(value, use) {
    if (typeof value === 'object' && value !== null && getPrototypeOf(value) === promisePrototype) {
      throwUnawaited(value, use === 'tested' ? 'it was tested or compared' : 'its properties were taken');
    }
    // The engine would spread nothing of a text.
    return typeof value === 'string' && use === 'spread' ? GlobalObject(value) : value;
  }

  // Names that data commonly uses (an error's `name`) become accessors that define an own property on assignment:
  // plain read-only properties would make `this.name = …` in a class throw.
  const OVERRIDABLE = ['name', 'message', 'stack', 'toString', 'valueOf', 'toLocaleString', 'hasOwnProperty'];
  function makeOverridable(object) {
    for (let index = 0; index < OVERRIDABLE.length; index++) {
      const key = OVERRIDABLE[index];
      if (!hasOwn(object, key)) continue;
      const value = object[key];
      defineProperty(object, key, {
        __proto__: null,
        enumerable: false,
        configurable: false,
        // The host still reads where a script could not be compiled.
        get() { return key !== 'stack' ? value : running ? '' : stackOf(this); },
        set(next) {
          if (this === object) throw new GlobalTypeError('Built-in objects are read-only in AgentScript');
          put(this, key, next);
        },
      });
    }
  }

  // Methods of locale.js. Its code is half as long as this file, so it is loaded only for scripts that name one of them.
  const LOCALE_METHODS = {
    Number: ['toLocaleString'], BigInt: ['toLocaleString'], Array: ['toLocaleString'],
    Date: ['toLocaleDateString', 'toLocaleTimeString', 'toLocaleString'],
    String: ['localeCompare', 'toLocaleUpperCase', 'toLocaleLowerCase'],
  };
  let localeMethods, localeBuiltIns;
  // A loop over a list, which `for…of` makes twice as slow.
  function each(list, action) {
    for (let index = 0; index < list.length; index++) action(list[index]);
  }

  let sortedAsTexts = false;
  function isMissorted(numbers) {
    let missorted = false;
    for (let index = 1; index < numbers.length; index++) {
      if ((index & 1023) === 0) tick(stepsSoFar());
      if (typeof numbers[index] !== 'number') return false;
      if (numbers[index] < numbers[index - 1]) missorted = true;
    }
    return missorted;
  }

  function replaceBuiltIns() {
    // Handlers of rejections are like `catch`: a limit passes through. `await` does not come this way; catch clauses
    // are counted in the source.
    const nativeThen = promisePrototype.then;
    install(promisePrototype, 'then', freeze({
      then(onFulfilled, onRejected) {
        const handler = typeof onRejected !== 'function' ? onRejected : (error) => { stopIfFatal(error); return onRejected(error); };
        return apply(nativeThen, this, [onFulfilled, handler]);
      },
    }.then));
    // The source of the runtime is private, and no script needs the source of its own functions.
    install(functionPrototype, 'toString', freeze({ toString() { return 'function () { [native code] }'; } }.toString));
    // Called on a class of the script, they would pass it every error, limits included: so their `this` is fixed.
    each(['all', 'allSettled', 'any', 'race', 'reject', 'resolve', 'withResolvers'], (name) => {
      const native = GlobalPromise[name];
      const races = name === 'race' || name === 'any';
      install(GlobalPromise, name, freeze((...args) => {
        if (races && isArray(args[0])) noteRaced(args[0]);
        return apply(native, GlobalPromise, args);
      }));
    });
    install(JSON, 'parse', freeze({
      parse(text, reviver) {
        if (!isLarge(text)) return parse(text, reviver);
        if (typeof reviver !== 'function') return parse(text, reviveExactly);
        return parse(text, function (key, value, context) { return apply(reviver, this, [key, exactly(value, context), context]); });
      },
    }.parse));
    // A BigInt is written as the integer it is, where the engine refuses it.
    install(JSON, 'stringify', freeze({
      stringify(value, replacer, space) {
        try {
          return stringify(value, replacer, space);
        } catch (error) {
          if (typeof error !== 'object' || error === null || ownText(error, 'message') !== bigintRefusal) throw error;
        }
        const change = typeof replacer === 'function' ? replacer : undefined;
        const kept = isArray(replacer) ? replacer : undefined;
        return stringify(value, function (key, item) {
          const changed = change === undefined ? item : apply(change, this, [key, item]);
          if (typeof changed === 'bigint') return rawJSON(bigintToText(changed));
          if (kept === undefined || typeof changed !== 'object' || changed === null || isArray(changed)) return changed;
          const out = {};
          for (let index = 0; index < kept.length; index++) {
            const name = toText(kept[index]);
            if (hasOwn(changed, name)) put(out, name, changed[name]);
          }
          return out;
        }, space);
      },
    }.stringify));
    // Without a function numbers are sorted as texts, 10 before 9.
    each(['sort', 'toSorted'], (name) => {
      const native = Array.prototype[name];
      install(Array.prototype, name, freeze({
        [name](compare) {
          const list = apply(native, this, [compare]);
          if (compare === undefined && isArray(list) && !sortedAsTexts && typeof list[0] === 'number') sortedAsTexts = isMissorted(list);
          return list;
        },
      }[name]));
    });
    // Functions that take the properties of an object would find none in a promise.
    each(['entries', 'getOwnPropertyNames', 'keys', 'values'], (name) => {
      const native = Object[name];
      install(Object, name, freeze((object) => native(awaited(object))));
    });
    const nativeAssign = Object.assign;
    install(Object, 'assign', freeze((target, ...sources) => {
      for (let index = 0; index < sources.length; index++) awaited(sources[index]);
      return nativeAssign(target, ...sources);
    }));
    install(GlobalPromise, 'try', freeze((task, ...args) => new GlobalPromise((resolve) => {
      try {
        resolve(task(...args));
      } catch (error) {
        stopIfFatal(error);
        throw error;
      }
    })));
    // The engine would call the script's function with the global object as `this`.
    each([Object, GlobalMap], (Kind) => {
      const native = Kind.groupBy;
      install(Kind, 'groupBy', freeze((items, keyOf) =>
        native(items, typeof keyOf === 'function' ? (item, index) => keyOf(item, index) : keyOf)));
    });
    // Out of memory, the engine's own method throws something that is not a value at all.
    const nativeNormalize = String.prototype.normalize;
    install(String.prototype, 'normalize', freeze({
      normalize(form) {
        if (form !== undefined && form !== 'NFC' && form !== 'NFD' && form !== 'NFKC' && form !== 'NFKD') {
          throw new GlobalRangeError('normalize takes NFC, NFD, NFKC or NFKD');
        }
        const text = toText(this);
        try { return apply(nativeNormalize, text, [form]); } catch { return stop('WORKER_MEMORY_EXCEEDED'); }
      },
    }.normalize));
    const nativeList = Array.prototype.toLocaleString;
    localeBuiltIns = {
      apply, uncurry, toText, slice, lower, nativeList, checkLimits: () => tick(stepsSoFar()), normalize: (text) => {
        try { return apply(nativeNormalize, text, ['NFD']); } catch { return stop('WORKER_MEMORY_EXCEEDED'); }
      },
    };
    each(ownKeys(LOCALE_METHODS), (kind) => each(LOCALE_METHODS[kind], (name) => {
      install(world[kind].prototype, name, freeze({
        [name](...args) {
          if (localeMethods === undefined) throw new GlobalTypeError(`Write the name '${name}' out where it is called`);
          return apply(localeMethods[kind][name], this, args);
        },
      }[name]));
    }));
    // The well-known symbols cannot be deleted, and with them a script could intercept what a built-in method does.
    world.Symbol = (description) => GlobalSymbol(description);
    install(world.Symbol, 'prototype', GlobalSymbol.prototype);
    install(world.Symbol, 'iterator', iterator);
    install(world.Symbol, 'asyncIterator', GlobalSymbol.asyncIterator);
    if (!config.clock) {
      world.Date = function Date(...args) {
        if (new.target === undefined || args.length === 0) throw new GlobalTypeError("'Date' without arguments is not allowed in AgentScript");
        return construct(GlobalDate, args);
      };
      install(world.Date, 'prototype', GlobalDate.prototype);
      put(world.Date, 'UTC', GlobalDate.UTC);
      put(world.Date, 'parse', GlobalDate.parse);
    }
  }
  function build() {
    replaceBuiltIns();
    setPrototypeOf(promisePrototype, new GlobalProxy(freeze({}), promiseTraps));
    const prototypes = ownKeys((tables || removals).prototypes);
    for (let index = 0; index < prototypes.length; index++) {
      const name = prototypes[index];
      const prototype = hidden[name] || world[slice(name, 0, -'.prototype'.length)].prototype;
      if (removals !== null) remove(prototype, removals.prototypes[name]);
      if (tables !== null) note('prototypes', name, keepOnly(prototype, tables.prototypes[name]));
      if (prototype === plain || prototype === errorPrototype || getPrototypeOf(prototype) === errorPrototype) makeOverridable(prototype);
      freeze(prototype);
    }
    if (removals !== null) remove(world, removals.world);
    if (tables !== null) note('world', null, keepOnly(world, tables.globals));
    const globals = ownKeys(world);
    for (let index = 0; index < globals.length; index++) {
      const name = globals[index];
      const value = world[name];
      if (typeof value !== 'object' && typeof value !== 'function') continue;
      if (removals !== null) remove(value, removals.globals[name]);
      if (tables !== null) note('globals', name, keepOnly(value, tables.globals[name]));
      freeze(value);
    }
    expose('callTool', callTool);
    expose('readResource', readResource);
    expose('getPrompt', getPrompt);
    expose('getResult', getResult);
    expose('getTool', getTool);
    expose('__safe_parallel', safeParallel);
    expose('emit', emit);
    expose('extract', extract);
    expose('structuredClone', (value) => clone(value, new GlobalMap()));
    if (config.console) {
      const write = freeze(writer(''));
      expose('console', freeze({ log: write, info: write, warn: freeze(writer('[warn] ')), error: freeze(writer('[error] ')), debug: write }));
    }
  }

  function exposeNamespaces(namespaces) {
    const names = ownKeys(namespaces);
    expose('tools', namespace('', namespaces[''] || {}));
    for (let index = 0; index < names.length; index++) if (names[index] !== '') expose(names[index], namespace(names[index], namespaces[names[index]]));
  }

  build();

  return function operate(operation, a, b, c, d, e) {
    switch (operation) {
      case 'run':
        config.form = c;
        expose('codecallContext', deepFreeze(read(b, isLarge(b))));
        exposeNamespaces(parse(d));
        freeze(world);
        running = true;
        return run(a);
      case 'settle': return settle(a, b, c, d, e);
      case 'integers': {
        each(parse(a), (text) => { setAdd(exactIntegers, toBigInt(text)); setAdd(exactIntegers, -toBigInt(text)); });
        return 0;
      }
      case 'references': {
        references = a({
          freeze, hasOwn, ownKeys, getOwnPropertyDescriptor, defineProperty, setPrototypeOf, parse, setHas, setAdd, weakGet, weakSet,
          textOf, bounded, guardStopped, neverMembers: config.neverMembers, iterators: [iterator, world.Symbol.asyncIterator],
          GlobalProxy, GlobalSet, GlobalWeakMap,
        });
        return 0;
      }
      case 'removals': return stringify(found);
      case 'locale': localeMethods = a(localeBuiltIns); return 0;
      default: return stepsSoFar();
    }
  };
})
