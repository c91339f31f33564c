// Open tickets that are late, by agent; the worst first.
// context: { only?: "high" | "normal" | "low" }

const targets = await readResource('desk://targets');

let tickets = [];
let offset = 0;
while (offset !== null) {
  const page = await callTool('tickets_list', { status: 'open', limit: 4, offset });
  tickets = [...tickets, ...page.tickets];
  offset = page.next_offset;
}

const late = tickets
  .filter((ticket) => !codecallContext.only || ticket.priority === codecallContext.only)
  .map((ticket) => ({ ...ticket, late: ticket.idle_days - targets[ticket.priority] }))
  .filter((ticket) => ticket.late > 0);

if (late.length === 0) {
  console.log('nothing is late');
  return {};
}

const byAgent = Object.groupBy(late, (ticket) => ticket.agent ?? 'nobody');
return Object.fromEntries(
  Object.entries(byAgent).map(([agent, items]) => [
    agent,
    items.toSorted((a, b) => b.late - a.late).map(({ id, subject, late }) => `#${id} ${subject}: ${late} days late`),
  ]),
);
