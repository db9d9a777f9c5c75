// Reads a run's events with the `eventsource` package, through a wire that is cut once in the middle.
// Given {url, key, runId, cutAfter}; prints the events as it was handed them.
import { connect, createServer } from "node:net";
import { EventSource } from "eventsource";

const given = JSON.parse(await new Response(process.stdin).text());
const server = new URL(given.url);
let connections = 0;

const wire = createServer((client) => {
  const first = ++connections === 1;
  const upstream = connect(Number(server.port), server.hostname);
  let passed = 0;
  client.pipe(upstream);
  upstream.on("data", (chunk) => {
    passed += chunk.length;
    if (first && passed > given.cutAfter) {
      client.write(chunk.subarray(0, chunk.length - (passed - given.cutAfter)), () => client.destroy());
      upstream.destroy();
    } else {
      client.write(chunk);
    }
  });
  upstream.on("end", () => client.end());
  for (const socket of [client, upstream]) socket.on("error", () => {});
});
await new Promise((listening) => wire.listen(0, "127.0.0.1", listening));

const kinds = [
  ...["run_started", "text_delta", "status", "step", "tool_call_start", "tool_call_result"],
  ...["assistant_final", "error", "interrupted", "done"],
];
const source = new EventSource(`http://127.0.0.1:${wire.address().port}/v1/runs/${given.runId}/events`, {
  fetch: (input, init) => fetch(input, { ...init, headers: { ...init.headers, Authorization: `Bearer ${given.key}` } }),
});
const received = [];
await new Promise((done) => {
  for (const kind of kinds) {
    source.addEventListener(kind, (event) => {
      // `error` is also what an EventSource says of its own connection, without data.
      if (event.data === undefined) return;
      received.push({ id: event.lastEventId, type: event.type, data: JSON.parse(event.data) });
      if (kind === "done") done();
    });
  }
});
source.close();
wire.close();
process.stdout.write(JSON.stringify({ connections, received }), () => process.exit(0));
