# pyright: basic, reportMissingTypeStubs=false
"""The parser for scripts: esprima, with corrections for what a script of today would meet.

Esprima reads nearly all of ECMAScript 2025. What it misses or gets wrong is corrected in subclasses, each method of
which says in a line what it is for: scanner and token reader (`tokens.py`), members of objects and classes
(`_MemberParser`), and all else (`ModernParser`). `QuickParser` reads the same, faster. Nothing outside this folder
imports esprima.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeAlias

from esprima import Error, nodes
from esprima.parser import Marker
from esprima.scanner import RawToken
from esprima.token import Token

from codecall.sandbox.agentscript.parser.tokens import TokenReader, UnsafeSpot, UnsafeTextError, token_start

Node: TypeAlias = Any
"""A node of the tree: `type` is its ESTree name, `range` its start and end in the parsed text, in characters."""


class NotParseableError(Exception):
    """The text is not JavaScript. `offset` is where the parser stumbled, None when it cannot say."""

    def __init__(self, message: str, offset: int | None) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset


def parse_program(kind: type[ModernParser], text: str, begin: int) -> tuple[Node, list[int]]:
    """The `Program` node of `text` parsed in strict mode, and the offsets of names in it that are written with escapes.

    Args:
        kind: the parser.
        text: the script and what stands around it.
        begin: where the script begins; it ends before the last line, which closes what was opened before `begin`.

    Raises:
        NotParseableError: `text` is not JavaScript, or the script closes what it did not open.
        UnsafeTextError: the script has characters or comments that deceive, or is nested too deeply.
        RecursionError: its expressions are nested deeper than the interpreter's stack allows.
    """
    parser: Any = None
    failure: NotParseableError | None = None
    program: Node = None
    try:
        parser = kind(text, begin)
        program = parser.parseScript()
    except Error as error:
        message = str(error.message)
        index = error.index
        failure = NotParseableError(message.partition(": ")[2] or message, index if isinstance(index, int) else None)
    except (RecursionError, UnsafeTextError):
        raise
    except Exception:
        failure = NotParseableError("Unexpected input", None)
    if parser is None:
        raise failure or NotParseableError("Unexpected input", None)
    if parser.scanner.spots:
        raise UnsafeTextError(parser.scanner.spots)
    closed: int | None = parser.closed
    if closed is not None and (failure is None or failure.offset is None or closed <= failure.offset):
        raise NotParseableError(f"Unexpected token {text[closed]}", closed)
    if failure is not None:
        raise failure
    return program, parser.scanner.escapes


class _MemberParser(TokenReader):
    """The parser of members of objects and classes."""

    def parseObjectProperty(self, hasProto):  # noqa: N802, N803
        """Also `{ async *name() { … } }`, `{ async }` and `{ async = 1 }`."""
        following = self._punctuator_behind_async()
        if following in ("}", "="):
            return self._property_named_async()
        if following != "*":
            return super().parseObjectProperty(hasProto)
        node = self.createNode()
        self.nextToken()
        self.nextToken()
        computed = self.match("[")
        key = self.parseObjectPropertyKey()
        value = self._async_generator_method()
        return self.finalize(node, nodes.Property("init", key, computed, value, method=True, shorthand=False))

    def _punctuator_behind_async(self):
        token = self.lookahead
        if token.type is not Token.Identifier or token.value != "async":
            return None
        state = self.scanner.saveState()
        following = self._lex_ahead()
        self.scanner.restoreState(state)
        # A generator has its star on the same line
        split = following.value == "*" and following.lineNumber != token.lineNumber
        return None if split or following.type is not Token.Punctuator else following.value

    def _property_named_async(self):
        node = self.createNode()
        self.nextToken()
        name = self.finalize(node, nodes.Identifier("async"))
        value = name
        if self.match("="):
            self.context.firstCoverInitializedNameError = self.lookahead
            self.nextToken()
            default = self.isolateCoverGrammar(self.parseAssignmentExpression)
            value = self.finalize(node, nodes.AssignmentPattern(name, default))
        return self.finalize(node, nodes.Property("init", name, False, value, method=False, shorthand=True))

    def parseClassElement(self, hasConstructor):  # noqa: N802, N803
        """A class inside an async function: its fields and blocks await nothing, and there `await /` divides."""
        element = self._not_async(lambda: self._class_element(hasConstructor))
        if element.type == "FieldDefinition" and not self.match(";", "}") and not self.hasLineTerminator:
            self.throwUnexpectedToken(self.lookahead)  # esprima takes `a = b as c` for three fields
        return element

    def _class_element(self, hasConstructor):  # noqa: N803
        # async *name() { … } and async #name() { … }, static or not; fields named by a keyword
        words = self._words_ahead()
        if not words:
            named = self._keyword_field()
            return self._field(named) if named else super().parseClassElement(hasConstructor)
        node = self.createNode()
        for _ in words:
            self.nextToken()
        generator = self.match("*")
        if generator:
            self.nextToken()
        computed = self.match("[")
        key = self.parseObjectPropertyKey()
        value = self._async_generator_method() if generator else self.parsePropertyMethodAsyncFunction()
        return self.finalize(node, nodes.MethodDefinition(key, computed, value, "method", len(words) == 2))

    def _words_ahead(self):
        """`async` or `static async`, when a star or a private name follows on the line of `async`; else nothing."""
        words = []
        token = self.lookahead
        state = self.scanner.saveState()
        for word in ("static", "async"):
            if token.value == word and token.type in (Token.Identifier, Token.Keyword):
                words.append(word)
                line = token.lineNumber
                token = self._lex_ahead()
        self.scanner.restoreState(state)
        # With a line between, `async` is a field, and what follows it a method of its own
        if not words or words[-1] != "async" or token.lineNumber != line:
            return []
        star = token.type is Token.Punctuator and token.value == "*"
        return words if star or token.type is Token.PrivateIdentifier else []

    def _keyword_field(self):
        """The number of words before the `=` or the end of a field that is named by a keyword: 2 when it is static."""
        if self.lookahead.type is not Token.Keyword:
            return 0
        state = self.scanner.saveState()
        first, second = self._lex_ahead(), None
        reserved = first.type is Token.Keyword or self.scanner.isStrictModeReservedWord(first.value)
        if self.lookahead.value == "static" and reserved:
            second = self._lex_ahead()
        self.scanner.restoreState(state)
        last = second or first
        ends = last.type is Token.Punctuator and last.value in ("=", ";", "}")
        return (2 if second else 1) if ends else 0

    def _field(self, words):
        node = self.createNode()
        if words == 2:
            self.nextToken()
        key = self.parseObjectPropertyKey()
        value = None
        if self.match("="):
            self.nextToken()
            value = self.parseAssignmentExpression()
        return self.finalize(
            node, nodes.FieldDefinition(key, computed=False, value=value, kind="init", isStatic=words == 2)
        )

    def _async_generator_method(self):
        node = self.createNode()
        outer_yield, outer_await = self.context.allowYield, self.context.allowAwait
        self.context.allowYield, self.context.allowAwait = False, True
        params = self.parseFormalParameters()
        body = self.parsePropertyMethod(params)
        self.context.allowYield, self.context.allowAwait = outer_yield, outer_await
        return self.finalize(node, nodes.AsyncFunctionExpression(None, params.params, body, generator=True))

    def parsePropertyMethodFunction(self):  # noqa: N802
        """A method awaits nothing."""
        return self._not_async(super().parsePropertyMethodFunction)

    def parseGeneratorMethod(self):  # noqa: N802
        """A generator awaits nothing."""
        return self._not_async(super().parseGeneratorMethod)

    def parseGetterMethod(self):  # noqa: N802
        """A getter awaits nothing."""
        return self._not_async(super().parseGetterMethod)

    def parseSetterMethod(self):  # noqa: N802
        """A setter awaits nothing."""
        return self._not_async(super().parseSetterMethod)

    def _not_async(self, parse):
        # Esprima lets a method that is not async await whatever its surroundings await
        outer = self.context.allowAwait
        self.context.allowAwait = False
        try:
            return parse()
        finally:
            self.context.allowAwait = outer


class ModernParser(_MemberParser):
    """Esprima's parser with the forms it misses, and with a tree where the policy has a better word than an error."""

    def parseAwaitExpression(self):  # noqa: N802
        """Where `await` is a name, what is read as a regular expression here divides: no script may write one there."""
        node = self.createNode()
        self.nextToken()
        if self.match("/", "/="):
            what = "a regular expression right after await"
            self.scanner.spots.append(UnsafeSpot("regular expression after await", self.lookahead.start, what))
        return self.finalize(node, nodes.AwaitExpression(self.parseUnaryExpression()))

    def parseWithStatement(self):  # noqa: N802
        """`with` is refused by its row, with a hint, rather than as a syntax error of strict mode."""
        self.context.strict = False
        try:
            return super().parseWithStatement()
        finally:
            self.context.strict = True

    def parseStatementListItem(self):  # noqa: N802
        """`import` and `export` too."""
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
        """(-x) ** 2: only a bare unary operator may not stand before **."""
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
        """In `async … x => 1` esprima forgets what stands between: there may be nothing."""
        start = self.lookahead
        expression = super().parseConditionalExpression()
        if start.value == "async" and start.type is Token.Identifier and expression.type != "Identifier":
            following = self.lookahead
            if following.type is Token.Identifier and following.lineNumber == start.lineNumber:
                self.throwUnexpectedToken(following)
        return expression

    def parseAsyncArguments(self):  # noqa: N802
        """Notes where they begin."""
        begin = self.lookahead.start
        arguments = super().parseAsyncArguments()
        self.async_arguments = begin
        return arguments

    def parseLeftHandSideExpressionAllowCall(self):  # noqa: N802
        """And in `async … (x) => 1`."""
        start = self.lookahead
        expression = super().parseLeftHandSideExpressionAllowCall()
        if expression.type == "ArrowParameterPlaceHolder" and expression.isAsync:
            scanner = self.scanner
            if token_start(scanner.source, start.end, scanner.length) != self.async_arguments:
                self.throwUnexpectedToken(self.lookahead)
        return expression

    def binaryPrecedence(self, token):  # noqa: N802
        """`in` and `instanceof` rank with <, not with ==."""
        precedence = super().binaryPrecedence(token)
        return self.operatorPrecedence["<"] if precedence and token.type is Token.Keyword else precedence

    def parseBindingList(self, kind, options):  # noqa: N802
        """The head of a `for` has no semicolons but those one can see."""
        declarations = super().parseBindingList(kind, options)
        if options.inFor and not (self.match(";") or self.matchKeyword("in") or self.matchContextualKeyword("of")):
            self.throwUnexpectedToken(self.lookahead)
        return declarations


_TOKEN: Final = re.compile(
    r"""(?P<blank>[\t ]*+(?:\n[\t\n ]*+)?)
    (?:
        (?P<word>[A-Za-z_$][A-Za-z0-9_$]*+)(?=[\x00-\x5b\x5d-\x7f])
      | (?P<mark>[()\[\],;:{]|=>|===|!==|=(?![=>])|\.(?=[A-Za-z_$]))
      | (?P<text>'[^'\\\n\r\u2028\u2029]*+'|"[^"\\\n\r\u2028\u2029]*+")
      | (?P<number>(?:0|[1-9][0-9]{0,14}+)(?=[\t\n ,;)\]}:]))
    )""",
    re.VERBOSE,
)
"""Blanks, and a token that no character behind it can change: nothing but ASCII, no escape, no comment. A `}` may end a
part of a template, a `/` may begin a regular expression, and `<!--` is refused: these are read the long way."""

_BLANK, _WORD, _MARK, _TEXT = (_TOKEN.groupindex[name] for name in ("blank", "word", "mark", "text"))
_BRACKETS: Final = frozenset("()[]{")

_OPERAND_ENDS: Final = re.compile(
    r"[\t ]*+(?:[,;)\]}:%&|^<>]|=(?!>)|!=|\+(?!\+)|-(?!-)|\*(?!\*)|\?(?!\.))|[\t ]*+\n[\t\n ]*+[,;)\]}]"
)
"""What stands behind an operand that is one token: no member, no call, no template, no `++`, no `**`, no `=>`."""

_EXPRESSION_ENDS: Final = re.compile(r"[\t\n ]*+[,;)\]}]")
"""What stands behind an expression that is one token."""

_BY_WORD: Final = {"null": Token.NullLiteral, "true": Token.BooleanLiteral, "false": Token.BooleanLiteral}
_LITERALS: Final = frozenset({Token.NumericLiteral, Token.StringLiteral, Token.BooleanLiteral, Token.NullLiteral})
_NOT_PLAIN: Final = frozenset({"async", "await", "yield", "let", "static", "implements", "interface", "package",
                               "private", "protected", "public"})  # fmt: skip
"""Names that may be more than a name."""


class _QuickToken(RawToken):
    """A token of a shortcut. Fields that such tokens never have are those of the class."""

    pattern = flags = regex = cooked = head = tail = raw = None
    octal: bool | None = None

    def __init__(self, kind, value, scanner, start):
        self.type = kind
        self.value = value
        self.lineNumber = scanner.lineNumber
        self.lineStart = scanner.lineStart
        self.start = start
        self.end = scanner.index


class QuickParser(ModernParser):
    """The parser of scripts: with shortcuts through esprima for what most of every script is made of.

    Each comes to the same tokens and the same tree, in two thirds of the time. It is taken only where that is certain
    from the next characters; else the long way is gone. A test compares both on all corpora and on random changes of
    them (`tests/sandbox/agentscript/parser/test_shortcuts.py`).
    """

    def nextToken(self):  # noqa: N802
        """Read and check the next token."""
        scanner = self.scanner
        source = scanner.source
        match = _TOKEN.match(source, scanner.index)
        if match is None or scanner.suspicious:
            return super().nextToken()
        token, last, start = self.lookahead, self.lastMarker, self.startMarker
        line = last.line = scanner.lineNumber
        last.index = scanner.index
        last.column = last.index - scanner.lineStart
        kind, begin, end = match.lastindex, match.end(_BLANK), match.end()
        self.hasLineTerminator = False
        if begin != last.index and source.find("\n", last.index, begin) >= 0:
            self.hasLineTerminator = True
            line = scanner.lineNumber = line + source.count("\n", last.index, begin)
            scanner.lineStart = source.rindex("\n", last.index, begin) + 1
        start.index, start.line, start.column = begin, line, begin - scanner.lineStart
        scanner.index = end
        value: Any = source[begin:end]
        following = self.lookahead = _QuickToken(Token.Punctuator, value, scanner, begin)
        if kind == _MARK:
            if value in _BRACKETS:
                self._count_bracket(following)
        elif kind == _WORD:
            following.type = self._kind_of_word(value)
        elif kind == _TEXT:
            following.type, following.value, following.octal = Token.StringLiteral, value[1:-1], False
        else:
            following.type, following.value = Token.NumericLiteral, int(value)
        return token

    def _kind_of_word(self, word):
        scanner = self.scanner
        if len(word) == 1:
            return Token.Identifier
        if scanner.isKeyword(word) or (scanner.isStrictModeReservedWord(word) and self.context.strict):
            return Token.Keyword
        return _BY_WORD.get(word, Token.Identifier)

    def _count_bracket(self, token):
        if token.value in (")", "]"):
            self._close(token)
            return
        if token.value == "{":
            self.scanner.curlyStack.append("{")
        self._open(token)

    def finalize(self, marker, node):
        """Of the places that esprima can note, the range is all that is asked for."""
        node.range = [marker.index, self.lastMarker.index]
        return node

    def createNode(self):  # noqa: N802
        """A copy of three values, which naming them makes twice as slow."""
        start = self.startMarker
        return Marker(start.index, start.line, start.column)

    def inheritCoverGrammar(self, parseFunction):  # noqa: N802, N803
        """It begins with three values, and joins those it finds at the end with those of before: where these are the
        same three, that changes nothing.
        """
        context = self.context
        if (
            context.isBindingElement is True
            and context.isAssignmentTarget is True
            and context.firstCoverInitializedNameError is None
        ):
            return parseFunction()
        return super().inheritCoverGrammar(parseFunction)

    def parseAssignmentExpression(self):  # noqa: N802
        """One token, and the end of the expression: `f(a, 1)`, `{ id: 'x' }`, `return total;`."""
        if self._is_plain() and _EXPRESSION_ENDS.match(self.scanner.source, self.scanner.index):
            return self.inheritCoverGrammar(self.parsePrimaryExpression)
        return super().parseAssignmentExpression()

    def parseExponentiationExpression(self):  # noqa: N802
        """One token, and an operator or an end: `a < 1`, `total += price`."""
        if self._is_plain() and _OPERAND_ENDS.match(self.scanner.source, self.scanner.index):
            return self.inheritCoverGrammar(self.parsePrimaryExpression)
        return super().parseExponentiationExpression()

    def _is_plain(self) -> bool:
        """Whether the next token is a whole operand, unless something follows that makes it more."""
        token = self.lookahead
        return token.value not in _NOT_PLAIN if token.type is Token.Identifier else token.type in _LITERALS

    def parseUnaryExpression(self):  # noqa: N802
        """Most begin with what is no operator."""
        token = self.lookahead
        kind = token.type
        if kind is Token.Identifier:
            plain = token.value != "await"
        elif kind is Token.Punctuator:
            plain = token.value in ("(", "[", "{")
        else:
            plain = kind is not Token.Keyword
        return self.parseUpdateExpression() if plain else super().parseUnaryExpression()
