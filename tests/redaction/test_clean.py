"""What error texts lose, and what they keep."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codecall.errors import ScriptError, ToolCallError, WorkerStartupError
from codecall.options import SanitizationOptions
from codecall.redaction import clean as redaction
from codecall.redaction.clean import (
    MAX_DEPTH,
    MAX_KNOWN_CLEAN,
    MAX_NODES,
    MAX_TEXT_CHARS,
    clean_error,
    clean_text,
    clean_value,
    well_formed,
)
from codecall.redaction.patterns import CREDENTIAL, PATTERNS, STACK, RedactionRule
from codecall.redaction.threaded import MAX_QUICK_CHARS

ON = SanitizationOptions()
OFF = SanitizationOptions(remove_stack_traces=False, remove_file_paths=False)


@pytest.mark.parametrize("row", PATTERNS, ids=lambda row: row.name)
def test_each_row_does_what_its_example_says(row: RedactionRule) -> None:
    assert clean_text(row.example, ON) == row.expected


@pytest.mark.parametrize("row", PATTERNS, ids=lambda row: row.name)
def test_each_row_is_what_removes_its_example(row: RedactionRule) -> None:
    assert row.pattern.search(row.example)


@pytest.mark.parametrize("row", PATTERNS, ids=lambda row: row.name)
def test_each_row_obeys_its_switch(row: RedactionRule) -> None:
    assert clean_text(row.example, OFF) == row.example
    others = {"remove_stack_traces": True, "remove_file_paths": True, row.option: False}
    assert (
        row.pattern.search(clean_text(row.example, SanitizationOptions(**others))) or row.option == "remove_file_paths"
    )


ORDINARY = [
    "User 42 not found",
    "status must be one of open/closed",
    "Input should be 'open', 'closed' or 'won'",
    "see https://example.com/docs/errors?code=404#top",
    "GET https://api.example.com:8443/v1/users/42 answered 404 Not Found",
    "GET /users/42 answered 404 Not Found",
    "POST /api/v1/companies: 422",
    "due 2024/01/31, started 2024-01-31T10:20:30Z at 10:30:15",
    "the ratio is 3/4, and/or 16:9",
    "Tool 'users:list' was not found; did you mean 'users:get'?",
    "Tool 'crm_users_list' was not found",
    "content type application/json is not text/plain",
    "ui://widgets/chart and config://app are resources",
    "password: must have at least 12 characters",
    "token: Field required",
    "secret: Input should be a valid string",
    "max_tokens=4096 is more than the limit of 2048",
    "Invalid token: expected a number",
    "Bearer authentication is required",
    "basic authentication-required",
    "version 10.2.1 is older than 10.2.2",
    "build 10.0.19041.1110 is not supported",
    "8.8.8.8:53 did not answer",
    "172.15.0.1 and 172.32.0.1 are public",
    "2001:db8::1 did not answer",
    "meet at noon (room 12)",
    "at most 10 items (found 12)",
    "mail ann@example.com: no answer",
    "line 3, column 14: unexpected ','",
    "cost is $3.50/unit; 50% off",
    "std::vector is not JSON",
    "C: drive full",
    "HTTPSConnectionPool(host='api.example.com', port=443): Max retries exceeded",
    "settings.local is missing",
    "\tindented\n\n  text  stays",
    "#1 of 3 (12): ok"[:7],
    "",
]


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_messages_stay_as_they_are(text: str) -> None:
    assert clean_text(text, ON) == text


LEAKS = [
    ("open '/var/lib/crm/orders.sqlite3' failed", "/var"),
    ("ENOENT:/etc/passwd", "passwd"),
    ("ENOENT: no such file or directory, open '/srv/x/y z'", "/srv"),
    ("~/.ssh/id_rsa is not readable", ".ssh"),
    ("/opt/acme-crm/releases/7/crm/api.py:120", "acme"),
    ("D:\\crm\\a.txt:12", "crm"),
    ("C:/Users/ann/a.txt", "ann"),
    ("node_modules/pg/lib/client.js:132:7", "client"),
    ("http://192.168.1.20/admin", "192"),
    ("mongodb+srv://u:p4ss@cluster0.example.net/db", "p4ss"),
    ("redis://:p4ss@cache.example.com:6379/0", "p4ss"),
    ("connect ECONNREFUSED 127.0.0.1:5432", "127"),
    ('connection to server at "db-main" (10.1.2.3), port 5432 failed', "db-main"),
    ("users.prod.svc.cluster.local: no route", "prod"),
    ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY", "wJal"),
    ("password: hunter2-and-more", "hunter2"),
    ("{'password': 'hunter'}", "hunter"),
    ("client_secret=abc&grant=x", "abc"),
    ("Cookie: session=8f14e45fceea; x", "8f14"),
    ("Authorization: Basic dXNlcjpwYXNzd29yZDE=", "dXNl"),
    ("key sk-proj-aaaabbbbccccddddeeee is wrong", "aaaabbbb"),
    ("ghp_0123456789abcdefghij0123456789abcdef", "0123"),
]


@pytest.mark.parametrize(("text", "secret"), LEAKS)
def test_what_must_not_leave_does_not(text: str, secret: str) -> None:
    assert secret not in clean_text(text, ON)


def test_consecutive_frames_leave_one_mark() -> None:
    frames = "\n".join(f"    at f{i} (/srv/app/a.js:{i}:1)" for i in range(1, 20))
    assert clean_text(f"Error: boom\n{frames}", ON).count(STACK) == 1


def test_a_long_text_is_cut_between_words_and_says_so() -> None:
    text = "word " * MAX_TEXT_CHARS
    cleaned = clean_text(text, ON)
    head, _, tail = cleaned.partition("…[truncated ")
    assert len(head) <= MAX_TEXT_CHARS
    assert head.endswith("word")
    assert tail == f"{len(text) - len(head)} characters]"


def test_a_cut_never_leaves_half_a_credential() -> None:
    key = "AKIAIOSFODNN7EXAMPLE"
    text = "x" * 100 + " " + "y " * ((MAX_TEXT_CHARS - 112) // 2) + key + " z" * 100
    assert len(text[: text.index(key)]) < MAX_TEXT_CHARS < text.index(key) + len(key)
    assert "AKIA" not in clean_text(text, ON)


@pytest.mark.parametrize("spell", [str, lambda secret: json.dumps(secret)[1:-1], quote], ids=["plain", "JSON", "URL"])
@pytest.mark.parametrize("before", [3_600, 3_980, 3_999])
def test_a_cut_never_leaves_half_a_secret_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, before: int, spell: Callable[[str], str]
) -> None:
    """One with blanks, at which texts are cut, too."""
    secret = "correct horse battery stäple 93 " * 20 + "end"
    monkeypatch.setenv("DB_PASSWORD", secret)
    cleaned = clean_text("y " * (before // 2) + spell(secret) + " z" * 4_000, ON)
    assert "horse" not in cleaned
    assert CREDENTIAL in cleaned or "…[truncated " in cleaned


@pytest.mark.parametrize("before", [3_900, 3_940, 3_980, 3_999])
@pytest.mark.parametrize("filler", ["y ", "yyyyyyyyyy"])
@pytest.mark.parametrize(
    ("secret", "part"),
    [
        ('{"password": "correct horse battery staple 99 zebra crossing"}', "horse"),
        ("{'name': 'X-Api-Key', 'value': 'correct horse battery staple 99 zebra crossing'}", "horse"),
        ("<password>correct horse battery staple 99 zebra crossing</password>", "horse"),
        (f" ghp_{'aB3' * 12} ", "ghp_aB3"),
        ("postgresql://ann:hunter2345678@db.example.com/x", "hunter"),
        ("Authorization: Bearer abcdefghijklmnop0123456789", "abcdefg"),
    ],
)
def test_a_cut_falls_in_nothing_that_is_removed(secret: str, part: str, filler: str, before: int) -> None:
    text = (filler * before)[:before] + " " + secret + " z" * 4_000
    cleaned = clean_text(text, ON)
    assert part not in cleaned
    assert "…[truncated " in cleaned
    assert len(cleaned) > 2_000


def test_a_cut_leaves_no_half_of_a_secret_with_invisible_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_PASSWORD", secret := "correct-horse-9348-zebra")
    spelled = "\u200b".join(secret)
    for before in range(3_950, 4_000, 7):
        assert "orse" not in clean_text("y " * (before // 2) + spelled + " z" * 4_000, ON).replace("\u200b", "")


def test_a_text_that_is_mostly_secrets_or_colors_is_cut_in_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "correct horse battery staple 93 " * 12 + "end"
    monkeypatch.setenv("DB_PASSWORD", secret)
    for before in range(0, 400, 13):
        text = "y" * before + f" {secret}" * 60 + " z" * 4_000
        cleaned = clean_text(text, ON)
        assert "horse" not in cleaned
        assert CREDENTIAL in cleaned
    colored = "".join(f"\x1b[3{number % 8}mword{number} \x1b[0m" for number in range(4_000))
    assert clean_text(colored, ON).startswith("word0 word1 ")
    assert len(clean_text(colored, ON)) > 3_500


def test_a_value_is_removed_if_its_object_names_a_secret() -> None:
    headers = [{"name": "X-Api-Key", "value": "hunter2"}, {"key": "color", "value": "red"}]
    assert clean_value(headers, ON) == [{"name": "X-Api-Key", "value": CREDENTIAL}, {"key": "color", "value": "red"}]


def test_details_are_cleaned_at_every_level() -> None:
    details = {"path": ["/home/ann/a.py", {"/home/ann/b.py": 3}], "password": "x", "n": 1, "ok": None, "f": 0.5}
    assert clean_value(details, ON) == {
        "path": ["[path]", {"[path]": 3}],
        "password": CREDENTIAL,
        "n": 1,
        "ok": None,
        "f": 0.5,
    }
    assert clean_value(details, OFF) == details


def test_details_are_bounded_with_a_mark() -> None:
    deep: object = 1
    for _ in range(MAX_DEPTH + 5):
        deep = [deep]
    assert "__truncated" in str(clean_value(deep, ON))
    wide = clean_value(list(range(MAX_NODES * 3)), ON)
    assert isinstance(wide, list)
    assert len(wide) <= MAX_NODES
    assert wide[-1] == {"__truncated": {"items": MAX_NODES * 3 - (len(wide) - 1)}}
    many = clean_value({str(i): i for i in range(MAX_NODES * 3)}, ON)
    assert isinstance(many, dict)
    assert "__truncated" in many


HOSTILE = [
    "/home",
    "/a",
    "a-",
    "at ",
    "C:\\",
    "a.",
    "..",
    " ",
    "\n",
    "=",
    "password",
    "://",
    "eyJ",
    "[",
    "10.",
    "fe80:",
    'File "',
    "x:",
    "@",
    "\t",
    "(",
    "Server=a;",
    "-----BEGIN PRIVATE KEY-----",
    "\\\\",
    "~/",
    "node_modules/",
    "1",
    "<password>",
    "&lt;token",
    "]]>",
    '\\"',
    "token:\\'",
    "b'",
    "：",
    "mysql -",
    "' -p",
    "dp.st.",
]


def seconds(pattern: re.Pattern[str], text: str) -> float:
    """Processor time of this thread for removing all that `pattern` finds."""
    began = time.thread_time()
    pattern.sub("", text)
    return time.thread_time() - began


def assert_linear(pattern: re.Pattern[str], piece: str) -> None:
    """Repetitions of `piece` take no more than linear time."""

    def text(chars: int) -> str:
        return piece * (chars // len(piece)) + "\x00"

    took = part = 0.0
    for _ in range(3):
        took, part = seconds(pattern, text(MAX_TEXT_CHARS * 4)), 0.0
        if took < 0.03:
            return
        part = seconds(pattern, text(MAX_TEXT_CHARS))
        # Quadratic would be 16 times.
        if took < 8 * part:
            return
    raise AssertionError(f"{piece!r}: {part:.3f} s for a quarter, {took:.3f} s for all")


@pytest.mark.parametrize("row", PATTERNS, ids=lambda row: row.name)
def test_each_pattern_takes_linear_time(row: RedactionRule) -> None:
    """No repetition of a hostile piece, alone or in a pair, makes one row try every pair of places in the text."""
    for first in HOSTILE:
        for second in (first, "a", "/", " "):
            assert_linear(row.pattern, first + second)


def test_a_pattern_that_takes_quadratic_time_would_be_seen() -> None:
    with pytest.raises(AssertionError, match="for a quarter"):
        assert_linear(re.compile("a.*b"), "a.")


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=400))
def test_any_text_is_cleaned_and_stays_clean(text: str) -> None:
    once = clean_text(text, ON)
    assert clean_text(once, ON) == once


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([row.example for row in PATTERNS] + ORDINARY), min_size=1, max_size=4))
def test_any_mix_of_examples_leaves_nothing_behind(parts: list[str]) -> None:
    cleaned = clean_text("\n".join(parts), ON)
    for secret in ("s3cret", "hunter2", "/home/ann", "/srv/", "10.0.3.7", "AKIA", "MIIEow", "8f14e45", "eyJ"):
        assert secret not in cleaned


surrogates = st.text(st.sampled_from("a /\ud800\udbff\udc80\udfff\U0001f600"), max_size=30)


@settings(max_examples=150, deadline=None)
@given(surrogates)
def test_every_text_leaves_well_formed(text: str) -> None:
    sent = well_formed(text)
    assert sent.encode().decode() == sent
    assert sent.count("\U0001f600") >= text.count("\U0001f600")
    clean_text(text, ON).encode()
    msgspec.json.encode(clean_value({text: [text]}, ON))


def test_half_a_pair_is_replaced_and_a_whole_pair_joined() -> None:
    assert well_formed("x\udc80.txt") == "x\ufffd.txt"
    assert well_formed("\ud83d\ude00 \ud83d") == "\U0001f600 \ufffd"
    assert clean_text("no x\udc80.txt", SanitizationOptions(remove_stack_traces=False, remove_file_paths=False)) == (
        "no x\ufffd.txt"
    )


def test_every_text_of_an_error_is_cleaned() -> None:
    tool = ToolCallError("at /home/ann/a", tool_name="t", details={"a": ["/home/ann/a"]}, hint="see /home/ann/a")
    script = ScriptError("at /home/ann/a", name="/home/ann/a", hint="see /home/ann/a")
    worker = WorkerStartupError("at /home/ann/a", hint="Run `/home/ann/python -m x`")
    for error in (tool, script, worker):
        clean_error(error, OFF)
        assert "/home/ann" in str(error.as_dict())
        for _ in range(2):
            clean_error(error, ON)
            assert "/home/ann" not in str(error.as_dict())
    assert tool.as_dict()["details"] == {"a": ["[path]"]}
    assert worker.hint == "Run `[path] -m x`"


# ------------------------------------------------------------------------------------------------------- what is kept


def kept(text: str) -> bool:
    """Whether a text is remembered to have nothing to lose."""
    return any(text in known for known, _ in redaction._KNOWN_CLEAN)


def test_a_secret_that_comes_later_is_removed_from_a_text_that_was_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "the answer was kept-for-later-7"
    for _ in range(2):
        assert clean_text(text, ON) == text
        assert kept(text)
    monkeypatch.setenv("LATE_SECRET", "kept-for-later-7")
    for _ in range(2):
        assert clean_text(text, ON) == f"the answer was {CREDENTIAL}"
    monkeypatch.delenv("LATE_SECRET")
    assert clean_text(text, ON) == text


def test_what_is_clean_by_some_rules_is_not_by_others() -> None:
    text = "clean to some: /home/ann/other-rules"
    paths = SanitizationOptions(remove_stack_traces=False, remove_file_paths=True)
    stacks = SanitizationOptions(remove_stack_traces=True, remove_file_paths=False)
    for _ in range(2):
        assert clean_text(text, OFF) == clean_text(text, stacks) == text
        assert "/home/ann" not in clean_text(text, paths)
        assert "/home/ann" not in clean_text(text, ON)


@pytest.mark.parametrize("row", PATTERNS, ids=lambda row: row.name)
def test_a_text_that_has_lost_something_is_not_kept(row: RedactionRule) -> None:
    redaction._KNOWN_CLEAN.clear()
    for _ in range(2):
        assert clean_text(row.example, ON) == row.expected
        assert not kept(row.example)


def test_what_is_kept_is_bounded() -> None:
    for number in range(MAX_KNOWN_CLEAN + 20):
        assert clean_text(f"text {number} of many", ON) == f"text {number} of many"
    assert len(redaction._KNOWN_CLEAN) == MAX_KNOWN_CLEAN
    assert kept(f"text {MAX_KNOWN_CLEAN + 19} of many")
    assert not kept("text 7 of many")
    for length, fits in ((MAX_QUICK_CHARS, True), (MAX_QUICK_CHARS + 1, False)):
        text = "y" * length
        assert clean_text(text, ON) == text
        assert kept(text) == fits


def test_threads_clean_at_the_same_time() -> None:
    """As the details of two scripts' errors do."""
    redaction._KNOWN_CLEAN.clear()
    for number in range(MAX_KNOWN_CLEAN):
        redaction._KNOWN_CLEAN[f"{number} before", (True, True)] = None

    def clean(thread: int) -> list[str]:
        return [clean_text(f"{thread} {number}", ON) for number in range(300)]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            assert [len(set(texts)) for texts in threads.map(clean, range(4))] == [300] * 4
    finally:
        sys.setswitchinterval(interval)
    assert len(redaction._KNOWN_CLEAN) == MAX_KNOWN_CLEAN
