"""What error messages lose on their way to a model: `clean_text` for messages, `clean_value` for error details.

PATTERNS is the whole policy: one row per thing removed, with the mark that stands in its place and an example
pair that is the row's test. Rows apply from top to bottom, so that a connection string goes as a whole before its
host is looked at. Only error texts pass through here, never the values tools return.

Every pattern runs in time linear in the text: repetitions are bounded, or start only where a run of characters
begins. Texts are cut to `MAX_TEXT_CHARS` first, at a blank, so that no half of a credential can stay behind.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple, cast

from codecall.options import SanitizationOptions

MAX_TEXT_CHARS: Final = 8_000
"""Characters of one error text that are kept; more is cut with a mark. About 2,000 tokens."""

MAX_DEPTH: Final = 20
"""Nesting of error details; deeper parts are replaced by a mark."""

MAX_NODES: Final = 1_000
"""Values in one error's details, nested ones included; what is beyond is replaced by a mark."""

_CUT_WINDOW: Final = 400
"""How far a cut may move back to reach a blank. Longer than the credentials PATTERNS knows, but for JWTs."""

STACK: Final = "[stack trace]"
PATH: Final = "[path]"
ADDRESS: Final = "[internal address]"
CREDENTIAL: Final = "[credential]"
CONNECTION: Final = "[connection string]"


class Row(NamedTuple):
    """One thing that is removed."""

    name: str
    switch: Literal["remove_stack_traces", "remove_file_paths"]
    """The option that turns the row off."""
    pattern: re.Pattern[str]
    mark: str
    """What stands in its place; may refer to groups of the pattern."""
    example: str
    cleaned: str


_SENSITIVE = (
    r"(?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|secret[_-]?key|private[_-]?key"
    r"|signing[_-]?key|credentials?|authorization|cookie)"
)
_SEGMENT = r"[\w.@%+~=#-]{0,255}[\w@%+~=#-]"  # of a path, without a final full stop
_WINDOWS = r"[^\\/:*?\"'<>|,;()\s]{1,255}"  # between blanks in a segment of a Windows path
_PLACE = r"(?::\d{1,7}(?::\d{1,7})?)?"  # :line:column
_ROOTS = (
    r"(?:home|Users|root|etc|var|usr|opt|tmp|srv|mnt|media|proc|sys|dev|run|lib|lib64|bin|sbin|boot|app|apps|private"
    r"|Library|Applications|Volumes|System|workspace|workspaces|nix|snap|builds?|code|data|work)"
)
_EXTENSIONS = (
    r"(?:py|pyc|pyi|ipynb|js|mjs|cjs|jsx|ts|tsx|java|kt|jar|rb|go|rs|php|cs|c|cc|cpp|h|so|dll|dylib|exe|sh|ps1"
    r"|conf|cfg|ini|toml|ya?ml|env|pem|key|crt|db|sqlite3?|sql|log|lock|json|xml|txt|csv)"
)
_PORT = r"(?::\d{1,5})?"
_NETWORK_SCHEME = (
    r"(?:https?|wss?|ftp|sftp|ssh|tcp|udp|grpcs?|amqps?|rediss?"
    r"|postgres(?:ql)?|mysql|mariadb|mongodb|nats|kafka|ldaps?)"
)


def _pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    return re.compile(text, re.MULTILINE | flags)


PATTERNS: Final[tuple[Row, ...]] = (
    Row(
        "python traceback",
        "remove_stack_traces",
        _pattern(r"^[ \t]{0,40}Traceback \(most recent call last\):[ \t]*(?:\n[ \t]+[^\n]*)*\n?"),
        STACK + "\n",
        "Traceback (most recent call last):\n  File \"/srv/a.py\", line 3, in f\n    g()\n    ~~^^\nKeyError: 'id'",
        f"{STACK}\nKeyError: 'id'",
    ),
    Row(
        "python chained traceback",
        "remove_stack_traces",
        _pattern(
            r"^(?:During handling of the above exception, another exception occurred"
            r"|The above exception was the direct cause of the following exception):[ \t]*\n?"
        ),
        STACK + "\n",
        "KeyError: 'a'\nDuring handling of the above exception, another exception occurred:\nValueError: b",
        f"KeyError: 'a'\n{STACK}\nValueError: b",
    ),
    Row(
        "python frame",
        "remove_stack_traces",
        _pattern(r'^[ \t]{0,40}File "[^"\n]{0,1000}", line \d{1,9}(?:, in [^\n]{0,500})?(?:\n[ \t]{4,}[^\n]*)?'),
        STACK,
        'failed\n  File "/srv/a.py", line 3, in f\n    g()',
        f"failed\n{STACK}",
    ),
    Row(
        "javascript frame",
        "remove_stack_traces",
        _pattern(
            r"(?:^[ \t]{1,40}|[ \t])at (?:async )?(?:new )?(?:[\w.$<>\[\]]{1,200} (?:\[as \w{1,100}\] )?)?"
            r"\(?(?:file://|node:|webpack|[A-Za-z]:\\|/)[^()\s]{0,1000}:\d{1,9}(?::\d{1,9})?\)?"
        ),
        f" {STACK}",
        "TypeError: x\n    at f (/srv/app/a.js:3:14)\n    at async node:internal/main:12:3",
        f"TypeError: x\n {STACK}",
    ),
    Row(
        "javascript anonymous frame",
        "remove_stack_traces",
        _pattern(r"^[ \t]{1,40}at (?:async )?(?:[\w.$<>]{1,200} )?\(?(?:<anonymous>|native)(?::\d+){0,2}\)?[ \t]*$"),
        STACK,
        "TypeError: x\n    at Array.map (<anonymous>)",
        f"TypeError: x\n{STACK}",
    ),
    Row(
        "java or .NET frame",
        "remove_stack_traces",
        _pattern(
            r"^[ \t]{1,40}at [\w$.<>/`@]{1,500}\([^()\n]{0,500}\)(?: in [^\n]{1,1000}:line \d{1,9})?[ \t]*$"
            r"|^[ \t]{1,40}\.\.\. \d{1,9} (?:more|common frames omitted)[ \t]*$"
        ),
        STACK,
        "java.io.IOException: x\n\tat com.acme.Db.open(Db.java:42)\n\t... 12 more",
        f"java.io.IOException: x\n{STACK}",
    ),
    Row(
        "go frame",
        "remove_stack_traces",
        _pattern(
            r"^goroutine \d{1,9} \[[^\]\n]{0,100}\]:[ \t]*$"
            r"|^[\w./*()-]{1,300}\([^()\n]{0,300}\)\n\t[^\s:]{1,1000}\.go:\d{1,9}(?: \+0x[0-9a-f]{1,16})?[ \t]*$"
        ),
        STACK,
        "panic: x\ngoroutine 1 [running]:\nmain.run(0x1)\n\t/src/main.go:12 +0x1d",
        f"panic: x\n{STACK}",
    ),
    Row(
        "ruby or php frame",
        "remove_stack_traces",
        _pattern(
            r"^[ \t]{0,40}(?:from )?[^\s:]{1,1000}\.rb:\d{1,9}:in [^\n]{0,500}$"
            r"|^#\d{1,5} (?:\{main\}|[^\n]{1,1000}\(\d{1,9}\): [^\n]{0,1000})$"
        ),
        STACK,
        "boom\n\tfrom /srv/a.rb:3:in 'f'\n#0 /srv/a.php(12): f()\n#1 {main}",
        f"boom\n{STACK}",
    ),
    Row(
        "private key",
        "remove_file_paths",
        _pattern(
            r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z)",
        ),
        CREDENTIAL,
        "bad key -----BEGIN RSA PRIVATE KEY-----\nMIIEow==\n-----END RSA PRIVATE KEY-----.",
        f"bad key {CREDENTIAL}.",
    ),
    Row(
        "connection string",
        "remove_file_paths",
        _pattern(r"(?<![\w+.-])[A-Za-z][\w+.-]{1,30}://[^\s/@:'\"]{0,256}:[^\s/@'\"]{1,256}@[^\s'\",;)\]}>]{1,1000}"),
        CONNECTION,
        "cannot reach postgresql://crm:s3cret@db.acme.example:5432/crm now",
        f"cannot reach {CONNECTION} now",
    ),
    Row(
        "token in a URL",
        "remove_file_paths",
        _pattern(r"(?<![\w+.-])([A-Za-z][\w+.-]{1,30}://)[^\s/@:'\"]{8,256}@"),
        rf"\1{CREDENTIAL}@",
        "cannot clone https://x-oauth-9f8e7d6c@example.com/r.git",
        f"cannot clone https://{CREDENTIAL}@example.com/r.git",
    ),
    Row(
        "ado connection string",
        "remove_file_paths",
        _pattern(
            r"\b(?:server|data source|host)[ ]?=[^;\n]{1,200};(?:[^;\n]{0,200};){0,10}?"
            r"[ ]?(?:password|pwd)[ ]?=[^;\s'\"]{1,200}",
            re.IGNORECASE,
        ),
        CONNECTION,
        "login failed: Server=db1;Database=crm;User Id=sa;Password=s3cret;",
        f"login failed: {CONNECTION};",
    ),
    Row(
        "authorization scheme",
        "remove_file_paths",
        _pattern(r"\b(bearer|basic|digest|apikey|token)[ ]+(?=[\w.~+/=-]{0,200}\d)[\w.~+/=-]{12,4096}", re.IGNORECASE),
        rf"\1 {CREDENTIAL}",
        "sent Authorization: Bearer 8f14e45fceea167a5a36dedd",
        f"sent Authorization: Bearer {CREDENTIAL}",
    ),
    Row(
        "json web token",
        "remove_file_paths",
        _pattern(r"(?<![\w.-])eyJ[\w-]{5,}+\.[\w-]{5,}+(?:\.[\w-]*+)?"),
        CREDENTIAL,
        "bad signature: eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiI0MiJ9.dBjftJeZ4CVP",
        f"bad signature: {CREDENTIAL}",
    ),
    Row(
        "key of a known issuer",
        "remove_file_paths",
        _pattern(
            r"(?<![\w-])(?:(?:AKIA|ASIA|AROA|AIDA)[0-9A-Z]{16}"  # AWS
            r"|gh[pousr]_[A-Za-z0-9]{20,255}|github_pat_\w{20,255}|glpat-[\w-]{16,255}"  # GitHub, GitLab
            r"|sk-[\w-]{16,255}|[srp]k_(?:live|test)_\w{8,255}"  # model providers, Stripe
            r"|xox[abeoprs]-[\w-]{10,255}|AIza[\w-]{30,60}|npm_\w{30,60}|pypi-[\w-]{30,255})"  # Slack, Google, npm
            r"(?![\w-])"
        ),
        CREDENTIAL,
        "The key AKIAIOSFODNN7EXAMPLE is not active",
        f"The key {CREDENTIAL} is not active",
    ),
    Row(
        "named secret",
        "remove_file_paths",
        _pattern(
            rf"(?<![\w-])([\w-]{{0,40}}?{_SENSITIVE}[\"']?[ ]?)"
            # `name=value` and quoted values always; `name: value` only when the value looks like no word of a message.
            r"(?:(=[ ]?)(?:\"[^\"\n]{0,1000}\"|'[^'\n]{0,1000}'|[^\s,;&\"')\]}\[]{1,1000})"
            r"|(:[ ]?)(?:\"[^\"\n]{1,1000}\"|'[^'\n]{1,1000}'|(?=[^\s,;&]{0,200}\d)[^\s,;&\"')\]}\[]{6,1000}))",
            re.IGNORECASE,
        ),
        rf"\1\2\3{CREDENTIAL}",
        'refused: user=ann db_password=hunter2, "api_key": "k-9"',
        f'refused: user=ann db_password={CREDENTIAL}, "api_key": {CREDENTIAL}',
    ),
    Row(
        "file URL",
        "remove_file_paths",
        _pattern(r"(?<![\w+.-])file:/{1,3}[^\s'\",;)\]}>]{1,1000}"),
        PATH,
        "cannot open file:///home/ann/a.txt",
        f"cannot open {PATH}",
    ),
    Row(
        "windows path",
        "remove_file_paths",
        _pattern(
            rf"(?<![\w])[A-Za-z]:\\(?:{_WINDOWS}(?:[ ]{_WINDOWS}){{0,5}}\\){{0,40}}(?:{_WINDOWS})?{_PLACE}"
            r"|(?<![\w])[A-Za-z]:/(?!/)(?:[\w.@%+~=#-]{1,255}/){1,40}[\w.@%+~=#-]{0,255}"
            + _PLACE
            + r"|(?<![\\\w])\\\\[\w.$-]{1,255}\\[^\s\"'<>|,;()]{1,1000}"
        ),
        PATH,
        r"cannot open C:\Program Files\Crm\crm.db, nor \\files01\share\a.txt",
        f"cannot open {PATH}, nor {PATH}",
    ),
    Row(
        "unix path",
        "remove_file_paths",
        _pattern(
            rf"(?<![\w/.@~-])(?:~[\w.-]{{0,64}})?/{_ROOTS}(?:/{_SEGMENT}){{1,60}}/?{_PLACE}"
            rf"|(?<![\w/.@~-])~/{_SEGMENT}(?:/{_SEGMENT}){{0,60}}/?"
            rf"|(?<![\w/.@~-])(?:/{_SEGMENT}){{1,60}}\.{_EXTENSIONS}\b{_PLACE}"
            rf"|(?<![\w/.@~-])(?:[\w.@-]{{1,100}}/){{0,20}}(?:node_modules|site-packages)(?:/{_SEGMENT}){{1,60}}{_PLACE}"
        ),
        PATH,
        "No such file: '/home/ann/crm/orders.db' (see /etc/crm.conf:12).",
        f"No such file: '{PATH}' (see {PATH}).",
    ),
    Row(
        "private IPv4 address",
        "remove_file_paths",
        _pattern(
            r"(?<![\w.])(?:(?:10|127)\.\d{1,3}|192\.168|169\.254|172\.(?:1[6-9]|2\d|3[01])"
            rf"|100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7]))\.\d{{1,3}}\.\d{{1,3}}(?![\d.]*\d){_PORT}"
        ),
        ADDRESS,
        "connect to 10.0.3.7:5432 failed",
        f"connect to {ADDRESS} failed",
    ),
    Row(
        "private IPv6 address",
        "remove_file_paths",
        _pattern(
            r"(?<![\w:.])\[(?:::1|f[cd][0-9a-f]{2}:[0-9a-f:]{2,40}|fe80:[0-9a-f:]{2,40})(?:%\w{1,20})?\]"
            + _PORT
            + r"|(?<![\w:.\[])(?:::1|(?:f[cd][0-9a-f]{2}|fe80):[0-9a-f]{0,4}:[0-9a-f:]{1,35})(?![\w:])",
            re.IGNORECASE,
        ),
        ADDRESS,
        "connect to [fd12:3456::7]:443 failed, then ::1",
        f"connect to {ADDRESS} failed, then {ADDRESS}",
    ),
    Row(
        "internal host name",
        "remove_file_paths",
        _pattern(
            r"(?<![\w.-])(?:[a-z0-9_-]{1,63}\.){1,8}(?:internal|intranet|intra|corp|lan|localdomain|svc|cluster\.local)"
            rf"(?![\w-])(?!\.\w){_PORT}"
            r"|(?<![\w.-])(?:[a-z0-9_-]{1,63}\.){2,8}local(?![\w.-])"
            + _PORT
            + r"|(?<![\w.-])(?:[a-z0-9_-]{1,63}\.local|localhost):\d{1,5}(?!\d)",
            re.IGNORECASE,
        ),
        ADDRESS,
        "db-1.prod.internal:5432 refused, localhost:6379 refused",
        f"{ADDRESS} refused, {ADDRESS} refused",
    ),
    Row(
        "single-label host in a URL",
        "remove_file_paths",
        _pattern(rf"(?<![\w+.-])({_NETWORK_SCHEME}://)[a-z0-9_-]{{1,63}}{_PORT}(?![\w.@:%\[-])", re.IGNORECASE),
        rf"\1{ADDRESS}",
        "GET http://billing-service:8080/v1 gave 502",
        f"GET http://{ADDRESS}/v1 gave 502",
    ),
    Row(
        "single-label host of a client library",
        "remove_file_paths",
        _pattern(
            r"\b((?:ECONNREFUSED|ECONNRESET|ENOTFOUND|EHOSTUNREACH|ETIMEDOUT|EAI_AGAIN|connection to server at"
            rf"|host(?:name)?[ ]?=)[ ]?[\"']?)[a-z0-9_-]{{1,63}}{_PORT}(?![\w.:-])",
            re.IGNORECASE,
        ),
        rf"\1{ADDRESS}",
        "getaddrinfo ENOTFOUND redis-main; HTTPConnectionPool(host='billing', port=8080)",
        f"getaddrinfo ENOTFOUND {ADDRESS}; HTTPConnectionPool(host='{ADDRESS}', port=8080)",
    ),
)
"""Everything an error text loses, in the order in which it is looked for."""

_REPEATED_STACK: Final = re.compile(r"([ \t]?)" + re.escape(STACK) + r"(?:\s{0,200}" + re.escape(STACK) + r")+")
_SECRET_KEY: Final = re.compile(rf"[\w-]{{0,40}}?{_SENSITIVE}", re.IGNORECASE)


_SURROGATE: Final = re.compile("[\\ud800-\\udfff]")


def well_formed(text: str) -> str:
    """`text` as it can be sent: both halves of a surrogate pair joined, a half without its other half U+FFFD."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def clean_text(text: str, options: SanitizationOptions) -> str:
    """`text` without stack traces, file paths, internal addresses and credentials; well-formed.

    Each thing removed leaves a mark such as `[path]`; consecutive stack frames leave one. A text longer than
    `MAX_TEXT_CHARS` characters is cut and says by how much.
    """
    kept = text
    if len(text) > MAX_TEXT_CHARS:
        end = MAX_TEXT_CHARS
        while end > MAX_TEXT_CHARS - _CUT_WINDOW and not text[end].isspace():
            end -= 1
        kept = text[:end]
    cleaned = well_formed(kept)
    for row in PATTERNS:
        if getattr(options, row.switch):
            cleaned = row.pattern.sub(row.mark, cleaned)
    if options.remove_stack_traces:
        cleaned = _REPEATED_STACK.sub(rf"\1{STACK}", cleaned)
    if len(kept) < len(text):
        return f"{cleaned}…[truncated {len(text) - len(kept)} characters]"
    return cleaned.strip() if cleaned != text else text


def clean_value(value: object, options: SanitizationOptions) -> object:
    """JSON data with every string in it cleaned, keys included, and the values of secret-named keys removed.

    Bounded: nesting deeper than `MAX_DEPTH` and anything past the first `MAX_NODES` values become a mark.
    """
    return _clean(value, options, 0, [MAX_NODES])


def _clean(value: object, options: SanitizationOptions, depth: int, left: list[int]) -> object:
    left[0] -= 1
    if isinstance(value, str):
        return clean_text(value, options)
    if not isinstance(value, (Mapping, list, tuple)):
        return value
    if depth >= MAX_DEPTH:
        return {"__truncated": {"depth": depth}}
    if isinstance(value, Mapping):
        mapping = cast("Mapping[object, object]", value)
        cleaned: dict[str, object] = {}
        for key, item in mapping.items():
            if left[0] <= 0:
                cleaned["__truncated"] = {"properties": len(mapping) - len(cleaned)}
                break
            secret = options.remove_file_paths and isinstance(item, str) and _SECRET_KEY.fullmatch(str(key))
            cleaned[clean_text(str(key), options)] = CREDENTIAL if secret else _clean(item, options, depth + 1, left)
        return cleaned
    items: list[object] = []
    sequence = cast("Sequence[object]", value)
    for item in sequence:
        if left[0] <= 0:
            items.append({"__truncated": {"items": len(sequence) - len(items)}})
            break
        items.append(_clean(item, options, depth + 1, left))
    return items
