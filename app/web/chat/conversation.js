// Conversation: the turns of a conversation, and requests that change it.

/** @import { Answers, Decision } from "../runs/answers.js" */
/** @import { CallResult } from "../runs/evidence.js" */
/** @import { Branch } from "./answers/branches.js" */
/** @import { Permission } from "../runs/run_state.js" */

import { ApiError, apiPath, get, post, put, remove } from "../api.js";
import { followRun } from "../runs/event_stream.js";
import { RunState } from "../runs/run_state.js";
import { total } from "./cost.js";
import { apiProblem } from "./messages.js";

const RECEIPTS_DELAY_MS = 1200;
/** As many as the API gives: each further request waits for the one before. */
const MESSAGES_AT_ONCE = 1000;

/**
 * A user message and the run that answers it. `runId` is empty for messages that belong to no run.
 * `hasEvents`: `run` holds all events, also of subagents. `since`: when this tab has started it (`performance.now()`).
 * `attachments` are names.
 * @typedef {{runId: string, question: string | null, run: RunState, graphId: string | null,
 *   costUsd: string | null, hasEvents?: boolean, since?: number, attachments?: string[],
 *   feedback?: Schemas["FeedbackResponse"] | null}} Turn
 */

/** What a run may have besides its message. @typedef {Pick<Schemas["GraphRunRequest"], "model" | "effort">} RunChoices */
/** A file that is sent, and its name. @typedef {{part: Schemas["ImagePart"] | Schemas["DocumentPart"], name: string}} Attached */
/** @typedef {{text: string, attached: Attached[]}} Message */
/** @typedef {"up" | "down"} Rating */
/** @typedef {(turn: Turn, rating: Rating, note?: string) => Promise<boolean>} GiveFeedback */
/** @typedef {{onChange: () => void, onRunEnd: (turn: Turn) => void}} Listeners */
/** @typedef {Schemas["ConversationDetailResponse"]} Detail */

/**
 * The actions on a conversation; null for those that the API key does not allow. `send` resolves to whether the
 * message was sent.
 * @typedef {object} Actions
 * @property {(graphId: string) => string} nameOfAgent
 * @property {(turn: Turn) => Promise<void>} loadEvents
 * @property {((turn: Turn, toolCallId: string) => Promise<CallResult | null>) | null} findResult
 * @property {((text: string, attached: Attached[]) => Promise<boolean>) | null} send
 * @property {((turn: Turn) => void) | null} retry
 * @property {(() => void) | null} stop
 * @property {((turn: Turn, permission: Permission, decision: Decision) => Promise<void>) | null} decide
 * @property {((turn: Turn, requestId: string, answers: Answers | null) => Promise<void>) | null} answer
 * @property {((turn: Turn) => void) | null} fork
 * @property {((turn: Turn) => void) | null} regenerate
 * @property {((turn: Turn, text: string) => Promise<void>) | null} edit
 * @property {((branchId: string) => void) | null} chooseBranch
 * @property {GiveFeedback | null} giveFeedback
 * @property {boolean} showsReceipts whether it may read receipts
 * @property {boolean} forecasts whether it may ask what a run will cost
 * @property {(() => void) | null} remove
 */

/** Every change calls `onChange()`, every end of a run `onRunEnd(turn)`. */
export class Conversation {
  /** @param {string} key @param {Listeners} listeners */
  constructor(key, { onChange, onRunEnd }) {
    this.key = key;
    /** @type {string | null} */
    this.title = null;
    /** @type {Turn[]} */
    this.turns = [];
    /** All of the conversation, oldest first; none if it has never been forked. @type {Branch[]} */
    this.branches = [];
    this.loading = false;
    /** @type {string | null} */
    this.problem = null;
    this.connectionLost = false;
    /** How many tokens it has for the model, of how many it may have. @type {{used: number, window: number} | null} */
    this.context = null;
    this._onChange = onChange;
    this._onRunEnd = onRunEnd;
    /** @type {Map<string, () => void>} */
    this._stops = new Map();
    this._closed = false;
    /** The newest run that `catchUp` has found. @type {string | null} */
    this._lastRun = null;
  }

  /** The turns whose run has not ended, oldest first. */
  get open() {
    return this.turns.filter((turn) => !turn.run.done);
  }

  /** The total cost; null if unknown. */
  get costUsd() {
    return this.turns.length ? total(this.turns.map((turn) => turn.costUsd)) : null;
  }

  /** Read the conversation, and follow the runs that have not ended. */
  async load() {
    this.loading = true;
    this._onChange();
    try {
      await this._read();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.problem = apiProblem(error);
    }
    this.loading = false;
    this._onChange();
  }

  /** Throws `ApiError`. */
  async _read() {
    const found = await readAllPages(this.key);
    this.title = found.title;
    if (found.branches > 1) await this._readBranches();
    this.turns = turnsOf(found.messages);
    for (const turn of this.open) this._follow(turn);
    const last = this.turns.at(-1);
    if (last?.run.done && last.runId) void this._readEnd(last);
  }

  /** Read what was said elsewhere since the conversation was read. Throws `ApiError`. */
  async catchUp() {
    if (this.turns.length === 0 || this.open.length > 0) return;
    const [last] = (await get(apiPath("/v1/runs", { stateKey: this.key, limit: 1 }))).items;
    if (last?.contentsDeletedAt) {
      // Perhaps with all of the conversation.
      this.turns = [];
      return this.load();
    }
    const shown = this.turns.find(({ runId }) => runId === last?.runId);
    if (shown) return this._keepEnd(shown, last);
    // It may be on another branch, and is looked for once.
    if (last === undefined || last.runId === this._lastRun || this._closed) return;
    this._lastRun = last.runId;
    await this._read();
    this._onChange();
  }

  async _readBranches() {
    this.branches = (await get(apiPath("/v1/sessions/{stateKey}/branches", { stateKey: this.key }))).items;
  }

  /** Stop following runs. */
  close() {
    this._closed = true;
    for (const stop of this._stops.values()) stop();
    this._stops.clear();
  }

  /**
   * Start a run, or send a message to the running one. Throws `ApiError`.
   * @param {Message} message
   * @param {string} graphId
   * @param {RunChoices} choices
   */
  async send(message, graphId, choices) {
    const busy = this.open.at(-1);
    if (!busy) return this._start(message, { graphId, choices });
    try {
      await this._sendToRun(busy.run, message);
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== "run_ended") throw error;
      await this._start(message, { graphId, choices });
    }
  }

  /**
   * Answer the question of a turn again, or with `text` another one in its place. What followed stays on another
   * branch. Throws `ApiError`.
   * @param {Turn} turn
   * @param {string} graphId
   * @param {string} [text]
   */
  async replace(turn, graphId, text) {
    await this._start(text === undefined ? null : { text, attached: [] }, { graphId, instead: turn });
    await this._readBranches();
    this._onChange();
  }

  /** Continue on another branch. Throws `ApiError`. @param {string} branchId */
  async chooseBranch(branchId) {
    await put(apiPath("/v1/sessions/{stateKey}/branch", { stateKey: this.key }), { branchId });
    await this._read();
    this._onChange();
  }

  /** Keep what a person thinks of an answer. Throws `ApiError`. @type {(...given: Parameters<GiveFeedback>) => Promise<void>} */
  async giveFeedback(turn, rating, note) {
    turn.feedback = await put(apiPath("/v1/runs/{runId}/feedback", { runId: turn.runId }), { rating, note });
    this._onChange();
  }

  /** Interrupt the current turn; if that has been requested already, cancel the run. */
  async stop() {
    for (const { run } of this.open) {
      const kind = run.stopping === "interrupt" ? "cancel" : "interrupt";
      const before = run.stopping;
      run.stopping = kind;
      this._onChange();
      try {
        await post(apiPath(`/v1/runs/{runId}/${kind}`, { runId: run.runId }), undefined);
      } catch (error) {
        run.stopping = before;
        this._onChange();
        throw error;
      }
    }
  }

  /**
   * Read the events of a run's subagents, which the conversation does not contain.
   * @param {Turn} turn
   */
  async loadEvents(turn) {
    const run = new RunState(turn.runId);
    await /** @type {Promise<void>} */ (
      new Promise((resolve, reject) => {
        const stop = followRun(turn.runId, {
          onEvent: (event) => {
            run.apply(event);
            if (event.type === "done") resolve();
          },
          onConnection: () => {},
          onFailure: reject,
        });
        this._stops.set(`events ${turn.runId}`, stop);
      })
    );
    turn.run = run;
    turn.hasEvents = true;
    this._onChange();
  }

  /**
   * Copy the conversation up to a turn; returns the key of the copy. Throws `ApiError`.
   * @param {Turn} turn
   */
  async fork(turn) {
    const copy = await post(apiPath("/v1/sessions/{stateKey}/fork", { stateKey: this.key }), { at: turn.runId });
    return copy.stateKey;
  }

  /** Delete the conversation. Throws `ApiError`. */
  async delete() {
    await remove(apiPath("/v1/sessions/{stateKey}", { stateKey: this.key }));
  }

  /**
   * Start a run at the end, or in place of another one; without a message it answers that one's question.
   * @param {Message | null} message
   * @param {{graphId: string, choices?: RunChoices, instead?: Turn}} options
   */
  async _start(message, { graphId, choices, instead }) {
    const runId = newKey();
    const question = message?.text ?? instead?.question ?? null;
    const attachments = message ? message.attached.map(({ name }) => name) : instead?.attachments;
    const run = new RunState(runId);
    /** @type {Turn} */
    const turn = {
      runId,
      question,
      attachments,
      graphId,
      run,
      costUsd: null,
      hasEvents: true,
      since: performance.now(),
    };
    const before = this.turns;
    const place = instead === undefined ? before.length : before.indexOf(instead);
    this.turns = [...before.slice(0, place), turn];
    this._onChange();
    try {
      const messages = message ? [{ role: /** @type {const} */ ("user"), content: contentOf(message) }] : undefined;
      const forkFrom = instead?.runId;
      await post(apiPath("/v1/runs"), { ...choices, graphId, stateKey: this.key, runId, messages, forkFrom });
    } catch (error) {
      this.turns = before;
      this._onChange();
      throw error;
    }
    this.title ??= question?.slice(0, 120) ?? null;
    this._follow(turn);
    this._onChange();
  }

  /** @param {RunState} run @param {Message} sent */
  async _sendToRun(run, sent) {
    const message = run.addPendingMessage(
      sent.text,
      sent.attached.map(({ name }) => name),
    );
    this._onChange();
    try {
      const path = apiPath("/v1/runs/{runId}/messages", { runId: run.runId });
      const { messageId } = await post(path, { content: contentOf(sent) });
      message.messageId = messageId;
    } catch (error) {
      run.removePendingMessage(message);
      this._onChange();
      throw error;
    }
  }

  /** @param {Turn} turn */
  _follow(turn) {
    if (this._closed) return;
    const stop = followRun(turn.runId, {
      onEvent: (event) => {
        turn.run.apply(event);
        if (event.type === "done") this._end(turn);
        this._onChange();
      },
      onConnection: (lost) => {
        if (this.connectionLost === lost) return;
        this.connectionLost = lost;
        this._onChange();
      },
      onFailure: (error) => {
        this.problem = apiProblem(error);
        turn.run.done = true;
        this._onChange();
      },
    });
    this._stops.set(turn.runId, stop);
  }

  /** @param {Turn} turn */
  _end(turn) {
    this._onRunEnd(turn);
    // Receipts are in the database within a second of the end.
    const timer = setTimeout(() => this._readEnd(turn), RECEIPTS_DELAY_MS);
    this._stops.set(turn.runId, () => clearTimeout(timer));
  }

  /** What a run has cost, and the context that it leaves. @param {Turn} turn */
  async _readEnd(turn) {
    const found = await get(apiPath("/v1/runs/{runId}", { runId: turn.runId })).catch(() => null);
    if (found !== null) this._keepEnd(turn, found);
  }

  /** @param {Turn} turn @param {Schemas["RunResponse"]} found */
  _keepEnd(turn, found) {
    turn.costUsd = found.billing?.costUsd ?? turn.costUsd;
    const { contextUsed, contextWindow } = found.final ?? {};
    this.context = contextUsed && contextWindow ? { used: contextUsed, window: contextWindow } : null;
    this._onChange();
  }
}

/** The text after what it is about. @param {Message} message */
function contentOf({ text, attached }) {
  if (attached.length === 0) return text;
  const parts = attached.map(({ part }) => part);
  return text ? [...parts, { type: /** @type {const} */ ("text"), text }] : parts;
}

/** A random key; `crypto.randomUUID` exists only on https pages. */
export function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * The conversation with the messages of all pages.
 * @param {string} stateKey
 */
async function readAllPages(stateKey) {
  const pageAt = (/** @type {string | null} */ cursor) =>
    get(apiPath("/v1/sessions/{stateKey}", { stateKey, limit: MESSAGES_AT_ONCE, cursor }));
  const found = await pageAt(null);
  for (let cursor = found.nextCursor; cursor !== null;) {
    const page = await pageAt(cursor);
    found.messages.push(...page.messages);
    cursor = page.nextCursor;
  }
  return found;
}

/**
 * The turns of a conversation, from the messages that the API lists.
 * @param {Detail["messages"]} messages
 * @returns {Turn[]}
 */
function turnsOf(messages) {
  /** @type {Turn[]} */
  const turns = [];
  for (const message of messages) {
    let turn = turns.at(-1);
    if (message.type === "result") {
      if (turn !== undefined) end(turn, message);
      continue;
    }
    const runId = message.runId ?? "";
    if (turn === undefined || turn.runId !== runId) {
      turn = { runId, question: null, graphId: null, run: new RunState(runId), costUsd: null };
      turns.push(turn);
    }
    if (message.type === "user_message" && turn.question === null && !turn.run.items.length) {
      turn.question = message.content ?? "";
      turn.attachments = message.attachments?.map(({ title, mediaType, type }) => title ?? mediaType ?? type);
    } else {
      turn.run.addStoredMessage(message);
    }
  }
  return turns;
}

/** @param {Turn} turn @param {Schemas["RunResultResponse"]} result */
function end(turn, result) {
  turn.graphId = result.graphId;
  turn.costUsd = result.costUsd;
  turn.feedback = result.feedback;
  if (result.finishReason === null) {
    // It has not ended: its events contain all messages.
    turn.run = new RunState(turn.runId);
    turn.hasEvents = true;
    return;
  }
  Object.assign(turn.run, { done: true, error: result.error, finishReason: result.finishReason });
}
