"""What is left of a script without its types is what the TypeScript compiler makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codecall.sandbox.agentscript.checked import InvalidScriptError
from codecall.sandbox.agentscript.parser.parse import parse
from codecall.sandbox.agentscript.typescript.strip import strip_types
from tests.sandbox.agentscript.typescript.typed_programs import TypedPrograms
from tests.typescript.reader import Compiler

MAX_CHARS = 1_500
"""Longer programs are left out: what goes wrong there goes wrong in shorter ones too."""


@pytest.fixture(scope="module")
def compiler() -> Iterator[Compiler]:
    with Compiler() as running:
        yield running


def agrees(compiler: Compiler, script: str) -> bool | None:
    """Whether the compiler reads the same; None where it refuses the script, or we do."""
    stripped = strip_types(script)
    if stripped is None or not stripped.complete or stripped.violations:
        return None
    try:
        parse(stripped.text)
    except InvalidScriptError:
        return None
    readings = compiler.readings(script, stripped.text)
    # It takes `(x)`, and `{` on the next line, for a function without an arrow
    return None if readings.wrong or readings.broken else readings.got == readings.wanted


def test_random_programs_mean_what_the_compiler_says(compiler: Compiler):
    outcomes: list[bool | None] = []

    # The same programs every time: others are for whoever changes the erasing
    @settings(max_examples=400, deadline=None, derandomize=True, database=None)
    @given(st.integers(0, 2**64))
    def compare(seed: int) -> None:
        script = TypedPrograms(Random(seed)).program()
        if len(script) <= MAX_CHARS:
            outcomes.append(agrees(compiler, script))
            assert outcomes[-1] is not False, script

    compare()
    assert outcomes.count(True) > len(outcomes) / 3


WRITTEN = """
let x: number = 1!
---
[] as [] satisfies []
---
class C<T> extends Array<T> implements I, J {
    readonly field: string = "";
    private late!: string;
    declare other: any;
    public method<T>(this: T, a?: string): void {}
    [key: string]: any;
    get g(): any { return 1 };
    set g(v: any) { };
}
class D extends C<any> { override method(...args): any {} }
abstract class E { abstract a; b; abstract method(); protected abstract get c(): string }
---
class F extends (function() {} as any) { d = C<string> }
---
let m = new (Map!)<string, number>([]!), n = (foo!)<any>, o = (foo!)<any>([]!)
---
function overload(): number;
function overload(): any {}
---
declare enum E1 {}
declare namespace N {}
declare module M {}
declare let a, b: string;
declare class K {}
declare function f(): void;
void 0
---
const a = ()
    :any =>
    1
const b = ():
    any =>
    1
const c = (
    ):(
    |any
    )=>
    1
const d = (a, b, c: D = [] as any/*one*/)/*two*/:
    any =>
    1
---
const f = async <
T>(x: T): Promise<T> => x
---
function g() { return <
T>(x: T) => x }
---
foo
type x = 1;
(1);
foo
interface Y {}
``;
foo
declare const z: 1
[1]
---
a = b as T;
(c)
---
a = b!
(c)
---
a = b as T
+c
---
let x: A
[1]
---
class A { x = 1
  public [k] = 2
  private *gen() {}
  readonly x
  [l] = 1 }
---
class A { get: number
 x() {}
 static?: number
 y() {}
 async!: number
 z() {} }
---
class A { constructor(); constructor(x?: any) {} }
---
function f(this: Foo, ...rest: any[]): rest is Foo {}
function g(this: Foo) {}
function h(x): asserts x is Foo {}
---
const x = a ? (b) : (c): number => d, y = a ? (b as T) : c => d, z = a ? (b): T => c : d
---
for (const x of y as any[]) z
for (let i: number = 0, n = a as number; i < n; i++) z
if (a) b as T
else c as U
do a as T
while (b as U)
switch (a as T) { case b as U: c; default: d as V }
label: for (const [a, b] of Object.entries(c) as [string, any][]) { continue label }
---
x! = 1; x!++; x!.y!.z![0]!(); a?.b!.c; (a?.b)!.c; a?.[0]!.b; a!?.b
---
total += item.price! * item.count! - item.off! / 2
---
f<T>(x), new F<T>(x), f?.<T>(x), a.b<T>(c)
const v = await f<T>(y), w = !f<T>(x), u = typeof f<T>(x), t = await a.b<T>(c).d, s = new (f<T>())()
---
<T>(x: T) => x
---
const x = <T>y.z, w = <T>{ a: 1 }, v = [<T>a, <U>b], u = f(<T>a), t = `a${<T>d}e${f!}`
---
const { a, b = 1 }: { a: string, b?: number } = c as any, [d, e]: [string, number] = f!
---
class A { static { let x: number = 1 } static #p?: number; #m<T>(x: T): T { return x } }
---
function f<const T extends readonly unknown[]>(x: T) {}
---
x = y as any, eval("z")
---
const o = { a: 1 as const, b<T>(x: T): T { return x }, async *c(x?: number) {}, get d(): number { return 1 } }
---
let a: number\r
type B = {\r
  c: 1\r
}\r
[a]
---
const n = 2 * await f<number>(a), m = f<A>(1) + f<B[]>(2) * f<{ a: B }>(3), l = !f<A>(1) && -f<B>(2) < f<C>(3)
const k = a < b<C>(d), j = f(a < b<C, D>(e)), i = typeof a < b<C.D | E>(f), h = 1 + f<T>`x`, g = x => 2 ** f<T>(x)
const o = a ? 1 + b<C>(d) : 2 - e<F>(g), p = a in b<C>(d), q = { a: 1 + c<D>(e) }, r = 1 + new F<T>(1) + f<T>(2)!
const t = a < b && c > (d), u = a < b | c > (d), v = a < b >> (c), w = a < b + c > (d)
---
a
namespace N { interface A {} export type B = A }
(b)
---
class A { a = null as any; b = 1 satisfies number }
---
class A { as = 1 as any; declare: string; type?: number; readonly
 x = 3 as any }
---
const s = "é😀" as string, t: `😀${string}` = "😀x" as any; s!.length
""".strip().split("\n---\n")


@pytest.mark.parametrize("script", WRITTEN)
def test_written_programs_mean_what_the_compiler_says(compiler: Compiler, script: str):
    assert agrees(compiler, script)
