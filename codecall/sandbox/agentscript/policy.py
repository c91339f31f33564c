"""AgentScript's rules as data: every construct, global and name with its verdict. AUDIT THIS FILE.

Written once, read twice: the guard reads it before a script runs, the realm while it runs (it builds the globals from
`GLOBALS` and removes `NEVER_NAMES` from the prototypes). What the model is told (`language_summary`) and the
documentation's table are printed from the same rows, so they cannot disagree. What has no row is refused.

A row says what is refused, why, what to write instead, and carries its probe: the shortest script it must refuse.
This module imports nothing of codecall, so that everyone may import it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, Protocol, TypeVar

FindingKind = Literal[
    "IllegalBuiltinAccess",
    "DisallowedGlobal",
    "DisallowedSyntax",
    "DisallowedMember",
    "DisallowedLoop",
    "ReservedPrefix",
    "UnsafeSource",
    "SelfReference",
]
"""Why a construct is refused; the `kind` of an `illegal_access` envelope."""

Verdict = Literal["allowed", "refused", "loops", "regex", "console", "clock"]
"""`allowed` and `refused` always hold; the other four name the preset's rule that decides."""

MAX_SCRIPT_BYTES: Final = 64 * 1024
"""Longest script, in bytes of UTF-8. Source of this number and the next four: the contract, section 4.1."""
TOO_LONG: Final = f"Script has more than {MAX_SCRIPT_BYTES} bytes"
"""What is said of one that is longer; `SOURCE["script length"]` says the rest."""
MAX_NESTING: Final = 64
"""Deepest nesting of brackets of all kinds, `${` included."""
MAX_SCOPES: Final = 200
"""Deepest nesting of scopes (functions, blocks, loops, also those without brackets). Ours: three for each bracket, and
with as many the guard takes less than 0.2 s for the worst script."""
MAX_LINE_LENGTH: Final = 20_000
"""Longest line, in characters."""
MAX_REGEXES: Final = 50
"""Most regular expression literals in one script."""
MAX_REGEX_LENGTH: Final = 1_000
"""Longest regular expression literal, in characters between the slashes."""


class Switches(Protocol):
    """Anything that has a preset's language switches: the preset itself, and the part of it a worker gets."""

    @property
    def allow_loops(self) -> bool:
        """`while` and `do…while`."""
        ...

    @property
    def allow_regex(self) -> bool:
        """Regular expressions."""
        ...

    @property
    def allow_console(self) -> bool:
        """`console`."""
        ...

    @property
    def allow_clock(self) -> bool:
        """Time and chance."""
        ...


@dataclass(frozen=True, slots=True)
class Rules:
    """The language switches of a preset. The zero value is the smallest language."""

    allow_loops: bool = False
    """`while` and `do…while`; `for` and `for…of` always work."""
    allow_regex: bool = False
    """Regular expressions, as literals, through `RegExp`, and made from strings by `match` and its kin."""
    allow_console: bool = False
    """`console.log` and its kin."""
    allow_clock: bool = False
    """Time and chance: `Date.now`, `new Date()` without arguments, `Math.random`."""

    @classmethod
    def from_limits(cls, limits: Switches) -> Rules:
        """The language switches among the limits of a preset."""
        return cls(
            allow_loops=limits.allow_loops,
            allow_regex=limits.allow_regex,
            allow_console=limits.allow_console,
            allow_clock=limits.allow_clock,
        )

    def permit(self, verdict: Verdict) -> bool:
        """Whether a row with this verdict is allowed under these rules."""
        match verdict:
            case "allowed":
                return True
            case "refused":
                return False
            case "loops":
                return self.allow_loops
            case "regex":
                return self.allow_regex
            case "console":
                return self.allow_console
            case "clock":
                return self.allow_clock


@dataclass(frozen=True, slots=True)
class Row:
    """One construct and its verdict."""

    name: str
    """What the row is about, as messages show it."""
    verdict: Verdict
    kind: FindingKind = "DisallowedSyntax"
    """The kind of finding when it is refused."""
    reason: str = ""
    """Why it is refused, for auditors and documentation."""
    instead: str = ""
    """What to write instead: the hint of the refusal."""
    probe: str | None = None
    """The shortest script this row must refuse, with every switch off. None: allowed, or never in a finished tree."""


@dataclass(frozen=True, slots=True)
class GlobalRow(Row):
    """A global name."""

    members: frozenset[str] | None = frozenset()
    """Members a script may name on it, `MEMBERS` rows included; None: any, it holds data."""
    declarable: bool = False
    """Whether a script may have a variable of its own by this name (`process`, `module`: words of every day)."""


_R = TypeVar("_R", bound=Row)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _by_name(rows: Iterable[_R]) -> Mapping[str, _R]:
    return MappingProxyType({row.name: row for row in rows})


# ---------------------------------------------------------------------------------------------------------------------
# Syntax, by the type of AST node the parser emits

_NO_MODULES = "Scripts have no modules. Everything outside is a tool: `await callTool(name, input)`."
_NOT_LOADED = "A script cannot load code: what it may use is what its table of globals holds."
_NO_EXPORT = "Leave `export` out, and end with `return run();` or the value the script is for."
_SELF_REFERENCE = "Call the tools themselves with callTool(name, input); search and describe before writing the script."
_BOUNDED = (
    "Write a bounded loop: `for (let i = 0; i < n; i++) { … }` or `for (const x of items) { … }`; to "
    "page, with the tool's own names for `cursor` and `next` (or `page: i + 1`, until a page is empty): "
    "`let page; for (let i = 0; i < 50; i++) { page = await list({ cursor: page?.next }); …; if (!page.next) break; }`."
)


def _allowed(types: str) -> dict[str, Row]:
    return {node_type: Row(node_type, "allowed") for node_type in types.split()}


def _import(node_type: str, probe: str) -> dict[str, Row]:
    return {node_type: Row("import", "refused", reason=_NOT_LOADED, instead=_NO_MODULES, probe=probe)}


def _export(node_type: str, probe: str) -> dict[str, Row]:
    return {node_type: Row("export", "refused", reason="A script is no module.", instead=_NO_EXPORT, probe=probe)}


NODES: Final[Mapping[str, Row]] = MappingProxyType(
    {
        # Values and operators
        **_allowed("Identifier Literal TemplateLiteral TemplateElement TaggedTemplateExpression ArrayExpression"),
        **_allowed("ObjectExpression Property SpreadElement ThisExpression Super MemberExpression ChainExpression"),
        **_allowed("CallExpression NewExpression UnaryExpression UpdateExpression BinaryExpression LogicalExpression"),
        **_allowed("AssignmentExpression ConditionalExpression SequenceExpression AwaitExpression YieldExpression"),
        # Functions, classes and patterns
        **_allowed("ArrowFunctionExpression FunctionExpression FunctionDeclaration"),
        **_allowed("ClassDeclaration ClassExpression ClassBody MethodDefinition FieldDefinition StaticBlock"),
        **_allowed("PrivateIdentifier ArrayPattern ObjectPattern AssignmentPattern RestElement"),
        # Statements
        **_allowed("Program BlockStatement EmptyStatement ExpressionStatement VariableDeclaration VariableDeclarator"),
        **_allowed("IfStatement SwitchStatement SwitchCase ForStatement ForOfStatement ForAwaitStatement"),
        **_allowed("LabeledStatement BreakStatement ContinueStatement ReturnStatement ThrowStatement TryStatement"),
        **_allowed("CatchClause"),
        # Loops without a bound one can see
        "WhileStatement": Row(
            "while",
            "loops",
            "DisallowedLoop",
            reason="Nothing in its head bounds it.",
            instead=_BOUNDED,
            probe="while (false) {}",
        ),
        "DoWhileStatement": Row(
            "do…while",
            "loops",
            "DisallowedLoop",
            reason="Nothing in its head bounds it.",
            instead=_BOUNDED,
            probe="do {} while (false)",
        ),
        "ForInStatement": Row(
            "for…in",
            "refused",
            "DisallowedLoop",
            reason="It walks inherited names too, and gives array indexes as strings.",
            instead="Write `for (const key of Object.keys(x)) { … }`; for arrays `for (const item of items) { … }`.",
            probe="for (const k in {}) {}",
        ),
        # Never
        "WithStatement": Row(
            "with",
            "refused",
            reason="It makes the meaning of every name inside a guess.",
            instead="Name the object: `const { a, b } = x;` and then use `a` and `b`.",
            probe="with ({}) {}",
        ),
        "DebuggerStatement": Row(
            "debugger",
            "refused",
            reason="There is no debugger in a worker.",
            instead="Remove it; return the value you want to look at.",
            probe="debugger",
        ),
        "MetaProperty": Row(
            "new.target",
            "refused",
            reason="It hands out a constructor by another name.",
            instead="Pass what the function needs as an argument.",
            probe="function f() { return new.target }",
        ),
        **_import("Import", "import('x')"),
        **_import("ImportDeclaration", "import 'x'"),
        **_import("ImportSpecifier", "import { a } from 'x'"),
        **_import("ImportDefaultSpecifier", "import a from 'x'"),
        **_import("ImportNamespaceSpecifier", "import * as a from 'x'"),
        **_export("ExportAllDeclaration", "export * from 'x'"),
        **_export("ExportDefaultDeclaration", "export default 1"),
        **_export("ExportNamedDeclaration", "export const a = 1"),
        **_export("ExportSpecifier", "export { a }"),
        **_export("ExportDefaultSpecifier", "export a from 'x'"),
        # The parser's own scaffolding: never in a finished tree, refused if it ever were
        "ArrowParameterPlaceHolder": Row("ArrowParameterPlaceHolder", "refused", reason="Scaffolding of the parser."),
        "BlockComment": Row("BlockComment", "refused", reason="Comments are not collected."),
        "LineComment": Row("LineComment", "refused", reason="Comments are not collected."),
    }
)
"""Every node type the parser knows (a test compares), by its ESTree name. A type without a row is refused."""

# ---------------------------------------------------------------------------------------------------------------------
# Variants that hide inside an allowed node

OPERATORS: Final = _names(
    "+ - * / % ** == != === !== < > <= >= << >> >>> & | ^ ~ ! && || ?? ++ -- in instanceof typeof void delete "
    "= += -= *= /= %= **= <<= >>= >>>= &= |= ^= &&= ||= ??="
)
"""Every operator of JavaScript, unary, binary and assigning. An operator the parser learns later is refused."""

VARIABLE_KINDS: Final = frozenset({"const", "let", "var"})
PROPERTY_KINDS: Final = frozenset({"init", "get", "set"})
METHOD_KINDS: Final = frozenset({"constructor", "method", "get", "set"})

VARIANTS: Final[Mapping[str, Row]] = MappingProxyType(
    {
        "this": Row(
            "this",
            "refused",
            "IllegalBuiltinAccess",
            reason="At top level it would be the global object.",
            instead="At top level there is no `this`; inside functions and methods there is. Use a variable.",
            probe="this",
        ),
        "import.meta": Row(
            "import.meta", "refused", reason="A script is no module.", instead=_NO_MODULES, probe="import.meta"
        ),
        "using": Row(
            "using",
            "refused",
            reason="The engine does not know it.",
            instead="Use `const`, and `try { … } finally { … }` to clean up.",
            probe="using a = null",
        ),
        "variable kind": Row("variable kind", "refused", reason="Not a kind of variable this table knows."),
        "property kind": Row("property kind", "refused", reason="Not a kind of property this table knows."),
        "operator": Row(
            "operator", "refused", reason="Not an operator this table knows.", instead="Use another operator."
        ),
        "called text": Row(
            "text before a template",
            "refused",
            reason="A text cannot be called; a code fence in a script looks like that.",
            instead="Send one script and nothing else: no other text, and at most one code fence, around all of it.",
            probe="`a``b`",
        ),
        "extends": Row(
            "extends",
            "refused",
            reason="Subclasses of built-ins inherit what the realm takes away.",
            instead="Extend a class of this script, `Error` or one of its kinds; otherwise hold the value in a field.",
            probe="class A extends Map {}",
        ),
        "regular expression": Row(
            "regular expression",
            "regex",
            reason="Under this preset nothing may backtrack without bound.",
            instead="Use string methods: `includes`, `startsWith`, `endsWith`, `indexOf`, `split` by a string.",
            probe="/a/",
        ),
        "pattern method": Row(
            "pattern method",
            "regex",
            "DisallowedMember",
            reason="`match`, `matchAll` and `search` make a regular expression of a string.",
            instead="Use `includes`, `indexOf`, `startsWith`, `endsWith` or `split` by a string.",
            probe="'a'.match('a')",
        ),
        "new Date()": Row(
            "new Date() without arguments",
            "clock",
            reason="Under this preset the same input gives the same result.",
            instead="Give it the time: `new Date(iso)`, with a time from the context or a tool.",
            probe="new Date()",
        ),
        "Date()": Row(
            "Date() without new",
            "clock",
            reason="It gives the time as a string, whatever its arguments.",
            instead="Give it the time: `new Date(iso)`, with a time from the context or a tool.",
            probe="Date()",
        ),
        "computed member": Row(
            "computed member",
            "refused",
            "DisallowedMember",
            reason="Members of built-in objects are listed by name; a computed one cannot be looked up.",
            instead="Name the member: `Math.max(a, b)`. For data use an object of your own.",
            probe="k => Math[k]",
        ),
        "unknown member": Row(
            "unknown member",
            "refused",
            "DisallowedMember",
            reason="What is not listed is refused.",
            instead="It is not part of AgentScript.",
            probe="Math.foo",
        ),
        "unknown identifier": Row(
            "unknown identifier",
            "refused",
            "DisallowedGlobal",
            reason="What is not listed is refused.",
            instead="It is not defined: declare it with `const` or `let`, or check the spelling.",
            probe="foo",
        ),
        "assignment": Row(
            "assignment",
            "refused",
            "IllegalBuiltinAccess",
            reason="Built-ins mean the same everywhere in a script.",
            instead="Built-ins cannot be changed: use a variable of your own.",
            probe="Math = 1",
        ),
        "declaration": Row(
            "declaration",
            "refused",
            "IllegalBuiltinAccess",
            reason="A built-in means the same everywhere in a script.",
            instead="The built-in of that name is there already: leave this out to use it, or choose another name.",
            probe="const Map = 1",
        ),
        "own value": Row(
            "variable in its own value",
            "refused",
            reason="It has no value yet: what should be called there, a namespace of tools say, cannot be seen.",
            instead="The name means the new variable here, which has no value yet: give the variable another name.",
            probe="const a = a.b",
        ),
        "constant": Row(
            "assignment to a constant",
            "refused",
            reason="It fails where it runs, which may be after calls that cannot be undone.",
            instead="Declare it with `let` instead of `const`.",
            probe="const a = 1; a = 2",
        ),
        "escape": Row(
            "unicode escape in a name",
            "refused",
            "UnsafeSource",
            reason="No honest script needs it, and it hides what the code does.",
            instead="Write the name in plain letters.",
            probe="const \\u0061b = 1",
        ),
        "await as a name": Row(
            "await as a name",
            "refused",
            reason="What follows it reads differently when it is a name: `/` divides, or begins a regular expression.",
            instead="`await` is no name here: mark the function around it `async`, or choose another name.",
            probe="function f(await) {}",
        ),
        "self reference": Row(
            "self reference",
            "refused",
            "SelfReference",
            reason="A script may not start scripts, or look for tools while it runs.",
            instead=_SELF_REFERENCE,
            probe="callTool('codecall:execute', {})",
        ),
    }
)
"""Forms of allowed nodes that have a verdict of their own."""

PATTERN_METHODS: Final = frozenset({"match", "matchAll", "search"})
"""String methods that make a regular expression of a string."""

# ---------------------------------------------------------------------------------------------------------------------
# Names

_PROTO = "Use `Object.create(null)`, `Map`, or a class of your own."


def _never(name: str, reason: str, instead: str, probe: str) -> Row:
    return Row(name, "refused", "DisallowedMember", reason=reason, instead=instead, probe=probe)


NEVER_NAMES: Final[Mapping[str, Row]] = _by_name(
    [
        _never("__proto__", "It reads and replaces the prototype of any object.", _PROTO, "x => x.__proto__"),
        _never(
            "constructor",
            "It leads from any value to `Function`, and from there to code made of strings.",
            "Tell kinds apart with `instanceof`, `Array.isArray`, `typeof` or `error.name`.",
            "x => x.constructor",
        ),
        _never(
            "prototype",
            "Changing it changes every value of that kind.",
            "Call the method on the value itself (`items.slice()`); for own keys ask `Object.hasOwn(o, key)`.",
            "x => x.prototype",
        ),
        _never(
            "__defineGetter__",
            "It installs hidden code.",
            "Write `get name() { … }` in the object or class.",
            "x => x.__defineGetter__",
        ),
        _never(
            "__defineSetter__",
            "It installs hidden code.",
            "Write `set name(v) { … }` in the object or class.",
            "x => x.__defineSetter__",
        ),
        _never(
            "__lookupGetter__",
            "It hands out the accessors of `__proto__`.",
            "Read the property.",
            "x => x.__lookupGetter__",
        ),
        _never(
            "__lookupSetter__",
            "It hands out the accessors of `__proto__`.",
            "Assign the property.",
            "x => x.__lookupSetter__",
        ),
    ]
)
"""Refused in every position a name can stand: identifier, member, key, destructuring, label, literal subscript,
template subscript. The one exception is the definition of a class's constructor."""

PREFIXES: Final[Mapping[str, Row]] = _by_name(
    Row(
        prefix,
        "refused",
        "ReservedPrefix",
        reason="Names of the runtime begin so.",
        instead=f"Choose a name that does not begin with `{prefix}`.",
        probe=f"const {prefix}x = 1",
    )
    for prefix in ("__ag_", "__safe_", "__codecall")
)
"""Beginnings of names that a script may not declare, nor use, save the listed runtime names."""

# ---------------------------------------------------------------------------------------------------------------------
# Globals

META_TOOLS: Final[tuple[str, ...]] = ("codecall:search", "codecall:describe", "codecall:invoke", "codecall:execute")
"""The tools CodeCall adds, canonical spelling. No script may call one."""

_META_SPELLINGS: Final = frozenset(META_TOOLS) | frozenset(name.replace(":", "_") for name in META_TOOLS)
# What JavaScript's trim() takes off and Python's strip() leaves, and characters nobody sees
_BLANKS: Final = "\ufeff\u200b\u200c\u200d\u2060\x00"

RUNTIME_NAMES: Final = frozenset(
    {
        *("callTool", "readResource", "getPrompt", "getResult", "getTool", "tools", "codecallContext"),
        *("__safe_parallel", "console", "emit", "extract"),
    }
)
"""What CodeCall itself puts into the realm."""

NAMES_A_CALL: Final = frozenset({"callTool", "readResource", "getPrompt", "getTool"})
"""Those that take the name of what they are about first: no meta-tool's."""

OBSERVED: Final = "observedOutput"
"""The key of what was seen of a tool's answers where the host describes it for warnings; `getTool` leaves it out."""

ERROR_KINDS: Final = _names("Error AggregateError EvalError RangeError ReferenceError SyntaxError TypeError URIError")
"""The error classes: the only built-ins a class may extend."""


def _has(name: str, members: str = "", verdict: Verdict = "allowed", probe: str | None = None) -> GlobalRow:
    return GlobalRow(name, verdict, "DisallowedGlobal", probe=probe, members=_names(members))


def _functions(names: str) -> list[GlobalRow]:
    return [_has(name) for name in names.split()]


def _danger(names: str, reason: str, instead: str, *, declarable: bool = False) -> list[GlobalRow]:
    """Names that lead out of the sandbox in some host or other."""
    return [
        GlobalRow(name, "refused", "IllegalBuiltinAccess", reason, instead, probe=name, declarable=declarable)
        for name in names.split()
    ]


def _absent(names: str, instead: str) -> list[GlobalRow]:
    """Names a model may expect from a browser or Node; harmless, not there."""
    reason = "Not part of AgentScript."
    return [
        GlobalRow(name, "refused", "DisallowedGlobal", reason, instead, probe=name, declarable=True)
        for name in names.split()
    ]


_NO_CODE = "Write the code itself; what depends on data goes into functions, objects and `switch`."
_NO_GLOBAL = "There is no global object: use the names themselves, and `codecallContext` for the request's context."
_NO_NETWORK = "A script reaches the outside only through tools: `await callTool(name, input)`."
_NO_HOST = "Read settings from `codecallContext`; reach the outside through tools: `await callTool(name, input)`."
_NO_TIMERS = "There are no timers: call tools directly and `await` them; `__safe_parallel` runs several at once."
_NO_SHARING = "Use plain arrays and objects; run tools side by side with `__safe_parallel` or `Promise.all`."
_NO_BYTES = "Use arrays of numbers or strings; binary data stays with the tools."
_NO_DOM = "There is no page. `return` the value the script is for."

GLOBALS: Final[Mapping[str, GlobalRow]] = _by_name(
    [
        # The runtime
        _has("callTool"),
        _has("readResource"),
        _has("getPrompt"),
        _has("getResult"),
        _has("getTool"),
        _has("__safe_parallel"),
        GlobalRow("tools", "allowed", members=None, declarable=True),
        GlobalRow("emit", "allowed", declarable=True),
        GlobalRow("extract", "allowed", declarable=True),
        GlobalRow("codecallContext", "allowed", members=None),
        GlobalRow(
            "console",
            "console",
            "DisallowedGlobal",
            reason="Under this preset a script only returns its result.",
            instead="Put what you want to see into the value you return.",
            probe="console",
            members=frozenset({"log", "info", "warn", "error", "debug"}),
        ),
        # Values
        GlobalRow("undefined", "allowed", members=None),
        _has("NaN"),
        _has("Infinity"),
        # Namespaces and constructors
        _has(
            "Math",
            "E LN10 LN2 LOG10E LOG2E PI SQRT1_2 SQRT2 abs acos acosh asin asinh atan atan2 atanh cbrt ceil clz32 cos "
            "cosh exp expm1 floor fround hypot imul log log10 log1p log2 max min pow round sign sin sinh sqrt tan tanh "
            "trunc",
        ),
        _has("JSON", "parse stringify"),
        _has(
            "Object",
            "assign create entries freeze fromEntries getOwnPropertyNames groupBy hasOwn is isExtensible isFrozen "
            "isSealed keys preventExtensions seal values",
        ),
        _has("Array", "from fromAsync isArray of"),
        _has(
            "Number",
            "EPSILON MAX_SAFE_INTEGER MAX_VALUE MIN_SAFE_INTEGER MIN_VALUE NEGATIVE_INFINITY NaN POSITIVE_INFINITY "
            "isFinite isInteger isNaN isSafeInteger parseFloat parseInt",
        ),
        _has("String", "fromCharCode fromCodePoint raw"),
        _has("Boolean"),
        _has("BigInt", "asIntN asUintN"),
        _has("Symbol", "asyncIterator iterator"),
        _has("Date", "UTC parse"),
        _has("Promise", "all allSettled any race reject resolve try withResolvers"),
        _has("Map", "groupBy"),
        _has("Set"),
        GlobalRow(
            "RegExp",
            "regex",
            "DisallowedGlobal",
            reason="Under this preset nothing may backtrack without bound.",
            instead=VARIANTS["regular expression"].instead,
            probe="RegExp",
        ),
        *_functions(" ".join(sorted(ERROR_KINDS))),
        # Functions
        *_functions("parseInt parseFloat isNaN isFinite structuredClone"),
        *_functions("encodeURI encodeURIComponent decodeURI decodeURIComponent"),
        # Refused: code made of strings
        *_danger(
            "eval Function AsyncFunction GeneratorFunction AsyncGeneratorFunction",
            "It makes code of strings, which no one has looked at.",
            _NO_CODE,
        ),
        # Refused: the global object and the host
        *_danger("globalThis", "It holds every global, by computed name too.", _NO_GLOBAL),
        *_danger("global window self", "It holds every global, by computed name too.", _NO_GLOBAL, declarable=True),
        *_danger("require", "It loads code.", _NO_MODULES, declarable=True),
        *_danger("process module exports Deno Bun", "It is the host's.", _NO_HOST, declarable=True),
        *_danger(
            "fetch XMLHttpRequest WebSocket EventSource Worker",
            "It reaches the network behind the broker's back.",
            _NO_NETWORK,
            declarable=True,
        ),
        *_danger(
            "setTimeout setInterval setImmediate clearTimeout clearInterval clearImmediate queueMicrotask "
            "requestAnimationFrame",
            "Work that is put off escapes the count of steps and time.",
            _NO_TIMERS,
            declarable=True,
        ),
        # Refused: ways around objects
        *_danger("Proxy", "It turns reading a property into running code.", "Use a class with getters, or a function."),
        *_danger(
            "Reflect", "It does by string what the guard checks by name.", "Use `Object.keys`, `in` and `x[key]`."
        ),
        *_danger("WeakRef FinalizationRegistry", "It makes garbage collection visible.", "Keep the value itself."),
        *_danger("WebAssembly", "It runs code no one has looked at.", _NO_CODE),
        *_danger("SharedArrayBuffer Atomics", "It shares memory and tells time.", _NO_SHARING),
        *_danger(
            "arguments",
            "Outside functions it would be the wrapper's.",
            "Name the parameters, or take them all: `(...args) => …`.",
        ),
        # Refused: chance and time under another name
        *_danger("performance", "It is a clock.", "Use `Date.now()` where the preset allows it.", declarable=True),
        *_danger(
            "crypto",
            "It is the host's.",
            "Let a tool make ids and hashes: `await callTool(name, input)`.",
            declarable=True,
        ),
        # Absent: what a model may expect from elsewhere
        *_absent("print alert confirm prompt", "`return` the value, or use `console.log` where the preset allows it."),
        *_absent("document navigator location localStorage sessionStorage history", _NO_DOM),
        *_absent("Buffer atob btoa TextEncoder TextDecoder Blob File FormData", _NO_BYTES),
        *_absent(
            "ArrayBuffer DataView Int8Array Uint8Array Uint8ClampedArray Int16Array Uint16Array Int32Array Uint32Array "
            "Float16Array Float32Array Float64Array BigInt64Array BigUint64Array",
            _NO_BYTES,
        ),
        *_absent("URL URLSearchParams", "Build the text yourself, with `encodeURIComponent` and template literals."),
        *_absent("Headers Request Response AbortController AbortSignal", _NO_NETWORK),
        *_absent(
            "ToolError",
            "A failed call throws an error whose `name` is `'ToolError'`: ask for `error.name` and `error.code`.",
        ),
        *_absent("InternalError", "It is thrown by the engine alone; ask for `error.name`."),
        *_absent("DOMException", "Throw `new Error(message)`, with a `name` of its own if need be."),
        *_absent("SuppressedError DisposableStack AsyncDisposableStack", VARIANTS["using"].instead),
        *_absent(
            "Intl",
            "Format by hand: `toFixed`, `padStart`, `toISOString().slice(0, 10)`. Dates are in UTC; the clock time of "
            "a text stands in it: `text.slice(11, 16)`.",
        ),
        *_absent("WeakMap", "Use `Map`."),
        *_absent("WeakSet", "Use `Set`."),
        *_absent("Iterator", "Use arrays, or a generator function."),
        *_absent("escape unescape", "Use `encodeURIComponent` and `decodeURIComponent`."),
        *_absent("sleep delay", "There are no timers: call tools directly and `await` them."),
        *_absent("call_tool codecall", "Call a tool so: `await callTool('name', { … })`."),
        *_absent("get_tool describe", "Look a tool up so: `getTool('name')`."),
    ]
)
"""Every global name with a verdict. An identifier that is neither declared in the script nor listed is refused."""


def _member(name: str, probe: str, reason: str, instead: str, *, verdict: Verdict = "refused") -> Row:
    return Row(name, verdict, "DisallowedMember", reason=reason, instead=instead, probe=probe)


_NO_DESCRIPTORS = "Set properties plainly: `x.key = value`; computed ones with `get key() { … }` in the object."
_NO_PROTOTYPES = "Use a class (`class B extends A`) or plain objects; for dictionaries `Object.create(null)` or `Map`."
_NO_HOOK = "Write a method with a name of your own, and call it."


def _hooks(names: str) -> Iterator[Row]:
    reason = "It makes built-in operators and methods run the script's own code where nobody sees a call."
    for name in names.split():
        yield _member(f"Symbol.{name}", f"Symbol.{name}", reason, _NO_HOOK)


def _newer(instead: Mapping[str, str]) -> Iterator[Row]:
    for name, hint in instead.items():
        yield _member(name, name, "Newer than the language of the scripts, ECMAScript 2024.", hint)


_NO_TRACE = "Leave it out: errors carry `name` and `message`."

MEMBERS: Final[Mapping[str, Row]] = _by_name(
    [
        _member(
            "Math.random",
            "Math.random()",
            "Chance: the same input must give the same result.",
            "Take what should vary from the input or a tool.",
            verdict="clock",
        ),
        _member(
            "Date.now",
            "Date.now()",
            "Time: the same input must give the same result.",
            "Take the time from the context or a tool.",
            verdict="clock",
        ),
        _member("Object.getPrototypeOf", "Object.getPrototypeOf", "It hands out prototypes.", _NO_PROTOTYPES),
        _member("Object.setPrototypeOf", "Object.setPrototypeOf", "It replaces prototypes.", _NO_PROTOTYPES),
        _member("Object.defineProperty", "Object.defineProperty", "It installs hidden code.", _NO_DESCRIPTORS),
        _member("Object.defineProperties", "Object.defineProperties", "It installs hidden code.", _NO_DESCRIPTORS),
        _member(
            "Object.getOwnPropertyDescriptor",
            "Object.getOwnPropertyDescriptor",
            "It hands out accessors.",
            "Read the property, or ask with `Object.hasOwn(o, key)`.",
        ),
        _member(
            "Object.getOwnPropertyDescriptors",
            "Object.getOwnPropertyDescriptors",
            "It hands out accessors.",
            "Copy with `{ ...x }`.",
        ),
        _member(
            "Object.getOwnPropertySymbols",
            "Object.getOwnPropertySymbols",
            "It finds what symbols hide.",
            "Use `Object.keys(x)`.",
        ),
        _member(
            "Error.captureStackTrace", "Error.captureStackTrace", "Traces name what is around the script.", _NO_TRACE
        ),
        _member("Error.prepareStackTrace", "Error.prepareStackTrace", "It runs on the engine's own frames.", _NO_TRACE),
        _member("Error.stackTraceLimit", "Error.stackTraceLimit", "Traces name what is around the script.", _NO_TRACE),
        _member(
            "Symbol.species",
            "Symbol.species",
            "It puts a constructor into built-in methods.",
            "Call `Array.from(x)` or `[...x]`.",
        ),
        *_hooks(
            "hasInstance isConcatSpreadable match matchAll replace search split toPrimitive toStringTag unscopables"
        ),
        *(
            _member(
                f"Symbol.{name}", f"Symbol.{name}", "There is no `using` that would call it.", VARIANTS["using"].instead
            )
            for name in ("asyncDispose", "dispose")
        ),
        _member("Symbol.keyFor", "Symbol.keyFor", "There is no registry of symbols.", "Use `symbol.description`."),
        _member("JSON.rawJSON", "JSON.rawJSON('1')", "It puts raw text into JSON.", "Use `JSON.stringify(value)`."),
        _member("JSON.isRawJSON", "JSON.isRawJSON", "There is no raw JSON.", "Use `typeof` and `Array.isArray`."),
        *_newer(
            {
                "Error.isError": "Write `e instanceof Error`.",
                "Math.f16round": "Write `Math.fround(x)`, or round with `Math.round`.",
                "Math.sumPrecise": "Write `numbers.reduce((sum, n) => sum + n, 0)`.",
                "RegExp.escape": "Write `text.replace(/[.*+?^${}()|[\\]\\\\]/g, '\\\\$&')`.",
            }
        ),
        _member("Symbol.for", "Symbol.for('a')", "Its registry outlives the script's scopes.", "Use `Symbol('name')`."),
        _member(
            "console.table", "console.table([])", "Only lines are captured.", "Use `console.log(JSON.stringify(x))`."
        ),
        _member(
            "arguments.callee",
            "function f() { return arguments.callee }",
            "It hands out the function it is in.",
            "Give the function a name and call that.",
        ),
        _member(
            "arguments.caller",
            "function f() { return arguments.caller }",
            "It hands out the calling function.",
            "Pass what the function needs as an argument.",
        ),
    ]
)
"""Members of globals with a verdict of their own, by dotted name. Others follow their global's list."""

# ---------------------------------------------------------------------------------------------------------------------
# Prototypes: the methods of values. The guard cannot see what a name is asked of, so the realm enforces this table.


@dataclass(frozen=True, slots=True)
class PrototypeRow:
    """What values of one kind inherit. `@@iterator` means `Symbol.iterator`, and so on."""

    name: str
    """`Array.prototype`; or `%ArrayIteratorPrototype%`, the specification's name, where no global leads to it."""
    allowed: frozenset[str]
    """What the realm keeps. Everything else goes, whether the engine has it today or not."""
    regex: frozenset[str]
    """Kept where the preset allows regular expressions."""
    removed: Mapping[str, str]
    """What the engine is known to have and the realm takes away, with the reason."""


def _inherits(name: str, allowed: str = "", *, regex: str = "", **removed: str) -> PrototypeRow:
    """A row; `removed` maps reasons (keys of `_WHY`) to names."""
    why = {method: _WHY[reason] for reason, methods in removed.items() for method in methods.split()}
    # The one constructor that stays: `await` asks for it, and it is a global that scripts have anyway.
    if name != "Promise.prototype":
        why["constructor"] = NEVER_NAMES["constructor"].reason
    return PrototypeRow(name, _names(allowed), _names(regex), MappingProxyType(why))


_WHY: Final = {
    "markup": "It builds HTML from strings, unescaped.",
    "too_new": "Newer than the language that scripts are promised.",
    "disposal": "For `using`, which is refused.",
    "accessors": "It reads, replaces or hides properties behind the guard's back.",
    "source": "It shows where code stands, the runtime's included.",
    "caller": "It hands out functions and arguments of others.",
    "mutates": "It makes another expression of one that is in use.",
    "nests": "It wraps an iterator in another one, deeper than the engine can go back.",
    "dated": "It is wrong since the year 2000; the full year has its own method.",
    "scoping": "For `with`, which is refused.",
    "chain": "It leads on to the prototype of generators.",
}

PROTOTYPES: Final[Mapping[str, PrototypeRow]] = MappingProxyType(
    {
        row.name: row
        for row in [
            _inherits(
                "Object.prototype",
                "hasOwnProperty isPrototypeOf propertyIsEnumerable toLocaleString toString valueOf",
                accessors="__proto__ __defineGetter__ __defineSetter__ __lookupGetter__ __lookupSetter__",
            ),
            _inherits(
                "Function.prototype",
                # `@@hasInstance` cannot be removed; no script can name the symbol.
                "apply bind call length name toString @@hasInstance",
                source="fileName lineNumber columnNumber",
                caller="caller arguments",
            ),
            _inherits(
                "Array.prototype",
                "at concat copyWithin entries every fill filter find findIndex findLast findLastIndex flat flatMap "
                "forEach includes indexOf join keys lastIndexOf length map pop push reduce reduceRight reverse shift "
                "slice some sort splice toLocaleString toReversed toSorted toSpliced toString unshift values with "
                "@@iterator",
                scoping="@@unscopables",
            ),
            _inherits(
                "String.prototype",
                "at charAt charCodeAt codePointAt concat endsWith includes indexOf isWellFormed lastIndexOf length "
                "localeCompare normalize padEnd padStart repeat replace replaceAll slice split startsWith substr "
                "substring toLocaleLowerCase toLocaleUpperCase toLowerCase toString toUpperCase toWellFormed trim "
                "trimEnd trimLeft trimRight trimStart valueOf @@iterator",
                regex=" ".join(sorted(PATTERN_METHODS)),
                markup="anchor big blink bold fixed fontcolor fontsize italics link small strike sub sup",
            ),
            _inherits("Number.prototype", "toExponential toFixed toLocaleString toPrecision toString valueOf"),
            _inherits("Boolean.prototype", "toString valueOf"),
            _inherits("BigInt.prototype", "toLocaleString toString valueOf @@toStringTag"),
            _inherits("Symbol.prototype", "description toString valueOf @@toPrimitive @@toStringTag"),
            _inherits(
                "Date.prototype",
                "getDate getDay getFullYear getHours getMilliseconds getMinutes getMonth getSeconds getTime "
                "getTimezoneOffset getUTCDate getUTCDay getUTCFullYear getUTCHours getUTCMilliseconds getUTCMinutes "
                "getUTCMonth getUTCSeconds setDate setFullYear setHours setMilliseconds setMinutes setMonth setSeconds "
                "setTime setUTCDate setUTCFullYear setUTCHours setUTCMilliseconds setUTCMinutes setUTCMonth "
                "setUTCSeconds toDateString toISOString toJSON toLocaleDateString toLocaleString toLocaleTimeString "
                "toString toTimeString toUTCString valueOf @@toPrimitive",
                dated="getYear setYear toGMTString",
            ),
            _inherits(
                "RegExp.prototype",
                "dotAll exec flags global hasIndices ignoreCase multiline source sticky test toString unicode "
                "unicodeSets @@match @@matchAll @@replace @@search @@split",
                mutates="compile",
            ),
            _inherits(
                "Map.prototype",
                "clear delete entries forEach get has keys set size values @@iterator @@toStringTag",
                too_new="getOrInsert getOrInsertComputed",
            ),
            _inherits(
                "Set.prototype",
                "add clear delete difference entries forEach has intersection isDisjointFrom isSubsetOf isSupersetOf "
                "keys size symmetricDifference union values @@iterator @@toStringTag",
            ),
            _inherits("Promise.prototype", "catch constructor finally then @@toStringTag"),
            # `stack` stays as an empty text: where the engine stands in the runtime is nobody's business.
            _inherits("Error.prototype", "message name stack toString"),
            *(_inherits(f"{kind}.prototype", "message name") for kind in sorted(ERROR_KINDS - {"Error"})),
            _inherits("InternalError.prototype", "message name"),
            # Reachable from syntax and methods alone
            _inherits("%AsyncFunction.prototype%", "@@toStringTag"),
            _inherits("%GeneratorFunction.prototype%", "@@toStringTag", chain="prototype"),
            _inherits("%AsyncGeneratorFunction.prototype%", "@@toStringTag", chain="prototype"),
            _inherits("%GeneratorPrototype%", "next return throw @@toStringTag"),
            _inherits("%AsyncGeneratorPrototype%", "next return throw @@toStringTag"),
            _inherits(
                "%IteratorPrototype%",
                "every find forEach reduce some toArray @@iterator @@toStringTag",
                too_new="chunks includes join windows",
                nests="drop filter flatMap map take",
                disposal="@@dispose",
            ),
            _inherits("%AsyncIteratorPrototype%", "@@asyncIterator", disposal="@@asyncDispose"),
            _inherits("%ArrayIteratorPrototype%", "next @@toStringTag"),
            _inherits("%MapIteratorPrototype%", "next @@toStringTag"),
            _inherits("%SetIteratorPrototype%", "next @@toStringTag"),
            _inherits("%StringIteratorPrototype%", "next @@toStringTag"),
            _inherits("%RegExpStringIteratorPrototype%", "next @@toStringTag"),
        ]
    }
)
"""Every prototype a script's values can have. What a built realm holds is exactly this (a test crawls it)."""


def inherited(rules: Rules) -> dict[str, frozenset[str]]:
    """What each prototype keeps under `rules`, by the name of its row."""
    return {name: row.allowed | row.regex if rules.allow_regex else row.allowed for name, row in PROTOTYPES.items()}


# ---------------------------------------------------------------------------------------------------------------------
# The text itself, whatever it says


def _source(name: str, reason: str, instead: str, probe: str) -> Row:
    return Row(name, "refused", "UnsafeSource", reason=reason, instead=instead, probe=probe)


_ESCAPED = "Remove it; inside a string write it as an escape, such as `\\u200B`."

SOURCE: Final[Mapping[str, Row]] = _by_name(
    [
        _source(
            "script length",
            "A bound on all work that follows.",
            f"Shorten the script to {MAX_SCRIPT_BYTES} bytes; pass data through the context or a tool.",
            " " * (MAX_SCRIPT_BYTES + 1),
        ),
        _source("NUL character", "Texts end at it in some programs and not in others.", _ESCAPED, "'\0'"),
        _source("unpaired surrogate", "It is half a character, and no text.", "Write the whole character.", "'\ud800'"),
        _source("bidirectional control", "It shows code in another order than it runs.", _ESCAPED, "'\u202e'"),
        _source(
            "line separator",
            "It ends a line in some places and not in others.",
            "Remove it; inside a string write it as an escape: `\\u2028`.",
            "'\u2028'",
        ),
        _source(
            "lone carriage return",
            "It ends a line in some places and not in others.",
            "End lines with a line feed; inside a string write it as an escape: `\\r`.",
            "1\r2",
        ),
        _source("invisible character", "It hides in names and between them.", _ESCAPED, "a\u200b"),
        _source(
            "mixed alphabets",
            "Names that look the same would differ.",
            "Write the name in one alphabet.",
            "const p\u0430y = 1",
        ),
        _source(
            "HTML-like comment", "It ends the line in scripts and not in modules.", "Use `//` for comments.", "1 <!-- 2"
        ),
        _source(
            "unusual white space",
            "Not every reader takes it for white space everywhere.",
            "Write a plain space; inside a string it may stay.",
            "1 +\u00a01",
        ),
        _source(
            "regular expression after await",
            "Where `await` is a name, the same text is a division.",
            "Give the regular expression a name first: `const pattern = /…/`.",
            "await /a/",
        ),
        _source("hashbang", "A script is not a file of its own.", "Remove the first line.", "#!/usr/bin/env node"),
        _source(
            "bracket nesting",
            "A bound on the work of the parser.",
            f"Nest at most {MAX_NESTING} brackets: give parts a name with `const`.",
            "(" * (MAX_NESTING + 1) + "1" + ")" * (MAX_NESTING + 1),
        ),
        _source(
            "scope nesting",
            "A bound on the work of the guard.",
            f"Nest at most {MAX_SCOPES} functions, loops and blocks: give parts a name of their own.",
            "for (;;) " * (MAX_SCOPES + 1) + "break;",
        ),
        _source(
            "line length",
            "A bound on what one line may hide.",
            f"Break lines at {MAX_LINE_LENGTH} characters; pass data through the context or a tool.",
            " " * (MAX_LINE_LENGTH + 1),
        ),
        _source(
            "number of regular expressions",
            "A bound on the work of the parser.",
            f"Use at most {MAX_REGEXES}; string methods do for fixed texts.",
            "/a/;" * (MAX_REGEXES + 1),
        ),
        _source(
            "length of a regular expression",
            "A bound on the work of the parser.",
            f"Use at most {MAX_REGEX_LENGTH} characters; split the work.",
            "/" + "a" * (MAX_REGEX_LENGTH + 1) + "/",
        ),
        _source(
            "expression nesting",
            "The parser would run out of stack.",
            "Give parts of it a name with `const`.",
            "!\n" * 20_000 + "1",
        ),
    ]
)
"""Limits on the script as text; see the contract, section 4.1."""


# ---------------------------------------------------------------------------------------------------------------------
# TypeScript: what becomes of it before the guard looks

Erasure = Literal["kept", "erased", "removed", "unwrapped", "inside", "refused"]
"""What becomes of a node of the TypeScript parser's.

kept        it is JavaScript, and so are its parts unless they say otherwise
erased      blanks take its place
removed     the same, with a semicolon first: it is a statement or a member of a class, and what stands before it must
            not run on into what comes behind
unwrapped   the expression in it is kept, the rest is blanks
inside      it stands in types only, and is not examined. Anywhere else it is refused
refused     it is code that JavaScript does not have
"""


@dataclass(frozen=True, slots=True)
class TypeScriptRow(Row):
    """One kind of node of the TypeScript parser's."""

    erasure: Erasure = "refused"


def _typescript(erasure: Erasure, kinds: str) -> dict[str, TypeScriptRow]:
    return {kind: TypeScriptRow(kind, "allowed", erasure=erasure) for kind in kinds.split()}


def _untyped(name: str, reason: str, instead: str, probe: str) -> TypeScriptRow:
    return TypeScriptRow(name, "refused", reason=reason, instead=instead, probe=probe)


_MAKES_CODE = "It makes code, and code that nobody sees is not added."
_NAMESPACE = _untyped(
    "namespace",
    _MAKES_CODE,
    "Put what it holds at top level, or into an object: `const Shapes = { area(x) { … } };`.",
    "namespace A { export const b = 1 }",
)
_PARAMETER_PROPERTY = _untyped(
    "parameter property",
    _MAKES_CODE,
    "Declare the field and assign it: `name; constructor(name) { this.name = name; }`.",
    "class A { constructor(private a: string) {} }",
)

TYPESCRIPT: Final[Mapping[str, TypeScriptRow]] = MappingProxyType(
    {
        # JavaScript's own
        **_typescript(
            "kept",
            "program comment html_comment hash_bang_line "
            "expression_statement variable_declaration lexical_declaration variable_declarator statement_block "
            "if_statement else_clause switch_statement switch_body switch_case switch_default for_statement "
            "for_in_statement while_statement do_statement try_statement catch_clause finally_clause with_statement "
            "break_statement continue_statement debugger_statement return_statement throw_statement empty_statement "
            "labeled_statement statement_identifier "
            "identifier property_identifier private_property_identifier shorthand_property_identifier "
            "shorthand_property_identifier_pattern type_identifier this super true false null undefined number string "
            "string_fragment escape_sequence template_string template_substitution regex regex_pattern regex_flags "
            "array object pair spread_element computed_property_name "
            "array_pattern object_pattern pair_pattern assignment_pattern object_assignment_pattern rest_pattern "
            "parenthesized_expression sequence_expression member_expression subscript_expression optional_chain "
            "call_expression new_expression arguments import await_expression yield_expression unary_expression "
            "update_expression binary_expression ternary_expression assignment_expression "
            "augmented_assignment_expression meta_property "
            "arrow_function function_expression function_declaration generator_function "
            "generator_function_declaration formal_parameters required_parameter optional_parameter "
            "class class_declaration abstract_class_declaration class_heritage extends_clause class_body "
            "class_static_block method_definition public_field_definition",
        ),
        # Types, wherever they stand beside code
        **_typescript(
            "erased",
            "type_annotation asserts_annotation type_predicate_annotation type_parameters type_arguments "
            "implements_clause accessibility_modifier override_modifier",
        ),
        **_typescript(
            "removed",
            "interface_declaration type_alias_declaration ambient_declaration function_signature index_signature "
            "method_signature abstract_method_signature",
        ),
        **_typescript(
            "unwrapped",
            "as_expression satisfies_expression non_null_expression instantiation_expression type_assertion",
        ),
        # Types within types
        **_typescript(
            "inside",
            "adding_type_annotation array_type asserts call_signature conditional_type constraint construct_signature "
            "constructor_type default_type existential_type extends_type_clause flow_maybe_type function_type "
            "generic_type index_type_query infer_type interface_body intersection_type literal_type lookup_type "
            "mapped_type_clause nested_identifier nested_type_identifier object_type omitting_type_annotation "
            "opting_type_annotation optional_type parenthesized_type predefined_type property_signature readonly_type "
            "rest_type template_literal_type template_type this_type tuple_type type_parameter type_predicate "
            "type_query union_type enum_body enum_assignment jsx_text "
            "import_clause import_specifier import_attribute namespace_import named_imports namespace_export "
            "export_clause export_specifier",
        ),
        # Code that JavaScript does not have
        "enum_declaration": _untyped(
            "enum",
            _MAKES_CODE,
            "Write an object: `const Color = { Red: 'red', Blue: 'blue' } as const;`.",
            "enum Color { Red, Blue }",
        ),
        "internal_module": _NAMESPACE,
        "module": _NAMESPACE,
        "decorator": _untyped(
            "decorator",
            "The engine does not know it.",
            "Call the function yourself: `const wrapped = decorate(original);`.",
            "@a class B {}",
        ),
        "import_alias": _untyped(
            "import",
            "A script is no module.",
            "Write `const A = B.C;`, and for a type `type A = B.C;`.",
            "import A = B.C",
        ),
        "import_require_clause": TypeScriptRow(
            "import", "refused", reason=_NOT_LOADED, instead=_NO_MODULES, probe="import a = require('a')"
        ),
        "import_statement": TypeScriptRow(
            "import", "refused", reason=_NOT_LOADED, instead=_NO_MODULES, probe="import { type A, b } from 'a'"
        ),
        "export_statement": TypeScriptRow(
            "export", "refused", reason="A script is no module.", instead=_NO_EXPORT, probe="export const a: number = 1"
        ),
        # Variants that hide inside a node that is kept: `parent.node`, or `parent.word`
        "required_parameter.accessibility_modifier": _PARAMETER_PROPERTY,
        "required_parameter.override_modifier": _PARAMETER_PROPERTY,
        "required_parameter.readonly": _PARAMETER_PROPERTY,
        "optional_parameter.accessibility_modifier": _PARAMETER_PROPERTY,
        "optional_parameter.override_modifier": _PARAMETER_PROPERTY,
        "optional_parameter.readonly": _PARAMETER_PROPERTY,
        "public_field_definition.accessor": _untyped(
            "accessor",
            "The engine does not know it.",
            "Write a plain field, or `get name() { … }` and `set name(value) { … }`.",
            "class A { accessor b: number = 1 }",
        ),
        "public_field_definition.declare": TypeScriptRow("declared field", "allowed", erasure="removed"),
        "public_field_definition.abstract": TypeScriptRow("abstract field", "allowed", erasure="removed"),
        **_typescript(
            "erased",
            "public_field_definition.readonly public_field_definition.? public_field_definition.! "
            "method_definition.readonly method_definition.? variable_declarator.! optional_parameter.? "
            "abstract_class_declaration.abstract",
        ),
        **_typescript("removed", "import_statement.type export_statement.type"),
        "ternary_expression.?": TypeScriptRow("?", "allowed", erasure="kept"),
        "unary_expression.!": TypeScriptRow("!", "allowed", erasure="kept"),
    }
)
"""Every kind of node of the TypeScript parser's (a test compares), by its name in the grammar; where it depends on what
it is part of, behind the name of that. What has no row is refused."""

WORDS_OF_JAVASCRIPT: Final = _names(
    "as async await break case catch class const continue debugger default delete do else extends finally for function "
    "get if import in instanceof let meta new of return set static switch target throw try typeof using var void while "
    "with yield ( ) [ ] { } ${ . , ; : => ... ?. @ \" ' ` = += -= *= /= %= **= <<= >>= >>>= &= |= ^= &&= ||= ??= "
    "+ - * / % ** == != === !== < > <= >= << >> >>> & | ^ ~ && || ?? ++ --"
)
"""Words and signs that are kept in a node that is kept. Others need a row of `TYPESCRIPT`, behind the name of the node
they are part of."""

TYPE_PLACES: Final[Mapping[str, Row]] = _by_name(
    [
        _untyped(
            "type in the way",
            "Without it the code around it would mean something else.",
            "Put the expression and its type in parentheses of their own: `(x as T)`.",
            "const a = 1 + 2 as number * 3",
        ),
        _untyped(
            "type arguments in the way",
            "Without them the call would be read otherwise; as JavaScript it is two comparisons.",
            "Put the call in parentheses of its own: `(await callTool<T>(…))`.",
            "const f = 1, A = [2]; return f<A\n[0]>(1)",
        ),
        _untyped(
            "type at the end of a line",
            "The next line would be read as a part of it.",
            "End the line before with a semicolon.",
            "let a = 1 as any\n[1]",
        ),
    ]
)
"""Places where a type cannot be taken out although there is a row for it."""


NEVER_MEMBERS: Final = frozenset({"then", "toJSON"}) | PROTOTYPES["Object.prototype"].allowed | frozenset(NEVER_NAMES)
"""What the engine and its own functions read of any object, and call: no tool goes by it in a namespace."""


def allowed_members(name: str, rules: Rules) -> frozenset[str] | None:
    """The members of global `name` that a script may use under `rules`; None: any, it holds data.

    Raises:
        KeyError: there is no such global.
    """
    listed = GLOBALS[name].members
    if listed is None:
        return None
    granted = (
        member
        for row in MEMBERS.values()
        for owner, member in [row.name.split(".")]
        if owner == name and row.verdict != "refused" and rules.permit(row.verdict)
    )
    return listed.union(granted)


def excess_offset(script: str) -> int | None:
    """Where `script` goes beyond `MAX_SCRIPT_BYTES`; None where it does not. However long it is, little is read of it;
    half of a surrogate pair counts as a whole character does."""
    if len(script) > MAX_SCRIPT_BYTES:
        return MAX_SCRIPT_BYTES
    if script.isascii() or len(encoded := script.encode("utf-8", "surrogatepass")) <= MAX_SCRIPT_BYTES:
        return None
    return len(encoded[:MAX_SCRIPT_BYTES].decode("utf-8", "ignore"))


def bare(name: str) -> str:
    """A tool's name without what may stand around it unseen."""
    return name.strip().strip(_BLANKS).strip()


def is_meta_tool(name: str) -> bool:
    """Whether `name` means a tool of CodeCall itself, in either spelling, any letter case, with blanks around it.

    Every name that begins with `codecall:` counts, whether such a tool exists or not.
    """
    plain = bare(name).casefold()
    return plain.startswith("codecall:") or plain in _META_SPELLINGS


def language_summary(rules: Rules) -> str:
    """What AgentScript has and has not under `rules`, for the description the model reads; at most 150 tokens."""
    offered = [
        name
        for name, row in GLOBALS.items()
        if rules.permit(row.verdict) and name not in RUNTIME_NAMES and name[0].isupper() and name not in ERROR_KINDS
    ]
    obvious = {"Infinity", "NaN", "Object", "Array", "Number", "String", "Boolean"}
    # Nothing fails where a script takes a date's hours for those of another zone
    offered = ["Date (UTC, en-US only)" if name == "Date" else name for name in offered if name not in obvious]
    missing: list[str] = []
    if not rules.allow_loops:
        missing.append("while (use a bounded for)")
    missing.append("for…in (use Object.keys)")
    if not rules.allow_regex:
        missing.append("regular expressions")
    if not rules.allow_console:
        missing.append("console")
    if not rules.allow_clock:
        missing.append("Date.now, new Date(), Math.random")
    missing.append("eval, Function, import, require, fetch, timers, process, globalThis, Proxy, Reflect")
    missing.append("the names " + ", ".join(name for name in NEVER_NAMES if not name.endswith("ter__")))
    console = ", console.log" if rules.allow_console else ""
    return (
        "AgentScript: strict modern JavaScript or TypeScript (types are erased), top-level await and return. "
        f"Built-ins: {', '.join(offered)}, Error{console}. Not available: {'; '.join(missing)}."
    )
