// Calls each method of the TypeScript client and prints the first request of each, by the id of its operation.
import { Client, Forbidden } from "@runtally/client";

const graph = "messages:assistant";
const line = { customId: "1", request: { graphId: graph, messages: [{ role: "user", content: "hi" }] } };

const methods = {
  start_run: (client) => client.start(graph, "hi"),
  stream_run: (client) => client.stream(graph, "hi"),
  follow_run: (client) => client.follow("r"),
  preview_run: (client) => client.preview(graph, "hi"),
  list_runs: (client) => client.listRuns({ status: "waiting" }),
  get_run: (client) => client.get("r"),
  delete_run: (client) => client.delete("r"),
  change_run: (client) => client.change("r", { permissionMode: "plan" }),
  run_request: (client) => client.request("r"),
  run_evidence: (client) => client.evidence("r"),
  give_feedback: (client) => client.giveFeedback("r", { rating: "up" }),
  run_receipts: (client) => client.runReceipts("r"),
  send_message: (client) => client.send("r", "hi"),
  interrupt_run: (client) => client.interrupt("r"),
  cancel_run: (client) => client.cancel("r"),
  decide: (client) => client.decide("r", "q", { allow: true }),
  submit_tool_result: (client) => client.submitToolResult("r", "t", 1),
  answer_question: (client) => client.answer("r", "q", null),
  list_approvals: (client) => client.approvals(),
  list_files: (client) => client.files("r"),
  download_file: (client) => client.readFile("r", "a/b.txt"),
  download_archive: (client) => client.archive("r"),
  create_batch: (client) => client.batches.create([line]),
  preview_batch: (client) => client.batches.preview([line]),
  list_batches: (client) => client.batches.list(),
  get_batch: (client) => client.batches.get("b"),
  cancel_batch: (client) => client.batches.cancel("b"),
  delete_batch: (client) => client.batches.delete("b"),
  batch_results: (client) => client.batches.results("b"),
  list_budgets: (client) => client.budgets.list(),
  get_budget: (client) => client.budgets.get("b"),
  set_budget: (client) => client.budgets.set("b", { scope: "account", window: "day", tokens: 1, mode: "hard" }),
  delete_budget: (client) => client.budgets.delete("b"),
  set_top_up: (client) => client.budgets.setTopUp({ belowUsd: "1", amountUsd: "5" }),
  delete_top_up: (client) => client.budgets.deleteTopUp(),
  list_accounts: (client) => client.accounts.list(),
  create_account: (client) => client.accounts.create("a"),
  get_account: (client) => client.accounts.get("a"),
  change_account: (client) => client.accounts.change("a", { retention: { eventsDays: 7 } }),
  grant: (client) => client.accounts.grant("a", { usd: "5" }),
  adjust: (client) => client.accounts.adjust("a", { usd: "-1", note: "n" }),
  list_account_keys: (client) => client.accounts.keys("a"),
  create_key: (client) => client.accounts.createKey("a", { scopes: ["runs:read"] }),
  rotate_key: (client) => client.accounts.rotateKey("k"),
  revoke_key: (client) => client.accounts.revokeKey("k"),
  list_audit_entries: (client) => client.accounts.audit(),
  list_sessions: (client) => client.conversations.list(),
  get_session: (client) => client.conversations.get("s"),
  delete_session: (client) => client.conversations.delete("s"),
  list_branches: (client) => client.conversations.branches("s"),
  return_to_branch: (client) => client.conversations.returnTo("s", "b"),
  list_workspace: (client) => client.conversations.files("s"),
  list_grants: (client) => client.conversations.grants("s"),
  revoke_grant: (client) => client.conversations.revoke("s", "g"),
  change_session: (client) => client.conversations.change("s", { title: "x" }),
  export_session: (client) => client.conversations.export("s"),
  create_share: (client) => client.conversations.share("s"),
  list_shares: (client) => client.conversations.shares("s"),
  revoke_share: (client) => client.conversations.revokeShare("s", "h"),
  fork_session: (client) => client.conversations.fork("s"),
  list_receipts: (client) => client.receipts(),
  usage: (client) => client.usage(),
  balance: (client) => client.balance(),
  list_graphs: (client) => client.graphs(),
  list_tools: (client) => client.tools(),
  list_models: (client) => client.models(),
};

async function firstRequest(call) {
  const sent = [];
  const refuse = async (url, { method }) => {
    sent.push([method, decodeURIComponent(new URL(url).pathname)]);
    return new Response("{}", { status: 403 });
  };
  const client = new Client({ baseUrl: "http://127.0.0.1:1", apiKey: "rt_key", fetch: refuse });
  try {
    const result = call(client);
    await (Symbol.asyncIterator in result ? result[Symbol.asyncIterator]().next() : result);
  } catch (error) {
    if (!(error instanceof Forbidden)) throw error;
  }
  return sent[0];
}

const requests = Object.entries(methods).map(async ([name, call]) => [name, await firstRequest(call)]);
console.log(JSON.stringify(Object.fromEntries(await Promise.all(requests))));
