// Runs scenes with the TypeScript client and prints what came of each: what it received, or its error.
import { Client, RuntallyError } from "@runtally/client";

const { key, scenes } = JSON.parse(await new Response(process.stdin).text());

const acts = {
  async stream(client) {
    const stream = client.stream("a:b", "hi");
    const events = [];
    for await (const event of stream) events.push(event);
    return { events, final: stream.final };
  },
  async streamInTwoLoops(client) {
    const stream = client.stream("a:b", "hi");
    const events = [];
    for await (const event of stream) {
      events.push(event);
      break;
    }
    return { events, position: stream.lastEventId, final: await stream.result() };
  },
  async aborted(client) {
    const controller = new AbortController();
    const stream = client.stream("a:b", "hi", { signal: controller.signal });
    for await (const event of stream) controller.abort(new Error(event.type));
  },
  fork: (client) => client.conversations.fork("chat-1"),
  send: (client) => client.send("run-1", "And in Rome?"),
  get: (client) => client.get("a/../../v1/keys?x#y"),
  readFile: (client) => client.readFile("run-1", "bill.txt"),
  badId: (client) => client.get(".."),
  async listRuns(client) {
    const runs = [];
    for await (const run of client.listRuns()) runs.push(run);
    return runs;
  },
};

const played = scenes.map(async ({ url, act, options }) => {
  try {
    return { result: await acts[act](new Client({ baseUrl: url, apiKey: key, ...options })) };
  } catch (error) {
    const { name, message, status, code, errors, requestId, retryAfterMs } = error;
    const ours = error instanceof RuntallyError;
    return { error: { name, message, ours, status, code, errors, requestId, retryAfterMs } };
  }
});
console.log(JSON.stringify(await Promise.all(played)));
