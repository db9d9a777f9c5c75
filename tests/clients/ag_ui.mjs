// Plays scenes with the HttpAgent of @ag-ui/client, which verifies every event, and prints what it received.

import { text } from "node:stream/consumers";
import { buildResumeArray, HttpAgent } from "@ag-ui/client";

const { url, key, scenes } = JSON.parse(await text(process.stdin));
const headers = { Authorization: `Bearer ${key}` };
const warnings = [];
console.warn = (...words) => warnings.push(words.join(" "));
console.error = (...words) => warnings.push(words.join(" "));

const received = [];
for (const scene of scenes) received.push(await play(scene));
process.stdout.write(JSON.stringify({ warnings, scenes: received }));

async function play({ graph, threadId, state, steps }) {
  const agent = new HttpAgent({ url: `${url}/v1/ag-ui/${graph}`, headers, threadId, initialState: state });
  const outcomes = [];
  let runId, resume;
  for (const { send, answer, again, execute, input = {}, dropAt, cancelAt } of steps) {
    if (execute) agent.addMessages(executed(agent, execute));
    if (send) agent.addMessage({ id: crypto.randomUUID(), role: "user", content: send });
    runId = again ? runId : (input.runId ?? crypto.randomUUID());
    if (!again) resume = answer && buildResumeArray(agent.pendingInterrupts, answers(agent, answer));
    const events = [];
    let failure, result;
    const before = again && (await (await fetch(`${url}/v1/runs/${runId}`, { headers })).json()).status;
    const subscriber = {
      onEvent({ event }) {
        events.push(event);
        if (dropAt && event.delta?.includes(dropAt)) agent.abortRun();
        if (cancelAt && event.delta?.includes(cancelAt)) {
          fetch(`${url}/v1/runs/${runId}/cancel`, { method: "POST", headers });
        }
      },
    };
    try {
      ({ result } = await agent.runAgent({ ...input, runId, ...(resume && { resume }) }, subscriber));
    } catch (error) {
      failure = { status: error.status, message: error.message };
    }
    const { messages, pendingInterrupts: pending } = structuredClone(plain(agent));
    outcomes.push({ runId, before, events, messages, pending, result, failure });
  }
  return outcomes;
}

function plain({ messages, pendingInterrupts }) {
  return { messages, pendingInterrupts };
}

/** The results of the calls of these tools, whose messages have the content that is named. */
function executed({ messages }, contents) {
  const answered = new Set(messages.map(({ toolCallId }) => toolCallId));
  return messages
    .flatMap(({ toolCalls }) => toolCalls ?? [])
    .filter((call) => call.function.name in contents && !answered.has(call.id))
    .map(({ id, function: { name } }) => ({
      id: crypto.randomUUID(),
      role: "tool",
      toolCallId: id,
      content: contents[name],
    }));
}

/** The same answer to everything that is asked. */
function answers({ pendingInterrupts }, answer) {
  return Object.fromEntries(pendingInterrupts.map(({ id }) => [id, answer]));
}
