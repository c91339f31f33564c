# pyright: basic, reportMissingTypeStubs=false
# esprima has no types; everything that is not typed stays in this folder and leaves it as `Node` (any).
"""The grammar of the scripts: esprima, with the faults mended that a script of today would meet.

Esprima reads nearly all of ECMAScript 2025. What it misses or gets wrong is mended in subclasses, each method of which
says in a line what it is for: of its scanner (`scanner.py`), and of its parser as far as it reads tokens (`reader.py`),
members (`members.py`), and all else (here). Nothing outside this folder imports esprima.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from esprima import Error, nodes
from esprima.token import Token

from codecall.sandbox.agentscript.grammar.members import MemberParser
from codecall.sandbox.agentscript.unsafe import Unsafe, UnsafeText, token_start

Node: TypeAlias = Any
"""A node of the tree: `type` is its ESTree name, `range` its start and end in the parsed text, in characters."""


class NotParseable(Exception):  # noqa: N818 - reads as the verdict it is
    """The text is not JavaScript. `offset` is where the parser stumbled, None when it cannot say."""

    def __init__(self, message: str, offset: int | None) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset


class _ModernParser(MemberParser):
    """Esprima's parser with the forms it misses, and with a tree where the policy has a better word than an error."""

    def parseAwaitExpression(self):  # noqa: N802
        # Where `await` is a name, what is read as a regular expression here divides: nobody may write one behind it
        node = self.createNode()
        self.nextToken()
        if self.match("/", "/="):
            what = "a regular expression right after await"
            self.scanner.found.append(Unsafe("regular expression after await", self.lookahead.start, what))
        return self.finalize(node, nodes.AwaitExpression(self.parseUnaryExpression()))

    def parseWithStatement(self):  # noqa: N802
        # `with` is refused by its row, with a hint, rather than as a syntax error of strict mode
        self.context.strict = False
        try:
            return super().parseWithStatement()
        finally:
            self.context.strict = True

    def parseStatementListItem(self):  # noqa: N802
        # `import` and `export` too
        word = self.lookahead.value if self.lookahead.type is Token.Keyword else None
        if word == "export" or (word == "import" and not self.matchImportCall() and not self.matchImportMeta()):
            inside = self.context.inFunctionBody
            self.context.inFunctionBody = False
            try:
                return self.parseImportDeclaration() if word == "import" else self.parseExportDeclaration()
            finally:
                self.context.inFunctionBody = inside
        return super().parseStatementListItem()

    def parseExponentiationExpression(self):  # noqa: N802
        # (-x) ** 2: only a bare unary operator may not stand before **
        start = self.lookahead
        expression = self.inheritCoverGrammar(self.parseUnaryExpression)
        if not self.match("**") or (expression.type == "UnaryExpression" and start.value != "("):
            return expression
        self.nextToken()
        self.context.isAssignmentTarget = False
        self.context.isBindingElement = False
        power = self.isolateCoverGrammar(self.parseExponentiationExpression)
        return self.finalize(self.startNode(start), nodes.BinaryExpression("**", expression, power))

    def parseConditionalExpression(self):  # noqa: N802
        # In `async … x => 1` esprima forgets what stands between: there may be nothing
        start = self.lookahead
        expression = super().parseConditionalExpression()
        if start.value == "async" and start.type is Token.Identifier and expression.type != "Identifier":
            following = self.lookahead
            if following.type is Token.Identifier and following.lineNumber == start.lineNumber:
                self.throwUnexpectedToken(following)
        return expression

    def parseAsyncArguments(self):  # noqa: N802
        begin = self.lookahead.start
        arguments = super().parseAsyncArguments()
        self.async_arguments = begin
        return arguments

    def parseLeftHandSideExpressionAllowCall(self):  # noqa: N802
        # And in `async … (x) => 1`
        start = self.lookahead
        expression = super().parseLeftHandSideExpressionAllowCall()
        if expression.type == "ArrowParameterPlaceHolder" and expression.isAsync:
            scanner = self.scanner
            if token_start(scanner.source, start.end, scanner.length) != self.async_arguments:
                self.throwUnexpectedToken(self.lookahead)
        return expression

    def binaryPrecedence(self, token):  # noqa: N802
        # `in` and `instanceof` rank with <, not with ==
        precedence = super().binaryPrecedence(token)
        return self.operatorPrecedence["<"] if precedence and token.type is Token.Keyword else precedence

    def parseBindingList(self, kind, options):  # noqa: N802
        # The head of a `for` has no semicolons but those one can see
        declarations = super().parseBindingList(kind, options)
        if options.inFor and not (self.match(";") or self.matchKeyword("in") or self.matchContextualKeyword("of")):
            self.throwUnexpectedToken(self.lookahead)
        return declarations


def tree(text: str, begin: int) -> tuple[Node, list[int]]:
    """The `Program` node of `text` read in strict mode, and the offsets of names in it that are written with escapes.

    The script begins at `begin` and ends before the last line, which closes what was opened before `begin`.

    Raises:
        NotParseable: `text` is not JavaScript, or the script closes what it did not open.
        UnsafeText: the script has characters or comments that deceive, or is nested too deeply.
        RecursionError: its expressions are nested deeper than the interpreter's stack allows.
    """
    parser: Any = None
    failure: NotParseable | None = None
    program: Node = None
    try:
        parser = _ModernParser(text, begin)
        program = parser.parseScript()
    except Error as error:
        message = str(error.message)
        index = error.index
        failure = NotParseable(message.partition(": ")[2] or message, index if isinstance(index, int) else None)
    except (RecursionError, UnsafeText):
        raise
    except Exception:
        failure = NotParseable("Unexpected input", None)
    if parser is None:
        raise failure or NotParseable("Unexpected input", None)
    if parser.scanner.found:
        raise UnsafeText(parser.scanner.found)
    closed: int | None = parser.closed
    if closed is not None and (failure is None or failure.offset is None or closed <= failure.offset):
        raise NotParseable(f"Unexpected token {text[closed]}", closed)
    if failure is not None:
        raise failure
    return program, parser.scanner.escapes
