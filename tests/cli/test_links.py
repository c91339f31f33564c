"""What lies in a folder may be somebody else's: commands write through none of its links."""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from codecall.cli import exit_codes as exits
from tests.cli.conftest import CommandLine, CommandResult
from tests.cli.terminal import typed_at_terminal
from tests.cli.test_promote import JAVASCRIPT, recorded, run_ids
from tests.loaded_python import LoadedPython

START = "import pathlib, sys; pathlib.Path(sys.argv[1]).touch()"


def own_configuration(cli: CommandLine) -> Path:
    """The user's configuration, which needs no trust."""
    path = cli.folder.parent / "home" / ".config" / "codecall" / "codecall.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def hostile(cli: CommandLine) -> dict[str, object]:
    """A server that leaves a mark when it is started."""
    return {"command": sys.executable, "args": ["-c", START, str(mark(cli))]}


def mark(cli: CommandLine) -> Path:
    return cli.folder / "started"


@pytest.fixture
def cloned(cli: CommandLine) -> CommandLine:
    """In a repository of somebody else, with a file of Claude Code."""
    cli.write(".mcp.json", json.dumps({"mcpServers": {"evil": hostile(cli)}}))
    return cli


def link(cli: CommandLine, name: str, target: Path | str) -> Path:
    """A link of the repository, as git keeps one."""
    path = cli.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(os.path.relpath(target, path.parent))
    return path


def files(folder: Path) -> Mapping[str, bytes]:
    """What a folder holds."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def is_refused(ran: CommandResult, said: str) -> bool:
    """Whether a command ends with the error of files that cannot be written, and says this."""
    body = ran.json["error"]
    assert (ran.code, body["code"]) == (exits.USAGE, "CANNOT_WRITE"), body
    assert said in body["message"]
    return True


@pytest.mark.parametrize("words", [(), ("--force",)], ids=repr)
@pytest.mark.parametrize("before", [None, "", '[servers.mine]\nurl = "https://mine.example.com/mcp"\n'])
def test_init_writes_through_no_link_of_the_folder(cloned: CommandLine, before: str | None, words: tuple[str, ...]):
    own = own_configuration(cloned)
    if before is not None:
        own.write_text(before)
    there = link(cloned, "codecall.toml", own)
    ran = cloned("init", "--yes", *words, "--json")
    assert is_refused(ran, f"{there}: it is a link, to {there.readlink()}")
    assert ran.json["error"]["hint"] == "Remove the link, or name another file."
    assert there.is_symlink()
    assert (own.read_text() if own.exists() else None) == before
    assert [file.name for file in own.parent.iterdir()] == ([own.name] if before is not None else [])
    cloned("tools", "--json")
    assert not mark(cloned).exists()
    # What would be written may be looked at.
    assert cloned("init", "--dry-run").code == exits.OK


@pytest.mark.parametrize("where", ["out", "out/deeper", "inside/out", "sub/../out"])
@pytest.mark.parametrize("absolute", [False, True])
def test_init_writes_through_no_link_on_the_way(cloned: CommandLine, where: str, absolute: bool):
    own = own_configuration(cloned)
    (cloned.folder / "sub").mkdir()
    link(cloned, "out", own.parent)
    link(cloned, "inside", cloned.folder)
    path = Path(where, "codecall.toml")
    ran = cloned("init", "--yes", "-o", str(cloned.folder / path if absolute else path), "--json")
    assert is_refused(ran, f"a link on the way leads out of {cloned.folder}, to {own.parent}")
    assert not [*own.parent.iterdir()]


def test_init_follows_no_link_beside_the_folder_it_is_called_in(cloned: CommandLine, monkeypatch: pytest.MonkeyPatch):
    own = own_configuration(cloned)
    link(cloned, "out", own.parent)
    (cloned.folder / "sub").mkdir()
    monkeypatch.chdir(cloned.folder / "sub")
    assert is_refused(cloned("init", "--yes", "-o", "../out/codecall.toml", "--json"), f"leads out of {cloned.folder}")
    assert not own.exists()


def test_a_link_within_the_folder_is_followed_to_a_folder(cli: CommandLine):
    (cli.folder / "v2").mkdir()
    link(cli, "latest", cli.folder / "v2")
    assert cli("init", "--yes", "-o", "latest/codecall.toml").code == exits.OK
    assert (cli.folder / "v2" / "codecall.toml").is_file()


def test_a_user_may_keep_the_configuration_elsewhere(cli: CommandLine, monkeypatch: pytest.MonkeyPatch):
    """Of the user's own folder links stay links, and so do those on the way to it, from wherever it is named."""
    own = own_configuration(cli)
    dotfiles = cli.folder.parent / "dotfiles"
    dotfiles.mkdir()
    own.symlink_to(dotfiles / "codecall.toml")
    assert cli("init", "--yes", "-o", str(own)).code == exits.OK
    assert cli("add", "git", "--", "mcp-server-git").code == exits.OK
    assert own.is_symlink()
    assert "mcp-server-git" in (dotfiles / "codecall.toml").read_text()
    assert cli("remove", "git").code == exits.OK
    assert own.is_symlink()
    assert cli("init", "--yes", "--force", "-o", str(own)).code == exits.OK
    assert {*files(dotfiles)} == {"codecall.toml", "codecall.toml.backup-1"}
    home = cli.folder.parent / "home"
    (home / "notes").symlink_to(dotfiles)
    monkeypatch.chdir(home)
    assert cli("init", "--yes", "-o", "notes/other.toml").code == exits.OK


@pytest.mark.parametrize("named", [True, False])
def test_init_puts_nothing_of_an_untrusted_folder_where_it_counts_everywhere(cloned: CommandLine, named: bool):
    own = own_configuration(cloned)
    dotfile = cloned.folder.parent / "dotfile.toml"
    if not named:
        own.symlink_to(dotfile)
    words = ("init", "--yes", "--no-start", "-o", str(own if named else dotfile), "--json")
    ran = cloned(*words)
    assert (ran.code, ran.json["error"]["code"]) == (exits.USAGE, "UNTRUSTED_CONFIGURATION")
    assert str(cloned.folder / ".mcp.json") in ran.json["error"]["message"]
    assert not own.exists()
    assert cloned("trust", ".mcp.json").code == exits.OK
    assert cloned(*words).code == exits.OK
    assert "evil" in own.read_text()


def test_init_shows_what_it_found_as_trust_does(cloned: CommandLine):
    environment = {**os.environ, "COLUMNS": "200"}
    ended, shown = typed_at_terminal(["init"], ["n\n"], "(y)", cloned.folder, environment)
    assert ended == exits.FAILED, shown
    plain = " ".join(shown.split())
    described = cloned("trust", ".mcp.json").out.split("is trusted: ")[1]
    assert START in described
    assert "".join(described.split()) in "".join(shown.split())
    assert ".mcp.json is not trusted: somebody else may have written it" in plain


def test_a_file_of_the_project_gets_the_gateway_through_no_link(cli: CommandLine):
    own = own_configuration(cli)
    own.write_text("[servers]\n")
    cursor = cli.write("../home/.cursor/mcp.json", json.dumps({"mcpServers": {"shop": {"command": "shop"}}}))
    before = cursor.read_text()
    link(cli, ".mcp.json", cursor)
    ran = cli("clients", "write", "claude-code", "--yes", "--json")
    (left,) = ran.json["left"]
    assert (ran.code, "it is a link, to " in left["error"]) == (exits.FAILED, True)
    assert cursor.read_text() == before
    assert (cli.folder / ".mcp.json").is_symlink()


def test_a_users_file_of_a_client_stays_a_link(cli: CommandLine):
    own_configuration(cli).write_text("[servers]\n")
    dotfile = cli.write("../dotfiles/cursor.json", "{}")
    dotfile.chmod(0o644)
    link(cli, "../home/.cursor/mcp.json", dotfile)
    assert cli("clients", "write", "cursor", "--yes").code == exits.OK
    assert (cli.folder.parent / "home" / ".cursor" / "mcp.json").is_symlink()
    assert "codecall" in json.loads(dotfile.read_text())["mcpServers"]
    assert stat.S_IMODE(dotfile.stat().st_mode) == 0o644


@pytest.mark.parametrize("words", [("add", "git", "--", "mcp-server-git"), ("remove", "shop")], ids=repr)
def test_a_link_of_the_folder_is_not_edited(cli: CommandLine, words: tuple[str, ...]):
    shared = cli.write("../shared/codecall.toml", '[servers.shop]\ncommand = "shop"\n')
    there = link(cli, "codecall.toml", shared)
    assert cli("trust").code == exits.OK
    before = files(cli.folder.parent / "shared")
    assert is_refused(cli(words[0], "--json", *words[1:]), "it is a link, to ")
    assert files(cli.folder.parent / "shared") == before
    assert there.is_symlink()


def test_backups_are_written_through_no_link(cli: CommandLine):
    victim = cli.folder.parent / "victim"
    cli.write("codecall.toml", "# mine\n")
    link(cli, "codecall.toml.backup-1", victim)
    assert cli("init", "--yes", "--force", "--no-start").code == exits.OK
    assert not victim.exists()
    assert (cli.folder / "codecall.toml.backup-1").is_symlink()
    assert (cli.folder / "codecall.toml.backup-2").read_text() == "# mine\n"


def test_other_names_of_a_file_are_left_as_they_are(cli: CommandLine):
    victim = cli.write("../victim", "# theirs\n")
    (cli.folder / "codecall.toml").hardlink_to(victim)
    assert cli("add", "git", "--config", "codecall.toml", "--", "mcp-server-git").code == exits.OK
    assert victim.read_text() == "# theirs\n"
    (cli.folder / "other.toml").hardlink_to(victim)
    assert cli("init", "--yes", "--force", "-o", "other.toml").code == exits.OK
    assert victim.read_text() == "# theirs\n"
    (cli.folder / "runs.jsonl").hardlink_to(victim)
    assert "it has other names, as a hard link" in cli("serve", "--records", "runs.jsonl", "--server", "x").err


@pytest.mark.parametrize(
    "words",
    [
        ("run", "a.js", "--trace", "out/page.html"),
        ("promote", "RUN", "--records", "../runs.jsonl", "--name", "much", "--to", "out"),
        ("promote", "RUN", "--records", "../runs.jsonl", "--name", "much", "--to", "out/new"),
        ("trace", "../runs.jsonl", "-o", "out/page.html"),
        ("tools", "--server", "x", "--cache-dir", "out"),
        ("serve", "--server", "x", "--traces", "out"),
        ("serve", "--server", "x", "--traces", "out/new"),
        ("serve", "--server", "x", "--records", "out/runs.jsonl"),
    ],
    ids=" ".join,
)
def test_what_commands_write_into_the_folder_stays_there(cli: CommandLine, words: tuple[str, ...]):
    records = cli.folder.parent / "runs.jsonl"
    if "../runs.jsonl" in words:
        recorded(records, JAVASCRIPT)
        words = tuple(run_ids(records)[0] if word == "RUN" else word for word in words)
    cli.write("a.js", "return 1")
    outside = cli.folder.parent / "outside"
    outside.mkdir()
    link(cli, "out", outside)
    ran = cli(*words)
    assert f"a link on the way leads out of {cli.folder}, to {outside}" in ran.out + ran.err
    assert ran.code != exits.OK
    assert not [*outside.iterdir()]


NOTES = """
from pathlib import Path
from fastmcp import FastMCP
server = FastMCP("notes")
@server.tool
def note() -> str:
    Path(FOLDER, "notes.txt").write_text("x")
    Path(FOLDER, "late.html").mkdir()
    return "the note"
server.run()
"""


@pytest.mark.parametrize("words", [("run", "a.js"), ("composite", "run", "write")], ids=" ".join)
def test_nothing_runs_whose_trace_would_follow_a_link(
    cli: CommandLine, loaded_python: LoadedPython, words: tuple[str, ...]
):
    server = cli.write("server.py", NOTES.replace("FOLDER", repr(str(cli.folder))))
    cli.write("a.js", "return notes.note({})")
    step = {"id": "a", "tool": "notes_note", "arguments": {}}
    cli.write("workflows/write.yaml", json.dumps({"name": "write", "description": "Writes", "steps": [step]}))
    cli.write(
        "codecall.toml",
        f"[servers.notes]\ncommand = {json.dumps(loaded_python.executable)}\nargs = {json.dumps([str(server)])}\n"
        '[composite_tools]\npaths = ["workflows"]\n',
    )
    assert cli("trust").code == exits.OK
    outside = cli.folder.parent / "outside"
    outside.mkdir()
    link(cli, "out", outside)
    link(cli, "link.html", outside / "page.html")
    for page in ("out/page.html", "link.html"):
        ran = cli(*words, "--trace", page)
        assert f"Cannot write {page}: " in ran.err
        assert ran.code == exits.exit_for("CANNOT_WRITE")
        assert not (cli.folder / "notes.txt").exists()
    late = cli(*words, "--trace", "late.html")
    assert (late.code, "the note" in late.out) == (exits.exit_for("CANNOT_WRITE"), True)
    assert "Cannot write late.html: " in late.err
    assert (cli.folder / "notes.txt").exists()


def test_pictures_are_put_where_no_link_leads(cli: CommandLine):
    cli.serve(shop=["picture"])
    cli.write("a.js", "emit((await shop.picture({}))[0]); return 1")
    outside = cli.folder.parent / "outside"
    outside.mkdir()
    link(cli, "out", outside)
    ran = cli("run", "a.js", "--content", "out", "--json")
    assert "a link on the way leads out" in ran.json["content"][0]["error"]
    assert not [*outside.iterdir()]


def test_records_are_appended_to_no_link(cli: CommandLine):
    profile = cli.write("../home/.bashrc", "true\n")
    link(cli, "runs.jsonl", profile)
    ran = cli("serve", "--records", "runs.jsonl", "--server", "x")
    assert (ran.code, "it is a link, to " in ran.err) == (exits.USAGE, True)
    assert profile.read_text() == "true\n"


@pytest.mark.parametrize("name", ["desk", "desk/pending"])
def test_no_link_has_other_files_taken_for_calls_that_waited_too_long(cli: CommandLine, name: str):
    old = time.time() - 90_000
    others = [cli.write("../home/.config/settings.json", "{}"), cli.write("../home/.config/pending/it.json", "{}")]
    for other in others:
        os.utime(other, (old, old))
    link(cli, name, others[0].parent)
    cli("approvals", "--folder", "desk", "--json")
    assert all(other.exists() for other in others)
