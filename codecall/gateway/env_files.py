"""Files of environment variables (`.env`): `NAME=value` a line, as editors and shells write them."""

from __future__ import annotations

import re
from pathlib import Path

from codecall.errors import OptionsError

_LINE = re.compile(
    r"""[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_][\w.-]*)[ \t]*=[ \t]*
    (?:'(?P<single>[^']*)'|"(?P<double>(?:\\.|[^"\\])*)"|(?!['"])(?P<plain>[^\r\n]*?))
    [ \t]*(?:(?<![^\s"'=])\#[^\r\n]*)?(?:\r?\n|\r|\Z)""",
    re.VERBOSE | re.DOTALL,
)
_EMPTY = re.compile(r"[ \t]*(?:\#[^\r\n]*)?(?:\r?\n|\r|\Z)")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_MEANINGS = {"n": "\n", "r": "\r", "t": "\t"}


def read_env_file(file: Path, *, where: str) -> dict[str, str]:
    """The variables of a file. Values stand alone, or in quotes, which may hold several lines; `#` begins a comment.

    Raises:
        OptionsError: it cannot be read, or a line is something else. `where` is the option that names the file.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as failure:
        raise OptionsError(f"{where}: {file} cannot be read: {failure.strerror}") from None
    except UnicodeDecodeError:
        raise OptionsError(f"{where}: {file} is not UTF-8") from None
    variables: dict[str, str] = {}
    place = 0
    while place < len(text):
        if empty := _EMPTY.match(text, place):
            place = empty.end()
            continue
        line = _LINE.match(text, place)
        if line is None:
            raise OptionsError(f"{where}: {file}, line {text.count(chr(10), 0, place) + 1} is not NAME=value")
        variables[line["name"]] = _value(line)
        place = line.end()
    return variables


def _value(line: re.Match[str]) -> str:
    if line["double"] is not None:
        return _ESCAPE.sub(lambda found: _MEANINGS.get(found[1], found[1]), line["double"])
    return line["single"] if line["single"] is not None else line["plain"]
