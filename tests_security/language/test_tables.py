"""Every form the parser can emit and every name the engine has is in the policy's tables, with a verdict.

What there is, is asked of the parser's own source and of the engine; nothing here is a list made by hand but what
the fields of nodes are for. A newer parser or engine that brings something fails here until it has a row.
"""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from typing import Any, cast

import pytest
import quickjs  # pyright: ignore[reportMissingTypeStubs]
from esprima import nodes, parser  # pyright: ignore[reportMissingTypeStubs]
from esprima.syntax import Syntax  # pyright: ignore[reportMissingTypeStubs]

from codecall.sandbox.agentscript.checked import InvalidScriptError
from codecall.sandbox.agentscript.parser import esprima as grammar
from codecall.sandbox.agentscript.policy import (
    GLOBALS,
    MEMBERS,
    METHOD_KINDS,
    NEVER_NAMES,
    NODES,
    OPERATORS,
    PROPERTY_KINDS,
    RUNTIME_NAMES,
    VARIABLE_KINDS,
    VARIANTS,
    Rules,
    allowed_members,
)
from codecall.sandbox.agentscript.validate import validate_javascript
from codecall.sandbox.agentscript.validator.nodes import CHILDREN, HANDLERS

EVERYTHING = Rules(allow_loops=True, allow_regex=True, allow_console=True, allow_clock=True)

# ---------------------------------------------------------------------------------------------------------------------
# The parser

NODE_CLASSES: dict[str, ast.ClassDef] = {
    item.name: item for item in ast.parse(inspect.getsource(nodes)).body if isinstance(item, ast.ClassDef)
}


def assigned_in(node: ast.AST) -> dict[str, ast.expr]:
    """What a node's class puts into its fields."""
    return {
        target.attr: item.value
        for item in ast.walk(node)
        if isinstance(item, ast.Assign)
        for target in item.targets
        if isinstance(target, ast.Attribute)
    }


def emitted_types() -> dict[str, set[str]]:
    """By type of node: the fields its classes have. Read from the source of the classes."""
    found: dict[str, set[str]] = {}
    for definition in NODE_CLASSES.values():
        fields = assigned_in(definition)
        if "type" not in fields:
            continue
        names = {item.attr for item in ast.walk(fields["type"]) if isinstance(item, ast.Attribute)}
        for name in names:
            found.setdefault(getattr(Syntax, name), set()).update(fields.keys() - {"type"})
    return found


EMITTED = emitted_types()


def test_the_classes_of_nodes_are_read_right():
    assert len(EMITTED) > 60
    assert EMITTED["MemberExpression"] == {"computed", "object", "property", "optional"}
    assert {"LogicalExpression", "BinaryExpression"} <= set(EMITTED)


def test_every_node_type_has_a_row():
    known = {name for name in vars(Syntax) if not name.startswith("_")}
    assert set(EMITTED) <= set(NODES)
    assert set(NODES) == known | set(EMITTED)


def test_every_class_of_node_that_is_made_is_known():
    made: set[str] = set()
    for module in (parser, grammar):
        tree = ast.parse(inspect.getsource(module))
        made |= {
            item.func.attr
            for item in ast.walk(tree)
            if isinstance(item, ast.Call)
            and isinstance(item.func, ast.Attribute)
            and isinstance(item.func.value, ast.Name)
            and item.func.value.id in {"Node", "nodes"}
        }
    types = {name for name, item in NODE_CLASSES.items() if "type" in assigned_in(item)}
    assert len(made) > 60
    assert made <= types


# What the fields of nodes are for. Where a field makes a variant of its node, the second says what judges it.
CHILD, NOTE = "a node, a list of nodes or none: walked", "says how something is written; nothing depends on it"
_CHILDREN = """
alternate argument arguments block body callee cases consequent declarations discriminant elements expressions
finalizer handler id init key label left object param params properties property quasi quasis right superClass tag
test update
"""
_OF_MODULES = "source exported declaration specifiers local imported attributes assertions"
FIELDS: dict[str, str] = {
    **dict.fromkeys(_CHILDREN.split(), CHILD),
    **dict.fromkeys(["raw", "tail", "directive", "each"], NOTE),
    "cooked": "the text of a template's part: names.text_of",
    # `expression` is a child of statements and chains, and a flag of functions: both read
    "expression": CHILD,
    # Of literals the value itself, of properties a child; of template elements the texts
    "value": CHILD,
    "name": "names.judge, walk.label, walk.key",
    "operator": "walk.operator, by OPERATORS",
    "prefix": NOTE,
    "computed": "walk.key, _member: a computed name is folded, else looked at as an expression",
    "optional": "`?.` names a member as `.` does",
    "kind": "VARIABLE_KINDS, PROPERTY_KINDS, METHOD_KINDS",
    "method": "a method is a function: walked as one",
    "shorthand": "the value is walked, which is the name",
    "static": "static members are named as others are",
    "isAsync": "`await` is a node of its own",
    "generator": "`yield` is a node of its own",
    "delegate": "`yield*` is a call by the engine, counted in the iterator's own functions",
    "regex": "VARIANTS['regular expression']",
    "meta": "MetaProperty is refused",
    # Of types that are refused
    **dict.fromkeys(
        ["source", "exported", "declaration", "specifiers", "local", "imported", "attributes", "assertions"],
        "import and export: refused",
    ),
    "sourceType": NOTE,
}


def test_every_field_of_an_allowed_node_is_accounted_for():
    fields = set().union(*EMITTED.values())
    assert fields <= set(FIELDS), "new fields: each may be a variant that needs a row"
    assert set(FIELDS) <= fields | {"regex"}, "fields of the past"


def test_every_allowed_node_type_is_walked_with_all_its_children():
    # By its handler, or by a list of children that names every field that can hold a node
    handlers = HANDLERS
    children = CHILDREN
    looked_at_by_others = {
        *(
            "Program",
            "TemplateElement",
            "ArrayPattern",
            "ObjectPattern",
            "AssignmentPattern",
            "RestElement",
            "Property",
        ),
        *("ClassBody", "MethodDefinition", "FieldDefinition", "StaticBlock", "VariableDeclarator"),
    }
    allowed = {name for name, row in NODES.items() if row.verdict != "refused"}
    assert allowed == (handlers.keys() | children.keys() | looked_at_by_others) - {"WithStatement", "ForInStatement"}
    for name, walked in children.items():
        own = {field for field in EMITTED[name] if FIELDS[field] is CHILD and field != "label"}
        # A template's own texts are no names
        assert own - {"quasis"} == set(walked), name


def constants(function: Any) -> set[str]:
    """The texts in a function's source."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return {item.value for item in ast.walk(tree) if isinstance(item, ast.Constant) and isinstance(item.value, str)}


def test_every_operator_of_the_parser_is_listed():
    ready = cast("Any", parser).Parser("", options={})
    unary = constants(cast("Any", parser).Parser.parseUnaryExpression) | constants(
        cast("Any", parser).Parser.matchKeyword
    )
    signs = {text for text in unary if text in {"+", "-", "~", "!", "delete", "void", "typeof"}}
    assert len(signs) == 7
    assigning = {text for text in constants(cast("Any", parser).Parser.matchAssign) if text.endswith("=")}
    assert len(assigning) >= 16
    assert set(ready.operatorPrecedence) | signs | assigning | {"++", "--", "**"} == OPERATORS


KINDS = {"init", "get", "set", "method", "constructor", "static", "const", "let", "var", "using", ""}


def test_every_kind_of_variable_property_and_method_is_listed():
    said: set[str] = set()
    for module in (parser, grammar):
        for item in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(item, ast.Assign) and any(getattr(target, "id", "") == "kind" for target in item.targets):
                said |= {part.value for part in ast.walk(item.value) if isinstance(part, ast.Constant)}
    said = {text for text in said if isinstance(text, str)}
    assert said <= KINDS
    # `static` is a step on the way, and the word before a variable is checked by what follows
    assert said - {"static", ""} <= PROPERTY_KINDS | METHOD_KINDS
    assert VARIABLE_KINDS < KINDS


VARIANT_PROBES = {
    # What hides inside an allowed node: accepted or refused, each on purpose
    "for await (const x of []) {}": True,
    "async function* f() { yield* [] }": True,
    "({ get a() { return 1 }, set a(v) {} })": True,
    "String.raw`a${1}`": True,
    "x => x`a`": True,
    "function f() { return new.target }": False,
    "class A { constructor() { return new.target } }": False,
    "import.meta": False,
    "import('a')": False,
    "class A { static { this.x = 1 } }": True,
    "class A { #x = 1; has(o) { return #x in o } }": True,
    "class A extends (class {}) {}": False,
    "class A extends null {}": False,
    "class A extends Map {}": False,
    "class A {} class B extends A { m() { return super.m() } }": True,
    "({ __proto__: null })": False,
    "({ '__proto__': null })": False,
    "({ ['__proto__']: null })": False,
    "({ m() { return super.m } })": True,
    "a: for (;;) { break a }": True,
    "a: { break a }": True,
    "x => x?.[1]?.(2)": True,
    "(x => x)?.`a`": False,
    "[, 1, , 2]": True,
    "function f() { return arguments.length }": True,
    "arguments": False,
    "() => arguments": False,
    "() => this": False,
    "using a = null": False,
    "await using a = null": False,
    "delete {}.x": True,
    "void 0": True,
    "1n ** 2n": True,
    "let a = 1; a ||= 2; a &&= 3; a ??= 4": True,
    "/a/v": True,
    "try { throw 1 } catch {}": True,
    "if (1) function f() {}": False,
    "debugger": False,
    "let async = 1; async": True,
    "undefined = 1": False,
    "({ undefined } = {})": False,
    "[Math] = [1]": False,
    "for (Math of []) {}": False,
    "Math.x = 1": False,
    "({ a: Math.x } = {})": False,
    "Math[`floor`]": True,
    "const { floor } = Math": True,
    "const { ['floor']: f, ...rest } = Math": True,
    "const { nope } = Math": False,
}


@pytest.mark.parametrize(("script", "accepted"), VARIANT_PROBES.items(), ids=VARIANT_PROBES.keys())
def test_every_variant_has_a_verdict(script: str, accepted: bool):
    try:
        validate_javascript(script, EVERYTHING)
    except InvalidScriptError:
        assert not accepted
    else:
        assert accepted


# ---------------------------------------------------------------------------------------------------------------------
# The engine


def ask(question: str) -> Any:
    """What a bare engine answers to a question that gives JSON."""
    return json.loads(cast("Any", quickjs).Context().eval(f"JSON.stringify({question})"))


def own_names(expression: str) -> list[str]:
    return ask(f"Reflect.ownKeys(Object({expression})).filter(key => typeof key === 'string')")


ENGINE_GLOBALS: list[str] = own_names("globalThis")


@pytest.mark.parametrize("name", ENGINE_GLOBALS)
def test_every_global_of_the_engine_has_a_row(name: str):
    assert name in GLOBALS
    row = GLOBALS[name]
    if row.verdict == "refused":
        with pytest.raises(InvalidScriptError):
            validate_javascript(name, EVERYTHING)
        assert row.reason
        assert row.instead


def test_the_global_object_has_no_other_keys():
    # A key that is no text cannot be named by a script at all: the global object is out of reach
    assert set(ask("Reflect.ownKeys(globalThis).filter(key => typeof key === 'symbol').map(String)")) == {
        "Symbol(Symbol.toStringTag)"
    }
    assert GLOBALS["globalThis"].verdict == "refused"
    assert VARIANTS["this"].verdict == "refused"


ALLOWED = [name for name, row in GLOBALS.items() if row.verdict != "refused" and row.members is not None]
OF_EVERY_FUNCTION = {"length", "name"}
"""What functions say of themselves. No script may name it on a built-in: the member is in no list."""


@pytest.mark.parametrize("name", [name for name in ALLOWED if name in ENGINE_GLOBALS])
def test_every_member_of_an_allowed_global_has_a_verdict(name: str):
    allowed = allowed_members(name, EVERYTHING)
    assert allowed is not None
    for member in own_names(name):
        verdicts = [
            member in allowed,
            f"{name}.{member}" in MEMBERS and MEMBERS[f"{name}.{member}"].verdict == "refused",
            member in NEVER_NAMES,
            member in OF_EVERY_FUNCTION,
        ]
        assert sum(verdicts) == 1, f"{name}.{member} has {sum(verdicts)} verdicts"
        try:
            validate_javascript(f"{name}.{member}", EVERYTHING)
        except InvalidScriptError:
            assert member not in allowed
        else:
            assert member in allowed


@pytest.mark.parametrize("name", ALLOWED)
def test_every_listed_member_is_there(name: str):
    allowed = allowed_members(name, EVERYTHING) or frozenset()
    if name in RUNTIME_NAMES or name not in ENGINE_GLOBALS:
        assert name in RUNTIME_NAMES | {"structuredClone"}, "a global that neither the engine nor the runtime has"
        return
    assert set(allowed) <= set(own_names(name)), "members of the past"


def test_members_by_symbol_cannot_be_named():
    for name in ALLOWED:
        if name in ENGINE_GLOBALS and GLOBALS[name].members is not None:
            with pytest.raises(InvalidScriptError):
                validate_javascript(f"{name}[Symbol.iterator]", EVERYTHING)
