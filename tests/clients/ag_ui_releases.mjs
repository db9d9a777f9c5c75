// Feeds streams to the HttpAgent of releases of @ag-ui/client, and prints what each posted and understood.

import { text } from "node:stream/consumers";

const scenes = JSON.parse(await text(process.stdin));
console.warn = console.error = console.debug = () => {};

const played = [];
for (const scene of scenes) played.push(await play(scene));
process.stdout.write(JSON.stringify(played));

async function play({ client, messages, stream }) {
  const { HttpAgent } = await import(client);
  let posted, failure;
  globalThis.fetch = async (_url, { body }) => {
    posted = JSON.parse(body);
    return new Response(stream, { headers: { "content-type": "text/event-stream" } });
  };
  const agent = new HttpAgent({ url: "http://runtally.test/", threadId: "t-1" });
  agent.messages = messages;
  const events = [];
  const subscriber = { onEvent: ({ event }) => void events.push(event.type) };
  try {
    await agent.runAgent({ runId: "r-1" }, subscriber);
  } catch (error) {
    failure = error.message;
  }
  return { posted, failure, events, messages: agent.messages, pending: agent.pendingInterrupts ?? null };
}
