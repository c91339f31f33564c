"""A script that changes something: stubs say what there is, and what happens to it."""

import pytest
from helpdesk import create


def ticket(number, priority="normal", agent=None):
    row = {"id": number, "subject": f"Ticket {number}", "status": "open", "priority": priority}
    return {**row, "agent": agent, "idle_days": 0}


@pytest.fixture
def desk(tool_stub):
    """Two agents and some tickets; the stubs are checked against the server's own schemas."""
    tool_stub.from_server(create())
    tool_stub("agents_list", returns=[{"name": "ann", "away": False}, {"name": "cleo", "away": True}])

    def there_are(*tickets):
        tool_stub("tickets_list", returns={"tickets": list(tickets), "next_offset": None})

    return there_are


def test_urgent_ones_first(script, tool_stub, desk):
    desk(ticket(1, "low"), ticket(2, "high"), ticket(3, agent="ann"))
    tool_stub("tickets_assign", side_effect=lambda given: ticket(given["id"], agent=given["agent"]))

    result = script("assign_tickets.js").run()

    assert result.value == {"assigned": [{"id": 2, "agent": "ann"}, {"id": 1, "agent": "ann"}], "failed": []}
    assert tool_stub.calls.of("tickets_assign").inputs == [{"id": 2, "agent": "ann"}, {"id": 1, "agent": "ann"}]
    assert tool_stub.calls.of("*_list").max_concurrent == 2


def test_goes_on_where_one_cannot_be_assigned(script, tool_stub, desk):
    desk(ticket(1), ticket(2))
    tool_stub("tickets_assign", when={"id": 1}, raises={"code": "NO_SUCH_TICKET", "message": "gone"})
    tool_stub("tickets_assign", when={"id": 2}, returns=ticket(2, agent="ann"))

    result = script("assign_tickets.js").run()

    assert result.value == {"assigned": [{"id": 2, "agent": "ann"}], "failed": [1]}
    assert result.logs == ["[warn] ticket 1: NO_SUCH_TICKET"]


def test_nobody_is_there(script, tool_stub):
    tool_stub("tickets_list", returns={"tickets": [], "next_offset": None})
    tool_stub("agents_list", returns=[{"name": "cleo", "away": True}])
    result = script("assign_tickets.js").run()
    assert (result.code, result.error.message) == ("EXECUTION_ERROR", "nobody is there")
