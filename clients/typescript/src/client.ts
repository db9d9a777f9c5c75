// Client: a client of one Runtally server with one API key.
import { Accounts } from "./accounts.js";
import { Batches } from "./batches.js";
import { Budgets } from "./budgets.js";
import { Connection, newId, segment, type Call, type ClientOptions } from "./connection.js";
import { Conversations } from "./conversations.js";
import { RunFailed } from "./errors.js";
import { each, pageOf } from "./pages.js";
import { RunStream } from "./stream.js";
import type {
  AcceptedRun,
  Approval,
  ApprovalFilters,
  Balance,
  Decision,
  Evidence,
  Feedback,
  Graph,
  GraphFinal,
  LanguageModel,
  Prompt,
  Receipt,
  ReceiptFilters,
  RequestOptions,
  Run,
  RunChange,
  RunFile,
  RunFilters,
  RunOptions,
  RunPreview,
  RunRequest,
  SentMessage,
  Tool,
  UsageOptions,
  UsageReport,
} from "./types.js";

/** A client. A request that fails for a passing reason is repeated; none is executed twice. */
export class Client {
  readonly conversations: Conversations;
  readonly batches: Batches;
  readonly budgets: Budgets;
  readonly accounts: Accounts;
  readonly #connection: Connection;

  constructor(options: ClientOptions = {}) {
    this.#connection = new Connection(options);
    this.conversations = new Conversations(this.#connection);
    this.batches = new Batches(this.#connection);
    this.budgets = new Budgets(this.#connection);
    this.accounts = new Accounts(this.#connection);
  }

  /** Run a graph and wait for its end. A connection that is lost meanwhile neither loses nor doubles the run. */
  run(graphId: string, prompt: Prompt, options: RunOptions = {}): Promise<GraphFinal> {
    return this.stream(graphId, prompt, options).result();
  }

  /** Run a graph and stream its events; the request is sent when the first one is read. */
  stream(graphId: string, prompt: Prompt, options: RunOptions = {}): RunStream {
    const { runId, request } = requestOf(graphId, prompt, options);
    return new RunStream(this, this.#connection, { runId, request, signal: options.signal });
  }

  /** Start a run in the background. */
  start(graphId: string, prompt: Prompt, options: RunOptions = {}): Promise<AcceptedRun> {
    const { request } = requestOf(graphId, prompt, options);
    return this.#connection.json({ method: "POST", path: "/v1/runs", body: request, signal: options.signal });
  }

  /** Stream the events of a run after a position. */
  follow(runId: string, options: RequestOptions & { after?: number } = {}): RunStream {
    return new RunStream(this, this.#connection, { runId, ...options });
  }

  /** Wait for the end of a run. */
  async wait(runId: string, options: RequestOptions = {}): Promise<GraphFinal> {
    const { final } = await this.get(runId, options);
    return final ?? this.follow(runId, options).result();
  }

  get(runId: string, options: RequestOptions = {}): Promise<Run> {
    return this.#connection.json({ method: "GET", path: pathOf(runId), ...options });
  }

  /** All runs that match, newest first. */
  listRuns(filters: RunFilters = {}): AsyncGenerator<Run, void, undefined> {
    const { signal, ...query } = filters;
    return each(this.#connection, { method: "GET", path: "/v1/runs", query, signal });
  }

  /** Plan a run and forecast its cost, without starting it. */
  preview(graphId: string, prompt: Prompt, options: RunOptions = {}): Promise<RunPreview> {
    const { request } = requestOf(graphId, prompt, options);
    return this.#connection.json({ method: "POST", path: "/v1/runs/preview", body: request, signal: options.signal });
  }

  /** The request that has started a run, without its files and metadata. */
  request(runId: string, options: RequestOptions = {}): Promise<RunRequest> {
    return this.#connection.json({ method: "GET", path: `${pathOf(runId)}/request`, ...options });
  }

  /** What a run did, oldest first: prompts, capabilities and decisions; needs `runs:audit`. */
  evidence(runId: string, options: RequestOptions = {}): AsyncGenerator<Evidence, void, undefined> {
    return each(this.#connection, { method: "GET", path: `${pathOf(runId)}/evidence`, ...options });
  }

  /** The files that the agent of a run has left in its workspace. */
  async files(runId: string, options: RequestOptions = {}): Promise<RunFile[]> {
    return this.#items({ method: "GET", path: `${pathOf(runId)}/files`, ...options });
  }

  /** The content of a file of a run's workspace. */
  readFile(runId: string, path: string, options: RequestOptions = {}): Promise<Uint8Array> {
    const name = path.split("/").map(segment).join("/");
    return this.#connection.bytes({ method: "GET", path: `${pathOf(runId)}/files/${name}`, ...options });
  }

  /** All files of a run's workspace as one archive. */
  archive(runId: string, options: RequestOptions & { format?: "zip" | "tar" } = {}): Promise<Uint8Array> {
    const { format, signal } = options;
    return this.#connection.bytes({ method: "GET", path: `${pathOf(runId)}/archive`, query: { format }, signal });
  }

  /** Keep what a person thinks of the answer of a run, in place of what they thought before. */
  giveFeedback(
    runId: string,
    feedback: { rating: "up" | "down"; note?: string },
    options: RequestOptions = {},
  ): Promise<Feedback> {
    return this.#connection.json({ method: "PUT", path: `${pathOf(runId)}/feedback`, body: feedback, ...options });
  }

  /** Change how further tool calls of a run are decided, within what its graph allows. */
  async change(runId: string, change: RunChange, options: RequestOptions = {}): Promise<void> {
    await this.#connection.json({ method: "PATCH", path: pathOf(runId), body: change, ...options });
  }

  /** Delete the contents of an ended run: request, answer, events and files. */
  async delete(runId: string, options: RequestOptions = {}): Promise<void> {
    await this.#connection.json({ method: "DELETE", path: pathOf(runId), ...options });
  }

  /** Cancel a run: it ends with `aborted`. */
  cancel(runId: string, options: RequestOptions = {}): Promise<AcceptedRun> {
    return this.#connection.json({ method: "POST", path: `${pathOf(runId)}/cancel`, ...options });
  }

  /** Stop the current turn of a run, with `after` once a tool at work has finished; messages that wait are next. */
  interrupt(runId: string, options: RequestOptions & { after?: "tool" } = {}): Promise<AcceptedRun> {
    const { after, ...rest } = options;
    const body = after === undefined ? undefined : { after };
    return this.#connection.json({ method: "POST", path: `${pathOf(runId)}/interrupt`, body, ...rest });
  }

  /** Send a message to a running agent, once. */
  send(
    runId: string,
    text: string,
    options: RequestOptions & { priority?: "now" | "next" | "later" } = {},
  ): Promise<SentMessage> {
    return this.#connection.json({
      method: "POST",
      path: `${pathOf(runId)}/messages`,
      body: { content: text, priority: options.priority ?? "next" },
      headers: { "Idempotency-Key": newId() },
      signal: options.signal,
    });
  }

  /** Allow or deny a tool call that waits for consent. */
  async decide(runId: string, requestId: string, decision: Decision): Promise<void> {
    const { allow, args, message, stop, forConversation, signal } = decision;
    const allowed = forConversation ? "allow_conversation" : "allow";
    await this.#connection.json({
      method: "POST",
      path: `${pathOf(runId)}/permissions/${segment(requestId)}`,
      body: { decision: allow ? allowed : "deny", args, message, stop },
      signal,
    });
  }

  /**
   * Answer a `question`, by the text of each question or its index: an option's label, several of them where the question takes
   * several, or any other text. `null` declines to.
   */
  async answer(
    runId: string,
    requestId: string,
    answers: Record<string, string | string[]> | null,
    options: RequestOptions = {},
  ): Promise<void> {
    await this.#connection.json({
      method: "POST",
      path: `${pathOf(runId)}/questions/${segment(requestId)}`,
      body: { answers },
      signal: options.signal,
    });
  }

  /** Answer a `client_tool_call`: any JSON for the model, or with `isError` why the call has failed. */
  async submitToolResult(
    runId: string,
    toolCallId: string,
    result: unknown,
    options: RequestOptions & { isError?: boolean } = {},
  ): Promise<void> {
    await this.#connection.json({
      method: "POST",
      path: `${pathOf(runId)}/tool-results/${segment(toolCallId)}`,
      body: { result, isError: options.isError ?? false },
      signal: options.signal,
    });
  }

  /** What waits for a person, newest first; `decide`, `answer` and `submitToolResult` answer it. */
  approvals(filters: ApprovalFilters = {}): AsyncGenerator<Approval, void, undefined> {
    const { signal, ...query } = filters;
    return each(this.#connection, { method: "GET", path: "/v1/approvals", query, signal });
  }

  /** All receipts that match, newest first. */
  receipts(filters: ReceiptFilters = {}): AsyncGenerator<Receipt, void, undefined> {
    const { signal, ...query } = filters;
    return each(this.#connection, { method: "GET", path: "/v1/receipts", query, signal });
  }

  /** The receipts of a run, oldest first. */
  async runReceipts(runId: string, options: RequestOptions = {}): Promise<Receipt[]> {
    return this.#items({ method: "GET", path: `${pathOf(runId)}/receipts`, ...options });
  }

  /** Sums over receipts; without `groupBy` only the total. */
  usage(options: UsageOptions = {}): Promise<UsageReport> {
    const { signal, ...query } = options;
    return this.#connection.json({ method: "GET", path: "/v1/usage", query, signal });
  }

  /** The account's credit. */
  balance(options: RequestOptions = {}): Promise<Balance> {
    return this.#connection.json({ method: "GET", path: "/v1/balance", ...options });
  }

  graphs(options: RequestOptions = {}): Promise<Graph[]> {
    return this.#items({ method: "GET", path: "/v1/graphs", ...options });
  }

  tools(options: RequestOptions = {}): Promise<Tool[]> {
    return this.#items({ method: "GET", path: "/v1/tools", ...options });
  }

  models(options: RequestOptions = {}): Promise<LanguageModel[]> {
    return this.#items({ method: "GET", path: "/v1/models", ...options });
  }

  async #items<T>(call: Call): Promise<T[]> {
    return pageOf<T>(await this.#connection.json(call), "items").items;
  }
}

/** The result itself; throws `RunFailed` for a run without an answer. */
export function requireAnswer(final: GraphFinal): GraphFinal {
  if (!final.ok) throw new RunFailed(final);
  return final;
}

function requestOf(graphId: string, prompt: Prompt, options: RunOptions): { runId: string; request: RunRequest } {
  const { signal: _, ...rest } = options;
  const runId = rest.runId ?? newId();
  if (prompt === null) return { runId, request: { ...rest, runId, graphId } };
  const messages = typeof prompt === "string" ? [{ role: "user" as const, content: prompt }] : prompt;
  return { runId, request: { ...rest, runId, graphId, messages } };
}

function pathOf(runId: string): string {
  return `/v1/runs/${segment(runId)}`;
}
