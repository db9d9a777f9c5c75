// Does with the TypeScript client what test_clients_with_a_server.py does with Python's, and prints what came of it.
import { Client, requireAnswer } from "@runtally/client";

const [baseUrl, apiKey, graph] = process.argv.slice(2);
const client = new Client({ baseUrl, apiKey });

async function all(items) {
  const found = [];
  for await (const item of items) found.push(item);
  return found;
}

async function firstWords(stream) {
  for await (const event of stream) if (event.type === "text_delta") return;
}

const started = await client.start(graph, "hello", { runId: "ts-1" });
const joined = await client.start(graph, "hello", { runId: "ts-1" });
const final = requireAnswer(await client.wait("ts-1"));

async function held(act) {
  const stream = client.stream(graph, "hold on");
  await firstWords(stream);
  await act(stream);
  return await stream.result();
}

const [cancelled, sent, interrupted] = await Promise.all([
  held((stream) => stream.cancel()),
  held((stream) => stream.send("and then", "now")),
  held((stream) => stream.interrupt()),
]);
const tools = ["pick", "break"].map((name) => ({ name, inputSchema: {} }));
const picking = client.stream(graph.replace("assistant", "helper"), "pick", { clientTools: tools });
for await (const event of picking) {
  if (event.type !== "client_tool_call") continue;
  if (event.toolName === "pick") await picking.submitToolResult(event.toolCallId, "blue");
  else await picking.submitToolResult(event.toolCallId, "no", { isError: true });
}
const picked = await picking.result();
const asking = client.stream(graph.replace("assistant", "helper"), "ask");
for await (const event of asking) {
  if (event.type === "question")
    await asking.answer(event.requestId, { [event.questions[0].question]: "Red", 1: ["S", "M"] });
}
const answered = await asking.result();
const helper = (await client.graphs()).find((each) => each.id === graph.replace("assistant", "helper"));
const { content } = await client.run(helper.id, null, { input: { topic: "tea" } });
const runs = await all(client.listRuns({ status: "succeeded", graphId: graph }));
const evidence = await all(client.evidence("ts-1"));
const archives = await Promise.all(["zip", "tar"].map((format) => client.archive("ts-1", { format })));
const previewed = await client.preview(graph, "hello");
const unchanged = await client.change("ts-1", { permissionMode: "plan" }).catch((error) => error.name);
await client.delete("ts-1");

for (const question of ["first", "second"]) await client.run(graph, question, { stateKey: "ts-chat" });
const messages = await all(client.conversations.messages("ts-chat"));
const chats = await all(client.conversations.list({ q: "second", from: new Date(0) }));
const others = await all(client.conversations.list({ q: "third" }));
await client.run(graph, "second, edited", { stateKey: "ts-chat", forkFrom: messages[0].runId });
const branches = await client.conversations.branches("ts-chat");
const returned = await client.conversations.returnTo("ts-chat", branches[0].branchId);
const kept = await client.conversations.files("ts-chat");
const fork = await client.conversations.fork("ts-chat", { at: messages[0].runId, newKey: "ts-fork" });
await client.conversations.delete("ts-chat");
const gone = await client.conversations.get("ts-chat").catch((error) => error.name);

const request = { graphId: graph, messages: [{ role: "user", content: "hi" }] };
const lines = ["a", "b"].map((customId) => ({ customId, request }));
const preview = await client.batches.preview(lines);
const batch = await client.batches.create(lines, { maxUsd: "5", parallelism: 2 });
const states = await all(client.batches.watch(batch.batchId));
const results = await client.batches.results(batch.batchId);
const [listed] = await all(client.batches.list());
const ended = await client.batches.cancel(batch.batchId);
await client.batches.delete(batch.batchId);
const deletedBatch = await client.batches.get(batch.batchId).catch((error) => error.name);

const hour = new Date(Date.now() - 3_600_000);
const receipts = await all(client.receipts({ from: hour }));
const usage = await client.usage({ groupBy: "graph", from: hour });
const cents = (usd) => Math.round(Number(usd) * 1e10);
const sum = receipts.reduce((total, receipt) => total + cents(receipt.costUsd), 0);
const spent = (await client.balance()).spentUsd;
const refused = await client.run(graph, "hi", { priority: 9 }).catch((error) => error);

console.log(
  JSON.stringify({
    final: final.content,
    joined: joined.runId === started.runId,
    cancelled: cancelled.error,
    sent: sent.content,
    interrupted: interrupted.finishReason,
    picked: picked.content,
    answered: answered.content,
    runs: runs.map((run) => run.runId).filter((id) => id === "ts-1"),
    files: [(await client.files("ts-1")).length, ...archives.map((each) => each.length > 0)],
    previewed: previewed.graphId,
    evidence: evidence.some((each) => each.type === "prompt_rendered"),
    unchanged,
    kept: [kept.runId, kept.items.length],
    deletedBatch,
    deleted: (await client.get("ts-1")).contentsDeletedAt !== null,
    others: others.length,
    turns: chats.find((chat) => chat.stateKey === "ts-chat").turns,
    types: messages.map((message) => message.type),
    batch: [preview.items, states.at(-1).status, listed.counts.succeeded, ended.status],
    results: results.map(({ customId, status }) => `${customId} ${status}`),
    branches: [branches, returned].map((each) => each.map((branch) => branch.isCurrent)),
    fork: [fork.turns, fork.forkedFrom],
    gone,
    costsAgree: sum === cents(usage.total.costUsd) && sum === cents(spent) && sum > 0,
    ofRun: (await client.runReceipts("ts-1")).length,
    fromInput: [helper.title, content],
    graphs: (await client.graphs()).some((each) => each.id === graph),
    tools: (await client.tools()).some((each) => each.id === "core__calculate"),
    models: (await client.models()).some((each) => each.priced),
    refused: [refused.name, refused.errors[0].field],
  }),
);
