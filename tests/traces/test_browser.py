"""Pages in a real browser."""

from __future__ import annotations

from typing import Any

import pytest

from codecall.traces import Trace
from codecall.traces.chart import axis_length_ms
from tests.traces.conftest import Open
from tests.traces.examples import ATTACKS, many, written

BARS = """[...document.querySelectorAll('#chart a[data-call] > rect')].map((bar) => {
  const box = bar.getBoundingClientRect(), axis = bar.ownerSVGElement.getBoundingClientRect();
  return [Number(bar.parentNode.dataset.call), (box.left - axis.left) / axis.width, box.width / axis.width, box.top];
})"""

# The colours of all texts, with what they stand on; a bar is what its name stands on.
CONTRASTS = """(() => {
  for (const details of document.querySelectorAll('details')) details.open = true;
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const channels = (colour) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => [r, g, b].map((c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = channels(getComputedStyle(at).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255, 255];
  };
  const found = {};
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const element = node.parentElement, style = getComputedStyle(element);
    if (!node.data.trim() || element.closest('script, title, [hidden]')) continue;
    const inSvg = element instanceof SVGElement;
    let ground = behind(inSvg ? element.ownerSVGElement : element);
    const bar = element.closest('.name') && element.closest('a').querySelector('rect');
    if (bar) { const fill = channels(getComputedStyle(bar).fill); if (fill[3] === 255) ground = fill; }
    const [a, b] = [light(channels(inSvg ? style.fill : style.color)), light(ground)].sort((x, y) => y - x);
    const key = `${element.tagName}.${element.className.baseVal ?? element.className}`;
    found[key] = Math.min(found[key] ?? 99, (a + 0.05) / (b + 0.05));
  }
  return found;
})()"""

FOCUS = "((at) => (at.id || `${at.tagName}:${at.textContent}`).slice(0, 40))(document.activeElement)"
STYLE = "getComputedStyle(document.body).backgroundColor"


def test_a_real_run_in_light_and_dark(show: Open, runs: list[Trace]):
    light, dark = show(runs[0]), show(runs[1], scheme="dark")
    assert light.get("document.title") == f"{runs[0].run_id}: ok"
    assert light.get(STYLE) == "rgb(255, 255, 255)"
    assert dark.get(STYLE) == "rgb(21, 24, 29)"
    for page, lines in ((light, 18), (dark, 9)):
        assert page.complaints() == []
        assert page.requested() == []
        assert page.get("document.querySelectorAll('.script > li').length") == lines
        assert page.get("document.documentElement.scrollWidth <= innerWidth")


def test_bars_are_where_the_times_are(show: Open, runs: list[Trace]):
    page = show(runs[0])
    whole = axis_length_ms(runs[0])
    bars = {int(number): (left, width, top) for number, left, width, top in page.get(BARS)}
    assert len(bars) == len(runs[0].calls)
    for call in runs[0].calls:
        assert call.start_ms is not None
        assert call.end_ms is not None
        left, width, _ = bars[call.number]
        assert left == pytest.approx(call.start_ms / whole, abs=0.002)
        assert width == pytest.approx((call.end_ms - call.start_ms) / whole, abs=0.002)
    assert len({bars[number][2] for number in range(3, 10)}) == 7, "calls at the same time are in lanes of their own"


def test_everything_can_be_done_with_the_keyboard(show: Open, runs: list[Trace]):
    page = show(runs[0])
    stops: list[str] = []
    for _ in range(60):
        page.press("Tab", 9)
        stops.append(page.get(FOCUS))
        if stops[-1].startswith("SUMMARY:14"):
            break
    assert stops[:2] == ["theme", "chart"]
    assert [stop for stop in stops if stop.startswith("BUTTON")] == ["BUTTON:Open all", "BUTTON:Close all"]
    assert len([stop for stop in stops if stop.startswith("SUMMARY")]) == 14
    # A call by its own line
    is_open = "document.querySelector('#call-14 details').open"
    page.press("Enter", 13)
    assert page.get(is_open)
    assert page.get("document.querySelector('#call-14 pre').getBoundingClientRect().height > 20")
    page.press("Enter", 13)
    assert not page.get(is_open)
    # and by the chart
    page.get("document.getElementById('chart').focus()")
    for key, code in (("End", 35), ("ArrowLeft", 37), ("Home", 36), ("ArrowRight", 39)):
        page.press(key, code)
    assert page.get("document.getElementById('about').textContent").startswith("2. regions_list, from ")
    page.press("Enter", 13)
    page.settled()
    assert page.get("document.querySelector('#call-2 details').open")
    assert page.get(FOCUS).startswith("SUMMARY:2regions_list")
    # All of them
    for label, count in (("Open all", 14), ("Close all", 0)):
        page.get(f"[...document.querySelectorAll('button')].find((one) => one.textContent === '{label}').focus()")
        page.press(" ", 32)
        assert page.get("document.querySelectorAll('details[open]').length") == count
    # Light and dark
    page.get("document.getElementById('theme').focus()")
    for ground, pressed in (("rgb(21, 24, 29)", "true"), ("rgb(255, 255, 255)", "false")):
        page.press(" ", 32)
        assert page.get(STYLE) == ground
        assert page.get("document.getElementById('theme').getAttribute('aria-pressed')") == pressed
    assert page.complaints() == []


def test_it_can_be_read_without_javascript_and_on_paper_and_on_a_small_screen(show: Open, runs: list[Trace]):
    page = show(runs[1], script=False)
    assert page.get("[...document.querySelectorAll('button')].every((one) => one.getBoundingClientRect().height === 0)")
    assert page.get("document.querySelector('.failing .failure').innerText").startswith(
        "TOOL_EXECUTION_ERROR at column"
    )
    shown_text = "document.querySelector('#call-1 pre').checkVisibility()"
    assert not page.get(shown_text)
    page.do("Emulation.setEmulatedMedia", media="print")
    assert page.get(shown_text)
    assert not page.get("document.querySelector('#call-1 details').open")
    page.do("Emulation.setEmulatedMedia", media="screen")
    page.do("Emulation.setDeviceMetricsOverride", width=390, height=800, deviceScaleFactor=1, mobile=False)
    page.settled()
    assert page.get("document.documentElement.scrollWidth") <= 390
    assert page.complaints() == []


def test_a_hostile_page_does_nothing(show: Open):
    page = show(written("\n".join(ATTACKS)))
    page.get("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    page.settled()
    assert page.get("window.stolen") is None
    assert page.get("document.querySelectorAll('img, iframe, link, base, object, form').length") == 0
    assert page.get("document.querySelectorAll('script, style').length") == 2
    assert page.requested() == []
    assert page.complaints() == []
    assert page.get("document.body.textContent.includes('\\u202e')") is False


def test_its_policy_holds_even_if_something_got_in(show: Open):
    page = show(written("x"))
    page.get("""(() => {
      const add = (name, more) => document.body.append(Object.assign(document.createElement(name), more));
      add('script', { textContent: 'window.stolen = 1' });
      add('img', { src: 'http://127.0.0.1:9/x.png' });
      add('style', { textContent: 'body { background: rgb(1, 2, 3) !important }' });
      add('div', { innerHTML: '<b onclick="window.stolen = 1" style="position: fixed">x</b>' });
      document.querySelector('b').click();
    })()""")
    assert page.get("fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused')") == "refused"
    assert page.get("window.stolen") is None
    assert page.get(STYLE) == "rgb(255, 255, 255)"
    assert page.get("getComputedStyle(document.querySelector('b')).position") == "static"
    assert any("Content Security Policy" in text or "contentSecurityPolicy" in text for text in page.complaints())


def test_ten_thousand_calls_open(show: Open):
    page = show(many(10_000, 5_000_000))
    assert page.loading_s < 15
    assert page.get("document.querySelectorAll('#chart a[data-call]').length") == 10_000
    assert page.get("document.body.innerText.includes('8,000 calls are not listed: of 10,000')")
    page.get("document.getElementById('chart').focus()")
    page.press("End", 35)
    assert page.get("document.getElementById('about').textContent").startswith("10000. ")
    assert page.complaints() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_stand_out_from_what_they_stand_on(show: Open, scheme: str):
    matches: dict[str, Any] = show(written("\u202e some text"), scheme=scheme).get(CONTRASTS)
    assert len(matches) > 30
    assert {key: ratio for key, ratio in matches.items() if ratio < 4.5} == {}


def test_what_can_be_used_has_a_name(show: Open, runs: list[Trace]):
    page = show(runs[1])
    page.do("Accessibility.enable")
    page.settled()  # the tree follows the page
    nodes = page.do("Accessibility.getFullAXTree")["nodes"]
    named = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in nodes
        if not node.get("ignored")
        and node["role"]["value"] in ("button", "link", "heading", "region", "group", "DisclosureTriangle")
    ]
    roles = {role for role, _ in named}
    assert {"button", "link", "heading", "region", "DisclosureTriangle"} <= roles
    assert [role for role, name in named if role != "group" and not name] == []
    assert ("heading", "Timeline") in named
