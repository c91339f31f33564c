"""Warnings about texts of answers that a script takes for numbers or dates, and values of different kinds."""

from __future__ import annotations

import pytest

from codecall.sandbox.enclave import Enclave

VISITS = [
    {
        "no": number,
        "when": f"2026-01-{number:02d}",
        "price": f"{number * 3 + 4}.50",
        "ms": "1767225600000",
        "zip": "0150",
    }
    for number in range(1, 5)
]


def answer(name: str, arguments: dict[str, object]) -> object:
    """The tools of these scripts."""
    return {"visits": {"data": VISITS}, "list": VISITS, "none": {"data": []}}[name]


CALL = "const r = await callTool('visits', {}); "
LOOP = (
    "const all = []; for (const page of [1, 2]) { const r = await callTool('visits', { page }); all.push(...r.data); } "
)

RIGHT = [
    CALL + "let day = '2026-01-02'; day = new Date(day); return r.data.filter((v) => new Date(v.when) > day).length",
    CALL + "return r.data.filter((v) => new Date(v.when).toISOString() > '2026-01-02').length",
    CALL + "return r.data.filter((v) => new Date(v.when) > new Date('2026-01-02')).length",
    CALL + "return r.data.filter((v) => Date.parse(v.when) > Date.parse('2026-01-02')).length",
    CALL + "return r.data.filter((v) => v.when > '2026-01-02').length",
    CALL + "const day = new Date(0).toISOString().slice(0, 10); return r.data.filter((v) => v.when > day).length",
    CALL + "const rows = r.data.map((v) => ({ ...v, when: new Date(v.when) })); "
    "return rows.filter((v) => v.when > new Date('2026-01-02')).length",
    CALL + "let rows = r.data; rows = rows.map((v) => ({ ...v, when: new Date(v.when) })); "
    "return rows.filter((v) => v.when > new Date('2026-01-02')).length",
    CALL + "let { when } = r.data[0]; when = new Date(when); return when > new Date('2026-01-02')",
    CALL + "const when = new Date(r.data[0].when); return when > new Date('2026-01-02')",
    CALL + "return r.data.filter((v) => v.ms > Date.parse('2026-01-02')).length",
    CALL + "return r.data.filter((v) => v.no > new Date('2026-01-02').getDate()).length",
    CALL + "return r.data.sort((a, b) => (a.when > b.when ? 1 : -1)).length",
    CALL + "return r.data.sort((a, b) => (a.zip < b.zip ? -1 : 1)).length",
    CALL + "return r.data.sort((a, b) => a.price - b.price).length",
    CALL + "return r.data.filter((v) => v.price > 10).length",
    CALL + "return r.data.reduce((sum, v) => sum + Number(v.price), 0)",
    CALL + "return r.data.reduce((sum, v) => sum + +v.price, 0)",
    CALL + "return r.data.reduce((text, v) => text + v.price, '')",
    CALL + "return r.data.map((v) => Number(v.price)).reduce((a, b) => a + b)",
    CALL + "let n = 0; for (const v of r.data) n += parseFloat(v.price); return n",
    CALL + "const rows = r.data.map((v) => ({ price: Number(v.price) })); return rows.reduce((s, v) => s + v.price, 0)",
    CALL + "for (const v of r.data) v.price = Number(v.price); return r.data.reduce((sum, v) => sum + v.price, 0)",
    CALL + "let n = 0; return r.data.map((v) => { n += 1; return n + v.price; })",
    CALL + "let n = 0; for (const v of r.data) n += v.no; return n",
    CALL + "return r.data.map((v) => v.price + ' EUR')",
    CALL + "return r.data.map((v) => Number(v.price) + 5)",
    CALL + "return r.data.map((v) => v.zip + 1)",
    CALL + "const first = 1; return `${first + r.data[0].zip}`",
    "const r = await callTool('none', {}); return r.data.filter((v) => v.when > new Date('2026-01-02')).length",
    CALL + "return `Visits: ${JSON.stringify(r.data)} [object Object]`",
    CALL + "return `Visit: ${r.data[0].no}`",
]


@pytest.mark.parametrize("script", RIGHT)
async def test_a_right_script_has_no_warning(enclave: Enclave, script: str) -> None:
    result = await enclave.execute(script, tool_handler=answer)
    assert (result.error, result.warnings) == (None, ())


FALSE = "is always false: `v.when` is a text, and the other side a date. Write `new Date(v.when)`."
WRONG = [
    (CALL + "return r.data.filter((v) => v.when > new Date('2026-01-02')).length", FALSE),
    (CALL + "return r.data.filter((v) => new Date('2026-01-02') <= v.when).length", FALSE),
    (CALL + "return r.data.filter((v) => v.when > Date.parse('2026-01-02')).length", FALSE),
    (CALL + "const day = new Date('2026-01-02'); return r.data.filter((v) => v.when >= day).length", FALSE),
    (CALL + "const day = Date.now() - 864e5; return r.data.filter((v) => v.when >= day).length", FALSE),
    (CALL + "const day = new Date('2026-01-02').getTime(); return r.data.filter((v) => v.when < day).length", FALSE),
    (LOOP + "return all.filter((v) => v.when > new Date('2026-01-02')).length", FALSE),
    (
        CALL + "const day = new Date('2026-01-02'); return r.data.filter((v) => v.when === day).length",
        "is always false: `v.when` is a text, and the other side a date. Write `new Date(v.when).getTime()` and "
        "compare it with a number, `day.getTime()`.",
    ),
    (
        CALL + "const day = new Date('2026-01-02'); return r.data.filter((v) => v.when !== day).length",
        "is always true: `v.when` is a text",
    ),
    (CALL + "return r.data.filter(({ when }) => when > new Date('2026-01-02')).length", "Write `new Date(when)`."),
    (
        CALL + "return r.data.filter((v) => new Date(v.when) > '2026-01-02').length",
        "`new Date(v.when) > '2026-01-02'` on line 1 is always false: `'2026-01-02'` is a text, and the other side a "
        "date. Write `new Date('2026-01-02')`.",
    ),
    (
        CALL + "const day = '2026-01-02T00:00:00Z'; return r.data.filter((v) => day <= Date.parse(v.when)).length",
        "is always false: `day` is a text, and the other side a date. Write `new Date(day)`.",
    ),
    (
        CALL + "return r.data.reduce((sum, v) => sum + v.price, 0)",
        "`sum + v.price` on line 1 joins texts: `v.price` is a text. Write `sum + Number(v.price)`. visits returned",
    ),
    (LOOP + "return all.reduce((sum, v) => sum + v.price, 0)", "Write `sum + Number(v.price)`."),
    ("const r = await callTool('list', {}); return r.reduce((s, { price }) => s + price, 0)", "`s + Number(price)`"),
    (CALL + "let n = 0; for (const v of r.data) n += v.price; return n", "Write `n += Number(v.price)`."),
    (CALL + "let n = 0; for (const v of r.data) n = n + v.price; return n", "Write `n + Number(v.price)`."),
    (CALL + "return r.data.map((v) => v.price + 5)", "Write `Number(v.price) + 5`."),
    (CALL + "return r.data.map((v) => 0.5 + v.price)", "Write `0.5 + Number(v.price)`."),
    (CALL + "return r.data.map((v) => v.price).reduce((a, b) => a + b)", "Write `a + Number(b)`."),
    (
        CALL + "return r.data.sort((a, b) => (a.price > b.price ? 1 : -1))[0]",
        "compares texts, such as 10 before 9: write `Number(a.price) > Number(b.price)`.",
    ),
    (
        CALL + "let best = r.data[0]; for (const v of r.data) if (v.price > best.price) best = v; return best.no",
        "write `Number(v.price) > Number(best.price)`.",
    ),
]

SHOWN = "is shown as `[object Object]`: write one of its properties, or `JSON.stringify("
WRONG += [
    (CALL + "return `Visits: ${r}`", f"`r` on line 1 {SHOWN}r)`."),
    (CALL + "return 'Visit: ' + r.data[0]", f"`r.data[0]` on line 1 {SHOWN}r.data[0])`."),
    (CALL + "return r.data.map((v) => `- ${v}`)", f"`v` on line 1 {SHOWN}v)`."),
]


@pytest.mark.parametrize(("script", "says"), WRONG)
async def test_a_text_that_is_taken_for_something_else_is_warned_of(enclave: Enclave, script: str, says: str) -> None:
    result = await enclave.execute(script, tool_handler=answer)
    assert result.error is None
    assert len([text for text in result.warnings if says in text]) == 1, (result.value, result.warnings)


LOANS = [
    {
        "id": number,
        "book": number % 3,
        "customer": {"id": "C1"},
        "tags": ["a"],
        "open": True,
        "size": {"pages": number},
        "made": 1_760_000_000 + number,
        "lines": [{"sku": "a", "n": number}],
        "note": "x" if number else 1,
    }
    for number in range(5)
]
BOOKS = [{"id": str(number), "no": number, "customer": {"id": "C1"}} for number in range(3)]
LIBRARY = "const { items: loans, status } = await callTool('loans', {}); const books = await callTool('books', {}); "


def library(name: str, _arguments: dict[str, object]) -> object:
    return {"loans": {"items": LOANS, "status": 200}, "books": BOOKS, "find": []}[name]


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("loans.filter((l) => l.customer === 'C1').length", "false: `l.customer` is an object, and `'C1'` a text."),
        ("loans.filter((l) => l.customer == 'C1').length", "false: `l.customer` is an object"),
        ("loans.filter((l) => l.customer !== 'C1').length", "true: `l.customer` is an object"),
        ("loans.filter(({ customer }) => customer === 'C1').length", "false: `customer` is an object"),
        ("loans.filter((l) => l.tags === 'a').length", "false: `l.tags` is a list, and `'a'` a text."),
        ("loans.filter((l) => l.id === '1').length", "false: `l.id` is a number, and `'1'` a text."),
        ("loans.filter((l) => l.open === 'true').length", "false: `l.open` is a boolean, and `'true'` a text."),
        ("books.filter((b) => b.id === 1).length", "false: `b.id` is a text, and `1` a number."),
        (
            "loans.map((l) => books.find((b) => b.id === l.book) ?? 0)",
            "false: `b.id` is a text, and `l.book` a number. Write `String(b.id) === String(l.book)`.",
        ),
        ("loans.filter((l) => l.size > 2).length", "false: `l.size` is an object. Write one of its properties."),
        ("loans.filter((l) => 2 <= l.size).length", "false: `l.size` is an object."),
        ("loans.filter(({ tags }) => tags > 0).length", "compares a list with a number: write `tags.length`."),
        ("loans.length > 1 && loans[0].size > 2", "false: `loans[0].size` is an object."),
        (
            "loans.filter((l) => l.lines.includes('a')).length",
            "false: the items of `l.lines` are objects. Write `l.lines.some((item) => …)` with a property.",
        ),
        ("loans.filter((l) => l.lines.indexOf(1) >= 0).length", "-1: the items of `l.lines` are objects."),
        ("[...loans].sort((a, b) => b.size - a.size)[0].id", "is never a number: `b.size` is an object."),
        ("loans.reduce((n, l) => n + l.size * 2, 0)", "`l.size` is an object."),
        ("loans[0].customer === 'C1'", "false: `loans[0].customer` is an object, and `'C1'` a text."),
        ("loans.filter((l) => books.some((b) => b.customer === l.customer)).length", "two objects are never the same."),
        (
            "loans.reduce((n, l) => { n[l.customer] = 1; return n; }, {})",
            f"`l.customer` on line 1 {SHOWN}l.customer)`.",
        ),
        (
            "loans.map((l) => new Date(l.made).getFullYear())",
            "`new Date(l.made)` on line 1 is a day of 1970: `l.made` is in seconds. Write `new Date(l.made * 1000)`.",
        ),
        ("await callTool('find', { text: `of ${loans[0].customer}` })", "is shown as `[object Object]`"),
    ],
)
async def test_values_of_different_kinds_are_warned_of(enclave: Enclave, script: str, says: str) -> None:
    result = await enclave.execute(f"{LIBRARY}return {script}", tool_handler=library)
    assert result.error is None
    assert len([text for text in result.warnings if says in text]) == 1, (result.value, result.warnings)


@pytest.mark.parametrize(
    "script",
    [
        "loans.filter((l) => l.customer.id === 'C1').length",
        "loans.filter((l) => l.id == '1').length",
        "loans.filter((l) => l.id === '1' || l.id === 1).length",
        "loans.filter((l) => String(l.id) === '1').length",
        "loans.filter((l) => l.note === 'x').length",
        "loans.filter((l) => l.customer === null).length",
        "status === 'ok'",
        "loans === 'none'",
        "[...loans].sort((a, b) => b.size.pages - a.size.pages)[0].id",
        "loans.filter((l) => loans.find((x) => x.customer === l.customer).id === l.id).length",
        "loans.reduce((n, l) => { n[l.customer.id] = 1; return n; }, {})",
        "loans.map((l) => new Date(l.made * 1000).getFullYear())",
        "loans.map((l) => ({ made: l.made * 1000 })).map((l) => new Date(l.made).getFullYear())",
        "loans.filter((l) => l.size.pages > 2 && l.tags.length > 0).length",
        "loans.filter((l) => l.tags.includes('a')).length",
        "loans.filter((l) => l.lines.map((line) => line.sku).includes('a')).length",
        "loans.filter((l) => l.lines.includes(l.lines[0])).length",
        "loans.map((l) => ({ size: l.size.pages })).filter((l) => l.size > 2).length",
        "loans.map((l) => books.find((b) => b.no === l.book).id)",
        "loans.map((l) => ({ ...l, id: String(l.id) })).filter((l) => l.id === '1').length",
        "loans.filter((l) => (typeof l.customer === 'string' ? l.customer === 'C1' : l.customer.id === 'C1')).length",
    ],
)
async def test_values_that_may_be_equal_have_no_warning(enclave: Enclave, script: str) -> None:
    result = await enclave.execute(f"{LIBRARY}return {script}", tool_handler=library)
    assert (result.error, result.warnings) == (None, ())


async def test_many_comparisons_cost_little(enclave: Enclave) -> None:
    lines = "n += v.price > w.price || v.when > day ? 1 : 0; w = v; n += w.price;\n" * 700
    script = f"{CALL}let n = 0, v = r.data[0], w = r.data[1]; let day = new Date('2026-01-02'); {lines}return n"
    result = await enclave.execute(script, tool_handler=answer)
    assert result.error is None
    assert len(result.warnings) <= 3
