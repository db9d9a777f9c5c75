// What the clients of MCP's authors make of our tasks: node mcp_tasks.mjs URL KEY TOOL MODE. Prints one JSON object.
// MODE is "auto" or "legacy" for that of the package for tasks, without and with sessions, or "older" for their first library.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { createTaskSessionFromClient } from "@modelcontextprotocol/ext-tasks/client";
import { Client as OlderClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as OlderTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const [url, key, tool, mode] = process.argv.slice(2);
const endpoint = `${url}/mcp`;
const authorization = { Authorization: `Bearer ${key}` };
const clientInfo = { name: "story", version: "1" };
const clientCapabilities = { elicitation: {} };

/** The path of requests that its guide leaves to the host, for the revision without sessions. */
async function rawDispatch(request) {
  const { method, params } = request;
  const headers = {
    ...authorization,
    "Content-Type": "application/json",
    Accept: "application/json, text/event-stream",
  };
  headers["MCP-Protocol-Version"] = "2026-07-28";
  headers["Mcp-Method"] = method;
  headers["Mcp-Name"] = params.name ?? params.taskId;
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, ...request });
  const answer = await (await fetch(endpoint, { method: "POST", headers, body })).json();
  return answer.error ? { kind: "error", error: answer.error } : { kind: "result", result: answer.result };
}

async function connected() {
  const client = new Client(clientInfo, { capabilities: clientCapabilities, versionNegotiation: { mode } });
  await client.connect(
    new StreamableHTTPClientTransport(new URL(endpoint), { requestInit: { headers: authorization } }),
  );
  const isModern = client.getProtocolEra() === "modern";
  const framing = { protocolVersion: "2026-07-28", clientInfo, clientCapabilities };
  return createTaskSessionFromClient(client, {
    endpointId: "runtally",
    tools: { currentTool: () => ({ name: tool, inputSchema: {}, taskSupport: "optional" }) },
    async onInputRequest(asked) {
      forms.push(asked.params.message);
      return { action: "accept", content: { approved: true } };
    },
    ...(isModern ? { rawDispatch, v2RequestFraming: framing } : {}),
  });
}

/** In sessions this client shows no form of a task; its user follows the link. */
async function decideOnPage(task) {
  if (mode !== "legacy" || forms.length || !task?.statusMessage?.includes(`${url}/approvals?runId=${task.taskId}`))
    return;
  forms.push(task.statusMessage);
  const { items } = await (await fetch(`${url}/v1/approvals`, { headers: authorization })).json();
  const headers = { ...authorization, "Content-Type": "application/json" };
  const decision = JSON.stringify({ decision: "allow" });
  await fetch(`${url}/v1/runs/${task.taskId}/permissions/${items[0].requestId}`, {
    method: "POST",
    headers,
    body: decision,
  });
}

async function handedOver() {
  const first = await connected();
  const asTask = { task: { preference: "require" } };
  const begun = await first.callTool(tool, { message: "write" }, asTask);
  let reference;
  await begun.handoff((persisted) => {
    reference = persisted;
  });

  const later = await connected();
  const resumed = await later.resumeTask(reference, { executionId: "again" });
  const { outcome } = await resumed.settle({ onEvent: ({ task }) => decideOnPage(task) });
  const stopped = await later.callTool(tool, { message: "never mind" }, asTask);
  await stopped.cancel();
  const unknown = await later.resumeTask({ ...reference, taskId: "none" }).catch((error) => error.code);
  return { task: reference.taskId, stopped: stopped.handle.taskId, text: outcome.result.content[0].text, unknown };
}

async function streamed() {
  const client = new OlderClient(clientInfo, { capabilities: clientCapabilities });
  client.setRequestHandler(ElicitRequestSchema, (request) => {
    forms.push(request.params.message);
    return { action: "accept", content: { approved: true } };
  });
  await client.connect(new OlderTransport(new URL(endpoint), { requestInit: { headers: authorization } }));
  await client.listTools();
  const { tasks } = client.experimental;
  const seen = {};
  for await (const each of tasks.callToolStream({ name: tool, arguments: { message: "write" } }, undefined, {
    task: {},
  })) {
    Object.assign(seen, { [each.type]: each });
  }
  const stopping = tasks.callToolStream({ name: tool, arguments: { message: "never mind" } }, undefined, { task: {} });
  const { task } = (await stopping.next()).value;
  await tasks.cancelTask(task.taskId);
  const listed = (await tasks.listTasks()).tasks.map((each) => [each.taskId, each.status]);
  const unknown = await tasks.getTask("none").catch((error) => error.code);
  const text = seen.result.result.content[0].text;
  return { task: seen.taskCreated.task.taskId, stopped: task.taskId, text, unknown, listed };
}

const forms = [];
const found = await (mode === "older" ? streamed() : handedOver());
console.log(JSON.stringify({ ...found, forms }));
process.exit();
