"""The table of prototypes against the engine as it is installed, and against a realm as it is built."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

import _quickjs as quickjs  # pyright: ignore[reportMissingTypeStubs]
import pytest

from codecall.presets import PRESET_NAMES, load_preset
from codecall.sandbox.agentscript.engine import bytecode, realm
from codecall.sandbox.agentscript.policy import GLOBALS, PROTOTYPES, Rules, inherited
from codecall.sandbox.wire import PRESET_FIELDS, Limits

UNREACHABLE_PROTOTYPES = frozenset(
    [
        "ArrayBuffer",
        "AsyncDisposableStack",
        "DOMException",
        "DataView",
        "DisposableStack",
        "FinalizationRegistry",
        "SharedArrayBuffer",
        "SuppressedError",
        "WeakMap",
        "WeakRef",
        "WeakSet",
        "Int8Array",
        "Uint8Array",
        "Uint8ClampedArray",
        "Int16Array",
        "Uint16Array",
        "Int32Array",
        "Uint32Array",
        "BigInt64Array",
        "BigUint64Array",
        "Float16Array",
        "Float32Array",
        "Float64Array",
        "TypedArray",
        "IteratorHelperPrototype",
    ]
)
"""Kinds of values that no script can have: their globals are gone, and no syntax or method makes one."""

new_engine = cast("Callable[[], Any]", quickjs.Context)

# Every object that built-in values inherit from, by its name in the table; filled before the prelude runs.
CENSUS = """
(() => {
  const { ownKeys, getOwnPropertyDescriptor, getPrototypeOf } = Reflect;
  const world = globalThis, { isFrozen } = Object, { stringify } = JSON, GlobalMap = Map;
  const prototypes = new Map(), refused = new Map();
  const known = ownKeys(Symbol).filter((key) => typeof Symbol[key] === 'symbol');
  const symbols = new Map(known.map((key) => [Symbol[key], '@@' + key]));
  const nameOf = (key) => typeof key !== 'symbol' ? key : symbols.get(key) ?? String(key);
  for (const name of ownKeys(world)) {
    const value = world[name];
    if (typeof value === 'object' || typeof value === 'function') refused.set(value, String(name));
    if (typeof value === 'function' && value.prototype) prototypes.set(value.prototype, `${name}.prototype`);
  }
  prototypes.delete(Iterator.prototype);
  prototypes.set(Iterator.prototype, '%IteratorPrototype%');
  const values = () => ({
    '%AsyncFunction.prototype%': async () => 1,
    '%GeneratorFunction.prototype%': function* () {},
    '%AsyncGeneratorFunction.prototype%': async function* () {},
    '%GeneratorPrototype%': getPrototypeOf((function* () {})()),
    '%AsyncGeneratorPrototype%': getPrototypeOf((async function* () {})()),
    '%AsyncIteratorPrototype%': getPrototypeOf(getPrototypeOf((async function* () {})())),
    '%ArrayIteratorPrototype%': [].values(),
    '%MapIteratorPrototype%': new Map().values(),
    '%SetIteratorPrototype%': new Set().values(),
    '%StringIteratorPrototype%': 'a'[Symbol.iterator](),
    ...([].values().map && { '%IteratorHelperPrototype%': [].values().map((x) => x) }),
  });
  const started = values();
  for (const name of ownKeys(started)) prototypes.set(getPrototypeOf(started[name]), name);
  prototypes.set(getPrototypeOf('a'.matchAll(/a/g)), '%RegExpStringIteratorPrototype%');
  prototypes.set(getPrototypeOf(Uint8Array), '%TypedArray%');
  prototypes.set(getPrototypeOf(Uint8Array.prototype), 'TypedArray.prototype');
  for (const f of [() => 1, async () => 1, function* () {}, async function* () {}]) {
    const { constructor } = getPrototypeOf(f);
    refused.set(constructor, constructor.name);
  }
  const get = Map.prototype.get, has = Map.prototype.has, set = Map.prototype.set;
  const of = (map, key) => Reflect_apply(get, map, [key]);
  const Reflect_apply = Reflect.apply;
  const engine = () => {
    const all = {};
    for (const [object, name] of prototypes) all[name] = ownKeys(object).map(nameOf);
    return stringify(all);
  };
  // Everything that a script could come to, from the globals and from what syntax and methods make.
  const crawl = () => {
    const made = [values(), [], {}, 'a', 1, true, 1n, Symbol.iterator, /a/, new Date(0), Promise.resolve(), new Map(),
      new Set(), () => 1, function () {}, class {}, function () { return arguments; }(1), Promise.withResolvers(),
      new Error('e'), new TypeError('t'), ((...strings) => strings)`a`, JSON.parse('{"a": []}')];
    try { null.x; } catch (e) { made[made.length] = e; }
    if (typeof RegExp !== 'undefined' && ''.matchAll) made[made.length] = ''.matchAll(/a/g);
    const seen = new GlobalMap();
    const open = [[world, 'globalThis']];
    for (let i = 0; i < made.length; i++) open[open.length] = [made[i], `made[${i}]`];
    const found = {}, loose = [], outside = [];
    while (open.length > 0) {
      const [value, path] = open[open.length - 1];
      open.length -= 1;
      if (value === null || value === undefined) continue;
      if (typeof value !== 'object' && typeof value !== 'function') {
        if (path[0] === 'm') open[open.length] = [getPrototypeOf(Object(value)), path + '^'];
        continue;
      }
      if (Reflect_apply(has, seen, [value])) continue;
      Reflect_apply(set, seen, [value, path]);
      const name = of(prototypes, value);
      if (name !== undefined) found[name] = ownKeys(value).map(nameOf);
      const forbidden = of(refused, value);
      if (forbidden !== undefined && value !== world) outside[outside.length] = [forbidden, path];
      // Methods are not frozen one by one: nothing reads a property of theirs.
      const isGlobal = path.startsWith('globalThis.') && path.split('.').length === 2;
      const isBuiltIn = name !== undefined || isGlobal || (typeof value === 'object' && path[0] !== 'm');
      if (isBuiltIn && value !== world && !isFrozen(value)) loose[loose.length] = path;
      const parent = getPrototypeOf(value);
      if (parent !== null) open[open.length] = [parent, of(prototypes, parent) || path + '^'];
      const keys = ownKeys(value);
      for (let i = 0; i < keys.length; i++) {
        const own = getOwnPropertyDescriptor(value, keys[i]);
        const at = (path[0] === 'm' ? 'm ' : '') + `${path}.${String(nameOf(keys[i]))}`;
        open[open.length] = [own.value, at];
        // An accessor's functions are out of reach: nothing hands out descriptors. What it gives is not.
        if (own.get === undefined || name !== undefined) continue;
        try { open[open.length] = [value[keys[i]], at]; } catch { /* not there */ }
      }
    }
    return stringify({ found, loose, outside });
  };
  return (what) => what === 'engine' ? engine() : crawl();
})()
"""


@pytest.fixture(autouse=True, params=["bytecode", "source", "tables"])
def loading(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The three ways to build a realm: loaded, compiled, and compiled with the tables applied key by key."""
    if request.param != "bytecode":
        monkeypatch.setattr(bytecode, "_library", lambda: None)
    if request.param == "tables":
        monkeypatch.setattr(realm, "_find_removals", lambda _text: "null")


def engine_has() -> dict[str, list[str]]:
    """The members of each prototype in an engine that nobody has touched."""
    return json.loads(new_engine().eval(CENSUS)("engine"))


ENGINE = engine_has()


def limits_of(preset: str) -> Limits:
    loaded = load_preset(preset)
    return Limits(**{name: getattr(loaded, name) for name in PRESET_FIELDS})


def crawled(preset: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a script could come to in a realm for `preset`."""
    census: list[Any] = []

    def observed() -> Any:
        engine = new_engine()
        census.append(engine.eval(CENSUS))
        return engine

    monkeypatch.setattr(realm, "_new_engine", observed)
    built = realm.Realm(limits_of(preset), lambda name: None, lambda: 0.0)
    found = json.loads(census[0]("realm"))
    built.close()
    return found


@pytest.mark.parametrize("prototype", ENGINE)
def test_every_method_of_the_engine_has_a_verdict(prototype: str):
    row = PROTOTYPES.get(prototype)
    if row is None:
        assert prototype.removesuffix(".prototype").strip("%") in UNREACHABLE_PROTOTYPES, f"{prototype} has no row"
        return
    unjudged = set(ENGINE[prototype]) - row.allowed - row.regex - row.removed.keys()
    assert unjudged == set(), "say in policy.PROTOTYPES whether scripts may use them"


ADDED = {"BigInt.prototype": {"toLocaleString"}}
"""What the engine lacks and the runtime brings."""


@pytest.mark.parametrize("prototype", PROTOTYPES)
def test_every_allowed_method_is_there(prototype: str):
    row = PROTOTYPES[prototype]
    assert (row.allowed | row.regex) - set(ENGINE[prototype]) == ADDED.get(prototype, set())
    assert (row.allowed | row.regex) & row.removed.keys() == set()
    assert all(row.removed.values())


def test_unreachable_kinds_have_no_global():
    globals_of = UNREACHABLE_PROTOTYPES - {"TypedArray", "IteratorHelperPrototype"}
    allowed = {name for name in globals_of if name in GLOBALS and GLOBALS[name].verdict != "refused"}
    assert allowed == set()


@pytest.mark.parametrize("preset", PRESET_NAMES)
def test_a_realm_holds_exactly_the_table(preset: str, monkeypatch: pytest.MonkeyPatch):
    found = crawled(preset, monkeypatch)["found"]
    table = inherited(Rules.from_limits(load_preset(preset)))
    assert set(found) <= set(table), "a prototype without a row can be reached"
    assert {name: sorted(keys) for name, keys in found.items()} == {name: sorted(table[name]) for name in found}
    assert set(table) - set(found) <= {"RegExp.prototype", "InternalError.prototype", "%RegExpStringIteratorPrototype%"}


@pytest.mark.parametrize("preset", PRESET_NAMES)
def test_nothing_refused_can_be_reached(preset: str, monkeypatch: pytest.MonkeyPatch):
    reached: dict[str, str] = dict(crawled(preset, monkeypatch)["outside"])
    rules = Rules.from_limits(load_preset(preset))
    refused = {name for name in reached if name not in GLOBALS or not rules.permit(GLOBALS[name].verdict)}
    assert {name: reached[name] for name in refused} == {}
    assert {"Object", "Array", "Promise", "JSON"} <= reached.keys(), "the crawl does not get around"
    assert {"Function", "eval", "Reflect", "Proxy", "Symbol"} & reached.keys() == set()


@pytest.mark.parametrize("preset", PRESET_NAMES)
def test_everything_built_in_is_read_only(preset: str, monkeypatch: pytest.MonkeyPatch):
    assert crawled(preset, monkeypatch)["loose"] == []
