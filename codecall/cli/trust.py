"""Configurations of folders that this user has trusted: whoever writes one decides what is started, and which secrets
of the environment go where. A repository that was cloned may hold one.

Trust belongs to a file's path and to a digest of all that it configures, the files of environment variables it names
included; what changes must be trusted anew. Each trusted file has a record in the user's data folder.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, cast

from codecall.errors import OptionsError
from codecall.files import check_private_file, make_private_folders, write_private_file

if TYPE_CHECKING:
    from codecall.gateway.config.load import Configuration
    from codecall.gateway.config.options import AnyServer, GatewayOptions, StdioServer


EnvFiles: TypeAlias = Mapping[str, tuple[str, str | None] | None]
"""Of each server that has one, the path of its `env_file` and a digest of the content."""


class TrustRecord(NamedTuple):
    """A file that was trusted."""

    file: Path
    state: Literal["trusted", "changed", "gone"]
    """`changed`: what it configures is not what was trusted, or cannot be read."""


_MAX_COMMAND_CHARS: Final = 400
"""Characters of a program's arguments that are shown."""

_MAX_VARIABLES: Final = 20
"""Names of environment variables that are shown."""
_SHOWN_CHARS: Final = 4
"""Characters that are shown of what looks like a secret by itself: who issues it, and that something stands there."""

_LAUNCHERS: Final = frozenset(
    {"sh", "bash", "dash", "zsh", "ksh", "fish", "busybox", "env", "sudo", "doas", "nice", "nohup", "timeout", "setsid"}
    | {"xargs", "ssh", "perl", "ruby", "php", "nodejs", "powershell", "pwsh", "go", "cargo", "make", "nix", "java"}
)
"""Programs beside the runners that start another one, or code, which their arguments name."""

_FLAG: Final = re.compile(r"--([A-Za-z][\w-]*)")
_VALUE: Final = re.compile(r"(?:(?P<name>[A-Za-z_][\w-]*)(?P<assigned>=|:\s*))?(?P<value>[\w.~+/@%][\w.~+/@%-]{3,}=*)")
"""A word that may be a secret, perhaps after its name. None has a space or a character with a meaning for a shell, so
that no code hides behind the mark of a secret."""
_SEGMENT: Final = re.compile(r"[^/]+")
_PLAIN_WORD: Final = re.compile(r"[\w@%+=:,./…-]+")
_PLACE: Final = re.compile(r"[/\\~@]|[\w-]\.[\w-]|\w:\d")
"""In a word that may be a path, a host or a file."""
_PLACE_KEY: Final = re.compile(
    r"(?:.*(?:_|[a-z](?=[A-Z])))?(?i:file|folder|dir|path|host|domain|url|uri|storage|endpoint|origin)s?"
)
"""Names of options that hold one, whatever it looks like."""
_RATE: Final = re.compile(r"[\d.]+/\w+")
_DESCRIBED: Final = {"command", "args", "env", "env_file", "cwd", "url", "headers", "auth", "openapi", "base_url"}
"""Options of servers that are told in words of their own."""
_LITERAL_USER: Final = re.compile(r"(?<=://)(?:[^/?#\\@\s$]|\$(?!\{))+(?=@)")
_URL_USER: Final = re.compile(r"(?<=://)[\w.~%:+-]+(?=@)")


def require_trust(file: Path, configuration: Configuration) -> EnvFiles:
    """Refuse a configuration that was found in a folder, and not named, unless it was trusted as it is now. Its servers
    are started with their files of variables as they are now, and not as they may become.

    Raises:
        OptionsError: it was not, with the code UNTRUSTED_CONFIGURATION.
    """
    record = _read_record(_record_path(file))
    contents = _env_files(configuration)
    if record is not None and record[1] == _digest(file, configuration, contents):
        pin_env_files(configuration, contents)
        return contents
    state = "is not trusted" if record is None else "has changed since it was trusted"
    raise OptionsError(
        f"{file} {state}, and decides what is started and what goes where: {describe_started(configuration.options)}",
        code="UNTRUSTED_CONFIGURATION",
        hint=f"Look at it; then say `codecall trust {file}`, or name it in the command: --config {file}",
    )


def pin_env_files(configuration: Configuration, contents: EnvFiles) -> None:
    """Have each server of `configuration` started with what was read of its file of variables alone."""
    from codecall.gateway.config.options import StdioServer
    from codecall.gateway.config.variables import env_file_path

    for name, server in configuration.options.servers.items():
        found = contents.get(name)
        if found is None or not isinstance(server, StdioServer) or server.env_file is None:
            continue
        if str(env_file_path(server.env_file, os.environ)) == found[0]:
            server.pin_env_file(found[1] or "")  # no file has that digest


def trust(file: Path, configuration: Configuration) -> None:
    """Trust what a file configures now.

    Raises:
        OSError: that cannot be recorded.
    """
    record = _record_path(file)
    make_private_folders(record.parent)
    check_private_file(record.parent, record.parent.stat())
    write_private_file(record, f"{_digest(file, configuration, _env_files(configuration))}\n{_real_path(file)}")


def remove_trust(file: Path) -> bool:
    """Trust a file no longer; whether it was trusted.

    Raises:
        OSError: its record cannot be removed.
    """
    record = _record_path(file)
    found = record.exists()
    record.unlink(missing_ok=True)
    return found


def trust_records() -> Iterator[TrustRecord]:
    """Every file that was trusted, by path."""
    from codecall.gateway.config.load import read_config

    folder = _folder()
    records = [_read_record(record) for record in folder.iterdir()] if folder.is_dir() else []
    for name, digest in sorted(record for record in records if record is not None):
        file = Path(name)
        if not file.exists():
            yield TrustRecord(file, "gone")
            continue
        try:
            configuration = read_config(file, discovered=True)
            same = _digest(file, configuration, _env_files(configuration)) == digest
        except OptionsError:
            same = False
        yield TrustRecord(file, "trusted" if same else "changed")


def describe_started(options: GatewayOptions) -> str:
    """The servers of a configuration in one line, and every other option that reads the environment, or names a URL, a
    host or a file; without secrets."""
    started = [f"{name}: {_describe_server(server)}" for name, server in options.servers.items()] or ["no servers"]
    servers = {
        name: server.model_dump(exclude_unset=True, exclude=_DESCRIBED) for name, server in options.servers.items()
    }
    others = {"servers": servers, **options.model_dump(exclude_unset=True, exclude={"servers"})}
    return "; ".join([*started, *_describe_places(others, ())])


def _describe_places(value: object, keys: tuple[str, ...]) -> Iterator[str]:
    """Each text in nested options that may be a place where something goes, or reads the environment, with its keys.
    Whatever the options mean: what looks like a place is one."""
    from codecall.gateway.config.secret_detection import is_secret_setting
    from codecall.gateway.config.variables import ABSOLUTE_PATH, referenced_names

    if isinstance(value, Mapping):
        for key, item in cast("Mapping[object, object]", value).items():
            yield from _describe_places(item, (*keys, str(key)))
    elif isinstance(value, list | tuple):
        for item in cast("Sequence[object]", value):
            yield from _describe_places(item, keys)
    elif isinstance(value, str | Path):
        text = str(value).strip()
        names = referenced_names(text)
        if not (names or _PLACE_KEY.fullmatch(keys[-1]) or ABSOLUTE_PATH.match(text)):
            # Of prose, such as a description, the URLs.
            words = text.split()
            text = " ".join(word for word in words if "://" in word or (len(words) == 1 and _PLACE.search(word)))
            if not text or _RATE.fullmatch(text):
                return
        named = [keys[-1], *(key[:-1] for key in keys[-2:-1] if key.endswith("s"))]
        if "://" not in text and any(is_secret_setting(name, text) for name in named):
            text = ""
        if text or names:
            if "://" in text or not ABSOLUTE_PATH.match(text):
                text = text.encode("ascii", "backslashreplace").decode()  # letters that look like others, in a host
            _, shown = _without_secrets("", (_LITERAL_USER.sub("…", text),)) if text else ("", "…")
            reads = f" (reads {', '.join(names)})" if names else ""
            yield f"{_one_line('.'.join(keys))} = {_one_line(shown)}{reads}"


def _describe_server(server: AnyServer) -> str:
    """A server without secrets: what is started or called, with what of this user's environment."""
    from codecall.gateway.config.names import describe_server
    from codecall.gateway.config.options import OpenApiServer, StdioServer
    from codecall.gateway.config.urls import url_without_secrets
    from codecall.gateway.config.variables import referenced_names

    if isinstance(server, StdioServer):
        text = _describe_program(server)
    else:
        text = describe_server(server)
        if isinstance(server, OpenApiServer) and server.base_url is not None:
            text += f" at {_one_line(url_without_secrets(server.base_url))}"
    names = referenced_names(server)
    return f"{text} (reads {', '.join(names)})" if names else text


def _describe_program(server: StdioServer) -> str:
    """The arguments of a program, cut if they are long, since they may be code; the names of its variables, since some
    load code; and its folder."""
    from codecall.gateway.config.variables import env_file_path, read_env_file

    text = _one_line(" ".join(_without_secrets(server.command, server.args)))
    rest = len(text) - len(server.command) - _MAX_COMMAND_CHARS
    shown = f"{text[:-rest]}… and {rest} characters more" if rest > 0 else text
    names = [*server.env]
    where = "" if server.cwd is None else f" in {_one_line(server.cwd)}"
    if server.env_file is not None:
        where += f" with the variables of {_one_line(server.env_file)}"
        file = env_file_path(server.env_file, os.environ)
        with suppress(OptionsError):  # a start says what is wrong with it
            names += [] if file is None else read_env_file(file, where="env_file")
    variables = [f"{_one_line(name)}=…" for name in dict.fromkeys(names)]
    more = [f"{len(variables) - _MAX_VARIABLES} more variables"] if len(variables) > _MAX_VARIABLES else []
    return f"{' '.join([*variables[:_MAX_VARIABLES], *more, shown])}{where}"


def _is_file(word: str) -> bool:
    """Whether there is a file or folder of that name; words that no file can have for a name are none."""
    try:
        return Path(word).exists()
    except OSError:
        return False


def _without_secrets(command: str, args: Iterable[str]) -> Iterator[str]:
    """The words of a command line, quoted, with a mark in the place of each value that looks like a secret, or is named
    like one. A file is none. A word of a program that starts others, or what it assigns, must look like one: it may be
    what is started, whatever the flag or the variable before it is called."""
    from codecall.gateway.config.names import is_runner, program_stem
    from codecall.gateway.config.secret_detection import is_secret_setting

    flag = ""
    starts_words = is_runner(program_stem(command)) or program_stem(command) in _LAUNCHERS

    def named_secret(name: str, value: str) -> bool:
        return not name.startswith("no-") and is_secret_setting(name, value)

    def masked(match: re.Match[str]) -> str:
        if match["name"] is None:
            return _SEGMENT.sub(masked_segment, match[0])
        looks_secret = not starts_words or is_secret_setting("argument", match["value"])
        if looks_secret and named_secret(match["name"], match["value"]):
            return f"{match['name']}{match['assigned']}…"
        return f"{match['name']}{match['assigned']}{_SEGMENT.sub(masked_segment, match['value'])}"

    def masked_segment(match: re.Match[str]) -> str:
        return f"{match[0][:_SHOWN_CHARS]}…" if is_secret_setting("argument", match[0]) else match[0]

    for word in (command, *args):
        plain = bool(flag) and _VALUE.fullmatch(word) is not None and re.search(r"\s", word) is None
        if plain and not starts_words and named_secret(flag, "any") and not _is_file(word):
            yield "…"
        elif plain and starts_words and is_secret_setting("argument", word):
            yield f"{word[:_SHOWN_CHARS]}…"
        else:
            masked_word = _VALUE.sub(masked, _URL_USER.sub("…", word))
            yield masked_word if _PLAIN_WORD.fullmatch(masked_word) else shlex.quote(masked_word)
        flag = parts[1] if (parts := _FLAG.fullmatch(word)) else ""


def _one_line(text: str) -> str:
    return text.replace("\r", "\\r").replace("\n", "\\n")


def _folder() -> Path:
    from platformdirs import user_data_path

    return user_data_path("codecall", appauthor=False) / "trusted"


def _real_path(file: Path) -> str:
    # A link is a file of its own: relative paths in it are those of the folder it lies in.
    return str(file.parent.resolve() / file.name)


def _record_path(file: Path) -> Path:
    return _folder() / sha256(os.fsencode(_real_path(file))).hexdigest()


def _read_record(record: Path) -> tuple[str, str] | None:
    """Path and digest of a record; None where there is none, or somebody else may have written it."""
    try:
        check_private_file(record.parent, record.parent.stat())
        check_private_file(record, record.stat())
        digest, _, name = record.read_text(encoding="utf-8", errors="surrogateescape").partition("\n")
    except OSError:
        return None
    return name, digest


def _digest(file: Path, configuration: Configuration, contents: EnvFiles) -> str:
    """A digest of everything that a file decides: made of what was read, so that later changes have no effect."""
    options = configuration.options.model_dump(exclude_unset=True)
    return sha256(repr((_real_path(file), options, contents)).encode("utf-8", "backslashreplace")).hexdigest()


def _env_files(configuration: Configuration) -> EnvFiles:
    env_files = {name: getattr(server, "env_file", None) for name, server in configuration.options.servers.items()}
    return {name: _file_digest(option) for name, option in env_files.items() if option is not None}


def _file_digest(option: str) -> tuple[str, str | None] | None:
    """The path of an `env_file` as a start reads it, and a digest of the content; None for what no start reads."""
    from codecall.gateway.config.variables import env_file_bytes, env_file_path

    path = env_file_path(option, os.environ)
    try:
        content = None if path is None else env_file_bytes(path)
    except OSError:
        content = None
    return None if path is None else (str(path), None if content is None else sha256(content).hexdigest())
