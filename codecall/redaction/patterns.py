"""Everything that is removed from error texts, as data: one rule for each thing, with the mark that stands in its place
and an example pair that is the rule's test.

Rules apply from top to bottom, so that a connection string goes as a whole before its host is looked at. Every pattern
runs in time linear in the text: repetitions are bounded, or start only where a run of characters begins.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, Literal, NamedTuple

STACK: Final = "[stack trace]"
PATH: Final = "[path]"
ADDRESS: Final = "[internal address]"
CREDENTIAL: Final = "[credential]"
CONNECTION: Final = "[connection string]"
MODULE: Final = "[module]"
OBJECT: Final = "[object]"
ENVIRONMENT: Final = "[environment value]"

MARK: Final = "masked-credential"
"""What stands for a credential in an input that a person or a record is shown; a number follows."""


class PatternText(NamedTuple):
    """A regular expression that is compiled when it is used first: importing this costs nothing then."""

    text: str
    flags: int


_compiled: Final = lru_cache(maxsize=None)(re.compile)


class RedactionRule(NamedTuple):
    """One thing that is removed from texts."""

    name: str
    option: Literal["remove_stack_traces", "remove_file_paths"]
    """The option that turns the rule off."""
    text: PatternText
    mark: str
    """What stands in its place; may refer to groups of the pattern."""
    example: str
    expected: str

    @property
    def pattern(self) -> re.Pattern[str]:
        """What it removes."""
        return _compiled(*self.text)


_SENSITIVE = (
    r"(?:passw(?:or)?d|passphrase|[_-]pass|pwd|secret|token|api[_-]?key|access[_-]?key|secret[_-]?key|private[_-]?key"
    r"|signing[_-]?key|encryption[_-]?key|master[_-]?key|account[_-]?key|credentials?|authorization|cookie)"
    r"(?:[_-]?(?:hash|value|plain))?"
)
_SEGMENT = r"(?:Application Support|Mobile Documents|[\w.@%+~=#-]{0,255}[\w@%+~=#-])"  # without a final full stop
_WINDOWS = r"[^\\/:*?\"'<>|,;()\s]{1,255}"  # between blanks in a segment of a Windows path
_PLACE = r"(?::\d{1,7}(?::\d{1,7})?)?"  # :line:column
_ROOTS = (
    r"(?:home|Users|root|etc|var|usr|opt|tmp|srv|mnt|media|proc|sys|dev|run|lib|lib64|bin|sbin|boot|app|apps|private"
    r"|Library|Applications|Volumes|System|workspace|workspaces|nix|snap|builds?|code|data|work|go|rustc|kaniko)"
)
_NOT_A_ROUTE = "".join(
    rf"(?<!{before} )" for before in ("GET", "PUT", "POST", "HEAD", "PATCH", "DELETE", "OPTIONS", "url:", "route")
)
"""Before a path of a URL, which says nothing of this machine."""
_CODE = (
    r"(?:py|pyc|pyi|pyx|ipynb|m?js|cjs|jsx|m?ts|tsx|vue|java|kts?|scala|groovy|jar|rb|erb|go|rs|php|cs|fs|swift|dart|lua"
    r"|exs?|erl|clj|hs|ml|c|cc|cpp|hpp|h|so|dll|dylib|exe|sh|ps1|bat)"
)
_EXTENSIONS = (
    rf"(?:{_CODE}|conf|cfg|ini|toml|ya?ml|env|pem|key|crt|p12|pfx|jks|keytab|db|sqlite3?|sql|log|lock|json|xml|txt|csv"
    r"|sock|pid|bak)"
)
_PORT = r"(?::\d{1,5})?"
_LABEL = r"[a-z0-9_-]{1,63}"
_NETWORK_SCHEME = (
    r"(?:https?|wss?|ftps?|sftp|ssh|scp|rsync|git|tcp|udp|grpcs?|amqps?|mqtts?|stomp|rediss?|memcached?|smb|cifs|nfs"
    r"|postgres(?:ql)?|mysql|mariadb|mongodb|sqlserver|mssql|oracle|clickhouse|cassandra|neo4j|bolt|etcd|zookeeper"
    r"|influxdb|nats|kafka|pulsar|ldaps?|imaps?|smtps?|pop3s?|http\+docker)"
)
_FILE_SCHEME = (
    r"(?:file|unix|unixgram|http\+unix|https\+unix|sqlite(?:\+\w{1,20})?|duckdb|jar:file|vscode-file|webpack)"
)
_UPPER = r"[A-Z][A-Z0-9_]{0,60}_"
_ENVIRONMENT = (
    rf"(?:(?:{_UPPER})?(?:KEY|PASS|PWD|AUTH|DSN|HOSTNAME|CREDENTIALS)|{_UPPER}(?:URL|URI|HOST|ADDR|ADDRESS|ENDPOINT|USER"
    r"|HOME|DIR|PATH|CERT|SALT)|PATH|HOME|USER|USERNAME|LOGNAME|OLDPWD|SHELL|TMPDIR|VIRTUAL_ENV|PYTHONHOME)"
)
"""Names of environment variables whose values say something of this machine or its secrets."""

_QUOTED = (
    r"(?:[bu]?(?:\"(?:[^\"\\\n]|\\[^\n]){0,1000}\"|'(?:[^'\\\n]|\\[^\n]){0,1000}'|\"[^\"\n]{0,1000}\"|'[^'\n]{0,1000}')"
    r"|(?P<quote>\\{1,15}[\"'])(?:(?!(?<!\\)(?P=quote))[^\n]){0,1000}(?<!\\)(?P=quote))"
)
"""A quoted value, the quotes in it escaped, of `bytes`, too; or with its own quotes escaped, as JSON in JSON."""
_UNQUOTED = r"[^\s,;&\"')\]}\[]"
_ARGUMENT = r"(?:[\"']?,?[ ]{1,4}[\"']?|[\"'],[\"'])"
"""Between two arguments of a command, be it a line or a list."""


def _pattern(text: str, flags: int = 0) -> PatternText:
    return PatternText(text, re.MULTILINE | flags)


PATTERNS: Final[tuple[RedactionRule, ...]] = (
    RedactionRule(
        "python exception group",
        "remove_stack_traces",
        _pattern(
            r"^[ \t]{0,40}\+ Exception Group Traceback \(most recent call last\):[^\n]*(?:\n[ \t]*[|+][^\n]*)*\n?"
        ),
        STACK + "\n",
        "  + Exception Group Traceback (most recent call last):\n  |   g()\n  | ExceptionGroup: two\n  +---\nbad",
        f"{STACK}\nbad",
    ),
    RedactionRule(
        "python traceback on one line",
        "remove_stack_traces",
        _pattern(r"Traceback \(most recent call last\):[ ]?(?:\\n[ ]{1,40}(?:[^\\\n]|\\(?!n)){0,1000}){1,200}(?:\\n)?"),
        STACK + " ",
        "failed: Traceback (most recent call last):\\n  File \\\"/srv/a.py\\\", line 3\\n    g()\\nKeyError: 'id'",
        f"failed: {STACK} KeyError: 'id'",
    ),
    RedactionRule(
        "python traceback",
        "remove_stack_traces",
        _pattern(r"^[ \t]{0,40}Traceback \(most recent call last\):[ \t]*(?:\n[ \t]+[^\n]*)*\n?"),
        STACK + "\n",
        "Traceback (most recent call last):\n  File \"/srv/a.py\", line 3, in f\n    g()\n    ~~^^\nKeyError: 'id'",
        f"{STACK}\nKeyError: 'id'",
    ),
    RedactionRule(
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
    RedactionRule(
        "python frame",
        "remove_stack_traces",
        _pattern(r'^[ \t]{0,40}File "[^"\n]{0,1000}", line \d{1,9}(?:, in [^\n]{0,500})?(?:\n[ \t]{4,}[^\n]*)?'),
        STACK,
        'failed\n  File "/srv/a.py", line 3, in f\n    g()',
        f"failed\n{STACK}",
    ),
    RedactionRule(
        "rust frame",
        "remove_stack_traces",
        _pattern(
            r"^[ \t]{0,40}\d{1,5}: [^\n]{1,500}\n[ \t]{1,40}at [^\s:]{1,1000}:\d{1,9}(?::\d{1,9})?[ \t]*$"
            r"|^[ \t]{0,40}\d{1,5}: <?[\w ]{1,100}(?:::[\w<>{}&*#\[\], -]{1,200}){1,30}[ \t]*$"
        ),
        STACK,
        "boom\n   0: rust_begin_unwind\n             at /rustc/5a/panicking.rs:645:5\n   1: core::panicking::panic",
        f"boom\n{STACK}",
    ),
    RedactionRule(
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
    RedactionRule(
        "javascript anonymous frame",
        "remove_stack_traces",
        _pattern(
            r"^[ \t]{1,40}at (?:async )?(?:[\w.$<>]{1,200} )?\(?(?:<anonymous>|native|index \d+)(?::\d+){0,2}\)?[ \t]*$"
        ),
        STACK,
        "TypeError: x\n    at Array.map (<anonymous>)\n    at async Promise.all (index 0)",
        f"TypeError: x\n{STACK}",
    ),
    RedactionRule(
        "browser frame",
        "remove_stack_traces",
        _pattern(r"^[\w.$/<*]{0,200}@(?:https?|file|resource|webpack)[^\s]{1,1000}:\d{1,9}:\d{1,9}[ \t]*$"),
        STACK,
        "TypeError: x\nload@https://crm.example/main.js:10:20\n@file:///srv/a.js:1:1",
        f"TypeError: x\n{STACK}",
    ),
    RedactionRule(
        "java or .NET frame",
        "remove_stack_traces",
        _pattern(
            r"^[ \t]{1,40}at [\w$.<>/`@]{1,500}\([^()\n]{0,500}\)(?: in [^\n]{1,1000}:line \d{1,9})?[ \t]*$"
            r"|^[ \t]{1,40}\.\.\. \d{1,9} (?:more|common frames omitted)[ \t]*$"
        ),
        STACK,
        "IOException: x\n\tat com.acme.Db.open(Db.java:42)\n\t... 12 more",
        f"IOException: x\n{STACK}",
    ),
    RedactionRule(
        "go frame",
        "remove_stack_traces",
        _pattern(
            r"^goroutine \d{1,9} \[[^\]\n]{0,100}\]:[ \t]*$"
            r"|^(?:created by [\w./*()-]{1,300}(?: in goroutine \d{1,9})?|[\w./*()-]{1,300}\([^()\n]{0,300}\))"
            r"\n\t[^\s:]{1,1000}\.go:\d{1,9}(?: \+0x[0-9a-f]{1,16})?[ \t]*$"
        ),
        STACK,
        "panic: x\ngoroutine 1 [running]:\nmain.run(0x1)\n\t/src/a.go:12 +0x1d\ncreated by main.main\n\t/src/a.go:2",
        f"panic: x\n{STACK}",
    ),
    RedactionRule(
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
    RedactionRule(
        "module that is missing or broken",
        "remove_stack_traces",
        _pattern(
            r"\b(No module named|[Mm]odule|Cannot find module|[Cc]annot find package|No package named"
            r"|ClassNotFoundException:|NoClassDefFoundError:|ClassLoader:|from) "
            r"(?:(?<=from )(?=['\"][\w.]{1,200}['\"] (?:\(|\[path\]))|(?<!from )(?<![Mm]odule )|(?<=find module )"
            r"|(?<=odule )(?=[^\s]{1,200} has no attribute))"
            r"(?:'[^'\n]{1,200}'|\"[^\"\n]{1,200}\"|[\w.$/]{1,200})"
        ),
        rf"\1 {MODULE}",
        "No module named 'crm.billing'; cannot import name 'Key' from 'crm.keys' (unknown location)",
        f"No module named {MODULE}; cannot import name 'Key' from {MODULE} (unknown location)",
    ),
    RedactionRule(
        "object in memory",
        "remove_stack_traces",
        _pattern(r"<(?:[^<>\n]{1,300} at 0x[0-9A-Fa-f]{4,16}|module '[^'\n]{1,300}')[^<>\n]{0,300}>"),
        OBJECT,
        "<crm.db.Session object at 0x7f3a5c0b2d90> is closed",
        f"{OBJECT} is closed",
    ),
    RedactionRule(
        "module of an exception or class",
        "remove_stack_traces",
        _pattern(
            r"(?<![\w.@/:-])(?:[A-Za-z_]\w{0,100}\.){1,10}"
            r"(?:(?=[A-Z]\w{0,100}(?:Error|Exception|Warning|Fault|Timeout)\b(?![.(/@]))|(?=[A-Z]\w{0,100}' object\b))"
        ),
        "",
        "(psycopg2.errors.UniqueViolationError) duplicate key; 'crm.models.User' object has no id",
        "(UniqueViolationError) duplicate key; 'User' object has no id",
    ),
    RedactionRule(
        "private key",
        "remove_file_paths",
        _pattern(
            r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----(?s:.*?)"
            r"(?:-----END [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----|\Z)",
        ),
        CREDENTIAL,
        "bad key -----BEGIN RSA PRIVATE KEY-----\nMIIEow==\n-----END RSA PRIVATE KEY-----.",
        f"bad key {CREDENTIAL}.",
    ),
    RedactionRule(
        "connection string",
        "remove_file_paths",
        _pattern(
            r"(?<![\w+.-])[A-Za-z][\w+.-]{1,30}://[^\s/@:'\"]{0,256}:[^\s/@'\"]{1,256}(?:\n[^\s/@'\"]{1,256})?@"
            r"[^\s'\",;)\]}>]{1,1000}(?:,[\w.-]{1,255}:\d{1,5}[^\s'\",;)\]}>]{0,1000}){0,20}"
        ),
        CONNECTION,
        "cannot reach postgresql://crm:s3cret@db.acme.example:5432/crm now",
        f"cannot reach {CONNECTION} now",
    ),
    RedactionRule(
        "token in a URL",
        "remove_file_paths",
        _pattern(r"(?<![\w+.-])([A-Za-z][\w+.-]{1,30}://)[^\s/@:'\"]{8,256}@"),
        rf"\1{CREDENTIAL}@",
        "cannot clone https://x-oauth-9f8e7d6c@example.com/r.git",
        f"cannot clone https://{CREDENTIAL}@example.com/r.git",
    ),
    RedactionRule(
        "ado connection string",
        "remove_file_paths",
        _pattern(
            r"\b(?:server|data source|host)[ ]?=[^;\n]{1,200};(?:[^;\n]{0,200};){0,10}?"
            r"[ ]?(?:password|pwd)[ ]?=(?:\{[^}\n]{1,200}\}|[^;\s'\"]{1,200})",
            re.IGNORECASE,
        ),
        CONNECTION,
        "login failed: Server=db1;Database=crm;User Id=sa;Password=s3cret;",
        f"login failed: {CONNECTION};",
    ),
    RedactionRule(
        "authorization header",
        "remove_file_paths",
        _pattern(
            r"\b(authorization[\"']?[ ]?[:=]\s{0,3}[\"']?(?:bearer|basic|digest|token|apikey|negotiate|ntlm)[ ]+)"
            r"(?!authenti|authoriz)[\w.~+/=%-]{16,4096}"
            r"|\b(authorization[\"']?[ ]?[:=]\s{0,3}[\"']?aws4-[\w-]{1,40}[ ]+)[^\n]{1,2000}",
            re.IGNORECASE,
        ),
        rf"\1\2{CREDENTIAL}",
        "sent Authorization: Bearer abcdefghijklmnopqrst",
        f"sent Authorization: Bearer {CREDENTIAL}",
    ),
    RedactionRule(
        "cookie header",
        "remove_file_paths",
        _pattern(
            r"\b((?:set-)?cookie\\{0,15}[\"']?:[ ]?\\{0,15}[\"']?)(?=[\w%.-]{1,200}=)"
            r"(?:[^\n\"'\\]|\\(?![\\\"'])|(?<==)\"[^\",;\s]{1,1000}\"){1,4096}",
            re.IGNORECASE,
        ),
        rf"\1{CREDENTIAL}",
        "sent Cookie: theme=dark; sid=s%3Aabcdef.ghijkl",
        f"sent Cookie: {CREDENTIAL}",
    ),
    RedactionRule(
        "signature in a URL",
        "remove_file_paths",
        _pattern(r"(?<=[?&,;])((?:x-(?:amz|goog|oss)-)?(?:sig|signature|hmac|sas)=)[\w%+/=.~-]{8,2000}", re.IGNORECASE),
        rf"\1{CREDENTIAL}",
        "403 for https://acme.example/c/b?sv=2022&sig=Zm9vYmFyYmF6%3D",
        f"403 for https://acme.example/c/b?sv=2022&sig={CREDENTIAL}",
    ),
    RedactionRule(
        "web hook",
        "remove_file_paths",
        _pattern(
            r"(hooks\.slack\.com/(?:services|workflows)|discord(?:app)?\.com/api/webhooks|webhook\.office\.com"
            r"|api\.telegram\.org)/[\w@/:-]{8,500}"
        ),
        rf"\1/{CREDENTIAL}",
        "https://hooks.slack.com/services/T00000000/B00000000/abcdefghijkl gave 404",
        f"https://hooks.slack.com/services/{CREDENTIAL} gave 404",
    ),
    RedactionRule(
        "authorization scheme",
        "remove_file_paths",
        _pattern(r"\b(bearer|basic|digest|apikey|token)[ ]+(?=[\w.~+/=-]{0,200}\d)[\w.~+/=-]{12,4096}", re.IGNORECASE),
        rf"\1 {CREDENTIAL}",
        "sent Authorization: Bearer 8f14e45fceea167a5a36dedd",
        f"sent Authorization: Bearer {CREDENTIAL}",
    ),
    RedactionRule(
        "json web token",
        "remove_file_paths",
        _pattern(r"(?<![\w.-])eyJ[\w-]{5,}+\.[\w-]{5,}+(?:\.[\w-]*+)?"),
        CREDENTIAL,
        "bad signature: eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiI0MiJ9.dBjftJeZ4CVP",
        f"bad signature: {CREDENTIAL}",
    ),
    RedactionRule(
        "key of a known issuer",
        "remove_file_paths",
        _pattern(
            r"(?<![\w-])(?:(?:AKIA|ASIA|AROA|AIDA)[0-9A-Z]{16}"  # AWS
            r"|gh[pousr]_[A-Za-z0-9]{20,255}|github_pat_\w{20,255}|gl(?:pat|dt|rt|cbt|ptt|soat)-[\w-]{16,255}"  # forges
            r"|sk-[\w*-]{16,255}|gsk_\w{20,255}|xai-\w{20,255}|pplx-\w{20,255}|hf_\w{20,60}|r8_\w{30,60}"  # models
            r"|[srp]k_(?:live|test)_[\w*]{8,255}|whsec_[\w+/=]{16,255}"  # Stripe
            r"|xox[abeoprs]-[\w-]{10,255}|xapp-[\w-]{10,255}"  # Slack
            r"|AIza[\w-]{30,60}|ya29\.[\w-]{10,2048}|GOCSPX-[\w-]{20,60}|1//0[\w-]{20,255}"  # Google
            r"|SG\.[\w-]{16,40}\.[\w-]{30,60}|SK[0-9a-f]{32}|key-[0-9a-z]{32}|\d{8,10}:AA[\w-]{30,40}"  # messages
            r"|do[opr]_v1_[0-9a-f]{32,80}|shp(?:at|ca|pa|ss|ua)_[0-9a-fA-F]{24,64}|dapi[0-9a-f]{32}"  # DigitalOcean …
            r"|lin_(?:api|oauth)_\w{20,80}|secret_[A-Za-z0-9]{32,64}|ntn_\w{30,80}|ATATT3[\w=-]{20,400}"  # work spaces
            r"|dp\.(?:pt|ct|sa|scim|audit|st(?:\.[\w-]{2,35})?)\.[A-Za-z0-9]{40,44}|hv[sbr]\.[\w-]{16,400}|glsa_\w{20,80}|dckr_pat_[\w-]{20,60}|tskey-[\w-]{16,100}|sbp_[0-9a-f]{32,60}"
            r"|AGE-SECRET-KEY-1[0-9A-Z]{30,80}|npm_\w{30,60}|pypi-[\w-]{30,255}|rubygems_[0-9a-f]{32,60})"
            r"(?![\w-])"
        ),
        CREDENTIAL,
        "The key AKIAIOSFODNN7EXAMPLE is not active",
        f"The key {CREDENTIAL} is not active",
    ),
    RedactionRule(
        "named secret",
        "remove_file_paths",
        _pattern(
            # (Not the `=` or `=>` that a parser calls an unexpected token.)
            rf"(?<![\w-])(?<!unexpected )([\w-]{{0,40}}?{_SENSITIVE}(?:\\{{0,15}}[\"'])?\s{{0,3}})"
            # `name=value` and quoted values always; `name: value` only when the value looks like no word of a message.
            # (And headers as libraries hold them: `(b'x-api-key', b'…')`.)
            rf"(?:((?:=(?!>)|%3D|＝)\s{{0,3}})|((?::|=>|：|,(?=[ ]?b[\"']))\s{{0,3}}))"
            rf"(?:(?(2)|(?!\\{{0,15}}(?:\"\\{{0,15}}\"|'\\{{0,15}}'))){_QUOTED}|(?(2)(?:\{{[^{{}}\n]{{1,200}}\}}|{_UNQUOTED}{{1,1000}})"
            rf"|(?:(?<!：)|(?=[!-~]{{6}}))(?=[^\s,;&]{{0,200}}\d|[^\s,;&]{{28}}){_UNQUOTED}{{6,1000}})"
            # What is in brackets behind a name is no less secret: `token=Token('…')`.
            r"(?:(?<=[(=])[bu]?(?:\"[^\"\n]{1,1000}\"|'[^'\n]{1,1000}'))?)",
            re.IGNORECASE,
        ),
        rf"\1\2\3{CREDENTIAL}",
        'refused: user=ann db_password=hunter2, "api_key": "k-9"',
        f'refused: user=ann db_password={CREDENTIAL}, "api_key": {CREDENTIAL}',
    ),
    RedactionRule(
        "value of a named header or variable",
        "remove_file_paths",
        _pattern(
            rf"([\"'](?:name|key|header)\\{{0,15}}[\"']\s?:\s?\\{{0,15}}[\"'][\w-]{{0,40}}?{_SENSITIVE}\\{{0,15}}[\"'],\s{{0,9}}"
            rf"\\{{0,15}}[\"']value\\{{0,15}}[\"']\s?:\s?){_QUOTED}",
            re.IGNORECASE,
        ),
        rf"\1{CREDENTIAL}",
        'refused: {"name": "X-Api-Key", "value": "hunter2"}',
        f'refused: {{"name": "X-Api-Key", "value": {CREDENTIAL}}}',
    ),
    RedactionRule(
        "secret on a command line",
        "remove_file_paths",
        _pattern(
            rf"(?<![\w-])(?:(--?[\w-]{{0,40}}?{_SENSITIVE}[\"']?,?[ ]+[\"']?)(?=[^\s\"']{{0,200}}\d)[^\s\"']{{4,1000}}"
            r"|((?:-u|--user|--proxy-user)[ =][\"']?)[^\s:\"'@/]{1,100}:[^\s\"']{1,200}"
            # `mysql -phunter2`, options alone before it; not the ports of `docker run --name mysql -p3306:3306`.
            r"|((?:mysql(?:dump|admin|import|show|slap|check|pump|binlog)?|mariadb(?:-[a-z]{2,12})?)(?:\.exe)?"
            rf"(?:{_ARGUMENT}--?\w[^\s\"',]{{0,100}}(?:{_ARGUMENT}[^\s\"',-][^\s\"',]{{0,100}})?){{0,12}}?{_ARGUMENT}-p)"
            r"(?!\d{1,5}(?![^\s\"':]))(?:\"[^\"\n]{1,200}\"|'[^'\n]{1,200}'|[^\s\"']{1,200}))"
        ),
        rf"\1\2\3{CREDENTIAL}",
        "failed: curl -u ann:hunter2 x; pg_dump --password hunter2 crm; mysql -u ann -phunter2 crm",
        f"failed: curl -u {CREDENTIAL} x; pg_dump --password {CREDENTIAL} crm; mysql -u ann -p{CREDENTIAL} crm",
    ),
    RedactionRule(
        "secret in an element",
        "remove_file_paths",
        _pattern(
            rf"((?:<|&lt;)(?:[\w.-]{{1,40}}:)?[\w.-]{{0,40}}?{_SENSITIVE}(?:\s[^<>\n]{{0,200}}?)?(?:>|&gt;))"
            r"(?:\s{0,40}<!\[CDATA\[[^\]]{1,1000}\]\]>|(?=[^<]{0,200}\w)(?:[^<&]|&(?!lt;/)){1,1000})(?=\s{0,40}(?:<|&lt;)/)",
            re.IGNORECASE,
        ),
        rf"\1{CREDENTIAL}",
        "refused: <user>ann</user><password>hunter2</password>",
        f"refused: <user>ann</user><password>{CREDENTIAL}</password>",
    ),
    RedactionRule(
        "environment",
        "remove_file_paths",
        _pattern(r"\benviron(?:ment)?[ ]?[(=:][ ]?\(?\{[^{}]{1,4000}(?:\}\)?|\Z)"),
        ENVIRONMENT,
        "bad environ({'LANG': 'C', 'STAGE': 'prod'}) here",
        f"bad {ENVIRONMENT} here",
    ),
    RedactionRule(
        "environment variable",
        "remove_file_paths",
        _pattern(rf"(?<![\w-])({_ENVIRONMENT}(?:=|\\{{0,15}}[\"'][ ]?: ))(?!\[)(?:{_QUOTED}|{_UNQUOTED}{{1,1000}})"),
        rf"\1{ENVIRONMENT}",
        "spawned with HOME=/root STRIPE_KEY=plain DB_HOST='db1'",
        f"spawned with HOME={ENVIRONMENT} STRIPE_KEY={ENVIRONMENT} DB_HOST={ENVIRONMENT}",
    ),
    RedactionRule(
        "file URL",
        "remove_file_paths",
        _pattern(
            rf"(?<![\w+.-]){_FILE_SCHEME}:/{{1,4}}[^\s'\",;:)\]}}>]{{1,1000}}(?::[\\/][^\s'\",;:)\]}}>]{{0,1000}})?"
        ),
        PATH,
        "cannot open file:///home/ann/a.txt",
        f"cannot open {PATH}",
    ),
    RedactionRule(
        "path of a system error",
        "remove_file_paths",
        _pattern(
            r"\b((?:no such file or directory|permission denied|is a directory|not a directory|file exists"
            r"|directory not empty|read-only file system|operation not permitted|file name too long|cross-device link)"
            r"[,:]?[ ](?:\w{1,10}[ ])?b?['\"])/[^'\"\n]{1,1000}|((?<=['\"]) -> b?['\"])/[^'\"\n]{1,1000}",
            re.IGNORECASE,
        ),
        rf"\1\2{PATH}",
        "[Errno 18] Invalid cross-device link: '/drop/in box/a' -> '/kept/a'",
        f"[Errno 18] Invalid cross-device link: '{PATH}' -> '{PATH}'",
    ),
    RedactionRule(
        "quoted path",
        "remove_file_paths",
        _pattern(rf"(?<=['\"])(?:/{_ROOTS}/[^'\"\n]{{1,1000}}|[A-Za-z]:\\[^'\"\n]{{1,1000}})(?=['\"])"),
        PATH,
        "cannot open '/home/ann/My Files/crm.db'",
        f"cannot open '{PATH}'",
    ),
    RedactionRule(
        "encoded path",
        "remove_file_paths",
        _pattern(
            rf"(?<![\w%.-])(?:file%3A(?:%2F){{1,3}}|%2F)(?:{_ROOTS}|[A-Z]%3A)(?:%2F[\w.~-]{{0,255}}){{1,60}}",
            re.IGNORECASE,
        ),
        PATH,
        "cannot open %2Fhome%2Fann%2Fa.txt",
        f"cannot open {PATH}",
    ),
    RedactionRule(
        "windows path",
        "remove_file_paths",
        _pattern(
            rf"(?<![\w])[A-Za-z]:\\{{1,4}}(?:{_WINDOWS}(?:[ ]{_WINDOWS}){{0,5}}\\{{1,4}}){{0,40}}"
            rf"(?:{_WINDOWS})?{_PLACE}"
            r"|(?<![\w])[A-Za-z]:/(?!/)(?:[\w.@%+~=#-]{1,255}/){1,40}[\w.@%+~=#-]{0,255}"
            + _PLACE
            + r"|(?<![\\\w])\\\\[\w.$-]{1,255}\\[^\s\"'<>|,;()]{1,1000}"
        ),
        PATH,
        r"cannot open C:\Program Files\Crm\crm.db, nor \\files01\share\a.txt",
        f"cannot open {PATH}, nor {PATH}",
    ),
    RedactionRule(
        "unix path",
        "remove_file_paths",
        _pattern(
            rf"(?<![\w/.@~-]){_NOT_A_ROUTE}(?:~[\w.-]{{0,64}})?/{_ROOTS}(?:/{_SEGMENT}){{1,60}}/?{_PLACE}"
            rf"|(?<![\w/.@~-])~/{_SEGMENT}(?:/{_SEGMENT}){{0,60}}/?"
            rf"|(?<![\w/.@~-])(?:/{_SEGMENT}){{1,60}}\.{_EXTENSIONS}\b{_PLACE}"
            rf"|(?<![\w/.@~-])(?:[\w.@-]{{1,100}}/){{0,20}}(?:node_modules|site-packages)(?:/{_SEGMENT}){{1,60}}{_PLACE}"
        ),
        PATH,
        "No such file: '/home/ann/crm/orders.db' (see /etc/crm.conf:12).",
        f"No such file: '{PATH}' (see {PATH}).",
    ),
    RedactionRule(
        "relative path",
        "remove_file_paths",
        _pattern(
            rf"(?<![\w/.@~:-])(?:[\w.@-]{{1,100}}/){{1,20}}[\w.-]{{1,100}}\.{_EXTENSIONS}:\d{{1,9}}(?::\d{{1,9}})?\b"
            rf"|(?<![\w/.@~:-])(?:\.\./){{2,20}}(?:{_SEGMENT}/){{0,20}}(?:{_SEGMENT})?"
            rf"|(?<![\w/.@~:-])\.{{1,2}}/(?:{_SEGMENT}/){{0,20}}[\w.-]{{1,100}}\.{_EXTENSIONS}\b{_PLACE}"
            rf"|(?<![\w\\.@~:-])(?:[\w.-]{{1,100}}\\{{1,2}}){{1,20}}[\w.-]{{1,100}}\.{_EXTENSIONS}\b{_PLACE}"
        ),
        PATH,
        "panicked at src/main.rs:4:5, then ../../etc/shadow and crm\\api.py",
        f"panicked at {PATH}, then {PATH} and {PATH}",
    ),
    RedactionRule(
        "private IPv4 address",
        "remove_file_paths",
        _pattern(
            r"(?<![\w.])(?:(?:10|127)\.\d{1,3}|0\.0|192\.168|169\.254|172\.(?:1[6-9]|2\d|3[01])"
            rf"|100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7]))\.\d{{1,3}}\.\d{{1,3}}(?![\d.]*\d){_PORT}"
        ),
        ADDRESS,
        "connect to 10.0.3.7:5432 failed",
        f"connect to {ADDRESS} failed",
    ),
    RedactionRule(
        "private IPv6 address",
        "remove_file_paths",
        _pattern(
            r"(?<![\w:.])\[(?:::1|f[cd][0-9a-f]{2}:[0-9a-f:]{2,40}|fe80:[0-9a-f:]{2,40})(?:%\w{1,20})?\]"
            + _PORT
            + r"|(?<![\w:.\[])(?:::1|(?:f[cd][0-9a-f]{2}|fe80):[0-9a-f]{0,4}:[0-9a-f:]{1,35})(?:%\w{1,20})?(?![\w:])"
            r"|(?<![\w:.\[])::1:\d{2,5}(?![\w:])"
            r"|(?<![\w:.])::ffff:(?:10|127|192\.168|172\.(?:1[6-9]|2\d|3[01]))(?:\.\d{1,3}){2,3}",
            re.IGNORECASE,
        ),
        ADDRESS,
        "connect to [fd12:3456::7]:443 failed, then ::1",
        f"connect to {ADDRESS} failed, then {ADDRESS}",
    ),
    RedactionRule(
        "internal host name",
        "remove_file_paths",
        _pattern(
            r"(?<![\w.-])(?:[a-z0-9_-]{1,63}\.){1,8}"
            r"(?:internal|intranet|intra|corp|lan|localdomain|svc|cluster\.local|consul|home\.arpa)"
            rf"(?![\w-])(?!\.\w){_PORT}"
            r"|(?<![\w.-])(?:[a-z0-9_-]{1,63}\.){2,8}local(?![\w.-])"
            + _PORT
            + r"|(?<![\w.-])(?:[a-z0-9_-]{1,63}\.local|localhost):\d{1,5}(?!\d)"
            r"|(?<![\w.-])ip-(?:10|172|192)(?:-\d{1,3}){3}(?![\w-])",
            re.IGNORECASE,
        ),
        ADDRESS,
        "db-1.prod.internal:5432 refused, localhost:6379 refused",
        f"{ADDRESS} refused, {ADDRESS} refused",
    ),
    RedactionRule(
        "single-label host in a URL",
        "remove_file_paths",
        _pattern(rf"(?<![\w+.-])({_NETWORK_SCHEME}://)[a-z0-9_-]{{1,63}}{_PORT}(?![\w.@:%\[-])", re.IGNORECASE),
        rf"\1{ADDRESS}",
        "GET http://billing-service:8080/v1 gave 502",
        f"GET http://{ADDRESS}/v1 gave 502",
    ),
    RedactionRule(
        "single-label host of a client library",
        "remove_file_paths",
        _pattern(
            r"((?:\b(?:ECONNREFUSED|ECONNRESET|ENOTFOUND|EHOSTUNREACH|ETIMEDOUT|EAI_AGAIN|connection to server at"
            r"|translate host name|connect to \w{1,20} server on|UnknownHostException:|host(?:name)?[ ]?=)|'@)"
            r"[ ]?[\"']?)"
            rf"{_LABEL}{_PORT}(?![\w:-]|\.\w)"
            r"|\b((?:connect(?:ing|ed|ion)? (?:to|with|from)(?: host| server| broker| node)?|reading from|writing to"
            rf"|refused:|reset by|proxy|dial tcp)[ ][\"']?){_LABEL}:\d{{2,5}}(?![\w:-]|\.\w)"
            rf"|\b(lookup ){_LABEL}(?=(?: on |: no such host|: server misbehaving|: i/o timeout))",
            re.IGNORECASE,
        ),
        rf"\1\2\3{ADDRESS}",
        "getaddrinfo ENOTFOUND redis-main; HTTPConnectionPool(host='billing', port=8080); connecting to redis:6379.",
        f"getaddrinfo ENOTFOUND {ADDRESS}; HTTPConnectionPool(host='{ADDRESS}', port=8080); connecting to {ADDRESS}.",
    ),
)
"""Everything that is removed from an error text, in the order in which it is looked for."""

REPEATED_STACK: Final = re.compile(r"([ \t]?)" + re.escape(STACK) + r"(?:\s{0,200}" + re.escape(STACK) + r")+")
SECRET_KEY: Final = re.compile(rf"[\w-]{{0,40}}?{_SENSITIVE}", re.IGNORECASE)


SECRET_VARIABLE: Final = re.compile(rf"\w{{0,60}}?{_SENSITIVE}|{_UPPER}(?:KEY|PASS|AUTH|DSN)", re.IGNORECASE)
COMMON_VARIABLES: Final[Mapping[str, bool]] = {
    "PWD": False,  # where somebody is
    "OLDPWD": False,
    "GPG_KEY": False,  # in images of Python: which public key signed it
    "SSHPASS": True,
    "NPM_CONFIG__AUTH": True,
    "PGPASS": True,
    "LDAP_BINDPW": True,
    "RSYNC_PASSWORD": True,
    "MYSQL_PWD": True,
    "REDISCLI_AUTH": True,
}
"""Environment variables that many machines have: whether they hold a secret. `SECRET_VARIABLE` decides for others."""

PATH_LIKE: Final = re.compile(
    rf"(?:~|\.{{1,2}})?[/\\](?:{_ROOTS}(?:[/\\].*)?)?|(?:~|\.{{1,2}})[/\\].*|[A-Za-z]:[/\\].*", re.DOTALL
)
"""Values that are a path, whatever the variable is called. A secret may begin with a slash, too."""

MIN_SECRET_CHARS: Final = 12
MIN_SECRET_BITS: Final = 40.0
"""What a value has at least to be removed wherever it stands: characters, and their Shannon entropy all in all. Whoever
sees what is removed could try all shorter ones."""

SECRET_LOOKING: Final = re.compile(r"(?=.*[\d\W]).{8,}|.{16,}", re.DOTALL)
"""Values that are no word of everyday language, which a message may contain by chance."""

INVISIBLE: Final = re.compile(
    "\x1b\\[[0-9;?]{0,20}[A-Za-z]|\r(?=\n)"
    "|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e"
    "\u2060-\u2064\u2066-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e01ef]"
)
"""Characters that nobody sees in a text; between visible ones they would hide a secret from the patterns."""

SURROGATE: Final = re.compile("[\\ud800-\\udfff]")
