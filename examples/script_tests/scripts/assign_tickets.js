// Gives each open ticket that nobody has to the agent with the fewest, urgent ones first.

const RANK = { high: 0, normal: 1, low: 2 };

const [{ tickets }, agents] = await Promise.all([
  callTool('tickets_list', { status: 'open', limit: 50 }),
  callTool('agents_list', {}),
]);

const load = new Map(agents.filter((agent) => !agent.away).map((agent) => [agent.name, 0]));
if (load.size === 0) {
  throw new Error('nobody is there');
}
for (const ticket of tickets) {
  if (load.has(ticket.agent)) load.set(ticket.agent, load.get(ticket.agent) + 1);
}

const assigned = [];
const failed = [];
const waiting = tickets.filter((ticket) => !ticket.agent).toSorted((a, b) => RANK[a.priority] - RANK[b.priority]);
for (const { id } of waiting) {
  const [agent, count] = [...load].reduce((least, each) => (each[1] < least[1] ? each : least));
  const answer = await callTool('tickets_assign', { id, agent }, { throwOnError: false });
  if (answer.success) {
    load.set(agent, count + 1);
    assigned.push({ id, agent });
  } else {
    console.warn(`ticket ${id}: ${answer.error.code}`);
    failed.push(id);
  }
}
return { assigned, failed };
