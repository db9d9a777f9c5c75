// Reads a run's events with packages for event streams, each through a wire that is cut once in the middle.
// Given {url, key, body, readers: [{client, cutAfter}]}; the run has the id of the body. Prints, for each
// reader, the events as it was handed them, and the statuses of its connections.
import { connect, createServer } from "node:net";
import { EventSource } from "eventsource";

const given = JSON.parse(await new Response(process.stdin).text());
const server = new URL(given.url);
const AUTH = { Authorization: `Bearer ${given.key}` };
const path = `/v1/runs/${given.body.runId}/events`;

// The parts of a browser that this package uses.
globalThis.window = globalThis;
globalThis.document = { hidden: false, addEventListener() {}, removeEventListener() {} };
const { fetchEventSource } = await import("@microsoft/fetch-event-source");

const KINDS = [
  ...["run_started", "text_delta", "status", "step", "tool_call_start", "tool_call_result"],
  ...["assistant_final", "error", "interrupted", "done"],
];
const READERS = {
  /** It is not closed: it has to stop by itself. */
  async eventsource(origin, fetching, onEvent) {
    const source = new EventSource(origin + path, { fetch: fetching });
    for (const kind of KINDS) {
      source.addEventListener(kind, (event) => {
        // `error` is also what an EventSource says of its own connection, without data.
        if (event.data !== undefined) onEvent(event.lastEventId, event.type, event.data);
      });
    }
    await new Promise((closed) => {
      source.addEventListener("error", () => source.readyState === EventSource.CLOSED && closed());
    });
  },
  "fetch-event-source": (origin, fetching, onEvent) =>
    fetchEventSource(origin + path, {
      fetch: fetching,
      onmessage: ({ id, event, data }) => onEvent(id, event, data),
    }),
  "fetch-event-source, post": (origin, fetching, onEvent) =>
    fetchEventSource(`${origin}/v1/runs/stream`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(given.body),
      fetch: fetching,
      onmessage: ({ id, event, data }) => onEvent(id, event, data),
    }),
};

const read = await Promise.all(
  given.readers.map(async ({ client, cutAfter }) => {
    const wire = cutWire(cutAfter);
    const origin = await new Promise((listening) => {
      wire.listen(0, "127.0.0.1", () => listening(`http://127.0.0.1:${wire.address().port}`));
    });
    const statuses = [];
    const received = [];
    const fetching = async (input, init) => {
      const response = await fetch(input, { ...init, headers: { ...init.headers, ...AUTH } });
      statuses.push(response.status);
      return response;
    };
    await READERS[client](origin, fetching, (id, type, data) => received.push({ id, type, data: JSON.parse(data) }));
    return { statuses, received };
  }),
);
process.stdout.write(JSON.stringify(read), () => process.exit(0));

/** A server that passes everything on, and cuts its first connection so many bytes after the headers. */
function cutWire(cutAfter) {
  let connections = 0;
  return createServer((client) => {
    const first = ++connections === 1;
    const upstream = connect(Number(server.port), server.hostname);
    let passed = 0;
    let end = Infinity;
    client.pipe(upstream);
    upstream.on("data", (chunk) => {
      if (passed === 0) end = chunk.indexOf("\r\n\r\n") + 4 + cutAfter;
      passed += chunk.length;
      if (first && passed > end) {
        client.write(chunk.subarray(0, chunk.length - (passed - end)), () => client.destroy());
        upstream.destroy();
      } else {
        client.write(chunk);
      }
    });
    upstream.on("end", () => client.end());
    for (const socket of [client, upstream]) socket.on("error", () => {});
  });
}
