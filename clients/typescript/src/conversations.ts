// The conversations of an account.
import { segment, type Connection } from "./connection.js";
import { each, pageOf } from "./pages.js";
import type {
  Branch,
  Conversation,
  ConversationChange,
  ConversationFiles,
  ConversationFilters,
  ConversationMessage,
  CreatedShare,
  Grant,
  RequestOptions,
  Share,
} from "./types.js";

/** The conversations of an account: the runs with one `stateKey`. */
export class Conversations {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** All conversations that match, most recently used first. */
  list(filters: ConversationFilters = {}): AsyncGenerator<Conversation, void, undefined> {
    const { signal, ...query } = filters;
    return each(this.#connection, { method: "GET", path: "/v1/sessions", query, signal });
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

  /** Rename, pin or archive it; what is left out stays as it is. */
  change(stateKey: string, change: ConversationChange, options: RequestOptions = {}): Promise<Conversation> {
    const path = `/v1/sessions/${segment(stateKey)}`;
    return this.#connection.json({ method: "PATCH", path, body: change, ...options });
  }

  /** All its messages as one document. */
  export(
    stateKey: string,
    format: "markdown" | "json" = "markdown",
    options: RequestOptions = {},
  ): Promise<Uint8Array> {
    const path = `/v1/sessions/${segment(stateKey)}/export`;
    return this.#connection.bytes({ method: "GET", path, query: { format }, ...options });
  }

  /** A link by which anybody reads what it has now, for 30 days by default; needs `runs:share`. */
  share(
    stateKey: string,
    options: RequestOptions & { expiresAt?: Date; withToolCalls?: boolean } = {},
  ): Promise<CreatedShare> {
    const path = `/v1/sessions/${segment(stateKey)}/shares`;
    const { signal, ...body } = options;
    return this.#connection.json({ method: "POST", path, body, repeatable: false, signal });
  }

  /** Its links that have not expired, newest first. */
  async shares(stateKey: string, options: RequestOptions = {}): Promise<Share[]> {
    const path = `/v1/sessions/${segment(stateKey)}/shares`;
    return pageOf<Share>(await this.#connection.json({ method: "GET", path, ...options }), "items").items;
  }

  /** End a link at once. */
  async revokeShare(stateKey: string, shareId: string, options: RequestOptions = {}): Promise<void> {
    const path = `/v1/sessions/${segment(stateKey)}/shares/${segment(shareId)}`;
    await this.#connection.json({ method: "DELETE", path, repeatable: false, ...options });
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

  /** The files that its next turn begins with, if its graph keeps the workspace: those of the run `runId`. */
  files(stateKey: string, options: RequestOptions = {}): Promise<ConversationFiles> {
    return this.#connection.json({ method: "GET", path: `/v1/sessions/${segment(stateKey)}/workspace`, ...options });
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
