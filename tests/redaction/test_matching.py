"""Secrets of the environment in the spellings of what quotes them."""

from __future__ import annotations

import base64
import html
import json
import re
import unicodedata
from collections.abc import Callable
from functools import partial
from itertools import product
from urllib.parse import quote, quote_plus

import pytest
from fastmcp import Client, FastMCP
from hypothesis import given, settings
from hypothesis import strategies as st

from codecall import CodeCallPlugin
from codecall.audit.events import AuditEvent
from codecall.options import SanitizationOptions
from codecall.redaction import clean
from codecall.redaction.clean import clean_text, environment_secrets, secrets_not_in
from codecall.redaction.masking import Masker, QuestionMasker
from codecall.redaction.patterns import CREDENTIAL
from codecall.traces import TraceRecorder
from codecall.traces.page import render
from tests.work import python_steps

ON = SanitizationOptions()

SECRETS = {
    "quotes": "Zx9\"qLm'Pw83hTT0aB77cd",
    "backslashes": "Zx9\\qLm\\\\Pw83\\n\\u0041hTT0",
    "line ends": "line1abcdefgh\nline2ijkl\r\nmnop",
    "letters": "schlüssel-ключ-鍵-9Kq27LmXw",
    "no letter of ASCII": "ключ-кремль-секрет",
    "beyond the first plane": "face\U0001f600of-9Kq27LmXw",
    "blanks and signs": "correct horse & battery/staple+42",
    "JSON": '{"client": "a", "key": "va\\"lue9981xxqq"}',
    "a control character": "Zx9qLm\x07Pw83hTT0aB77cd",
}

Spell = Callable[[str], str]
ENCODERS: dict[str, Spell] = {
    "raw": str,
    "JSON in ASCII": lambda text: json.dumps(text)[1:-1],
    "JSON": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "JSON of PHP": lambda text: json.dumps(text).replace("/", "\\/")[1:-1],
    "JSON of C#": lambda text: re.sub(
        "[\"'&+<>`\x7f-\uffff]", lambda match: f"\\u{ord(match[0]):04X}", text.replace("\\", "\\\\")
    ),
    "repr": lambda text: repr(text)[1:-1],
    "repr with the other quotes": lambda text: repr(f"'\"{text}")[4:-1],
    "ascii": lambda text: ascii(text)[1:-1],
    "repr of bytes": lambda text: repr(text.encode())[2:-1],
    "decomposed": partial(unicodedata.normalize, "NFD"),
    "composed": partial(unicodedata.normalize, "NFC"),
    "quote": quote,
    "quote all": partial(quote, safe=""),
    "quote_plus": quote_plus,
    "HTML": html.escape,
}


@pytest.fixture(params=SECRETS)
def secret(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    value = SECRETS[request.param]
    monkeypatch.setenv("CRM_PASSWORD", value)
    assert value in environment_secrets()
    return value


def test_a_secret_leaves_in_no_spelling(secret: str) -> None:
    for name, encode in ENCODERS.items():
        text = f"no <{encode(secret)}> today"
        assert clean_text(text, ON) == f"no <{CREDENTIAL}> today", name
        assert Masker().mask({"note": text}, "", []) == {"note": "no <masked-credential-1> today"}, name


def test_nor_in_two_on_top_of_each_other(secret: str) -> None:
    for first, second in product(ENCODERS, repeat=2):
        text = f"no <{ENCODERS[second](ENCODERS[first](secret))}> today"
        assert clean_text(text, ON) == f"no <{CREDENTIAL}> today", (first, second)


def test_nor_in_json_in_json_in_json(secret: str) -> None:
    text = secret
    for _ in range(5):
        text = json.dumps({"error": text})
        assert CREDENTIAL in clean_text(f"got {text}", ON)
        assert "9Kq27LmXw" not in (cleaned := clean_text(f"got {text}", ON))
        assert "Pw83" not in cleaned


def test_nor_in_base64(secret: str) -> None:
    for before, encode in product(("", "a", "ab", "user:"), (base64.b64encode, base64.urlsafe_b64encode)):
        cleaned = clean_text(f"got {encode(f'{before}{secret}'.encode()).decode()}", ON)
        assert CREDENTIAL in cleaned
        # What depends on the text around it stays: what stood before it, a character on each side, the padding.
        assert len(cleaned) <= len(f"got {CREDENTIAL}") + len(before) * 4 / 3 + 5


def test_a_text_is_what_it_was_around_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRM_PASSWORD", SECRETS["quotes"])
    spelled = json.dumps(SECRETS["quotes"])[1:-1]
    around = 'é %C3%BC &amp; a+b \\u00e9 \\" Grüße 👩\u200d👧'
    assert clean_text(f"{around}{spelled}{around}", ON) == f"{around}{CREDENTIAL}{around}".replace("\u200d", "")


def test_each_of_several_has_a_mark_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRM_PASSWORD", SECRETS["quotes"])
    monkeypatch.setenv("CRM_SECRET", SECRETS["letters"])
    one, two = (json.dumps([SECRETS[name], "'"]) for name in ("quotes", "letters"))
    masked = Masker().mask([f"x {one} {two}", f"y {SECRETS['letters']}", f"z {SECRETS['quotes']!r}"], "", [])
    assert masked == [
        'x ["masked-credential-1", "\'"] ["masked-credential-2", "\'"]',
        "y masked-credential-2",
        "z 'masked-credential-1'",
    ]


def test_the_longest_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRM_PASSWORD", SECRETS["quotes"])
    monkeypatch.setenv("CRM_SECRET", SECRETS["quotes"] + "-and-more")
    for spell in ENCODERS.values():
        text = f"no <{spell(SECRETS['quotes'] + '-and-more')}> today"
        assert clean_text(text, ON) == f"no <{CREDENTIAL}> today"


def test_a_credential_of_an_answer_is_found_as_well() -> None:
    password = SECRETS["quotes"]
    masker = Masker(environment=False)
    masker.learn({"password": password})
    for name, spell in ENCODERS.items():
        assert masker.mask(f"no <{spell(password)}> today", "", []) == "no <masked-credential-1> today", name


def test_a_question_shows_no_spelling_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRM_PASSWORD", "wJalrXUtnFEMI/K7MDENG+bPxRfiCY=")
    shown = QuestionMasker().mask_input(
        {"url": f"https://crm.example/?a={quote_plus('wJalrXUtnFEMI/K7MDENG+bPxRfiCY=')}"}
    )
    assert shown == {"url": "https://crm.example/?a=masked-credential-1 (31 characters)"}


def test_what_a_caller_has_written_in_any_spelling_stays(secret: str) -> None:
    for name, encode in ENCODERS.items():
        written = encode(secret)
        for data in ({"name": written}, {written: 1}, [json.dumps({"x": written})], ["a", [{"b": f"'{written}\"\\"}]]):
            assert secret not in secrets_not_in(data), name
    assert secret in secrets_not_in({"name": secret[1:]})


def test_a_tool_that_quotes_its_input_tells_no_guess(secret: str) -> None:
    for before, encode in product(["", "\\", "%", "%4", "\\u0", "&", "&#3", "a\u0301"], ENCODERS.values()):
        written = f"{before}{secret}"
        told = encode(f"no {written} today")
        assert CREDENTIAL not in clean_text(told, ON, secrets_not_in({"name": written}))


@pytest.mark.parametrize("unseen", ["\u200b", "\u00ad", "\x1b[31m", "\x00", "\x01", "\x7f", "\b"])
def test_so_does_what_has_characters_in_it_that_nobody_sees(monkeypatch: pytest.MonkeyPatch, unseen: str) -> None:
    """They do not count in an error either."""
    monkeypatch.setenv("CRM_PASSWORD", "Winter2026!Prod")
    guess = unseen.join("Winter2026!Prod")
    assert clean_text(f"no {guess}", ON) == f"no {CREDENTIAL}"
    assert clean_text(f"no {guess}", ON, secrets_not_in({"name": guess})) == f"no {guess}"


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from("aé\u0301\\\"'%2 5+&;u0nx/\n\r\u200bK\u212a😀"), max_size=60))
def test_any_text_is_cleaned(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRM_PASSWORD", 'é"ключ\\кремль+секрет')
        assert clean_text(clean_text(text, ON), ON) == clean_text(text, ON)
        assert CREDENTIAL not in clean_text(text, ON)


def test_the_work_does_not_grow_with_what_is_known() -> None:
    texts = [f"text {number}" for number in range(200)]

    def steps(credentials: int) -> int:
        masker = Masker(environment=False)
        masker.learn({"tokens": [f"Ab{number:012x}" for number in range(credentials)]})
        return python_steps(lambda: masker.mask(texts, "", []))

    assert steps(4_000) < 1.5 * steps(1_000)


@pytest.mark.parametrize("secret", ["quotes", "line ends", "letters"], indirect=True)
async def test_what_tools_quote_is_in_no_answer_record_or_trace(secret: str) -> None:
    events: list[AuditEvent] = []
    recorder = TraceRecorder()
    mcp = FastMCP("crm")

    @mcp.tool
    def fail_with_repr() -> str:
        """Fail."""
        raise ValueError(f"cannot connect with {['ann', secret]!r}")

    @mcp.tool
    def fail_with_json() -> str:
        """Fail."""
        raise ValueError(f"the server said {json.dumps({'user': 'ann', 'error': json.dumps([secret])})}")

    @mcp.tool
    def show() -> str:
        """Show the configuration."""
        return f"configured with {['ann', secret]!r} and {json.dumps(['ann', secret])}"

    audit = {"sinks": [events.append], "watchers": [recorder], "include_arguments": True, "include_results": True}
    CodeCallPlugin.init(pool={"min_workers": 0, "max_workers": 1}, audit=audit).install(mcp)
    said: list[str] = []
    async with Client(mcp) as client:
        for script in ("return await fail_with_repr()", "return await fail_with_json()"):
            result = await client.call_tool("codecall:execute", {"script": script}, raise_on_error=False)
            said.append(str((result.structured_content or {})["error"]["message"]))
        await client.call_tool("codecall:execute", {"script": "const a = await show(); console.log(a); return a"})
    trace = recorder.trace()
    assert trace is not None
    assert said[0].startswith("cannot connect with ['ann', ")
    assert all(CREDENTIAL in message for message in said)
    parts = [run for run in ("Zx9", "Pw83", "9Kq27LmXw", "line2", "va\\", "staple", "кремль") if run in secret]
    for text in (*said, *(json.dumps(event.as_dict(), ensure_ascii=False) for event in events), render(trace)):
        assert not [part for part in parts if part in text], text


@given(st.text(alphabet="a\x1b[0;m\r\n\x7f\u200b\\u001fb", max_size=120))
def test_what_nobody_sees_is_removed_in_pieces_as_in_one(text: str) -> None:
    for run, beginnings in ((clean._INVISIBLE_RUN, "\x1b\r"), (clean._JSON_CONTROLS, "\\")):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(clean, "_PIECE", 25)
            assert clean._removed(run, beginnings, text) == run.sub("", text)
