// What the provider's client makes of our sessions: node managed_agents.mjs URL KEY AGENT. Prints one JSON object.

import Anthropic from "@anthropic-ai/sdk";

const [url, apiKey, agent] = process.argv.slice(2);
const client = new Anthropic({ baseURL: `${url}/managed-agents`, apiKey });
const { agents, sessions } = client.beta;

const listed = [];
for await (const each of agents.list()) listed.push(each.id);
const environments = [];
for await (const each of client.beta.environments.list()) environments.push(each.id);

const input_schema = { type: "object", properties: { about: { type: "string" } } };
const tool = { type: "custom", name: "pick_color", description: "Pick a color.", input_schema };
const session = await sessions.create({
  agent: { type: "agent_with_overrides", id: agent, tools: [tool] },
  environment_id: environments[0],
  title: "Colors",
});

/** What to answer to an event that waits. */
function answerTo(event) {
  const content = [{ type: "text", text: "it is blue" }];
  return event.type === "agent.custom_tool_use"
    ? { type: "user.custom_tool_result", custom_tool_use_id: event.id, content }
    : { type: "user.tool_confirmation", tool_use_id: event.id, result: "allow" };
}

const streamed = [];
const stream = await sessions.events.stream(session.id);
const content = [{ type: "text", text: "Which color? Write it to Bob." }];
await sessions.events.send(session.id, { events: [{ type: "user.message", content }] });
for await (const event of stream) {
  streamed.push(event);
  if (event.type !== "session.status_idle") continue;
  if (event.stop_reason.type !== "requires_action") break;
  const waiting = streamed.filter(({ id }) => event.stop_reason.event_ids.includes(id));
  await sessions.events.send(session.id, { events: waiting.map(answerTo) });
}
stream.controller.abort();

const kept = [];
for await (const each of sessions.events.list(session.id, { limit: 2 })) kept.push(each.id);
const { title, status, usage } = await sessions.retrieve(session.id);
const refused = await sessions.create({ agent: "messages:none", environment_id: "env_default" }).then(
  () => null,
  (error) => [error instanceof Anthropic.NotFoundError, error.status, error.type],
);
const deployment = await client.beta.deployments.create({
  name: "Report",
  agent,
  environment_id: environments[0],
  initial_events: [{ type: "user.message", content: [{ type: "text", text: "What changed?" }] }],
  schedule: { type: "cron", expression: "0 0 1 1 *", timezone: "UTC" },
});
const { session_id, trigger_context } = await client.beta.deployments.run(deployment.id);
const begun = [session_id, trigger_context.type];
for await (const each of sessions.list({ deployment_id: deployment.id })) begun.push(each.deployment_id);
const upcoming = deployment.schedule.upcoming_runs_at.length;
const ids = streamed.map(({ id }) => id);
const types = streamed.map(({ type }) => type);
const is_whole = JSON.stringify(kept) === JSON.stringify(ids);
const found = { listed, types, is_whole, title, status, usage, refused, begun, upcoming };
console.log(JSON.stringify({ id: session.id, deployment: deployment.id, ...found }));
