// Client: a client of one Runtally server with one API key.
import { Connection, segment, type Call, type ClientOptions } from "./connection.js";
import { InvalidResponse, isObject, RunFailed } from "./errors.js";
import { pause } from "./retries.js";
import { RunStream } from "./stream.js";
import type {
  AcceptedRun,
  Approval,
  ApprovalFilters,
  Balance,
  Batch,
  BatchLine,
  BatchOptions,
  BatchPreview,
  BatchResult,
  Branch,
  Conversation,
  ConversationMessage,
  CreatedBatch,
  Decision,
  Grant,
  Graph,
  GraphFinal,
  LanguageModel,
  Prompt,
  Receipt,
  ReceiptFilters,
  RequestOptions,
  Run,
  RunOptions,
  RunRequest,
  SentMessage,
  Tool,
  UsageOptions,
  UsageReport,
} from "./types.js";

const PAGE_LIMIT = 200;
const WATCH_EVERY_MS = 500;

/** A client. A request that fails for a passing reason is repeated; none is executed twice. */
export class Client {
  readonly conversations: Conversations;
  readonly batches: Batches;
  readonly #connection: Connection;

  constructor(options: ClientOptions = {}) {
    this.#connection = new Connection(options);
    this.conversations = new Conversations(this.#connection);
    this.batches = new Batches(this.#connection);
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

  /** All runs of the account, newest first. */
  listRuns(options: RequestOptions = {}): AsyncGenerator<Run, void, undefined> {
    return each(this.#connection, { method: "GET", path: "/v1/runs", ...options });
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

/** The conversations of an account: the runs with one `stateKey`. */
class Conversations {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** All conversations, most recently used first. */
  list(options: RequestOptions = {}): AsyncGenerator<Conversation, void, undefined> {
    return each(this.#connection, { method: "GET", path: "/v1/sessions", ...options });
  }

  /** One conversation. */
  get(stateKey: string, options: RequestOptions = {}): Promise<Conversation> {
    const query = { limit: 1 };
    return this.#connection.json({ method: "GET", path: `/v1/sessions/${segment(stateKey)}`, query, ...options });
  }

  /** Its messages, tool calls and results, oldest first. */
  messages(stateKey: string, options: RequestOptions = {}): AsyncGenerator<ConversationMessage, void, undefined> {
    return each(this.#connection, { method: "GET", path: `/v1/sessions/${segment(stateKey)}`, ...options }, "messages");
  }

  /** Copy it up to and including the run `at`, or whole. */
  fork(stateKey: string, options: RequestOptions & { at?: string; newKey?: string } = {}): Promise<Conversation> {
    return this.#connection.json({
      method: "POST",
      path: `/v1/sessions/${segment(stateKey)}/fork`,
      body: { at: options.at, stateKey: options.newKey },
      repeatable: false,
      signal: options.signal,
    });
  }

  /** The branches that edited messages and repeated answers have begun, oldest first. */
  async branches(stateKey: string, options: RequestOptions = {}): Promise<Branch[]> {
    const path = `/v1/sessions/${segment(stateKey)}/branches`;
    return pageOf<Branch>(await this.#connection.json({ method: "GET", path, ...options }), "items").items;
  }

  /** What `forConversation` decisions have allowed, newest first. */
  async grants(stateKey: string, options: RequestOptions = {}): Promise<Grant[]> {
    const path = `/v1/sessions/${segment(stateKey)}/grants`;
    return pageOf<Grant>(await this.#connection.json({ method: "GET", path, ...options }), "items").items;
  }

  /** Ask a person about the next call of the tool again. */
  async revoke(stateKey: string, grantId: string, options: RequestOptions = {}): Promise<void> {
    const path = `/v1/sessions/${segment(stateKey)}/grants/${segment(grantId)}`;
    await this.#connection.json({ method: "DELETE", path, repeatable: false, ...options });
  }

  /** Continue it on this branch; a `Conflict` while one of its runs is active. */
  async returnTo(stateKey: string, branchId: string, options: RequestOptions = {}): Promise<Branch[]> {
    const path = `/v1/sessions/${segment(stateKey)}/branch`;
    return pageOf<Branch>(await this.#connection.json({ method: "PUT", path, body: { branchId }, ...options }), "items")
      .items;
  }

  /** Delete its transcript; its runs and receipts stay. */
  async delete(stateKey: string, options: RequestOptions = {}): Promise<void> {
    const path = `/v1/sessions/${segment(stateKey)}`;
    await this.#connection.json({ method: "DELETE", path, repeatable: false, ...options });
  }
}

/** Many requests of one graph at once, each of which is a run. */
class Batches {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Start a run for each line; nothing is started unless all lines are valid. */
  create(lines: BatchLine[], options: BatchOptions = {}): Promise<CreatedBatch> {
    const { signal, ...query } = options;
    const headers = { "Idempotency-Key": newId() };
    return this.#connection.json({ method: "POST", path: "/v1/batches", query, lines, headers, signal });
  }

  /** Check the lines and forecast what they will cost, without starting anything. */
  preview(lines: BatchLine[], options: Omit<BatchOptions, "maxUsd"> = {}): Promise<BatchPreview> {
    const { signal, ...query } = options;
    return this.#connection.json({ method: "POST", path: "/v1/batches/preview", query, lines, signal });
  }

  /** All batches, newest first. */
  list(options: RequestOptions = {}): AsyncGenerator<Batch, void, undefined> {
    return each(this.#connection, { method: "GET", path: "/v1/batches", ...options });
  }

  /** How far a batch has come. */
  get(batchId: string, options: RequestOptions = {}): Promise<Batch> {
    return this.#connection.json({ method: "GET", path: `/v1/batches/${segment(batchId)}`, ...options });
  }

  /** The batch now and whenever it has changed, until it has ended. */
  async *watch(batchId: string, options: RequestOptions = {}): AsyncGenerator<Batch, void, undefined> {
    let seen = "";
    for (;;) {
      const batch = await this.get(batchId, options);
      if (JSON.stringify(batch) !== seen) yield batch;
      if (batch.endedAt !== null) return;
      seen = JSON.stringify(batch);
      await pause(WATCH_EVERY_MS, options.signal);
    }
  }

  /** The items that have ended, in the order of the lines. */
  async results(batchId: string, options: RequestOptions = {}): Promise<BatchResult[]> {
    const path = `/v1/batches/${segment(batchId)}/results`;
    return (await this.#connection.json<BatchResult[] | null>({ method: "GET", path, ...options })) ?? [];
  }

  /** Start no further item and cancel the runs of the others. */
  cancel(batchId: string, options: RequestOptions = {}): Promise<Batch> {
    return this.#connection.json({ method: "POST", path: `/v1/batches/${segment(batchId)}/cancel`, ...options });
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

/** A UUID; `crypto.randomUUID` is missing in pages over plain http. */
function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

function pathOf(runId: string): string {
  return `/v1/runs/${segment(runId)}`;
}

/** Yield the items of all pages; a page is requested when the items before it were taken. */
async function* each<T>(connection: Connection, call: Call, name = "items"): AsyncGenerator<T, void, undefined> {
  let cursor: string | undefined;
  for (;;) {
    const query = { ...call.query, limit: PAGE_LIMIT, cursor };
    const page = pageOf<T>(await connection.json({ ...call, query }), name);
    yield* page.items;
    if (page.nextCursor === undefined) return;
    if (page.nextCursor === cursor) {
      throw new InvalidResponse("The server's list does not end: two pages have the same nextCursor.");
    }
    cursor = page.nextCursor;
  }
}

function pageOf<T>(page: unknown, name: string): { items: T[]; nextCursor: string | undefined } {
  const items = isObject(page) ? page[name] : undefined;
  if (!isObject(page) || !Array.isArray(items)) throw new InvalidResponse(`The server's list has no ${name}.`);
  const { nextCursor } = page;
  return { items: items as T[], nextCursor: typeof nextCursor === "string" ? nextCursor : undefined };
}
