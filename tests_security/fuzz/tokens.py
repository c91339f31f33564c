"""The words that generated programs are made of, as data: literals in their odd forms, gaps, and hostile pieces."""

from __future__ import annotations

from typing import Final

NUMBERS: Final = (
    *("0", "1", "2", "3", "7", "10", "-1", "1.5", ".5", "5.", "1e3", "1E-2", "0x1F", "0Xab", "0b101", "0B11", "0o17"),
    *("1_000", "0xF_F", "1_0.0_1", "1e1_0", "2e-7", "9007199254740993.0", "1e400", "0.1", "(0.1 + 0.2)", "4294967296"),
    *("0b0", "123456789012345678901234567890.0", "5e-324", "0.000001", "1e21", "0e0", "0.0"),
)
BIGINTS: Final = ("1n", "0n", "10n", "0xFFn", "0b11n", "0o7n", "1_000n", "123456789012345678901234567890n")
STRINGS: Final = (
    *("'a'", '"b"', "''", "'abc'", "'x y'", "'it\\'s'", '"q\\"q"', "'\\n'", "'\\t\\\\'", "'\\x41'", "'\\u0042'"),
    *("'\\u{1F600}'", "'\\u{63}\\u006f'", "'é😀'", "'\\0'", "'\\\nnext'", "'// no'", "'/* no */'", "'${no}'", "'`'"),
    *("'\\u2028'", "'<!--'", "'-->'", "'[{('", '")}]"', "'a,b;c'", "'\\\r\nz'", "'\\q'", "'\\ud83d\\ude00'", "'1'"),
)
TEMPLATE_TEXTS: Final = (
    *(
        "",
        "a",
        " ",
        "\n",
        "b c",
        "\\n",
        "\\`",
        "\\${x}",
        "$",
        "{",
        "}",
        "$$",
        "/",
        "//",
        "/*",
        "'",
        '"',
        "é",
        "\\u{41}",
    ),
    *("\r\n", "\\\n", "<!--", "{}", "]"),
)
REGEXES: Final = (
    *(
        "/a/",
        "/b+/g",
        "/[a-c]/i",
        "/\\d+/",
        "/(?:x|y)?/",
        "/(?<n>a)/",
        "/[/]/",
        "/\\//",
        "/^$/m",
        "/./su",
        "/\\u{61}/u",
    ),
    *("/a{1,2}/", "/[`'\"]/", "/(?=a)/", "/(?<!b)a/", "/[^\\]]/", "/\\w\\b/gi", "/a|b/y", "/[\\w--a]/v", "/=/", "/}/"),
)
BINARY: Final = (
    *("+", "-", "*", "/", "%", "**", "<", ">", "<=", ">=", "==", "===", "!=", "!==", "&", "|", "^", "<<", ">>", ">>>"),
)
ASSIGNING: Final = (
    "=",
    "+=",
    "-=",
    "*=",
    "/=",
    "%=",
    "**=",
    "<<=",
    ">>=",
    ">>>=",
    "&=",
    "|=",
    "^=",
    "&&=",
    "||=",
    "??=",
)
UNARY: Final = ("-", "+", "!", "~", "typeof ", "void ")
NAMES: Final = (
    *("a", "b", "c", "x", "y", "i", "n", "items", "$", "_", "of", "get", "set", "async", "from", "as", "target", "é"),
    *("type", "meta", "value", "key", "name", "length", "process", "module", "self", "location", "x1", "ünï", "名"),
)
"""Names of variables: some are words of the grammar, some of hosts."""
KEYS: Final = (
    *("a", "b", "c", "x", "of", "get", "set", "async", "static", "if", "else", "return", "class", "new", "typeof"),
    *("await", "yield", "let", "default", "in", "delete", "this", "null", "true", "then2", "eval", "process", "window"),
    *("function", "import", "export", "name", "length", "key", "0", "1", "'s t'", "'quoted'", "1.5", "0x10", "''"),
)
"""Names of properties: any word goes."""
PRIVATE: Final = ("#p", "#q", "#get", "#async")

GAPS: Final = (
    *(" ", " ", " ", " ", " ", " ", " ", " ", " ", " ", " ", " ", " ", "  ", "\t", "/**/", "/* x */", "/* / */"),
    *("\v", "\f", " /* ' */ ", "/***/", "/*/ */", "/* ` */", "/* ${ */", " /* // */ "),
)
"""What may stand between two tokens of one line."""
BREAKS: Final = (
    *("\n", "\n", "\n", "\n", "\n", "\n", "\n", "\n", " ", "\n\n", "\r\n", "\n\t", "// c\n", "/*\n*/", " // ' \"\n"),
    *("// `\n", "/* a\n * b\n */\n", "\n/**/\n", "// /*\n", "// */\n", "\n;\n", "//\r\n", "// \\\n", "// é😀\n"),
)
"""What may stand between two statements that end with a semicolon or a brace."""

NEVER: Final = ("__proto__", "constructor", "prototype", "__defineGetter__", "__lookupGetter__", "__defineSetter__")

HOSTILE: Final = (
    *(
        "eval",
        "Function",
        "globalThis",
        "this",
        "arguments",
        "import",
        "import('x')",
        "require",
        "process",
        "new.target",
    ),
    *(
        "import.meta",
        "with ({}) {}",
        "debugger",
        "Reflect",
        "Proxy",
        "fetch",
        "self",
        "await",
        "yield",
        "async",
        "super",
    ),
    *NEVER,
    *("\\u0061", "\\u{65}val", "ev\\u0061l", "\\u0024", "#x", "@", "\\", "#!x", "<!--", "-->", "<!-- x\n", "\n--> x\n"),
    *("\u2028", "\u2029", "\r", "\r\n", "\n", "\0", "\ufeff", "\u200b", "\u200d", "\u202e", "\u00ad", "\u180e", "\x85"),
    *(
        "\u00a0",
        "\x1c",
        "\u1680",
        "\u2003",
        "\u3000",
        "\u3164",
        "\ud800",
        "\udc00",
        "\U0001f600",
        "\U000e0041",
        "\u0430",
        "\u0441onstructor",
        "ſ",
    ),
    *("'", '"', "`", "${", "}", "{", "(", ")", "[", "]", "/", "//", "/*", "*/", "\\n", ";", ",", ":", "?", ".", "?."),
    *(
        "...",
        "=>",
        "=",
        "==",
        "===",
        "++",
        "--",
        "**",
        "??",
        "&&",
        "||",
        "|>",
        "/=/",
        "/[/]/",
        "/a/g",
        "/ 2",
        "/ 1;",
        "in",
    ),
    *(
        "of",
        "let",
        "static",
        "get",
        "set",
        "instanceof",
        "typeof",
        "delete ",
        "void ",
        "new ",
        "return ",
        "throw ",
        "if(1)",
    ),
    *("while(0)", "do;while(0)", "for(;;)break", "else", "case 1:", "default:", "try{}finally{}", "catch{}", "class{}"),
    *(
        "class A{",
        "function(){}",
        "async()=>{}",
        "x=>",
        "*",
        "function*g(){",
        "async function f(){",
        "l:",
        "break l",
        "1n",
    ),
    *(
        "0x",
        "08",
        "010",
        "1_",
        "1__0",
        "1e",
        ".1.",
        "0b2",
        "09.5",
        "1.e1",
        "1n.x",
        "'\\08'",
        "'\\1'",
        "`\\1`",
        "`\\u`",
        "'\\u'",
    ),
    *("callTool", "console", "codecallContext", "__safe_parallel", "__ag_s", "__ag_i0", "__codecall", "undefined=1"),
    *(
        "let let",
        "const c",
        "var v",
        "enum",
        "implements",
        "interface",
        "package",
        "public",
        "using r=null",
        "async of",
    ),
)
"""Pieces that a mutation puts into a program."""
