# pyright: basic, reportMissingTypeStubs=false
"""The members of objects and classes that esprima misses, and what `await` means inside them."""

from __future__ import annotations

from esprima import nodes
from esprima.token import Token

from codecall.sandbox.agentscript.grammar.reader import TokenReader


class MemberParser(TokenReader):
    """The parser as far as it reads members."""

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
