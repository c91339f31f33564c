"""A script that reads: its calls were recorded once, and are replayed."""

import pytest

pytestmark = pytest.mark.codecall(preset="balanced")


def test_late_tickets_by_agent(script, recording):
    recording("recordings/stale_tickets.json")
    assert script("stale_tickets.js").run().value == {
        "bob": ["#2 Invoice has the wrong address: 5 days late"],
        "nobody": ["#4 Dark mode: 15 days late", "#5 Charged twice: 1 days late"],
        "cleo": ["#7 Webhook is late: 2 days late"],
    }


def test_of_one_priority(script, recording):
    recording("recordings/stale_tickets.json")  # the same calls, so the same recording
    assert script("stale_tickets.js").run(context={"only": "low"}).value == {"nobody": ["#4 Dark mode: 15 days late"]}


def test_nothing_is_late(script, tool_stub, resource_stub):
    resource_stub("desk://targets", returns={"high": 99})
    tool_stub("tickets_list", returns={"tickets": [], "next_offset": None})
    result = script("stale_tickets.js").run()
    assert result.value == {}
    assert result.logs == ["nothing is late"]
