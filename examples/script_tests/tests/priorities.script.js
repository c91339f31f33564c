// How tickets are ranked: small programs that state how they end.

--- ranks by priority
const RANK = { high: 0, normal: 1, low: 2 };
return ['low', 'high', 'normal'].toSorted((a, b) => RANK[a] - RANK[b]);
//= ["high", "normal", "low"]

--- a ticket without an agent is nobody's
//@ tool: tickets_list {"tickets": [{"id": 4, "agent": null}], "next_offset": null}
const { tickets } = await callTool('tickets_list', { status: 'open' });
return tickets[0].agent ?? 'nobody';
//= "nobody"

--- scripts do not reach the network
fetch('https://reports.example'); //! IllegalBuiltinAccess
